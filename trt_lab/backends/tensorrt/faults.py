"""A failed build or load in one readable message: what TensorRT's log says, and the way out."""

from __future__ import annotations

import re

from trt_lab.backends.tensorrt.log import BuildLog
from trt_lab.backends.tensorrt.network import first_error

RESOURCE_WORD = "builder_resource"
"""In the names of the libraries that hold the kernels."""

_RESOURCE = re.compile(rf"(\S*{RESOURCE_WORD}\S*)")
_NO_KERNEL = re.compile(
    r"(?:find any implementation for node|no implementation for) (\{.+?\}|.+?)(?=\.\s|\.?\)|\.?$| due)"
)
_MEMORY = re.compile(
    r"(?:[Rr]equested (?:amount of GPU memory \(|size of )|insufficient memory on requested size of )(\d+)"
)
_RANGE = re.compile(r"IOptimizationProfile|optimization profile", re.IGNORECASE)
_CUDA = re.compile(r"Cuda Runtime \(([^)]*)\)|CUDA error:? (\w+)|(CUDA_ERROR_\w+)")


def no_kernels(title: str, library: str, gpu: str = "") -> str:
    """The library with the kernels of a GPU is not there."""
    where = f" for {gpu}" if gpu else ""
    return (
        f"{title} has no kernels{where}: the library {library} is missing. Install the complete libraries of this "
        "version, or a version that has them"
    )


def explain_build(model: str, title: str, log: BuildLog, gpu: str = "") -> str:
    """Why `build_serialized_network` gave nothing."""
    cause = first_error(log)
    errors = " ".join(log.errors())
    resource = _RESOURCE.search(errors)
    if resource:
        return no_kernels(title, resource.group(1).strip("()[]'\",:;").rsplit("/", 1)[-1], gpu)
    hints = []
    needed = [int(size) for line in log.lines for size in _MEMORY.findall(line.message)]
    if needed:
        hints.append(f"the largest scratch memory asked for was {max(needed):,} bytes: raise the workspace limit")
    kernel = _NO_KERNEL.search(errors)
    if kernel:
        hints.append(
            f"no kernel for {kernel.group(1)[:200]}; fewer probes (each splits fused layers), another precision or a "
            "larger workspace can help"
        )
    elif _RANGE.search(errors):
        hints.append("check min, opt and max of the input shapes")
    cuda = _CUDA.search(errors)
    if cuda:
        hints.append(f"CUDA says {next(g for g in cuda.groups() if g)}")
    tail = "".join(f"\n{hint[0].upper()}{hint[1:]}." for hint in hints)
    return f"{model}: {title} could not build the engine: {cause}{tail}"


def explain_run(title: str, log: BuildLog) -> str:
    """Why an engine did not run."""
    return f"{title} could not run the engine: {first_error(log)}"
