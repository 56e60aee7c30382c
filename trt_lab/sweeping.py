"""A sweep over sizes as a session hands it out: the figures as a frame, and the line that takes the proposed profiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape

import pandas as pd

from trt_lab.frames import sweep_frame
from trt_lab.model import Model
from trt_lab.profiling.sweep import Submit, Sweep, sweep
from trt_lab.profiling.sweep_flags import SweepPoint
from trt_lab.profiling.sweep_sizes import SizesArgument
from trt_lab.types import BuildOptions, OnProgress, ShapeRange

_SHOWN = ["size", "median_ms", "quick_ms", "ms_per_million", "pad_to", "pad_gain_ms", "tuned_ms", "flags"]


@dataclass(frozen=True)
class SizeSweep:
    """Latency against the size of the inputs.

    Attributes:
        sweep: Everything that was measured.
    """

    sweep: Sweep

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row a size; see `frames.sweep_frame`."""
        return sweep_frame(self.sweep)

    @property
    def headline(self) -> str:
        """In one line."""
        return self.sweep.headline

    @property
    def flagged(self) -> tuple[SweepPoint, ...]:
        """Sizes with something wrong; their `flags` say what."""
        return self.sweep.flagged

    @property
    def proposal(self) -> tuple[tuple[ShapeRange, ...], ...]:
        """Optimisation profiles that serve the sizes seen."""
        return self.sweep.proposal

    @property
    def code(self) -> str:
        """The line that takes the proposed profiles; "" when there is none to take."""
        if not self.proposal:
            return ""
        first = ", ".join(f"{r.name!r}: ({_x(r.min)}, {_x(r.opt)}, {_x(r.max)})" for r in self.proposal[0])
        more = f", more_profiles={self.proposal[1:]!r}" if len(self.proposal) > 1 else ""
        imported = "from trt_lab import ShapeRange; " if more else ""
        return f"{imported}lab.use(shapes={{{first}}}{more})"

    def __repr__(self) -> str:
        return "\n".join(
            [self.headline, *(f"{p.label}: {'; '.join(p.flags)}" for p in self.flagged), *self.sweep.notes]
        )

    def _repr_html_(self) -> str:
        table = self.frame[_SHOWN].to_html(index=False, na_rep="", border=0, float_format=lambda value: f"{value:.4g}")
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.sweep.notes)
        return f"<p>{escape(self.headline)}</p>{table}<ul>{notes}</ul><pre>{escape(self.code)}</pre>"


def sweep_sizes(
    model: Model,
    options: BuildOptions,
    submit: Submit,
    on_progress: OnProgress,
    *,
    sizes: SizesArgument | None,
    repeats: int,
    tuned: bool,
) -> SizeSweep:
    """See `profiling.sweep.sweep`, which it runs."""
    return SizeSweep(sweep(model, options, submit, on_progress, sizes=sizes, repeats=repeats, tuned=tuned))


def _x(shape: tuple[int, ...]) -> str:
    return repr("x".join(map(str, shape)))
