"""Records and comparisons as pandas DataFrames: columns declared, units in their names, missing is missing."""

from __future__ import annotations

from trt_lab.frames.diff import diff_frame
from trt_lab.frames.engine import engine_frame, lints_frame, reformats_frame, shapes_frame, shares_frame, splits_frame
from trt_lab.frames.kernels import kernels_frame
from trt_lab.frames.layer_map import layer_map_frame
from trt_lab.frames.layers import layers_frame
from trt_lab.frames.log import log_frame
from trt_lab.frames.node_times import engine_diff_frame, node_times_frame
from trt_lab.frames.sweep import sweep_frame
from trt_lab.frames.times import times_frame

__all__ = [
    "diff_frame",
    "engine_diff_frame",
    "engine_frame",
    "kernels_frame",
    "layer_map_frame",
    "layers_frame",
    "lints_frame",
    "log_frame",
    "node_times_frame",
    "reformats_frame",
    "shapes_frame",
    "shares_frame",
    "splits_frame",
    "sweep_frame",
    "times_frame",
]
