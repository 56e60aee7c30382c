"""The search against the truth of the zoo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.diagnose.searching import run_search, search_task
from trt_lab import zoo

ENTRIES = {entry.name: entry for entry in zoo.entries()}
BIG = [name for name in ENTRIES if name.startswith("deep_") or name == "clean_300"]
SMALL = [name for name in ENTRIES if name not in BIG]

KINDS = {
    "square_norm": "overflow",
    "cube_of_small": "underflow",
    "offset": "cancellation",
    "positions": "integer cut",
    "mask": "masked softmax",
    "mask_where": "masked softmax",
    "huge_constant": "non-finite constant",
    "late_scale": "overflow",
    "tiny_constant": "underflow",
}


def score(name: str, folder: Path) -> tuple[bool, bool]:
    """Whether the set found is the true one, and whether the sources are the truth."""
    made = zoo.get(name)
    found = run_search(search_task(folder, made.model, made.feeds))
    kept = found.region.keep_fp32 if found.region is not None else ()
    assert found.fp32_passes
    assert found.passes == (not made.fault), f"{name} is called {'clean' if found.passes else 'faulty'}"
    assert set(kept) <= set(made.keep), f"{name}: innocent nodes kept: {set(kept) - set(made.keep)}"
    sources = tuple(source.node for source in found.sources)
    if name in KINDS:
        evidence = found.sources[0].evidence
        assert evidence is not None and evidence.kind == KINDS[name]
    return kept == made.keep, sources == made.truth


def test_the_small_models_score(tmp_path: Path) -> None:
    scores = {name: score(name, tmp_path / name) for name in SMALL}
    wrong = [name for name, (kept, _) in scores.items() if not kept]
    unnamed = [name for name, (_, sources) in scores.items() if not sources]
    assert len(wrong) <= 0.05 * len(scores), wrong
    assert len(unnamed) <= 0.05 * len(scores), unnamed


@pytest.mark.slow
@pytest.mark.parametrize("name", BIG)
def test_big_models_score(name: str, tmp_path: Path) -> None:
    assert score(name, tmp_path) == (True, True)
