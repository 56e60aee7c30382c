"""What ONNX Runtime says when it refuses, in one line that names the node or tensor and says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

from trt_lab.backends.onnxruntime.layers import Given
from trt_lab.types import NodeId

_CODE = re.compile(r"^\[ONNXRuntimeError\]\s*:\s*\d+\s*:\s*\w+\s*:\s*")
_INLINED = re.compile(r"^_inlfunc_.+?_(?=.)")
_TRACE = re.compile(r"Stacktrace:.*", re.DOTALL)

Rule = tuple[re.Pattern[str], Callable[[re.Match[str], Given], str]]


def explain(error: BaseException, given: Given) -> str:
    """The message for people.

    Args:
        error: As ONNX Runtime raised it.
        given: The graph it was given.
    """
    text = " ".join(_TRACE.sub("", str(error)).split())
    for pattern, write in _RULES:
        match = pattern.search(text)
        if match is not None:
            return write(match, given)
    bare = _CODE.sub("", text)
    return f"ONNX Runtime: {bare[:400] or type(error).__name__}; check the model with `trt-lab check`"


def _node(name: str, given: Given) -> str:
    name = _id_of(name, given)
    owner = given.origin.get(name, name)
    return f"node '{name}'" if owner == name else f"node '{owner}' (as '{name}' in the engine)"


def _id_of(name: str, given: Given) -> NodeId:
    """ONNX Runtime puts the function's name before nodes of inlined functions."""
    bare = _INLINED.sub("", name)
    return NodeId(bare if name not in given.view.nodes and bare in given.view.nodes else name)


def _inputs(name: str, given: Given) -> str:
    """The types that a node reads, as ` of float32 and int64`."""
    node = given.view.nodes.get(_id_of(name, given))
    kinds = [given.view.tensors[tensor].dtype or "?" for tensor in node.inputs if tensor is not None] if node else []
    return f" of {' and '.join(dict.fromkeys(kinds))}" if kinds else " of these types"


_RULES: tuple[Rule, ...] = (
    (
        re.compile(
            r'In Node, \("(?P<node>.*?)", (?P<op>.+?), "(?P<domain>.*?)", -?\d+\) : .*? ?, Error No Op registered for .+? with domain_version of (?P<version>\d+)'
        ),
        lambda m, g: (
            f"{_node(m['node'], g)}: ONNX Runtime has no operator '{m['op']}' in opset {m['version']} of "
            f"{m['domain'] or 'ai.onnx'}; correct its name, raise the model's opset, or replace it by standard operators"
        ),
    ),
    (
        re.compile(
            r'In Node, \("(?P<node>.*?)", (?P<op>.+?), "(?P<own>.*?)", -?\d+\) : .*?, Error No opset import for domain \'?(?P<domain>[^\']*?)\'?(?: |$)'
        ),
        lambda m, g: (
            f"{_node(m['node'], g)}: its operator '{m['op']}' is of the domain '{m['domain']}', which ONNX Runtime does not "
            "know and the model does not import; replace it by standard operators, or cut the model before it"
        ),
    ),
    (
        re.compile(r"(?P<domain>\S+):(?P<op>\S+?)\(-?\d+\) is not a registered function/op"),
        lambda m, g: (
            f"ONNX Runtime does not know the operator '{m['op']}' of the domain '{m['domain']}'; replace it by standard "
            "operators, or cut the model before it"
        ),
    ),
    (
        re.compile(
            r"Opset (?P<version>\d+) is under development.*?(?:Current official support for domain (?P<domain>\S+) is till opset (?P<last>\d+))?"
        ),
        lambda m, g: (
            f"the model uses opset {m['version']}, newer than this ONNX Runtime supports"
            + (f" ({m['last']})" if m["last"] else "")
            + "; export it with a lower opset, or upgrade onnxruntime"
        ),
    ),
    (
        re.compile(r"Node ?\((?P<node>.*?)\) Op ?\((?P<op>.*?)\) \[(?P<kind>\w+)\] ?(?P<why>.*)"),
        lambda m, g: (
            f"{_node(m['node'], g)} ({m['op']}): {_sentence(m['why'])}; check the shapes and types of its inputs"
        ),
    ),
    (
        re.compile(
            r"Could not find an implementation for (?P<op>\w+)\((?P<version>\d+)\) node with name '(?P<node>.*?)'"
        ),
        lambda m, g: (
            f"{_node(m['node'], g)}: ONNX Runtime on the CPU cannot compute {m['op']} (opset {m['version']}){_inputs(m['node'], g)}; "
            "cast its inputs to float32, or build it with TensorRT"
        ),
    ),
    (
        re.compile(
            r"Initializer '(?P<name>.*?)': raw_data size \((?P<there>\d+) bytes\) does not match expected size.*?\((?P<need>\d+) bytes\)"
        ),
        lambda m, g: (
            f"weight '{m['name']}': {m['need']} bytes needed, {m['there']} there"
            + ("; the model was saved without its weights" if m["there"] == "0" else "")
            + ", export it again with them"
        ),
    ),
    (
        re.compile(
            r"Type '(?P<type>.*?)' of (?P<side>input|output) parameter \((?P<tensor>.*?)\) of operator \((?P<op>.*?)\) in node \((?P<node>.*?)\) is invalid"
        ),
        lambda m, g: (
            f"{_node(m['node'], g)} ({m['op']}): its {m['side']} '{m['tensor']}' is {_bare(m['type'])}, which the operator does "
            "not take; put a Cast before it"
        ),
    ),
    (
        re.compile(
            r"Type parameter \((?P<param>\w+)\) of Optype \((?P<op>.*?)\) bound to different types \((?P<a>\S+) and (?P<b>\S+?)\)? in node \((?P<node>.*?)\)"
        ),
        lambda m, g: (
            f"{_node(m['node'], g)} ({m['op']}): its inputs mix {_bare(m['a'])} and {_bare(m['b'])}; "
            "cast them to one type"
        ),
    ),
    (
        re.compile(
            r"Type \((?P<found>tensor\(.*?\))\) of output arg \((?P<tensor>.*?)\) of node \((?P<node>.*?)\) does not match expected type \((?P<want>.*?\))\)"
        ),
        lambda m, g: (
            f"{_node(m['node'], g)}: its output '{m['tensor']}' is declared {_bare(m['found'])} but is {_bare(m['want'])}; "
            "correct the declared type"
        ),
    ),
    (
        re.compile(
            r"Non-zero status code returned while running (?P<op>\S+) node\. Name:'(?P<node>.*?)' Status Message: (?P<why>.*)"
        ),
        lambda m, g: (
            f"{_node(m['node'], g)} ({m['op']}) failed: {_sentence(m['why'])}; check the shapes and values of the sample"
        ),
    ),
    (
        re.compile(r"Invalid rank for input: (?P<tensor>\S+) Got: (?P<got>\d+) Expected: (?P<want>\d+)"),
        lambda m, g: (
            f"input '{m['tensor']}' has {m['got']} dimensions, the model takes {m['want']}; reshape the sample"
        ),
    ),
    (
        re.compile(
            r"Got invalid dimensions for input: (?P<tensor>\S+) for the following indices index: (?P<axis>\d+) Got: (?P<got>\d+) Expected: (?P<want>\d+)"
        ),
        lambda m, g: (
            f"input '{m['tensor']}': axis {m['axis']} has size {m['got']}, the model takes {m['want']}; reshape the sample"
        ),
    ),
    (
        re.compile(r"Unexpected input data type\. Actual: \((?P<got>.*?\))\) , expected: \((?P<want>.*?\))\)"),
        lambda m, g: f"an input is {_bare(m['got'])}, the model takes {_bare(m['want'])}; convert the sample",
    ),
    (
        re.compile(r"bad_alloc|Failed to allocate memory|bad allocation", re.IGNORECASE),
        lambda m, g: "out of memory; use smaller shapes, fewer probes or a machine with more memory",
    ),
)


def _bare(kind: str) -> str:
    """`tensor(float)` as `float32`."""
    inner = kind.removeprefix("tensor(").rstrip(")")
    return {"float": "float32", "double": "float64"}.get(inner, inner)


def _sentence(text: str) -> str:
    """The reason without the place in ONNX Runtime's own source."""
    text = re.sub(r"^\S+\.(?:cc|h|cpp):\d+ .*?\)\s*(?=\S)", "", text)
    text = re.sub(r"\S+\.(?:cc|h|cpp):\d+ \S+ ", "", text)
    return text.strip().rstrip(".;")[:300]
