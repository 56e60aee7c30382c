"""A third side beside reference and engine, and one tensor opened, from a session."""

from __future__ import annotations

import pytest

from trt_lab import backends
from trt_lab.errors import CompareError, UsageError
from trt_lab.session import Session
from trt_lab.types import BuildOptions


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Session:
    session = Session("zoo:l2norm_overflow", records=tmp_path_factory.mktemp("records"))
    session.use(precision="fp16", profile_runs=0)
    return session


def test_before_an_engine_only_the_reference_is_held_against_it(lab: Session) -> None:
    golden = lab.golden()
    with pytest.raises(UsageError, match="build one first"):
        lab.open_tensor("y")
    outputs = iter([golden.outputs(i)["y"] for i in range(golden.samples)])
    found = lab.compare_with(lambda _feeds: [next(outputs)], label="mine")
    assert found.engine is None and found.reference.verdict == "same" and len(found.frame) == 1
    assert "matched by position: y = output_0" in found.reference.notes[0]
    assert found.headline == f"{golden.name} against mine: same, max abs 0"


def test_who_of_three_is_wrong(lab: Session) -> None:
    record = lab.build()
    assert lab.reference is not None
    found = lab.compare_with(lab.reference.path, label="torch <b>")
    assert found.reference.verdict == "same" and found.engine is not None and found.engine.verdict == "differs"
    assert found.frame[["a", "b"]].to_numpy().tolist() == [
        [lab.reference.name, "torch <b>"],
        [record.name, "torch <b>"],
    ]
    assert "<b>" not in found._repr_html_() and "torch &lt;b&gt;" in found._repr_html_()
    assert repr(found).startswith("<ThirdSide ")


def test_a_function_that_fails_is_told(lab: Session) -> None:
    with pytest.raises(CompareError, match="mine: failed on sample 0 .*nope"):
        lab.compare_with(lambda feeds: feeds["nope"], label="mine")


def test_a_tensor_is_opened_on_its_worst_sample(lab: Session) -> None:
    if not lab.records:
        lab.build()
    opened = lab.open_tensor("y")
    assert opened.stats.sample == lab.compare().comparison.stats("y").sample
    assert opened.quantiles[1.0] == opened.stats.max_abs and opened.ulp is not None and opened.ulp[1] > 1
    assert lab.open_tensor("y", sample=0).stats.sample == 0
    with pytest.raises(CompareError, match="no tensor 'z'"):
        lab.open_tensor("z")


def test_a_live_engine_is_a_side(lab: Session) -> None:
    backend = backends.get("onnxruntime")
    built = backend.build(lab.model, BuildOptions(optimizer=False, profile_runs=0), lambda _step: None)
    runner = backend.open(built)
    found = lab.compare_with(runner, label="live")
    runner.close()
    assert found.reference.verdict == "same" and found.reference.tensors[0].exact
