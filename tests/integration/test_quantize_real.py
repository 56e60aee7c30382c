"""Real models, quantised and examined."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.unit.edit.qdq_models import one_pair
from trt_lab import Session
from trt_lab.diagnose.quantization.evaluate import QdqEvaluator
from trt_lab.diagnose.quantization.measure import ErrorSum
from trt_lab.diagnose.quantization.scales import check_scales
from trt_lab.edit.qdq import find_qdq
from trt_lab.errors import BuildError
from trt_lab.graph import GraphView
from trt_lab.record import Record

RECORD = Path(__file__).resolve().parents[1] / "data" / "gpu" / "qdq_conv-int8.trtlab"


@pytest.mark.slow
def test_magika(real_model: Callable[[str], Path], tmp_path: Path) -> None:
    lab = Session(real_model("magika"), records=tmp_path)
    lab.feed(4)
    made = lab.quantize(tmp_path / "magika.int8.onnx", method="minmax", write_cache=tmp_path / "magika.cache")
    assert (made.pairs, made.layers) == (6, 3)
    int8 = Session(made.model, records=tmp_path)
    int8.feed(4, seed=1)
    found = int8.quantization(float_model=lab.model)
    assert found.is_fine and found.found.quantised.snr_db is not None and found.found.quantised.snr_db > 40
    assert found.layers[0].op_type == "Conv" and found.layers[0].gain_db is not None and found.layers[0].gain_db > 1
    assert {pair.kind for pair in found.pairs} == {"activation", "weight"}


@pytest.mark.slow
def test_ppocr_cls_layers_in_float_until_the_check_passes(real_model: Callable[[str], Path], tmp_path: Path) -> None:
    """566 nodes of opset 11, nameless; 54 convolutions."""
    lab = Session(real_model("ppocr_cls"), records=tmp_path)
    lab.feed(1)
    made = lab.quantize(tmp_path / "cls.int8.onnx", method="percentile", per_channel=False)
    assert made.pairs == 108
    int8 = Session(made.model, records=tmp_path)
    int8.feed([dict(sample) for sample in lab.samples.feeds])
    before = int8.quantization(layers=False).found.quantised.snr_db
    assert before is not None
    found = int8.quantization(check=f"snr_db>={before + 8:.1f}", fixed=tmp_path / "cls.mixed.onnx")
    assert found.found.passes is False and 1 <= len(found.keep_float) < 30
    mixed = Session(found.found.fixed or "", records=tmp_path)
    mixed.feed([dict(sample) for sample in lab.samples.feeds])
    after = mixed.quantization(layers=False).found.quantised.snr_db
    assert after is not None and after >= before + 8 - 0.1


def test_the_model_of_a_gpu_record_and_its_engine() -> None:
    """An INT8 engine of an H200: the engine computes in int8 where the model has Q/DQ, and its outputs are those of Q/DQ."""
    record = Record.open(RECORD)
    lab = Session.of_record(record)
    found = lab.quantization()
    assert [layer.node for layer in found.layers] == ["conv1", "conv0"] and found.findings == ()
    pairs = {pair.tensor: pair for pair in found.pairs}
    assert set(pairs) == {"x", "w0", "r0", "w1"} and all(pair.dtype == "int8" for pair in found.pairs)
    quantised = {node for pair in find_qdq(lab.view).pairs for node in (pair.quantize, *pair.dequantizes)}
    in_engine = {node for layer in record.layers for node in layer.nodes}
    assert "q_x" in quantised & in_engine and {layer.precision for layer in record.layers} == {"int8"}


def test_the_emulation_predicts_the_int8_engine() -> None:
    """Of the same input: float is 34.1 dB away from the engine of the H200, Q/DQ run on the CPU 136 dB."""
    record = Record.open(RECORD)
    evaluator = QdqEvaluator(record.model(), [dict(record.inputs(0))])
    engine, emulated, exact = ErrorSum(), ErrorSum(), ErrorSum()
    (quantised,) = evaluator.run(evaluator.layers, 0).values()
    (unquantised,) = evaluator.run((), 0).values()
    made = record.outputs(0)["y"]
    engine.add(unquantised, made)
    emulated.add(unquantised, quantised)
    exact.add(made, quantised)
    seen, told, gap = engine.error().snr_db, emulated.error().snr_db, exact.error().snr_db
    assert seen is not None and told is not None and gap is not None
    assert seen == pytest.approx(34.1265, abs=1e-3) and told == pytest.approx(seen, abs=1e-3) and gap > 120


@pytest.mark.skipif(
    not any(importlib.util.find_spec(name) for name in ("tensorrt_rtx", "tensorrt_rtx_bindings")),
    reason="TensorRT for RTX is not installed (pip install trt-lab[rtx])",
)
class TestRtx:
    """What a real parser and builder of TensorRT make of our Q/DQ, with no GPU."""

    def build(self, lab: Session, **shapes: str) -> Record:
        lab.use(backend="tensorrt_rtx", compute_capability="SM86", shapes=shapes or None)
        return lab.build()

    @pytest.mark.slow
    def test_every_quantised_layer_of_magika_computes_in_int8(
        self, real_model: Callable[[str], Path], tmp_path: Path
    ) -> None:
        lab = Session(real_model("magika"), records=tmp_path)
        lab.feed(2)
        made = lab.quantize(tmp_path / "magika.int8.onnx", method="minmax")
        record = self.build(Session(made.model, records=tmp_path), bytes="1x2048")
        heavy = [layer for layer in record.layers if layer.type in ("gemm", "correlation")]
        assert len(heavy) == made.layers == 3
        assert all("int8" in {tensor.dtype for tensor in layer.inputs} for layer in heavy)

    def test_a_clean_quantised_model_is_taken(self, tmp_path: Path) -> None:
        assert self.build(Session("zoo:int8_clean", records=tmp_path)).layers

    @pytest.mark.parametrize(
        ("scale", "zero_point", "rule"),
        [
            (0.0, np.int8(0), "scale-zero"),
            ([0.5, 0.25, -0.125], np.zeros(3, np.int8), "scale-negative"),
            (float("nan"), np.int8(0), "scale-not-finite"),
            (0.5, np.int8(3), "zero-point"),
        ],
    )
    def test_c46_what_is_called_an_error_is_refused(
        self, scale: object, zero_point: object, rule: str, tmp_path: Path
    ) -> None:
        model = one_pair(scale, zero_point, (1, 3))
        (finding,) = check_scales(GraphView.of(model))
        assert (finding.rule, finding.severity) == (rule, "error")
        with pytest.raises(BuildError, match=rf"refuses node 0 '{finding.node}'"):
            self.build(Session(model, records=tmp_path))
