"""Engine files: which ones may be loaded, and what to say of those that cannot.

An engine is code. It is loaded only if this machine recorded its hash when it built it, or the user
says so. Its header is read before TensorRT sees it, since the loader only returns nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from trt_lab.backends.tensorrt.log import BuildLog
from trt_lab.backends.tensorrt.versions import Library, loaded_libraries
from trt_lab.errors import RunError

_VERSION_AT = {b"ftrt": (24, 20), b"vtrt": (20,)}
"""First bytes of an engine (TensorRT, TensorRT for RTX) → where its four version numbers may stand."""
_HEADER_BYTES = 28
_MAJORS = range(1, 32)
_WAY_OUT = "Build it again from the record's model.onnx, or run the model with ONNX Runtime's TensorRT provider"


def hashes_file() -> Path:
    """Where the hashes of engines built on this machine are kept, one a line."""
    return platformdirs.user_data_path("trt-lab") / "engines.sha256"


def remember(engine: bytes) -> str:
    """Records that this machine built `engine`; returns its SHA-256."""
    digest = hashlib.sha256(engine).hexdigest()
    file = hashes_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"), file.open("a", encoding="ascii") as opened:
        opened.write(f"{digest}\n")
    return digest


def is_known(engine: bytes) -> bool:
    """Whether this machine built `engine`."""
    digest = hashlib.sha256(engine).hexdigest()
    try:
        return digest in hashes_file().read_text(encoding="ascii").split()
    except OSError:
        return False


def check_engine(engine: bytes, *, name: str, trust: bool = False) -> None:
    """Refuses what is no engine, and an engine that this machine did not build.

    Raises:
        RunError: Empty, no engine, cut, or unknown here and `trust` not given.
    """
    if not engine:
        raise RunError(f"{name}: the file is empty, it holds no engine. {_WAY_OUT}.")
    if engine[:4] not in _VERSION_AT:
        raise RunError(f"{name}: not an engine: it starts with {engine[:8]!r}, an engine with b'ftrt'. {_WAY_OUT}.")
    if len(engine) < _HEADER_BYTES:
        raise RunError(f"{name}: an engine cut after {len(engine)} bytes, within its header. {_WAY_OUT}.")
    if not trust and not is_known(engine):
        raise RunError(
            f"{name}: this machine did not build this engine, and an engine is code: it is not loaded. "
            f"If you trust its source, say trust=True. Otherwise: {_WAY_OUT[0].lower()}{_WAY_OUT[1:]}."
        )


def engine_version(engine: bytes) -> str | None:
    """Version of TensorRT in the header (`10.6.0.26`), None where there is none."""
    if len(engine) < _HEADER_BYTES:
        return None
    for place in _VERSION_AT.get(engine[:4], ()):
        if engine[place] in _MAJORS:
            return ".".join(str(part) for part in engine[place : place + 4])
    return None


def load_engine(library: Library, runtime: Any, engine: bytes, log: BuildLog, *, name: str, gpu: str) -> Any:
    """Deserialises an engine that `check_engine` let through.

    Raises:
        RunError: TensorRT cannot read it: another version, another GPU, or cut.
    """
    runtime.engine_host_code_allowed = False
    loaded = runtime.deserialize_cuda_engine(engine)
    if loaded is not None:
        return loaded
    said = " ".join(" ".join(log.errors()).split())[:400]
    made = engine_version(engine)
    here = library.version
    if made is not None and made.split(".")[:3] != here.split(".")[:3]:
        loaded = ", ".join(loaded_libraries())
        which = f" (loaded: {loaded})" if loaded else ""
        raise RunError(f"{name}: engine of TensorRT {made}; here {here}{which}. {_WAY_OUT}. TensorRT said: {said}")
    if "compute" in said.lower() or "device" in said.lower():
        raise RunError(
            f"{name}: the engine was built for another GPU than this {gpu}. {_WAY_OUT}. TensorRT said: {said}"
        )
    raise RunError(f"{name}: the engine ({len(engine):,} bytes) is cut or damaged. {_WAY_OUT}. TensorRT said: {said}")
