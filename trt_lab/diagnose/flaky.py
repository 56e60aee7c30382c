"""Several builds of one model held against each other: other kernels and all right, or wrong now and then.

A builder times kernels and takes the fastest, so two builds can differ and both be right. What counts is each one against
the reference; the kernels that only the wrong builds have are the suspects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import Literal, TypeAlias

from trt_lab.compare.observer import LayerChange
from trt_lab.compare.selfcheck import BuildPair, compare_builds, largest
from trt_lab.compare.sides import Comparison, compare_sides, open_side
from trt_lab.compare.words import format_figure
from trt_lab.engine_nodes import is_reformat
from trt_lab.record import Record
from trt_lab.types import JsonValue, LayerInfo, NodeId, Tolerance

Kind: TypeAlias = Literal["identical", "other kernels, all right", "wrong now and then", "all wrong"]

LISTED = 3
HTML_KERNELS = 40
"""Layers with other kernels that a still picture lists."""


@dataclass(frozen=True)
class TacticChoice:
    """A layer that has another kernel in some builds.

    Attributes:
        by_build: Kernel of each build, None where it has no such layer.
        suspect: Kernels that wrong builds have and no right one has.
    """

    layer: str
    nodes: tuple[NodeId, ...]
    by_build: tuple[str | None, ...]
    suspect: tuple[str, ...] = ()


@dataclass(frozen=True)
class Build:
    """One of the builds.

    Attributes:
        record: What it left.
        right: Its outputs are within the tolerance of the reference.
        error: Largest error against the reference; None when it is not finite.
        timing_cache: Whether it began with a timing cache; None where the backend has none.
        repeats: It gives the same bits when it is run again; None where that was not tried.
        against_first: Against the first build: layers, kernels, outputs. None for the first.
        saved_cache: File that holds the kernels of this build.
    """

    record: Record
    right: bool
    error: float | None
    timing_cache: bool | None
    repeats: bool | None
    against_first: BuildPair | None
    saved_cache: str | None = None

    @property
    def same_bits(self) -> bool:
        """Whether its outputs are those of the first build, bit by bit."""
        return self.against_first is None or all(s.exact for s in self.against_first.between.tensors)


@dataclass(frozen=True)
class Flaky:
    """What several builds of one model told.

    Attributes:
        kind: What the difference is.
        builds: In the order they were built.
        tactics: Layers with another kernel in some builds. fusions: Layers of the first that another build lacks.
        locked: Whether a build from the saved cache of `lock` had the kernels and bits of that build; None: not tried.
        lock: File of the timing cache to build with from now on; None where nothing is to be locked.
    """

    kind: Kind
    builds: tuple[Build, ...]
    tactics: tuple[TacticChoice, ...]
    fusions: tuple[LayerChange, ...]
    locked: bool | None = None
    lock: str | None = None

    @property
    def headline(self) -> str:
        """One or two sentences."""
        count, wrong = len(self.builds), [i for i, build in enumerate(self.builds, 1) if not build.right]
        if self.kind == "identical":
            return f"{count} builds have the same layers and kernels, and their outputs are the same bit by bit"
        parts = [f"{_count(len(self.tactics), 'layer')} with another kernel"]
        if self.fusions:
            parts.append(f"{_count(len(self.fusions), 'layer')} fused otherwise")
        what = ", ".join(parts)
        if self.kind == "other kernels, all right":
            moved = [b.against_first.between for b in self.builds if b.against_first is not None]
            most = max((m for m in map(largest, moved) if m is not None), default=0.0)
            return f"{count} builds differ ({what}; outputs by at most {most:.3g}), and all are right"
        if self.kind == "all wrong":
            return (
                f"all {count} builds are wrong ({what}): that is no matter of chance; look for the cause (lab.locate())"
            )
        named = ", ".join(map(str, wrong))
        seen = [choice.layer for choice in self.tactics if choice.suspect]
        blame = f"; only there: other kernels in {', '.join(seen[:LISTED])}" if seen else ""
        return f"{len(wrong)} of {count} builds are wrong (number {named}; {what}){blame}"

    def as_json(self) -> dict[str, JsonValue]:
        """For `--json`."""
        return {
            "kind": self.kind,
            "headline": self.headline,
            "builds": [
                {
                    "record": str(build.record.path), "right": build.right, "max_abs": build.error,
                    "timing_cache": build.timing_cache, "repeats": build.repeats, "same_bits": build.same_bits,
                    "layers": len(build.record.layers), "saved_cache": build.saved_cache,
                }
                for build in self.builds
            ],
            "tactics": [
                {"layer": t.layer, "nodes": list(t.nodes), "by_build": list(t.by_build), "suspect": list(t.suspect)}
                for t in self.tactics
            ],
            "fusions": [{"kind": c.kind, "layer": c.layer, "into": list(c.into)} for c in self.fusions],
            "lock": self.lock,
            "locked": self.locked,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<Flaky: {self.headline}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{number}</td><td>{'✓ right' if build.right else '✗ wrong'}</td><td>{format_figure(build.error)}</td>"
            f"<td>{'yes' if build.same_bits else 'no'}</td><td>{escape(build.record.name)}</td></tr>"
            for number, build in enumerate(self.builds, 1)
        )
        kernels = "".join(
            f"<li><code>{escape(choice.layer)}</code>: {escape(', '.join(k or 'no such layer' for k in choice.by_build))}</li>"
            for choice in self.tactics[:HTML_KERNELS]
        )
        locked = f"<p>Kernels to build with from now on: <code>{escape(self.lock)}</code></p>" if self.lock else ""
        return (
            f"<p>{escape(self.headline)}</p><table><thead><tr><th>build</th><th>result</th><th>max abs</th>"
            f"<th>bits of build 1</th><th>record</th></tr></thead><tbody>{rows}</tbody></table><ul>{kernels}</ul>{locked}"
        )


def judge_builds(
    records: Sequence[Record],
    reference: Record,
    tolerance: Tolerance,
    *,
    not_comparable: Mapping[str, str] | None = None,
    repeats: Sequence[bool | None] = (),
    caches: Sequence[str | None] = (),
) -> Flaky:
    """Holds builds of one model against each other and each against the reference.

    Args:
        records: All run on the samples of `reference`.
        not_comparable: Tensors that another run makes anew, and why.
        repeats: Whether each gives the same bits twice. caches: File with the kernels of each.

    Raises:
        CompareError: They have no output in common.
    """
    builds: list[Build] = []
    for index, record in enumerate(records):
        against = compare_sides(
            open_side(record), open_side(reference), tolerance=tolerance, not_comparable=not_comparable or {}
        )
        pair = compare_builds(records[0], record, tolerance=tolerance) if index else None
        again = repeats[index] if repeats else None
        saved = caches[index] if caches else None
        right = against.verdict != "differs"
        builds.append(Build(record, right, _error(against), record.meta.timing_cache, again, pair, saved))
    tactics = tactic_choices([record.layers for record in records], [build.right for build in builds])
    fusions = tuple(change for b in builds if b.against_first is not None for change in b.against_first.fusions)
    return Flaky(_kind(builds, tactics, fusions), tuple(builds), tactics, tuple(dict.fromkeys(fusions)))


def best_build(found: Flaky) -> Build | None:
    """The fastest of the right builds, the first where times are not known; None when none is right."""

    def latency(build: Build) -> float:
        return median(build.record.latency_ms) if build.record.latency_ms else 0.0

    return min((build for build in found.builds if build.right), key=latency, default=None)


def tactic_choices(engines: Sequence[Sequence[LayerInfo]], right: Sequence[bool]) -> tuple[TacticChoice, ...]:
    """Layers of one name with different kernels; a layer that only some builds have is fused otherwise, and left out.

    Args:
        right: Whether the outputs of each engine are right.
    """
    tables = [{layer.name: layer for layer in layers if not is_reformat(layer)} for layers in engines]
    found = []
    for name, layer in tables[0].items() if tables else ():
        kernels = tuple(table[name].tactic if name in table else None for table in tables)
        known = {kernel for kernel in kernels if kernel is not None}
        if len(known) < 2:
            continue
        good = {kernel for kernel, fine in zip(kernels, right, strict=True) if fine}
        bad = dict.fromkeys(k for k, fine in zip(kernels, right, strict=True) if not fine and k is not None)
        found.append(TacticChoice(name, layer.nodes, kernels, tuple(k for k in bad if k not in good) if good else ()))
    return tuple(found)


def _kind(builds: Sequence[Build], tactics: Sequence[TacticChoice], fusions: Sequence[LayerChange]) -> Kind:
    right = [build.right for build in builds]
    if not any(right):
        return "all wrong"
    if not all(right):
        return "wrong now and then"
    alike = not tactics and not fusions and all(build.same_bits for build in builds)
    return "identical" if alike else "other kernels, all right"


def _error(against: Comparison) -> float | None:
    broken = any(s.nan_only_a or s.nan_only_b or s.inf_mismatch for s in against.tensors)
    return None if broken else largest(against)


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
