"""Frames: the declared columns, whatever there is; missing is missing, never 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from trt_lab.frames import diff, layers, layers_frame, log, log_frame, times, times_frame
from trt_lab.types import LayerInfo, LayerTensor, LayerTime, LogLine, NodeId


@dataclass
class Fake:
    layers: tuple[LayerInfo, ...] = ()
    times: tuple[LayerTime, ...] = ()
    lines: list[LogLine] = field(default_factory=list)

    def log(self) -> list[LogLine]:
        return self.lines


FAKE = Fake(
    (
        LayerInfo(0, "a+b", "Conv", (LayerTensor("x", "float32", (1, "N")),), (), "float16", None, None, (NodeId("a"), NodeId("b")), "name"),
        LayerInfo(1, "copy", "Reformat"),
    ),
    (LayerTime(0, "a+b", 3.0, 3.0, (2.0, 4.0), None), LayerTime(1, "copy", 1.0, None), LayerTime(7, "gone", 0.0, 0.0)),
    [LogLine("info", "hi"), LogLine("error", "no", "parser", 1.5)],
)  # fmt: skip


def test_columns_are_declared_even_when_empty() -> None:
    empty = Fake()
    for frame, module in ((layers_frame(empty), layers), (times_frame(empty), times), (log_frame(empty), log)):
        assert list(frame.columns) == list(module.COLUMNS) and len(frame) == 0
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == module.COLUMNS
    assert "max_abs" in diff.COLUMNS


def test_layers() -> None:
    frame = layers_frame(FAKE)
    assert frame["nodes"].tolist() == [("a", "b"), ()] and frame["inputs"][0] == ("x",)
    assert frame["node_count"].isna().tolist() == [False, True] and frame["stream"].isna().tolist() == [True, True]


def test_times() -> None:
    frame = times_frame(FAKE)
    assert frame["share"].tolist() == [0.75, 0.25, 0.0] and frame["runs"].isna().tolist() == [False, True, True]
    assert frame["min_ms"].tolist()[0] == 2.0 and frame["std_ms"].isna().tolist() == [False, True, True]
    assert frame["median_ms"].isna().tolist() == [False, True, False]
    assert frame["type"].tolist()[:2] == ["Conv", "Reformat"] and frame["type"].isna().tolist() == [False, False, True]


def test_log() -> None:
    frame = log_frame(FAKE)
    assert frame["line"].tolist() == [1, 2] and frame["time_s"].isna().tolist() == [True, False]
    assert frame["message"].tolist() == ["hi", "no"]
