"""Makes seeded samples: modest numbers, indices in bounds, sizes that work, dynamic axes at modest lengths."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from trt_lab.errors import InputError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.samples.trace import (
    SIZE_USES,
    Use,
    axis_need,
    choices,
    find_uses,
    index_bound,
    needs_positive,
    needs_unit_range,
)
from trt_lab.types import Dim, TensorId, TensorInfo

BATCH = 1
IMAGE_SIDE = 64
LENGTH = 16

MOST_ELEMENTS = 2**36
"""Of one input: 256 GiB of float32. What is less may still be too much for this machine, which then says so itself."""

EDGES = (
    ("all zeros", 0.0),
    ("all ones", 1.0),
    ("low end of the range", -math.inf),
    ("high end of the range", math.inf),
)
"""Edge cases, and the value that every input takes."""

NORMAL_ENDS = (-4.0, 4.0)
"""Ends of the normal distribution, for the edge cases: 4 deviations."""

_LENGTH_NAMES = re.compile(r"seq|time|len|token|frame|step|word|char", re.IGNORECASE)
_BATCH_NAMES = re.compile(r"batch|^b$|^bs$|^n$", re.IGNORECASE)
_STATE_NAMES = re.compile(r"state|hidden|cell|^h$|^c$|^hn?_?\d*$|^cn?_?\d*$", re.IGNORECASE)
_MASK_NAMES = re.compile(r"mask", re.IGNORECASE)
_NAMED = re.compile(r"[A-Za-z]")

Fill = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


class SampleList(list[dict[str, np.ndarray]]):
    """Samples, and how they were made: `notes`, one line each."""

    def __init__(self, samples: list[dict[str, np.ndarray]], notes: tuple[str, ...]) -> None:
        """Keeps `notes` beside the samples."""
        super().__init__(samples)
        self.notes = notes


@dataclass(frozen=True)
class _Recipe:
    """How one input is filled; `note` says it. `range` is None for what is no data: sizes, choices, masks."""

    shape: tuple[int, ...]
    fill: Fill
    note: str
    range: tuple[float, float] | None = None


def make_samples(
    model: Model,
    count: int = 4,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    edges: bool = False,
) -> SampleList:
    """Random inputs that a model can be compared with; the same for the same seed.

    Floats are normally distributed (mean 0, deviation 1; positive where a logarithm or root reads them).
    Integers that the graph uses as indices stay in bounds, sizes are small, choices are among those the graph knows.
    Dynamic axes get modest lengths: batch 1, image sides 64 (longer where a convolution needs it), sequences 16.
    Inputs that are initializers keep their values and are not fed.

    Args:
        model: The model.
        count: Number of samples.
        seed: Sample i of a seed does not depend on `count`.
        shapes: Shapes that win over the defaults, by input.
        edges: Puts the edge cases behind the random samples: all zeros, all ones, all at the low end of the range, all
            at the high end. A value outside the range of an input is taken to its nearest end.

    Raises:
        InputError: A string or sequence input, an unknown rank, or a shape that does not fit the model or any memory.
    """
    if count < 1:
        raise InputError(f"{model.name}: {count} samples asked for; ask for at least one")
    view = GraphView.of(model)
    sizes, notes = _choose_shapes(view, shapes or {})
    recipes = {tensor: _recipe(view, view.tensors[tensor], sizes) for tensor in view.inputs}
    for tensor, recipe in recipes.items():
        if math.prod(recipe.shape) > MOST_ELEMENTS:
            raise InputError(
                f"{model.name}: input '{view.tensors[tensor].name}' of shape {'x'.join(map(str, recipe.shape))} is larger "
                "than any memory; give smaller shapes"
            )
    samples = [
        {
            view.tensors[tensor].name: recipe.fill(_generator(seed, index, tensor), recipe.shape)
            for tensor, recipe in recipes.items()
        }
        for index in range(count)
    ]
    ends = [recipe.range for recipe in recipes.values() if recipe.range is not None]
    for label, value in EDGES if edges and ends else ():
        samples.append(
            {
                view.tensors[tensor].name: _edge(recipe, value, _generator(seed, count, tensor))
                for tensor, recipe in recipes.items()
            }
        )
        notes.append(f"sample {len(samples) - 1}: {label}")
    overridable = [info.name for info in view.tensors.values() if info.overridable and not info.graph]
    if overridable:
        notes.append(
            f"{len(overridable)} inputs ('{overridable[0]}', …) have default values in the model and are not fed"
        )
    notes += [f"'{view.tensors[tensor].name}': {recipe.note}" for tensor, recipe in recipes.items()]
    return SampleList(samples, tuple(notes))


def _edge(recipe: _Recipe, value: float, generator: np.random.Generator) -> np.ndarray:
    """An input full of one value; what is no data is filled as ever."""
    made = recipe.fill(generator, recipe.shape)
    if recipe.range is None:
        return made
    low, high = recipe.range
    return np.full(recipe.shape, min(max(value, low), high)).astype(made.dtype)


def _generator(seed: int, index: int, tensor: TensorId) -> np.random.Generator:
    return np.random.default_rng([abs(seed), int(seed < 0), index, zlib.crc32(tensor.encode())])


# --- shapes ------------------------------------------------------------------------------


def _choose_shapes(
    view: GraphView, given: Mapping[str, tuple[int, ...]]
) -> tuple[dict[TensorId, tuple[int, ...]], list[str]]:
    """A shape for every input; equal names of sizes get equal sizes."""
    inputs = {view.tensors[tensor].name: view.tensors[tensor] for tensor in view.inputs}
    for name in given:
        if name not in inputs:
            raise InputError(
                f"{view.model.name}: a shape is given for '{name}', which is no input; inputs: {_listed(inputs)}"
            )
    symbols: dict[str, int] = {}
    sizes: dict[TensorId, tuple[int, ...]] = {}
    for name, shape in given.items():
        sizes[inputs[name].id] = _check_given(view, inputs[name], tuple(shape))
        for dim, size in zip(inputs[name].shape or (), shape, strict=False):
            if isinstance(dim, str) and _NAMED.search(dim):
                symbols.setdefault(dim, int(size))
    notes: list[str] = []
    for info in inputs.values():
        if info.id in sizes:
            continue
        if info.shape is None:
            raise InputError(
                f"{view.model.name}: the rank of input '{info.name}' is not known; give its shape, as "
                f"{info.name}:1x3x64x64 (--shapes, or the shapes field) or use(shapes={{'{info.name}': '1x3x64x64'}})"
            )
        chosen = tuple(_choose_size(view, info, axis, symbols) for axis in range(len(info.shape)))
        sizes[info.id] = chosen
        if any(not _is_fixed(dim) for dim in info.shape):
            shown = ", ".join(
                "?" if dim is None or (isinstance(dim, int) and dim < 0) else str(dim) for dim in info.shape
            )
            notes.append(f"'{info.name}' [{shown}] is fed as {list(chosen)}; give a shape to change that")
    return sizes, notes


def _is_fixed(dim: Dim) -> bool:
    return isinstance(dim, int) and dim >= 0


def _check_given(view: GraphView, info: TensorInfo, shape: tuple[int, ...]) -> tuple[int, ...]:
    where = f"{view.model.name}: shape {list(shape)} for input '{info.name}'"
    if any(not isinstance(size, (int, np.integer)) or size < 0 for size in shape):
        raise InputError(f"{where}: sizes must be whole numbers of 0 or more")
    if info.shape is not None and len(shape) != len(info.shape):
        raise InputError(f"{where}: the model has {len(info.shape)} axes, {list(info.shape)}; give as many sizes")
    for axis, (dim, size) in enumerate(zip(info.shape or (), shape, strict=False)):
        if _is_fixed(dim) and dim != size:
            raise InputError(f"{where}: axis {axis} is fixed at {dim} in the model, {size} given")
    return tuple(int(size) for size in shape)


def _choose_size(view: GraphView, info: TensorInfo, axis: int, symbols: dict[str, int]) -> int:
    assert info.shape is not None
    dim = info.shape[axis]
    if isinstance(dim, int) and dim >= 0:
        return dim
    name = dim if isinstance(dim, str) else ""
    if name in symbols:
        return symbols[name]
    size = _default_size(view, info, axis, name)
    if _NAMED.search(name):
        symbols[name] = size
    return size


def _default_size(view: GraphView, info: TensorInfo, axis: int, name: str) -> int:
    rank = len(info.shape or ())
    exact, smallest = axis_need(view, info.id, axis)
    if exact:
        return exact
    if _BATCH_NAMES.search(name):
        return BATCH
    wanted = _wanted_size(info, axis, name, rank)
    # An axis as short as the kernel gives one output only; twice that exercises the edges as well.
    return wanted if wanted >= smallest else 2 * smallest


def _wanted_size(info: TensorInfo, axis: int, name: str, rank: int) -> int:
    if _LENGTH_NAMES.search(name):
        return LENGTH
    if axis == 0:
        return BATCH
    if _STATE_NAMES.search(info.name):
        return BATCH
    if rank >= 4 and (info.dtype or "").startswith(("float", "bfloat", "uint8")):
        last = info.shape[-1] if info.shape else None
        channels_last = isinstance(last, int) and 0 < last <= 4
        is_side = axis < rank - 1 if channels_last else axis >= 2
        return IMAGE_SIDE if is_side else 3
    return LENGTH


# --- numbers -----------------------------------------------------------------------------


def _recipe(view: GraphView, info: TensorInfo, sizes: dict[TensorId, tuple[int, ...]]) -> _Recipe:
    shape = sizes[info.id]
    where = f"{view.model.name}: input '{info.name}'"
    if info.dtype == "string":
        raise InputError(f"{where} takes strings, which cannot be made up; give samples")
    if info.dtype is None:
        raise InputError(
            f"{where} is no tensor of a known type, so no numbers can be made for it; give a model with tensor inputs"
        )
    dtype = _dtype(info.dtype)
    uses = find_uses(view, info.id)
    if dtype == np.bool_:
        return _Recipe(shape, lambda rng, s: rng.integers(0, 2, s).astype(np.bool_), "true or false, even odds")
    if dtype.kind in "iu" or info.dtype.startswith(("int", "uint")):
        return _integers(view, info, dtype, shape, uses, sizes)
    return _floats(dtype, shape, uses)


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def _floats(dtype: np.dtype, shape: tuple[int, ...], uses: list[Use]) -> _Recipe:
    if any(needs_positive(use) for use in uses):
        return _Recipe(
            shape,
            lambda rng, s: (np.abs(rng.standard_normal(s)) + 0.1).astype(dtype),
            "|normal| + 0.1: a root or logarithm reads it",
            (0.1, NORMAL_ENDS[1]),
        )
    if any(needs_unit_range(use) for use in uses):
        return _Recipe(
            shape, lambda rng, s: rng.uniform(-0.9, 0.9, s).astype(dtype), "uniform in −0.9 … 0.9", (-0.9, 0.9)
        )
    if dtype.kind == "c":
        return _Recipe(
            shape,
            lambda rng, s: (rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype),
            "normal, mean 0, deviation 1, both parts",
        )
    note = "normal, mean 0, deviation 1"
    return _Recipe(shape, lambda rng, s: rng.standard_normal(s).astype(dtype), note, NORMAL_ENDS)


def _integers(
    view: GraphView,
    info: TensorInfo,
    dtype: np.dtype,
    shape: tuple[int, ...],
    uses: list[Use],
    sizes: dict[TensorId, tuple[int, ...]],
) -> _Recipe:
    for use in uses:
        kind = SIZE_USES.get((use.node.op_type, use.index))
        if kind is not None:
            return _sizes(kind, dtype, shape, use)
    bounds = [bound for use in uses if (bound := index_bound(view, use, sizes)) is not None]
    if bounds:
        return _uniform(dtype, shape, 0, min(bounds), f"an index: 0 … {min(bounds) - 1}")
    for use in uses:
        known = choices(view, use)
        if known is not None:
            return _chosen(dtype, shape, known, use)
    if _MASK_NAMES.search(info.name):
        return _Recipe(shape, lambda _, s: np.ones(s, dtype), "ones: nothing is masked")
    if info.dtype == "uint8":
        return _uniform(dtype, shape, 0, 256, "uniform in 0 … 255")
    limits = ml_dtypes.iinfo(dtype)
    low, high = max(int(limits.min), -8) if info.dtype in ("int8", "int4", "int2") else 0, min(int(limits.max) + 1, 8)
    return _uniform(dtype, shape, low, high, f"uniform in {low} … {high - 1}: the graph does not say what it means")


def _uniform(dtype: np.dtype, shape: tuple[int, ...], low: int, high: int, note: str) -> _Recipe:
    high = max(high, low + 1)
    return _Recipe(shape, lambda rng, s: rng.integers(low, high, s).astype(dtype), note, (low, high - 1))


def _chosen(dtype: np.dtype, shape: tuple[int, ...], known: np.ndarray, use: Use) -> _Recipe:
    shown = f"{known[0]}" if known.size == 1 else f"one of {known.size} values from {known[0]} to {known[-1]}"
    note = f"{shown}, with which node '{use.node.id}' compares it"
    return _Recipe(shape, lambda rng, s: rng.choice(known, s).astype(dtype), note)


def _sizes(kind: str, dtype: np.dtype, shape: tuple[int, ...], use: Use) -> _Recipe:
    """Sizes, axes and counts that work: they are no data, so all samples have the same."""
    values: dict[str, np.ndarray] = {
        "ones": np.ones(shape, dtype),
        "zeros": np.zeros(shape, dtype),
        "small": np.full(shape, 2, dtype),
        "far": np.full(shape, np.iinfo(np.int32).max, dtype) if dtype.itemsize >= 4 else np.ones(shape, dtype),
        "split": np.ones(shape, dtype),
        "sizes": np.full(shape, 8, dtype),
    }
    if kind == "shape":
        made = np.ones(shape, dtype)
        if math.prod(shape):
            made.reshape(-1)[0] = -1
    else:
        made = values[kind]
        if kind == "sizes" and math.prod(shape) >= 3:
            made.reshape(-1)[:2] = (BATCH, 3)
    place = f"input {use.index} of {use.node.op_type} '{use.node.id}'"
    return _Recipe(shape, lambda _r, _s: made.copy(), f"{made.reshape(-1)[:8].tolist()}: a size, {place}")


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(f"'{name}'" for name in list(names)[:8]) or "none"
