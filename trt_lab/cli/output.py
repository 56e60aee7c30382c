"""How a command speaks: results on stdout, progress and errors on stderr, exit codes."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from trt_lab.profiling.text import whole_text
from trt_lab.types import JsonValue, OnProgress
from trt_lab.types import Progress as Step

FINE, FINDING, ERROR = 0, 1, 2
"""Exit codes: fine or same; a finding (differs, regression); wrong use or an error."""

Cell = str | int | float | None


_LONGEST_ERROR = 2000
"""Characters of an error: a name of any length must not fill the screen."""


def print_json(data: Mapping[str, JsonValue]) -> None:
    """One strict JSON object on stdout; NaN and infinity are refused, not written."""
    text = whole_text(json.dumps(data, allow_nan=False, ensure_ascii=False, indent=2))
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:  # a terminal of another encoding: the same JSON, escaped
        text = json.dumps(json.loads(text), indent=2)
    sys.stdout.write(text + "\n")


def print_line(text: str = "") -> None:
    """One plain line on stdout; names in it are untrusted: no markup is read, no line end or terminal code passes."""
    Console(highlight=False, soft_wrap=True).print(Text(plain(text)))


def print_wrapped(text: str, width: int, *, first: str = "", indent: str = "") -> None:
    """One plain line, broken at words into several of at most `width` characters.

    Args:
        first, indent: Stand before the first line, and before the others.
    """
    for line in textwrap.wrap(plain(text), width, initial_indent=first, subsequent_indent=indent):
        print_line(line)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, numbers: Sequence[str] = ()) -> None:
    """A table on stdout; columns named in `numbers` are right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(
            *(
                Text("–" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else plain(str(cell)))
                for cell in row
            )
        )
    Console(highlight=False).print(table)


def plain(text: str) -> str:
    """Text without what moves or colours a terminal: control characters, line ends, changes of direction."""
    return "".join(char if char.isprintable() else "·" for char in text)


def shorten(text: str, width: int) -> str:
    """A name on one line of at most `width` characters; what is left out stands in the middle, as the end tells most."""
    line = plain(text)
    if len(line) <= width:
        return line
    tail = (width - 1) * 2 // 3
    return f"{line[: width - 1 - tail]}…{line[-tail:]}"


def print_error(message: str) -> None:
    """One readable line on stderr."""
    sys.stderr.write(f"trt-lab: {shorten(' '.join(message.split()), _LONGEST_ERROR)}\n")


def print_note(message: str) -> None:
    """One line on stderr beside the results."""
    sys.stderr.write(f"{shorten(' '.join(message.split()), _LONGEST_ERROR)}\n")


@contextmanager
def show_progress(*, quiet: bool = False) -> Iterator[OnProgress]:
    """A progress bar on stderr where that is a terminal; else nothing."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield _nothing
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def tell(step: Step) -> None:
            text = f"{step.phase}: {step.message}" if step.message else step.phase
            bar.update(task, description=text.replace("[", r"\["), completed=step.fraction or 0.0)

        yield tell


def _nothing(step: Step) -> None:
    """Progress that no one sees."""
