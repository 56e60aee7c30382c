"""PyTorch as a side, by what a module and a tensor offer; torch itself is not needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import ml_dtypes
import numpy as np
import pytest

from trt_lab.compare.sides import compare_sides, open_side
from trt_lab.compare.torch_module import as_array, module_runner
from trt_lab.errors import CompareError


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

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> tuple[Tensor, Tensor]:
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


class Parameter:
    device = "cuda:1"


class Torch:
    """As much of torch as a module is run with."""

    bfloat16 = "torch.bfloat16"

    def __init__(self) -> None:
        self.grad = True

    @staticmethod
    def from_numpy(array: np.ndarray) -> Placed:
        assert array.flags.writeable, "torch warns of arrays that cannot be written"
        return Placed(array)

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        self.grad = False
        yield
        self.grad = True


class Placed(Tensor):
    """A tensor that remembers where it was put."""

    device: object = "cpu"

    def to(self, what: object) -> Placed:
        made = Placed(self.array, str(what) if str(what).startswith("torch.") else self.dtype)
        made.device = self.device if str(what).startswith("torch.") else what
        return made


class Real:
    """A module as `torch.nn.Module` is one: tensors in, a tensor out, parameters on a device."""

    training = False

    def __init__(self, torch: Torch) -> None:
        self.torch = torch

    def parameters(self) -> Iterator[Parameter]:
        return iter([Parameter()])

    def eval(self) -> Self:
        return self

    def forward(self, mask: Placed, x: Placed) -> Tensor:
        assert not self.torch.grad and (x.device, mask.device) == ("cuda:1", "cuda:1")
        return Tensor(x.array * mask.array)

    def __call__(self, *args: Any, **named: Any) -> Tensor:
        return self.forward(*args, **named)


def test_a_real_module_takes_tensors_by_name_or_in_order() -> None:
    torch = Torch()
    run = module_runner(Real(torch), torch)
    x, mask = np.array([1, 2], np.float32), np.array([0, 1], np.float32)
    x.flags.writeable = False
    assert as_array(run({"x": x, "mask": mask})).tolist() == [0, 2]
    assert as_array(run({"input.1": mask, "input.2": x})).tolist() == [0, 2]
    half = x.astype(ml_dtypes.bfloat16)
    assert as_array(run({"mask": half, "x": half})).tolist() == [1, 4]


def test_a_module_in_training_mode_is_refused() -> None:
    module = Real(Torch())
    module.training = True
    with pytest.raises(CompareError, match=r"call its eval\(\)"):
        open_side(module, inputs=[{}])


def test_torch_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(CompareError, match="import it"):
        open_side(Real(Torch()), inputs=[{}])


def test_the_torch_that_is_loaded_runs_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]  # stands for it
    feeds = [{"x": np.float32([1, 2]), "mask": np.float32([1, 0])}]
    found = compare_sides(open_side([{"y": np.float32([1, 0])}]), open_side(Real(torch), inputs=feeds))
    assert found.verdict == "same" and found.label_b == "Real"


def test_a_function_that_fails_is_told_with_the_sample() -> None:
    def fails(feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return [feeds["x"].reshape(2)]

    side = open_side(fails, label="mine", inputs=[{"x": np.zeros(2)}, {"x": np.zeros(3)}])
    with pytest.raises(CompareError, match=r"mine: failed on sample 1 \(ValueError: cannot reshape"):
        compare_sides(side, open_side([{"y": np.zeros(2)}] * 2))


def test_a_function_that_gives_other_names_is_told() -> None:
    given = iter([{"y": np.zeros(2)}, {"z": np.zeros(2)}])
    side = open_side(lambda feeds: next(given), label="mine", inputs=[{}, {}])
    with pytest.raises(CompareError, match="mine: sample 1 has no tensor 'y'"):
        compare_sides(side, open_side([{"y": np.zeros(2)}] * 2))
