"""Figures and verdicts in words."""

from __future__ import annotations

from trt_lab.types import TensorStats


def format_figure(value: float | None, digits: int = 3) -> str:
    """A number for people: `0.154`, `6.0e-08`, or `–` when it is not defined."""
    return "–" if value is None else f"{value:.{digits}g}"


def summarize(stats: TensorStats) -> str:
    """The reason of a verdict in a few words."""
    if stats.note:
        return stats.note
    if stats.exact:
        return "equal"
    parts = []
    if stats.nan_only_a or stats.nan_only_b:
        parts.append(f"{stats.nan_only_a + stats.nan_only_b} NaN on one side")
    if stats.inf_mismatch:
        parts.append(f"{stats.inf_mismatch} infinite on one side")
    if stats.max_abs is not None:
        parts.append(f"max abs {format_figure(stats.max_abs)}")
    return ", ".join(parts) or "no finite pair"
