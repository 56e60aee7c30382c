"""Both errors of every tensor, measured node by node; samples can be measured side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from trt_lab.compare.metrics import compare_arrays
from trt_lab.diagnose.evaluate import Evaluator, NodeValues
from trt_lab.edit.schema import LowPrecision
from trt_lab.model import Model
from trt_lab.tensors import open_samples
from trt_lab.types import JsonValue, OnProgress, Progress, TensorId, TensorStats, Tolerance


@dataclass(frozen=True)
class MeasureTask:
    """The errors of one sample, to be measured beside those of others. Paths are readable where it runs."""

    model_path: str
    samples_dir: str
    low: LowPrecision
    tolerance: Tolerance
    sample: int


def measure(task: MeasureTask, on_progress: OnProgress) -> JsonValue:
    """Both errors of every tensor on one sample, as `errors_json`. Raises what `Evaluator` raises."""
    samples = open_samples(task.samples_dir)
    evaluator = Evaluator(Model.load(task.model_path), task.low, [dict(samples[task.sample])])
    count = len(evaluator.nodes)

    def tell(done: int, values: NodeValues) -> None:
        on_progress(Progress("locate", done / count, f"sample {task.sample}: errors of {values.node}"))

    accumulated, alone = Worst(), Worst()
    add_errors(evaluator, 0, task.sample, task.tolerance, tell, accumulated, alone)
    return errors_json(accumulated, alone)


class Worst:
    """The worst figures of each tensor."""

    def __init__(self) -> None:
        self.found: dict[str, TensorStats] = {}

    def add(self, stats: TensorStats) -> None:
        """Takes figures when they are worse than those known."""
        if stats.name not in self.found or _badness(stats) > _badness(self.found[stats.name]):
            self.found[stats.name] = stats

    def compare(self, tensor: TensorId, a: Any, golden: Any, tolerance: Tolerance, sample: int) -> None:
        """Compares two values; what is no array has no figures."""
        if not isinstance(a, np.ndarray) or not isinstance(golden, np.ndarray):
            return
        if a is golden and tensor in self.found:
            return  # equal, and something is known already
        self.add(compare_arrays(a, golden, tolerance, name=tensor, sample=sample))


def add_errors(
    evaluator: Evaluator,
    place: int,
    sample: int,
    tolerance: Tolerance,
    tell: Callable[[int, NodeValues], None],
    accumulated: Worst,
    alone: Worst,
) -> None:
    """Adds the errors of one sample, which is number `place` of the evaluator's."""
    for done, values in enumerate(evaluator.sweep(place), 1):
        tell(done, values)
        for tensor, golden in values.golden.items():
            accumulated.compare(tensor, values.low[tensor], golden, tolerance, sample)
            if values.node in evaluator.candidates:
                alone.compare(tensor, values.alone[tensor], golden, tolerance, sample)


def errors_json(accumulated: Worst, alone: Worst) -> JsonValue:
    """Figures by name of the column, `accumulated` and `local`; `stats_of` reads them back."""
    return {name: [plain_json(asdict(stats)) for stats in worst.found.values()] for name, worst in
            (("accumulated", accumulated), ("local", alone))}  # fmt: skip


def _badness(stats: TensorStats) -> tuple[bool, int, float]:
    broken = stats.nan_only_a + stats.nan_only_b + stats.inf_mismatch
    snr = -stats.snr_db if stats.snr_db is not None else (float("-inf") if stats.exact else float("inf"))
    return stats.shape_a != stats.shape_b, broken, snr


def plain_json(values: dict[str, Any]) -> JsonValue:
    """The values as JSON gives them back, so that a step taken over is no different from one just done."""
    return json.loads(json.dumps(values, allow_nan=False))


def lines_of(value: JsonValue) -> list[dict[str, Any]]:
    """One column of `errors_json`."""
    assert isinstance(value, list)
    return cast("list[dict[str, Any]]", value)


def stats_of(line: Mapping[str, Any]) -> TensorStats:
    """Figures from one line of a column."""
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in line.items()}
    return TensorStats(**values)
