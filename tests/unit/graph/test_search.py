"""Search finds nodes, tensors and scopes, best first, also in branches."""

from __future__ import annotations

import time

import pytest
from onnx import TensorProto, helper

from tests.unit.graph.models import branch, chain, info, view_of
from trt_lab import zoo
from trt_lab.graph import GraphView, search
from trt_lab.graph.search import shape_text


@pytest.fixture(scope="module")
def view() -> GraphView:
    return GraphView.of(zoo.get("l2norm_overflow").model)


def test_equal_id_comes_first_then_nodes_before_tensors(view: GraphView) -> None:
    hits = search(view, "/mul")
    assert [(hit.kind, hit.id) for hit in hits] == [("node", "/Mul"), ("tensor", "/Mul_output_0")]
    assert hits[0].detail == "Mul" and hits[1].detail == "float32 N×24×64×64"


def test_every_word_counts_and_case_does_not(view: GraphView) -> None:
    hits = search(view, "C.0 conv")
    assert hits and all("c.0" in hit.id.lower() and "conv" in hit.id.lower() for hit in hits)
    assert hits[0].id == "/c/c.0/Conv"


def test_operator_is_found_and_can_be_asked_for(view: GraphView) -> None:
    assert {hit.id for hit in search(view, "type:ReduceSum")} == {"/ReduceSum"}
    assert len(search(view, "type:conv", limit=100)) == 9
    assert search(view, "type:Con /c/")[0].id.startswith("/c/")
    assert search(view, "reduces")[0].id == "/ReduceSum"


def test_scopes_are_found(view: GraphView) -> None:
    hits = [hit for hit in search(view, "/a") if hit.kind == "scope"]
    assert (hits[0].id, hits[0].detail) == ("/a", "8 nodes")


def test_nothing_and_limits(view: GraphView) -> None:
    assert search(view, "") == [] and search(view, "   ") == [] and search(view, "nosuchthing") == []
    assert len(search(view, "a", limit=3)) == 3 and search(view, "a", limit=0) == []


def test_nodes_inside_branches_are_found() -> None:
    then = branch([helper.make_node("Squeeze", ["x"], ["r"], name="sq")], "r")
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=then, name="if0")
    view = view_of([node], [info("c", [], TensorProto.BOOL), info("x", [1, 4])], [info("y", None)])
    hits = search(view, "type:Squeeze")
    assert [(hit.id, hit.graph, hit.detail) for hit in hits] == [
        ("if0/then/sq", "if0/then", "Squeeze in if0/then"),
        ("if0/else/sq", "if0/else", "Squeeze in if0/else"),
    ]


def test_large_model_is_searched_quickly() -> None:
    view = chain(20_000, lambda i: f"/blk.{i // 10}/relu_{i % 10}")
    view.scopes()
    start = time.process_time()
    hits = search(view, "blk.1999/relu_7")
    assert time.process_time() - start < 0.5
    assert hits[0].id == "/blk.1999/relu_7"


def test_shapes_as_text() -> None:
    assert [shape_text(s) for s in (None, (), (1, "N", None))] == ["?", "scalar", "1×N×?"]
