"""Where a command writes: refused before any work is done when a user would lose a file by it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trt_lab.errors import UsageError


def check_targets(targets: Iterable[tuple[str, Path | None, bytes]], inputs: Iterable[str | Path | None]) -> None:
    """Checks the files that a command is told to write.

    Args:
        targets: Option, its file (None: not given), and how a file of that kind begins; b"" for any.
        inputs: Files and folders that the command reads.

    Raises:
        UsageError: A target is an input or a file in one, two are one file, one is a folder, or one holds something
            else than an earlier output of its kind.
    """
    read = {_real(Path(source)) for source in inputs if source}
    taken: dict[Path, str] = {}
    for option, path, start in targets:
        if path is None:
            continue
        target = _real(path)
        if target in read or (target.is_file() and any(place in read for place in target.parents)):
            raise UsageError(f"{option} {path}: would overwrite what the command reads; choose another name")
        if target in taken:
            raise UsageError(f"{option} {path}: {taken[target]} is written there too; choose another name")
        if target.is_dir():
            raise UsageError(f"{option} {path}: is a folder; give the name of a file")
        if not _begins(target, start):
            raise UsageError(
                f"{option} {path}: holds something else than {option} writes and is not overwritten; choose another name "
                "or remove it"
            )
        taken[target] = option


def _real(path: Path) -> Path:
    """The path without links; as it is where the system cannot tell (a loop, a name too long)."""
    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def _begins(path: Path, start: bytes) -> bool:
    """Whether it is missing, empty, or begins so. What cannot be read is left to the writing, which tells why."""
    try:
        if not path.is_file():
            return True
        with path.open("rb") as file:
            head = file.read(len(start))
    except OSError:
        return True
    return head == start[: len(head)]
