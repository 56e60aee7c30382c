"""Optimisation profiles checked against the model before a build: sizes that are missing, 0 or contradictory."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from trt_lab.errors import InputError, UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import BuildOptions, Dim, NodeId, Shape, ShapeRange

_WINDOWED = ("Conv", "MaxPool", "AveragePool", "LpPool")
_NO_NAME = re.compile(r"^\W*$")
_IMAGE_SIDE, _OTHER_SIZE, _LARGEST_BATCH = 224, 64, 8


@dataclass(frozen=True)
class Profiles:
    """Checked profiles.

    Attributes:
        model: The model to build; a copy with own axis names where unknown axes shared one name.
        ranges: One mapping input → range a profile; empty when every input is static.
        notes: What was done, one line each.
    """

    model: Model
    ranges: tuple[Mapping[str, ShapeRange], ...]
    notes: tuple[str, ...] = ()


def resolve_profiles(model: Model, options: BuildOptions) -> Profiles:
    """Checks the profiles of `options` against the inputs of `model`.

    Raises:
        UsageError: A range names no input, has the wrong rank, changes a fixed size, is not min ≤ opt ≤ max,
            or contradicts another of an axis of the same name; a window is larger than its input at min.
        InputError: An input has unknown sizes and no range (a proposal is in the message), or a size of 0.
    """
    named, notes = name_axes(model, zeros={r.name for r in options.shapes})
    shapes = input_shapes(named)
    zero = [(name, axis) for name, shape in shapes.items() for axis, size in enumerate(shape or ()) if size == 0]
    if zero:
        name, axis = zero[0]
        raise InputError(
            f"input '{name}': axis {axis} has size 0 in the file. TensorRT would build for no elements. If it means "
            f"'any size', open the model with that axis named and give a range: {_proposal_text(propose(model))}"
        )
    every = [options.shapes, *options.more_profiles] if options.shapes else [*options.more_profiles]
    if not every:
        every = [()]
    ranges = tuple(_check_profile(shapes, given, i, len(every)) for i, given in enumerate(every))
    _check_same_names(shapes, ranges)
    for i, profile in enumerate(ranges):
        _check_smallest(named, profile, i if len(ranges) > 1 else None)
    dynamic = any(_unknown(shape) for shape in shapes.values())
    return Profiles(named, ranges if dynamic else (), notes)


def propose(model: Model) -> tuple[ShapeRange, ...]:
    """A profile to accept or change: ranges for inputs with unknown (or 0) sizes, static inputs left out.

    The first axis is taken for a batch (1, 1, 8); the last two of four axes for an image (224); others are 64.
    Axes of one name get one size.
    """
    shapes = input_shapes(model)
    return _propose_for({n: s for n, s in shapes.items() if s is not None and (_unknown(s) or 0 in s)})


def input_shapes(model: Model) -> dict[str, Shape | None]:
    """Shape of each input of the main graph, in order."""
    view = GraphView.of(model)
    return {view.tensors[t].name: view.tensors[t].shape for t in view.inputs}


def name_axes(model: Model, zeros: Collection[str] = ()) -> tuple[Model, tuple[str, ...]]:
    """A copy in which unknown axes called `?` (or other names without a letter or digit) have names of their own.

    TensorRT takes axes of equal names for equal sizes, and exporters write `?` for each axis they do not know.
    The model itself when there is nothing to do.

    Args:
        zeros: Inputs whose axes of size 0 mean "any size" and are named as well.
    """
    names = [d for value in model.ir.graph.inputs for d in map(_axis_name, value.shape or ()) if d is not None]
    blank = {name for name in names if _NO_NAME.match(name)}
    shapes = input_shapes(model)
    if not any(names.count(name) > 1 for name in blank) and not any(0 in (shapes.get(n) or ()) for n in zeros):
        return model, ()
    copy = model.clone_ir()
    done = []
    for value in copy.graph.inputs:
        for axis, size in enumerate(value.shape or ()):
            if _axis_name(size) in blank or (size == 0 and value.name in zeros):
                value.shape[axis] = f"{_word(value.name)}_axis{axis}"  # pyright: ignore[reportOptionalSubscript] (looped over)
                done.append(f"{value.name} axis {axis}")
    for graph in copy.graphs():
        for node in graph:
            for value in node.outputs:
                for axis, size in enumerate(value.shape or ()):
                    if _axis_name(size) in blank:
                        value.shape[axis] = None  # pyright: ignore[reportOptionalSubscript] (looped over)
    note = f"axes without a name of their own named apart on a copy: {', '.join(done)}"
    return Model.from_ir(copy, path=model.path, notes=model.notes), (note,)


def _axis_name(size: object) -> str | None:
    """Name of a symbolic size of the file, `?` included; None for a number and for no name at all."""
    name = getattr(size, "value", size)
    return name if isinstance(name, str) else None


def _word(name: str | None) -> str:
    return re.sub(r"\W", "_", name or "input")


def _unknown(shape: Shape | None) -> tuple[int, ...]:
    """Axes without a number."""
    return tuple(axis for axis, size in enumerate(shape or ()) if not isinstance(size, int))


def _check_profile(
    shapes: Mapping[str, Shape | None], given: Sequence[ShapeRange], number: int, count: int
) -> dict[str, ShapeRange]:
    where = f"profile {number}: " if count > 1 else ""
    for shape_range in given:
        if shape_range.name not in shapes:
            raise UsageError(
                f"{where}no input '{shape_range.name}' in the model (inputs: {', '.join(shapes) or 'none'})"
            )
        _check_range(shape_range, shapes[shape_range.name], where)
    by_name = {r.name: r for r in given}
    missing = {n: s for n, s in shapes.items() if _unknown(s) and n not in by_name}
    if missing:
        _refuse_missing(missing, where)
    for name, shape in shapes.items():
        if name not in by_name and shape is not None and not _unknown(shape):
            sizes = tuple(d for d in shape if isinstance(d, int))
            by_name[name] = ShapeRange(name, sizes, sizes, sizes)
    return by_name


def _refuse_missing(missing: Mapping[str, Shape | None], where: str) -> None:
    parts = []
    for name, shape in missing.items():
        axes = _unknown(shape)
        word = "axis" if len(axes) == 1 else "axes"
        parts.append(f"input {name}: {word} {','.join(map(str, axes))} unknown of ({_shape_text(shape)})")
    proposal = _propose_for(missing)
    raise InputError(f"{where}{'; '.join(parts)}; give min/opt/max, for example {_proposal_text(proposal)}")


def _propose_for(shapes: Mapping[str, Shape | None]) -> tuple[ShapeRange, ...]:
    ranges = []
    for name, shape in shapes.items():
        usual, high = [], []
        for axis, size in enumerate(shape or ()):
            known = isinstance(size, int) and size > 0
            side = _IMAGE_SIDE if len(shape or ()) == 4 and axis >= 2 else _OTHER_SIZE
            usual.append(size if known else 1 if axis == 0 else side)
            high.append(_LARGEST_BATCH if axis == 0 and not known else usual[-1])
        ranges.append(ShapeRange(name, tuple(usual), tuple(usual), tuple(high)))
    return tuple(ranges)


def _proposal_text(ranges: Sequence[ShapeRange]) -> str:
    return " ".join(f"--shapes {r.name}:{_x(r.min)}:{_x(r.opt)}:{_x(r.max)}" for r in ranges) or "--shapes NAME:…"


def _x(sizes: Sequence[Dim]) -> str:
    return "x".join(str(s) for s in sizes)


def _shape_text(shape: Shape | None) -> str:
    return "×".join("?" if d is None else str(d) for d in shape or ())


def _check_range(shape_range: ShapeRange, shape: Shape | None, where: str) -> None:
    name = shape_range.name
    for label, sizes in (("min", shape_range.min), ("opt", shape_range.opt), ("max", shape_range.max)):
        if shape is not None and len(sizes) != len(shape):
            raise UsageError(
                f"{where}input '{name}': {label} {_x(sizes)} has {len(sizes)} axes, "
                f"the input has {len(shape)} ({_shape_text(shape)})"
            )
    for axis, triple in enumerate(zip(shape_range.min, shape_range.opt, shape_range.max, strict=True)):
        low, usual, high = triple
        text = f"min {low}, opt {usual}, max {high}"
        fixed = None if shape is None else shape[axis]
        if isinstance(fixed, int) and fixed > 0 and triple != (fixed, fixed, fixed):
            raise UsageError(f"{where}input '{name}': axis {axis} is fixed at {fixed} in the model, not {text}")
        if low < 1:
            raise UsageError(f"{where}input '{name}': axis {axis} is {text}; every size must be at least 1")
        if not low <= usual <= high:
            middle = min(max(usual, low), high) if low <= high else low
            hint = f"opt must lie between, for example {middle}" if low <= high else "min must not exceed max"
            raise UsageError(f"{where}input '{name}': axis {axis} is {text}; {hint}")


def _check_same_names(shapes: Mapping[str, Shape | None], ranges: Sequence[Mapping[str, ShapeRange]]) -> None:
    """Axes of one name must have one range: TensorRT takes them for equal."""
    for profile in ranges:
        seen: dict[str, tuple[str, int, tuple[int, int, int]]] = {}
        for name, shape in shapes.items():
            for axis, size in enumerate(shape or ()):
                if not isinstance(size, str) or name not in profile:
                    continue
                r = profile[name]
                triple = (r.min[axis], r.opt[axis], r.max[axis])
                other = seen.setdefault(size, (name, axis, triple))
                if other[2] != triple:
                    raise UsageError(
                        f"axis '{size}' is {_x(other[2])} (min, opt, max) at input '{other[0]}' axis {other[1]}, but "
                        f"{_x(triple)} at input '{name}' axis {axis}; axes of one name must have one range"
                    )


def _check_smallest(model: Model, profile: Mapping[str, ShapeRange], number: int | None) -> None:
    """Infers all shapes at min and refuses a window (of a Conv or a pool) larger than what it slides over."""
    copy = model.clone_ir()
    for value in copy.graph.inputs:
        found = profile.get(value.name or "")
        if found is not None and value.shape is not None:
            for axis, size in enumerate(found.min):
                value.shape[axis] = size
    for node in copy.graph:  # shapes of the file at other sizes would contradict
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None
    view = GraphView.of(Model.from_ir(copy, path=model.path))
    where = "" if number is None else f"profile {number}: "
    for node in view.graphs[""].nodes:
        for axis, size, window in _windows(view, node):
            if size < window:
                sizes = ", ".join(f"{r.name} {_x(r.min)}" for r in profile.values())
                raise UsageError(
                    f"{where}at min ({sizes}) node '{node}' ({view.nodes[node].op_type}) has a window of {window} on "
                    f"axis {axis} of size {size} (padding counted): min is too small for it; raise min"
                )


def _windows(view: GraphView, node_id: NodeId) -> list[tuple[int, int, int]]:
    """Axis, padded size and extent of the window for each spatial axis whose size is known; ONNX's Conv and pools."""
    node = view.nodes[node_id]
    if node.op_type not in _WINDOWED or node.domain or node.inputs[0] is None:
        return []
    attributes = view.ir_node(node_id).attributes
    if "auto_pad" in attributes and attributes["auto_pad"].as_string() not in ("", "NOTSET", "VALID"):
        return []
    shape = view.tensors[node.inputs[0]].shape
    weights = view.tensors[node.inputs[1]].shape if len(node.inputs) > 1 and node.inputs[1] else None
    kernel = attributes["kernel_shape"].as_ints() if "kernel_shape" in attributes else (weights or ())[2:]
    if shape is None or len(shape) != len(kernel) + 2:
        return []
    count = len(kernel)
    pads = attributes["pads"].as_ints() if "pads" in attributes else [0] * (2 * count)
    dilations = attributes["dilations"].as_ints() if "dilations" in attributes else [1] * count
    found = []
    for i, (width, step) in enumerate(zip(kernel, dilations, strict=True)):
        size = shape[i + 2]
        if isinstance(size, int) and isinstance(width, int):
            found.append((i + 2, size + pads[i] + pads[i + count], (width - 1) * step + 1))
    return found
