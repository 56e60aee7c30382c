"""`record.json`: what it holds, and how it is read back."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from trt_lab.errors import RecordError
from trt_lab.types import BuildOptions, JsonValue, PrecisionPlan

SCHEMA_VERSION = 1
RECORD_FILE = "record.json"
MODEL_FILE = "model.onnx"
LAYERS_FILE = "layers.json"
PROFILE_FILE = "profile.json"
LOG_FILE = "build.log.jsonl"
ENGINE_FILE = "engine.plan"
SAMPLES_FOLDER = "samples"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class OutcomeMeta(_Part):
    """How it ended; `message` says why it failed."""

    state: Literal["ok", "failed"] = "ok"
    message: str = ""


class ModelMeta(_Part):
    """The model without probes.

    Attributes:
        hash, weights_hash: See `Model.hash`.
        file: Its file in the record; None when it was too big to be copied.
        origin: Where it was read from, None for a model made in memory.
    """

    name: str
    hash: str
    weights_hash: str
    file: str | None = MODEL_FILE
    origin: str | None = None


class FileMeta(_Part):
    """Size and SHA-256 (hex) of one file of the record."""

    bytes: int
    sha256: str


class RecordMeta(_Part):
    """The content of `record.json`. Times are in seconds or ms as their names say; undefined is null.

    Attributes:
        probes: Tensor → output of the engine that carries it.
        device: Name of the GPU, or `cpu`.
        timing_cache: Whether a timing cache was used; None where the backend has none.
        facts: All else that the backend told.
        files: Every file of the record but `record.json`, by its path with `/`.
    """

    schema_version: int = SCHEMA_VERSION
    created: str
    trt_lab: str
    role: Literal["engine", "reference"]
    outcome: OutcomeMeta = OutcomeMeta()
    model: ModelMeta
    backend: str
    backend_version: str | None = None
    device: str | None = None
    driver: str | None = None
    tf32: bool = False
    timing_cache: bool | None = None
    seed: int | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    probes: dict[str, str] = Field(default_factory=dict)
    output_names: tuple[str, ...] = ()
    samples: int = 0
    build_s: float | None = None
    run_s: float | None = None
    latency_ms: tuple[float, ...] = ()
    facts: dict[str, Any] = Field(default_factory=dict)
    files: dict[str, FileMeta] = Field(default_factory=dict)

    @property
    def plan(self) -> PrecisionPlan:
        """The precision plan of the build."""
        return self.build_options.plan

    @property
    def build_options(self) -> BuildOptions:
        """The options of the build; those that this version does not know are left out.

        Raises:
            RecordError: An option has a value that this version does not know.
        """
        known = {field.name for field in dataclasses.fields(BuildOptions)}
        try:
            return _OPTIONS.validate_python({key: value for key, value in self.options.items() if key in known})
        except ValidationError as error:
            raise RecordError(f"{RECORD_FILE}: key 'options': {_first(error)}; update trt-lab") from error


_OPTIONS: TypeAdapter[BuildOptions] = TypeAdapter(BuildOptions)


def parse_meta(path: Path, text: bytes) -> RecordMeta:
    """Checks and reads `record.json`.

    Raises:
        RecordError: Broken JSON (with the byte place), another schema, or a key that is missing or wrong (named).
    """
    try:
        data = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        place = getattr(error, "pos", getattr(error, "start", None))
        where = f" at byte {place}" if place is not None else ""
        raise RecordError(f"{path}: broken JSON{where} ({error}); copy the record again or build it again") from error
    if not isinstance(data, dict) or not isinstance(data.get("schema_version"), int):
        raise RecordError(f"{path}: the key 'schema_version' is missing; this is no record of trt-lab")
    if data["schema_version"] > SCHEMA_VERSION:
        raise RecordError(
            f"{path}: schema_version is {data['schema_version']}, this trt-lab reads up to {SCHEMA_VERSION}; "
            f"it was written by trt-lab {data.get('trt_lab', '?')}, update to that version"
        )
    try:
        return RecordMeta.model_validate(data)
    except ValidationError as error:
        raise RecordError(f"{path}: {_first(error)}; copy the record again or build it again") from error


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"key '{'.'.join(str(part) for part in first['loc'])}': {first['msg']}"


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def to_json(value: Any) -> JsonValue:
    """Any value as strict JSON: dataclasses as objects, tuples as lists, NaN and infinities as null."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def dump_json(value: Any, *, indent: int | None = None) -> bytes:
    """Strict JSON in UTF-8."""
    return json.dumps(to_json(value), ensure_ascii=False, allow_nan=False, indent=indent).encode()
