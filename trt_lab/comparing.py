"""Two engines compared, as a session hands it out: frames by node, scope, fusion, kernel and type, and a still table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from html import escape
from typing import Any

import pandas as pd

from trt_lab.compare.words import format_figure
from trt_lab.frames import engine_diff_frame
from trt_lab.profiling.changes import FusionChange, TacticChange, TypeChange
from trt_lab.profiling.engines import EngineDiff, GroupRow, ScopeRow

HTML_ROWS = 20
"""Nodes in the still table; the frame has all."""


@dataclass(frozen=True)
class EngineComparison:
    """Engine b against engine a, by ONNX node.

    Attributes:
        diff: All that was found, see `profiling.engines.EngineDiff`.
    """

    diff: EngineDiff

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row a node, largest difference first; see `frames.engine_diff_frame`."""
        return engine_diff_frame(self.diff)

    @cached_property
    def groups(self) -> pd.DataFrame:
        """One row for the layers of both that hold the same nodes: times that are measured, not shared out."""
        return _frame(GroupRow, self.diff.groups)

    @cached_property
    def fusions(self) -> pd.DataFrame:
        """One row for nodes that went into other layers."""
        return _frame(FusionChange, self.diff.fusions_changed)

    @cached_property
    def tactics(self) -> pd.DataFrame:
        """One row for layers with the same nodes and another kernel."""
        return _frame(TacticChange, self.diff.tactics_changed)

    @cached_property
    def types(self) -> pd.DataFrame:
        """One row for a node that is computed in another type."""
        return _frame(TypeChange, self.diff.types_changed)

    def scopes(self, depth: int | None = None) -> pd.DataFrame:
        """One row a scope, cut to its outermost `depth` levels; they add up to the totals."""
        return _frame(ScopeRow, self.diff.scopes(depth))

    @property
    def headline(self) -> str:
        """One line: both layer sums, and how much changed."""
        diff = self.diff
        changed = (
            f"{len(diff.fusions_changed)} fusions, {len(diff.tactics_changed)} tactics and the types of "
            f"{len(diff.types_changed)} nodes changed"
        )
        if diff.total_a_ms is None or diff.total_b_ms is None or diff.delta_ms is None:
            return f"{diff.a.label} → {diff.b.label}: not timed; {changed}"
        return (
            f"{diff.a.label} → {diff.b.label}: layers sum to {diff.total_a_ms:.4g} → {diff.total_b_ms:.4g} ms "
            f"({diff.delta_ms:+.4g} ms); {changed}"
        )

    def __repr__(self) -> str:
        return f"<EngineComparison {self.headline}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(row.node)}</td><td>{format_figure(row.a_ms)}</td><td>{format_figure(row.b_ms)}</td>"
            f"<td>{format_figure(row.delta_ms)}</td><td>{row.change}{'' if row.measured else ' ~'}</td></tr>"
            for row in self.diff.rows[:HTML_ROWS]
        )
        more = len(self.diff.rows) - HTML_ROWS
        tail = f"; {more} more nodes in <code>.frame</code>" if more > 0 else ""
        return (
            f"<p>{escape(self.headline)}</p><table><thead><tr><th>node</th><th>a ms</th><th>b ms</th><th>b − a ms</th>"
            f"<th>change</th></tr></thead><tbody>{rows}</tbody></table><p>~ its part of a fused layer{tail}</p>"
        )


def _frame(kind: type[Any], rows: Iterable[Any]) -> pd.DataFrame:
    names = [field.name for field in fields(kind)]
    return pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=pd.Index(names))
