"""The record: all that one build and run left, on disk. Right of it nothing needs a GPU or TensorRT."""

from __future__ import annotations

from trt_lab.record.read import Record, is_record
from trt_lab.record.schema import RecordMeta
from trt_lab.record.write import write_record

__all__ = ["Record", "RecordMeta", "is_record", "write_record"]
