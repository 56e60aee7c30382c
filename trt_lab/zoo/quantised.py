"""Quantised models with one bad scale, and one without: a chain of convolutions whose activations are bounded by Clip.

Of these the truth is the QuantizeLinear with the bad scale, and `keep` the layers that must read float numbers for the
outputs to be right again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trt_lab.types import NodeId
from trt_lab.zoo.base import Entry, GraphBuilder, ZooModel, make_feeds

TOP = 6.0
"""Clip keeps activations in 0 … 6."""

INPUT_TOP = 4.5
"""Standard normal numbers beyond it are rare; Q/DQ cut them."""

RIGHT_DB = 25.0
"""From this signal-to-noise ratio on the outputs are called right."""

_CHANNELS, _LAYERS = 8, 4
_SIDE = 12
_LOUD = 48.0


@dataclass(frozen=True)
class QuantisedSpec:
    """One model, known without making it.

    Attributes:
        place: Number of the layer at whose input the fault lies; None for no fault.
        factor: What the right scale is multiplied by there.
        loud: One channel there is louder than the others, and all share a scale.
        dead: A channel of the layer's weight is 0, and so is its scale.
    """

    name: str
    fault: str
    note: str
    place: int | None = None
    factor: float = 1.0
    loud: bool = False
    dead: bool = False

    @property
    def entry(self) -> Entry:
        """What is known of it."""
        if self.place is None:
            return Entry(self.name, self.fault, (), (), self.note, precision="int8")
        tensor = "weight" if self.dead else "input"
        truth = NodeId(f"/layer.{self.place}/{tensor}/QuantizeLinear")
        keep = () if self.dead else (NodeId(f"/layer.{self.place}/Conv"),)
        return Entry(self.name, self.fault, (truth,), keep, self.note, precision="int8")

    def make(self) -> ZooModel:
        """Makes the model: four convolutions, each with Q/DQ at its input and its weight."""
        graph = GraphBuilder(self.name, seed=20241100)
        tensor, top = "x", INPUT_TOP
        for layer in range(_LAYERS):
            tensor = self._layer(graph, layer, tensor, top)
            top = TOP
        graph.node("/head/Neg", [tensor], "y")
        shape = (1, _CHANNELS, _SIDE, _SIDE)
        model = graph.finish({"x": shape}, {"y": shape})
        return ZooModel.of(self.entry, model, make_feeds("x", shape, seed=20241101))

    def _layer(self, graph: GraphBuilder, layer: int, source: str, top: float) -> str:
        scope, here = f"/layer.{layer}", layer == self.place
        weight = graph.random.normal(0, 1.6 / np.sqrt(_CHANNELS * 9), (_CHANNELS, _CHANNELS, 3, 3))
        if here and self.loud:
            gains = np.ones((1, _CHANNELS, 1, 1))
            gains[0, 2] = _LOUD
            source = graph.node(f"{scope}/gain/Mul", [source, graph.weight(f"layer.{layer}.gain", gains)])
            weight[:, 2] /= _LOUD
            top *= _LOUD
        if here and self.dead:
            weight[5] = 0
        scale = np.array(top / 127 * (self.factor if here else 1.0))
        read = _qdq(graph, f"{scope}/input", source, scale)
        held = graph.weight(f"layer.{layer}.weight", weight)
        scales = np.abs(weight).max(axis=(1, 2, 3)) / 127
        restored = _qdq(graph, f"{scope}/weight", held, scales, axis=0)
        made = graph.node(f"{scope}/Conv", [read, restored], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        ends = [graph.weight(f"layer.{layer}.{end}", np.array(value)) for end, value in (("low", 0.0), ("high", TOP))]
        return graph.node(f"{scope}/Clip", [made, *ends])


def _qdq(graph: GraphBuilder, scope: str, source: str, scale: np.ndarray, axis: int | None = None) -> str:
    name = scope.strip("/").replace("/", ".")
    given = [graph.weight(f"{name}.scale", scale), graph.weight(f"{name}.zero_point", np.zeros(scale.shape), np.int8)]
    more: dict[str, Any] = {} if axis is None else {"axis": axis}
    codes = graph.node(f"{scope}/QuantizeLinear", [source, *given], **more)
    return graph.node(f"{scope}/DequantizeLinear", [codes, *given], **more)


QUANTISED: tuple[QuantisedSpec, ...] = (
    QuantisedSpec("int8_small_scale", "a scale is 24 times too small: values are cut", "What saturates is lost.", 2, 1 / 24),
    QuantisedSpec(
        "int8_large_scale", "a scale is 64 times too large: four levels are left", "An outlier in the calibration does this.", 1, 64.0
    ),
    QuantisedSpec(
        "int8_outlier_channel", "one channel is 48 times louder, and all share a scale", "Weights have a scale a channel; activations do not.",
        2, loud=True,
    ),
    QuantisedSpec(
        "int8_dead_channel", "the scale of a channel whose weights are all 0 is 0", "Right on the CPU; engines refuse it.", 1, dead=True
    ),
    QuantisedSpec("int8_clean", "", "Nothing is wrong here."),
)  # fmt: skip
"""Names stay as they are."""
