"""What somebody else gave for the same samples, PyTorch for instance, held against the reference and the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

import pandas as pd

from trt_lab.compare.in_graph import compare_in_graph
from trt_lab.compare.selfcheck import largest
from trt_lab.compare.sides import Comparison, Side, open_side
from trt_lab.compare.words import format_figure
from trt_lab.frames import diff_frame
from trt_lab.graph.view import GraphView
from trt_lab.record import Record
from trt_lab.types import Tolerance


@dataclass(frozen=True)
class ThirdSide:
    """Three sides, two by two; the engine is missing before one is built.

    Attributes:
        reference: The reference (a) against the third side (b).
        engine: The engine (a) against the third side (b).
    """

    reference: Comparison
    engine: Comparison | None

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Those that there are."""
        return (self.reference,) if self.engine is None else (self.reference, self.engine)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row a tensor and pair; see `frames.diff_frame`. `a` and `b` name the pair."""
        return pd.concat(
            [diff_frame(found).assign(a=found.label_a, b=found.label_b) for found in self.comparisons],
            ignore_index=True,
        )

    @property
    def headline(self) -> str:
        """One line: each pair, its verdict and its largest error."""
        return "; ".join(
            f"{found.label_a} against {found.label_b}: {found.verdict}, max abs {format_figure(largest(found))}"
            for found in self.comparisons
        )

    def __repr__(self) -> str:
        return f"<ThirdSide {self.headline}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for found in self.comparisons for note in found.notes)
        return f"<p>{escape(self.headline)}</p>{notes}{self.frame.to_html()}"


def compare_third(
    view: GraphView, third: Side, reference: Record, engine: Record | None, tolerance: Tolerance
) -> ThirdSide:
    """Holds a third side against the reference and, where there is one, the engine.

    Raises:
        CompareError: No tensor can be matched, or the third side fails.
    """
    found: Sequence[Comparison] = [
        compare_in_graph(view, open_side(record), third, tolerance=tolerance)
        for record in (reference, engine)
        if record is not None
    ]
    return ThirdSide(found[0], found[1] if engine is not None else None)
