"""How long a large engine's layer JSON takes to be read, mapped and looked into.

Run from the checkout: `python -m tests.bench.layer_json [LAYERS]`. Prints seconds: reading, the frame, the lints.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trt_lab.frames import engine_frame
from trt_lab.profiling.lints import lints
from trt_lab.profiling.source import open_engine

REPEATS = 5


def layer(index: int) -> dict[str, Any]:
    """A convolution as TensorRT 10 tells it."""
    name = f"/block.{index}/conv/Conv + /block.{index}/act/Relu"
    shape = {"Location": "Device", "Dimensions": [-1, 32, 64, 64], "Format/Datatype": "Half"}
    return {
        "Name": name, "LayerType": "CaskConvolution", "Inputs": [{"Name": f"t{index}", **shape}],
        "Outputs": [{"Name": f"t{index + 1}", **shape}], "ParameterType": "Convolution", "Kernel": [3, 3],
        "PrePadding": [1, 1], "PostPadding": [1, 1], "Stride": [1, 1], "Dilation": [1, 1], "OutMaps": 32, "Groups": 1,
        "Weights": {"Type": "Half", "Count": 9216}, "Bias": {"Type": "Half", "Count": 32}, "Activation": "RELU",
        "TacticName": "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tensor16x8x16",
        "TacticValue": "0x3e7eb35b91b9fa63", "StreamId": 0,
        "Metadata": f"[ONNX Layer: /block.{index}/conv/Conv]\x1e[ONNX Layer: /block.{index}/act/Relu]",
    }  # fmt: skip


def best(call: Callable[[], object]) -> float:
    """Seconds of the quickest of some calls."""
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    """Prints the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        layers = [layer(index) for index in range(count)]
        file = Path(folder) / "big.layers.json"
        file.write_text(json.dumps({"Layers": layers, "Bindings": ["t0", f"t{count}"]}))
        rows = [{"name": item["Name"], "timeMs": 0.1, "averageMs": 0.01, "medianMs": 0.01} for item in layers]
        profile = Path(folder) / "times.json"
        profile.write_text(json.dumps([{"count": 10}, *rows]))
        engine = open_engine(file, profile=profile)
        print(f"{count} layers, {file.stat().st_size / 1e6:.1f} MB")
        print(f"reading            {best(lambda: open_engine(file)):.2f} s")
        print(f"reading, profile   {best(lambda: open_engine(file, profile=profile)):.2f} s")
        print(f"frame              {best(lambda: engine_frame(engine)):.2f} s")
        print(f"lints              {best(lambda: lints(engine)):.2f} s")


if __name__ == "__main__":
    main()
