"""The examination: layers tried without editing give what edited models give; what must stay in float is found."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.edit.qdq_models import W1, float_convs, one_pair, run, samples, two_convs
from trt_lab.diagnose.check import Check
from trt_lab.diagnose.quantization.evaluate import QdqEvaluator
from trt_lab.diagnose.quantization.task import Examined, ExamineTask, examine, float_weights
from trt_lab.edit.qdq import quantise_only
from trt_lab.errors import CancelledError, UsageError
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.tensors import write_samples
from trt_lab.types import Progress


def silent(progress: Progress) -> None:
    """Drops progress."""


def examined(folder: Path, model: Model, feeds: list[dict[str, np.ndarray]], **more: Any) -> Examined:
    path = model.save(folder / "model.onnx")
    write_samples(folder / "in", feeds, which="inputs")
    return examine(ExamineTask(str(path), str(folder / "in"), **more), silent)


LAYERS = ["a", "b", "neg", "sum_dq"]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("active", [c for size in range(5) for c in itertools.combinations(LAYERS, size)])
def test_a_try_gives_the_bits_of_the_edited_model(active: tuple[str, ...], stored: bool) -> None:
    model = two_convs(output=True, stored=stored)
    view = GraphView.of(model)
    weights = float_weights(view, float_convs())
    assert list(weights) == (["w1_dq"] if stored else [])
    evaluator = QdqEvaluator(model, samples(2), weights)
    edited = quantise_only(model, active, weights=weights).model
    for sample, feeds in enumerate(samples(2)):
        (made,) = evaluator.run(view.nodes.keys() & set(active), sample).values()
        np.testing.assert_array_equal(made, run(edited, feeds)[0])


def test_errors_of_pairs_and_layers(tmp_path: Path) -> None:
    feeds = samples(3)
    found = examined(tmp_path, two_convs(), feeds)
    assert {pair.tensor for pair in found.pairs} == {"x", "w0", "r", "w1"}
    assert [layer.node for layer in found.layers] == sorted(
        ("a", "b", "neg"), key=lambda node: next(s.only.snr_db or 0 for s in found.layers if s.node == node)
    )
    signal = noise = 0.0
    for sample in feeds:
        exact, wrong = run(float_convs(), sample)[0].astype(np.float64), run(two_convs(), sample)[0].astype(np.float64)
        signal, noise = signal + (exact**2).sum(), noise + ((exact - wrong) ** 2).sum()
    assert found.quantised.snr_db == pytest.approx(10 * np.log10(signal / noise), abs=1e-6)
    for layer in found.layers:
        only = quantise_only(two_convs(), [layer.node]).model
        gaps = [np.abs(run(only, s)[0] - run(float_convs(), s)[0]).max() for s in feeds]
        assert layer.only.max_abs == pytest.approx(float(max(gaps)), rel=1e-5)
    r = next(pair for pair in found.pairs if pair.tensor == "r")
    assert r.before is not None and r.after is not None and r.local is not None
    assert r.after.snr_db is not None and r.before.snr_db is not None and r.local.snr_db is not None
    assert r.after.snr_db < r.before.snr_db  # the pair adds its own error to what reaches it


def test_the_layer_with_the_bad_scale_is_the_most_sensitive_and_is_kept_in_float(tmp_path: Path) -> None:
    found = examined(
        tmp_path, two_convs(x_scale=0.5), samples(2), check=Check.of("snr_db>=25"), fixed=str(tmp_path / "fixed.onnx")
    )
    assert found.layers[0].node == "a" and found.passes is False
    assert found.keep_float == ("a",) and found.trials >= 3 and found.fixed is not None
    for feeds in samples(2):
        exact = run(float_convs(), feeds)[0]
        gap = run(Model.load(found.fixed), feeds)[0] - exact
        assert 10 * np.log10((exact**2).sum() / (gap**2).sum()) >= 25


def test_a_check_that_passes_and_one_that_never_does(tmp_path: Path) -> None:
    fine = examined(tmp_path, two_convs(), samples(1), check=Check.of("snr_db>=5"), fixed=str(tmp_path / "f.onnx"))
    assert (fine.keep_float, fine.passes, fine.fixed) == ((), True, None)
    never = examined(tmp_path, two_convs(), samples(1), check=Check.of(lambda outputs: False), layers=False)
    assert (never.keep_float, never.passes, never.layers) == (None, False, ())
    assert any("quantisation is not its cause" in note for note in never.notes)


def test_stored_integers_are_told_and_known_with_the_float_model(tmp_path: Path) -> None:
    model = two_convs(stored=True)
    blind = examined(tmp_path, model, samples(1))
    w1 = next(pair for pair in blind.pairs if pair.tensor == "w1_dq")
    assert w1.local is None and w1.saturated is None and w1.count == W1.size and w1.levels_used is not None
    assert any("give the FP32 model" in note for note in blind.notes)
    path = float_convs().save(tmp_path / "float.onnx")
    seen = examined(tmp_path, model, samples(1), float_path=str(path))
    w1 = next(pair for pair in seen.pairs if pair.tensor == "w1_dq")
    assert w1.local is not None and w1.local.snr_db is not None and w1.local.snr_db > 35 and seen.notes == ()
    other = examined(tmp_path, model, samples(1), float_path=str(_scaled().save(tmp_path / "other.onnx")))
    assert any("this model is not two_convs_float" in note or "this model is not other" in note for note in other.notes)


def _scaled() -> Model:
    proto = float_convs().proto()
    proto.graph.node[3].op_type = "Abs"
    return Model.load(proto)


def test_more_samples_than_are_tried(tmp_path: Path) -> None:
    found = examined(tmp_path, two_convs(), samples(3), tried_samples=1)
    assert found.samples == 3 and "layers were tried on the first 1 of 3 samples" in found.notes


def test_a_float_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two_convs_float has no Q/DQ pairs|model has no Q/DQ pairs"):
        examined(tmp_path, float_convs(), samples(1))


def test_it_can_be_cancelled(tmp_path: Path) -> None:
    steps = []

    def stop(progress: Progress) -> None:
        steps.append(progress)
        if len(steps) == 9:
            raise CancelledError("enough")

    path = two_convs().save(tmp_path / "model.onnx")
    write_samples(tmp_path / "in", samples(1), which="inputs")
    with pytest.raises(CancelledError):
        examine(ExamineTask(str(path), str(tmp_path / "in")), stop)
    assert len(steps) == 9


def test_c46_a_scale_of_zero_is_the_worst_pair(tmp_path: Path) -> None:
    found = examined(tmp_path, one_pair(0.0, np.int8(0), (1, 3)), [{"x": np.array([[1, 0, -1]], np.float32)}])
    assert [f.rule for f in found.findings] == ["scale-zero"]
    (pair,) = found.pairs
    assert pair.local is not None and pair.local.snr_db == pytest.approx(0.0)  # all of it is lost
