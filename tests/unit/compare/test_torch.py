"""PyTorch as a side, by what a module and a tensor offer; torch itself is not needed."""

from __future__ import annotations

from typing import Self

import numpy as np

from trt_lab.compare.sides import compare_sides, open_side


class Tensor:
    """As much of a torch tensor as a side asks for; bfloat16 cannot be given to numpy before it is widened."""

    def __init__(self, array: np.ndarray, dtype: str = "torch.float32") -> None:
        self.array, self.dtype, self.attached = array, dtype, True

    def detach(self) -> Self:
        self.attached = False
        return self

    def cpu(self) -> Self:
        return self

    def float(self) -> Tensor:
        made = Tensor(self.array.astype(np.float32))
        made.attached = False
        return made

    def numpy(self) -> np.ndarray:
        assert not self.attached and self.dtype != "torch.bfloat16", "torch refuses"
        return self.array


class Module:
    """Gives a tuple, as many modules do."""

    def __call__(self, feeds: dict[str, np.ndarray]) -> tuple[Tensor, Tensor]:
        return Tensor(feeds["x"] * 2), Tensor(feeds["x"] + 1, "torch.bfloat16")


def test_a_module_against_an_engine_by_position() -> None:
    feeds = [{"x": np.array([1, 2], np.float32)}, {"x": np.array([3, 4], np.float32)}]
    engine = [{"twice": feed["x"] * 2, "more": feed["x"] + 1} for feed in feeds]
    engine[1]["more"] = engine[1]["more"] + 1
    side = open_side(Module(), inputs=feeds)
    found = compare_sides(open_side(engine, label="engine"), side)
    assert side.label == "Module" and found.samples == 2 and found.verdict == "differs"
    assert "matched by position: twice = output_0, more = output_1" in found.notes[0]
    assert [(s.name, s.verdict, s.sample) for s in found.tensors] == [("twice", "same", 0), ("more", "differs", 1)]
