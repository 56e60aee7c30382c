"""GPUs and driver of this machine, and GPU memory, through the CUDA driver itself.

The driver's own C interface (`libcuda`) is used rather than cuda-python, cupy or torch: it is there
on every machine that can run an engine at all, so nothing else needs to be installed and no choice
of version can clash. `trt-lab doctor` says so.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trt_lab.errors import BackendUnavailableError, RunError
from trt_lab.types import JsonValue

MEMORY_PROVIDER = "CUDA driver (libcuda)"
_OTHER_PROVIDERS = {"cuda-python": "cuda.bindings", "cupy": "cupy", "torch": "torch"}

_OUT_OF_MEMORY = 2
_FIRST_STICKY = 700
"""Errors of kernels; the context is lost after them."""
_NON_BLOCKING = 1
_MAJOR, _MINOR = 75, 76
_PROTOTYPES: dict[str, Sequence[Any]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (c_void_p,),
    "cuDeviceGetCount": (c_void_p,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (c_void_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (c_void_p, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuMemGetInfo_v2": (c_void_p, c_void_p),
    "cuMemAlloc_v2": (c_void_p, c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoD_v2": (c_uint64, c_void_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuStreamCreate": (c_void_p, c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuEventCreate": (c_void_p, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (c_void_p, c_void_p, c_void_p),
    "cuEventDestroy_v2": (c_void_p,),
    "cuGetErrorName": (c_int, c_void_p),
    "cuGetErrorString": (c_int, c_void_p),
}


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        capability: Compute capability, such as (9, 0).
    """

    index: int
    name: str
    capability: tuple[int, int]
    memory_bytes: int

    @property
    def sm(self) -> str:
        """`SM90` for compute capability 9.0."""
        return f"SM{self.capability[0]}{self.capability[1]}"

    def facts(self) -> dict[str, JsonValue]:
        """For records and `doctor`."""
        return {
            "index": self.index,
            "name": self.name,
            "compute_capability": f"{self.capability[0]}.{self.capability[1]}",
            "memory_bytes": self.memory_bytes,
        }


@dataclass(frozen=True)
class Machine:
    """What the driver says. `reason` tells why there is no GPU; "" when there is one."""

    gpus: tuple[Gpu, ...]
    cuda_driver: str | None
    reason: str


class Driver:
    """The CUDA driver; each failed call raises RunError with the driver's own words."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for name, arguments in _PROTOTYPES.items():
            function = getattr(library, name)
            function.argtypes = list(arguments)
            function.restype = c_int
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the driver. Raises RunError."""
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RunError(self.words(name, status))

    def status(self, name: str, *arguments: Any) -> int:
        """Calls a function and returns its status."""
        return int(getattr(self._library, name)(*arguments))

    def words(self, name: str, status: int) -> str:
        """What a failed status means."""
        symbol, text = c_char_p(), c_char_p()
        self._library.cuGetErrorName(status, byref(symbol))
        self._library.cuGetErrorString(status, byref(text))
        label = (symbol.value or b"unknown error").decode(errors="replace")
        words = (text.value or b"").decode(errors="replace")
        text = f"CUDA: {label} ({words}) in {name}"
        if status >= _FIRST_STICKY:
            text += ". After such an error this process cannot use the GPU any more; run again, which starts a new one"
        return text


def other_providers() -> list[str]:
    """Libraries for GPU memory that are installed beside the driver; none of them is used, or needed."""
    found = []
    for name, module in _OTHER_PROVIDERS.items():
        try:
            there = importlib.util.find_spec(module) is not None
        except (ImportError, ValueError):  # no such package above it
            there = False
        if there:
            found.append(name)
    return found


@lru_cache(maxsize=1)
def driver() -> Driver:
    """The driver of this machine. Raises BackendUnavailableError when there is none or it does not start."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise BackendUnavailableError(f"no NVIDIA driver on this machine ({name} not found)") from error
    try:
        return Driver(library)
    except (AttributeError, RunError) as error:
        raise BackendUnavailableError(f"the NVIDIA driver does not start: {error}") from error


def machine() -> Machine:
    """GPUs of this machine; quick, never raises."""
    try:
        found = driver()
        version, count = c_int(), c_int()
        found.call("cuDriverGetVersion", byref(version))
        found.call("cuDeviceGetCount", byref(count))
        gpus = tuple(_gpu(found, i) for i in range(count.value))
    except (BackendUnavailableError, RunError) as error:
        return Machine((), None, str(error))
    text = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return Machine(gpus, text, "" if gpus else "the NVIDIA driver is there but shows no GPU")


def _gpu(found: Driver, index: int) -> Gpu:
    handle, major, minor, total = c_int(), c_int(), c_int(), c_size_t()
    name = ctypes.create_string_buffer(256)
    found.call("cuDeviceGet", byref(handle), index)
    found.call("cuDeviceGetName", name, len(name), handle)
    found.call("cuDeviceGetAttribute", byref(major), _MAJOR, handle)
    found.call("cuDeviceGetAttribute", byref(minor), _MINOR, handle)
    found.call("cuDeviceTotalMem_v2", byref(total), handle)
    return Gpu(index, name.value.decode(errors="replace"), (major.value, minor.value), total.value)


class Device:
    """A GPU in use: memory, one stream, and times. Call `close` when done.

    Args:
        index: Number of the GPU.

    Raises:
        BackendUnavailableError: No driver, or no such GPU.
    """

    def __init__(self, index: int = 0) -> None:
        found = machine()
        if not 0 <= index < len(found.gpus):
            there = ", ".join(f"{g.index}: {g.name}" for g in found.gpus) or found.reason
            raise BackendUnavailableError(f"no GPU {index} on this machine ({there}).")
        self.gpu = found.gpus[index]
        self._driver = driver()
        self._handle = c_int()
        context, stream = c_void_p(), c_void_p()
        self._driver.call("cuDeviceGet", byref(self._handle), index)
        self._driver.call("cuDevicePrimaryCtxRetain", byref(context), self._handle)
        self._context = context
        self.activate()
        self._driver.call("cuStreamCreate", byref(stream), _NON_BLOCKING)
        self._stream = stream
        self._buffers: dict[int, int] = {}
        self._closed = False

    @property
    def stream(self) -> int:
        """Handle of the stream on which the engine runs."""
        return self._stream.value or 0

    def activate(self) -> None:
        """Makes this GPU the one of the calling thread."""
        self._driver.call("cuCtxSetCurrent", self._context)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = c_size_t(), c_size_t()
        self._driver.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, nbytes: int) -> int:
        """Address of new memory of at least one byte. Raises RunError telling the sizes when it does not fit."""
        address = c_uint64()
        status = self._driver.status("cuMemAlloc_v2", byref(address), max(1, nbytes))
        if status == _OUT_OF_MEMORY:
            free, total = self.memory()
            raise RunError(
                f"out of GPU memory: {nbytes:,} bytes asked for, {free:,} of {total:,} free on {self.gpu.name}. "
                "Use smaller shapes or close other programs on the GPU."
            )
        if status:
            raise RunError(self._driver.words("cuMemAlloc_v2", status))
        self._buffers[address.value] = nbytes
        return address.value

    def free(self, address: int) -> None:
        """Gives memory back; addresses not allocated here are left alone."""
        if self._buffers.pop(address, None) is not None:
            self._driver.call("cuMemFree_v2", address)

    def upload(self, address: int, data: Any, nbytes: int) -> None:
        """Copies `nbytes` from `data` (a ctypes pointer or address) to the GPU."""
        if nbytes:
            self._driver.call("cuMemcpyHtoD_v2", address, data, nbytes)

    def download(self, data: Any, address: int, nbytes: int) -> None:
        """Copies `nbytes` from the GPU to `data`."""
        if nbytes:
            self._driver.call("cuMemcpyDtoH_v2", data, address, nbytes)

    def synchronize(self) -> None:
        """Waits until the stream is done. Raises RunError with what went wrong on the GPU."""
        self._driver.call("cuStreamSynchronize", self._stream)

    def event(self) -> c_void_p:
        """A new event."""
        made = c_void_p()
        self._driver.call("cuEventCreate", byref(made), 0)
        return made

    def record(self, event: c_void_p) -> None:
        """Puts an event on the stream."""
        self._driver.call("cuEventRecord", event, self._stream)

    def elapsed_ms(self, start: c_void_p, end: c_void_p) -> float:
        """Milliseconds between two recorded events; waits for the second."""
        milliseconds = c_float()
        self._driver.call("cuEventSynchronize", end)
        self._driver.call("cuEventElapsedTime", byref(milliseconds), start, end)
        return float(milliseconds.value)

    def drop_event(self, event: c_void_p) -> None:
        """Frees an event."""
        self._driver.call("cuEventDestroy_v2", event)

    def close(self) -> None:
        """Frees memory and stream. Safe to call twice, and after a CUDA error (which is then ignored)."""
        if self._closed:
            return
        self._closed = True
        for address in list(self._buffers):
            self._driver.status("cuMemFree_v2", address)
        self._buffers.clear()
        self._driver.status("cuStreamDestroy_v2", self._stream)
        self._driver.status("cuDevicePrimaryCtxRelease_v2", self._handle)
