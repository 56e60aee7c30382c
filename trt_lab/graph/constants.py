"""Values of constants, and figures about them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class InitializerStats:
    """Values of a constant. Figures are over finite elements and None where there are none.

    Attributes:
        count: Number of elements.
        not_finite: NaN and infinities.
        preview: The first eight values, as text.
    """

    count: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    zeros: int
    not_finite: int
    preview: tuple[str, ...]


def values_of(value: ir.Value) -> np.ndarray | None:
    """Values of an initializer or of a Constant node's output; None for others and for stripped weights."""
    if value.const_value is not None:
        return _values(value.const_value)
    node = value.producer()
    if node is None or node.op_type != "Constant" or node.domain:
        return None
    attribute = node.attributes.get("value")
    if attribute is not None and not attribute.is_ref() and attribute.type == ir.AttributeType.TENSOR:
        return _values(attribute.as_tensor())
    for name in ("value_float", "value_floats", "value_int", "value_ints"):
        attribute = node.attributes.get(name)
        if attribute is not None and not attribute.is_ref():
            return np.asarray(attribute.value, dtype=np.float32 if "float" in name else np.int64)
    return None


def describe(values: np.ndarray) -> InitializerStats:
    """Figures about an array of any type, ml_dtypes and text included."""
    preview = tuple(str(value) for value in values.reshape(-1)[:8])
    if values.dtype.kind not in "biufV":
        return InitializerStats(values.size, None, None, None, 0, 0, preview)
    numbers = values.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    return InitializerStats(
        count=values.size,
        minimum=float(finite.min()) if finite.size else None,
        maximum=float(finite.max()) if finite.size else None,
        mean=float(finite.mean()) if finite.size else None,
        zeros=int(np.count_nonzero(numbers == 0)),
        not_finite=int(values.size - finite.size),
        preview=preview,
    )


def _values(tensor: ir.TensorProtocol) -> np.ndarray | None:
    try:
        return tensor.numpy()
    except (ValueError, OSError):  # a model stripped of its weights, or the data file went away since
        return None
