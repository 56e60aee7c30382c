"""What decides whether outputs are good: a tolerance, a metric with a threshold, a Python function, or a command."""

from __future__ import annotations

import inspect
import math
import operator
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from trt_lab.compare.metrics import compare_arrays
from trt_lab.diagnose.check_function import named_function
from trt_lab.errors import UsageError
from trt_lab.tensors import write_npz
from trt_lab.types import TensorStats, Tolerance

Outputs: TypeAlias = Sequence[Mapping[str, np.ndarray]]
"""One mapping from tensor to array a sample."""

Judge: TypeAlias = Callable[..., "bool | float"]
"""`(outputs, golden)` or `(outputs)`."""

CheckSource: TypeAlias = "str | Sequence[str] | Judge | Check"
"""What `Check.of` takes."""

COMMAND_SECONDS = 60.0
"""A command that runs longer is called hanging, unless another limit is given."""

_METRIC = re.compile(r"\s*(max_abs|max_rel|rmse|cosine|snr_db)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*")
_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


@dataclass(frozen=True)
class Check:
    """Passes or fails outputs. Make it with `Check.of`.

    Attributes:
        command: Program and arguments; run without a shell, exit status 0 passes. `{outputs}` and `{golden}` stand for
            folders with one .npz a sample; without them both are put behind.
        function: Called with outputs and golden outputs, lists of mappings, or with the outputs alone when it takes one
            argument (`def metric(outputs) -> float`); gives a bool, or a number for `at_least` or `at_most`.
        at_least, at_most: Smallest and largest good number of `function`. NaN is never good.
        metric: Name of a figure, comparison and threshold; all outputs of all samples must keep it.
        seconds: Limit of one run of the command.
    """

    command: tuple[str, ...] = ()
    function: Judge | None = None
    at_least: float | None = None
    at_most: float | None = None
    metric: tuple[str, str, float] | None = None
    seconds: float = COMMAND_SECONDS

    @classmethod
    def of(
        cls,
        what: CheckSource,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        seconds: float = COMMAND_SECONDS,
    ) -> Check:
        """A check from a figure such as `cosine>=0.999`, a function, `FILE.py:FUNCTION` (with `>= 0.7` where it gives a
        number), a command line, or an argument list.

        Raises:
            UsageError: It is empty, quotes are not closed, or the function cannot be had.
        """
        if isinstance(what, Check):
            return what
        if callable(what):
            return cls(function=what, at_least=at_least, at_most=at_most)
        if isinstance(what, str):
            found = _METRIC.fullmatch(what)
            if found is not None:
                return cls(metric=(found[1], found[2], _threshold(what, found[3])))
            if (named := named_function(what)) is not None:
                function, sign, limit = named
                least, most = (limit if sign == ">=" else at_least), (limit if sign == "<=" else at_most)
                return cls(function=function, at_least=least, at_most=most)
            try:
                what = shlex.split(what)
            except ValueError as error:
                raise UsageError(f"the check command {what!r} cannot be split into words: {error}") from error
        if not what:
            raise UsageError("the check command is empty; name a program that exits 0 when the outputs are good")
        return cls(command=tuple(what), seconds=seconds)

    def __str__(self) -> str:
        if self.metric is not None:
            return "{} {} {:g}".format(*self.metric)
        if self.function is not None:
            name = getattr(self.function, "__name__", type(self.function).__name__)
            limits = ((">=", self.at_least), ("<=", self.at_most))
            return f"{name}()" + "".join(f" {sign} {limit:g}" for sign, limit in limits if limit is not None)
        return shlex.join(self.command)

    def passes(self, outputs: Outputs, golden: Outputs) -> bool:
        """Judges the outputs of all samples.

        Raises:
            UsageError: The command is missing, hangs or is killed; the function fails or gives no answer.
        """
        if self.metric is not None:
            return _metric_passes(self.metric, outputs, golden)
        if self.function is not None:
            return self._call(self.function, outputs, golden)
        return self._run(outputs, golden)

    def _call(self, function: Judge, outputs: Outputs, golden: Outputs) -> bool:
        try:
            answer = function(outputs) if _takes_one(function) else function(outputs, golden)
        except Exception as error:  # the function is the user's
            text = " ".join(str(error).split())[:200]
            raise UsageError(f"the check {self} failed by itself ({type(error).__name__}: {text}); mend it") from error
        if self.at_least is None and self.at_most is None:
            if not isinstance(answer, (bool, np.bool_)):
                raise UsageError(
                    f"the check {self} gave {answer!r}; it must give True or False, or a number together with at_least "
                    "or at_most (FILE.py:FUNCTION >= 0.7)"
                )
            return bool(answer)
        try:
            number = float(answer)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"the check {self} gave {answer!r}, which is no number to hold against the limit"
            ) from error
        least, most = self.at_least, self.at_most
        return not math.isnan(number) and (least is None or number >= least) and (most is None or number <= most)

    def _run(self, outputs: Outputs, golden: Outputs) -> bool:
        with tempfile.TemporaryDirectory(prefix="trt-lab-check-") as scratch:
            folders = {name: Path(scratch) / name for name in ("outputs", "golden")}
            for name, samples in (("outputs", outputs), ("golden", golden)):
                folders[name].mkdir()
                for index, sample in enumerate(samples):
                    write_npz(folders[name] / f"{index:03d}.npz", sample)
            words = [w.replace("{outputs}", str(folders["outputs"])) for w in self.command]
            words = [w.replace("{golden}", str(folders["golden"])) for w in words]
            if words == list(self.command):
                words += [str(folders["outputs"]), str(folders["golden"])]
            return self._status(words) == 0

    def _status(self, words: list[str]) -> int:
        name = self.command[0]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=self.seconds
            )
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"the check command '{name}' hangs: it did not end within {self.seconds:g} s; give it more, or mend it"
            ) from None
        except OSError as error:
            raise UsageError(
                f"the check command '{name}' cannot be run ({error.strerror}); give its full path"
            ) from error
        if done.returncode < 0:
            raise UsageError(f"the check command '{name}' was killed by signal {-done.returncode}; mend it")
        return done.returncode


def _threshold(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"--check {what!r}: {text!r} is no number; write it as in cosine>=0.999") from error


def _takes_one(function: Judge) -> bool:
    """Whether a function cannot take golden outputs as well."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return True
    except ValueError:  # built in, without a signature
        return False
    return False


def judge(outputs: Outputs, golden: Outputs, tolerance: Tolerance) -> tuple[bool, float | None]:
    """The default check: whether all are within the tolerance, and the largest error (None when not finite)."""
    worst, finite, good = 0.0, True, True
    for stats in _stats(outputs, golden, tolerance):
        good = good and stats.verdict != "differs"
        finite = finite and not (stats.nan_only_a or stats.nan_only_b or stats.inf_mismatch)
        worst = max(worst, stats.max_abs or 0.0)
    return good, worst if finite else None


def _stats(outputs: Outputs, golden: Outputs, tolerance: Tolerance) -> list[TensorStats]:
    return [
        compare_arrays(sample[name], reference[name], tolerance, name=name, sample=index)
        for index, (sample, reference) in enumerate(zip(outputs, golden, strict=True))
        for name in reference
    ]


def _metric_passes(metric: tuple[str, str, float], outputs: Outputs, golden: Outputs) -> bool:
    name, sign, threshold = metric
    for stats in _stats(outputs, golden, Tolerance()):
        if stats.exact:
            continue
        value = getattr(stats, name)
        if value is None or stats.nan_only_a or stats.nan_only_b or stats.inf_mismatch:
            return False
        if not _COMPARE[sign](value, threshold):
            return False
    return True
