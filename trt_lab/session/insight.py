"""What an engine is made of and where its time goes."""

from __future__ import annotations

import pandas as pd

from trt_lab.frames import layers_frame, times_frame
from trt_lab.record import Record
from trt_lab.session.engines import Engines


class Insight(Engines):
    """The part of a session that looks into engines; see `Session`."""

    def layers(self, record: Record | None = None) -> pd.DataFrame:
        """Layers of an engine, one row each, with their times where it was profiled. Raises UsageError."""
        chosen = self.newest(record)
        frame, times = layers_frame(chosen), times_frame(chosen)
        return frame.merge(times[["index", "average_ms", "median_ms", "share"]], on="index", how="left")
