"""A module with the interface of TensorRT's bindings whose engine computes with numpy on the stub's memory.

The engine reads `x` (float, [-1, 3]) and `mask` (bool, [-1]) and gives `y` = 2·x and `rows` (int64, [2, -1]),
the places where x is not 0 as NonZero gives them: a size that depends on data.
"""

from __future__ import annotations

import ctypes
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np

from trt_lab.backends.tensorrt.versions import Library


class DataType(Enum):
    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    UINT8 = 5
    FP8 = 6
    BF16 = 7
    INT64 = 8
    INT4 = 9


class TensorIOMode(Enum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(Enum):
    DEVICE = 0
    HOST = 1


class Severity(IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class ILogger:
    Severity = Severity

    def __init__(self) -> None:
        pass


class Interface:
    def __init__(self) -> None:
        pass


class BuilderFlag(Enum):
    FP16 = 0
    TF32 = 1
    DISABLE_TIMING_CACHE = 2


IO = {
    "x": (DataType.FLOAT, TensorIOMode.INPUT, (-1, 3)),
    "mask": (DataType.BOOL, TensorIOMode.INPUT, (-1,)),
    "y": (DataType.FLOAT, TensorIOMode.OUTPUT, (-1, 3)),
    "rows": (DataType.INT64, TensorIOMode.OUTPUT, (2, -1)),
}
PROFILES = [
    {"x": ((1, 3), (2, 3), (4, 3)), "mask": ((1,), (2,), (4,))},
    {"x": ((5, 3), (6, 3), (8, 3)), "mask": ((5,), (6,), (8,))},
]


class Engine:
    num_io_tensors = len(IO)
    num_optimization_profiles = len(PROFILES)
    device_memory_size_v2 = 1234

    def __init__(self) -> None:
        self.fail_context = False

    def get_tensor_name(self, index: int) -> str:
        return list(IO)[index]

    def get_tensor_dtype(self, name: str) -> DataType:
        return IO[name][0]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return IO[name][1]

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.DEVICE

    def get_tensor_profile_shape(self, name: str, profile: int) -> Any:
        return PROFILES[profile][name]

    def create_execution_context(self) -> Context | None:
        return None if self.fail_context else Context()


class Context:
    def __init__(self) -> None:
        self.active_optimization_profile = 0
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.allocators: dict[str, Any] = {}
        self.enqueue_emits_profile = True
        self.profiler: Any = None
        self.fail = False

    def set_optimization_profile_async(self, number: int, stream: int) -> bool:
        self.active_optimization_profile = number
        return True

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self.shapes[name] = tuple(shape)
        return True

    def set_tensor_address(self, name: str, address: int) -> bool:
        self.addresses[name] = address
        return True

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        self.allocators[name] = allocator
        return True

    def infer_shapes(self) -> list[str]:
        return []

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self.shapes["x"] if name in ("x", "y") else self.shapes["mask"] if name == "mask" else (2, -1)

    def execute_async_v3(self, stream: int) -> bool:
        if self.fail:
            return False
        x = _view(self.addresses["x"], np.float32, self.shapes["x"])
        _view(self.addresses["y"], np.float32, self.shapes["x"])[...] = 2 * x
        rows = np.array(np.nonzero(x), np.int64)
        allocator = self.allocators["rows"]
        address = allocator.reallocate_output_async("rows", 0, rows.nbytes, 256, stream)
        if address == 0:
            return False
        if rows.size:
            _view(address, np.int64, rows.shape)[...] = rows
        allocator.notify_shape("rows", rows.shape)
        return True

    def report_to_profiler(self) -> bool:
        for name, ms in (("double", 0.2), ("copy", 0.1), ("copy", 0.3)):
            self.profiler.report_layer_time(name, ms)
        return True


class Runtime:
    def __init__(self, logger: Any) -> None:
        self.logger = logger
        self.engine_host_code_allowed = True

    def deserialize_cuda_engine(self, data: bytes) -> Engine | None:
        assert not self.engine_host_code_allowed
        if b"works" in data:
            return Engine()
        self.logger.log(Severity.ERROR, data[28:].decode())
        return None


def _view(address: int, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_ubyte))
    return np.ctypeslib.as_array(pointer, (count * np.dtype(dtype).itemsize,)).view(dtype).reshape(shape)


def library(version: str = "10.6.0") -> Library:
    """The fake as a loaded library."""
    module = SimpleNamespace(
        DataType=DataType,
        TensorIOMode=TensorIOMode,
        TensorLocation=TensorLocation,
        ILogger=ILogger,
        IOutputAllocator=Interface,
        IProfiler=Interface,
        IProgressMonitor=Interface,
        BuilderFlag=BuilderFlag,
        Runtime=Runtime,
    )
    return Library("tensorrt", module, version)
