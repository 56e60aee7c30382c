"""Whether samples can stand for the data of the field: what calibration takes its ranges from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

ADVISED = 500
"""Samples advised for calibration, as NVIDIA does for ImageNet networks."""

FAR = 10.0
"""A sample whose largest magnitude is this many times that of the median sample, or this many times less, lies apart."""

_SHOWN = 5


def check_representative(
    feeds: Sequence[Mapping[str, np.ndarray]], *, generated: bool = False, advised: int = ADVISED
) -> tuple[str, ...]:
    """What speaks against calibrating with these samples, one line each; empty when nothing does.

    Told are: too few, made up at random, constant, the same twice, not finite, out of the range of the others.

    Args:
        generated: They are random numbers, not data.
        advised: How many there should be.
    """
    notes = []
    if len(feeds) < advised:
        notes.append(
            f"{len(feeds)} {_samples(len(feeds))}: at least {advised} are advised, so that ranges are those of the field"
        )
    if generated:
        notes.append("the samples are random numbers: their ranges are not those of real data; give some (--inputs)")
    notes += _constant(feeds)
    notes += _duplicates(feeds)
    notes += _not_finite(feeds)
    notes += _apart(feeds)
    return tuple(notes)


def _samples(count: int) -> str:
    return "sample" if count == 1 else "samples"


def _listed(places: Sequence[int]) -> str:
    shown = ", ".join(str(place) for place in places[:_SHOWN])
    return shown + (f", … ({len(places)} in all)" if len(places) > _SHOWN else "")


def _numbers(array: np.ndarray) -> bool:
    return array.dtype.kind in "fiu" or array.dtype.name.startswith(("bfloat", "float"))


def _constant(feeds: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
    found: dict[str, list[int]] = {}
    for place, sample in enumerate(feeds):
        for name, array in sample.items():
            if _numbers(array) and array.size > 1 and bool((array == array.reshape(-1)[0]).all()):
                found.setdefault(name, []).append(place)
    return [
        f"input '{name}' is constant in {_samples(len(places))} {_listed(places)}: nothing is learnt from those"
        for name, places in found.items()
    ]


def _duplicates(feeds: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
    first: dict[bytes, int] = {}
    again: list[int] = []
    for place, sample in enumerate(feeds):
        digest = hashlib.sha256()
        for name in sorted(sample):
            array = sample[name]
            digest.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode())
            digest.update(
                str(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
            )
        if first.setdefault(digest.digest(), place) != place:
            again.append(place)
    if not again:
        return []
    return [f"{_samples(len(again))} {_listed(again)} {'is' if len(again) == 1 else 'are'} the same as an earlier one"]


def _not_finite(feeds: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
    found: dict[str, list[int]] = {}
    for place, sample in enumerate(feeds):
        for name, array in sample.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                found.setdefault(name, []).append(place)
    return [
        f"input '{name}' holds NaN or infinity in {_samples(len(places))} {_listed(places)}: leave those out"
        for name, places in found.items()
    ]


def _apart(feeds: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
    tops: dict[str, list[tuple[int, float]]] = {}
    for place, sample in enumerate(feeds):
        for name, array in sample.items():
            if array.dtype.kind != "f" or not array.size:
                continue
            finite = array[np.isfinite(array)]
            if finite.size:
                tops.setdefault(name, []).append((place, float(np.abs(finite).max())))
    notes = []
    for name, found in tops.items():
        middle = float(np.median([top for _, top in found]))
        if len(found) < 3 or middle <= 0:
            continue
        far = [place for place, top in found if top > FAR * middle or top < middle / FAR]
        if far:
            notes.append(
                f"input '{name}' is out of range in {_samples(len(far))} {_listed(far)}: its largest magnitude is over {FAR:g}× or under "
                f"1/{FAR:g} of {middle:.4g}, that of the median sample"
            )
    return notes
