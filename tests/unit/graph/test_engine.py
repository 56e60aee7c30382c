"""The layers of an engine as a graph."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import CHECKOUT
from trt_lab.errors import ModelError
from trt_lab.graph.engine import engine_view
from trt_lab.graph.layout import layout
from trt_lab.record import Record
from trt_lab.types import LayerInfo, LayerTensor, NodeId

GPU = CHECKOUT / "tests" / "data" / "gpu"


def layer(index: int, reads: tuple[str, ...], makes: tuple[str, ...], *nodes: str, type: str = "Conv") -> LayerInfo:
    tensors = [tuple(LayerTensor(name, "float16", (1, 8)) for name in names) for names in (reads, makes)]
    found = tuple(NodeId(node) for node in nodes)
    return LayerInfo(
        index, f"layer {index}", type, tensors[0], tensors[1], nodes=found, precision="float16", tactic="t"
    )


def test_layers_follow_their_tensors_in_the_scope_of_their_nodes() -> None:
    shown = engine_view(
        [
            layer(0, ("x", "weights"), ("t",), "/a/b/Conv", "/a/Relu"),
            layer(7, ("t",), ("y",), "/c/Add"),
        ],
        "engine",
        given={"x"},
    )
    first, second = shown.ids[0], shown.ids[7]
    assert (first, second) == ("/a/0 Conv + Relu", "/c/7 Add")
    assert shown.indices[second] == 7
    assert shown.view.successors(first) == (second,)
    assert shown.view.inputs == ("x",) and shown.view.outputs == ("y",)
    node = shown.view.nodes[first]
    assert (node.op_type, node.scope, node.attributes["constants read"]) == ("Conv", "/a", "1")
    tensor = shown.view.tensor("t")
    assert (tensor.dtype, tensor.shape) == ("float16", (1, 8))


def test_a_tensor_written_in_parts_is_read_from_all_who_wrote_it() -> None:
    shown = engine_view(
        [
            layer(0, ("x",), ("joined",)),
            layer(1, ("x",), ("joined",)),
            layer(2, ("joined",), ("joined",)),
            layer(3, ("joined",), ("y",)),
        ],
        "engine",
        given={"x"},
    )
    ids = shown.ids
    assert shown.view.predecessors(ids[2]) == (ids[0], ids[1])
    assert shown.view.predecessors(ids[3]) == (ids[2],)


def test_without_known_inputs_only_myelins_own_tensors_are_left_out() -> None:
    shown = engine_view([layer(0, ("x", "__mye12_dconst", "proxy___mye3.1"), ("y",))], "engine")
    assert shown.view.inputs == ("x",)


def test_no_layers_are_refused_and_lonely_ones_shown() -> None:
    with pytest.raises(ModelError, match="no nodes"):
        engine_view([], "engine")
    shown = engine_view([layer(0, (), (), type="shape_call"), layer(1, (), (), type="")], "engine")
    assert [node.op_type for node in shown.view.nodes.values()] == ["shape_call", "layer"]


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("abcxyz"), max_size=3),
            st.lists(st.sampled_from("abcdz"), max_size=2, unique=True),
            st.lists(st.text(min_size=1, max_size=12), max_size=3),
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(deadline=None)
def test_any_layers_make_a_graph_that_can_be_laid_out(parts: list[tuple[list[str], list[str], list[str]]]) -> None:
    layers = [layer(i, tuple(reads), tuple(makes), *nodes) for i, (reads, makes, nodes) in enumerate(parts)]
    shown = engine_view(layers, "engine", given={"x"})
    assert len(shown.indices) == len(layers)
    assert layout(shown.view).ids
    order = list(shown.view.nodes)
    assert [shown.indices[node] for node in order] == list(range(len(layers)))


@pytest.mark.parametrize("name", ["encoder4-fp16", "ppocr_det-fp32", "qdq_conv-int8", "magika-reference"])
def test_engines_of_records_are_laid_out_whole(name: str) -> None:
    record = Record.open(GPU / f"{name}.trtlab")
    shown = engine_view(record.layers, name)
    assert set(shown.ids) == {layer.index for layer in record.layers}
    everything = frozenset(node.scope for node in shown.view.nodes.values())
    assert layout(shown.view, everything).ids
