"""Figures and verdicts in words."""

from __future__ import annotations

from trt_lab.types import TensorStats


def format_figure(value: float | None, digits: int = 3) -> str:
    """A number for people: `0.154`, `6.0e-08`, or `–` when it is not defined."""
    return "–" if value is None else f"{value:.{digits}g}"


def format_snr(stats: TensorStats) -> str:
    """Signal to noise in dB; `exact` without any noise, `–` when it is not defined."""
    return "exact" if stats.exact else format_figure(stats.snr_db)


def summarize(stats: TensorStats) -> str:
    """The reason of a verdict in a few words; side a is the engine."""
    if stats.exact or stats.shape_a != stats.shape_b:
        return stats.note or "equal"
    parts = []
    if stats.nan_only_a:
        parts.append(f"{stats.nan_only_a} NaN only in a")
    if stats.nan_only_b:
        parts.append(f"{stats.nan_only_b} NaN only in b")
    if stats.inf_mismatch:
        parts.append(f"{stats.inf_mismatch} infinite on one side, or of the other sign")
    if stats.note:
        parts.append(stats.note)
    elif stats.max_abs is not None:
        parts.append(f"max abs {format_figure(stats.max_abs)}")
    if stats.zero_reference:
        parts.append(f"{stats.zero_reference} where the reference is zero")
    return ", ".join(parts)
