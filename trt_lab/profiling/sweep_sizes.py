"""The sizes that a sweep measures: those that a user gives, or a few over the range of each free axis.

Kernels are tuned for multiples: 640×480 may be quicker than 638×479. So beside each automatic size stands one that is
one less on each axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from trt_lab.backends.shapes import input_shapes, propose
from trt_lab.errors import UsageError
from trt_lab.model import Model
from trt_lab.options import ShapeText, parse_shape
from trt_lab.types import Shape, ShapeRange

Sizes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Shape of each input that has free axes."""

SizesArgument: TypeAlias = Sequence[ShapeText] | Sequence[Mapping[str, ShapeText]]
"""What a user gives: a shape a size where one input is free, else input → shape."""

MAX_SIZES = 64
_STEPS = 5
_DOWN, _UP = 4, 2
"""Where no range is given: from a quarter of the usual size to twice."""

_MULTIPLES = ((64, 32), (16, 8))
"""Usual size from which on automatic sizes are multiples of so many."""


@dataclass(frozen=True)
class _Axis:
    """A free axis; those of one name are one axis."""

    places: tuple[tuple[str, int], ...]
    low: int
    usual: int
    high: int

    @property
    def is_batch(self) -> bool:
        return all(axis == 0 for _, axis in self.places)


def free_inputs(model: Model) -> dict[str, Shape]:
    """Inputs with axes that any size fits, in order."""
    shapes = input_shapes(model)
    return {n: s for n, s in shapes.items() if s is not None and not all(isinstance(d, int) and d > 0 for d in s)}


def parse_sizes(model: Model, sizes: SizesArgument) -> tuple[Sizes, ...]:
    """Checks the sizes that a user gives; each once, in the order given.

    Raises:
        UsageError: No free axis; an input that is not named, is not there, or has another rank or a fixed size; none,
            or more than `MAX_SIZES`.
    """
    free = _free_or_refuse(model)
    if not sizes or isinstance(sizes, (str, bytes)) or len(sizes) > MAX_SIZES:
        raise UsageError(f"give 1 to {MAX_SIZES} sizes as a list, for example {_example(free)}")
    found: list[Sizes] = []
    for given in sizes:
        size = _parse_one(free, given)
        if size not in found:
            found.append(size)
    return tuple(found)


def choose_sizes(model: Model, ranges: Sequence[ShapeRange]) -> tuple[Sizes, ...]:
    """A few sizes over the range of the free axes: first all but the batch grow together, then the batch alone.

    Args:
        ranges: Smallest, usual and largest shape; where an input has none, a quarter of a proposed usual size to twice.

    Raises:
        UsageError: No free axis, or none with more than one size.
    """
    free = _free_or_refuse(model)
    axes = _axes(model, free, ranges)
    base = {name: [d if isinstance(d, int) and d > 0 else 1 for d in shape] for name, shape in free.items()}
    others, batch = [a for a in axes if not a.is_batch], [a for a in axes if a.is_batch]
    found: list[Sizes] = []
    for moving, choose in ((others, _scaled), (batch, _batches)):
        for values in choose([a for a in moving if a.low < a.high]):
            moved = dict(zip((a.places for a in moving if a.low < a.high), values, strict=True))
            size = {name: list(shape) for name, shape in base.items()}
            for axis in axes:
                for name, place in axis.places:
                    size[name][place] = moved.get(axis.places, axis.usual)
            fixed = {name: tuple(shape) for name, shape in size.items()}
            if fixed not in found:
                found.append(fixed)
    if len(found) < 2:
        raise UsageError("every axis has one size only; give a range (lab.use(shapes=…)) or a list of sizes")
    return tuple(found)


def cover(sizes: Sequence[Sizes], usual: Mapping[str, tuple[int, ...]] | None = None) -> tuple[ShapeRange, ...]:
    """One range an input that holds all sizes; `usual` is the optimum where it lies within, else the middle size."""
    ordered = sorted(sizes, key=elements)
    ranges = []
    for name in ordered[0]:
        shapes = [size[name] for size in ordered]
        low, high = (tuple(pick(axis) for axis in zip(*shapes, strict=True)) for pick in (min, max))
        optimum = (usual or {}).get(name) or shapes[len(shapes) // 2]
        if not all(a <= b <= c for a, b, c in zip(low, optimum, high, strict=True)):
            optimum = shapes[len(shapes) // 2]
        ranges.append(ShapeRange(name, low, tuple(optimum), high))
    return tuple(ranges)


def elements(sizes: Sizes) -> int:
    """Elements of all inputs with free axes together: how much there is to do, roughly."""
    return sum(math.prod(shape) for shape in sizes.values())


def show(sizes: Sizes) -> str:
    """`1x3x480x640`, with the input's name where there are several."""
    parts = {name: "x".join(map(str, shape)) or "scalar" for name, shape in sizes.items()}
    return next(iter(parts.values())) if len(parts) == 1 else " ".join(f"{n}:{s}" for n, s in parts.items())


def _free_or_refuse(model: Model) -> dict[str, Shape]:
    free = free_inputs(model)
    if not free:
        raise UsageError(f"{model.name}: every input has a fixed shape, so there is one size only and nothing to sweep")
    return free


def _example(free: Mapping[str, Shape]) -> str:
    shape = "x".join(str(d) if isinstance(d, int) and d > 0 else "64" for d in next(iter(free.values())))
    return f"['{shape}']" if len(free) == 1 else f"[{{'{next(iter(free))}': '{shape}', …}}]"


def _parse_one(free: Mapping[str, Shape], given: ShapeText | Mapping[str, ShapeText]) -> Sizes:
    if not isinstance(given, Mapping):
        if len(free) > 1:
            raise UsageError(
                f"there are {len(free)} inputs with free axes ({', '.join(free)}); name them: {_example(free)}"
            )
        given = {next(iter(free)): given}
    if unknown := [name for name in given if name not in free]:
        raise UsageError(f"no input '{unknown[0]}' with free axes; there are {', '.join(free)}")
    if missing := [name for name in free if name not in given]:
        raise UsageError(f"no size for input '{missing[0]}'; give one for each of {', '.join(free)}")
    sizes = {name: parse_shape(given[name], name) for name in free}
    for name, shape in sizes.items():
        model_shape = free[name]
        wanted = "×".join("?" if not isinstance(d, int) or d <= 0 else str(d) for d in model_shape)
        fits = len(shape) == len(model_shape) and all(
            not isinstance(d, int) or d <= 0 or d == size for d, size in zip(model_shape, shape, strict=True)
        )
        if not fits or 0 in shape:
            raise UsageError(f"input '{name}': {'x'.join(map(str, shape))} does not fit the model's {wanted}")
    return sizes


def _axes(model: Model, free: Mapping[str, Shape], ranges: Sequence[ShapeRange]) -> list[_Axis]:
    given = {r.name: r for r in ranges}
    proposed = {r.name: r for r in propose(model)}
    places: dict[object, list[tuple[str, int]]] = {}
    for name, shape in free.items():
        for axis, size in enumerate(shape):
            if not isinstance(size, int) or size <= 0:
                key = size if isinstance(size, str) and size.strip("?") else (name, axis)
                places.setdefault(key, []).append((name, axis))
    axes = []
    for found in places.values():
        name, axis = found[0]
        if name in given:
            shapes = given[name]
            low, usual, high = shapes.min[axis], shapes.opt[axis], shapes.max[axis]
        elif axis == 0:
            low, usual, high = proposed[name].min[0], proposed[name].opt[0], proposed[name].max[0]
        else:
            usual = proposed[name].opt[axis]
            low, high = max(1, usual // _DOWN), usual * _UP
        axes.append(_Axis(tuple(found), low, usual, high))
    return axes


def _scaled(axes: Sequence[_Axis]) -> list[tuple[int, ...]]:
    """Sizes of the axes grown together: both ends and the usual size as they are, between them multiples; and one less."""
    if not axes:
        return []
    smallest, largest = min(a.low / a.usual for a in axes), max(a.high / a.usual for a in axes)
    between = [smallest * (largest / smallest) ** (i / (_STEPS - 1)) for i in range(1, _STEPS - 1)]
    whole = [tuple(_rounded(axis, scale) for axis in axes) for scale in between]
    whole += [tuple(a.low for a in axes), tuple(a.usual for a in axes), tuple(a.high for a in axes)]
    found: dict[tuple[int, ...], None] = {}
    for sizes in sorted(whole):
        found[tuple(max(a.low, size - 1) for a, size in zip(axes, sizes, strict=True))] = None
        found[sizes] = None
    return list(found)


def _rounded(axis: _Axis, scale: float) -> int:
    multiple = next((by for start, by in _MULTIPLES if axis.usual >= start), 1)
    return min(max(round(axis.usual * scale / multiple) * multiple, axis.low), axis.high)


def _batches(axes: Sequence[_Axis]) -> list[tuple[int, ...]]:
    """Powers of two up to the largest batch, and one less from 4 on."""
    if not axes:
        return []
    low, high = max(a.low for a in axes), min(a.high for a in axes)
    sizes = {low, high} | {1 << i for i in range(high.bit_length()) if low <= 1 << i <= high}
    sizes |= {size - 1 for size in sizes if size >= 4 and size - 1 >= low}
    return [tuple(size for _ in axes) for size in sorted(sizes)]
