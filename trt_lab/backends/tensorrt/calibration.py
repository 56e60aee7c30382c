"""Calibration caches of TensorRT, read and written without it.

The file is text. Its first line is `TRT-VERSION-ALGORITHM`, such as `TRT-100600-EntropyCalibration2`; each further line is
`TENSOR: HEX`, the bits of a float32, highest byte first, without leading zeros. That number is the scale: the largest
magnitude over 127 (the reader of ONNX Runtime's TensorRT provider multiplies by 127 to get the dynamic range). `0`
stands for a tensor without one. Weakly typed TensorRT up to 10 takes it (`trtexec --int8 --calib=FILE`); 11 has no calibrators.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trt_lab.errors import RecordError

LEVELS = 127.0
"""Largest quantised number: the scale is the largest magnitude over this."""

ALGORITHM = "EntropyCalibration2"
"""TensorRT asks a calibrator for its algorithm and reads caches of that name only; this is the usual one."""

VERSION = "100600"
"""TensorRT 10.6.0. Others re-calibrate when the version differs from their own."""

_HEADER = re.compile(r"TRT-(\d+)-(\w+)")
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class CalibrationCache:
    """Scales by tensor.

    Attributes:
        scales: Tensor → scale, in the order of the file. Tensors without one are left out.
        without: Tensors that the file gives no scale.
        version: Digits as TensorRT writes them.
        notes: What is odd, one line each.
    """

    scales: Mapping[str, float]
    without: tuple[str, ...] = ()
    version: str = VERSION
    algorithm: str = ALGORITHM
    notes: tuple[str, ...] = field(default=())

    @property
    def trt_version(self) -> str:
        """The version for people: `8.4.1` of 8401, `10.14.1` of 101401."""
        number = int(self.version)
        width = 10_000 if number >= 100_000 else 1_000
        return f"{number // width}.{number % width // 100}.{number % 100}"

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Tensor → smallest and largest number that its scale holds."""
        return {name: (-LEVELS * scale, LEVELS * scale) for name, scale in self.scales.items()}


def read_cache(path: str | os.PathLike[str]) -> CalibrationCache:
    """Reads a calibration cache.

    Raises:
        RecordError: No such file, no calibration cache, or a line that is none; the message names the line.
    """
    file = Path(path)
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise RecordError(f"{file}: {file.stat().st_size} bytes are too many for a calibration cache")
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RecordError(f"{file}: {error.strerror or error}; name a calibration cache of TensorRT") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{file}: byte {error.start} is no text; a calibration cache of TensorRT is") from error
    return parse_cache(text, str(file))


def parse_cache(text: str, label: str) -> CalibrationCache:
    """Reads the text of a calibration cache; `label` names it in errors. Raises RecordError."""
    lines = text.split("\n")
    header = _HEADER.fullmatch(lines[0].strip())
    if header is None:
        raise RecordError(
            f"{label}: line 1 is {lines[0][:40]!r}; a calibration cache of TensorRT begins like TRT-{VERSION}-{ALGORITHM}"
        )
    scales: dict[str, float] = {}
    without: dict[str, None] = {}
    notes: list[str] = []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        name, colon, digits = line.rstrip("\r").rpartition(": ")  # names may hold colons
        if not colon or not re.fullmatch(r"[0-9a-fA-F]{1,8}", digits.strip()):
            raise RecordError(f"{label}: line {number} is {line[:60]!r}; it must be TENSOR: and up to 8 hex digits")
        if name in scales or name in without:
            notes.append(f"line {number}: '{name}' stands there twice; the last counts")
        scales.pop(name, None)
        without.pop(name, None)
        scale = struct.unpack(">f", bytes.fromhex(digits.strip().zfill(8)))[0]
        if scale == 0:
            without[name] = None
        elif scale > 0 and math.isfinite(scale):
            scales[name] = scale
        else:
            without[name] = None
            notes.append(f"line {number}: the scale of '{name}' is {scale:g}, which is none; calibrate it anew")
    return CalibrationCache(scales, tuple(without), header[1], header[2], tuple(notes))


def cache_text(cache: CalibrationCache, label: str = "calibration cache") -> str:
    """The text of a calibration cache, as TensorRT writes it.

    Raises:
        RecordError: A name that a line cannot hold, a scale that is no positive number; `label` names the cache.
    """
    lines = [f"TRT-{cache.version}-{cache.algorithm}"]
    for name, scale in cache.scales.items():
        if "\n" in name or "\r" in name:
            raise RecordError(f"{label}: the tensor name {name!r} holds a line break, which a calibration cache cannot")
        if not (scale > 0 and math.isfinite(scale)):
            raise RecordError(
                f"{label}: the scale of '{name}' is {scale:g}; it must be a positive number: calibrate it anew"
            )
        lines.append(f"{name}: {struct.unpack('>I', struct.pack('>f', scale))[0]:x}")
    lines += [f"{name}: 0" for name in cache.without]
    return "\n".join(lines) + "\n"


def write_cache(path: str | os.PathLike[str], cache: CalibrationCache) -> Path:
    """Writes a calibration cache. Raises RecordError: see `cache_text`; the file cannot be written."""
    file = Path(path)
    text = cache_text(cache, str(file))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise RecordError(f"{file} cannot be written: {error.strerror or error}") from error
    return file


def of_ranges(ranges: Mapping[str, tuple[float, float]], *, version: str = VERSION) -> CalibrationCache:
    """A cache from the smallest and largest number of each tensor; one that is 0 throughout gets no scale."""
    tops = {name: max(abs(low), abs(high)) for name, (low, high) in ranges.items()}
    good = {name: top / LEVELS for name, top in tops.items() if top > 0 and math.isfinite(top / LEVELS)}
    return CalibrationCache(good, tuple(name for name in tops if name not in good), version)
