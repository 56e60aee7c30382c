"""Images and other samples as the options of a command ask for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from trt_lab.errors import UsageError
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.samples.images import read_images


@dataclass(frozen=True)
class Images:
    """How images become samples: size is (height, width); see `read_images`."""

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    layout: Literal["NCHW", "NHWC"] = "NCHW"

    @classmethod
    def of(
        cls, size: str | None, mean: str | None = None, std: str | None = None, layout: str | None = None
    ) -> Images | None:
        """From the options `--image-…`; None when none is given. Raises UsageError: which option is wrong."""
        if size is None:
            if (mean, std, layout) != (None, None, None):
                raise UsageError("--image-mean, --image-std and --image-layout need --image-size HxW")
            return None
        sides = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", size.strip())
        if sides is None:
            raise UsageError(f"--image-size {size!r}: give height and width, such as 224x224")
        chosen = (layout or "NCHW").upper()
        if chosen not in ("NCHW", "NHWC"):
            raise UsageError(f"--image-layout {layout!r}: give NCHW or NHWC")
        means = _numbers("--image-mean", mean) if mean is not None else None
        stds = _numbers("--image-std", std) if std is not None else None
        return cls(
            (int(sides[1]), int(sides[2])),
            means or (0.0,) * len(stds or (0, 0, 0)),
            stds or (1.0,) * len(means or (0, 0, 0)),
            cast("Literal['NCHW', 'NHWC']", chosen),
        )

    def read(self, model: Model, path: Path) -> list[dict[str, np.ndarray]]:
        """One sample an image, for the only input of `model`. Raises UsageError: it has several; InputError: as read."""
        view = GraphView.of(model)
        inputs = [view.tensors[tensor] for tensor in view.inputs]
        if len(inputs) != 1:
            names = ", ".join(info.name for info in inputs) or "none"
            raise UsageError(f"{model.name}: images feed a model of one input; its inputs: {names}")
        (wanted,) = inputs
        scale = 1.0 if (wanted.dtype or "").startswith(("int", "uint")) else 1.0 / 255.0
        return read_images(
            path, name=wanted.name, size=self.size, mean=self.mean, std=self.std, scale=scale, layout=self.layout,
            dtype=wanted.dtype or "float32",
        )  # fmt: skip


def check_given(inputs: Path | None, images: Images | None, *, edges: bool) -> None:
    """Raises UsageError when options of samples contradict each other."""
    if images is not None and inputs is None:
        raise UsageError("--image-size needs --inputs: an image or a folder of images")
    if edges and inputs is not None:
        raise UsageError("--edges adds to random samples; leave out --inputs or --edges")


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: give numbers, such as 0.485,0.456,0.406") from error
    if not np.isfinite(found).all():
        raise UsageError(f"{option} {text!r}: give finite numbers")
    return found
