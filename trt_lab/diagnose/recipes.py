"""The same plan in the words of other tools."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from trt_lab.types import NodeId, Precision


def recipes(model: str, low: Precision, keep: Sequence[NodeId]) -> dict[str, str]:
    """Command lines that keep the same nodes in FP32, by name of the tool.

    `autocast` (NVIDIA ModelOpt) rewrites the ONNX, for strongly typed engines of any TensorRT. Version 0.47 makes the
    same casts as the region that was tried, on graphs without If and Loop. `trtexec` and
    `polygraphy` ask weakly typed engines of TensorRT up to 10 for types by layer: look at the types that the engine has
    after that; names of layers that were fused match nothing. Nodes whose names hold a comma or colon
    cannot be named to trtexec and are left out there.

    Args:
        model: Path of the ONNX file.
        keep: Empty gives no recipes.
    """
    if not keep or low == "fp32":
        return {}
    asked = [node for node in keep if not re.search(r"[,:]", node)]
    exclude = " ".join(shlex.quote(f"^{re.escape(node)}$") for node in keep)
    found = {
        "autocast": f"python -m modelopt.onnx.autocast --onnx_path {shlex.quote(model)} --low_precision_type {low} "
        f"--nodes_to_exclude {exclude}"
    }
    if asked:
        layers = ",".join(f"{node}:fp32" for node in asked)
        found["trtexec"] = (
            f"trtexec --onnx={shlex.quote(model)} --{low} --precisionConstraints=obey --layerPrecisions={shlex.quote(layers)}"
        )
    named = " ".join(shlex.quote(f"{node}:float32") for node in asked)
    if named:
        found["polygraphy"] = (
            f"polygraphy convert {shlex.quote(model)} --{low} --precision-constraints obey --layer-precisions {named} "
            "-o engine.plan"
        )
    return found
