"""Small models with a planted, known fault, made by code from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal

from trt_lab.errors import UsageError
from trt_lab.zoo.base import Entry, ZooModel
from trt_lab.zoo.catalog import SPECS
from trt_lab.zoo.clean_cnn import CLEAN_CNN, make_clean_cnn
from trt_lab.zoo.l2norm_overflow import L2NORM_OVERFLOW, make_l2norm_overflow
from trt_lab.zoo.layernorm_overflow import LAYERNORM_OVERFLOW, make_layernorm_overflow
from trt_lab.zoo.quantised import QUANTISED

__all__ = ["Entry", "ZooModel", "entries", "get", "names"]

_MAKERS: dict[str, tuple[Entry, Callable[[], ZooModel]]] = {
    entry.name: (entry, make)
    for entry, make in (
        (L2NORM_OVERFLOW, make_l2norm_overflow),
        (LAYERNORM_OVERFLOW, make_layernorm_overflow),
        (CLEAN_CNN, make_clean_cnn),
        *((Entry(spec.name, spec.fault, spec.truth, spec.keep, spec.note), spec.make) for spec in SPECS),
        *((spec.entry, spec.make) for spec in QUANTISED),
    )
}


def names(precision: Literal["fp16", "int8"] | None = "fp16") -> tuple[str, ...]:
    """Names of all models whose fault is one of that precision; None for all."""
    return tuple(entry.name for entry in entries(precision))


def entries(precision: Literal["fp16", "int8"] | None = "fp16") -> tuple[Entry, ...]:
    """What is known of these models without making them."""
    return tuple(entry for entry, _ in _MAKERS.values() if precision in (None, entry.precision))


@cache
def get(name: str) -> ZooModel:
    """The model of that name, made once per process.

    Raises:
        UsageError: There is none; the message lists them.
    """
    if name not in _MAKERS:
        raise UsageError(f"no zoo model '{name}'; there are: {', '.join(_MAKERS)}")
    return _MAKERS[name][1]()
