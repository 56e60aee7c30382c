"""A session and samples as the options of a command ask for them."""

from __future__ import annotations

from pathlib import Path

from trt_lab.cli.images import Images, check_given
from trt_lab.cli.sampling import SampleOptions
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
    edges: bool = False,
    images: Images | None = None,
) -> Session:
    """A session on `model` with shapes and samples set; a zoo model keeps its own samples unless told otherwise.

    Raises:
        UsageError: The options contradict each other. InputError: The samples do not fit.
    """
    check_given(inputs, images, edges=edges)
    session = Session(model, records=records)
    if shapes:
        ranges = parse_shape_options(shapes)
        session.use(shapes={r.name: (r.min, r.opt, r.max) for r in ranges})
    if inputs is not None:
        session.feed(inputs if images is None else images.read(session.model, inputs))
    elif edges or not model.startswith("zoo:") or (samples, seed) != (4, 0):
        session.feed(samples, seed=seed, edges=edges)
    return session


def open_given(model: str, given: SampleOptions) -> Session:
    """`open_session` as the options of a command ask for it. Raises what that raises."""
    return open_session(
        model, inputs=given.inputs, samples=given.samples, seed=given.seed, shapes=given.shapes,
        edges=given.edges, images=given.check(),
    )  # fmt: skip
