"""Quantised models: what their Q/DQ cost, and how they are made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trt_lab.activity import silent
from trt_lab.backends.onnxruntime.quantize import Quantized
from trt_lab.diagnose.check import CheckSource
from trt_lab.model import ModelSource
from trt_lab.quantizing import Quantization, examine_model, quantize_model
from trt_lab.session.engines import Engines
from trt_lab.types import OnProgress


class Quantisation(Engines):
    """The part of a session that looks at Q/DQ and places them; see `Session`."""

    def quantization(
        self,
        on_progress: OnProgress | None = None,
        *,
        float_model: ModelSource | None = None,
        layers: bool = True,
        check: CheckSource | None = None,
        fixed: str | Path | None = None,
    ) -> Quantization:
        """What each Q/DQ pair costs on the samples, bad scales, and which layers bear being quantised.

        Args: see `quantizing.examine_model`. Raises UsageError when the model has no Q/DQ.
        """
        shown = _shown({"float_model": float_model, "layers": layers, "check": check, "fixed": fixed}, layers=True)
        with self._history.action(f"lab.quantization({shown})"), self._activity.doing("quantisation"):
            return examine_model(
                self._model, self.samples, self._submit, on_progress or silent,
                float_model=float_model, layers=layers, check=check, fixed=fixed,
            )  # fmt: skip

    def quantize(self, out: str | Path, on_progress: OnProgress | None = None, **how: Any) -> Quantized:
        """Writes an INT8 model with Q/DQ to `out`, calibrated on the samples. `how`: see `quantizing.quantize_model`."""
        shown = ", ".join(filter(None, (repr(str(out)), _shown(how))))
        with self._history.action(f"lab.quantize({shown})"), self._activity.doing("quantise"):
            return quantize_model(self._model, self.samples, out, self._submit, on_progress or silent, **how)


def _shown(given: Mapping[str, object], **usual: object) -> str:
    """Arguments as code: what is None, empty or as `usual` is left out, and an object is called `my_…`."""
    parts = []
    for name, value in given.items():
        if value is None or value == [] or (name in usual and value == usual[name]):
            continue
        text = str(value) if isinstance(value, Path) else value
        plain = isinstance(text, (str, bool, int, float, list, tuple))
        parts.append(f"{name}={text!r}" if plain else f"{name}=my_{name}")
    return ", ".join(parts)
