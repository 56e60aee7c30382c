"""Scales and zero points that cannot be right, named by node and channel; and those that waste or lose numbers.

Rules on the file alone: `scale-zero`, `scale-negative`, `scale-not-finite`, `scale-denormal`, `scale-not-constant`,
`zero-point`, `quantised-type`. Rules on figures: `scale-too-small`, `scale-too-large`, `outlier-channel`, `dead-channel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trt_lab.diagnose.quantization.measure import PairFigures, as_float
from trt_lab.edit.qdq import QdqPair, find_qdq
from trt_lab.graph import GraphView
from trt_lab.types import JsonValue, NodeId, TensorId

SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)

WIDER_DB = 3.0
"""A scale is called too small when a larger one would leave half of the error or less. How much is cut does not
say it: entropy calibration cuts some percent on purpose where that leaves less error."""

RANGE_USED = 1 / 16
"""Largest value over what scale and type hold, below which a scale is called too large: 4 of 8 bits are never used."""

OUTLIER = 16.0
"""A channel this much louder than the median channel leaves that one 4 of 8 bits under a shared scale."""

Severity = Literal["error", "warning"]

_TENSORRT_TYPES = ("int8", "int4", "float8_e4m3fn", "float4_e2m1fn")


@dataclass(frozen=True, slots=True)
class ScaleFinding:
    """One thing that is wrong with a pair.

    Attributes:
        rule: See the module.
        channels: Those concerned; empty for a scale of the whole tensor.
        values: Scales or figures of these channels, in words, for they may be no numbers.
        message: What is wrong. fix: What to do.
    """

    rule: str
    severity: Severity
    node: NodeId
    tensor: TensorId
    message: str
    fix: str
    channels: tuple[int, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def is_bad_scale(self) -> bool:
        """A scale that cannot be, so that figures of the pair say nothing more."""
        return self.rule.startswith("scale-") and self.severity == "error"

    def as_json(self) -> dict[str, JsonValue]:
        """The keys of a preflight finding, and the channels."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "node": self.node,
            "tensor": self.tensor,
            "message": self.message,
            "fix": self.fix,
            "channels": list(self.channels),
            "values": list(self.values),
        }


_BAD: tuple[tuple[str, str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("scale-zero", "is 0", lambda s: s == 0),
    ("scale-negative", "is negative", lambda s: s < 0),
    ("scale-not-finite", "is not a finite number", lambda s: ~np.isfinite(s)),
    ("scale-denormal", "is denormal", lambda s: (s > 0) & (s < SMALLEST_NORMAL)),
)


def check_scales(view: GraphView) -> tuple[ScaleFinding, ...]:
    """What the file alone says about its Q/DQ, in graph order; nothing is run."""
    found: list[ScaleFinding] = []
    for pair in find_qdq(view).pairs:
        found += _bad_scales(view, pair)
        found += _unfit_for_tensorrt(pair)
    return tuple(found)


def judge_figures(figures: Iterable[PairFigures]) -> tuple[ScaleFinding, ...]:
    """What the numbers on samples say: scales that cut, that waste, and channels that need one of their own."""
    return tuple(finding for pair in figures for finding in _judge(pair))


def _bad_scales(view: GraphView, pair: QdqPair) -> list[ScaleFinding]:
    if pair.scale is None:
        text = f"the scale of '{pair.tensor}' at node '{pair.node}' is computed while running"
        fix = "TensorRT takes constant scales only; fold constants, or quantise statically"
        return [ScaleFinding("scale-not-constant", "warning", pair.node, pair.tensor, text, fix)]
    scales = as_float(pair.scale)
    found = []
    for rule, words, is_bad in _BAD:
        channels = tuple(int(i) for i in np.flatnonzero(is_bad(scales)))
        if not channels:
            continue
        values = tuple(f"{scales[i]:.6g}" for i in channels)
        where = _where(pair.axis, channels, values)
        dead = _dead_text(view, pair, channels) if rule == "scale-zero" else ""
        text = f"node '{pair.node}': the scale of '{pair.tensor}' {words}{where}{dead}"
        found.append(
            ScaleFinding(
                rule,
                "error",
                pair.node,
                pair.tensor,
                text,
                _FIXES[rule],
                channels if pair.axis is not None else (),
                values,
            )
        )
    return found


_FIXES: Mapping[str, str] = {
    "scale-zero": "set the scale to a small positive number, such as 1e-6, or calibrate anew; engines refuse 0",
    "scale-negative": "a scale is a size: take its magnitude, or calibrate anew; engines refuse it",
    "scale-not-finite": "calibrate anew, without samples that give NaN or infinity",
    "scale-denormal": "the tensor was all but 0 while calibrating: calibrate with samples that reach it, or leave it in float",
    "scale-too-small": "calibrate with samples that reach these values, or with a method that cuts less (minmax)",
    "scale-too-large": "calibrate anew: an outlier, or samples of another range, made it so large (entropy, percentile)",
    "outlier-channel": "give each channel a scale of its own, or leave the layers that read it in float",
    "dead-channel": "the weights of these channels are 0: prune them, or take care that their scales are not 0",
}


def _where(axis: int | None, channels: tuple[int, ...], values: tuple[str, ...]) -> str:
    if axis is None:
        return f" ({values[0]})" if values[0] != "0" else ""
    shown = ", ".join(f"channel {c} ({v})" for c, v in list(zip(channels, values, strict=True))[:4])
    more = f" and {len(channels) - 4} more" if len(channels) > 4 else ""
    return f" at {shown}{more} of axis {axis}"


def _dead_text(view: GraphView, pair: QdqPair, channels: tuple[int, ...]) -> str:
    if pair.kind == "activation":
        return ""
    values = view.constant(pair.tensor) if pair.source is not None else view.constant(pair.codes)
    if values is None or pair.axis is None or pair.block or pair.axis >= values.ndim:
        return ""
    rows = np.moveaxis(values.astype(np.float64), pair.axis, 0)
    dead = [c for c in channels if c < len(rows) and not rows[c].any()]
    return "; likely cause: all weights of that channel are 0 (a dead channel)" if len(dead) == len(channels) else ""


def _unfit_for_tensorrt(pair: QdqPair) -> list[ScaleFinding]:
    found = []
    zero = as_float(pair.zero_point) if pair.zero_point is not None else np.zeros(0)
    channels = tuple(int(i) for i in np.flatnonzero(zero != 0))
    if pair.dtype not in _TENSORRT_TYPES:
        what = "the bias" if pair.kind == "bias" else "the tensor"
        text = f"node '{pair.node}': {what} '{pair.tensor}' is quantised to {pair.dtype}"
        fix = f"TensorRT dequantises {', '.join(_TENSORRT_TYPES)} only: quantise with symmetric INT8, without biases"
        severity: Severity = "error"
        if pair.dtype == "uint8":
            severity, fix = "warning", "TensorRT is symmetric: only its newer parsers take uint8; quantise with INT8"
        found.append(ScaleFinding("quantised-type", severity, pair.node, pair.tensor, text, fix))
    if channels:
        values = tuple(f"{zero[i]:g}" for i in channels)
        text = f"node '{pair.node}': the zero point of '{pair.tensor}' is not 0"
        text += _where(pair.axis if zero.size > 1 else None, channels, values)
        fix = "TensorRT is symmetric and takes zero points of 0 only: quantise with symmetric INT8"
        found.append(ScaleFinding("zero-point", "error", pair.node, pair.tensor, text, fix))
    return found


def _judge(f: PairFigures) -> list[ScaleFinding]:
    found: list[ScaleFinding] = []

    def add(rule: str, text: str, channels: tuple[int, ...] = (), values: tuple[str, ...] = ()) -> None:
        found.append(
            ScaleFinding(rule, "warning", f.node, f.tensor, f"node '{f.node}': {text}", _FIXES[rule], channels, values)
        )

    if f.saturated and f.wider_db is not None and f.wider_db >= WIDER_DB:
        text = (
            f"{f.saturated:.2%} of the values of '{f.tensor}' are cut to the ends of {f.dtype}; a larger scale would "
        )
        text += f"leave {f.wider_db:.1f} dB less error"
        add("scale-too-small", text, values=(f"{f.saturated:.6g}",))
    if f.dtype != "int32" and f.range_used is not None and 0 < f.range_used < RANGE_USED:
        used = f", {f.levels_used} of {f.levels} levels occur" if f.levels_used is not None else ""
        add("scale-too-large", f"'{f.tensor}' reaches {f.range_used:.2%} of what its scale holds{used}",
            values=(f"{f.range_used:.6g}",))  # fmt: skip
    if f.outlier is not None and f.outlier_channel is not None and f.outlier >= OUTLIER and f.dtype != "int32":
        axis, channel = f.outlier_channel
        text = f"channel {channel} of axis {axis} of '{f.tensor}' is {f.outlier:.0f}× louder than the median channel, and all share a scale"
        add("outlier-channel", text, (channel,), (f"{f.outlier:.6g}",))
    if f.dead_channels:
        add("dead-channel", f"{len(f.dead_channels)} channels of '{f.tensor}' are 0 throughout, first {f.dead_channels[0]}",
            f.dead_channels)  # fmt: skip
    return found


# --- for the search of low precision -----------------------------------------------------


def search_notes(view: GraphView) -> list[str]:
    """What a search for nodes that FP16 spoils must say of a quantised model: it does not see the Q/DQ themselves."""
    pairs = len(find_qdq(view).pairs)
    if not pairs:
        return []
    bad = [finding.message for finding in check_scales(view) if finding.is_bad_scale]
    what = (
        f"the model is quantised ({pairs} Q/DQ pairs), and so is its reference: what the Q/DQ cost is not seen here; "
        "trt-lab quantize measures it"
    )
    return [
        what,
        *bad[:4],
        *([f"{len(bad) - 4} more bad scales"] if len(bad) > 4 else []),
    ]


def explain_node(view: GraphView, node: NodeId) -> tuple[str, bool] | None:
    """Why Q/DQ may be behind the error of a node, and whether that is certain; None when no Q/DQ is near.

    Certain is a bad scale right before or behind it. Likely is a QuantizeLinear that reads it: it turns a rounding that
    crosses the middle between two steps into a whole step.
    """
    near = [p for p in find_qdq(view).pairs if p.source is not None and _touches(view, node, p)]
    bad = {finding.node: finding.message for finding in check_scales(view) if finding.is_bad_scale}
    for pair in near:
        if pair.node in bad:
            return bad[pair.node], True
    for pair in near:
        if pair.source in view.nodes[node].outputs and pair.scale is not None:
            step = float(np.abs(as_float(pair.scale)).max())
            return f"'{pair.node}' turns its rounding into steps of {step:.4g}", False
    return None


def _touches(view: GraphView, node: NodeId, pair: QdqPair) -> bool:
    info = view.nodes[node]
    return pair.source in info.outputs or any(t in info.inputs for t in pair.restored)
