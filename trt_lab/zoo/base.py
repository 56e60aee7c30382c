"""What a zoo model is, and a small builder of graphs named as real exports name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trt_lab.model import Model
from trt_lab.types import NodeId

OPSET = 17
"""ReduceMean still takes its axes as an attribute, as most exports in the field do."""


@dataclass(frozen=True)
class Entry:
    """What is known of a model without making it.

    Attributes:
        fault: One line; empty when there is none.
        truth: Nodes at which FP16 goes wrong.
        keep: Smallest region that must stay FP32 for the outputs to be right.
        note: What it teaches.
        precision: Of the fault: `fp16`; `int8` for a quantised model, of which `truth` is a quantiser and `keep` the
            layers to leave in float.
    """

    name: str
    fault: str
    truth: tuple[NodeId, ...]
    keep: tuple[NodeId, ...]
    note: str
    precision: Literal["fp16", "int8"] = field(default="fp16", kw_only=True)


@dataclass(frozen=True)
class ZooModel(Entry):
    """A small model whose fault is known.

    Attributes:
        model: The model.
        feeds: Four seeded samples, input name → array.
    """

    model: Model
    feeds: list[dict[str, np.ndarray]]

    @classmethod
    def of(cls, entry: Entry, model: Model, feeds: list[dict[str, np.ndarray]]) -> ZooModel:
        """The model of an entry."""
        known = (entry.name, entry.fault, entry.truth, entry.keep, entry.note)
        return cls(*known, model, feeds, precision=entry.precision)


class GraphBuilder:
    """Adds nodes one by one; each output is called after its node, `/a/a.0/Conv_output_0`."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def weight(self, name: str, values: np.ndarray, dtype: type[np.generic] = np.float32) -> str:
        """Adds an initializer and returns its name."""
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(values.astype(dtype)), name))
        return name

    def node(self, name: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Adds the node `name`, whose last part without a `_1` is its type, and returns its output's name."""
        op_type = name.rpartition("/")[2].split("_")[0]
        made = output or f"{name}_output_0"
        self._nodes.append(helper.make_node(op_type, list(inputs), [made], name=name, **attributes))
        return made

    def conv(self, scope: str, source: str, sizes: tuple[int, int], kernel: int = 3, **weights: np.ndarray) -> str:
        """Adds `scope/Conv` from sizes[0] to sizes[1] channels; weights as PyTorch starts them unless given."""
        inner, outer = sizes
        path = scope.rpartition("/")[2]
        bound = 1 / np.sqrt(inner * kernel * kernel)
        values = weights.get("weight", self.random.uniform(-bound, bound, (outer, inner, kernel, kernel)))
        bias = weights.get("bias", self.random.uniform(-bound, bound, outer))
        names = [source, self.weight(f"{path}.weight", values), self.weight(f"{path}.bias", bias)]
        pad = kernel // 2
        return self.node(
            f"{scope}/Conv",
            names,
            kernel_shape=[kernel, kernel],
            pads=[pad] * 4,
            strides=[1, 1],
            dilations=[1, 1],
            group=1,
        )

    def finish(self, inputs: Mapping[str, Sequence[int | str]], outputs: Mapping[str, Sequence[int | str]]) -> Model:
        """Makes the model; inputs and outputs are FLOAT of the given shapes."""
        graph = helper.make_graph(
            self._nodes,
            self.name,
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in outputs.items()],
            self._weights,
        )
        imports = [helper.make_opsetid("", OPSET)]
        proto = helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name="trt-lab zoo")
        return Model.from_proto(proto)


def make_feeds(name: str, shape: tuple[int, ...], seed: int, count: int = 4) -> list[dict[str, np.ndarray]]:
    """Standard normal samples of one input."""
    random = np.random.default_rng(seed)
    return [{name: random.standard_normal(shape).astype(np.float32)} for _ in range(count)]
