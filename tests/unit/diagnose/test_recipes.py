"""Plans in the words of other tools."""

from __future__ import annotations

import re
import shlex

from trt_lab.diagnose.recipes import recipes
from trt_lab.types import NodeId


def test_each_tool_gets_the_nodes_in_its_own_words() -> None:
    keep = [NodeId("/a.0/Mul"), NodeId("/b c/Div"), NodeId("odd:1")]
    found = recipes("my model.onnx", "bf16", keep)
    words = shlex.split(found["autocast"])
    patterns = words[words.index("--nodes_to_exclude") + 1 :]
    assert len(patterns) == 3 and all(re.fullmatch(p, n) for p, n in zip(patterns, keep, strict=True))
    assert not re.fullmatch(patterns[0], "/aX0/Mul"), "a dot is a dot"
    assert "--layerPrecisions=/a.0/Mul:fp32,/b c/Div:fp32" in shlex.split(found["trtexec"])
    assert "--bf16" in shlex.split(found["trtexec"])
    assert shlex.split(found["polygraphy"])[-4:-2] == ["/a.0/Mul:float32", "/b c/Div:float32"]
    assert "my model.onnx" in shlex.split(found["polygraphy"])


def test_nothing_kept_needs_no_recipe() -> None:
    assert recipes("m.onnx", "fp16", []) == {}
    assert list(recipes("m.onnx", "fp16", [NodeId("a:b")])) == ["autocast"]
