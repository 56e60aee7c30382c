"""Reading and writing of tensors and samples: safetensors, .npz, Polygraphy JSON, folders.

A sample is a mapping from tensor name to array. Everything here is left of the model: it knows
files and arrays only.
"""

from __future__ import annotations

from trt_lab.tensors.dtypes import as_numpy_dtype, dtype_name, widened
from trt_lab.tensors.npz import read_npz, write_npz
from trt_lab.tensors.polygraphy_json import read_runs, write_polygraphy, write_polygraphy_inputs
from trt_lab.tensors.safe import read_safetensors, write_safetensors
from trt_lab.tensors.samples import Sample, open_samples, read_samples, write_samples
from trt_lab.tensors.streamed import TensorStream, streaming

__all__ = [
    "Sample",
    "TensorStream",
    "as_numpy_dtype",
    "dtype_name",
    "open_samples",
    "read_npz",
    "read_runs",
    "read_safetensors",
    "read_samples",
    "streaming",
    "widened",
    "write_npz",
    "write_polygraphy",
    "write_polygraphy_inputs",
    "write_safetensors",
    "write_samples",
]
