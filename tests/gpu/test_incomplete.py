"""A TensorRT without the kernels of this GPU: everything but the build works, and the build says why in one line.

Run with such a library on the path and TRT_LAB_INCOMPLETE=1 (the PTX-only archives of 10.15 and 11.2 on sm_90).
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from trt_lab import backends

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(os.environ.get("TRT_LAB_INCOMPLETE") != "1", reason="TRT_LAB_INCOMPLETE is not 1"),
]

_STEPS = """
import sys
sys.path.insert(0, "")
from tests.gpu import models
from trt_lab import backends
from trt_lab.backends.tensorrt.build import prepare
from trt_lab.backends.tensorrt.log import collect, logger
from trt_lab.backends.tensorrt.network import parse
from trt_lab.backends.tensorrt.versions import load
from trt_lab.errors import TrtLabError
from trt_lab.types import BuildOptions, PrecisionPlan
library = load("tensorrt")
options = BuildOptions(backend="tensorrt", plan=PrecisionPlan("fp16"), profile_runs=0)
prepared = prepare(library, models.matmul(), options)
try:
    with collect(library) as log:
        builder = library.module.Builder(logger(library))
        network = parse(library, prepared.realised.model, log, name="mm", strongly_typed=True, builder=builder)
        print("parsed", network.network.num_layers > 0)
except Exception as error:
    print("no builder:", type(error).__name__, error, log.errors())
try:
    built = backends.get("tensorrt").build(models.matmul(), options, lambda progress: None)
    print("built", len(built.layers))
except TrtLabError as error:
    print("refused", type(error).__name__, error)
"""


def test_doctor_works() -> None:
    info = backends.get("tensorrt").info()
    assert info.version
    assert info.details["gpus"]
    assert not info.can_build and "builder_resource" in info.reason


def test_parsing_works_and_the_build_says_what_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", _STEPS], capture_output=True, text=True, timeout=300, check=False)
    print(done.stdout, done.stderr[-2000:], done.returncode)
    assert done.returncode == 0
    if str(backends.get("tensorrt").info().version).startswith("10."):
        assert "parsed True" in done.stdout
    else:  # from 11 on not even a builder is made without them
        assert "no builder" in done.stdout
    said = [line for line in done.stdout.splitlines() if line.startswith("refused")]
    assert len(said) == 1
    assert "has no kernels for" in said[0]
    assert "builder_resource" in said[0]
