"""numpy arrays to ONNX Runtime and back, in types that numpy does not know as well."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime as ort

from trt_lab.errors import RunError

Array = np.ndarray

_BY_VIEW: dict[str, tuple[np.dtype, int]] = {
    "tensor(bfloat16)": (np.dtype(ml_dtypes.bfloat16), 16),
    "tensor(float8e4m3fn)": (np.dtype(ml_dtypes.float8_e4m3fn), 17),
    "tensor(float8e4m3fnuz)": (np.dtype(ml_dtypes.float8_e4m3fnuz), 18),
    "tensor(float8e5m2)": (np.dtype(ml_dtypes.float8_e5m2), 19),
    "tensor(float8e5m2fnuz)": (np.dtype(ml_dtypes.float8_e5m2fnuz), 20),
}
"""ONNX Runtime's name → our type and its number in ONNX; passed as the bytes they are."""

_PACKED: dict[str, np.dtype] = {
    "tensor(uint4)": np.dtype(ml_dtypes.uint4),
    "tensor(int4)": np.dtype(ml_dtypes.int4),
    "tensor(float4e2m1)": np.dtype(ml_dtypes.float4_e2m1fn),
}
"""Two elements a byte, the first in the low half."""


PACKED = frozenset(_PACKED.values())
"""Types that cannot be fed."""


class Caller:
    """Runs one session; knows which inputs and outputs numpy cannot hold."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self._session = session
        self._inputs = {value.name: value.type for value in session.get_inputs()}
        outputs = [(value.name, value.type) for value in session.get_outputs()]
        self._names = [name for name, _ in outputs]  # one name may stand there twice
        self._plain = not any(
            kind in _BY_VIEW or kind in _PACKED for kind in [*self._inputs.values(), *(kind for _, kind in outputs)]
        )
        for name, kind in [*self._inputs.items(), *outputs]:
            if not kind.startswith("tensor("):
                raise RunError(
                    f"'{name}' is a {kind}, and only tensors can be compared; cut the model so that it gives tensors"
                )
        texts = [name for name, kind in self._inputs.items() if kind == "tensor(string)"]
        if texts and not self._plain:
            raise RunError(
                f"input '{texts[0]}' is text, and other inputs or outputs have a type that numpy lacks; "
                "ONNX Runtime takes no such mixture: cut the model behind the text"
            )

    def prepare(self, feeds: Mapping[str, Array]) -> Mapping[str, Any]:
        """Feeds in the form that `call` takes, so that repeated calls convert them once."""
        if self._plain:
            return {name: np.ascontiguousarray(array) if array.ndim else array for name, array in feeds.items()}
        return {name: _value(name, self._inputs[name], array) for name, array in feeds.items()}

    def call(self, prepared: Mapping[str, Any]) -> Sequence[Any]:
        """Outputs in ONNX Runtime's own form."""
        if self._plain:
            return self._session.run(None, prepared)
        return self._session.run_with_ort_values(None, prepared)

    def read(self, outputs: Sequence[Any]) -> dict[str, Array]:
        """Outputs by name as arrays."""
        if self._plain:
            return {name: np.asarray(output) for name, output in zip(self._names, outputs, strict=True)}
        return {name: _array(output) for name, output in zip(self._names, outputs, strict=True)}


def _value(name: str, kind: str, array: Array) -> ort.OrtValue:
    if kind in _PACKED:
        raise RunError(f"input '{name}' is {kind[7:-1]}, which cannot be fed to ONNX Runtime; cut the model behind it")
    if kind in _BY_VIEW:
        dtype, number = _BY_VIEW[kind]
        bits = np.uint16 if dtype.itemsize == 2 else np.uint8
        raw = np.ascontiguousarray(array, dtype=dtype).reshape(array.shape).view(bits)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number)
    return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(array.shape))


def _array(value: ort.OrtValue) -> Array:
    kind = value.data_type()
    if kind not in _BY_VIEW and kind not in _PACKED:
        return np.asarray(value.numpy())
    shape = tuple(value.shape())
    size = value.tensor_size_in_bytes()
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", np.uint8)
    if kind in _BY_VIEW:
        return raw.view(_BY_VIEW[kind][0]).reshape(shape)
    halves = np.stack([raw & 0xF, raw >> 4], axis=-1).reshape(-1)[: int(np.prod(shape, dtype=np.int64))]
    return _unpacked(halves, _PACKED[kind]).reshape(shape)


def _unpacked(halves: Array, dtype: np.dtype) -> Array:
    if dtype == np.dtype(ml_dtypes.int4):
        return ((halves.astype(np.int8) ^ 8) - 8).astype(dtype)
    if dtype == np.dtype(ml_dtypes.uint4):
        return halves.astype(dtype)
    return halves.view(dtype)
