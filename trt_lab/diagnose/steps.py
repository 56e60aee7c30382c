"""The steps of a search as they happen, read from its journal by whoever watches."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Any, Literal

from trt_lab.diagnose.journal import STEPS_FILE
from trt_lab.diagnose.locate import Trial
from trt_lab.types import NodeId, Precision

_REFERENCE = "onnxruntime"
_WORDS = {"errors": "errors of every tensor", "evidence": "evidence of suspects"}


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    Attributes:
        what: In words: what was done.
        state: `done` where a step gives no verdict; `none` where it did not end: stopped, or not built.
        keep_fp32: Nodes that were kept, for a trial or a build.
        error: Worst max abs of the outputs; None if not finite or not known.
        builds: Engines built for it; emulation on the CPU builds none.
    """

    what: str
    state: Literal["running", "passes", "fails", "done", "none"]
    keep_fp32: tuple[NodeId, ...] | None = None
    error: float | None = None
    builds: int = 0


class Search:
    """A search under way, or the last one.

    Args:
        folder: Where its journal is written; None where nobody asked for one, then no steps are known.
        precision: The low type that it is about.
    """

    def __init__(self, folder: Path | None, precision: Precision) -> None:
        self.folder, self.precision = folder, precision
        self.state: Literal["running", "stopped", "ended"] = "running"
        self._lock = RLock()
        self._offset = 0
        self._steps: dict[str, Step] = {}

    def steps(self, trials: Iterable[Trial] = ()) -> tuple[Step, ...]:
        """All steps so far, in order; those of a search that it goes on with included.

        Args:
            trials: Of the finding: they tell which engines passed, which the journal leaves open. Without a
                journal they are all that is known.
        """
        if self.folder is None:
            return tuple(map(_of_trial, trials))
        with self._lock:
            for line in self._new_lines():
                self._take(line)
            steps = list(self._steps.values())
        verdicts = {frozenset(trial.keep_fp32): trial for trial in trials if trial.builds}
        for place, step in enumerate(steps):
            trial = verdicts.get(frozenset(step.keep_fp32)) if step.builds and step.keep_fp32 is not None else None
            if trial is not None and step.state == "done":
                steps[place] = replace(step, state="passes" if trial.passes else "fails", error=trial.error)
        if self.state != "running":
            steps = [replace(step, state="none") if step.state == "running" else step for step in steps]
        return tuple(steps)

    def _new_lines(self) -> list[dict[str, Any]]:
        """Lines written since the last time; one that is not whole yet is left for the next."""
        if self.folder is None:
            return []
        try:
            with (self.folder / STEPS_FILE).open("rb") as file:
                file.seek(self._offset)
                raw = file.read()
        except OSError:  # not begun yet
            return []
        whole = raw[: raw.rfind(b"\n") + 1]
        self._offset += len(whole)
        found = []
        for text in whole.splitlines():
            try:
                found.append(json.loads(text))
            except ValueError:  # the search itself refuses such a file
                continue
        return [line for line in found if isinstance(line, dict) and isinstance(line.get("step"), str)]

    def _take(self, line: dict[str, Any]) -> None:
        name = line["step"]
        begun = self._steps.get(name) or _begun(name)
        if line.get("state") != "ended":
            self._steps[name] = replace(begun, state="running")
            return
        result = line.get("result")
        if isinstance(result, dict) and "passes" in result:
            self._steps[name] = replace(
                begun, state="passes" if result["passes"] else "fails", error=result.get("max_abs")
            )
        else:
            self._steps[name] = replace(begun, state="done")


def _of_trial(trial: Trial) -> Step:
    what = "build" if trial.builds else "try"
    return Step(what, "passes" if trial.passes else "fails", trial.keep_fp32, trial.error, trial.builds)


def _begun(name: str) -> Step:
    """A step by its name in the journal: `try [...]`, `build BACKEND [...]`, `build BACKEND fp32 [...]`, or another."""
    head, bracket, rest = name.partition("[")
    words = head.split()
    try:
        kept = tuple(NodeId(node) for node in json.loads(bracket + rest)) if bracket else None
    except ValueError:
        kept = None
    if not words or kept is None:
        return Step(_WORDS.get(name, name), "running")
    if words[0] == "try":
        return Step("try", "running", kept)
    if words[0] != "build" or len(words) == 1:
        return Step(" ".join(words), "running", kept)
    if "fp32" in words[2:]:
        kept = None  # all of them: no set that was tried
    if words[1] == _REFERENCE:
        return Step("run emulated" if kept is not None else "run in fp32", "running", kept)
    return Step(" ".join(words), "running", kept, builds=1)
