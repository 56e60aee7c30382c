"""Which sizes are slow for what they are, and which optimisation profiles would serve them.

Works on measured points alone. A size is off the tuned kernels when a size that is larger on every axis is quicker:
then padding up to that one gains time, whatever the reason. It is told as well when it lies well above the line
between its neighbours. Both need a difference larger than the spread of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trt_lab.profiling.sweep_sizes import Sizes, cover, elements, show
from trt_lab.types import ShapeRange

GAIN = 0.05
"""Padding must gain more than this share."""

ABOVE_LINE = 0.25
"""A size that takes more than its neighbours let expect, by this share, is told."""

REACH = 4.0
"""Largest over smallest number of elements in one proposed profile: each size within a factor of 2 of the middle."""


@dataclass(frozen=True, slots=True)
class LayerPoint:
    """Median time of one layer at one size."""

    index: int
    name: str
    median_ms: float


@dataclass(frozen=True)
class SweepPoint:
    """One size.

    Attributes:
        latency_ms: Of each run, end to end. Empty when the engine could not run it: `error` says why.
        round_medians: Median of each round. All sizes are run in turn, so what is slow in one round only was disturbed.
        layers: Times of the layers, profiler on.
        profile: Number of the optimisation profile that holds it; None where there is none, or none is given.
        position: `optimum`, `inside` or `outside` of the profiles; None where none is given.
        tuned_ms: Median of an engine that was built for this size alone; None where none was built.
        expected_ms: What its neighbours let expect; None at the ends, or where too few are known.
        above_line: It takes more than that, in every round.
        pad_to, pad_gain_ms: The larger size that is quicker, and by how much.
        blame: The layer that loses most against that size, or against the neighbours' line.
        flags: What is wrong with it, in words; none for a good size.
    """

    sizes: Sizes
    latency_ms: tuple[float, ...] = ()
    round_medians: tuple[float, ...] = ()
    layers: tuple[LayerPoint, ...] = ()
    error: str | None = None
    profile: int | None = None
    position: str | None = None
    tuned_ms: float | None = None
    expected_ms: float | None = None
    above_line: bool = False
    pad_to: Sizes | None = None
    pad_gain_ms: float | None = None
    blame: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        """Elements of the inputs with free axes."""
        return elements(self.sizes)

    @property
    def median_ms(self) -> float | None:
        """None when it did not run."""
        return float(np.median(self.latency_ms)) if self.latency_ms else None

    @property
    def quick_ms(self) -> float | None:
        """Lower quartile: three of four runs took longer."""
        return float(np.quantile(self.latency_ms, 0.25)) if self.latency_ms else None

    @property
    def label(self) -> str:
        """`1x3x480x640`."""
        return show(self.sizes)


def flag(points: Sequence[SweepPoint], profiles: Sequence[Sequence[ShapeRange]] = ()) -> tuple[SweepPoint, ...]:
    """Points in their order with everything filled in that follows from the others.

    Args:
        profiles: Optimisation profiles of the engine; none for backends without them.
    """
    placed = [_place(point, profiles) for point in points]
    padded = [_pad(point, placed) for point in placed]
    lined = [_line(point, padded) for point in padded]
    return tuple(_judge(point, lined, profiles) for point in lined)


def propose_profiles(
    points: Sequence[SweepPoint], usual: Sequence[ShapeRange] = ()
) -> tuple[tuple[ShapeRange, ...], ...]:
    """Optimisation profiles that serve the measured sizes: as few as keep each within `REACH`.

    Sizes that are better padded are served as what they are padded to, so they ask for no profile of their own.

    Args:
        usual: The range in use; its optimum stays the optimum of the profile that it lies in.
    """
    wanted: dict[tuple[tuple[str, tuple[int, ...]], ...], Sizes] = {}
    for point in points:
        if point.latency_ms:
            sizes = point.pad_to or point.sizes
            wanted[tuple(sorted(sizes.items()))] = sizes
    groups: list[list[Sizes]] = []
    for sizes in sorted(wanted.values(), key=elements):
        if groups and elements(sizes) <= REACH * elements(groups[-1][0]):
            groups[-1].append(sizes)
        else:
            groups.append([sizes])
    optimum = {r.name: r.opt for r in usual}
    return tuple(cover(group, optimum if optimum and optimum in group else None) for group in groups)


def multiples(points: Sequence[SweepPoint]) -> list[int]:
    """Of each point the largest power of two, 64 at most, that divides the sizes in which points differ.

    The first axis is taken for the batch and counts only where nothing else differs.
    """
    seen: dict[tuple[str, int], set[int]] = {}
    for point in points:
        for name, shape in point.sizes.items():
            for axis, size in enumerate(shape):
                seen.setdefault((name, axis), set()).add(size)
    differ = [place for place, sizes in seen.items() if len(sizes) > 1]
    counted = [place for place in differ if place[1] > 0] or differ
    return [math.gcd(64, *(point.sizes[name][axis] for name, axis in counted)) for point in points]


def _place(point: SweepPoint, profiles: Sequence[Sequence[ShapeRange]]) -> SweepPoint:
    if not profiles:
        return point
    for number, ranges in enumerate(profiles):
        by_name = {r.name: r for r in ranges}
        known = [(by_name[name], shape) for name, shape in point.sizes.items() if name in by_name]
        if all(_within(shape, r) for r, shape in known):
            optimum = all(shape == r.opt for r, shape in known)
            return replace(point, profile=number, position="optimum" if optimum else "inside")
    return replace(point, position="outside")


def _within(shape: tuple[int, ...], limits: ShapeRange) -> bool:
    return all(a <= b <= c for a, b, c in zip(limits.min, shape, limits.max, strict=True))


def _pad(point: SweepPoint, points: Sequence[SweepPoint]) -> SweepPoint:
    quick, middle = point.quick_ms, point.median_ms
    if quick is None or middle is None:
        return point
    larger = [p for p in points if p.median_ms is not None and p.sizes != point.sizes and _holds(p.sizes, point.sizes)]
    best = min(larger, key=lambda p: p.median_ms or math.inf, default=None)
    if best is None or best.median_ms is None or quick <= best.median_ms * (1 + GAIN):
        return point
    # the spread of the larger size counts as well: three of its four runs must be quicker than the gain asks for
    if float(np.quantile(best.latency_ms, 0.75)) >= quick or not _always(point, best.round_medians, GAIN):
        return point
    return replace(point, pad_to=best.sizes, pad_gain_ms=middle - best.median_ms, blame=_blame(point, best))


def _always(point: SweepPoint, others: Sequence[float], more: float) -> bool:
    """Whether the point is slower in every round; also where the rounds are not told apart."""
    return all(own > other * (1 + more) for own, other in zip(point.round_medians, others, strict=False))


def _holds(large: Sizes, small: Sizes) -> bool:
    return all(
        len(large[name]) == len(shape) and all(a >= b for a, b in zip(large[name], shape, strict=True))
        for name, shape in small.items()
    )


def _blame(point: SweepPoint, other: SweepPoint) -> str | None:
    before = {layer.index: layer.median_ms for layer in other.layers}
    lost = [(layer.median_ms - before[layer.index], layer.name) for layer in point.layers if layer.index in before]
    worst = max(lost, default=None)
    return worst[1] if worst is not None and worst[0] > 0 else None


def _line(point: SweepPoint, points: Sequence[SweepPoint]) -> SweepPoint:
    """Expected time from the nearest good sizes below and above, along a straight line of the logarithms.

    Only sizes that are smaller, or larger, on every axis count: a batch of 8 says nothing about a large image.
    """
    good = [p for p in points if p.median_ms and p.pad_to is None and p.elements != point.elements]
    below = max((p for p in good if _holds(point.sizes, p.sizes)), key=lambda p: p.elements, default=None)
    above = min((p for p in good if _holds(p.sizes, point.sizes)), key=lambda p: p.elements, default=None)
    if below is None or above is None or not below.median_ms or not above.median_ms:
        return point
    whole = math.log(above.elements) - math.log(below.elements)
    share = (math.log(point.elements) - math.log(below.elements)) / whole

    def between(low_ms: float, high_ms: float) -> float:
        return math.exp(math.log(low_ms) * (1 - share) + math.log(high_ms) * share)

    expected = between(below.median_ms, above.median_ms)
    in_rounds = [between(a, b) for a, b in zip(below.round_medians, above.round_medians, strict=False)]
    slow = point.quick_ms is not None and point.quick_ms > expected * (1 + ABOVE_LINE)
    return replace(point, expected_ms=expected, above_line=slow and _always(point, in_rounds, ABOVE_LINE))


def _judge(point: SweepPoint, points: Sequence[SweepPoint], profiles: Sequence[Sequence[ShapeRange]]) -> SweepPoint:
    flags = []
    quick, middle = point.quick_ms, point.median_ms
    if point.error is not None:
        flags.append(f"did not run: {point.error}")
    if point.pad_to is not None and middle is not None and point.pad_gain_ms is not None:
        less = middle - point.pad_gain_ms
        where = f", most of it in '{point.blame}'" if point.blame else ""
        flags.append(f"off the tuned kernels: {show(point.pad_to)} takes {less:.3g} ms, this {middle:.3g} ms{where}")
    elif point.above_line and middle is not None:
        flags.append(
            f"off the tuned kernels: {middle:.3g} ms, where its neighbours let expect {point.expected_ms:.3g} ms"
        )
    if point.position == "outside":
        flags.append("outside of every optimisation profile")
    if point.tuned_ms is not None and quick is not None and middle is not None and quick > point.tuned_ms * (1 + GAIN):
        flags.append(
            f"outside the optimum of the profile: {middle:.3g} ms, an engine built for it {point.tuned_ms:.3g} ms"
        )
    elif point.position == "inside" and point.tuned_ms is None and _worse_than_optimum(point, points):
        flags.append("outside the optimum of the profile: more time for each element than at the optimum")
    return replace(point, flags=tuple(flags))


def _worse_than_optimum(point: SweepPoint, points: Sequence[SweepPoint]) -> bool:
    """A larger size that takes more for each element; a smaller one does so by its fixed cost, which proves nothing."""
    best = next((p for p in points if p.profile == point.profile and p.position == "optimum"), None)
    if best is None or best.median_ms is None or point.quick_ms is None or point.elements <= best.elements:
        return False
    return point.quick_ms / point.elements > (1 + ABOVE_LINE) * best.median_ms / best.elements
