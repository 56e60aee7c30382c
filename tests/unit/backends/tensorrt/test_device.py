"""The CUDA driver's interface, against a stub of it in C."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from trt_lab.backends.tensorrt import device
from trt_lab.backends.tensorrt.device import Device, Gpu, machine
from trt_lab.errors import BackendUnavailableError, RunError


def test_machine(stub_driver: Any) -> None:
    found = machine()
    assert found.gpus == (Gpu(0, "Stub GPU", (9, 0), 5_000_000_000),)
    assert found.cuda_driver == "12.8"
    assert found.gpus[0].sm == "SM90"
    assert found.gpus[0].facts()["compute_capability"] == "9.0"


def test_memory_goes_there_and_back(stub_driver: Any) -> None:
    place = Device(0)
    data = np.arange(1000, dtype=np.float32)
    address = place.allocate(data.nbytes)
    assert address > 2**32
    place.upload(address, data.ctypes.data, data.nbytes)
    back = np.empty_like(data)
    place.download(back.ctypes.data, address, data.nbytes)
    np.testing.assert_array_equal(back, data)
    assert place.memory() == (1_000_000 - 4000, 1_000_000)
    place.free(address)
    place.free(address)
    assert stub_driver.stub_used() == 0


def test_close_frees_all_and_may_be_called_twice(stub_driver: Any) -> None:
    place = Device(0)
    for _ in range(3):
        place.allocate(100)
    assert stub_driver.stub_used() == 300
    place.close()
    place.close()
    assert stub_driver.stub_used() == 0


def test_out_of_memory_tells_the_sizes(stub_driver: Any) -> None:
    place = Device(0)
    place.allocate(400_000)
    with pytest.raises(RunError, match=r"2,000,000 bytes asked for, 600,000 of 1,000,000 free on Stub GPU"):
        place.allocate(2_000_000)


def test_a_sticky_error_is_named(stub_driver: Any) -> None:
    place = Device(0)
    stub_driver.stub_break()
    with pytest.raises(RunError, match=r"CUDA_ERROR_ILLEGAL_ADDRESS \(an illegal memory access was encountered\)"):
        place.synchronize()
    place.close()


def test_events_give_milliseconds(stub_driver: Any) -> None:
    place = Device(0)
    start, end = place.event(), place.event()
    place.record(start)
    place.record(end)
    assert place.elapsed_ms(start, end) == 0.25


def test_no_such_gpu(stub_driver: Any) -> None:
    with pytest.raises(BackendUnavailableError, match=r"no GPU 3 on this machine \(0: Stub GPU\)"):
        Device(3)


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> ctypes.CDLL:
        raise OSError(f"{name}: cannot open shared object file")

    device.driver.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    found = machine()
    assert found.gpus == ()
    assert "no NVIDIA driver on this machine" in found.reason
    with pytest.raises(BackendUnavailableError, match="no GPU 0"):
        Device(0)
