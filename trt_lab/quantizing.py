"""Quantised models: examined, and made. Given what runs a task, as `locating` is; and what a session hands out of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Literal, cast

import pandas as pd

from trt_lab import storage
from trt_lab.backends.jobs import Task
from trt_lab.backends.modelopt import quantize_with_modelopt
from trt_lab.backends.onnxruntime.quantize import METHODS, OPERATORS, Method, Quantized, QuantizeTask, quantize
from trt_lab.compare.words import format_figure
from trt_lab.diagnose.check import Check, CheckSource
from trt_lab.diagnose.quantization.measure import Error, PairFigures
from trt_lab.diagnose.quantization.scales import ScaleFinding
from trt_lab.diagnose.quantization.task import Examined, ExamineTask, LayerSensitivity, examine
from trt_lab.errors import UsageError
from trt_lab.frames.quantization import pairs_frame, sensitivity_frame
from trt_lab.means import Submit
from trt_lab.model import Model, ModelSource
from trt_lab.samples.sets import Samples
from trt_lab.tensors import write_samples
from trt_lab.types import JsonValue, NodeId, OnProgress

HTML_ROWS = 20
"""Rows of a still table; the frames have all."""

TOOLS = {"ort": quantize, "modelopt": quantize_with_modelopt}


@dataclass(frozen=True)
class Quantization:
    """A quantised model examined; all numbers are those of ONNX Runtime on the CPU, Q/DQ run as they are.

    Attributes:
        model: Name of the model.
        found: The numbers.
        check: What decided, "" for nothing.
    """

    model: str
    found: Examined
    check: str = ""

    @property
    def pairs(self) -> tuple[PairFigures, ...]:
        """Q/DQ pairs, the worst local error first."""
        return self.found.pairs

    @property
    def layers(self) -> tuple[LayerSensitivity, ...]:
        """Quantised layers, the most sensitive first."""
        return self.found.layers

    @property
    def findings(self) -> tuple[ScaleFinding, ...]:
        """Bad scales, outlier and dead channels."""
        return self.found.findings

    @property
    def keep_float(self) -> tuple[NodeId, ...]:
        """Layers that must stay in float for the check to pass; empty without a check."""
        return self.found.keep_float or ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What else to know, one line each."""
        return self.found.notes

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row a Q/DQ pair; see `frames.quantization`."""
        return pairs_frame(self.pairs)

    @cached_property
    def layers_frame(self) -> pd.DataFrame:
        """One row a layer; see `frames.quantization`."""
        return sensitivity_frame(self.layers)

    @property
    def is_fine(self) -> bool:
        """No scale is an error, and the check (if any) passes."""
        return self.found.passes is not False and not any(finding.severity == "error" for finding in self.findings)

    @property
    def headline(self) -> str:
        """One or two sentences."""
        errors = sum(finding.severity == "error" for finding in self.findings)
        parts = [f"{len(self.pairs)} Q/DQ pairs, outputs at {_shown(self.found.quantised)}"]
        if errors:
            parts.append(f"{errors} bad {'scale' if errors == 1 else 'scales'}")
        if self.found.passes is not None:
            parts.append(f"the check {self.check} {'passes' if self.found.passes else 'fails'}")
        if self.keep_float:
            count = len(self.keep_float)
            parts.append(
                f"it passes with {count} {'layer' if count == 1 else 'layers'} in float: {', '.join(self.keep_float[:3])}"
            )
        elif self.layers and not self.layers[0].only.exact:
            worst = self.layers[0]
            parts.append(f"most sensitive: {worst.node} ({_shown(worst.only)} when it alone is quantised)")
        return "; ".join(parts)

    def as_json(self) -> dict[str, JsonValue]:
        """The JSON keys of `trt-lab quantize`."""
        found = self.found
        return {
            "model": self.model,
            "samples": found.samples,
            "quantised": found.quantised.as_json(),
            "pairs": [_pair_json(pair) for pair in self.pairs],
            "layers": [
                {
                    "node": layer.node, "op_type": layer.op_type, "tensors": list(layer.tensors),
                    "only": layer.only.as_json(), "without": layer.without.as_json(), "gain_db": layer.gain_db,
                }
                for layer in self.layers
            ],
            "findings": [finding.as_json() for finding in self.findings],
            "check": self.check or None,
            "passes": found.passes,
            "keep_float": list(found.keep_float) if found.keep_float is not None else None,
            "fixed_model": found.fixed,
            "notes": list(self.notes),
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<Quantization of {self.model}: {self.headline}>"

    def _repr_html_(self) -> str:
        findings = "".join(f"<li>{escape(f.message)} — {escape(f.fix)}</li>" for f in self.findings[:HTML_ROWS])
        pairs = "".join(
            f"<tr><td>{escape(p.tensor)}</td><td>{p.kind}</td><td>{escape(p.dtype)}</td><td>{_share(p.saturated)}</td>"
            f"<td>{_share(p.range_used)}</td><td>{_shown(p.local)}</td><td>{_shown(p.before)}</td><td>{_shown(p.after)}</td></tr>"
            for p in self.pairs[:HTML_ROWS]
        )
        layers = "".join(
            f"<tr><td>{escape(s.node)}</td><td>{escape(s.op_type)}</td><td>{_shown(s.only)}</td><td>{_shown(s.without)}</td></tr>"
            for s in self.layers[:HTML_ROWS]
        )
        more = max(len(self.pairs), len(self.layers)) - HTML_ROWS
        tail = "<p>all rows: <code>.frame</code>, <code>.layers_frame</code></p>" if more > 0 else ""
        return (
            f"<p><b>{escape(self.headline)}</b></p><ul>{findings}</ul>"
            "<table><thead><tr><th>pair</th><th>kind</th><th>type</th><th>saturated</th><th>range used</th><th>alone</th>"
            f"<th>before</th><th>after</th></tr></thead><tbody>{pairs}</tbody></table>"
            "<table><thead><tr><th>layer</th><th>operator</th><th>only it quantised</th><th>all but it</th></tr></thead>"
            f"<tbody>{layers}</tbody></table>{tail}"
        )


def refuse_unchecked(fixed: str | Path | None, check: Check | None) -> None:
    """Raises UsageError for a repaired model that nothing would judge."""
    if fixed is not None and check is None:
        raise UsageError("to write a repaired model, say when it is good enough: a check such as 'snr_db>=25'")


def examine_model(
    model: Model,
    samples: Samples,
    submit: Submit,
    on_progress: OnProgress,
    *,
    float_model: ModelSource | None = None,
    layers: bool = True,
    check: CheckSource | None = None,
    fixed: str | Path | None = None,
) -> Quantization:
    """Figures of all Q/DQ pairs, bad scales, and the sensitivity of each layer.

    Args:
        float_model: The FP32 model that was quantised, for weights that are stored as integers.
        layers: Try the layers one by one.
        check: Decides which layers must stay in float; see `diagnose.check.Check`.
        fixed: ONNX file for the model with these layers in float.

    Raises:
        UsageError: The model has no Q/DQ; the check is bad; `fixed` without a check.
        BackendError, CancelledError: As the job ended.
    """
    wanted = Check.of(check) if check is not None else None
    refuse_unchecked(fixed, wanted)
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as scratch:
        path, folder = _stage(model, samples, Path(scratch))
        original = None
        if float_model is not None:
            opened = Model.load(float_model)
            original = str(opened.save(Path(scratch) / f"{storage.safe_name(opened.name)}.float.onnx"))
        target = str(Path(fixed).absolute()) if fixed is not None else None
        task = ExamineTask(path, folder, original, layers, check=wanted, fixed=target)
        found = submit(Task(examine, task, path, str(Path(scratch) / "out")), on_progress)
    return Quantization(model.name, found, str(wanted) if wanted is not None else "")


def quantize_model(
    model: Model,
    samples: Samples,
    out: str | Path,
    submit: Submit,
    on_progress: OnProgress,
    *,
    method: str = "entropy",
    tool: str = "ort",
    type: Literal["int8", "fp8"] = "int8",
    per_channel: bool = True,
    operators: Sequence[str] = OPERATORS,
    exclude: Sequence[str] = (),
    read_cache: str | Path | None = None,
    write_cache: str | Path | None = None,
) -> Quantized:
    """Writes a quantised model to `out`, calibrated on `samples` or by a calibration cache of TensorRT.

    Args:
        method: `minmax`, `entropy` or `percentile`.
        tool: `ort` (ONNX Runtime), or `modelopt` where it is installed.
        type: Of the quantised numbers; `fp8` is ModelOpt's.
        per_channel: A scale for each output channel of a weight.
        operators: Types of nodes to quantise.
        exclude: Nodes that stay float.
        read_cache, write_cache: Calibration caches of TensorRT.

    Raises:
        UsageError: An unknown method or tool, a model that has Q/DQ already, an opset that is too old.
        BackendError, CancelledError: As the job ended.
    """
    if method not in METHODS:
        raise UsageError(f"no calibration method {method!r}; there are: {', '.join(METHODS)}")
    if tool not in TOOLS:
        raise UsageError(f"no quantiser {tool!r}; there are: {', '.join(TOOLS)}")
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as scratch:
        path, folder = _stage(model, samples, Path(scratch))
        task = QuantizeTask(
            model_path=path, samples_dir=folder, out=str(Path(out).absolute()), method=cast("Method", method), per_channel=per_channel,
            operators=tuple(operators), exclude=tuple(NodeId(node) for node in exclude), type=type,
            read_cache=str(Path(read_cache).absolute()) if read_cache is not None else None,
            write_cache=str(Path(write_cache).absolute()) if write_cache is not None else None,
            generated=samples.seed is not None,
        )  # fmt: skip
        made = submit(Task(TOOLS[tool], task, path, str(Path(scratch) / "out")), on_progress)
    return replace(made, notes=(*samples_notes(samples), *made.notes))


def samples_notes(samples: Samples) -> tuple[str, ...]:
    """What is known of samples that come from elsewhere; empty for generated ones, whose notes are of their making."""
    return samples.notes if samples.seed is None else ()


def made_json(made: Quantized) -> dict[str, JsonValue]:
    """What was made, under the key `made` of `trt-lab quantize`."""
    values = asdict(made)
    return {**values, "notes": list(made.notes), "seconds": round(made.seconds, 3)}


def _stage(model: Model, samples: Samples, scratch: Path) -> tuple[str, str]:
    path = model.save(scratch / f"{storage.safe_name(model.name)}.onnx")
    write_samples(scratch / "in", samples.feeds, which="inputs")
    return str(path), str(scratch / "in")


def _pair_json(pair: PairFigures) -> dict[str, JsonValue]:
    plain = {
        name: getattr(pair, name)
        for name in (
            *("tensor", "kind", "quantize", "dequantize", "dtype", "channels", "axis", "scale_min", "scale_max"),
            *(
                "zero_point",
                "count",
                "largest",
                "saturated",
                "zeroed",
                "levels_used",
                "levels",
                "range_used",
                "wider_db",
                "outlier",
            ),
        )
    }
    errors = {name: getattr(pair, name) for name in ("local", "before", "after")}
    return plain | {name: error.as_json() if error is not None else None for name, error in errors.items()}


def _shown(error: Error | None) -> str:
    if error is None:
        return "–"
    if error.broken:
        return f"{error.broken} not finite"
    return "exact" if error.exact else f"{format_figure(error.snr_db)} dB" if error.snr_db is not None else "lost"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2%}"
