"""Sets of inputs that fit one model, from whatever a user has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from trt_lab.errors import InputError
from trt_lab.model import Model
from trt_lab.samples.check import check_feeds
from trt_lab.samples.make import make_samples
from trt_lab.tensors import read_samples
from trt_lab.types import ShapeRange

SamplesSource = int | Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]] | str | PathLike[str]


@dataclass(frozen=True)
class Samples:
    """Sets of inputs that fit one model.

    Attributes:
        feeds: One mapping from input name to array a sample.
        label: Where they come from, for people.
        seed: Of generated samples; None for given ones.
        notes: Ranges and sizes that were chosen, one line each.
        edges: How many of them, the last, are edge cases.
    """

    feeds: tuple[Mapping[str, np.ndarray], ...]
    label: str
    seed: int | None = None
    notes: tuple[str, ...] = ()
    edges: int = 0

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.feeds)

    @classmethod
    def of(
        cls,
        model: Model,
        source: SamplesSource,
        *,
        seed: int = 0,
        shapes: Sequence[ShapeRange] = (),
        edges: bool = False,
    ) -> Samples:
        """Samples from a number, arrays, or a file or folder.

        Args:
            edges: Adds edge cases to a number of random samples; see `make_samples`.

        Raises:
            InputError: They do not fit the model, or there are none.
            RecordError: The file cannot be read.
        """
        if isinstance(source, int):
            if source < 1:
                raise InputError(f"{source} samples: ask for at least one")
            made = make_samples(model, source, seed, {r.name: r.opt for r in shapes} or None, edges=edges)
            more = len(made) - source
            label = f"{source} random, seed {seed}" + (f", and {more} edge cases" if more else "")
            return cls(tuple(made), label, seed, made.notes, more)
        if isinstance(source, (str, PathLike)):
            return cls.given(model, read_samples(source), label=Path(source).name)
        if isinstance(source, Mapping):
            return cls.given(model, [source])
        return cls.given(model, source)

    @classmethod
    def given(cls, model: Model, feeds: Sequence[Mapping[str, np.ndarray]], *, label: str = "given") -> Samples:
        """Samples from arrays, checked against the model. Raises InputError."""
        if not feeds:
            raise InputError(f"{label}: no samples; give at least one set of inputs")
        return cls(tuple(check_feeds(model, feed) for feed in feeds), f"{len(feeds)} {label}")

    def reshaped(self, model: Model, shapes: Sequence[ShapeRange]) -> Samples:
        """Generated samples anew at other shapes; given ones stay as they are."""
        if self.seed is None:
            return self
        return Samples.of(model, self.count - self.edges, seed=self.seed, shapes=shapes, edges=self.edges > 0)
