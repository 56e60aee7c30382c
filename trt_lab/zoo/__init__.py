"""Small models with a planted, known fault, made by code from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from trt_lab.errors import UsageError
from trt_lab.zoo.base import ZooModel
from trt_lab.zoo.clean_cnn import make_clean_cnn
from trt_lab.zoo.l2norm_overflow import make_l2norm_overflow
from trt_lab.zoo.layernorm_overflow import make_layernorm_overflow

__all__ = ["ZooModel", "get", "names"]

_MAKERS: dict[str, Callable[[], ZooModel]] = {
    "l2norm_overflow": make_l2norm_overflow,
    "layernorm_overflow": make_layernorm_overflow,
    "clean_cnn": make_clean_cnn,
}


def names() -> tuple[str, ...]:
    """Names of all models of the zoo."""
    return tuple(_MAKERS)


@cache
def get(name: str) -> ZooModel:
    """The model of that name, made once per process.

    Raises:
        UsageError: There is none; the message lists them.
    """
    if name not in _MAKERS:
        raise UsageError(f"no zoo model '{name}'; there are: {', '.join(_MAKERS)}")
    return _MAKERS[name]()
