"""Builds engines and runs them. `base` says what a backend offers, `worker` runs it where it can harm nothing."""

from __future__ import annotations

import difflib

from trt_lab.backends.base import Backend
from trt_lab.backends.onnxruntime import OnnxRuntime
from trt_lab.backends.recorded import Recorded
from trt_lab.backends.tensorrt.backend import TensorRt
from trt_lab.backends.tensorrt_rtx import TensorRtRtx
from trt_lab.errors import UsageError
from trt_lab.types import BackendInfo

_BACKENDS: tuple[Backend, ...] = (
    OnnxRuntime(),
    TensorRt(),
    TensorRtRtx(),
    Recorded(),
)
"""One line a backend. Their modules import without the libraries they drive; `info()` says what is missing."""


def names() -> tuple[str, ...]:
    """Names of all backends, the default first."""
    return tuple(backend.name for backend in _BACKENDS)


def get(name: str) -> Backend:
    """The backend of that name.

    Raises:
        UsageError: There is none; the message lists those there are.
    """
    for backend in _BACKENDS:
        if backend.name == name:
            return backend
    close = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean '{close[0]}'? There are" if close else "there are"
    raise UsageError(f"no backend '{name}': {hint} {', '.join(names())}")


def infos() -> list[BackendInfo]:
    """What each backend can do on this machine."""
    return [backend.info() for backend in _BACKENDS]
