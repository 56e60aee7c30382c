"""Runs a search on a zoo model or any other, in this process, with golden outputs of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from trt_lab.diagnose.task import SearchFound, SearchTask, search
from trt_lab.model import Model
from trt_lab.tensors import write_samples
from trt_lab.types import Progress, Tolerance


def golden_outputs(model: Model, feeds: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Outputs of the whole model, unoptimised."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.proto().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    return [dict(zip(names, map(np.asarray, session.run(None, dict(f))), strict=True)) for f in feeds]


def search_task(
    folder: Path,
    model: Model,
    feeds: Sequence[Mapping[str, np.ndarray]],
    golden: Sequence[Mapping[str, np.ndarray]] | None = None,
    **more: Any,
) -> SearchTask:
    """The task, its files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = model.save(folder / "model.onnx")
    write_samples(folder / "in", feeds, which="inputs")
    write_samples(folder / "golden", golden or golden_outputs(model, feeds), which="outputs")
    given = {"low": "fp16", "tolerance": Tolerance(), **more}
    return SearchTask(str(path), str(folder / "in"), str(folder / "golden"), **given)


def run_search(task: SearchTask) -> SearchFound:
    """The search, here."""
    return search(task, silent)


def silent(progress: Progress) -> None:
    """Drops progress."""
