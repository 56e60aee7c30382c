"""What a session hands out: comparisons and findings, with their frames and a still picture for a notebook."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from html import escape
from typing import cast

import numpy as np
import pandas as pd

from trt_lab.compare.in_graph import compare_in_graph
from trt_lab.compare.sides import Comparison, open_side
from trt_lab.compare.words import format_figure, summarize
from trt_lab.diagnose.engines import needed
from trt_lab.diagnose.locate import Region, Source, TensorError
from trt_lab.engine_nodes import is_reformat
from trt_lab.errors import CompareError, UsageError
from trt_lab.frames import diff_frame
from trt_lab.graph.view import GraphView
from trt_lab.record import Record
from trt_lab.types import JsonValue, LayerInfo, NodeId, Precision, TensorId, TensorStats, Tolerance, Verdict

FINDING_COLUMNS = (
    "tensor", "node", "verdict", "snr_db", "max_abs", "large", "local_snr_db", "local_max_abs", "local_large", "source",
    "keep_fp32", "kind", "largest", "lost", "cancellation", "depth",
)  # fmt: skip
"""Columns of `Finding.frame`: `snr_db` … `large` are the accumulated error, `local_…` that of the node alone."""

TABLE_COLUMNS = (
    "engine", "kept", "verdict", "max_abs", "snr_db", "latency_ms", "runs_per_s", "layer_sum_ms", "low_layers", "layers",
)  # fmt: skip
"""Columns of `Finding.table`: `latency_ms` is the median of a whole run, `runs_per_s` what one after the other gives,
`layer_sum_ms` the sum of the layers' times, `low_layers` how many of the `layers` that tell their type have the low one."""

TABLE_HEADS = ("engine", "verdict", "max abs", "SNR, dB", "ms", "runs/s", "layers, ms", "low layers")
"""Heads of `Finding.shown_table`."""

HTML_ROWS = 40
"""Rows of a still table; the frame has all."""


@dataclass(frozen=True)
class Diff:
    """Two sides compared, tensor by tensor.

    Attributes:
        comparison: The numbers.
        engine, reference: The records compared; `engine` is side a.
        tolerance: What "same" meant.
        outputs: Outputs of the model among the tensors; the others are probes.
        makers: Tensor → node that makes it, for words.
    """

    comparison: Comparison
    engine: Record
    reference: Record
    tolerance: Tolerance
    outputs: tuple[TensorId, ...] = ()
    makers: Mapping[str, NodeId] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """That of the model's outputs: rounding, or an infinity in the middle, can be harmless. Without them, of all."""
        return self.restricted(self.outputs).comparison.verdict if self.outputs else self.comparison.verdict

    @property
    def tensors(self) -> tuple[TensorStats, ...]:
        """Worst sample of each tensor, in graph order."""
        return self.comparison.tensors

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row a tensor; see `frames.diff_frame`."""
        return diff_frame(self.comparison)

    @property
    def worst(self) -> TensorStats | None:
        """The first tensor that differs, else the one with the largest max abs."""
        first = self.comparison.first_divergent
        by_name = {stats.name: stats for stats in self.tensors}
        if first is not None:
            return by_name[first]
        defined = [stats for stats in self.tensors if stats.max_abs is not None]
        return max(defined, key=lambda stats: stats.max_abs or 0.0, default=None)

    @property
    def headline(self) -> str:
        """One line: verdict and largest error of the outputs, and the first probed tensor that differs."""
        outputs = self.restricted(self.outputs) if self.outputs else self
        worst = outputs.worst
        if worst is None:
            return self.verdict
        first = self.comparison.first_divergent
        where = (
            f" · first at {self.makers.get(first, first)}"
            if first not in (None, *self.outputs) and self.verdict == "differs"
            else ""
        )
        if first is not None and self.verdict == "same":
            count = sum(stats.verdict == "differs" for stats in self.tensors)
            where = f" · {count} probed {'tensor differs' if count == 1 else 'tensors differ'}, first at {first}"
        return f"{self.verdict} · {summarize(worst)}{where}"

    @property
    def largest(self) -> float | None:
        """The largest max abs of all tensors; None when none is defined, or one disagrees about being finite."""
        if any(s.nan_only_a or s.nan_only_b or s.inf_mismatch for s in self.tensors):
            return None
        return max((s.max_abs for s in self.tensors if s.max_abs is not None), default=None)

    def stats(self, tensor: str, sample: int) -> TensorStats:
        """Figures of one tensor on one sample. Raises CompareError when it was not compared."""
        return self.comparison.stats(tensor, sample)

    def pair(self, tensor: str, sample: int) -> tuple[np.ndarray, np.ndarray]:
        """Golden and engine arrays of one tensor. Raises CompareError when one side lacks it."""
        sides = []
        for record in (self.reference, self.engine):
            outputs = record.outputs(sample)
            if tensor not in outputs:
                raise CompareError(f"{record.name} holds no tensor {tensor!r}; probe it and build again")
            sides.append(outputs[tensor])
        return sides[0], sides[1]

    def restricted(self, tensors: Iterable[str]) -> Diff:
        """The same for some tensors only; the verdict is theirs."""
        kept = set(tensors)
        outputs = tuple(name for name in self.outputs if name in kept)
        return replace(self, comparison=self.comparison.restricted(kept), outputs=outputs)

    def __repr__(self) -> str:
        return f"<Diff {self.comparison.label_a} against {self.comparison.label_b}: {self.headline}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(s.name)}</td><td>{_mark(s.verdict)}</td><td>{format_figure(s.max_abs)}</td>"
            f"<td>{format_figure(s.max_rel)}</td><td>{format_figure(s.cosine, 6)}</td><td>{escape(summarize(s))}</td></tr>"
            for s in self.tensors[:HTML_ROWS]
        )
        more = len(self.tensors) - HTML_ROWS
        tail = f"<p>{more} more tensors in <code>.frame</code></p>" if more > 0 else ""
        return (
            f"<p><b>{_mark(self.verdict)}</b> {escape(self.headline)}</p><table><thead><tr><th>tensor</th><th>verdict</th>"
            f"<th>max abs</th><th>max rel</th><th>cosine</th><th>why</th></tr></thead><tbody>{rows}</tbody></table>{tail}"
        )


def make_diff(view: GraphView, engine: Record, reference: Record, tolerance: Tolerance) -> Diff:
    """Compares an engine with a reference, tensors in graph order.

    Raises:
        UsageError: The engine was built but not run. CompareError: They have no tensor in common.
    """
    if "not_run" in engine.meta.facts:
        why = engine.meta.facts["not_run"]
        raise UsageError(f"{engine.name} was built but not run, so it has no outputs to compare: {why}")
    comparison = compare_in_graph(view, open_side(engine), open_side(reference), tolerance=tolerance)
    compared = {stats.name for stats in comparison.tensors}
    tensors = {name: info for name, info in view.tensors.items() if name in compared}
    outputs = tuple(name for name, info in tensors.items() if info.is_output)
    makers: dict[str, NodeId] = {name: info.producer for name, info in tensors.items() if info.producer is not None}
    return Diff(comparison, engine, reference, tolerance, outputs, makers)


@dataclass(frozen=True)
class Finding:
    """Which nodes are to blame, and what repairs the model.

    Attributes:
        before, after: Outputs with nothing kept, and with `keep_fp32` kept; None when there was nothing to find.
        source: First node whose error is large while its inputs are good.
        region: What must stay in FP32 and all that was tried.
        errors: Accumulated error of every tensor, in graph order.
        source_pair: Golden and engine arrays of the source's tensor, on its worst sample.
        engine_builds: Engines built to prove it; the search itself ran on the CPU.
        emulated: The numbers are a prediction by emulation on the CPU, not those of an engine.
        sources: All sources, in graph order; `source` is the first.
        notes: What else the user should know, one line each.
        fp32_passes: With everything in FP32 the check passes; if not, the fault is not one of precision.
        proved: The clean engine was built and agrees.
        check: What decided, "" for the tolerance.
        fp32: The engine in FP32, where one was asked for.
    """

    verdict: Verdict
    precision: str
    before: Diff
    after: Diff | None
    source: Source | None
    region: Region | None
    errors: tuple[TensorError, ...]
    engine_builds: int
    emulated: bool
    seconds: float
    source_pair: tuple[np.ndarray, np.ndarray] | None = None
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()
    fp32_passes: bool = True
    proved: bool = False
    check: str = ""
    fp32: Diff | None = None

    @property
    def keep_fp32(self) -> tuple[NodeId, ...]:
        """Nodes that must stay in FP32, in graph order."""
        return self.region.keep_fp32 if self.region is not None else ()

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row a tensor in graph order, with both errors and the evidence; see `FINDING_COLUMNS`."""
        sources = {source.tensor for source in self.sources} or ({self.source.tensor} if self.source else set())
        rows = []
        for row in self.errors:
            local, seen = row.local, row.evidence
            figures = (
                row.tensor, row.node, row.stats.verdict, row.stats.snr_db, row.stats.max_abs, row.large,
                local.snr_db if local is not None else None, local.max_abs if local is not None else None, row.local_large,
                row.tensor in sources, row.node in self.keep_fp32, seen.kind if seen is not None else None,
                seen.largest if seen is not None else None, seen.lost if seen is not None else None,
                seen.cancellation if seen is not None else None, seen.depth if seen is not None else None,
            )  # fmt: skip
            rows.append(figures)
        return pd.DataFrame(rows, columns=list(FINDING_COLUMNS))

    @property
    def cost_ms(self) -> float | None:
        """What keeping the nodes costs a run: median latency after less before; None where no engine tells both."""
        if self.emulated or self.after is None:
            return None
        before, after = self.before.engine.latency_ms, self.after.engine.latency_ms
        return statistics.median(after) - statistics.median(before) if before and after else None

    @property
    def layer_cost_ms(self) -> float | None:
        """What keeping the nodes costs by the layers' own times: their sum after less before; None as for `cost_ms`."""
        if self.emulated or self.after is None:
            return None
        before, after = sum_of_medians_ms(self.before.engine), sum_of_medians_ms(self.after.engine)
        return None if before is None or after is None else after - before

    @cached_property
    def table(self) -> pd.DataFrame:
        """Metric and times of FP32, low and mixed, one row an engine; see `TABLE_COLUMNS`.

        Times are those of real engines. Emulation rounds beside its computing, so its times measure nothing and are missing.
        """
        return pd.DataFrame(self._rows, columns=list(TABLE_COLUMNS))

    @property
    def shown_table(self) -> list[tuple[str | float | None, ...]]:
        """`table` for people, under `TABLE_HEADS`; None where something was not measured."""
        named = [dict(zip(TABLE_COLUMNS, row, strict=True)) for row in self._rows]
        shown = ("engine", "verdict", "max_abs", "snr_db", "latency_ms", "runs_per_s", "layer_sum_ms")
        return [
            (*(cast("str | float | None", row[name]) for name in shown),
             None if row["low_layers"] is None else f"{row['low_layers']} of {row['layers']}")
            for row in named
        ]  # fmt: skip

    @property
    def _rows(self) -> list[tuple[JsonValue, ...]]:
        mixed = f"{self.precision}, {len(self.keep_fp32)} in fp32"
        sides = (("fp32", 0, self.fp32), (self.precision, 0, self.before), (mixed, len(self.keep_fp32), self.after))
        return [_table_row(name, count, diff, self.precision, timed=not self.emulated)
                for name, count, diff in sides if diff is not None]  # fmt: skip

    @property
    def blame(self) -> dict[str, str]:
        """Tensor → where its error comes from, in words, for those whose error is large."""
        sources = {source.tensor for source in self.sources} or ({self.source.tensor} if self.source else set())
        return {
            row.tensor: "source" if row.tensor in sources else "starts here" if not row.inputs_large else "inherited"
            for row in self.errors
            if row.large or row.tensor in sources
        }

    @property
    def headline(self) -> str:
        """The finding in one or two sentences."""
        if self.verdict == "same":
            what = f"passes the check {self.check}" if self.check else "is the same as the reference"
            return f"{self.precision} {what}; nothing to find"
        if not self.fp32_passes:
            return next((n for n in self.notes if "FP32 has the fault too" in n), "FP32 has the fault too")
        kept = self.keep_fp32
        why = self.source.why if self.source is not None else f"{self.precision} differs, and no single node stands out"
        if not kept:
            return f"{why}. No set of nodes to keep in FP32 was found"
        others = f", and {_others(self.sources)}" if len(self.sources) > 1 else ""
        return f"{why}{others}. Kept in FP32, {_repairs(kept)} it: {' … '.join(dict.fromkeys((kept[0], kept[-1])))}"

    def as_json(self) -> dict[str, JsonValue]:
        """The JSON keys of `trt-lab locate`, without `fixed_model`, which the command adds."""
        trials = self.region.trials if self.region is not None else ()
        return {
            "verdict": self.verdict,
            "keep_fp32": list(self.keep_fp32),
            "minimal": self.region.minimal if self.region is not None else None,
            "needed": {str(node): need for node, need in needed(trials, self.keep_fp32).items()},
            "source": self.source.node if self.source is not None else None,
            "why": self.source.why if self.source is not None else None,
            "kind": self.source.evidence.kind if self.source is not None and self.source.evidence is not None else None,
            "sources": [_source_json(source) for source in self.sources],
            "fp32_passes": self.fp32_passes,
            "notes": list(self.notes),
            "engine_builds": self.engine_builds,
            "seconds": round(self.seconds, 3),
            "before": outputs_json(self.before),
            "after": outputs_json(self.after) if self.after is not None else None,
            "cost_ms": self.cost_ms,
            "layer_cost_ms": self.layer_cost_ms,
            "table": [dict(zip(TABLE_COLUMNS, row, strict=True)) for row in self._rows],
            "observer": {"emulated": self.emulated, "proved": self.proved},
            "steps": [
                {"keep_fp32": list(t.keep_fp32), "passes": t.passes, "max_abs": t.error, "builds": t.builds}
                for t in trials
            ],
        }

    def __repr__(self) -> str:
        return f"<Finding: {self.headline}>"

    def _repr_html_(self) -> str:
        kept = "".join(f"<li><code>{escape(node)}</code></li>" for node in self.keep_fp32)
        after = f"<p>After: {escape(self.after.headline)}</p>" if self.after is not None else ""
        return (
            f"<p><b>{_mark(self.verdict)}</b> {escape(self.headline)}</p><p>Before: {escape(self.before.headline)}</p>{after}"
            f"<p>Keep in FP32:</p><ol>{kept}</ol>"
        )


def sum_of_medians_ms(record: Record) -> float | None:
    """Sum of the layers' times (medians where known); None when they were not timed."""
    if not record.times:
        return None
    return sum(t.average_ms if t.median_ms is None else t.median_ms for t in record.times)


def types_line(layers: Sequence[LayerInfo], asked: Precision) -> tuple[str, int | None]:
    """Which types an engine really has, in words, and how many layers have the one asked for; None: it does not tell."""
    low, told = count_low(layers, asked)
    word = {"fp16": "half", "bf16": "bfloat16", "fp32": "float32"}[asked]
    if not told:
        return f"asked {asked.upper()}; the engine does not tell the types of its layers", None
    return f"asked {asked.upper()}, {low} of {told} layers are {word}", low


def count_low(layers: Sequence[LayerInfo], asked: str) -> tuple[int, int]:
    """Layers that compute in the type asked for, and all that tell their type; reformats do not count."""
    wanted = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}[asked]
    told = [layer.precision for layer in layers if layer.precision is not None and not is_reformat(layer)]
    return sum(kind.startswith(wanted) for kind in told), len(told)


def _table_row(name: str, kept: int, diff: Diff, low: str, *, timed: bool) -> tuple[JsonValue, ...]:
    latency = statistics.median(diff.engine.latency_ms) if timed and diff.engine.latency_ms else None
    worst = min((s.snr_db for s in diff.tensors if s.snr_db is not None), default=None)
    count, told = count_low(diff.engine.layers, low)
    return (
        name, kept, diff.verdict, diff.largest, worst, latency, 1000.0 / latency if latency else None,
        sum_of_medians_ms(diff.engine) if timed else None, count if told else None, told,
    )  # fmt: skip


def outputs_json(diff: Diff) -> dict[str, JsonValue]:
    """Verdict and worst figures of a diff's tensors."""
    figures = [s.max_abs for s in diff.tensors if s.max_abs is not None]
    return {
        "verdict": diff.verdict,
        "max_abs": max(figures, default=None),
        "first_divergent": diff.comparison.first_divergent,
    }


def _repairs(kept: tuple[NodeId, ...]) -> str:
    return "1 node repairs" if len(kept) == 1 else f"{len(kept)} nodes repair"


def _others(sources: tuple[Source, ...]) -> str:
    count = len(sources) - 1
    return f"{count} more {'source' if count == 1 else 'sources'} ({', '.join(s.node for s in sources[1:4])}{', …' if count > 3 else ''})"


def _source_json(source: Source) -> dict[str, JsonValue]:
    seen = source.evidence
    found: dict[str, JsonValue] = {"node": source.node, "tensor": source.tensor, "why": source.why}
    return found | ({} if seen is None else {str(name): value for name, value in asdict(seen).items()})


def _mark(verdict: Verdict) -> str:
    return {"same": "✓ same", "differs": "✗ differs", "not_comparable": "? not comparable"}[verdict]
