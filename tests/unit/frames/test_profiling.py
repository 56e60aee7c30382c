from __future__ import annotations

from trt_lab.frames import kernels, kernels_frame, sweep, sweep_frame
from trt_lab.profiling.sweep import Sweep
from trt_lab.profiling.sweep_flags import SweepPoint, flag
from trt_lab.profiling.traces.kernels import KernelTime, Trace
from trt_lab.types import NodeId


def test_columns_are_those_of_the_rows_and_declared_when_empty() -> None:
    points = flag([SweepPoint({"x": (1, 8)}, (1.0, 1.0)), SweepPoint({"x": (1, 7)}, error="no")])
    trace = Trace(
        (KernelTime("a", "k", 0.0, 0.5, (NodeId("n"),), "launch", 7, 0), KernelTime(None, "k", 1.0, 0.5, (), "none")),
        "torch",
    )
    assert list(points and Sweep("m", "b", points, ()).rows()[0]) == list(sweep.COLUMNS)
    assert list(trace.rows()[0]) == list(kernels.COLUMNS)
    for frame, module in (
        (sweep_frame(Sweep("m", "b", (), ())), sweep),
        (sweep_frame(Sweep("m", "b", points, ())), sweep),
        (kernels_frame(Trace((), "torch")), kernels),
        (kernels_frame(trace), kernels),
    ):
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == module.COLUMNS
    shown = sweep_frame(Sweep("m", "b", points, ()))
    assert shown["median_ms"].isna().tolist() == [False, True] and shown["profile"].isna().all()
    assert kernels_frame(trace)["stream"].isna().tolist() == [False, True]
    assert kernels_frame(trace)["layer"].isna().tolist() == [False, True]
