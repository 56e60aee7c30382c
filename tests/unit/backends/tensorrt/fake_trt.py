"""A module with the interface of TensorRT's bindings whose engine computes with numpy on the stub's memory.

The engine reads `x` (float, [-1, 3]) and `mask` (bool, [-1]) and gives `y` = 2·x and `rows` (int64, [2, -1]),
the places where x is not 0 as NonZero gives them: a size that depends on data.
"""

from __future__ import annotations

import ctypes
import json
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


class LaterBuilderFlag(Enum):
    """As of 10.8."""

    FP16 = 0
    TF32 = 1
    DISABLE_TIMING_CACHE = 2
    EDITABLE_TIMING_CACHE = 3


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

    def create_engine_inspector(self) -> SimpleNamespace:
        layers = [
            {"Name": "double", "LayerType": "kgen", "Inputs": [], "Outputs": [], "Metadata": "[ONNX Layer: twice]"}
        ]
        return SimpleNamespace(get_engine_information=lambda form: json.dumps({"Layers": layers, "Bindings": []}))

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


class TimingCacheKey:
    def __init__(self, text: str) -> None:
        self._text = text

    @staticmethod
    def parse(text: str) -> TimingCacheKey:
        if len(text) != 34:
            raise ValueError("The text should have exactly 34 characters.")
        return TimingCacheKey(text)

    def __str__(self) -> str:
        return self._text


class TimingCacheValue:
    def __init__(self, tactic_hash: int, timing_msec: float) -> None:
        self.tacticHash = tactic_hash
        self.timingMSec = timing_msec


class TimingCache:
    """Its bytes are JSON: GPU and entries. Tactic 1 is refused."""

    def __init__(self, data: bytes) -> None:
        held = json.loads(data or b'{"gpu": "stub", "entries": {}}')
        self.gpu: str = held["gpu"]
        self.entries: dict[str, list[Any]] = held["entries"]

    def serialize(self) -> bytes:
        return json.dumps({"gpu": self.gpu, "entries": self.entries}).encode()

    def combine(self, other: TimingCache, ignore_mismatch: bool) -> bool:
        self.entries = {**other.entries, **self.entries}
        return True

    def queryKeys(self) -> list[TimingCacheKey]:
        return [TimingCacheKey(key) for key in self.entries]

    def query(self, key: TimingCacheKey) -> TimingCacheValue:
        return TimingCacheValue(*self.entries.get(str(key), [2**64 - 1, -1.0]))

    def update(self, key: TimingCacheKey, value: TimingCacheValue) -> bool:
        if value.tacticHash == 1:
            return False
        self.entries[str(key)] = [value.tacticHash, value.timingMSec]
        return True


class Config:
    """A builder config; attributes that are set stay as they are set."""

    def __init__(self) -> None:
        self.flags: set[Any] = set()
        self.cache: TimingCache | None = None

    def set_flag(self, flag: Any) -> None:
        self.flags.add(flag)

    def clear_flag(self, flag: Any) -> None:
        self.flags.discard(flag)

    def set_memory_pool_limit(self, pool: Any, limit: int) -> None:
        pass

    def create_timing_cache(self, data: bytes) -> TimingCache | None:
        try:
            return TimingCache(data)
        except (ValueError, KeyError):
            return None

    def set_timing_cache(self, cache: TimingCache | None, ignore_mismatch: bool) -> bool:
        if cache is None or cache.gpu != "stub":
            return False
        self.cache = cache
        return True

    def get_timing_cache(self) -> TimingCache | None:
        return self.cache


class Builder:
    """Each engine that it builds is another one."""

    built = 0

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def create_network(self, flags: int) -> SimpleNamespace:
        return SimpleNamespace(num_layers=1, num_inputs=0, num_outputs=1)

    def create_builder_config(self) -> Config:
        return Config()

    def build_serialized_network(self, network: Any, config: Config) -> np.ndarray:
        type(self).built += 1
        self.logger.log(Severity.INFO, f"built engine {self.built}")
        header = b"ftrt" + bytes(20) + bytes([10, 6, 0, 26])
        return np.frombuffer(header + b"works %d" % self.built, np.uint8)


class OnnxParser:
    num_errors = 0

    def __init__(self, network: Any, logger: Any) -> None:
        pass

    def parse(self, data: bytes) -> bool:
        return True


def _view(address: int, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_ubyte))
    return np.ctypeslib.as_array(pointer, (count * np.dtype(dtype).itemsize,)).view(dtype).reshape(shape)


def library(version: str = "10.6.0", *, editable: bool = False) -> Library:
    """The fake as a loaded library; `editable` timing caches came with 10.8."""
    module = SimpleNamespace(
        DataType=DataType,
        TensorIOMode=TensorIOMode,
        TensorLocation=TensorLocation,
        ILogger=ILogger,
        IOutputAllocator=Interface,
        IProfiler=Interface,
        IProgressMonitor=Interface,
        BuilderFlag=LaterBuilderFlag if editable else BuilderFlag,
        Runtime=Runtime,
        Builder=Builder,
        OnnxParser=OnnxParser,
        NetworkDefinitionCreationFlag=SimpleNamespace(STRONGLY_TYPED=1),
        ProfilingVerbosity=SimpleNamespace(DETAILED=2),
        MemoryPoolType=SimpleNamespace(WORKSPACE=0),
        LayerInformationFormat=SimpleNamespace(JSON=1),
        init_libnvinfer_plugins=lambda logger, namespace: True,
        TimingCacheKey=TimingCacheKey,
        TimingCacheValue=TimingCacheValue,
    )
    return Library("tensorrt", module, version)
