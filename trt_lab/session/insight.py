"""What an engine is made of and where its time goes."""

from __future__ import annotations

import pandas as pd

from trt_lab.activity import silent
from trt_lab.compare.align import LayerMap
from trt_lab.comparing import EngineComparison
from trt_lab.errors import UsageError
from trt_lab.frames import (
    layer_map_frame,
    layers_frame,
    lints_frame,
    node_times_frame,
    reformats_frame,
    shapes_frame,
    shares_frame,
    splits_frame,
    times_frame,
)
from trt_lab.graph.view import GraphView
from trt_lab.profiling.engines import diff_engines
from trt_lab.profiling.fusion import fusion
from trt_lab.profiling.latency import LatencyAccount, account_latency
from trt_lab.profiling.lints import lints
from trt_lab.profiling.node_time import node_times
from trt_lab.profiling.shapes import graph_shapes, ranges_of
from trt_lab.profiling.shares import Grouping, reformats, shares
from trt_lab.profiling.source import Engine, engine_of
from trt_lab.profiling.sweep_sizes import SizesArgument
from trt_lab.record import Record
from trt_lab.session.engines import Engines
from trt_lab.sweeping import SizeSweep, sweep_sizes
from trt_lab.types import OnProgress


class Insight(Engines):
    """The part of a session that looks into engines; see `Session`."""

    def layers(self, record: Record | None = None) -> pd.DataFrame:
        """Layers of an engine, one row each, with their times where it was profiled. Raises UsageError."""
        chosen = self.newest(record)
        frame, times = layers_frame(chosen), times_frame(chosen)
        return frame.merge(times[["index", "average_ms", "median_ms", "share"]], on="index", how="left")

    def engine(self, record: Record | None = None) -> Engine:
        """The newest engine, or that of `record`, joined with the graph. Raises UsageError when nothing was built."""
        chosen, last = self.newest(record), self._inside
        if last is None or last[0] is not chosen:
            own = chosen.meta.model.hash == self.model.hash
            last = self._inside = chosen, engine_of(chosen, view=self.view if own else None)
        return last[1]

    def map(self, record: Record | None = None) -> pd.DataFrame:
        """Which ONNX nodes went into which layers; see `frames.layer_map_frame`.

        A row is a link with its source, role and confidence; or a layer or node without one, with the reason.

        Raises:
            UsageError: Nothing was built, or the record's model is neither this one nor kept with it.
        """
        return layer_map_frame(*self._mapped(record))

    def splits(self, record: Record | None = None) -> pd.DataFrame:
        """Neighbours that did not fuse, with the likely reason; see `frames.splits_frame`. Raises UsageError as `map`."""
        self._mapped(record)
        return splits_frame(fusion(self.engine(record)).splits)

    def shares(self, by: Grouping = "precision", record: Record | None = None) -> pd.DataFrame:
        """Layers and time by `precision` or by `type`. Raises UsageError when nothing was built."""
        return shares_frame(shares(self.engine(record), by))

    def reformats(self, record: Record | None = None) -> pd.DataFrame:
        """Layers that only change type or layout, the slowest first. Raises UsageError when nothing was built."""
        return reformats_frame(reformats(self.engine(record)))

    def shapes(self, record: Record | None = None) -> pd.DataFrame:
        """Shapes along the graph at the three points of the optimisation profile. Raises UsageError as `map`."""
        _, view = self._mapped(record)
        engine = self.engine(record)
        return shapes_frame(graph_shapes(view, ranges_of(engine), engine))

    def lints(self, record: Record | None = None) -> pd.DataFrame:
        """Where time is given away, with evidence and what could be gained; see `profiling.lints`. Raises UsageError."""
        return lints_frame(lints(self.engine(record)))

    def _mapped(self, record: Record | None) -> tuple[LayerMap, GraphView]:
        engine = self.engine(record)
        if engine.map is None or engine.view is None:
            raise UsageError(f"{engine.label}: {'; '.join(engine.notes) or 'its model is not known'}")
        return engine.map, engine.view

    def profile(self, record: Record | None = None) -> pd.DataFrame:
        """Time by ONNX node; it adds up to the sum of the layers. Raises UsageError when nothing was built."""
        return node_times_frame(node_times(self.engine(record)))

    def latency(self, record: Record | None = None) -> LatencyAccount:
        """Layer sum and end-to-end latency, and what makes the difference. Raises UsageError when nothing was built."""
        return account_latency(self.engine(record))

    def diff_engines(self, other: Record, record: Record | None = None) -> EngineComparison:
        """The newest engine, or that of `record`, against that of `other`, by ONNX node. Raises UsageError, CompareError."""
        return EngineComparison(diff_engines(self.engine(other), self.engine(record)))

    def sweep(
        self,
        sizes: SizesArgument | None = None,
        on_progress: OnProgress | None = None,
        *,
        repeats: int = 30,
        tuned: bool = False,
    ) -> SizeSweep:
        """Latency against the size of the inputs, with the sizes told that fall off the tuned kernels.

        Args:
            sizes: Shapes such as `["1x3x480x640", "1x3x479x638"]`, or mappings from input to shape where several inputs
                have free axes; by default a few over the range of the options.
            repeats: Runs a size.
            tuned: Builds an engine for each size as well, which shows what the optimum of the profile costs the others.

        Raises:
            UsageError: Sizes that do not fit the model, or a model of one size.
            BackendError, CancelledError: As the build ended.
        """
        given = "" if sizes is None else repr(sizes)
        with self._history.action(f"lab.sweep({given})"), self._activity.doing("sweep"):
            return sweep_sizes(
                self._model, self._options,
                self._submit,
                on_progress or silent, sizes=sizes, repeats=repeats, tuned=tuned,
            )  # fmt: skip
