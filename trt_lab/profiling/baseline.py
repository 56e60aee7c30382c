"""Baselines: what each layer took once, kept with its spread, and what is slower or faster now beyond noise.

A baseline is bound to what it was measured on: another backend, GPU, version or model is refused. Layers are matched by
their ONNX nodes; where the builder fused otherwise, groups of layers that hold the same nodes are compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist, median, quantiles, stdev
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trt_lab import __version__
from trt_lab.engine_json import load_json
from trt_lab.engine_nodes import plain_name
from trt_lab.errors import CompareError, RecordError
from trt_lab.profiling.matching import LayerKey, match_layers
from trt_lab.profiling.node_time import LAYER_KEY, Piece, Statistic, pieces_of, sum_runs
from trt_lab.profiling.source import Engine
from trt_lab.profiling.text import whole_text
from trt_lab.tensors.atomic import replacing
from trt_lab.types import JsonValue, LayerTime

BASELINE_VERSION = 1
BOUND = ("backend", "gpu", "version", "model_hash")
"""Facts that must be equal where both sides know them."""
TOLERANCE = 0.15
FALSE_ALARM = 0.01
"""Chance that noise alone makes any figure of a comparison count, where the runs are known."""
SIGMAS = 3.0
"""The least distance from no change, in standard errors."""
RESOLUTION_MS = 0.0005
"""That of CUDA events, by CUDA's reference: a layer that took no time counts only when it takes more than this."""
_LEAST_MS = 1e-12
"""What is less is no time: a femtosecond, which `node_time` counts in."""
MIN_SCATTER = 8
"""Layers that are needed to tell noise from how the changes of all layers scatter."""

_MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of a median of n values over that of their mean, for a normal distribution."""
_LARGEST_MS = 1e18
"""What is more is no time, nor the sum of the times of all layers; sums and quotients must stay finite."""
_IQR_SIGMAS = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""
_MAD_SIGMAS = 1.4826
"""Standard deviation of a normal distribution over its median distance from the median (Rousseeuw and Croux, 1993)."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=(), allow_inf_nan=False)


class Figure(_Part):
    """One measured time.

    Attributes:
        average_ms, median_ms: Over the runs; None where not told.
        spread_ms: Robust standard deviation of one run (interquartile range / 1.349); None without runs.
        runs: How many; 0 where single runs are not known.
    """

    average_ms: float = Field(ge=0, le=_LARGEST_MS)
    median_ms: float | None = Field(default=None, ge=0, le=_LARGEST_MS)
    spread_ms: float | None = Field(default=None, ge=0, le=_LARGEST_MS)
    runs: int = Field(default=0, ge=0, le=10**12)

    def ms(self, statistic: Statistic) -> float:
        """The figure that is compared."""
        return self.median_ms if statistic == "median" and self.median_ms is not None else self.average_ms

    def error_ms(self, statistic: Statistic) -> float | None:
        """Its standard error; None without runs."""
        if self.spread_ms is None or self.runs < 2:
            return None
        return self.spread_ms / math.sqrt(self.runs) * (_MEDIAN_ERROR if statistic == "median" else 1.0)


class LayerFigure(Figure):
    """One layer: its name and the nodes that went into it."""

    layer: str
    nodes: tuple[str, ...] = ()


class Baseline(_Part):
    """What is kept of one engine's times.

    Attributes:
        backend, gpu, version, model_hash: What it is bound to; None where not known.
        engine_hash, precision: For people; another engine of the same model is what a baseline is for.
        total: Sum of the layers. latency: End to end, profiler off; None where not measured.
    """

    baseline_version: int = BASELINE_VERSION
    created: str
    trt_lab: str
    label: str
    backend: str | None = None
    gpu: str | None = None
    version: str | None = None
    model_hash: str | None = None
    driver: str | None = None
    engine_hash: str | None = None
    precision: str | None = None
    total: Figure
    latency: Figure | None = None
    layers: tuple[LayerFigure, ...] = Field(min_length=1)


Verdict = Literal["slower", "faster", "same", "new", "gone"]


@dataclass(frozen=True, slots=True)
class Regression:
    """One figure, now against the baseline.

    Attributes:
        what: A layer (or layers that hold the same nodes), the sum of all, or the end-to-end latency.
        layers: Names of the layers now; of the baseline where there are none now.
        nodes: ONNX nodes in them.
        baseline_ms, now_ms: None on the side that has no such layer.
        change: now / baseline − 1; None where that is not defined.
        noise: Standard error of `change`; None where it cannot be told.
        verdict: `slower` and `faster`: beyond tolerance and noise. `new`, `gone`: no such nodes on the other side.
    """

    what: Literal["layer", "total", "latency"]
    layers: tuple[str, ...]
    nodes: tuple[str, ...]
    baseline_ms: float | None
    now_ms: float | None
    change: float | None
    noise: float | None
    verdict: Verdict

    @property
    def label(self) -> str:
        """Name for people."""
        return self.what if self.what != "layer" else " + ".join(self.nodes or self.layers)

    def as_json(self) -> dict[str, JsonValue]:
        """For the command line."""
        return {
            "what": self.what,
            "layer": self.layers[0] if self.what == "layer" else None,
            "layers": list(self.layers),
            "nodes": list(self.nodes),
            "baseline_ms": self.baseline_ms,
            "now_ms": self.now_ms,
            "change": self.change,
            "noise": self.noise,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class BaselineCheck:
    """An engine against a baseline: the total, the latency where both have one, then layers by how much they changed."""

    engine: Engine
    baseline: Baseline
    tolerance: float
    statistic: Statistic
    rows: tuple[Regression, ...]
    notes: tuple[str, ...]

    def only(self, *verdicts: Verdict) -> tuple[Regression, ...]:
        """Rows with one of these verdicts."""
        return tuple(row for row in self.rows if row.verdict in verdicts)


def baseline_of(engine: Engine) -> Baseline:
    """What is kept of an engine. Raises CompareError when it was not timed."""
    if not engine.times:
        raise CompareError(f"{engine.label}: no layer was timed; give the profile beside the layers")
    told = {key: engine.facts.get(key) for key in (*BOUND, "driver", "engine_hash", "precision")}
    bound: dict[str, Any] = {key: None if value is None else str(value) for key, value in told.items()}
    return Baseline(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        trt_lab=__version__,
        label=whole_text(engine.label),
        total=_total(engine),
        latency=_figure(engine.latency_ms) if engine.latency_ms else None,
        layers=tuple(_layer_figure(piece, piece.time) for piece in pieces_of(engine) if piece.time is not None),
        **bound,
    )


def write_baseline(baseline: Baseline, path: str | Path) -> Path:
    """Writes a baseline and returns its path. Raises RecordError when that fails."""
    target = Path(path).expanduser()
    with replacing(target) as file:
        file.write((baseline.model_dump_json(indent=1) + "\n").encode())
    return target


def read_baseline(path: str | Path) -> Baseline:
    """Reads a baseline.

    Raises:
        RecordError: It cannot be read, is broken (with the byte place), or is no baseline (the key is named).
    """
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    content = load_json(data, str(path))
    version = content.get("baseline_version") if isinstance(content, dict) else None
    if type(version) is not int or version < 1:
        raise RecordError(
            f"{path}: the key 'baseline_version' is missing or no version: no baseline; make one with --write-baseline"
        )
    if version > BASELINE_VERSION:
        raise RecordError(
            f"{path}: baseline_version is {version}, this trt-lab reads {BASELINE_VERSION}; update trt-lab"
        )
    try:
        return Baseline.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{path}: key '{key}': {first['msg']}; make it again with --write-baseline") from error


def compare_baseline(engine: Engine, baseline: Baseline, tolerance: float = TOLERANCE) -> BaselineCheck:
    """Compares an engine with a baseline.

    A change counts when it is past the tolerance, give or take one standard error, and too many standard errors away
    from none to be noise: as many as keep a false alarm among all layers below `FALSE_ALARM`, and `SIGMAS` at least.
    The errors come from the spread of the runs on both sides. Where runs are not known, the scatter of the changes of
    all layers stands for them.

    Raises:
        CompareError: The baseline is of another backend, GPU, version or model (the key is named), shares no layer
            with the engine, or the engine was not timed.
    """
    now = baseline_of(engine)
    notes = _check_bound(engine.label, now, baseline)
    before, after = [[LayerKey(_key(layer), layer.layer) for layer in side.layers] for side in (baseline, now)]
    matches = match_layers(before, after)
    if not any(match.a and match.b for match in matches):
        raise CompareError(
            f"{engine.label}: the baseline of '{baseline.label}' has none of its layers (key 'layers'): it is of another "
            "model; make one with --write-baseline"
        )
    known = [layer.median_ms is not None for side in (baseline, now) for layer in side.layers]
    statistic: Statistic = "median" if all(known) else "average"
    pairs = [([baseline.layers[i] for i in m.a], [now.layers[i] for i in m.b]) for m in matches]
    measured = [_measure(a, b, statistic) for a, b in pairs]
    scatter = _scatter([change for change, noise in measured if change is not None and noise is None])
    if any(noise is None for change, noise in measured if change is not None):
        told = "cannot be told" if scatter is None else f"{scatter:.1%}, from how the changes of all layers scatter"
        notes.append(f"single runs are not known: noise {told}")
    sigmas = max(SIGMAS, NormalDist().inv_cdf(1 - FALSE_ALARM / 2 / max(1, len(pairs))))
    rows = [_row("layer", a, b, statistic, tolerance, sigmas, scatter) for a, b in pairs]
    rows.sort(key=lambda row: -abs((row.now_ms or 0.0) - (row.baseline_ms or 0.0)))
    whole = [_row("total", [baseline.total], [now.total], statistic, tolerance, sigmas, None)]
    if baseline.latency is not None and now.latency is not None:
        whole.append(_row("latency", [baseline.latency], [now.latency], "median", tolerance, sigmas, None))
    return BaselineCheck(engine, baseline, tolerance, statistic, (*whole, *rows), tuple(notes))


def _key(layer: LayerFigure) -> tuple[str, ...]:
    return layer.nodes or (LAYER_KEY + plain_name(layer.layer),)


def _layer_figure(piece: Piece, time: LayerTime) -> LayerFigure:
    return LayerFigure(
        layer=whole_text(piece.name),
        nodes=tuple(whole_text(node) for node in piece.nodes),
        average_ms=time.average_ms,
        median_ms=time.median_ms,
        spread_ms=_spread(time.runs_ms),
        runs=len(time.runs_ms),
    )


def _figure(runs_ms: Sequence[float]) -> Figure:
    return Figure(
        average_ms=sum(runs_ms) / len(runs_ms),
        median_ms=median(runs_ms),
        spread_ms=_spread(runs_ms),
        runs=len(runs_ms),
    )


def _total(engine: Engine) -> Figure:
    runs = sum_runs(engine.times)
    if runs:
        return _figure(runs)
    medians = [time.median_ms for time in engine.times if time.median_ms is not None]
    return Figure(
        average_ms=sum(time.average_ms for time in engine.times),
        median_ms=sum(medians) if len(medians) == len(engine.times) else None,
    )


def _spread(runs_ms: Sequence[float]) -> float | None:
    """Robust standard deviation of one run; that of all runs where most are equal."""
    if len(runs_ms) < 2:
        return None
    low, _, high = quantiles(runs_ms, n=4, method="inclusive")
    return (high - low) / _IQR_SIGMAS or stdev(runs_ms)


def _check_bound(label: str, now: Baseline, baseline: Baseline) -> list[str]:
    notes = []
    for key in BOUND:
        ours, theirs = getattr(now, key), getattr(baseline, key)
        if ours is not None and theirs is not None and ours != theirs:
            raise CompareError(
                f"{label}: the baseline of '{baseline.label}' is of another {key}: it has {_short(theirs)}, {label} has "
                f"{_short(ours)}; times of both cannot be compared, make one with --write-baseline"
            )
        if (ours is None) != (theirs is None):
            notes.append(f"{key} is known {'of the baseline' if ours is None else label} only, and was not checked")
    for key in ("precision", "driver", "engine_hash"):
        ours, theirs = getattr(now, key), getattr(baseline, key)
        if ours is not None and theirs is not None and ours != theirs:
            notes.append(f"{key} is {_short(ours)} now, {_short(theirs)} in the baseline")
    return notes


def _measure(
    before: Sequence[Figure], after: Sequence[Figure], statistic: Statistic
) -> tuple[float | None, float | None]:
    """Change and its standard error, both as a fraction of the baseline; None where not defined."""
    base = sum(figure.ms(statistic) for figure in before)
    if not before or not after or base < _LEAST_MS:
        return None, None
    change = sum(figure.ms(statistic) for figure in after) / base - 1
    errors = [figure.error_ms(statistic) for figure in (*before, *after)]
    known = [error for error in errors if error is not None]
    return change, math.hypot(*known) / base if len(known) == len(errors) else None


def _scatter(changes: Sequence[float]) -> float | None:
    """Standard deviation of the changes of all layers, outliers left out; None for a few, of which one is too large a part.

    Outliers are farther from the median than three robust standard deviations (1.4826 times the median distance).
    """
    if len(changes) < MIN_SCATTER:
        return None
    middle = median(changes)
    near = SIGMAS * _MAD_SIGMAS * median(abs(change - middle) for change in changes)
    return stdev(change for change in changes if abs(change - middle) <= near)


def _row(
    what: Literal["layer", "total", "latency"],
    before: Sequence[Figure],
    after: Sequence[Figure],
    statistic: Statistic,
    tolerance: float,
    sigmas: float,
    scatter: float | None,
) -> Regression:
    change, noise = _measure(before, after, statistic)
    limit = sigmas
    if noise is None and change is not None:
        noise, limit = scatter, SIGMAS
    verdict: Verdict = "same"
    if not before or not after:
        verdict = "gone" if before else "new"
    elif change is None:
        verdict = "slower" if sum(figure.ms(statistic) for figure in after) > RESOLUTION_MS else "same"
    elif abs(change) + (noise or 0.0) > tolerance and abs(change) > limit * (noise or 0.0):
        verdict = "slower" if change > 0 else "faster"
    shown = [figure for figure in after or before if isinstance(figure, LayerFigure)]
    return Regression(
        what=what,
        layers=tuple(figure.layer for figure in shown),
        nodes=tuple(dict.fromkeys(node for figure in shown for node in figure.nodes)),
        baseline_ms=sum(figure.ms(statistic) for figure in before) if before else None,
        now_ms=sum(figure.ms(statistic) for figure in after) if after else None,
        change=change,
        noise=noise,
        verdict=verdict,
    )


def _short(value: str) -> str:
    return f"'{value[:12]}…'" if len(value) >= 32 and " " not in value else f"'{value}'"
