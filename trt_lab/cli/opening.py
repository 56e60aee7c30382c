"""A session as the options of a command ask for it."""

from __future__ import annotations

from pathlib import Path

from trt_lab.options import parse_shape_options
from trt_lab.session import Session


def open_session(
    model: str,
    *,
    inputs: Path | None = None,
    samples: int = 4,
    seed: int = 0,
    shapes: list[str] | None = None,
    records: Path | None = None,
) -> Session:
    """A session on `model` with shapes and samples set; a zoo model keeps its own samples unless told otherwise."""
    session = Session(model, records=records)
    if shapes:
        ranges = parse_shape_options(shapes)
        session.use(shapes={r.name: (r.min, r.opt, r.max) for r in ranges})
    if inputs is not None:
        session.feed(inputs)
    elif not model.startswith("zoo:") or (samples, seed) != (4, 0):
        session.feed(samples, seed=seed)
    return session
