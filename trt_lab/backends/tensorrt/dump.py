"""The `Layers:` message at the end of a VERBOSE build log: the engine's layers where no engine can be loaded.

One line a layer, without quotes: `Name: …, LayerType: …, Inputs: [ { Name: …, … }], Constants: [ … ],
Outputs: [ … ], TacticName: …, StreamId: 0, Metadata: …`. Names may hold commas and brackets, so fields are
found by their keys and in their order. The result is a layer file of the TensorRT 11 dialect.
"""

from __future__ import annotations

import re

from trt_lab.types import JsonValue

_LAYER = re.compile(
    r"^Name: (?P<name>.*?), LayerType: (?P<kind>[^,]*), Inputs: \[(?P<inputs>.*?)\]"
    r"(?:, Constants: \[(?P<constants>.*?)\])?"
    r", Outputs: \[(?P<outputs>.*?)\](?P<rest>(?:, (?:Tactic\w+|StreamId|Metadata): .*)?)$",
    re.DOTALL,
)
_TENSOR = re.compile(
    r"\{ Name: (?P<name>.*?), (?:Location: (?P<location>[^,]*), )?Dimensions: \[(?P<dims>[^\]]*)\]"
    r"(?:, Strides: \[(?P<strides>[^\]]*)\])?(?:, StrideOrder: \[[^\]]*\])?"
    r"(?:, Datatype: (?P<kind>[^,}]*?))?(?:, Format(?:/Datatype)?: (?P<format>[^{}]*?))?(?=, \w+: | \})[^{}]*\}",
    re.DOTALL,
)
_BINDING = re.compile(
    r"^\s*Name: (?P<name>.*), IOMode: (?P<mode>\w+), DataType: (?P<kind>\w+), Dimensions: \[(?P<dims>[^\]]*)\], "
    r"Location: (?P<location>\w+)"
)
_FIELD = re.compile(r", (TacticName|TacticValue|StreamId|Metadata): ")


def parse_dump(text: str) -> dict[str, JsonValue]:
    """The message as `{"Layers": [...], "I/O Tensors": [...]}`, to be read by `engine_json.layers_from`.

    Lines that are no layer are left out; so the result has no layer when the message has another form.
    """
    body, _, tail = text.partition("\nI/O Tensors:")
    layers: list[JsonValue] = []
    for line in re.split(r"\n(?=Name: )", body.removeprefix("Layers:").strip("\n")):
        found = _LAYER.match(line.strip("\n"))
        if found:
            layers.append(_layer(found))
    bindings: list[JsonValue] = [_binding(m) for line in tail.splitlines() if (m := _BINDING.match(line))]
    return {"Layers": layers, "I/O Tensors": bindings}


def _layer(found: re.Match[str]) -> JsonValue:
    layer: dict[str, JsonValue] = {
        "Name": found["name"],
        "LayerType": found["kind"],
        "Inputs": _tensors(found["inputs"]),
        "Outputs": _tensors(found["outputs"]),
        "Constants": _tensors(found["constants"] or ""),
    }
    parts = _FIELD.split(found["rest"])
    for key, value in zip(parts[1::2], parts[2::2], strict=True):
        layer[key] = int(value) if key == "StreamId" and value.strip().isdigit() else value
    return layer


def _tensors(text: str) -> list[JsonValue]:
    return [
        {
            "Name": m["name"],
            "Dimensions": _sizes(m["dims"]),
            "Datatype": m["kind"],
            "Format": m["format"],
            "Location": m["location"],
        }
        for m in _TENSOR.finditer(text)
    ]


def _binding(found: re.Match[str]) -> JsonValue:
    return {
        "Name": found["name"],
        "IOMode": found["mode"],
        "DataType": found["kind"],
        "Dimensions": _sizes(found["dims"]),
        "Location": found["location"],
    }


def _sizes(text: str) -> list[JsonValue]:
    return [int(part) for part in re.findall(r"-?\d+", text)]
