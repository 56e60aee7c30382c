"""Writing a record: into a temporary folder, onto the disk, then renamed. It is there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from trt_lab.errors import RecordError
from trt_lab.model import Model
from trt_lab.record.engine_files import layers_json, log_jsonl, profile_json
from trt_lab.record.read import Record
from trt_lab.record.schema import (
    ENGINE_FILE,
    LAYERS_FILE,
    LOG_FILE,
    MODEL_FILE,
    PROFILE_FILE,
    RECORD_FILE,
    SAMPLES_FOLDER,
    FileMeta,
    ModelMeta,
    OutcomeMeta,
    RecordMeta,
    dump_json,
    to_json,
)
from trt_lab.tensors import write_safetensors
from trt_lab.tensors.atomic import fsync_folder
from trt_lab.types import BuildOptions, LogLine, Outcome, TensorId

COPY_MODEL_BELOW = 200 << 20
"""Larger models are not copied into the record: it names their hash and where they were read from."""

_CHUNK = 8 << 20
_MANY_FILES = 16
"""From here on threads that wait together are quicker than one after the other."""

_MEMO = "record.model_bytes"


class ProbedModel(Protocol):
    """What a record needs to know of the probes: `edit.probe.Probed` and `edit.mark`'s result have it."""

    @property
    def model(self) -> Model: ...
    @property
    def outputs(self) -> Mapping[TensorId, str]: ...


def write_record(
    path: str | os.PathLike[str],
    *,
    model: Model,
    probed: ProbedModel | None = None,
    options: BuildOptions,
    outcome: Outcome | None,
    failure: str = "",
    role: Literal["engine", "reference"] = "engine",
    seed: int | None = None,
    samples_dir: str | os.PathLike[str] | None = None,
    samples: Sequence[Mapping[str, np.ndarray]] = (),
    outputs_dir: str | os.PathLike[str] | None = None,
    outputs: Sequence[Mapping[str, np.ndarray]] = (),
    log: Sequence[LogLine] = (),
    sync: bool = True,
) -> Record:
    """Writes the folder `path` and opens it.

    Args:
        path: Folder to make, `NAME.trtlab`. Nothing is overwritten.
        model: The model without probes.
        probed: Which output carries which tensor.
        options: As asked for.
        outcome: What the job found; None when the build failed.
        failure: Why it failed.
        role: Whether this is the reference or an engine under test.
        seed: Of generated samples.
        samples_dir: Folder with `NNN/inputs.safetensors`, or
        samples: the inputs as arrays.
        outputs_dir: The job's `out_dir`, or
        outputs: the outputs as arrays.
        log: Log of a failed build; that of a good one is in `outcome`.
        sync: Whether to wait until the disk has it; False for records that are thrown away.

    Raises:
        RecordError: There is something at `path` already, or it cannot be written.
    """
    target = Path(path).expanduser()
    if target.exists():
        raise RecordError(f"{target}: exists already and is not overwritten; choose another name or remove it")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        temporary.mkdir(parents=True)
        files = _Files(temporary)
        origin = _model_file(files, model)
        result = outcome or _nothing(log)
        names = list(result.output_names)
        bindings = [*(str(value.name) for value in model.ir.graph.inputs), *names]
        files.add(LAYERS_FILE, layers_json(result.layers, bindings))
        files.add(PROFILE_FILE, profile_json(result.times))
        files.add(LOG_FILE, log_jsonl(result.log))
        count = _samples(files, samples_dir, samples, outputs_dir, outputs)
        if outputs_dir is not None and result.engine_file is not None:
            files.take(ENGINE_FILE, Path(outputs_dir) / result.engine_file)
        meta = RecordMeta(
            **_about(result, options),
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            trt_lab=_own_version(),
            role=role,
            outcome=OutcomeMeta() if outcome is not None else OutcomeMeta(state="failed", message=failure),
            model=origin,
            seed=seed,
            probes={str(t): name for t, name in probed.outputs.items()} if probed is not None else {},
            output_names=tuple(names),
            samples=count,
            build_s=result.build_s if outcome is not None else None,
            run_s=result.run_s if outcome is not None else None,
            files=files.finish(),
        )
        record_file = temporary / RECORD_FILE
        record_file.write_bytes(dump_json(meta.model_dump(), indent=1))
        if sync:
            sync_tree(temporary)
        _rename(temporary, target)
        if sync:
            fsync_folder(target.parent)
    except OSError as error:
        raise RecordError(
            f"{target}: cannot be written ({error.strerror or error}); check the folder and the free space"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Record.open(target)


class _Files:
    """Files of a record under way, hashed as they are written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hashed: dict[str, FileMeta] = {}
        self._open: list[str] = []

    def add(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)
        self._hashed[name] = FileMeta(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    def place(self, name: str) -> Path:
        """Where to write a file that is hashed at the end."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        self._open.append(name)
        return target

    def take(self, name: str, source: Path, *, link: bool = True) -> None:
        """Copies a file, or links it when the original is ours to keep."""
        target = self.place(name)
        if link:
            try:
                os.link(source, target)
                return
            except OSError:
                pass  # another disk, or a file system without links
        shutil.copyfile(source, target)

    def finish(self) -> dict[str, FileMeta]:
        """Sizes and hashes of all files, by name."""
        late = {name: file_meta(self.folder / name) for name in self._open}
        return dict(sorted({**self._hashed, **late}.items()))


def file_meta(path: Path) -> FileMeta:
    """Size and hash of a file, read in pieces."""
    digest = hashlib.sha256()
    size = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return FileMeta(bytes=size, sha256=digest.hexdigest())


def sync_tree(folder: Path) -> None:
    """Waits until the disk has every file and name below `folder`; many are waited for together."""
    found = list(folder.rglob("*"))
    files = [item for item in found if item.is_file()]
    if len(files) < _MANY_FILES:
        for file in files:
            _fsync_file(file)
    else:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(_fsync_file, files))
    for item in [folder, *(item for item in found if item.is_dir())]:
        fsync_folder(item)


def _fsync_file(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _rename(temporary: Path, target: Path) -> None:
    """Renames where nothing is yet: an empty folder would be replaced in silence."""
    if target.exists():
        raise RecordError(f"{target}: was made by someone else in the meantime; write the record under another name")
    try:
        os.rename(temporary, target)
    except FileExistsError as error:
        raise RecordError(f"{target}: was made by someone else in the meantime; choose another name") from error


def _model_file(files: _Files, model: Model) -> ModelMeta:
    """Writes the model, or only says where it is when it is big. The bytes of a small one are kept for the next build."""
    origin = str(model.path.absolute()) if model.path is not None else None
    weight = sum(value.const_value.nbytes for value in model.ir.graph.initializers.values() if value.const_value)
    if model.path is not None and model.path.is_file():  # weights may be in Constant nodes as well
        weight = max(weight, model.path.stat().st_size)
    if weight > COPY_MODEL_BELOW and origin is not None:
        return ModelMeta(name=model.name, hash=model.hash, weights_hash=model.weights_hash, file=None, origin=origin)
    if weight > COPY_MODEL_BELOW:
        model.save(files.place(MODEL_FILE))
    else:
        data = model.memo.get(_MEMO)
        if not isinstance(data, bytes):
            data = model.memo[_MEMO] = model.proto().SerializeToString()
        files.add(MODEL_FILE, data)
    return ModelMeta(name=model.name, hash=model.hash, weights_hash=model.weights_hash, origin=origin)


def _samples(
    files: _Files,
    samples_dir: str | os.PathLike[str] | None,
    samples: Sequence[Mapping[str, np.ndarray]],
    outputs_dir: str | os.PathLike[str] | None,
    outputs: Sequence[Mapping[str, np.ndarray]],
) -> int:
    """Brings in inputs and outputs. Returns the number of samples."""
    count = 0
    for kind, folder, arrays in (
        ("inputs", samples_dir, samples),
        ("outputs", None if outputs_dir is None else Path(outputs_dir) / SAMPLES_FOLDER, outputs),
    ):
        for index, sample in enumerate(arrays):
            write_safetensors(files.place(f"{SAMPLES_FOLDER}/{index:03d}/{kind}.safetensors"), sample)
        found = sorted(Path(folder).glob(f"*/{kind}.safetensors"), key=_number) if folder is not None else []
        for index, file in enumerate(found):
            files.take(f"{SAMPLES_FOLDER}/{index:03d}/{kind}.safetensors", file, link=kind == "outputs")
        count = max(count, len(arrays), len(found))
    return count


def _number(path: Path) -> tuple[int, str]:
    name = path.parent.name
    return (int(name), name) if name.isdigit() else (1 << 60, name)


def _nothing(log: Sequence[LogLine]) -> Outcome:
    return Outcome(layers=(), times=(), latency_ms=(), log=tuple(log), build_s=0.0, run_s=0.0)


def _about(outcome: Outcome, options: BuildOptions) -> dict[str, Any]:
    """Keys that come from the options and from what the backend told."""
    facts = to_json(dict(outcome.facts))
    assert isinstance(facts, dict)
    gpu, cache = facts.get("gpu"), facts.get("timing_cache")
    device = gpu.get("name") if isinstance(gpu, dict) else gpu
    return {
        "backend": options.backend,
        "backend_version": _text(facts.get("version")),
        "device": _text(device) or ("cpu" if facts.get("provider") == "CPUExecutionProvider" else None),
        "driver": _text(facts.get("cuda_driver")),
        "tf32": options.tf32,
        "timing_cache": cache.get("used") is True if isinstance(cache, dict) else None,
        "options": to_json(options),
        "latency_ms": tuple(outcome.latency_ms),
        "facts": facts,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _own_version() -> str:
    try:
        return version("trt-lab")
    except PackageNotFoundError:
        return "source"  # used from a checkout that is not installed
