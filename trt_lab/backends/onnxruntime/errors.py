"""What ONNX Runtime says when it refuses, in one line that names the node or tensor and says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_CODE = re.compile(r"^\[ONNXRuntimeError\]\s*:\s*\d+\s*:\s*\w+\s*:\s*")
_SOURCE = re.compile(r"^(?:[\w./\\]+\.(?:cc|h):\d+\s+\S.*?\)?\s+)(?=\[|[A-Z])")
_TRACE = re.compile(r"Stacktrace:.*", re.DOTALL)

Rule = tuple[re.Pattern[str], Callable[[re.Match[str], Mapping[str, str]], str]]


def explain(error: BaseException, origin: Mapping[str, str]) -> str:
    """The message for people.

    Args:
        error: As ONNX Runtime raised it.
        origin: Name of a node made by the emulation → the user's node it belongs to.
    """
    text = " ".join(_TRACE.sub("", str(error)).split())
    for pattern, write in _RULES:
        match = pattern.search(text)
        if match is not None:
            return write(match, origin)
    bare = _CODE.sub("", text)
    return f"ONNX Runtime: {bare[:400] or type(error).__name__}; check the model with `trt-lab check`"


def _node(name: str, origin: Mapping[str, str]) -> str:
    owner = origin.get(name)
    return f"node '{name}'" if owner is None else f"node '{owner}' (its cast '{name}')"


_RULES: tuple[Rule, ...] = (
    (
        re.compile(
            r'In Node, \("(?P<node>.*?)", (?P<op>.+?), "(?P<domain>.*?)", -?\d+\) : .*? ?, Error No Op registered for .+? with domain_version of (?P<version>\d+)'
        ),
        lambda m, o: (
            f"{_node(m['node'], o)}: ONNX Runtime has no operator '{m['op']}' in opset {m['version']} of "
            f"{m['domain'] or 'ai.onnx'}; correct its name, raise the model's opset, or replace it by standard operators"
        ),
    ),
    (
        re.compile(
            r'In Node, \("(?P<node>.*?)", (?P<op>.+?), "(?P<own>.*?)", -?\d+\) : .*?, Error No opset import for domain \'?(?P<domain>[^\']*?)\'?(?: |$)'
        ),
        lambda m, o: (
            f"{_node(m['node'], o)}: its operator '{m['op']}' is of the domain '{m['domain']}', which ONNX Runtime does not "
            "know and the model does not import; replace it by standard operators, or cut the model before it"
        ),
    ),
    (
        re.compile(r"(?P<domain>\S+):(?P<op>\S+?)\(-?\d+\) is not a registered function/op"),
        lambda m, o: (
            f"ONNX Runtime does not know the operator '{m['op']}' of the domain '{m['domain']}'; replace it by standard "
            "operators, or cut the model before it"
        ),
    ),
    (
        re.compile(
            r"Opset (?P<version>\d+) is under development.*?(?:Current official support for domain (?P<domain>\S+) is till opset (?P<last>\d+))?"
        ),
        lambda m, o: (
            f"the model uses opset {m['version']}, newer than this ONNX Runtime supports"
            + (f" ({m['last']})" if m["last"] else "")
            + "; export it with a lower opset, or upgrade onnxruntime"
        ),
    ),
    (
        re.compile(r"Node ?\((?P<node>.*?)\) Op ?\((?P<op>.*?)\) \[(?P<kind>\w+)\] ?(?P<why>.*)"),
        lambda m, o: (
            f"{_node(m['node'], o)} ({m['op']}): {_sentence(m['why'])}; check the shapes and types of its inputs"
        ),
    ),
    (
        re.compile(
            r"Could not find an implementation for (?P<op>\w+)\((?P<version>\d+)\) node with name '(?P<node>.*?)'"
        ),
        lambda m, o: (
            f"{_node(m['node'], o)}: ONNX Runtime on the CPU cannot compute {m['op']} (opset {m['version']}) for these types; "
            "cast its inputs to float32, or build it with TensorRT"
        ),
    ),
    (
        re.compile(
            r"Initializer '(?P<name>.*?)': raw_data size \((?P<there>\d+) bytes\) does not match expected size.*?\((?P<need>\d+) bytes\)"
        ),
        lambda m, o: (
            f"weight '{m['name']}': {m['need']} bytes needed, {m['there']} there"
            + ("; the model was saved without its weights" if m["there"] == "0" else "")
            + ", export it again with them"
        ),
    ),
    (
        re.compile(
            r"Type '(?P<type>.*?)' of (?P<side>input|output) parameter \((?P<tensor>.*?)\) of operator \((?P<op>.*?)\) in node \((?P<node>.*?)\) is invalid"
        ),
        lambda m, o: (
            f"{_node(m['node'], o)} ({m['op']}): its {m['side']} '{m['tensor']}' is {_bare(m['type'])}, which the operator does "
            "not take; put a Cast before it"
        ),
    ),
    (
        re.compile(
            r"Type parameter \((?P<param>\w+)\) of Optype \((?P<op>.*?)\) bound to different types \((?P<a>\S+) and (?P<b>\S+?)\)? in node \((?P<node>.*?)\)"
        ),
        lambda m, o: (
            f"{_node(m['node'], o)} ({m['op']}): its inputs mix {_bare(m['a'])} and {_bare(m['b'])}; "
            "cast them to one type"
        ),
    ),
    (
        re.compile(
            r"Type \((?P<found>tensor\(.*?\))\) of output arg \((?P<tensor>.*?)\) of node \((?P<node>.*?)\) does not match expected type \((?P<want>.*?\))\)"
        ),
        lambda m, o: (
            f"{_node(m['node'], o)}: its output '{m['tensor']}' is declared {_bare(m['found'])} but is {_bare(m['want'])}; "
            "correct the declared type"
        ),
    ),
    (
        re.compile(
            r"Non-zero status code returned while running (?P<op>\S+) node\. Name:'(?P<node>.*?)' Status Message: (?P<why>.*)"
        ),
        lambda m, o: (
            f"{_node(m['node'], o)} ({m['op']}) failed: {_sentence(m['why'])}; check the shapes and values of the sample"
        ),
    ),
    (
        re.compile(r"Invalid rank for input: (?P<tensor>\S+) Got: (?P<got>\d+) Expected: (?P<want>\d+)"),
        lambda m, o: (
            f"input '{m['tensor']}' has {m['got']} dimensions, the model takes {m['want']}; reshape the sample"
        ),
    ),
    (
        re.compile(
            r"Got invalid dimensions for input: (?P<tensor>\S+) for the following indices index: (?P<axis>\d+) Got: (?P<got>\d+) Expected: (?P<want>\d+)"
        ),
        lambda m, o: (
            f"input '{m['tensor']}': axis {m['axis']} has size {m['got']}, the model takes {m['want']}; reshape the sample"
        ),
    ),
    (
        re.compile(r"Unexpected input data type\. Actual: \((?P<got>.*?\))\) , expected: \((?P<want>.*?\))\)"),
        lambda m, o: f"an input is {_bare(m['got'])}, the model takes {_bare(m['want'])}; convert the sample",
    ),
    (
        re.compile(r"bad_alloc|Failed to allocate memory|bad allocation", re.IGNORECASE),
        lambda m, o: "out of memory; use smaller shapes, fewer probes or a machine with more memory",
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
