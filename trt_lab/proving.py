"""Proof on engines of what emulation found; where the clean engine contradicts it, the engine decides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trt_lab import backends
from trt_lab.backends.jobs import MOVED_TWICE
from trt_lab.compare.selfcheck import random_tensors
from trt_lab.compare.words import format_figure
from trt_lab.diagnose.check import Check, judge
from trt_lab.diagnose.engines import MOST_BUILDS, EngineFound, EngineSearch, group_by_layer
from trt_lab.diagnose.journal import Journal
from trt_lab.diagnose.locate import Trial
from trt_lab.edit.inline import inline_functions
from trt_lab.edit.lowering import candidates
from trt_lab.graph.view import GraphView
from trt_lab.means import Means, Wish, build_step, low_precision, try_step
from trt_lab.record import Record
from trt_lab.results import Diff, Finding, types_line
from trt_lab.types import NodeId, OnProgress, PrecisionPlan, Progress, Tolerance

CLEAR = 4.0
"""An engine that moves from run to run is searched only while its error is this many times its own movement."""


def prove(means: Means, wish: Wish, journal: Journal, finding: Finding, on_progress: OnProgress) -> Finding:
    """Builds the clean engine, all low and repaired; where it contradicts the emulation, the engine decides.

    Raises:
        BackendError: The engine in question does not build. UsageError: The check is bad.
    """
    info = backends.get(means.options.backend).info()
    if not (info.can_build and info.can_run):
        note = (
            f"not proved on an engine: '{info.name}' cannot {'run' if info.can_build else 'build'} here ({info.reason})"
        )
        return replace(finding, notes=(*finding.notes, note))
    engines = _Engines(means, wish.check, journal, on_progress)
    before = engines.first()
    if wish.fp32:
        options = replace(means.options, plan=PrecisionPlan())
        finding = replace(finding, fp32=build_step(means, journal, options, ()))
    finding = replace(finding, before=before, emulated=False, engine_builds=engines.built)
    if engines.trials[0].passes:
        return _passes(finding, means)
    noise = engines.unsteady
    if noise is not None and noise.hopeless:
        note = (
            f"no search on the engine: {noise.text}, as much as from the reference; no search could tell a repaired engine "
            "from a lucky run. Look for layers that add in no fixed order, and for inputs or state that are not reset"
        )
        return replace(finding, after=None, proved=False, notes=(*finding.notes, note))
    return _repaired(means, finding, engines, noise)


def _passes(finding: Finding, means: Means) -> Finding:
    """The engine is fine with nothing kept."""
    notes = list(finding.notes)
    line, low_layers = types_line(finding.before.engine.layers, means.options.plan.default)
    if finding.keep_fp32:
        if low_layers == 0:
            why = f"{line}, so nothing was computed in it"
        elif means.options.strongly_typed:
            why = "a fused layer keeps FP32 inside"
        else:
            why = f"weakly typed, TensorRT chose FP32 where it matters ({line})"
        notes.append(
            f"emulation says that it fails, but the engine passes with nothing kept: {why}, "
            "so nothing needs to be kept for this engine"
        )
    elif low_layers == 0:
        notes.append(f"{line}: it is as right, and as fast, as an FP32 engine")
    return replace(finding, verdict="same", after=None, proved=True, notes=tuple(notes), region=None)


def _repaired(means: Means, finding: Finding, engines: _Engines, noise: _Noise | None) -> Finding:
    """The engine is bad: the set of emulation is proved, or the engine is searched."""
    notes = [*finding.notes, *([f"{noise.text}: the tolerance was widened by that"] if noise is not None else [])]
    kept, region = finding.keep_fp32, finding.region
    good = bool(kept) and engines.attempt(kept).passes
    if not good:
        notes.append(
            "emulation and engine disagree: the engine was searched"
            if kept
            else "only the engine fails, so it was searched"
        )
    if (
        not good or not means.options.strongly_typed
    ):  # where TensorRT chooses the other types, emulation cannot say who is needed
        found = engines.search(kept)
        region, good = found.region, bool(found.region.keep_fp32)
        notes += _search_notes(found, engines.built)
    if region is not None:
        earlier = () if region is not finding.region else region.trials
        region = replace(region, trials=(*earlier, *engines.trials))
    final = region.keep_fp32 if region is not None else ()
    after = engines.diffs.get(frozenset(final or kept))
    notes += _type_notes(means, after)
    return replace(
        finding, verdict="differs", after=after, proved=good, engine_builds=engines.built, notes=tuple(notes),
        region=region, fp32_passes=finding.fp32_passes or good,
    )  # fmt: skip


def _search_notes(found: EngineFound, built: int) -> list[str]:
    notes = []
    good = bool(found.region.keep_fp32)
    if found.exhausted:
        notes.append(f"stopped after {built} engine builds: the set passes, but smaller ones may too"
                     if good else f"stopped after {built} engine builds without a set that passes")  # fmt: skip
    if found.all_fail:
        notes.append(
            "the engine fails with every node in FP32 too: there it is not a fault of precision; look at TF32, fusion and "
            "kernels one by one (lab.switches()), and at plugins and what the parser made of the model"
        )
    if found.unbuilt:
        what = "1 engine did not build" if found.unbuilt == 1 else f"{found.unbuilt} engines did not build"
        notes.append(f"{what}, which says nothing of accuracy: those sets were passed over")
    if not found.region.monotone:
        notes.append(
            "some engines fail although they keep all that one which passes keeps: keeping more is not always better"
        )
    return notes


def _type_notes(means: Means, after: Diff | None) -> list[str]:
    """On a weakly typed engine: what types it has, and which requests were not honoured."""
    if means.options.strongly_typed or after is None:
        return []
    line, _ = types_line(after.engine.layers, means.options.plan.default)
    text = f"weakly typed: TensorRT chose the other types by time ({line})"
    notes = [f"{text}. A set that passes there repairs this engine; the cause is what stands as the source"]
    asked = after.engine.meta.facts.get("constraints")
    lost = [c for c in asked if isinstance(c, dict) and c.get("state") != "honoured"] if isinstance(asked, list) else []
    notes += [f"FP32 asked for '{c['node']}': {c['state']}" for c in lost]
    return notes


@dataclass(frozen=True)
class _Noise:
    """How an engine moves from run to run.

    Attributes:
        largest: Largest difference of two runs on one input; infinity where it is not finite.
        hopeless: The error of the engine is not clear of it.
    """

    largest: float
    hopeless: bool

    @property
    def text(self) -> str:
        """In words."""
        figure = format_figure(self.largest) if math.isfinite(self.largest) else "more than numbers can say"
        return f"the engine differs from itself by {figure} from run to run"


def moved_by_itself(record: Record, view: GraphView) -> float:
    """Largest difference of two runs of an engine on one input, random tensors left out; infinity where not finite."""
    told = record.meta.facts.get(MOVED_TWICE)
    random = random_tensors(view)
    moved: Mapping[str, object] = told if isinstance(told, dict) else {}
    figures = [math.inf if value is None else float(value) for name, value in moved.items()
               if name not in random and (value is None or isinstance(value, (int, float)))]  # fmt: skip
    return max(figures, default=0.0)


class _Engines:
    """Engines of one search, each set built once, every build counted."""

    def __init__(self, means: Means, check: Check | None, journal: Journal, on_progress: OnProgress) -> None:
        self._means, self._check, self._journal, self._tell = means, check, journal, on_progress
        self._options = means.options  # with its profile, which tells what keeping nodes costs
        self._widened: Tolerance | None = None
        self.diffs: dict[frozenset[NodeId], Diff] = {}
        self.trials: tuple[Trial, ...] = ()
        self.built = 0
        self.unsteady: _Noise | None = None
        """Set by `first` when the engine moves from run to run by more than the tolerance."""

    def first(self) -> Diff:
        """The engine in question, with nothing kept; sees whether it repeats itself before anything is searched."""
        self.attempt(())
        diff = self.diffs[frozenset()]
        noise = moved_by_itself(diff.engine, GraphView.of(self._means.model))
        if noise > self._means.tolerance.atol:
            error = math.inf if diff.largest is None else diff.largest
            self.unsteady = _Noise(noise, hopeless=not math.isfinite(noise) or error < CLEAR * noise)
            if not self.unsteady.hopeless:
                tolerance = self._means.tolerance
                self._widened = Tolerance(tolerance.atol + 2 * noise, tolerance.rtol)
        return diff

    def attempt(self, keep: tuple[NodeId, ...]) -> Trial:
        """The engine with `keep` in FP32. Raises BackendError when it does not build."""
        self._begin([keep])
        return self._judged(keep, build_step(self._means, self._journal, self._options, keep))

    def attempt_all(self, sets: Sequence[tuple[NodeId, ...]]) -> list[Trial | None]:
        """An engine for each set, side by side where that can be; None for one that does not build."""
        self._begin(sets)

        made = self._means.together(lambda keep: try_step(self._means, self._journal, self._options, keep), sets)
        return [None if diff is None else self._judged(keep, diff) for keep, diff in zip(sets, made, strict=True)]

    def _begin(self, sets: Sequence[tuple[NodeId, ...]]) -> None:
        self._tell(Progress("prove", None, f"engine {self.built + 1}: {len(sets[0])} nodes in FP32"))
        self.built += len(sets)

    def _judged(self, keep: tuple[NodeId, ...], diff: Diff) -> Trial:
        self.diffs[frozenset(keep)] = diff
        trial = Trial(keep, self._passes(diff), diff.largest, builds=1)
        self.trials = (*self.trials, trial)
        return trial

    def _passes(self, diff: Diff) -> bool:
        outputs = [diff.engine.outputs(i) for i in range(diff.engine.samples)]
        golden = [diff.reference.outputs(i) for i in range(diff.reference.samples)]
        if self._check is not None:
            return self._check.passes(outputs, golden)
        if self._widened is None:
            return diff.verdict == "same"
        fixed = [s.name for s in diff.tensors if s.verdict != "not_comparable"]
        wanted = [{name: sample[name] for name in fixed} for sample in golden]
        return judge(outputs, wanted, self._widened)[0]

    def search(self, first: tuple[NodeId, ...]) -> EngineFound:
        """The search on engines, at most `MOST_BUILDS` in all. Ids are those of the model given."""
        inlined = inline_functions(self._means.model)
        view, names = GraphView.of(inlined.model), inlined.origin
        able = candidates(inlined.model, low_precision(self._options))
        nodes = [n for n in view.graphs[""].nodes if not able[n].reason]
        inner = {names.get(n, n): n for n in nodes}
        layers = [
            replace(layer, nodes=tuple(inner[n] for n in layer.nodes if n in inner))
            for layer in self.diffs[frozenset()].engine.layers
        ]

        def outer(keep: Sequence[NodeId]) -> tuple[NodeId, ...]:
            return tuple(names.get(n, n) for n in keep)

        def attempt(sets: Sequence[tuple[NodeId, ...]]) -> list[Trial | None]:
            made = self.attempt_all([outer(keep) for keep in sets])
            return [None if t is None else replace(t, keep_fp32=keep) for keep, t in zip(sets, made, strict=True)]

        tried = [replace(t, keep_fp32=tuple(inner[n] for n in t.keep_fp32 if n in inner)) for t in self.trials]
        search = EngineSearch(
            view, nodes, group_by_layer(nodes, layers), attempt,
            tried=tried, limit=MOST_BUILDS - self.built, width=self._means.width,
        )  # fmt: skip
        found = search.run([inner[n] for n in first if n in inner])
        return replace(found, region=replace(found.region, keep_fp32=outer(found.region.keep_fp32)))
