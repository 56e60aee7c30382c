"""A live engine: inputs in, outputs out, and times. Needs a GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trt_lab.backends.base import Built, Feeds, Profile, describe_profiler
from trt_lab.backends.tensorrt.device import Device
from trt_lab.backends.tensorrt.faults import explain_run
from trt_lab.backends.tensorrt.log import BuildLog, collect, logger
from trt_lab.backends.tensorrt.network import first_error
from trt_lab.backends.tensorrt.tensors import byte_count, from_bytes, numpy_type, to_bytes
from trt_lab.backends.tensorrt.trust import check_engine, load_engine
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.engine_profile import match_times
from trt_lab.errors import InputError, RunError
from trt_lab.types import BuildOptions, JsonValue, LayerInfo

_WARM_UP_RUNS = 3
_WARM_UP_S = 0.2


@dataclass(frozen=True)
class _Binding:
    """An input or output of the engine. `on_host`: TensorRT reads it from host memory (it holds sizes)."""

    name: str
    kind: Any
    is_input: bool
    on_host: bool


def open_runner(library: Library, built: Built) -> EngineRunner:
    """A runner of what was built in this process. Raises RunError, BackendUnavailableError."""
    if built.engine is None:
        raise RunError(f"{library.title}: nothing to run, the build kept no engine")
    options = built.handle if isinstance(built.handle, BuildOptions) else BuildOptions()
    return EngineRunner(library, built.engine, options, built.layers, name="the engine")


class EngineRunner:
    """Runs one engine on one GPU, from one thread at a time.

    Args:
        layers: Of the engine, to name the times.
        name: What messages call it.
        trust: Load it although this machine did not build it.

    Raises:
        RunError: The engine cannot be loaded; see `trust`.
        BackendUnavailableError: No GPU.
    """

    def __init__(
        self,
        library: Library,
        engine: bytes,
        options: BuildOptions,
        layers: Sequence[LayerInfo] = (),
        *,
        name: str,
        trust: bool = False,
    ) -> None:
        check_engine(engine, name=name, trust=trust)
        self._library = library
        self._layers = tuple(layers)
        self._runtime: Any = None
        self._engine: Any = None
        self._context: Any = None
        self._device = Device(options.device)
        self._host: dict[str, np.ndarray] = {}
        self._memory: dict[str, tuple[int, int]] = {}
        self._refused: RunError | None = None
        self._closed = False
        try:
            with collect(library, "info") as log:
                self._load(engine, log, name)
        except BaseException:
            self._device.close()
            raise

    def _load(self, engine: bytes, log: BuildLog, name: str) -> None:
        self._runtime = self._library.module.Runtime(logger(self._library))
        self._engine = load_engine(
            self._library, self._runtime, engine, log, name=name, gpu=f"{self._device.gpu.name} ({self._device.gpu.sm})"
        )
        self._context = self._engine.create_execution_context()
        if self._context is None:
            free, total = self._device.memory()
            needed = getattr(self._engine, "device_memory_size_v2", None) or getattr(
                self._engine, "device_memory_size", 0
            )
            raise RunError(
                f"{explain_run(self._library.title, log)} ({needed:,} bytes of scratch memory needed, "
                f"{free:,} of {total:,} free on {self._device.gpu.name})"
            )
        self._bindings = tuple(self._binding(i) for i in range(self._engine.num_io_tensors))
        self._allocators = {b.name: self._make_allocator(b) for b in self._bindings if not b.is_input}

    @property
    def engine(self) -> Any:
        """The live ICudaEngine."""
        return self._engine

    @property
    def context(self) -> Any:
        """Its execution context."""
        return self._context

    def run(self, feeds: Feeds) -> dict[str, np.ndarray]:
        """Outputs by name, in the engine's order. Sizes that depend on data are read after the run.

        Raises:
            InputError: Inputs that do not fit the engine.
            RunError: The engine failed; after a CUDA error the process must be replaced.
        """
        self._require_open()
        self._device.activate()
        with collect(self._library, "warning") as log:
            self._bind(feeds, log)
            self._enqueue(log)
            self._device.synchronize()
            return {b.name: self._fetch(b) for b in self._bindings if not b.is_input}

    def profile(self, feeds: Feeds, repeats: int) -> Profile:
        """Latency of `repeats` runs between CUDA events without the profiler, then layer times of as many with it."""
        self._require_open()
        self._device.activate()
        with collect(self._library, "warning") as log:
            self._bind(feeds, log)
            self._warm_up(log)
            latency = self._time_runs(repeats, log)
            runs, profiled = self._time_layers(repeats, log)
        times, notes = match_times(self._layers, runs)
        facts: dict[str, JsonValue] = {
            **describe_profiler(latency, profiled, times),
            "enqueue_emits_profile": bool(self._context.enqueue_emits_profile),
            "notes": list(notes),
        }
        return Profile(times, latency, facts)

    def close(self) -> None:
        """Frees the engine and its memory. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._context = self._engine = self._runtime = None
        self._allocators.clear()
        self._device.close()

    # --- inputs --------------------------------------------------------------------------

    def _bind(self, feeds: Feeds, log: BuildLog) -> None:
        self._check_names(feeds)
        self._choose_profile(feeds)
        for binding in self._bindings:
            if binding.is_input:
                self._bind_input(binding, np.asarray(feeds[binding.name]), log)
        try:
            missing = self._context.infer_shapes()
        except RuntimeError as error:
            raise InputError(f"the inputs do not fit each other: {first_error(log)}") from error
        if missing:
            raise InputError(
                f"TensorRT cannot tell all sizes; shape or values of {', '.join(missing)} do not fit the engine"
            )
        for binding in self._bindings:
            if not binding.is_input:
                self._bind_output(binding)

    def _check_names(self, feeds: Feeds) -> None:
        wanted = [b.name for b in self._bindings if b.is_input]
        missing = [name for name in wanted if name not in feeds]
        if missing:
            raise InputError(f"input '{missing[0]}' is not given; the engine reads {', '.join(wanted)}")
        unknown = [name for name in feeds if name not in wanted]
        if unknown:
            raise InputError(f"the engine has no input '{unknown[0]}'; it reads {', '.join(wanted) or 'nothing'}")

    def _choose_profile(self, feeds: Feeds) -> None:
        """The first profile whose ranges hold the given shapes."""
        count = self._engine.num_optimization_profiles
        for number in range(count):
            if all(
                self._fits(b.name, np.shape(feeds[b.name]), number)
                for b in self._bindings
                if b.is_input and not b.on_host
            ):
                if number != self._context.active_optimization_profile:
                    self._context.set_optimization_profile_async(number, self._device.stream)
                    self._device.synchronize()
                return
        parts = []
        for binding in self._bindings:
            if binding.is_input and not binding.on_host:
                given = np.shape(feeds[binding.name])
                ranges = [self._engine.get_tensor_profile_shape(binding.name, i) for i in range(count)]
                text = " or ".join(f"{tuple(r[0])} to {tuple(r[2])}" for r in ranges)
                parts.append(f"'{binding.name}' is {given}, the engine takes {text}")
        raise InputError(f"{'; '.join(parts)}. Build with a wider range of shapes")

    def _fits(self, name: str, shape: tuple[int, ...], profile: int) -> bool:
        low, _, high = (tuple(s) for s in self._engine.get_tensor_profile_shape(name, profile))
        return len(low) == len(shape) and all(a <= size <= b for a, size, b in zip(low, shape, high, strict=True))

    def _bind_input(self, binding: _Binding, array: np.ndarray, log: BuildLog) -> None:
        dtype = numpy_type(binding.kind)
        if array.dtype != dtype:
            raise InputError(f"input '{binding.name}' is {array.dtype}, the engine reads {dtype}; cast it")
        if not self._context.set_input_shape(binding.name, array.shape):
            raise InputError(
                f"input '{binding.name}': TensorRT refuses shape {array.shape}: {' '.join(log.errors())[:300]}"
            )
        data = to_bytes(binding.kind, array)
        if binding.on_host:
            self._host[binding.name] = data
            self._context.set_tensor_address(binding.name, data.ctypes.data)
            return
        address = self._buffer(binding.name, data.nbytes)
        self._device.upload(address, data.ctypes.data, data.nbytes)
        self._context.set_tensor_address(binding.name, address)

    # --- outputs -------------------------------------------------------------------------

    def _bind_output(self, binding: _Binding) -> None:
        shape = tuple(self._context.get_tensor_shape(binding.name))
        if binding.on_host:
            room = np.empty(max(1, _elements(shape)), numpy_type(binding.kind))
            self._host[binding.name] = room
            self._context.set_tensor_address(binding.name, room.ctypes.data)
            return
        if -1 in shape:  # the size is known only when the engine has run
            self._context.set_output_allocator(binding.name, self._allocators[binding.name])
            return
        self._context.set_output_allocator(binding.name, None)
        self._context.set_tensor_address(
            binding.name, self._buffer(binding.name, byte_count(binding.kind, _elements(shape)))
        )

    def _fetch(self, binding: _Binding) -> np.ndarray:
        shape = tuple(self._context.get_tensor_shape(binding.name))
        if -1 in shape:
            shape = self._allocators[binding.name].shape
            if shape is None:
                raise RunError(f"output '{binding.name}': TensorRT did not tell its size after the run")
        if binding.on_host:
            return self._host[binding.name][: _elements(shape)].reshape(shape).copy()
        nbytes = byte_count(binding.kind, _elements(shape))
        data = np.empty(nbytes, np.uint8)
        self._device.download(data.ctypes.data, self._memory[binding.name][0], nbytes)
        return from_bytes(binding.kind, data, shape)

    def _buffer(self, name: str, nbytes: int) -> int:
        """Address of at least `nbytes` kept for this tensor."""
        address, room = self._memory.get(name, (0, -1))
        if room < nbytes:
            if room >= 0:
                self._device.free(address)
                del self._memory[name]
            address = self._device.allocate(nbytes)
            self._memory[name] = (address, nbytes)
        return address

    def _make_allocator(self, binding: _Binding) -> Any:
        base = self._library.module.IOutputAllocator
        runner = self

        class Allocator(base):  # a class of the loaded library, so it can only be made here
            def __init__(self) -> None:
                base.__init__(self)
                self.shape: tuple[int, ...] | None = None

            def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
                try:
                    return runner._buffer(binding.name, size)
                except RunError as error:  # must not pass through TensorRT's C++ frames; 0 makes the run fail
                    runner._refused = error
                    return 0

            def reallocate_output_async(
                self, tensor_name: str, memory: int, size: int, alignment: int, stream: int
            ) -> int:
                return self.reallocate_output(tensor_name, memory, size, alignment)

            def notify_shape(self, tensor_name: str, shape: Any) -> None:
                self.shape = tuple(shape)

        return Allocator()

    # --- times ---------------------------------------------------------------------------

    def _warm_up(self, log: BuildLog) -> None:
        end = time.perf_counter() + _WARM_UP_S
        runs = 0
        while runs < _WARM_UP_RUNS or time.perf_counter() < end:
            self._enqueue(log)
            self._device.synchronize()
            runs += 1

    def _time_runs(self, repeats: int, log: BuildLog) -> tuple[float, ...]:
        start, end = self._device.event(), self._device.event()
        found = []
        try:
            for _ in range(repeats):
                self._device.record(start)
                self._enqueue(log)
                self._device.record(end)
                found.append(self._device.elapsed_ms(start, end))
        finally:
            self._device.drop_event(start)
            self._device.drop_event(end)
        return tuple(found)

    def _time_layers(self, repeats: int, log: BuildLog) -> tuple[list[list[tuple[str, float]]], list[float]]:
        """What the profiler says in each run, and how long the run took with it, in ms.

        It reports when asked, after the run, so that nothing waits inside the run (`enqueue_emits_profile` off).
        """
        profiler = _make_profiler(self._library)
        self._context.enqueue_emits_profile = False
        self._context.profiler = profiler
        start, end = self._device.event(), self._device.event()
        runs, took = [], []
        try:
            for _ in range(repeats):
                profiler.rows = []
                self._device.record(start)
                self._enqueue(log)
                self._device.record(end)
                took.append(self._device.elapsed_ms(start, end))
                self._context.report_to_profiler()
                runs.append(profiler.rows)
        finally:
            self._device.drop_event(start)
            self._device.drop_event(end)
        return runs, took

    def _enqueue(self, log: BuildLog) -> None:
        self._refused = None
        if not self._context.execute_async_v3(self._device.stream):
            if self._refused is not None:
                raise self._refused
            raise RunError(explain_run(self._library.title, log))

    def _binding(self, index: int) -> _Binding:
        module = self._library.module
        name = self._engine.get_tensor_name(index)
        return _Binding(
            name,
            self._engine.get_tensor_dtype(name),
            self._engine.get_tensor_mode(name) == module.TensorIOMode.INPUT,
            self._engine.get_tensor_location(name) == module.TensorLocation.HOST,
        )

    def _require_open(self) -> None:
        if self._closed:
            raise RunError("the engine is closed; build or open it again")


def _elements(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64)) if shape else 1


def _make_profiler(library: Library) -> Any:
    base = library.module.IProfiler

    class Profiler(base):  # a class of the loaded library, so it can only be made here
        def __init__(self) -> None:
            base.__init__(self)
            self.rows: list[tuple[str, float]] = []

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self.rows.append((layer_name, ms))

    return Profiler()
