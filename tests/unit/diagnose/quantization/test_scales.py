"""Bad scales are named by node, channel and value."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.unit.diagnose.quantization.test_measure import figures
from tests.unit.edit.qdq_models import one_pair, run, two_convs, weight_pair
from trt_lab.diagnose.quantization.scales import ScaleFinding, check_scales, explain_node, judge_figures, search_notes
from trt_lab.graph import GraphView
from trt_lab.model import Model
from trt_lab.types import NodeId


def found(model: Model) -> list[ScaleFinding]:
    return list(check_scales(GraphView.of(model)))


def test_c46_a_scale_of_zero_is_an_error() -> None:
    """The runtime takes it: [1, 0, -1] becomes zeros."""
    model = one_pair(0.0, np.int8(0), (1, 3))
    made = run(model, {"x": np.array([[1, 0, -1]], np.float32)})[0]
    assert np.all(made == 0)
    (finding,) = found(model)
    assert (finding.rule, finding.severity, finding.node, finding.tensor) == ("scale-zero", "error", "q", "x")
    assert finding.message == "node 'q': the scale of 'x' is 0" and finding.channels == () and finding.values == ("0",)
    assert "small positive number" in finding.fix


def test_c46_scales_by_channel_with_a_zero_and_a_negative_one() -> None:
    model = one_pair([0.5, 0.0, 0.25, -0.125], np.zeros(4, np.int8), (1, 4))
    zero, negative = found(model)
    assert zero.rule == "scale-zero" and zero.channels == (1,) and zero.values == ("0",)
    assert zero.message == "node 'q': the scale of 'x' is 0 at channel 1 (0) of axis 1"
    assert negative.rule == "scale-negative" and negative.channels == (3,) and negative.values == ("-0.125",)
    assert negative.message == "node 'q': the scale of 'x' is negative at channel 3 (-0.125) of axis 1"


def test_c46_a_dead_channel_is_named_as_the_cause() -> None:
    weight = np.ones((3, 2), np.float32)
    weight[2] = 0
    (finding,) = found(weight_pair(weight, [0.1, 0.1, 0.0]))
    assert finding.message == (
        "node 'w_q': the scale of 'w' is 0 at channel 2 (0) of axis 0; likely cause: all weights of that channel are 0 "
        "(a dead channel)"
    )
    (alive,) = found(weight_pair(np.ones((3, 2)), [0.1, 0.1, 0.0]))
    assert "dead" not in alive.message


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (float("nan"), "scale-not-finite"),
        (float("inf"), "scale-not-finite"),
        (1e-40, "scale-denormal"),
        (-0.5, "scale-negative"),
    ],
)
def test_other_scales_that_cannot_be(value: float, rule: str) -> None:
    (finding,) = found(one_pair(value, np.int8(0), (1, 3)))
    assert (finding.rule, finding.severity) == (rule, "error")
    assert finding.values[0] in finding.message
    json.dumps(finding.as_json(), allow_nan=False)  # NaN is text here, no number


@pytest.mark.parametrize("value", [1.1754943508222875e-38, 1e-6, 1.0, 1e30])
def test_scales_that_can_be(value: float) -> None:
    assert found(one_pair(value, np.int8(0), (1, 3))) == []


def test_what_tensorrt_does_not_take() -> None:
    """As the parser of TensorRT for RTX 1.7 answers: zero points, 16-bit numbers and biases are refused, uint8 is not."""
    kind, zero = found(one_pair(0.5, np.uint8(128), (1, 3)))
    assert kind.rule == "quantised-type" and "uint8" in kind.message and kind.severity == "warning"
    assert zero.rule == "zero-point" and "(128)" in zero.message and zero.severity == "error"
    assert [f.rule for f in found(one_pair(0.5, np.int8(-3), (1, 3)))] == ["zero-point"]
    (wide,) = found(one_pair(0.5, np.int16(0), (1, 3), opset=21))
    assert (wide.rule, wide.severity) == ("quantised-type", "error") and not wide.is_bad_scale


def test_a_scale_that_is_too_small_cuts() -> None:
    x = np.linspace(-10, 10, 1000, dtype=np.float32).reshape(1, 1000)
    (finding,) = judge_figures([figures(one_pair(0.05, np.int8(0), x.shape), x)])
    assert finding.rule == "scale-too-small" and "of the values of 'x' are cut to the ends of int8" in finding.message
    assert float(finding.values[0]) == pytest.approx(1 - 6.4 / 10, abs=0.01)
    assert "a larger scale would leave " in finding.message and " dB less error" in finding.message
    assert judge_figures([figures(one_pair(10 / 127, np.int8(0), x.shape), x)]) == ()


@given(
    x=arrays(np.float32, (1, 64), elements=st.floats(-8, 8, width=32)),
    scale=st.sampled_from([0.01, 0.03, 0.0625, 0.1]),
)
@settings(max_examples=25, deadline=None)
def test_what_a_larger_scale_is_said_to_gain_it_gains(x: np.ndarray, scale: float) -> None:
    """An error of half a step everywhere, the worst there is, is 4.8 dB above one that is spread evenly."""
    made = figures(one_pair(scale, np.int8(0), x.shape), x)
    if made.wider_db is not None and made.wider_db > 6:
        wider = [figures(one_pair(factor * scale, np.int8(0), x.shape), x).local for factor in (2, 4, 8, 16, 32, 64)]
        best = max(math.inf if e is None or e.exact else e.snr_db or -math.inf for e in wider)
        assert made.local is not None and best > (made.local.snr_db or 0.0) + made.wider_db - 5


def test_a_scale_that_is_too_large_leaves_levels_unused() -> None:
    x = np.linspace(-1, 1, 100, dtype=np.float32).reshape(1, 100)
    (finding,) = judge_figures([figures(one_pair(1.0, np.int8(0), x.shape), x)])
    assert finding.rule == "scale-too-large"
    assert finding.message == "node 'q': 'x' reaches 0.78% of what its scale holds, 3 of 256 levels occur"


def test_an_outlier_channel_is_named() -> None:
    x = np.ones((1, 6, 5), np.float32)
    x[0, 4] = 40
    (finding,) = judge_figures([figures(one_pair(40 / 127, np.int8(0), x.shape), x)])
    assert finding.rule == "outlier-channel" and finding.channels == (4,)
    assert "channel 4 of axis 1 of 'x' is 40× louder than the median channel" in finding.message
    scales = np.abs(x).max(axis=(0, 2)) / 127
    assert judge_figures([figures(one_pair(scales, np.zeros(6, np.int8), x.shape, axis=1), x)]) == ()


def test_what_a_search_of_low_precision_must_say() -> None:
    view = GraphView.of(one_pair(0.0, np.int8(0), (1, 3)))
    about, bad = search_notes(view)
    assert "1 Q/DQ pairs" in about and "trt-lab quantize" in about and bad == "node 'q': the scale of 'x' is 0"


def test_evidence_near_a_node() -> None:
    view = GraphView.of(two_convs())
    assert explain_node(view, NodeId("relu")) == ("'r_q' turns its rounding into steps of 0.2", False)
    assert explain_node(view, NodeId("add")) is None
    spoiled = GraphView.of(two_convs(x_scale=0.0))
    assert explain_node(spoiled, NodeId("a")) == ("node 'x_q': the scale of 'x' is 0", True)
