"""Reading a record: a folder, or the same zipped. What is read is checked against the hashes in `record.json`."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import uuid
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np

from trt_lab.errors import RecordError
from trt_lab.model import Model
from trt_lab.record.engine_files import read_layers, read_log, read_profile
from trt_lab.record.html import facts_of, record_html
from trt_lab.record.schema import (
    LAYERS_FILE,
    LOG_FILE,
    PROFILE_FILE,
    RECORD_FILE,
    SAMPLES_FOLDER,
    RecordMeta,
    parse_meta,
)
from trt_lab.tensors import read_safetensors
from trt_lab.tensors.atomic import fsync_folder
from trt_lab.types import LayerInfo, LayerTime, LogLine, TensorId

CHECKED_ON_USE = 64 << 20
"""Tensor files up to this size are hashed when first read; larger ones are checked by size, and all by `verify`."""

_UNPACKED_LIMIT = 64 << 30
_CHUNK = 8 << 20


class Record:
    """All that one build and run left. Read lazily: opening it reads `record.json` and looks at the sizes of the rest.

    Attributes:
        path: The folder, or the .zip.
        meta: The content of `record.json`.

    Example:
        >>> record = Record.open("fp16.trtlab")
        >>> record.meta.backend, len(record.layers), record.outputs(0)["y"].shape
    """

    def __init__(
        self, path: Path, folder: Path, meta: RecordMeta, unpacked: tempfile.TemporaryDirectory | None
    ) -> None:
        """Use `Record.open`."""
        self.path = path
        self.meta = meta
        self._folder = folder
        self._unpacked = unpacked
        self._checked: set[str] = set()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Record:
        """Opens a record.

        Raises:
            RecordError: Not a record, another schema version, or a file that is missing or cut short; it names
                the file or the key, and what to do.
        """
        source = Path(path).expanduser()
        try:
            return cls._open(source)
        except OSError as error:
            raise RecordError(f"{source}: cannot be read ({error.strerror or error}); check the permissions") from error

    @classmethod
    def _open(cls, source: Path) -> Record:
        if not source.exists():
            raise RecordError(f"{source}: no such record; check the path")
        unpacked = None
        folder = source
        if source.is_file():
            unpacked = _unpack(source)
            folder = _record_folder(Path(unpacked.name))
        file = folder / RECORD_FILE
        if not file.exists():
            raise RecordError(
                f"{source}: no {RECORD_FILE} in it, so it is no record; give a folder NAME.trtlab or its .zip"
            )
        record = cls(source, folder, parse_meta(source / RECORD_FILE, file.read_bytes()), unpacked)
        record._check_sizes()
        return record

    @property
    def name(self) -> str:
        """Name of the folder without `.trtlab`."""
        return self.path.name.removesuffix(".zip").removesuffix(".trtlab")

    @property
    def ok(self) -> bool:
        """Whether the build and all runs went well."""
        return self.meta.outcome.state == "ok"

    @property
    def samples(self) -> int:
        """Number of samples."""
        return self.meta.samples

    @property
    def layers(self) -> tuple[LayerInfo, ...]:
        """Layers in the engine's order, with their ONNX nodes. Raises RecordError when the file is damaged."""
        return self._layers

    @property
    def times(self) -> tuple[LayerTime, ...]:
        """Times of the layers, with the profiler on. Raises RecordError when the file is damaged."""
        return self._times

    @cached_property
    def _layers(self) -> tuple[LayerInfo, ...]:
        if LAYERS_FILE not in self.meta.files:
            return ()
        return read_layers(self.path / LAYERS_FILE, self._read(LAYERS_FILE))

    @cached_property
    def _times(self) -> tuple[LayerTime, ...]:
        if PROFILE_FILE not in self.meta.files:
            return ()
        return read_profile(self.path / PROFILE_FILE, self._read(PROFILE_FILE))

    @property
    def latency_ms(self) -> tuple[float, ...]:
        """End-to-end latency of each run, in ms, with the profiler off."""
        return self.meta.latency_ms

    @property
    def probes(self) -> dict[TensorId, str]:
        """Tensor → output of the engine that carries it."""
        return {TensorId(tensor): name for tensor, name in self.meta.probes.items()}

    def inputs(self, sample: int) -> dict[str, np.ndarray]:
        """Inputs of one sample, mapped from the file. Raises RecordError when there is none or it is damaged."""
        return self._tensors(sample, "inputs")

    def outputs(self, sample: int) -> dict[str, np.ndarray]:
        """Outputs of one sample by tensor id, mapped from the file; probes stand under the tensor they are on.

        Raises:
            RecordError: There is no such sample, or the file is damaged.
        """
        by_output: dict[str, list[str]] = {}
        for tensor, output in self.meta.probes.items():
            by_output.setdefault(output, []).append(tensor)
        found: dict[str, np.ndarray] = {}
        for name, array in self._tensors(sample, "outputs").items():
            for tensor in by_output.get(name, [name]):
                found[tensor] = array
        return found

    def log(self) -> Iterator[LogLine]:
        """The log, line by line."""
        if LOG_FILE in self.meta.files:
            self._check_hash(LOG_FILE)
            yield from read_log(self._folder / LOG_FILE)

    def model(self) -> Model:
        """The model without probes.

        Raises:
            RecordError: The record only names it and it is not there any more, or it is another one now (the
                differing key is named).
            ModelError: It cannot be read.
        """
        meta = self.meta.model
        if meta.file is not None:
            self._check_hash(meta.file)
            file = self._folder / meta.file
        else:
            file = Path(meta.origin or "")
            if not meta.origin:
                raise RecordError(
                    f"{self.path}: it holds no model '{meta.name}' and does not say where it was; give it yourself"
                )
            if not file.exists():
                raise RecordError(
                    f"{self.path}: the model was too big to copy and is not at {file} any more; put it back"
                )
        model = Model.load(file, name=meta.name)
        for key, found in (("model.weights_hash", model.weights_hash), ("model.hash", model.hash)):
            if found != (wanted := getattr(meta, key.removeprefix("model."))):
                raise RecordError(
                    f"{self.path}: {key} differs: {file} has {found[:12]}, the record {wanted[:12]}; put the old model back"
                )
        return model

    def verify(self) -> None:
        """Checks the hash of every file. Raises RecordError naming the first that differs."""
        for name in self.meta.files:
            self._check_hash(name)

    def copy_to(self, path: str | os.PathLike[str]) -> Record:
        """Copies the record to a new folder, or zips it when `path` ends in `.zip`. Returns the copy.

        Raises:
            RecordError: There is something at `path` already, or it cannot be written.
        """
        target = Path(path).expanduser()
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise RecordError(f"{target}: exists already and is not overwritten; choose another name or remove it")
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.suffix == ".zip":
                self._zip(temporary)
            else:
                shutil.copytree(self._folder, temporary)
            os.replace(temporary, target)
            fsync_folder(target.parent)
        except OSError as error:
            raise RecordError(f"{target}: cannot be written ({error.strerror or error}); check the folder") from error
        finally:
            if temporary.is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            temporary.unlink(missing_ok=True)
        return Record.open(target)

    def __repr__(self) -> str:
        facts = dict(facts_of(self))
        shown = ", ".join(
            f"{key} {facts[key]}" for key in ("outcome", "backend", "precision", "layers") if key in facts
        )
        return f"<Record {self.name} ({self.meta.role}): {shown}>"

    def _repr_html_(self) -> str:
        return record_html(self)

    # --- inside --------------------------------------------------------------------------

    def _zip(self, target: Path) -> None:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name in (RECORD_FILE, *self.meta.files):
                archive.write(self._folder / name, name)

    def _tensors(self, sample: int, kind: str) -> dict[str, np.ndarray]:
        name = f"{SAMPLES_FOLDER}/{sample:03d}/{kind}.safetensors"
        if name not in self.meta.files:
            why = "the build failed" if not self.ok else f"it has {self.samples} samples, 0 to {self.samples - 1}"
            raise RecordError(f"{self.path}: no {kind} of sample {sample}: {why}")
        if self.meta.files[name].bytes <= CHECKED_ON_USE:
            self._check_hash(name)
        return read_safetensors(self._folder / name)

    def _read(self, name: str) -> bytes:
        data = (self._folder / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != self.meta.files[name].sha256:
            raise self._changed(name)
        return data

    def _check_hash(self, name: str) -> None:
        if name in self._checked:
            return
        digest = hashlib.sha256()
        try:
            with open(self._folder / name, "rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except OSError as error:
            raise RecordError(
                f"{self.path / name}: cannot be read ({error.strerror}); copy the record again"
            ) from error
        if digest.hexdigest() != self.meta.files[name].sha256:
            raise self._changed(name)
        self._checked.add(name)

    def _changed(self, name: str) -> RecordError:
        return RecordError(
            f"{self.path / name}: its hash is not files.{name}.sha256 of {RECORD_FILE}: the file was changed; "
            "copy the record again or build it again"
        )

    def _check_sizes(self) -> None:
        for name, known in self.meta.files.items():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise RecordError(f"{self.path / RECORD_FILE}: key 'files': '{name}' points outside the record")
            try:
                size = (self._folder / name).stat().st_size
            except OSError as error:
                raise RecordError(f"{self.path / name}: is missing; copy the record again or build it again") from error
            if size != known.bytes:
                what = "cut short" if size < known.bytes else "longer than it was written"
                raise RecordError(
                    f"{self.path / name}: {what}, {known.bytes} bytes needed, {size} there; copy the record again"
                )


def is_record(path: str | os.PathLike[str]) -> bool:
    """Whether `path` looks like a record: a folder with `record.json`, or a .zip of one. Never raises."""
    source = Path(path).expanduser()
    try:
        if source.is_dir():
            return (source / RECORD_FILE).is_file()
        with zipfile.ZipFile(source) as archive:
            return any(PurePosixPath(name).name == RECORD_FILE for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _unpack(path: Path) -> tempfile.TemporaryDirectory:
    """Unpacks a zipped record into a folder that lives as long as the record. Names that lead outside are refused."""
    folder = tempfile.TemporaryDirectory(prefix="trt-lab-record-")
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            for info in infos:
                parts = PurePosixPath(info.filename.replace("\\", "/"))
                if parts.is_absolute() or ".." in parts.parts:
                    raise RecordError(f"{path}: '{info.filename}' leads outside the record; it is not unpacked")
            if sum(info.file_size for info in infos) > _UNPACKED_LIMIT:
                raise RecordError(
                    f"{path}: unpacks to more than {_UNPACKED_LIMIT >> 30} GiB; unpack it yourself and open the folder"
                )
            archive.extractall(folder.name)
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise RecordError(
            f"{path}: neither a record folder nor a sound .zip of one ({error}); copy it again"
        ) from error
    return folder


def _record_folder(folder: Path) -> Path:
    """The folder itself, or the only one in it: people zip a folder from outside."""
    inner = [item for item in folder.iterdir() if item.is_dir()]
    if not (folder / RECORD_FILE).exists() and len(inner) == 1:
        return inner[0]
    return folder
