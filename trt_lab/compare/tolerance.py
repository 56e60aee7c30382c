"""What counts as the same: one tolerance, others by element type and by tensor, and presets with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trt_lab.errors import UsageError
from trt_lab.types import Tolerance


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
