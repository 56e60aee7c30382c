"""The Python that repeats what was done, line by line, and the notebook made of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock, get_ident

_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


class History:
    """Lines of code, one for each action, in order.

    An action that calls others is one line: inner calls of the same thread add none. An action
    that fails adds none.

    Args:
        first: Lines that stand there from the start.
        on_line: Called after each line that is added.
    """

    def __init__(self, *first: str, on_line: Callable[[], None] | None = None) -> None:
        self._lines = list(first)
        self._on_line = on_line
        self._lock = RLock()
        self._acting: set[int] = set()

    @contextmanager
    def action(self, line: str) -> Iterator[None]:
        """Adds `line` when the block ends well and is the outermost one of this thread."""
        thread = get_ident()
        if thread in self._acting:
            yield
            return
        self._acting.add(thread)
        try:
            yield
        finally:
            self._acting.discard(thread)
        with self._lock:
            self._lines.append(line)
        if self._on_line is not None:
            self._on_line()

    @property
    def lines(self) -> tuple[str, ...]:
        """A copy of the lines."""
        with self._lock:
            return tuple(self._lines)

    @property
    def code(self) -> str:
        """All lines as one program, ending in a newline."""
        return "\n".join(self.lines) + "\n"

    def write_notebook(self, path: str | os.PathLike[str], title: str) -> Path:
        """Writes a notebook that repeats the lines: imports and model, then a cell an action, then the workbench.

        Args:
            path: Where to; `.ipynb` is added when missing. Replaced whole, never half.
            title: Heading of the first cell; markdown in it is escaped.
        """
        target = Path(path)
        if target.suffix != ".ipynb":
            target = target.with_name(target.name + ".ipynb")
        lines = self.lines
        safe_title = "".join(f"\\{c}" if c in "\\`*_{}[]<>()#+!|" else c for c in title.replace("\n", " "))
        head = [line for line in lines if line.startswith(("import ", "lab = "))]
        steps = [line for line in lines if line not in head]
        heading = f"# {safe_title}\n\nRepeats what was done in the trt-lab workbench."
        cells = [_cell(0, "markdown", heading)]
        for number, source in enumerate(["\n".join(head), *steps, "lab"], start=1):
            cells.append(_cell(number, "code", source) | {"execution_count": None, "outputs": []})
        # Written as the format says and not through nbformat, whose import takes longer than all else here.
        notebook = {"cells": cells, "metadata": {"kernelspec": _KERNEL}, "nbformat": 4, "nbformat_minor": 5}
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        temporary.replace(target)
        return target


def _cell(number: int, kind: str, source: str) -> dict[str, object]:
    return {"cell_type": kind, "id": f"trt-lab-{number}", "metadata": {}, "source": source}


def opening_line(source: object, path: Path | None) -> str:
    """The line that opens a session on `source`, a model that lies at `path`."""
    if isinstance(source, str) and source.startswith("zoo:"):
        return f"lab = trt_lab.Session({source!r})"
    if path is not None:
        return f"lab = trt_lab.Session({str(path)!r})"
    return "lab = trt_lab.Session(my_model)  # the model was given as an object"


def shown_samples(samples: object, seed: int = 0, *, edges: bool = False) -> str:
    """Samples as the arguments of `feed`: arrays are called `my_samples`."""
    shown = repr(samples) if isinstance(samples, int) else "my_samples"
    if isinstance(samples, str | os.PathLike):
        shown = repr(str(samples))
    return shown + (f", seed={seed}" if seed else "") + (", edges=True" if edges else "")
