"""The elements that differ most, as data for a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from trt_lab.errors import CompareError
from trt_lab.views.numbers import as_float, subtract

COLUMNS = ("index", "golden", "engine", "abs_err", "rel_err")
"""One row is one element; `abs_err` is missing where only one side is finite, `rel_err` where golden is 0 too."""

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class WorstElement:
    """One element of a pair of tensors.

    Attributes:
        index: Place in the tensor; () for a scalar.
        golden, engine: The two values; floats, NaN and infinities as they are.
        abs: |engine − golden|; None where the two disagree and one of them is not finite.
        rel: abs / |golden|; None where `abs` is, or where golden is 0.
    """

    index: tuple[int, ...]
    golden: float
    engine: float
    abs: float | None
    rel: float | None


def worst_elements(golden: np.ndarray, engine: np.ndarray, count: int = 10) -> tuple[WorstElement, ...]:
    """At most `count` elements that differ, worst first: non-finite disagreements, then by |difference|.

    Works through the tensor in blocks of a million elements; equal elements are never listed.

    Raises:
        CompareError: The shapes differ.
    """
    if golden.shape != engine.shape:
        raise CompareError(
            f"Worst elements need equal shapes; golden is {golden.shape}, the engine's {engine.shape}. Compare shapes first."
        )
    flat_golden, flat_engine = golden.reshape(-1), engine.reshape(-1)
    places: list[np.ndarray] = []
    errors: list[np.ndarray] = []
    for start in range(0, flat_golden.size, _BLOCK):
        block = np.abs(subtract(flat_engine[start : start + _BLOCK], flat_golden[start : start + _BLOCK]))
        np.nan_to_num(block, copy=False, nan=0.0, posinf=np.inf)
        best = np.argpartition(block, -count)[-count:] if block.size > count else np.arange(block.size)
        best = np.sort(best[block[best] > 0])
        places.append(best + start)
        errors.append(block[best])
    if not places:
        return ()
    place, error = np.concatenate(places), np.concatenate(errors)
    order = np.argsort(-error, kind="stable")[:count]
    return tuple(_element(golden, engine, int(place[i]), float(error[i])) for i in order)


def worst_frame(elements: Sequence[WorstElement]) -> pd.DataFrame:
    """The elements as a DataFrame with `COLUMNS`; `index` as text such as `[0, 3, 12]`."""
    rows = [(list(e.index), e.golden, e.engine, e.abs, e.rel) for e in elements]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["index"] = frame["index"].map(str)
    return frame.astype({name: "float64" for name in COLUMNS[1:]})


def _element(golden: np.ndarray, engine: np.ndarray, place: int, error: float) -> WorstElement:
    index = tuple(int(i) for i in np.unravel_index(place, golden.shape))
    want, got = (float(as_float(side[index][None])[0]) for side in (np.asarray(golden), np.asarray(engine)))
    finite = bool(np.isfinite(error))
    return WorstElement(
        index=index,
        golden=want,
        engine=got,
        abs=error if finite else None,
        rel=error / abs(want) if finite and want != 0 else None,
    )
