"""Blocks with a planted fault, and harmless ones: each takes tokens and gives tokens of about their size.

A block is right in FP32. In FP16 it is wrong at `truth`, and right again when the nodes `keep` stay in FP32; without
any one of those it is wrong. Names are relative to the block's scope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from trt_lab.zoo.base import GraphBuilder

WIDTH, LENGTH = 32, 16
"""Channels and number of tokens."""


class Scope:
    """Adds nodes and weights under one scope; the second `Mul` is called `Mul_1`, as exporters do."""

    def __init__(self, graph: GraphBuilder, path: str) -> None:
        self.graph, self.path = graph, path
        self._count: dict[str, int] = {}
        self._weights = 0

    def add(self, op: str, *inputs: str | float | np.ndarray, **attributes: Any) -> str:
        """Adds a node; numbers and arrays among the inputs become weights. Returns the output's name."""
        number = self._count.get(op, 0)
        self._count[op] = number + 1
        name = f"{self.path}/{op}" + (f"_{number}" if number else "")
        return self.graph.node(name, [i if isinstance(i, str) else self.weight(i) for i in inputs], **attributes)

    def weight(self, values: float | np.ndarray) -> str:
        """Adds a weight of the array's own type, float32 for numbers."""
        array = np.asarray(values)
        kind = np.int64 if array.dtype.kind == "i" else np.bool_ if array.dtype.kind == "b" else np.float32
        self._weights += 1
        return self.graph.weight(f"{self.path.strip('/').replace('/', '.')}.c{self._weights}", array, kind)

    def axes(self, *axes: int) -> str:
        """Adds axes of a reduction."""
        return self.weight(np.array(axes, np.int64))


@dataclass(frozen=True)
class Block:
    """One way to be wrong.

    Attributes:
        kind: What goes wrong, one of few words; empty for a harmless block.
        fault: One line for people.
        nodes: Number of nodes.
    """

    kind: str
    fault: str
    truth: tuple[str, ...]
    keep: tuple[str, ...]
    make: Callable[[Scope, str], str]


def _square_norm(level: float) -> Callable[[Scope, str], str]:
    def make(s: Scope, x: str) -> str:
        large = s.add("Mul", x, level)
        total = s.add("ReduceSum", s.add("Mul", large, large), s.axes(-1), keepdims=1)
        return s.add("Div", large, s.add("Sqrt", s.add("Add", total, 1.0)))

    return make


def _layer_norm(s: Scope, x: str) -> str:
    large = s.add("Mul", x, np.tile([400.0, 300.0], WIDTH // 2))
    centred = s.add("Sub", large, s.add("ReduceMean", large, axes=[-1], keepdims=1))
    variance = s.add("ReduceMean", s.add("Pow", centred, 2.0), axes=[-1], keepdims=1)
    return s.add("Div", centred, s.add("Sqrt", s.add("Add", variance, 1e-3)))


def _sum_of_squares(s: Scope, x: str) -> str:
    large = s.add("Mul", x, 500.0)
    total = s.add("ReduceSumSquare", large, axes=[-1], keepdims=1)
    return s.add("Div", large, s.add("Sqrt", total))


def _long_sum(s: Scope, x: str) -> str:
    wide = s.add("Expand", s.add("Mul", s.add("Sigmoid", x), 6000.0), np.array([1, 64, LENGTH, WIDTH]))
    return s.add("Mul", s.add("Div", s.add("ReduceSum", wide, s.axes(1), keepdims=0), 64.0), 1e-4)


def _log_sum_exp(s: Scope, x: str) -> str:
    large = s.add("Add", s.add("Mul", s.add("Tanh", x), 3.0), 13.0)
    total = s.add("ReduceSum", s.add("Exp", large), s.axes(-1), keepdims=1)
    return s.add("Mul", s.add("Add", s.add("Mul", s.add("Log", total), 1 / 16), x), 0.5)


def _softmax_by_hand(s: Scope, x: str) -> str:
    shares = s.add("Exp", s.add("Add", s.add("Tanh", x), 12.0))
    return s.add("Mul", s.add("Div", shares, s.add("ReduceSum", shares, s.axes(-1), keepdims=1)), 8.0)


def _soft_plus(s: Scope, x: str) -> str:
    large = s.add("Exp", s.add("Add", s.add("Tanh", x), 13.0))
    return s.add("Mul", s.add("Log", s.add("Add", large, 1000.0)), 1 / 16)


def _fourth_power(s: Scope, x: str) -> str:
    return s.add("Mul", s.add("Pow", s.add("Pow", s.add("Mul", s.add("Sigmoid", x), 64.0), 4.0), 0.25), 1 / 64)


def _late_scale(s: Scope, x: str) -> str:
    query, key = s.add("Mul", x, 150.0), s.add("Mul", x, 100.0)
    scores = s.add("MatMul", query, s.add("Transpose", key, perm=[0, 2, 1]))
    return s.add("MatMul", s.add("Softmax", s.add("Mul", scores, 1e-5), axis=-1), x)


def _late_scale_of_linear(s: Scope, x: str) -> str:
    weight = s.graph.random.uniform(-1, 1, (WIDTH, WIDTH)) * 60_000 / np.sqrt(WIDTH)
    return s.add("Tanh", s.add("Div", s.add("MatMul", x, weight), 60_000.0))


def _product(s: Scope, x: str) -> str:
    factors = s.add("Add", s.add("Sigmoid", x), 1.2)
    return s.add("Mul", s.add("Add", s.add("Log", s.add("ReduceProd", factors, axes=[-1], keepdims=1)), x), 0.05)


def _hyperbolic(s: Scope, x: str) -> str:
    return s.add("Mul", s.add("Asinh", s.add("Sinh", s.add("Add", s.add("Tanh", x), 14.0))), 1 / 16)


def _reciprocal(s: Scope, x: str) -> str:
    small = s.add("Add", s.add("Mul", s.add("Sigmoid", x), 1e-3), 2e-4)
    cube = s.add("Mul", s.add("Reciprocal", small), s.add("Reciprocal", small))
    return s.add("Mul", s.add("Sqrt", cube), 2e-4)


def _cube_of_small(s: Scope, x: str) -> str:
    small = s.add("Mul", s.add("Sigmoid", x), 2e-3)
    return s.add("Mul", s.add("Pow", small, 3.0), 1.25e8)


def _exp_of_negative(s: Scope, x: str) -> str:
    small = s.add("Exp", s.add("Sub", s.add("Tanh", x), 20.0))
    return s.add("Mul", s.add("Log", small), -1 / 20)


def _epsilon(s: Scope, x: str) -> str:
    nothing = s.add("Relu", s.add("Sub", -1.0, s.add("Abs", x)))
    total = s.add("ReduceSum", nothing, s.axes(-1), keepdims=1)
    return s.add("Add", s.add("Div", nothing, s.add("Add", total, 1e-8)), x)


def _tiny_constant(s: Scope, x: str) -> str:
    return s.add("Tanh", s.add("Div", s.add("Mul", x, 1e-9), 1e-9))


def _huge_constant(s: Scope, x: str) -> str:
    return s.add("Tanh", s.add("Mul", s.add("Div", x, 1e6), 1e6))


def _offset(level: float) -> Callable[[Scope, str], str]:
    def make(s: Scope, x: str) -> str:
        return s.add("Sub", s.add("Add", x, level), level)

    return make


def _exp_minus_one(s: Scope, x: str) -> str:
    near = s.add("Exp", s.add("Mul", x, 1e-3))
    return s.add("Mul", s.add("Sub", near, 1.0), 1000.0)


def _root_minus_one(s: Scope, x: str) -> str:
    root = s.add("Sqrt", s.add("Add", s.add("Mul", s.add("Sigmoid", x), 1e-3), 1.0))
    return s.add("Mul", s.add("Sub", root, 1.0), 2000.0)


def _running_sum(s: Scope, x: str) -> str:
    part = s.add("Mul", x, 0.3)
    total = s.add("Add", part, 2000.0)
    for _ in range(5):
        total = s.add("Add", total, part)
    return s.add("Sub", total, 2000.0)


def _positions(s: Scope, x: str) -> str:
    index = 4097 + 2 * np.arange(LENGTH).reshape(1, LENGTH, 1)
    place = s.add("Sub", s.add("Cast", index, to=1), 4111.0)
    return s.add("Mul", s.add("Add", s.add("Mul", place, 0.05), x), 0.5)


def _counter(s: Scope, x: str) -> str:
    ones = s.add("Cast", np.full((1, LENGTH, 1), 301, np.int64), to=1)
    count = s.add("CumSum", ones, np.array(1))
    return s.add("Add", s.add("Mul", s.add("Mod", count, 7.0, fmod=1), 0.1), x)


def _phase(s: Scope, x: str) -> str:
    place = s.weight(np.arange(LENGTH, dtype=np.float32).reshape(1, LENGTH, 1))
    return s.add("Mul", s.add("Add", s.add("Sin", s.add("Mul", place, 300.7)), x), 0.5)


def _threshold(s: Scope, x: str) -> str:
    level = s.add("Add", s.weight(np.arange(LENGTH, dtype=np.float32).reshape(1, LENGTH, 1) * 0.0625), 1500.0)
    return s.add("Where", s.add("Greater", level, 1500.4), x, s.add("Neg", x))


def _masked(with_where: bool, whole_rows: bool) -> Callable[[Scope, str], str]:
    def make(s: Scope, x: str) -> str:
        hidden = np.triu(np.ones((1, LENGTH, LENGTH), bool), 1)
        if whole_rows:
            hidden[:, 3] = hidden[:, 9] = True
        scores = s.add("Mul", s.add("MatMul", x, s.add("Transpose", x, perm=[0, 2, 1])), 1 / np.sqrt(WIDTH))
        if with_where:
            scores = s.add("Where", hidden, -1e9, scores)
        else:
            scores = s.add("Add", scores, np.where(hidden, -1e9, 0.0))
        return s.add("MatMul", s.add("Softmax", scores, axis=-1), x)

    return make


def _saturated(s: Scope, x: str) -> str:
    return s.add("Mul", s.add("Add", s.add("Tanh", s.add("Mul", s.add("Exp", s.add("Add", x, 14.0)), 2.0)), x), 0.5)


def _clipped(s: Scope, x: str) -> str:
    return s.add("Min", s.add("Clip", x, -1e9, 1e9), float("inf"))


def _linear(s: Scope, x: str) -> str:
    weight = s.graph.random.normal(0, 0.7 / np.sqrt(WIDTH), (WIDTH, WIDTH))
    return s.add("Tanh", s.add("Add", s.add("MatMul", x, weight), s.graph.random.uniform(-0.1, 0.1, WIDTH)))


BLOCKS: dict[str, Block] = {
    "square_norm": Block(
        "overflow", "the squares of a norm leave the range of FP16", ("Mul_1",), ("Mul_1", "ReduceSum", "Add", "Sqrt"),
        _square_norm(700.0),
    ),
    "square_norm_large": Block(
        "overflow", "the squares of a norm, and the norm itself, leave the range of FP16", ("Mul_1",),
        ("Mul_1", "ReduceSum", "Add", "Sqrt", "Div"), _square_norm(15_000.0),
    ),
    "square_norm_rare": Block(
        "overflow", "the squares of a norm leave the range of FP16 on loud samples only", ("Mul_1",),
        ("Mul_1", "ReduceSum", "Add", "Sqrt"), _square_norm(40.0),
    ),
    "layer_norm": Block(
        "overflow", "a LayerNorm written out: its Pow leaves the range", ("Pow",), ("Pow", "ReduceMean_1", "Add", "Sqrt"),
        _layer_norm,
    ),
    "sum_of_squares": Block(
        "overflow", "ReduceSumSquare leaves the range", ("ReduceSumSquare",), ("ReduceSumSquare", "Sqrt"), _sum_of_squares
    ),
    "long_sum": Block(
        "overflow", "a sum over 64 terms leaves the range before it is divided", ("ReduceSum",), ("ReduceSum", "Div"), _long_sum
    ),
    "log_sum_exp": Block(
        "overflow", "logsumexp without its maximum taken off: Exp overflows", ("Exp",), ("Exp", "ReduceSum", "Log"), _log_sum_exp
    ),
    "softmax_by_hand": Block(
        "overflow", "a softmax written out: Exp overflows", ("Exp",), ("Exp", "ReduceSum", "Div"), _softmax_by_hand
    ),
    "soft_plus": Block("overflow", "softplus written out: Exp overflows", ("Exp",), ("Exp", "Add_1", "Log"), _soft_plus),
    "fourth_power": Block("overflow", "a fourth power overflows", ("Pow",), ("Pow", "Pow_1"), _fourth_power),
    "late_scale": Block(
        "overflow", "attention scores are scaled after the product, which overflows", ("MatMul",), ("MatMul", "Mul_2"), _late_scale
    ),
    "late_scale_linear": Block(
        "overflow", "large weights: the product overflows and is scaled down after", ("MatMul",), ("MatMul", "Div"),
        _late_scale_of_linear,
    ),
    "product": Block("overflow", "a product of 32 factors overflows", ("ReduceProd",), ("ReduceProd", "Log"), _product),
    "hyperbolic": Block("overflow", "Sinh overflows", ("Sinh",), ("Sinh", "Asinh"), _hyperbolic),
    "reciprocal": Block("overflow", "a squared reciprocal of small numbers overflows", ("Mul_1",), ("Mul_1", "Sqrt"), _reciprocal),
    "cube_of_small": Block("underflow", "a cube of small numbers becomes 0", ("Pow",), ("Pow", "Mul_1"), _cube_of_small),
    "exp_of_negative": Block("underflow", "Exp of -20 becomes 0, its Log -Inf", ("Exp",), ("Exp", "Log"), _exp_of_negative),
    "epsilon": Block("lost epsilon", "the epsilon of a division becomes 0: 0/0", ("Add",), ("Add", "Div"), _epsilon),
    "tiny_constant": Block("lost constant", "a constant of 1e-9 becomes 0", ("Mul",), ("Mul", "Div"), _tiny_constant),
    "huge_constant": Block("huge constant", "a constant of 1e6 becomes Inf", ("Div",), ("Div", "Mul"), _huge_constant),
    "offset": Block("cancellation", "1000 is added and taken off again", ("Sub",), ("Add", "Sub"), _offset(1000.0)),
    "offset_large": Block("cancellation", "30000 is added and taken off again", ("Sub",), ("Add", "Sub"), _offset(30_000.0)),
    "exp_minus_one": Block("cancellation", "exp(x) - 1 of small x", ("Sub",), ("Exp", "Sub"), _exp_minus_one),
    "root_minus_one": Block("cancellation", "sqrt(1 + x) - 1 of small x", ("Sub",), ("Add", "Sqrt", "Sub"), _root_minus_one),
    "running_sum": Block(
        "accumulation", "small terms are added one by one to a large sum", ("Sub",),
        ("Add", "Add_1", "Add_2", "Add_3", "Add_4", "Add_5", "Sub"), _running_sum,
    ),
    "positions": Block("integer cut", "positions over 2048 are no longer whole numbers", ("Sub",), ("Cast", "Sub"), _positions),
    "counter": Block("integer cut", "a counter runs over 2048", ("Mod",), ("CumSum", "Mod"), _counter),
    "phase": Block("phase", "the angle of a sine has no digits behind the point left", ("Sin",), ("Mul", "Sin"), _phase),
    "threshold": Block("comparison", "two numbers near 1500 are told apart", ("Greater",), ("Add", "Greater"), _threshold),
    "mask": Block("masked softmax", "a row that is masked whole becomes NaN", ("Add",), ("Add", "Softmax"), _masked(False, True)),
    "mask_where": Block(
        "masked softmax", "a row that Where masks whole becomes NaN", ("Where",), ("Where", "Softmax"), _masked(True, True)
    ),
    "linear": Block("", "", (), (), _linear),
    "saturated": Block("", "", (), (), _saturated),
    "clipped": Block("", "", (), (), _clipped),
    "causal": Block("", "", (), (), _masked(False, False)),
}  # fmt: skip
