"""What to tell when a worker process died: one line that names the signal and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from trt_lab.backends.jobs import Request, Task
from trt_lab.backends.output import OUTPUT_FILE, without_colour
from trt_lab.types import Progress

_EXIT = re.compile(r"\b([A-Z_0-9]+)\((-?\d+)\)")
_LAST_WORDS = 200

_MEANING = {
    "SIGSEGV": "invalid memory access",
    "SIGABRT": "the library gave up",
    "SIGBUS": "bad memory access, or a file that shrank while it was mapped",
    "SIGILL": "an instruction that this processor does not have",
    "SIGFPE": "a division by zero",
    "SIGKILL": "killed from outside, most often because the machine ran out of memory",
    "SIGTERM": "ended from outside",
}


def describe_crash(report: str, request: Request | Task[Any], progress: Progress) -> str:
    """One line about a process that died.

    Args:
        report: Text of loky's error; it holds the exit code, as in `{SIGSEGV(-11)}`.
        progress: The newest step that was told.
    """
    name, code = _exit_of(report)
    if name is None:
        how = "died without saying why"
    elif name.startswith("SIG"):
        meaning = _MEANING.get(name)
        how = f"died by {name}" + (f" ({meaning})" if meaning else "")
    else:
        how = f"ended with exit code {code}"
    if name == "SIGKILL":
        advice = "use smaller shapes, fewer samples or fewer probes, or close other programs"
    elif name == "SIGTERM":
        advice = "build again"
    else:
        advice = f"the fault lies in '{request.backend}' or its libraries: try without the last probe or option"
    words = _last_words(request)
    said = f'; its last words: "{words}"' if words else ""
    return (
        f"{Path(request.model_path).name}: the worker process {how} while at '{_step(progress)}' with "
        f"'{request.backend}'{said}. Nothing else was harmed and the next build works; {advice}"
    )


def describe_limit(request: Request | Task[Any], progress: Progress, limit_s: float) -> str:
    """One line about a job that ran past its limit."""
    return (
        f"{Path(request.model_path).name}: still at '{_step(progress)}' with '{request.backend}' after the limit of "
        f"{limit_s:g} s, so the worker process was killed. The next build works; raise the limit, or build a smaller model"
    )


def _step(progress: Progress) -> str:
    return f"{progress.phase}: {progress.message}" if progress.message else progress.phase


def _exit_of(report: str) -> tuple[str | None, int]:
    found = _EXIT.findall(report)
    return (found[-1][0], int(found[-1][1])) if found else (None, 0)


def _last_words(request: Request | Task[Any]) -> str:
    """The last line that the process printed, before Python's own dump of its stack."""
    try:
        with (Path(request.out_dir) / OUTPUT_FILE).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 65536))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    before = text.split("Fatal Python error")[0]
    lines = [without_colour(line) for line in before.splitlines()]
    return next((line[-_LAST_WORDS:] for line in reversed(lines) if line), "")
