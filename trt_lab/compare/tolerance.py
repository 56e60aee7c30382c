"""What counts as the same: one tolerance, others by element type and by tensor, and presets with their sources."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trt_lab.errors import UsageError
from trt_lab.tensors.dtypes import ML_DTYPES
from trt_lab.types import Tolerance

_DTYPES = {*ML_DTYPES, "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16"}


@dataclass(frozen=True)
class Tolerances:
    """A tolerance for each tensor: by its name, else by the engine's element type, else the default.

    Attributes:
        by_dtype: Name as in `TensorInfo.dtype` → tolerance.
        by_tensor: Tensor id → tolerance.
        source: Where the numbers come from.
    """

    default: Tolerance = field(default_factory=Tolerance)
    by_dtype: Mapping[str, Tolerance] = field(default_factory=dict)
    by_tensor: Mapping[str, Tolerance] = field(default_factory=dict)
    source: str = ""

    @classmethod
    def given(cls, tolerance: Tolerance | Tolerances | None) -> Tolerances:
        """One tolerance for all, or these, or the usual one."""
        return tolerance if isinstance(tolerance, Tolerances) else cls(tolerance or Tolerance())

    def of(self, name: str, dtype: str | None) -> Tolerance:
        """The tolerance of one tensor, `dtype` being the engine's."""
        return self.by_tensor.get(name) or self.by_dtype.get(dtype or "") or self.default


_TORCH = {
    "float16": Tolerance(1e-5, 1e-3),
    "bfloat16": Tolerance(1e-5, 1.6e-2),
    "float32": Tolerance(1e-5, 1.3e-6),
    "float64": Tolerance(1e-7, 1e-7),
}
PRESETS: dict[str, Tolerances] = {
    "trt-lab": Tolerances(source="default of trt-lab: 1e-3 and 1e-3, an FP16 engine with a few hundred nodes keeps it"),
    "numpy": Tolerances(Tolerance(1e-8, 1e-5), source="defaults of numpy.allclose"),
    "torch": Tolerances(
        Tolerance(1e-5, 1.3e-6), _TORCH, source="defaults of torch.testing.assert_close, by element type"
    ),
    "polygraphy": Tolerances(Tolerance(1e-5, 1e-5), source="defaults of Polygraphy's CompareFunc.simple"),
    "onnx": Tolerances(Tolerance(1e-7, 1e-3), source="defaults of the ONNX backend tests (onnx.backend.test)"),
}


def preset(name: str) -> Tolerances:
    """A preset by name. Raises UsageError listing the names."""
    if name not in PRESETS:
        raise UsageError(f"no tolerance preset {name!r}; there are: {', '.join(PRESETS)}")
    return PRESETS[name]


def parse_tolerances(preset_name: str | None = None, atol: Sequence[str] = (), rtol: Sequence[str] = ()) -> Tolerances:
    """Tolerances from text: `1e-3` for all, `float16:1e-2` for a type, `NAME:1e-4` for a tensor.

    Args:
        preset_name: Where to start from; default `trt-lab`.
        atol, rtol: The parts that change; what is not given stays.

    Raises:
        UsageError: No such preset, or no number of 0 or more.
    """
    base = preset(preset_name or "trt-lab")
    default, by_dtype, by_tensor = base.default, dict(base.by_dtype), dict(base.by_tensor)
    parts = [("atol", *_part("--atol", text)) for text in atol] + [("rtol", *_part("--rtol", text)) for text in rtol]
    for key, name, value in parts:  # those for all first, so that the others start from them
        if not name:
            default = replace(default, **{key: value})
            by_dtype = {dtype: replace(limit, **{key: value}) for dtype, limit in by_dtype.items()}
    for key, name, value in parts:
        if name:
            chosen = by_dtype if name in _DTYPES else by_tensor
            chosen[name] = replace(chosen.get(name, default), **{key: value})
    return Tolerances(default, by_dtype, by_tensor, f"{base.source}; changed" if parts else base.source)


def _part(option: str, text: str) -> tuple[str, float]:
    name, _, number = text.rpartition(":")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise UsageError(f"{option} {text!r}: give a number of 0 or more, NAME:NUMBER for a tensor, or float16:NUMBER")
    return name, value
