"""Two builds of one model, for `trt-lab compare`: what each engine is made of, and how far each is from the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trt_lab.cli.output import print_line, shorten
from trt_lab.compare.details import quantiles
from trt_lab.compare.sides import Comparison, Side, matched_samples
from trt_lab.compare.words import format_figure
from trt_lab.profiling.engines import EngineDiff, diff_engines
from trt_lab.profiling.opening import open_engines
from trt_lab.record.schema import to_json
from trt_lab.types import JsonValue

_SHOWN = 8
_WIDTH = 80


@dataclass(frozen=True)
class Builds:
    """Two engines side by side.

    Attributes:
        diff: Their layers, by ONNX node.
        medians: Tensor that is not equal → median of |a − b| on its worst sample.
    """

    diff: EngineDiff
    medians: dict[str, float | None]

    def as_json(self) -> dict[str, JsonValue]:
        """For `--json`; what a file does not tell is null."""
        a, b = self.diff.a.facts, self.diff.b.facts
        return {
            "layers": {"a": len(self.diff.a.layers), "b": len(self.diff.b.layers)},
            "fusions_changed": to_json(self.diff.fusions_changed),
            "tactics_changed": to_json(self.diff.tactics_changed),
            "types_changed": to_json(self.diff.types_changed),
            "timing_cache": {"a": a.get("timing_cache"), "b": b.get("timing_cache")},
            "engine_hash": {"a": a.get("engine_hash"), "b": b.get("engine_hash")},
            "median_abs": dict(self.medians),
            "notes": [*self.diff.notes],
        }

    def print(self) -> None:
        """Fusions and tactics apart, and whether a timing cache was used."""
        diff = self.diff
        print_line(f"builds: {len(diff.a.layers)} layers in a, {len(diff.b.layers)} in b")
        print_line(f"  fusions changed: {len(diff.fusions_changed) or 'none'}")
        for fusion in diff.fusions_changed[:_SHOWN]:
            told = f"{fusion.kind}: {' | '.join(fusion.layers_a)} → {' | '.join(fusion.layers_b)}"
            print_line(f"    {shorten(told, 2 * _WIDTH)}")
        print_line(f"  tactics changed: {len(diff.tactics_changed) or 'none'}")
        for tactic in diff.tactics_changed[:_SHOWN]:
            print_line(f"    {shorten(', '.join(tactic.nodes), _WIDTH)}")
            print_line(f"      {shorten(tactic.tactic_a, _WIDTH)} → {shorten(tactic.tactic_b, _WIDTH)}")
        more = max(len(diff.fusions_changed), len(diff.tactics_changed)) - _SHOWN
        if more > 0:
            print_line("  --json lists all of them")
        used = {True: "used", False: "not used", None: "not told"}
        caches = (engine.facts.get("timing_cache") for engine in (diff.a, diff.b))
        a, b = (used[cache if isinstance(cache, bool) else None] for cache in caches)
        print_line(f"  timing cache: {a} for a, {b} for b")
        for name, median in self.medians.items():
            print_line(f"  {shorten(name, 60)}: |a − b| is {format_figure(median)} in the median")


def pair_builds(layers: Sequence[Path], a: Side, b: Side, comparison: Comparison, *, medians: bool = True) -> Builds:
    """Holds two engines against each other.

    Args:
        layers: A record or layer JSON of each.
        a, b: What they gave. comparison: Of the two.
        medians: Whether the median error of each tensor that differs is worked out, which copies it.

    Raises:
        RecordError: A file is no engine. CompareError: They are of different models.
    """
    first, second = open_engines(layers)
    ours, theirs = matched_samples(a, b)
    found: dict[str, float | None] = {}
    for stats in comparison.tensors if medians else ():
        if stats.differing and stats.finite:
            x, y = (side[stats.sample][stats.name] for side in (ours, theirs))
            found[stats.name] = quantiles(x, y, (0.5,)).get(0.5)
    return Builds(diff_engines(first, second), found)
