"""The models made of blocks: which blocks stand where, and how long the chain between them is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trt_lab.types import NodeId
from trt_lab.zoo.base import GraphBuilder, ZooModel
from trt_lab.zoo.blocks import BLOCKS, LENGTH, WIDTH, Scope

_INPUT = 24


@dataclass(frozen=True)
class Spec:
    """One model. All of it is known without making the model.

    Attributes:
        blocks: Names in `BLOCKS`, in order; the scope of the n-th is `/name` or `/name.n` when it stands there twice.
        linear: Clean layers before the first block, between two, and behind the last.
        loud: Sample → factor of its input.
    """

    name: str
    blocks: tuple[str, ...]
    linear: int = 2
    loud: tuple[tuple[int, float], ...] = ()
    seed: int = 20240700

    @property
    def scopes(self) -> tuple[str, ...]:
        """Scope of each block."""
        return tuple(
            f"/{block}.{self.blocks[:place].count(block)}" if self.blocks.count(block) > 1 else f"/{block}"
            for place, block in enumerate(self.blocks)
        )

    @property
    def fault(self) -> str:
        """One line; empty when no block has a fault."""
        texts = [f"{s}: {BLOCKS[b].fault}" for s, b in zip(self.scopes, self.blocks, strict=True) if BLOCKS[b].fault]
        return "; ".join(texts)

    @property
    def truth(self) -> tuple[NodeId, ...]:
        """Nodes at which FP16 goes wrong, in graph order."""
        return tuple(
            NodeId(f"{s}/{node}") for s, b in zip(self.scopes, self.blocks, strict=True) for node in BLOCKS[b].truth
        )

    @property
    def keep(self) -> tuple[NodeId, ...]:
        """Smallest set that must stay FP32, in graph order."""
        return tuple(
            NodeId(f"{s}/{node}") for s, b in zip(self.scopes, self.blocks, strict=True) for node in BLOCKS[b].keep
        )

    @property
    def note(self) -> str:
        """What the model is for."""
        if self.fault:
            return "Blocks between clean layers; the head reads each block too, so that no layer hides it."
        return "Nothing is wrong here; an infinity in the middle does no harm."

    def make(self) -> ZooModel:
        """Makes the model: embedding, layers and blocks in turn, a head over the last layer and all blocks."""
        graph = GraphBuilder(self.name, seed=self.seed)
        tensor = embedded = _embed(graph)
        given_out: list[str] = []
        layer = 0
        for scope, block in zip((*self.scopes, ""), (*self.blocks, ""), strict=True):
            for _ in range(self.linear):
                tensor = _layer(graph, layer, tensor, embedded)
                layer += 1
            if block:
                made = BLOCKS[block].make(Scope(graph, scope), tensor)
                given_out.append(made)
                join = Scope(graph, f"{scope}/join")
                tensor = join.add("Mul", join.add("Add", tensor, made), 0.5)
        head = Scope(graph, "/head")
        joined = head.add("Concat", tensor, *given_out, axis=-1) if given_out else tensor
        width = WIDTH * (1 + len(given_out))
        weight = head.weight(graph.random.uniform(-0.2, 0.2, (width, 8)) / np.sqrt(WIDTH))
        graph.node("/head/MatMul", [joined, weight], "y")
        model = graph.finish({"tokens": (1, LENGTH, _INPUT)}, {"y": (1, LENGTH, 8)})
        return ZooModel(self.name, self.fault, self.truth, self.keep, self.note, model, self._feeds())

    def _feeds(self) -> list[dict[str, np.ndarray]]:
        random = np.random.default_rng(self.seed + 1)
        factors = dict(self.loud)
        return [
            {"tokens": (random.standard_normal((1, LENGTH, _INPUT)) * factors.get(i, 1.0)).astype(np.float32)}
            for i in range(4)
        ]


def _embed(graph: GraphBuilder) -> str:
    scope = Scope(graph, "/embed")
    weight = graph.random.normal(0, 0.8 / np.sqrt(_INPUT), (_INPUT, WIDTH))
    return scope.add("Add", scope.add("MatMul", "tokens", weight), graph.random.uniform(-0.5, 0.5, WIDTH))


def _layer(graph: GraphBuilder, number: int, tensor: str, embedded: str) -> str:
    """A clean layer of 5 nodes: half a small network, half the embedding, so that rounding dies out down the chain."""
    scope = Scope(graph, f"/layer.{number}")
    inner = BLOCKS["linear"].make(Scope(graph, f"/layer.{number}/mlp"), tensor)
    return scope.add("Mul", scope.add("Add", inner, embedded), 0.6)


_FAULTY = tuple(name for name, block in BLOCKS.items() if block.fault and name != "square_norm_rare")

SPECS: tuple[Spec, ...] = (
    *(Spec(name, (name,), linear=2 + place % 4) for place, name in enumerate(_FAULTY)),
    Spec("square_norm_rare", ("square_norm_rare",), loud=((2, 12.0),)),
    Spec("two_norms", ("square_norm", "square_norm"), linear=3),
    Spec("norm_and_mask", ("layer_norm", "mask"), linear=3),
    Spec("exp_and_offset", ("log_sum_exp", "offset"), linear=4),
    Spec("underflow_and_overflow", ("cube_of_small", "fourth_power"), linear=4),
    Spec("positions_and_epsilon", ("positions", "epsilon"), linear=5),
    Spec("three_faults", ("late_scale", "threshold", "huge_constant"), linear=4),
    Spec("four_faults", ("sum_of_squares", "exp_minus_one", "mask_where", "counter"), linear=4),
    Spec("fault_among_harmless", ("causal", "square_norm", "saturated", "clipped"), linear=3),
    Spec("deep_100", ("layer_norm",), linear=8),
    Spec("deep_200", ("softmax_by_hand", "saturated"), linear=11),
    Spec("deep_500", ("running_sum", "hyperbolic"), linear=27),
    Spec("deep_1000", ("square_norm",), linear=99),
    Spec("clean_layers", (), linear=12),
    Spec("clean_saturated", ("saturated",)),
    Spec("clean_clipped", ("clipped", "clipped")),
    Spec("clean_causal", ("causal", "causal")),
    Spec("clean_300", ("saturated", "causal"), linear=19),
)
"""Names stay as they are: records and lessons go by them."""
