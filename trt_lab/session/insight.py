"""What an engine is made of and where its time goes."""

from __future__ import annotations

import pandas as pd

from trt_lab.errors import UsageError
from trt_lab.frames import layer_map_frame, layers_frame, times_frame
from trt_lab.profiling.source import Engine, engine_of
from trt_lab.record import Record
from trt_lab.session.engines import Engines


class Insight(Engines):
    """The part of a session that looks into engines; see `Session`."""

    def layers(self, record: Record | None = None) -> pd.DataFrame:
        """Layers of an engine, one row each, with their times where it was profiled. Raises UsageError."""
        chosen = self.newest(record)
        frame, times = layers_frame(chosen), times_frame(chosen)
        return frame.merge(times[["index", "average_ms", "median_ms", "share"]], on="index", how="left")

    def engine(self, record: Record | None = None) -> Engine:
        """The newest engine, or that of `record`, joined with the graph. Raises UsageError when nothing was built."""
        chosen = self.newest(record)
        own = chosen.meta.model.hash == self.model.hash
        return engine_of(chosen, view=self.view if own else None)

    def map(self, record: Record | None = None) -> pd.DataFrame:
        """Which ONNX nodes went into which layers; see `frames.layer_map_frame`.

        A row is a link with its source, role and confidence; or a layer or node without one, with the reason.

        Raises:
            UsageError: Nothing was built, or the record's model is neither this one nor kept with it.
        """
        engine = self.engine(record)
        if engine.map is None or engine.view is None:
            raise UsageError(f"{engine.label}: {'; '.join(engine.notes) or 'its model is not known'}")
        return layer_map_frame(engine.map, engine.view)
