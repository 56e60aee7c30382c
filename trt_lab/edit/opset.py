"""A model's opset raised to where the schemas have bfloat16, with every operator meaning what it meant.

bfloat16 came into the schemas piece by piece: MatMul with opset 13, Conv, pooling and LSTM not before 22, while
exporters write opset 17. Between 13 and 22 few operators changed other than in the types they take (found by
comparing all schemas of onnx.defs): those are rewritten here, and a model with one that cannot be is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from trt_lab.edit.names import Names
from trt_lab.edit.schema import FIRST_IR_WITH_FREE_INITIALIZERS, FIRST_OPSET_WITH_BF16, positions
from trt_lab.graph import GraphView
from trt_lab.model import Model

OPSET_WITH_BF16_EVERYWHERE = 22

_REDUCTIONS = frozenset(
    f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)
_AXES_BECAME_AN_INPUT = 18
_SPLIT_WANTS_A_COUNT = 18
_ROIALIGN_DEFAULT_CHANGED = 16
_GRIDSAMPLE_MODES_RENAMED = 20
_GRIDSAMPLE_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@dataclass(frozen=True)
class Raised:
    """A model and what was done to its opset, one line."""

    model: Model
    notes: tuple[str, ...] = ()


def raise_for_bfloat16(model: Model) -> Raised:
    """Raises the opset to 22 where that lets more nodes take bfloat16; done once a model. Node ids stay.

    Cases: axes of reductions move from an attribute to an input; Split says how many parts; RoiAlign and GridSample
    say in words what was their default. Left as it is: opset under 13, local functions, and models with
    GroupNormalization before 21, DFT before 20, or a BatchNormalization that gives out statistics.

    Args:
        model: Stays equal.
    """
    known = model.memo.get("raised")
    if not isinstance(known, Raised):
        known = model.memo["raised"] = _raise(model)
    return known


def _raise(model: Model) -> Raised:
    opset = model.opset.get("", OPSET_WITH_BF16_EVERYWHERE)
    if not FIRST_OPSET_WITH_BF16 <= opset < OPSET_WITH_BF16_EVERYWHERE or model.ir.functions:
        return Raised(model)
    gained = {node.op_type for node in model.ir.graph if not node.domain and _gains(node.op_type, opset)}
    if not gained:
        return Raised(model)
    obstacle = next((why for node in _all_nodes(model.ir) if (why := _obstacle(node, opset))), None)
    if obstacle is None and (model.ir.ir_version or 0) < FIRST_IR_WITH_FREE_INITIALIZERS:
        obstacle = "its file format is older than IR 4"
    shown = ", ".join(sorted(gained)[:4])
    if obstacle is not None:
        return Raised(
            model, (f"{shown} take bfloat16 from a later opset on, to which the model cannot be raised: {obstacle}",)
        )
    copy = model.clone_ir()
    names = Names.of(GraphView.of(model))
    for node in list(_all_nodes(copy)):
        if not node.domain:
            _rewrite(node, opset, copy.graph, names)
    for graph in copy.graphs():
        graph.opset_imports[""] = OPSET_WITH_BF16_EVERYWHERE
    note = f"opset raised from {opset} to {OPSET_WITH_BF16_EVERYWHERE}, where {shown} take bfloat16"
    return Raised(Model.from_ir(copy, path=model.path, notes=model.notes), (note,))


def _gains(op_type: str, opset: int) -> bool:
    now, later = positions(op_type, "", opset, "bf16"), positions(op_type, "", OPSET_WITH_BF16_EVERYWHERE, "bf16")
    if isinstance(later, str):
        return False
    return isinstance(now, str) or sum((*now.inputs, *now.outputs)) < sum((*later.inputs, *later.outputs))


def _all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    return ir.traversal.RecursiveGraphIterator(model.graph)


def _obstacle(node: ir.Node, opset: int) -> str | None:
    """Why a node cannot be raised, or None."""
    if node.domain:
        return None
    changed = {"GroupNormalization": 21, "DFT": 20}.get(node.op_type, 0)
    if opset < changed:
        return f"{node.op_type} '{node.name}' means something else from opset {changed} on"
    if node.op_type == "BatchNormalization" and len(node.outputs) > 1:
        return f"BatchNormalization '{node.name}' gives out statistics, which it no longer does"
    return None


def _rewrite(node: ir.Node, opset: int, graph: ir.Graph, names: Names) -> None:
    """Makes a node mean at opset 22 what it meant at `opset`."""
    if node.op_type in _REDUCTIONS and opset < _AXES_BECAME_AN_INPUT:
        axes = node.attributes.pop("axes", None)
        if axes is not None:
            name = names.tensor(f"{node.outputs[0].name}_axes")
            tensor = ir.tensor(np.array(axes.as_ints(), np.int64), name=name)
            value = ir.Value(
                name=name, type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([tensor.size]), const_value=tensor
            )
            graph.register_initializer(value)
            node.resize_inputs(2)
            node.replace_input_with(1, value)
    elif node.op_type == "Split" and opset < _SPLIT_WANTS_A_COUNT:
        if len(node.inputs) < 2 or node.inputs[1] is None:
            node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", len(node.outputs))
    elif node.op_type == "RoiAlign" and opset < _ROIALIGN_DEFAULT_CHANGED:
        node.attributes["coordinate_transformation_mode"] = ir.AttrString(
            "coordinate_transformation_mode", "output_half_pixel"
        )
    elif node.op_type == "GridSample" and opset < _GRIDSAMPLE_MODES_RENAMED:
        mode = node.attributes.get("mode")
        if mode is not None and mode.as_string() in _GRIDSAMPLE_MODES:
            node.attributes["mode"] = ir.AttrString("mode", _GRIDSAMPLE_MODES[mode.as_string()])
