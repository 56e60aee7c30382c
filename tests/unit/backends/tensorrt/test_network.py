"""What is said of models that the parser refuses or that are known not to build; needs no TensorRT."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.gpu.models import model as small
from tests.gpu.models import value
from trt_lab.backends.tensorrt.log import BuildLog
from trt_lab.backends.tensorrt.network import ParserFault, double_note, explain_faults, parse, refuse_early
from trt_lab.backends.tensorrt.versions import Library
from trt_lab.errors import BuildError
from trt_lab.graph import GraphView
from trt_lab.model import Model


def refused(model: Model) -> str:
    with pytest.raises(BuildError) as caught:
        refuse_early(model)
    return str(caught.value)


def fault(index: int, node: str, operator: str, description: str) -> ParserFault:
    return ParserFault(index, node, operator, "ModelImporter.cpp:826 parseNode", description)


# --- C14 -------------------------------------------------------------------------------


def test_c14_strings_are_named_with_the_way_out() -> None:
    node = helper.make_node("Identity", ["x"], ["y"], name="id")
    said = refused(small([node], [value("x", TensorProto.STRING, [2])], [value("y", TensorProto.STRING, [2])]))
    first, *others = said.splitlines()
    assert (
        "tensor 'x' (input) is string, which TensorRT cannot take: strings never reach TensorRT: cut the model" in first
    )
    assert others[0] == "1 more:"
    assert "tensor 'y' (made by 'id') is string" in others[1]


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (TensorProto.INT16, "cast it to int32 in the model"),
        (TensorProto.UINT32, "cast it to int64 in the model"),
        (TensorProto.COMPLEX64, "split it into real and imaginary part"),
    ],
)
def test_c14_other_types(kind: int, advice: str) -> None:
    node = helper.make_node("Identity", ["x"], ["y"], name="id")
    said = refused(small([node], [value("x", kind, [2])], [value("y", kind, [2])]))
    assert advice in said.splitlines()[0]


@pytest.mark.parametrize("kind", [TensorProto.DOUBLE, TensorProto.UINT8])
def test_c14_types_that_only_some_versions_refuse_are_left_to_the_parser(kind: int) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], name="cast", to=TensorProto.FLOAT)
    refuse_early(small([node], [value("x", kind, [2])], [value("y", TensorProto.FLOAT, [2])]))


def test_c14_double_is_computed_in_float_and_1e_300_becomes_0() -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    weights = numpy_helper.from_array(np.array([1e-300, 1e300, 1.0, 0.0]), "w")
    model = small([node], [value("x", TensorProto.DOUBLE, [4])], [value("y", TensorProto.DOUBLE, [4])], [weights])
    assert double_note(model) == (
        "TensorRT computes DOUBLE in FLOAT: 3 tensors, the first is 'x' ('w': 1 values become 0, 1 become infinite)"
    )
    relu = helper.make_node("Relu", ["x"], ["y"], name="relu")
    assert double_note(small([relu], [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, [4])])) == ""


def test_c14_uint8_inside_the_model() -> None:
    faults = [fault(0, "cast", "Cast", "legalUINT8: TensorRT does not support UINT8 types for intermediate tensors.")]
    said = explain_faults("m", GraphView.of(plugins()), faults, BuildLog()).splitlines()
    assert said[1] == "TensorRT takes UINT8 as input and output alone: cast it to INT32 or FLOAT right behind the input"


def test_c14_the_parser_refuses_a_type_of_an_input() -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"], name="add")
    model = small([node], [value("x", TensorProto.DOUBLE, [2])], [value("y", TensorProto.DOUBLE, [2])])
    faults = [fault(-1, "x", "", "Failed to convert ONNX data type: convertDtype(...)")]
    said = explain_faults("m", GraphView.of(model), faults, BuildLog()).splitlines()
    assert said[0].startswith("m: TensorRT's parser refuses 'x': Failed to convert ONNX data type")
    assert said[1] == "'x' is float64: cast it to a type that TensorRT takes"


# --- C15, C45 --------------------------------------------------------------------------


def plugins() -> Model:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="r0"),
        helper.make_node("LeakyThing", ["r"], ["s"], name="lt", domain="my.ops"),
        helper.make_node("LeakyThing", ["s"], ["t"], name="lt2", domain="my.ops"),
        helper.make_node("BiasGelu", ["t", "b"], ["y"], name="bg", domain="com.microsoft"),
    ]
    inputs = [value("x", TensorProto.FLOAT, [2]), value("b", TensorProto.FLOAT, [2])]
    return small(nodes, inputs, [value("y", TensorProto.FLOAT, [2])], domains=["my.ops", "com.microsoft"])


def test_c15_a_plugin_that_is_not_there() -> None:
    log = BuildLog()
    log.add("info", "Searching for plugin: LeakyThing, plugin_version: 1, plugin_namespace: my.ops")
    faults = [fault(1, "lt", "LeakyThing", "Plugin not found, are the plugin name, version, and namespace correct?")]
    said = explain_faults("m", GraphView.of(plugins()), faults, log).splitlines()
    assert said[0].startswith("m: TensorRT's parser refuses node 1 'lt' (LeakyThing): Plugin not found")
    assert said[1] == (
        "'LeakyThing' needs a plugin: looked for name LeakyThing, version 1, namespace 'my.ops'. "
        "Load the plugin's library before building, or register it under one of these"
    )
    assert said[2:] == [
        "operators outside the standard:",
        "  my.ops::LeakyThing × 2, first at 'lt'",
        "  com.microsoft::BiasGelu × 1, first at 'bg'",
    ]


def test_c15_what_is_looked_for_where_the_log_does_not_tell() -> None:
    faults = [fault(1, "lt", "LeakyThing", "No importer registered for op: LeakyThing in the plugin registry")]
    said = explain_faults("m", GraphView.of(plugins()), faults, BuildLog())
    assert "none is registered under name LeakyThing, version 1, namespace 'my.ops'" in said


def test_c15_an_operator_of_onnx_runtime() -> None:
    faults = [fault(3, "bg", "BiasGelu", "Plugin not found")]
    said = explain_faults("m", GraphView.of(plugins()), faults, BuildLog()).splitlines()
    assert said[1] == "'BiasGelu' was made by ONNX Runtime's optimiser: export the model before optimising it"


def test_c45_all_errors_in_order_the_first_one_first() -> None:
    faults = [fault(3, "bg", "BiasGelu", "first"), *(fault(i, f"n{i}", "Op", f"later {i}") for i in range(4, 40))]
    said = explain_faults("m", GraphView.of(plugins()), faults, BuildLog()).splitlines()
    assert "node 3 'bg' (BiasGelu): first [ModelImporter.cpp:826 parseNode]" in said[0]
    at = said.index("36 more, in order:")
    assert [line.split(":")[0] for line in said[at + 1 :]] == [f"  node {i} 'n{i}' (Op)" for i in range(4, 24)]


def test_c45_the_build_is_not_tried(fake_library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [
        SimpleNamespace(
            node=lambda: 1,
            desc=lambda: "Assertion failed: scale > 0: Scale coefficients must all be positive",
            node_name=lambda: "q",
            node_operator=lambda: "QuantizeLinear",
            file=lambda: "importers.cpp",
            line=lambda: 7,
            func=lambda: "import",
        ),
        SimpleNamespace(
            node=lambda: -1,
            desc=lambda: "Network must have at least one output",
            file=lambda: "",
            line=lambda: 0,
            func=lambda: "",
        ),
    ]
    parser = fake_library.module.OnnxParser
    monkeypatch.setattr(parser, "parse", lambda self, data: False)
    monkeypatch.setattr(parser, "num_errors", 2)
    monkeypatch.setattr(parser, "get_error", lambda self, i: errors[i], raising=False)
    builder = fake_library.module.Builder(None)
    with pytest.raises(BuildError) as caught:
        parse(fake_library, plugins(), BuildLog(), name="m", strongly_typed=True, builder=builder)
    said = str(caught.value).splitlines()
    assert said[0] == (
        "m: TensorRT's parser refuses node 1 'q' (QuantizeLinear): scale > 0: Scale coefficients must all be positive "
        "[importers.cpp:7 import]"
    )
    assert said[1].startswith("a quantise scale is 0 or negative; a channel whose weights are all 0")
    assert "Network must have at least one output" in said[-1]
    assert builder.built == 0


def test_c45_a_parser_without_a_reason_gives_the_first_of_the_log() -> None:
    log = BuildLog()
    log.add("error", "no such file")
    log.add("error", "Network must have at least one output")
    assert (
        explain_faults("m", GraphView.of(plugins()), [], log) == "m: TensorRT's parser refuses the model: no such file"
    )


# --- C16 -------------------------------------------------------------------------------


def branches(condition: str, other: Sequence[int] = (1, 4)) -> Model:
    axis = numpy_helper.from_array(np.array([0], np.int64), "axis")
    squeeze = helper.make_node("Squeeze", ["x", "axis"], ["t"], name="sq")
    then = helper.make_graph([squeeze], "then", [], [value("t", TensorProto.FLOAT, [4])], [axis])
    if len(other) == 1:
        nodes = [helper.make_node("Squeeze", ["x", "axis"], ["e"], name="sq2")]
        same = helper.make_graph(nodes, "else", [], [value("e", TensorProto.FLOAT, [4])], [axis])
    else:
        nodes = [helper.make_node("Identity", ["x"], ["e"], name="same")]
        same = helper.make_graph(nodes, "else", [], [value("e", TensorProto.FLOAT, list(other))])
    node = helper.make_node("If", [condition], ["y"], then_branch=then, else_branch=same, name="if0")
    inputs = [value("x", TensorProto.FLOAT, [1, 4])]
    if condition == "c":
        inputs.append(value("c", TensorProto.BOOL, []))
    fixed = numpy_helper.from_array(np.array(True), "fixed")
    return small([node], inputs, [value("y", TensorProto.FLOAT, None)], [fixed])


def test_c16_branches_of_different_ranks() -> None:
    said = refused(branches("c"))
    assert "If node 'if0', output 0: the branches give tensors of different ranks, (4,) in" in said
    assert "and (1, 4) in" in said
    assert "reshape one of them" in said


def test_c16_equal_ranks_and_constant_conditions_are_left_alone() -> None:
    refuse_early(branches("c", (4,)))
    refuse_early(branches("fixed"))
