"""Images as samples, with a preprocessing that is stated and not guessed."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from trt_lab.errors import InputError
from trt_lab.tensors.samples import natural_key

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


def read_images(
    path: str | PathLike[str],
    *,
    name: str,
    size: tuple[int, int],
    mean: Sequence[float] = (0.0, 0.0, 0.0),
    std: Sequence[float] = (1.0, 1.0, 1.0),
    scale: float = 1.0 / 255.0,
    layout: Literal["NCHW", "NHWC"] = "NCHW",
    dtype: str = "float32",
    limit: int | None = None,
) -> list[dict[str, np.ndarray]]:
    """One sample an image: (pixel · scale − mean) / std, channels in the order R, G, B.

    Args:
        path: An image, or a folder of them, taken in the order of their names, numbers by value.
        name: Input of the model.
        size: Height and width that every image is resized to (bilinear), without keeping its proportions.
        mean, std: One number a channel; one number alone makes grey images.
        scale: Of the pixels, which are 0 … 255.
        layout: `NCHW` gives (1, C, H, W), `NHWC` gives (1, H, W, C).
        dtype: Of the arrays. An integer type takes the rounded values and refuses those beyond its range.
        limit: Most images.

    Raises:
        InputError: No images there, one that cannot be read, or a preprocessing that makes no sense.

    Example:
        >>> lab.feed(read_images("photos", name="x", size=(224, 224), mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)))
    """
    if len(mean) != len(std) or len(mean) not in (1, 3):
        raise InputError(f"mean has {len(mean)} and std {len(std)} numbers: give 3 of each for colour, 1 for grey")
    if any(not value > 0.0 for value in std) or min(size) < 1:
        raise InputError(f"std {tuple(std)} and size {size}: both must be larger than 0")
    if layout not in ("NCHW", "NHWC"):
        raise InputError(f"layout {layout!r}: give NCHW or NHWC")
    samples = []
    for file in _files(Path(path).expanduser())[:limit]:
        pixels = _pixels(file, size, grey=len(mean) == 1)
        values = (pixels * scale - np.asarray(mean)) / np.asarray(std)
        made = _as(dtype, values, file)
        samples.append({name: np.ascontiguousarray(made.transpose(2, 0, 1) if layout == "NCHW" else made)[None]})
    return samples


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; give an image or a folder of images")
    found = [path] if path.is_file() else [f for f in sorted(path.iterdir(), key=natural_key) if f.is_file()]
    images = [file for file in found if file.suffix.lower() in SUFFIXES]
    if not images:
        raise InputError(f"{path}: holds no images; give files ending in {', '.join(sorted(SUFFIXES))}")
    return images


def _pixels(file: Path, size: tuple[int, int], *, grey: bool) -> np.ndarray:
    """Height × width × channels, 0 … 255."""
    try:
        with Image.open(file) as image:
            resized = image.convert("L" if grey else "RGB").resize((size[1], size[0]), Image.Resampling.BILINEAR)
    except (OSError, Image.DecompressionBombError) as error:
        raise InputError(f"{file}: cannot be read as an image ({error}); remove it or save it again") from error
    array = np.asarray(resized, np.float64)
    return array[..., None] if grey else array


def _as(dtype: str, values: np.ndarray, file: Path) -> np.ndarray:
    try:
        wanted = np.dtype(dtype)
    except TypeError as error:
        raise InputError(f"dtype {dtype!r}: no type of numpy; give float32, float16 or uint8") from error
    if wanted.kind in "iu":
        limits = np.iinfo(wanted)
        values = np.rint(values)
        if values.min() < limits.min or values.max() > limits.max:
            raise InputError(
                f"{file}: values {values.min():g} … {values.max():g} do not fit {dtype}; leave scale at 1 and mean at 0"
            )
    return values.astype(wanted)
