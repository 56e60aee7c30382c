"""Where trt-lab keeps what it makes when nobody names a place."""

from __future__ import annotations

import itertools
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from trt_lab.model import Model

_lock = threading.Lock()
_given: set[Path] = set()
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def data_folder() -> Path:
    """The user's data folder of trt-lab."""
    return platformdirs.user_data_path("trt-lab")


def cache_folder() -> Path:
    """The user's cache folder of trt-lab: what lies there can be made again."""
    return platformdirs.user_cache_path("trt-lab")


def measure_folder(folder: Path, *patterns: str) -> tuple[int, int]:
    """How many files of a folder fit one of the patterns, and their bytes; 0 and 0 where there is no such folder."""
    count = size = 0
    for pattern in patterns:
        for file in folder.glob(pattern):
            try:
                size += file.stat().st_size
            except OSError:  # gone meanwhile
                continue
            count += 1
    return count, size


def records_folder(root: Path | None, model: Model) -> Path:
    """Folder for the records of `model`: below `root`, else below the user's data folder."""
    base = root if root is not None else data_folder() / "records"
    return base / f"{safe_name(model.name)}-{model.hash[:8]}"


def safe_name(text: str) -> str:
    """A file name made of `text`: letters, digits, `.`, `_` and `-`, at most 60 characters, never empty."""
    return _NAME.sub("_", text).strip("._")[:60] or "model"


def next_path(folder: Path, stem: str, suffix: str) -> Path:
    """The first `stem-NNN.suffix` that is not there yet, and that was not given to anyone else in this process.

    Two processes may be given the same one; `record.write_record` then fails for the second and
    overwrites nothing.
    """
    for number in itertools.count(1):
        path = folder / f"{stem}-{number:03d}{suffix}"
        with _lock:
            if path not in _given and not path.exists():
                _given.add(path)
                return path
    raise AssertionError("unreachable: the count has no end")
