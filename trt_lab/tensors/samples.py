"""Samples from whatever a user has: files of every kind, folders of them, records and goldens."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from trt_lab.errors import RecordError
from trt_lab.tensors.npz import npz_loaders
from trt_lab.tensors.polygraphy_json import read_runs
from trt_lab.tensors.safe import safetensors_loaders, write_safetensors

Which = Literal["inputs", "outputs"]
_KINDS = ".npz, .npy, .safetensors, Polygraphy .json, a record, or a folder of these"
_IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")


class Sample(Mapping[str, np.ndarray]):
    """Arrays by name, each read when it is asked for and not kept."""

    def __init__(self, loaders: Mapping[str, Callable[[], np.ndarray]]) -> None:
        self._loaders = dict(loaders)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._loaders[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    def __repr__(self) -> str:
        return f"Sample({', '.join(self._loaders)})"


def read_samples(
    path: str | os.PathLike[str], *, which: Which = "inputs", runner: str | None = None
) -> list[dict[str, np.ndarray]]:
    """All samples of a file or folder, in memory (safetensors and plain .npz stay mapped).

    Args:
        path: A file or folder; see `open_samples`.
        which: Side of a record or golden to read.
        runner: Runner of a RunResults file with several.

    Raises:
        RecordError: It cannot be read, or holds no samples.
    """
    return [dict(sample) for sample in open_samples(path, which=which, runner=runner)]


def open_samples(
    path: str | os.PathLike[str], *, which: Which = "inputs", runner: str | None = None
) -> list[Mapping[str, np.ndarray]]:
    """The samples of a file or folder; arrays are read when they are asked for.

    A .npz or .safetensors file is one sample; a Polygraphy JSON holds any number. A folder is a record or
    golden (`samples/000/inputs.safetensors`), a folder of such numbered folders, or one of files, which are taken
    in the order of their names, numbers by value.

    Raises:
        RecordError: It cannot be read, or holds no samples.
    """
    source = Path(path)
    if source.is_dir():
        return _folder(source, which, runner)
    if not source.exists():
        raise RecordError(f"{source}: no such file or folder; give {_KINDS}")
    match source.suffix.lower():
        case ".safetensors":
            return [Sample(safetensors_loaders(source))]
        case ".npz":
            return [Sample(npz_loaders(source))]
        case ".npy":
            return [{source.stem: _npy(source)}]
        case ".json":
            return _runs(source, runner)
        case ".zip" | ".trtlab" if zipfile.is_zipfile(source):
            raise RecordError(f"{source}: a zipped record; open it with trt_lab.Record.open, or unpack it first")
    raise RecordError(f"{source}: unknown kind of file; give {_KINDS}")


def write_samples(
    folder: str | os.PathLike[str], samples: Sequence[Mapping[str, np.ndarray]], *, which: Which, sync: bool = False
) -> list[Path]:
    """Writes `folder/000/WHICH.safetensors`, `folder/001/…` and returns the files.

    Raises:
        RecordError: It cannot be written.
    """
    files = []
    for index, sample in enumerate(samples):
        target = Path(folder) / f"{index:03d}"
        target.mkdir(parents=True, exist_ok=True)
        files.append(write_safetensors(target / f"{which}.safetensors", sample, sync=sync))
    return files


def natural_key(path: Path) -> list[tuple[int, int, str]]:
    """Sorts `s2` before `s10`."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", path.name) if part]


def _folder(folder: Path, which: Which, runner: str | None) -> list[Mapping[str, np.ndarray]]:
    if (folder / "samples").is_dir():
        folder = folder / "samples"
    numbered = sorted((item for item in folder.iterdir() if item.is_dir()), key=natural_key)
    files = [item / f"{which}.safetensors" for item in numbered]
    found = [file for file in files if file.exists()]
    if found:
        if missing := [file for file in files if not file.exists()]:
            raise RecordError(f"{missing[0]}: is missing, other samples have it; remove that sample or write it again")
        return [Sample(safetensors_loaders(file)) for file in found]
    samples: list[Mapping[str, np.ndarray]] = []
    for item in sorted(folder.iterdir(), key=natural_key):
        if item.suffix.lower() in (".npz", ".safetensors", ".json", ".npy"):
            samples.extend(open_samples(item, which=which, runner=runner))
    if not samples:
        images = any(item.suffix.lower() in _IMAGES for item in folder.iterdir())
        hint = (
            "read the images with trt_lab.read_images, which asks how to prepare them" if images else f"give {_KINDS}"
        )
        raise RecordError(f"{folder}: holds no samples; {hint}")
    return samples


def _runs(path: Path, runner: str | None) -> list[Mapping[str, np.ndarray]]:
    runs = read_runs(path)
    if runner is None and len(runs) > 1:
        raise RecordError(f"{path}: holds the runners {', '.join(runs)}; say which, as {path.name}#{next(iter(runs))}")
    chosen = next(iter(runs), "") if runner is None else runner
    if chosen not in runs:
        raise RecordError(f"{path}: no runner '{chosen}'; there are: {', '.join(runs) or 'none'}")
    if not runs[chosen]:
        raise RecordError(f"{path}: runner '{chosen}' has no samples; run it again with outputs saved")
    return [Sample(loaders) for loaders in runs[chosen]]


def _npy(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise RecordError(f"{path}: not an .npy file ({error}); save it again") from error
