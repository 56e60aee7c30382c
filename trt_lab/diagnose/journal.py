"""The steps of a search on disk, so that a search that was killed goes on where it was.

A file of JSON lines. The first is the key: what the search is about. A step is written before it is begun and
after it ended; a last line that was cut off counts as not written.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from trt_lab.errors import UsageError
from trt_lab.types import JsonValue

STEPS_FILE = "steps.jsonl"

Result = TypeVar("Result")


class Journal:
    """Steps of one search.

    Args:
        folder: Where `steps.jsonl` lies; None keeps the steps in memory only.
        key: What the search is about, by name.
        resume: Goes on with the steps that are there; else they are dropped.

    Raises:
        UsageError: The steps there belong to another search; the message names the first key that differs.
    """

    def __init__(self, folder: Path | None, key: Mapping[str, JsonValue], *, resume: bool = False) -> None:
        self._file = folder / STEPS_FILE if folder is not None else None
        self._ended: dict[str, JsonValue] = {}
        self._lock = threading.Lock()
        self.reused = 0
        """Steps that were not done again."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        lines = self._read() if resume else []
        if lines:
            _check_key(self._file, lines[0], key)
            self._ended = {line["step"]: line["result"] for line in lines[1:] if line.get("state") == "ended"}
            self._drop_half_line()
        else:
            self._file.write_text(json.dumps({"key": dict(key)}) + "\n", encoding="utf-8")

    def step(self, name: str, do: Callable[[], JsonValue]) -> JsonValue:
        """The result of a step: that of the last time when it ended then, else what `do` gives."""
        if name in self._ended:
            self.reused += 1
            return self._ended[name]
        self._write({"step": name, "state": "begun"})
        result = do()
        self._write({"step": name, "state": "ended", "result": result})
        self._ended[name] = result
        return result

    # --- inside ----------------------------------------------------------------------------

    def _write(self, line: dict[str, JsonValue]) -> None:
        if self._file is None:
            return
        with self._lock, self._file.open("a", encoding="utf-8") as file:  # steps side by side are threads
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> list[dict]:
        assert self._file is not None
        try:
            text = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        lines = []
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            if not line.endswith("\n"):
                break
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                raise UsageError(f"{self._file}: line {number} is no JSON; start the search anew") from error
        return lines

    def _drop_half_line(self) -> None:
        assert self._file is not None
        raw = self._file.read_bytes()
        whole = raw.rfind(b"\n") + 1
        if whole != len(raw):
            os.truncate(self._file, whole)


def _check_key(file: Path, line: Mapping[str, JsonValue], key: Mapping[str, JsonValue]) -> None:
    found = line.get("key")
    if not isinstance(found, dict):
        raise UsageError(f"{file}: holds no steps of a search; choose another folder")
    for name, value in key.items():
        if found.get(name) != json.loads(json.dumps(value)):
            raise UsageError(
                f"{file}: these steps belong to another search: '{name}' was {_short(found.get(name))} and is now "
                f"{_short(value)}; start anew, or choose another folder"
            )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
