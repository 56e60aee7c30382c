"""From what a user writes (`"fp16"`, `"1x3x64x64"`) to `BuildOptions`; the same for Python, command line and widget."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from trt_lab.errors import UsageError
from trt_lab.types import PRECISIONS, BuildOptions, NodeId, Precision, ShapeRange, Tolerance

ShapeText = str | Sequence[int]
ShapeArgument = Mapping[str, ShapeText | tuple[ShapeText, ShapeText, ShapeText]]


def parse_precision(text: str) -> Precision:
    """`fp32`, `fp16` or `bf16`, in any case.

    Raises:
        UsageError: anything else; the message lists what there is.
    """
    for precision in PRECISIONS:
        if text.lower() == precision:
            return precision
    raise UsageError(f"precision {text!r} is not known; take one of {', '.join(PRECISIONS)}")


def change_options(
    options: BuildOptions,
    *,
    precision: str | None = None,
    keep_fp32: tuple[NodeId, ...] | None = None,
    shapes: ShapeArgument | None = None,
    **build: Any,
) -> BuildOptions:
    """A copy of `options` with what is given changed; `build` holds other fields of `BuildOptions`.

    Raises:
        UsageError: An unknown option, precision or shape.
    """
    known = {field.name for field in fields(BuildOptions)} - {"backend", "plan", "shapes"}
    if unknown := sorted(set(build) - known):
        raise UsageError(f"there is no option {unknown[0]!r}; there are: {', '.join(sorted(known))}")
    plan = options.plan
    if precision is not None:
        plan = replace(plan, default=parse_precision(precision))
    if keep_fp32 is not None:
        plan = replace(plan, keep_fp32=keep_fp32)
    ranges = options.shapes if shapes is None else parse_shapes(shapes)
    given = {name: value for name, value in build.items() if value is not None}
    return replace(options, plan=plan, shapes=ranges, **given)


def parse_shape(text: ShapeText, name: str) -> tuple[int, ...]:
    """`"1x3x64x64"`, `"1,3,64,64"` or a sequence of ints → sizes; "" is a scalar.

    Raises:
        UsageError: a size that is no whole number of at least 0; names the input.
    """
    parts = re.split(r"[x×,\s]+", text.strip("[]() ")) if isinstance(text, str) else list(text)
    try:
        sizes = tuple(int(part) for part in parts if part != "")
    except (TypeError, ValueError):
        raise UsageError(f"shape {text!r} of input {name!r} is no list of sizes; write it as 1x3x224x224") from None
    if any(size < 0 for size in sizes):
        raise UsageError(f"shape {text!r} of input {name!r} has a negative size; give a number for each axis")
    return sizes


def parse_shapes(shapes: ShapeArgument) -> tuple[ShapeRange, ...]:
    """`{"x": "1x3x64x64"}` (fixed) or `{"x": (min, opt, max)}` → ranges.

    Raises:
        UsageError: not one or three shapes; names the input.
    """
    ranges = []
    for name, given in shapes.items():
        if isinstance(given, str) or (given and all(isinstance(size, int) for size in given)) or given == ():
            fixed = parse_shape(given, name)  # type: ignore[arg-type]  # the test above leaves one shape
            ranges.append(ShapeRange(name, fixed, fixed, fixed))
        elif len(given) == 3:
            low, usual, high = (parse_shape(shape, name) for shape in given)  # type: ignore[arg-type]  # three shapes
            ranges.append(ShapeRange(name, low, usual, high))
        else:
            raise UsageError(f"input {name!r}: give one shape, or three (min, opt, max); got {given!r}")
    return tuple(ranges)


def parse_shape_options(values: Iterable[str]) -> tuple[ShapeRange, ...]:
    """Values of `--shapes`: `NAME:1x3x64x64` or `NAME:MIN:OPT:MAX`; names may hold colons.

    Raises:
        UsageError: not of that form.
    """
    shapes: dict[str, str | tuple[str, str, str]] = {}
    size = r"\[?\d+(?:[x×,]\d+)*\]?"
    for value in values:
        match = re.fullmatch(rf"(.+?):({size})(?::({size}):({size}))?", value)
        if match is None:
            raise UsageError(f"--shapes {value!r}: write NAME:1x3x64x64, or NAME:MIN:OPT:MAX with three such shapes")
        name, low, usual, high = match.groups()
        shapes[name] = low if usual is None else (low, usual, high)
    return parse_shapes(shapes)


def change_tolerance(tolerance: Tolerance, atol: float | None, rtol: float | None) -> Tolerance:
    """A tolerance with the parts that are given."""
    return Tolerance(tolerance.atol if atol is None else atol, tolerance.rtol if rtol is None else rtol)


def describe_options(options: BuildOptions) -> str:
    """Backend, type and number of nodes kept, in a few words."""
    kept = f", {len(options.plan.keep_fp32)} kept in FP32" if options.plan.keep_fp32 else ""
    return f"{options.backend} {options.plan.default}{kept}"
