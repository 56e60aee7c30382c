"""Small models with a planted, known fault, made by code from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from trt_lab.errors import UsageError
from trt_lab.zoo.base import Entry, ZooModel
from trt_lab.zoo.catalog import SPECS
from trt_lab.zoo.clean_cnn import CLEAN_CNN, make_clean_cnn
from trt_lab.zoo.l2norm_overflow import L2NORM_OVERFLOW, make_l2norm_overflow
from trt_lab.zoo.layernorm_overflow import LAYERNORM_OVERFLOW, make_layernorm_overflow

__all__ = ["Entry", "ZooModel", "entries", "get", "names"]

_MAKERS: dict[str, tuple[Entry, Callable[[], ZooModel]]] = {
    entry.name: (entry, make)
    for entry, make in (
        (L2NORM_OVERFLOW, make_l2norm_overflow),
        (LAYERNORM_OVERFLOW, make_layernorm_overflow),
        (CLEAN_CNN, make_clean_cnn),
        *((Entry(spec.name, spec.fault, spec.truth, spec.keep, spec.note), spec.make) for spec in SPECS),
    )
}


def names() -> tuple[str, ...]:
    """Names of all models of the zoo."""
    return tuple(_MAKERS)


def entries() -> tuple[Entry, ...]:
    """What is known of all models without making them."""
    return tuple(entry for entry, _ in _MAKERS.values())


@cache
def get(name: str) -> ZooModel:
    """The model of that name, made once per process.

    Raises:
        UsageError: There is none; the message lists them.
    """
    if name not in _MAKERS:
        raise UsageError(f"no zoo model '{name}'; there are: {', '.join(_MAKERS)}")
    return _MAKERS[name][1]()
