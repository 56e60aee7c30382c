"""What the ONNX operator schemas say about types: which inputs and outputs may be float16 or bfloat16.

A position of a node is *lowerable* when its schema, at the model's opset, takes both float and the low
type there, and when the type is free: a size, a scale of Resize or of a quantiser is no data and stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import onnx

LowPrecision: TypeAlias = Literal["fp16", "bf16"]

TYPE_NAMES: dict[LowPrecision, str] = {"fp16": "float16", "bf16": "bfloat16"}

FIRST_IR_WITH_FREE_INITIALIZERS = 4
"""Before, every weight is listed as an input and yet is no input; from it on, one that is listed can be fed."""

FIRST_OPSET_WITH_BF16 = 13
"""The first at which Cast takes bfloat16."""

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
QUANTISED = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "ConvInteger",
        "MatMulInteger",
    }
)
TYPE_BLIND = frozenset({"Shape", "Size"})
"""Operators that read a tensor without reading its numbers: they take whatever type is there."""

OUTPUT_TYPE_ATTRIBUTE = {
    "Cast": "to",
    "EyeLike": "dtype",
    "ConstantOfShape": "value",
    "BlackmanWindow": "output_datatype",
    "HammingWindow": "output_datatype",
    "HannWindow": "output_datatype",
    "MelWeightMatrix": "output_datatype",
}
"""Operators whose output type is told by an attribute and by no input."""

_EXEMPT_INPUTS = {"Resize": {1: "roi", 2: "scales"}, "Upsample": {1: "scales"}}
_FP32_OUTPUTS = {"LayerNormalization": frozenset({1, 2})}  # Mean and InvStdDev follow stash_type, which is float
_REINTERPRETS = frozenset({"BitCast"})  # a bit pattern of 32 bits has no 16-bit form


@dataclass(frozen=True, slots=True)
class Positions:
    """Which positions of an operator are lowerable. The last flag counts for all that follow when `variadic`."""

    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    variadic_inputs: bool = False
    variadic_outputs: bool = False

    def input(self, index: int) -> bool:
        """Whether input `index` may be low."""
        return _at(self.inputs, self.variadic_inputs, index)

    def output(self, index: int) -> bool:
        """Whether output `index` may be low."""
        return _at(self.outputs, self.variadic_outputs, index)


def _at(flags: tuple[bool, ...], variadic: bool, index: int) -> bool:
    if index < len(flags):
        return flags[index]
    return bool(variadic and flags and flags[-1])


def exempt_input_name(op_type: str, domain: str, index: int) -> str | None:
    """Name of an input that is a size and no data (Resize `scales`, `roi`), or None."""
    return _EXEMPT_INPUTS.get(op_type, {}).get(index) if domain in ("", "ai.onnx") else None


@lru_cache(maxsize=4096)
def positions(op_type: str, domain: str, opset: int, low: LowPrecision) -> Positions | str:
    """Lowerable positions of an operator, or why it has none.

    Args:
        op_type: Operator, such as `Conv`.
        domain: Its domain; "" is ai.onnx.
        opset: Version of that domain which the model imports.
        low: The low precision asked for.

    Returns:
        The positions, or a sentence for the user that says why the node stays FP32.
    """
    family = _family_reason(op_type) if domain in ("", "ai.onnx") else None
    if family is not None:
        return family
    try:
        schema = onnx.defs.get_schema(op_type, opset, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return f"no schema of {domain or 'ai.onnx'}::{op_type} at opset {opset} is known, so its types cannot be told"
    wanted = {"tensor(float)", f"tensor({TYPE_NAMES[low]})"}
    exempt = _EXEMPT_INPUTS.get(op_type, {}) if domain in ("", "ai.onnx") else {}
    fp32_outputs = _FP32_OUTPUTS.get(op_type, frozenset())
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    found = Positions(
        tuple(wanted <= set(p.types) and i not in exempt for i, p in enumerate(schema.inputs)),
        tuple(wanted <= set(p.types) and i not in fp32_outputs for i, p in enumerate(schema.outputs)),
        bool(schema.inputs) and schema.inputs[-1].option == variadic,
        bool(schema.outputs) and schema.outputs[-1].option == variadic,
    )
    if any(found.inputs) or any(found.outputs):
        return found
    if low == "bf16" and opset < FIRST_OPSET_WITH_BF16 and domain in ("", "ai.onnx"):
        return f"opset {opset} cannot cast to bfloat16: raise the model's opset to {FIRST_OPSET_WITH_BF16} or more"
    return _no_low_type(op_type, domain, opset, low)


def _family_reason(op_type: str) -> str | None:
    if op_type in CONTROL_FLOW:
        return "control flow: its subgraphs compute in FP32"
    if op_type in RANDOM:
        return "random numbers: not comparable in any precision"
    if op_type in QUANTISED:
        return "quantisation: its scales decide its precision"
    if op_type in _REINTERPRETS:
        return "reads the bits of a 32-bit number"
    return None


def _no_low_type(op_type: str, domain: str, opset: int, low: LowPrecision) -> str:
    """Says from which opset on the operator takes the low type, if any does."""
    low_type = f"tensor({TYPE_NAMES[low]})"
    newest = onnx.defs.onnx_opset_version() if domain in ("", "ai.onnx") else opset
    for version in range(opset + 1, newest + 1):
        schema = onnx.defs.get_schema(op_type, version, domain)
        if any({"tensor(float)", low_type} <= set(p.types) for p in (*schema.inputs, *schema.outputs)):
            return f"{op_type} takes no {TYPE_NAMES[low]} before opset {version} (the model imports {opset})"
    return f"{op_type} takes no {TYPE_NAMES[low]}"
