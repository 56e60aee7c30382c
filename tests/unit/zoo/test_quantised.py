"""The quantised models fail as they say, in the examination and in ONNX Runtime, and are right with what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.unit.edit.qdq_models import run
from trt_lab import zoo
from trt_lab.diagnose.check import Check
from trt_lab.diagnose.quantization.task import Examined, ExamineTask, examine
from trt_lab.edit.qdq import dequantise, find_qdq
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.tensors import write_samples
from trt_lab.zoo.quantised import RIGHT_DB

NAMES = zoo.names("int8")


def ratio_db(name: str, model: Model) -> float:
    """Of the outputs of a model over all samples, against the zoo model without any Q/DQ."""
    made = zoo.get(name)
    exact = [run(dequantise(made.model).model, feeds)[0].astype(np.float64) for feeds in made.feeds]
    wrong = [run(model, feeds)[0].astype(np.float64) for feeds in made.feeds]
    noise = sum(float(((a - b) ** 2).sum()) for a, b in zip(exact, wrong, strict=True))
    return 10 * np.log10(sum(float((a**2).sum()) for a in exact) / noise)


def examined(name: str, folder: Path) -> Examined:
    made = zoo.get(name)
    path = made.model.save(folder / "model.onnx")
    write_samples(folder / "in", made.feeds, which="inputs")
    return examine(
        ExamineTask(str(path), str(folder / "in"), check=Check.of(f"snr_db>={RIGHT_DB}")), lambda progress: None
    )


def test_they_are_listed_apart() -> None:
    assert len(NAMES) == 5 and not set(NAMES) & set(zoo.names()) and set(NAMES) < set(zoo.names(None))
    assert all(name.startswith("int8_") for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_model_is_valid(name: str) -> None:
    made = zoo.get(name)
    onnx.checker.check_model(made.model.proto(), full_check=True)
    view = GraphView.of(made.model)
    assert {*made.truth, *made.keep} <= set(view.nodes) and bool(made.fault) == bool(made.truth)
    assert len(find_qdq(view).layers) == 4 and len(made.feeds) == 4
    assert next(entry for entry in zoo.entries("int8") if entry.name == name) == zoo.Entry(
        name, made.fault, made.truth, made.keep, made.note, precision="int8"
    )


@pytest.mark.parametrize("name", NAMES)
def test_it_is_wrong_unless_the_layers_it_names_are_left_in_float(name: str) -> None:
    made = zoo.get(name)
    assert (ratio_db(name, made.model) < RIGHT_DB) == bool(made.keep)
    if made.keep:
        assert ratio_db(name, dequantise(made.model, made.keep).model) >= RIGHT_DB


@pytest.mark.parametrize("name", NAMES)
def test_the_examination_finds_the_truth(name: str, tmp_path: Path) -> None:
    made, found = zoo.get(name), examined(name, tmp_path)
    assert found.keep_float == made.keep and found.passes == (not made.keep)
    rules = {finding.node: finding.rule for finding in found.findings}
    assert {node: rules[node] for node in made.truth if node in rules} == {
        node: {
            "int8_small_scale": "scale-too-small",
            "int8_large_scale": "scale-too-large",
            "int8_outlier_channel": "outlier-channel",
            "int8_dead_channel": "scale-zero",
        }[name]
        for node in made.truth
    }
    assert set(rules) == set(made.truth)
    if made.keep:
        assert found.layers[0].node == made.keep[0]
    if name == "int8_dead_channel":
        (finding,) = found.findings
        assert finding.channels == (5,) and "a dead channel" in finding.message and finding.severity == "error"
