"""PyTorch as a side: a module is fed tensors and its results become arrays. torch itself is not imported here."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from trt_lab.errors import CompareError

_WIDENED = (
    "torch.bfloat16",
    "torch.float8_e4m3fn",
    "torch.float8_e5m2",
    "torch.float8_e4m3fnuz",
    "torch.float8_e5m2fnuz",
)
"""Types that numpy has no name for; torch refuses to hand them over."""

Feeds = Mapping[str, np.ndarray]


def is_module(what: Any) -> bool:
    """Whether something is a PyTorch module, by what it offers."""
    return all(callable(getattr(what, name, None)) for name in ("forward", "parameters", "eval"))


def module_runner(module: Any, torch: Any = None) -> Callable[[Feeds], Any]:
    """A function that runs a module on arrays by name, without gradients, as it stands (call its `eval()` before).

    Inputs go to the arguments of `forward` with their names; where a name is none of its arguments, all go in the order of
    the model's inputs. They are put on the device of the module's parameters.

    Args:
        module: A `torch.nn.Module`.
        torch: Stands for the loaded torch.

    Raises:
        CompareError: torch is not loaded, or the module is in training mode, where Dropout and BatchNorm give other
            numbers than the exported model.
    """
    if getattr(module, "training", False):
        raise CompareError(f"{type(module).__name__}: is in training mode; call its eval() before it is compared")
    library = torch if torch is not None else _torch()
    parameter = next(iter(module.parameters()), None)
    device = None if parameter is None else parameter.device
    named = _arguments(module.forward)

    def run(feeds: Feeds) -> Any:
        tensors = {name: _tensor(library, array, device) for name, array in feeds.items()}
        without = getattr(library, "no_grad", nullcontext)
        with without():
            return module(**tensors) if set(tensors) <= named else module(*tensors.values())

    return run


def as_array(value: Any) -> np.ndarray:
    """A numpy array; torch tensors are taken to the CPU, those of types that numpy lacks widened to float32."""
    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        if str(tensor.dtype) in _WIDENED:
            tensor = tensor.float()
        return tensor.numpy()
    return np.asarray(value)


def _torch() -> Any:
    """The torch that the module came with."""
    found = sys.modules.get("torch")
    if found is None:
        raise CompareError("a PyTorch module is run by torch, which is not loaded; import it, or give a function")
    return found


def _tensor(torch: Any, array: np.ndarray, device: Any) -> Any:
    """A tensor of its own memory: arrays of samples may be read-only maps of a file."""
    if array.dtype.name == "bfloat16":
        made = torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    else:
        made = torch.from_numpy(np.array(array))
    return made if device is None else made.to(device)


def _arguments(forward: Callable[..., Any]) -> set[str]:
    """Arguments that can be given by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        return {name for name, found in inspect.signature(forward).parameters.items() if found.kind in kinds}
    except (TypeError, ValueError):  # compiled, without a signature
        return set()
