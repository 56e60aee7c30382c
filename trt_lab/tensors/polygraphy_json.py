"""Polygraphy's JSON files: inputs (a list of feeds) and RunResults (outputs by runner).

The arrays are base64 text inside the JSON. Parsing such a file as JSON holds it several times in memory, so
the payloads are cut out first and decoded one by one when they are asked for; what is left is small.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import mmap
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trt_lab.errors import RecordError
from trt_lab.tensors.atomic import replacing
from trt_lab.tensors.dtypes import widened

Loader = Callable[[], np.ndarray]
_PAYLOAD = re.compile(rb'"array"\s*:\s*"')
_MARKER = "polygraphy_class"


def read_runs(path: str | os.PathLike[str]) -> dict[str, list[dict[str, Loader]]]:
    """Runner name → samples → tensor name → function that decodes the array.

    A file of inputs has one runner with an empty name.

    Raises:
        RecordError: No such file, no JSON, NaN in it, or JSON of another kind.
    """
    source = Path(path)
    data = _skeleton(source)
    if isinstance(data, dict) and data.get(_MARKER) == "RunResults":
        data = data.get("lst")
        if isinstance(data, list) and all(isinstance(item, list) and len(item) == 2 for item in data):
            return {str(runner): [_sample(source, item) for item in samples] for runner, samples in data}
    elif isinstance(data, list) and data:
        return {"": [_sample(source, item) for item in data]}
    raise RecordError(
        f"{source}: neither inputs nor RunResults of Polygraphy; save it with --save-inputs or --save-outputs"
    )


def write_polygraphy(path: str | os.PathLike[str], runs: Mapping[str, Iterable[Mapping[str, np.ndarray]]]) -> Path:
    """Writes RunResults that `polygraphy run --load-outputs` and `polygraphy inspect data` read.

    Types that numpy lacks are widened (bfloat16 to float32, int4 to int8): Polygraphy has no name for them.

    Args:
        path: The file to make.
        runs: Runner name → its outputs, one mapping a sample.

    Raises:
        RecordError: It cannot be written.
    """
    with replacing(Path(path)) as file:
        file.write(b'{"lst": [')
        for index, (runner, samples) in enumerate(runs.items()):
            file.write(b", " if index else b"")
            file.write(f"[{json.dumps(runner)}, [".encode())
            for number, sample in enumerate(samples):
                file.write(b', {"outputs": ' if number else b'{"outputs": ')
                _write_arrays(file, sample, lazy=True)
                tail = {"runtime": None, "runner_name": runner, _MARKER: "IterationResult"}
                file.write((", " + json.dumps(tail)[1:]).encode())
            file.write(b"]]")
        file.write(b'], "polygraphy_class": "RunResults"}')
    return Path(path)


def write_polygraphy_inputs(path: str | os.PathLike[str], samples: Sequence[Mapping[str, np.ndarray]]) -> Path:
    """Writes feeds that `polygraphy run --load-inputs` reads.

    Raises:
        RecordError: It cannot be written.
    """
    with replacing(Path(path)) as file:
        file.write(b"[")
        for index, sample in enumerate(samples):
            file.write(b", " if index else b"")
            _write_arrays(file, sample, lazy=False)
        file.write(b"]")
    return Path(path)


def _write_arrays(file: Any, sample: Mapping[str, np.ndarray], *, lazy: bool) -> None:
    file.write(b"{")
    for index, (name, array) in enumerate(sample.items()):
        plain = widened(np.asarray(array))
        if plain.dtype == object:
            plain = plain.astype(np.str_)
        buffer = io.BytesIO()
        np.save(buffer, plain, allow_pickle=False)
        file.write(f"{', ' if index else ''}{json.dumps(name)}: ".encode())
        file.write(b'{"values": {"array": "' if lazy else b'{"array": "')
        file.write(base64.b64encode(buffer.getbuffer()))
        file.write(b'", "polygraphy_class": "ndarray"}')
        file.write(b', "polygraphy_class": "LazyArray"}' if lazy else b"")
    file.write(b"}")


def _skeleton(path: Path) -> Any:
    """The JSON of the file, each payload replaced by its place: {"array": [first byte, last byte]}."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise RecordError(f"{path}: is empty; save it again")
            text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    parts: list[bytes] = []
    place = 0
    while (match := _PAYLOAD.search(text, place)) is not None:
        end = text.find(b'"', match.end())
        if end < 0:
            raise RecordError(f"{path}: cut short at byte {len(text)}, inside an array; save it again")
        parts.append(text[place : match.end() - 1])
        parts.append(b"[%d, %d]" % (match.end(), end))
        place = end + 1
    parts.append(text[place:])
    try:
        return json.loads(b"".join(parts), parse_constant=_refuse)
    except _NotStrictError as error:
        raise RecordError(f"{path}: holds {error}, which is no JSON; save the arrays as base64") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not JSON ({error}); give inputs or RunResults of Polygraphy") from error


class _NotStrictError(ValueError):
    """NaN or Infinity written as a bare word."""


def _refuse(word: str) -> None:
    raise _NotStrictError(word)


def _sample(path: Path, item: Any) -> dict[str, Loader]:
    if isinstance(item, dict) and item.get(_MARKER) == "IterationResult":
        item = item.get("outputs")
    if not isinstance(item, dict):
        raise RecordError(f"{path}: a sample is not a mapping of names to arrays; save it with Polygraphy")
    return {str(name): _loader(path, str(name), value) for name, value in item.items()}


def _loader(path: Path, name: str, value: Any) -> Loader:
    if isinstance(value, dict) and value.get(_MARKER) in ("LazyArray", "LazyNumpyArray"):
        value = value.get("values")
    match value:
        case {"array": [int(begin), int(end)]}:
            return lambda: _decode(path, name, begin, end)
        case {"tensor": _}:
            raise RecordError(f"{path}: '{name}' is a pickled torch tensor, which is not loaded; save numpy arrays")
    raise RecordError(f"{path}: '{name}' is no array; save it with Polygraphy")


def _decode(path: Path, name: str, begin: int, end: int) -> np.ndarray:
    with open(path, "rb") as file:
        file.seek(begin)
        text = file.read(end - begin)
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
        return _parse_npy(raw)
    except (binascii.Error, ValueError, EOFError) as error:
        raise RecordError(f"{path}: array '{name}' is damaged ({error}); save it again") from error


def _parse_npy(raw: bytes) -> np.ndarray:
    """A view of the bytes of one .npy."""
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("pickled objects are not loaded")
    count = int(np.prod(shape, dtype=np.int64))
    flat = np.frombuffer(raw, dtype, count, stream.tell()) if count else np.empty(0, dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
