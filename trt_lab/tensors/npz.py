""".npz files. What is stored without compression is memory-mapped."""

from __future__ import annotations

import mmap
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from trt_lab.errors import RecordError
from trt_lab.tensors.atomic import replacing
from trt_lab.tensors.dtypes import ML_DTYPES, widened


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of a file, by name, in the order of the file.

    Raises:
        RecordError: No such file, no .npz, damaged, or pickled objects inside (never loaded).
    """
    return {name: load() for name, load in npz_loaders(path).items()}


def npz_loaders(path: str | os.PathLike[str]) -> dict[str, Callable[[], np.ndarray]]:
    """One function an array, which reads it when called; the file itself is read only as far as its index."""
    source = Path(path)
    try:
        with zipfile.ZipFile(source) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    except OSError as error:
        raise RecordError(f"{source}: cannot be read ({error.strerror or error}); check the path") from error
    except zipfile.BadZipFile as error:
        raise RecordError(f"{source}: not an .npz file ({error}); save it again") from error
    if not members:
        raise RecordError(f"{source}: holds no arrays; save it again with numpy.savez(path, name=array)")
    return {info.filename[:-4]: _loader(source, info) for info in members}


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> Path:
    """Writes one sample for other tools; types that numpy lacks are widened (bfloat16 to float32, int4 to int8).

    Raises:
        RecordError: It cannot be written.
    """
    target = Path(path)
    plain = {name: _plain(np.asarray(array)) for name, array in arrays.items()}
    with replacing(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in plain.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return target


def _plain(array: np.ndarray) -> np.ndarray:
    return array.astype(np.str_) if array.dtype == object else widened(array)


def _loader(path: Path, info: zipfile.ZipInfo) -> Callable[[], np.ndarray]:
    def load() -> np.ndarray:
        try:
            if info.compress_type == zipfile.ZIP_STORED:
                array = _map_member(path, info)
            else:
                with zipfile.ZipFile(path) as archive, archive.open(info) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise RecordError(
                f"{path}: array '{info.filename[:-4]}' cannot be read ({error}); save it again"
            ) from error
        return _typed(path, info.filename[:-4], array)

    return load


def _map_member(path: Path, info: zipfile.ZipInfo) -> np.ndarray:
    """A view of an uncompressed member; its place is behind the local header, whose size only that header tells."""
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
        if local[:4] != b"PK\x03\x04":
            raise ValueError("damaged archive")
        start = (
            info.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        )
        file.seek(start)
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
        if dtype.hasobject:
            raise ValueError("pickled objects are not loaded; save numbers or text")
        offset = file.tell()
        count = int(np.prod(shape, dtype=np.int64))
        if offset + count * dtype.itemsize > start + info.file_size:
            raise ValueError("cut short")
        if count == 0:
            return np.empty(shape, dtype)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    flat = np.frombuffer(mapped, dtype, count, offset)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _typed(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    """numpy saves ml_dtypes arrays as bare bytes; of the two-byte ones only bfloat16 can be meant."""
    if array.dtype.kind != "V":
        return array
    if array.dtype.itemsize == 2 and array.dtype.names is None:
        return array.view(ML_DTYPES["bfloat16"])
    raise RecordError(f"{path}: array '{name}' has lost its element type ({array.dtype}); save it as .safetensors")
