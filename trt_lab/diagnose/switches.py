"""Switches of a build, turned one by one: which of them makes the error go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from trt_lab.compare.words import format_figure
from trt_lab.errors import EditError
from trt_lab.graph.view import GraphView
from trt_lab.types import BuildOptions, JsonValue, NodeId, PrecisionPlan, TensorId

LEVELS = (0, 5)
"""Builder levels that are tried beside the one in question: the fewest kernels, and the most."""


SWITCH_HEADS = ("switch", "how", "result", "max abs", "layers", "changed", "latency, ms", "note")
"""Heads of the table."""


@dataclass(frozen=True)
class Switch:
    """One thing that is done otherwise.

    Attributes:
        name: What is switched.
        how: How, for the table.
        marked: Tensor that is kept as an output.
    """

    name: str
    how: str
    options: BuildOptions
    marked: TensorId | None = None


@dataclass(frozen=True)
class Tried:
    """An engine with one switch turned.

    Attributes:
        passes: Outputs are right; None where it did not build.
        error: Largest error; None when it is not finite, or nothing was built.
        layers: Number of layers.
        changed: Layers that are not those of the engine in question any more.
        latency_ms: Median; None where it was not timed, or is emulated.
        note: Why nothing was built.
    """

    switch: Switch
    passes: bool | None
    error: float | None = None
    layers: int | None = None
    changed: int | None = None
    latency_ms: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Switches:
    """The table. `base` is the engine in question, nothing switched."""

    base: Tried
    tried: tuple[Tried, ...]

    @property
    def helping(self) -> tuple[Tried, ...]:
        """Switches that make the error go."""
        return () if self.base.passes else tuple(row for row in self.tried if row.passes)

    @property
    def headline(self) -> str:
        """One or two sentences."""
        if self.base.passes:
            return "the engine is right as it is; no switch is needed"
        if not self.tried:
            return "the engine is wrong, and there is no switch to turn here; name a fusion to cut"
        names = ", ".join(f"{row.switch.name} ({row.switch.how})" for row in self.helping)
        count = len(self.tried)
        if not names:
            return f"the engine is wrong, and none of {count} switches alone makes the error go"
        return f"the error goes with: {names}. {len(self.helping)} of {count} switches help, each alone"

    def as_json(self) -> dict[str, JsonValue]:
        """For `--json`."""
        return {
            "headline": self.headline,
            "helping": [row.switch.name for row in self.helping],
            "rows": [_row(row) for row in (self.base, *self.tried)],
        }

    def __repr__(self) -> str:
        return f"<Switches: {self.headline}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(row.switch.name)}</td><td>{escape(row.switch.how)}</td><td>{result_word(row)}</td>"
            f"<td>{format_figure(row.error)}</td><td>{'' if row.layers is None else row.layers}</td>"
            f"<td>{'' if row.changed is None else row.changed}</td><td>{format_figure(row.latency_ms)}</td>"
            f"<td>{escape(row.note)}</td></tr>"
            for row in (self.base, *self.tried)
        )
        heads = "".join(f"<th>{name}</th>" for name in SWITCH_HEADS)
        head = f"<p>{escape(self.headline)}</p>"
        return f"{head}<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def result_word(row: Tried) -> str:
    """Right, wrong or not built."""
    return "not built" if row.passes is None else "✓ right" if row.passes else "✗ wrong"


def plan_switches(
    view: GraphView, options: BuildOptions, cuts: Sequence[tuple[NodeId, NodeId]] = ()
) -> tuple[Switch, ...]:
    """What can be switched on an engine of these options, the cheapest to live with first.

    Only what is on is turned off: what is off cannot be to blame. A fusion is cut in two ways that a builder cannot undo:
    the tensor between is kept as an output; or, where the plan is of a low type, the second node stays in FP32, so that
    a cast stands between.

    Args:
        cuts: Pairs of nodes, the second reading from the first, whose fusion is to be cut.

    Raises:
        EditError: A pair is not of neighbours.
    """
    found = []
    for a, b in cuts:
        found += _cut(view, options, a, b)
    if options.tf32:
        found.append(Switch("tf32", "off", replace(options, tf32=False)))
    if options.sparse_weights:
        found.append(Switch("sparse weights", "off", replace(options, sparse_weights=False)))
    if options.backend == "onnxruntime" and options.optimizer:
        found.append(Switch("optimizer", "off", replace(options, optimizer=False)))
    if options.backend.startswith("tensorrt"):
        levels = [level for level in LEVELS if level != options.builder_level]
        found += [Switch("builder level", str(level), replace(options, builder_level=level)) for level in levels]
    if not options.strongly_typed:
        found.append(Switch("typing", "strong: types from the ONNX", replace(options, strongly_typed=True)))
    if options.plan.default != "fp32":
        found.append(Switch("precision", "all in FP32", replace(options, plan=PrecisionPlan())))
    return tuple(found)


def _cut(view: GraphView, options: BuildOptions, a: NodeId, b: NodeId) -> list[Switch]:
    first, second = view.node(a), view.node(b)
    between = [t for t in first.outputs if t is not None and t in second.inputs]
    if not between:
        near = ", ".join(view.successors(a)) or "nothing"
        raise EditError(f"'{b}' does not read from '{a}', so they cannot be fused as a pair; '{a}' is read by: {near}")
    name = f"fusion of {a} and {b}"
    found = [Switch(name, f"cut: '{between[0]}' kept as an output", options, between[0])]
    plan = options.plan
    if plan.default != "fp32" and b not in plan.keep_fp32:
        kept = replace(plan, keep_fp32=(*plan.keep_fp32, b))
        found.append(Switch(name, f"cut: a cast before '{b}', which stays FP32", replace(options, plan=kept)))
    return found


def _row(row: Tried) -> dict[str, JsonValue]:
    return {
        "switch": row.switch.name, "how": row.switch.how, "passes": row.passes, "max_abs": row.error, "layers": row.layers,
        "changed_layers": row.changed, "latency_ms": row.latency_ms, "note": row.note,
    }  # fmt: skip
