"""Progress of a part as a piece of the whole's."""

from __future__ import annotations

from dataclasses import replace

from trt_lab.types import OnProgress, Progress


def scaled(report: OnProgress, low: float, high: float) -> OnProgress:
    """Progress of a part, as the piece from `low` to `high` of the whole; a part that tells too much stays within."""

    def tell(progress: Progress) -> None:
        inner = progress.fraction
        inside = None if inner is None else low + (high - low) * min(max(inner, 0.0), 1.0)
        report(replace(progress, fraction=inside))

    return tell
