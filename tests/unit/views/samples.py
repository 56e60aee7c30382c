"""Figures measured and read, and a small record, for the tests of views."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.model import Model
from bokeh.models import ColumnDataSource, Pane, Plot

from trt_lab.types import LayerInfo, LayerTime, NodeId
from trt_lab.views.text import texts_of

LIMIT = 1_000_000
"""Most bytes a figure may take to send."""


def size_of(figure: Model) -> int:
    """Bytes of the figure as it is sent: its JSON and its binary columns."""
    document = Document()
    document.add_root(figure)
    serialized = document.to_json()
    document.remove_root(figure)
    return len(serialize_json(serialized.content)) + sum(len(buffer.to_bytes()) for buffer in serialized.buffers)


def words(figure: Model) -> str:
    """All text beside the figure."""
    panes = [pane for pane in figure.select({"type": Pane}) if isinstance(pane, Pane)]
    return "\n".join(text for pane in panes for text in texts_of(pane))


def named(figure: Model, name: str) -> Any:
    found = figure.select_one({"name": name})
    assert found is not None
    return found


def pair(shape: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    golden = random.normal(size=shape).astype(np.float32)
    return golden, golden + random.normal(size=shape).astype(np.float32) * 1e-3


def record(
    durations: list[float],
    *,
    name: str = "fp16",
    starts: list[float] | None = None,
    streams: list[int | None] | None = None,
    types: list[str] | None = None,
    runs: list[tuple[float, ...]] | None = None,
    latency: tuple[float, ...] = (),
) -> Any:
    """What a timeline needs of a record."""
    count = len(durations)
    layers = [
        LayerInfo(
            i,
            f"layer{i}",
            (types or ["Conv", "MatMul"] * count)[i],
            stream=(streams or [None] * count)[i],
            precision="float16",
            nodes=(NodeId(f"/node_{i}"),),
        )
        for i in range(count)
    ]
    times = [
        LayerTime(i, f"layer{i}", d, None, runs[i] if runs else (), starts[i] if starts else None)
        for i, d in enumerate(durations)
    ]
    return SimpleNamespace(name=name, layers=layers, times=times, latency_ms=latency)


def bars_of(figure) -> ColumnDataSource:
    found = figure.select_one({"name": "layers"})
    assert isinstance(found, ColumnDataSource)
    return found


def plots_of(figure: Model) -> list[Plot]:
    """The plots of a figure, in the order they were made."""
    plots = [plot for plot in figure.select({"type": Plot}) if isinstance(plot, Plot)]
    return sorted(plots, key=lambda plot: int(plot.id[1:]))
