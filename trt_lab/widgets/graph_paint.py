"""Colours and marks of the boxes of a layout, from a diff and an engine. A closed scope shows its worst, or its sum."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trt_lab.diagnose.locate import LARGE_SNR_DB, TensorError
from trt_lab.graph.layout import KINDS, Layout
from trt_lab.graph.view import GraphView
from trt_lab.types import LayerInfo, NodeId, TensorId, TensorStats
from trt_lab.widgets.graph_scene import OP_CLASSES, op_class
from trt_lab.widgets.graph_sight import Sight
from trt_lab.wire import MARKS, ColourBy, Colours, LegendEntry

_SEVERITY = {"same": 1, "not_comparable": 2, "differs": 3}
_MARK_OF_SEVERITY = (0, MARKS.index("same"), MARKS.index("not_comparable"), MARKS.index("differs"))
_PRECISION_SLOTS = {"float32": 1, "float16": 3, "bfloat16": 5, "int8": 6, "int64": 0, "int32": 0}
_MIXED = 8
_GOOD_SNR_DB = 2 * LARGE_SNR_DB
"""From here on an error has no colour; FP16 leaves about 66 dB."""


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes:
        stats: Newest diff, by tensor.
        layers: Of the newest engine.
        times_ms: Average time of each layer, by its index.
        errors: Of the newest search for the cause.
        sight: What a probe does to the engine, by tensor.
    """

    stats: Mapping[str, TensorStats] = field(default_factory=dict)
    layers: tuple[LayerInfo, ...] = ()
    times_ms: Mapping[int, float] = field(default_factory=dict)
    errors: tuple[TensorError, ...] = ()
    sight: Mapping[str, Sight] = field(default_factory=dict)


@dataclass
class _Sheet:
    """Columns to fill, an entry a box."""

    slot: np.ndarray
    level: np.ndarray
    figures: list[str]
    legend: list[LegendEntry] = field(default_factory=list)
    scale: tuple[str, str] | None = None
    missing: str = ""


def make_colours(
    view: GraphView,
    layout: Layout,
    by: ColourBy,
    measured: Measured,
    probes: Collection[str],
    kept: Collection[str],
) -> tuple[Colours, dict[str, np.ndarray]]:
    """The message and its arrays; see `wire.Colours`."""
    count = len(layout.ids)
    sheet = _Sheet(np.full(count, -1, np.int16), np.full(count, np.nan, np.float32), [""] * count)
    _by_type(layout, sheet, tell=by == "type")
    if by == "error":
        _by_error(view, layout, sheet, measured.stats)
    elif by in ("local", "accumulated"):
        _by_snr(view, layout, sheet, [(e, e.local if by == "local" else e.stats) for e in measured.errors])
    elif by == "time":
        _by_time(layout, sheet, measured)
    elif by == "precision":
        _by_precision(layout, sheet, measured.layers)
    severity = np.zeros(count, np.uint8)
    for tensor, stats in measured.stats.items():
        for index in _boxes_of_tensor(view, layout, tensor):
            severity[index] = max(severity[index], _SEVERITY[stats.verdict])
    arrays = {
        "slot": sheet.slot,
        "level": sheet.level,
        "mark": np.array(_MARK_OF_SEVERITY, np.uint8)[severity],
        "probed": _flags(count, (index for tensor in probes for index in _boxes_of_tensor(view, layout, tensor)[:1])),
        "kept": _flags(count, (layout.index_of(node) for node in kept)),
        "safe": _flags(count, _safe_boxes(view, layout, measured.sight)),
    }
    safe = sum(sight.safe for sight in measured.sight.values()) if measured.sight else None
    colours = Colours(
        by=by, legend=sheet.legend, scale=sheet.scale, figures=sheet.figures, missing=sheet.missing,
        safe=safe, hidden=len(measured.sight) - safe if safe is not None else None,
    )  # fmt: skip
    return colours, arrays


def _safe_boxes(view: GraphView, layout: Layout, sight: Mapping[str, Sight]) -> Iterable[int]:
    """Nodes only: a closed scope holds tensors of both kinds. None where all are safe: there is nothing to tell apart."""
    if all(seen.safe for seen in sight.values()):
        return
    node = KINDS.index("node")
    for tensor, seen in sight.items():
        index = next(iter(_boxes_of_tensor(view, layout, tensor)), None) if seen.safe else None
        if index is not None and layout.kinds[index] == node:
            yield index


def _flags(count: int, indices: Iterable[int | None]) -> np.ndarray:
    flags = np.zeros(count, np.uint8)
    flags[[index for index in indices if index is not None]] = 1
    return flags


def _boxes_of_tensor(view: GraphView, layout: Layout, tensor: str) -> list[int]:
    """The box that makes a tensor first, then the model input or output that it is."""
    info = view.tensors.get(TensorId(tensor))
    if info is None:
        return []
    maker = layout.index_of(info.producer) if info.producer is not None and info.graph == layout.graph else None
    pill = _pills(layout).get(tensor)
    return [index for index in (maker, pill) if index is not None]


def _pills(layout: Layout) -> dict[str, int]:
    wanted = {KINDS.index("input"), KINDS.index("output"), KINDS.index("outer")}
    return {layout.ids[index]: index for index, kind in enumerate(layout.kinds.tolist()) if kind in wanted}


def _by_type(layout: Layout, sheet: _Sheet, *, tell: bool) -> None:
    """Nodes by class of operator. The other ways of colouring start from plain boxes."""
    if not tell:
        return
    node = KINDS.index("node")
    seen: set[int] = set()
    for index, kind in enumerate(layout.kinds.tolist()):
        if kind == node:
            sheet.slot[index] = op_class(layout.op_types[index])
            seen.add(int(sheet.slot[index]))
    sheet.legend += [LegendEntry(label=OP_CLASSES[slot], slot=slot) for slot in sorted(seen)]


def _by_error(view: GraphView, layout: Layout, sheet: _Sheet, stats: Mapping[str, TensorStats]) -> None:
    """Largest absolute error on a logarithmic scale; NaN and infinities count as the worst."""
    if not stats:
        sheet.missing = "No diff yet: press Build."
        return
    finite = [entry.max_abs for entry in stats.values() if entry.max_abs]
    high = max(finite, default=1.0)
    low = max(min(finite, default=high), high * 1e-8)
    if low > high / 10:
        low = high / 1000
    for tensor, entry in stats.items():
        if entry.nan_only_a or entry.inf_mismatch:
            level = 1.0
        elif entry.max_abs is None:
            continue
        else:
            level = math.log(max(entry.max_abs, low) / low) / math.log(high / low)
        for index in _boxes_of_tensor(view, layout, tensor):
            if not level < sheet.level[index]:
                sheet.level[index], sheet.figures[index] = level, _short_figure(entry)
    sheet.scale = (f"max abs ≤ {low:.1g}", f"{high:.2g}")


def _by_snr(
    view: GraphView, layout: Layout, sheet: _Sheet, errors: Sequence[tuple[TensorError, TensorStats | None]]
) -> None:
    """Error against the tensor's own size, so that tensors of all sizes share a scale; the worst in a box counts."""
    if not errors:
        sheet.missing = "Not searched yet: choose a low precision and press Find cause."
        return
    for row, stats in errors:
        if stats is None or stats.verdict == "not_comparable":
            continue
        level, figure = _level_of_snr(stats)
        maker = layout.index_of(row.node) if row.node is not None else None
        for index in {*_boxes_of_tensor(view, layout, row.tensor), *([maker] if maker is not None else [])}:
            if not level < sheet.level[index]:
                sheet.level[index], sheet.figures[index] = level, figure
    sheet.scale = (f"SNR ≥ {_GOOD_SNR_DB:.0f} dB", "≤ 0 dB, NaN, Inf")


def _level_of_snr(stats: TensorStats) -> tuple[float, str]:
    """How bad, from 0 to 1, and in few letters."""
    if stats.nan_only_a or stats.nan_only_b or stats.inf_mismatch:
        return 1.0, "Inf" if stats.inf_mismatch and not stats.nan_only_a else "NaN"
    if stats.shape_a != stats.shape_b:
        return 1.0, "other shape"
    if stats.exact:
        return 0.0, "exact"
    if stats.snr_db is None:
        return 1.0, "lost"
    return min(1.0, max(0.0, 1 - stats.snr_db / _GOOD_SNR_DB)), f"{stats.snr_db:.0f} dB"


def _short_figure(stats: TensorStats) -> str:
    """What fits into a box; the card says more."""
    if stats.nan_only_a:
        return "NaN"
    return "Inf" if stats.inf_mismatch else f"{stats.max_abs:.2g}"


def _layers_of_boxes(layout: Layout, layers: Iterable[LayerInfo]) -> dict[int, dict[int, LayerInfo]]:
    """For each box the layers that its nodes went into, by their index."""
    found: dict[int, dict[int, LayerInfo]] = {}
    for layer in layers:
        for node in layer.nodes:
            index = layout.index_of(NodeId(node))
            if index is not None:
                found.setdefault(index, {})[layer.index] = layer
    return found


def _by_time(layout: Layout, sheet: _Sheet, measured: Measured) -> None:
    """Sum of the layers that a box went into; a layer counts fully for each of its nodes."""
    if not measured.times_ms:
        sheet.missing = "No layer times yet: press Build."
        return
    sums = {
        index: sum(measured.times_ms.get(layer, 0.0) for layer in layers)
        for index, layers in _layers_of_boxes(layout, measured.layers).items()
    }
    longest = max(sums.values(), default=0.0)
    for index, time in sums.items():
        sheet.level[index] = time / longest if longest > 0 else 0.0
        sheet.figures[index] = f"{time:.3g} ms"
    sheet.scale = ("0 ms", f"{longest:.3g} ms")


def _by_precision(layout: Layout, sheet: _Sheet, layers: tuple[LayerInfo, ...]) -> None:
    """The type that the layers of a box compute in."""
    if not layers:
        sheet.missing = "No engine yet: press Build."
        return
    seen: dict[str, int] = {}
    for index, own in _layers_of_boxes(layout, layers).items():
        types = sorted({layer.precision for layer in own.values() if layer.precision})
        if not types:
            continue
        name = types[0] if len(types) == 1 else "mixed"
        slot = _MIXED if name == "mixed" else _PRECISION_SLOTS.get(name.partition(" ")[0], 7)
        seen[name] = slot
        sheet.slot[index], sheet.figures[index] = slot, " + ".join(types)
    sheet.legend += [LegendEntry(label=name, slot=slot) for name, slot in sorted(seen.items())]
    if not seen:
        sheet.missing = "This backend does not tell in which type its layers compute."
