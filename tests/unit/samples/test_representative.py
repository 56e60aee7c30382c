"""What speaks against samples that are to calibrate a model."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trt_lab.samples.representative import check_representative


def images(count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    return [{"x": random.uniform(0, 1, (1, 3, 4, 4)).astype(np.float32)} for _ in range(count)]


def test_enough_good_samples_need_no_word() -> None:
    assert check_representative(images(500)) == ()


def test_too_few_and_made_up() -> None:
    few, random = check_representative(images(4), generated=True)
    assert few.startswith("4 samples: at least 500 are advised") and random.startswith("the samples are random numbers")
    assert check_representative(images(1))[0].startswith("1 sample: ")


def test_constant_duplicate_not_finite_and_out_of_range_are_told_by_number() -> None:
    feeds = images(20)
    feeds[3] = {"x": np.zeros((1, 3, 4, 4), np.float32)}
    feeds[5] = {"x": feeds[4]["x"].copy()}
    feeds[7] = {"x": feeds[4]["x"] * 255}
    feeds[9] = {"x": np.where(feeds[9]["x"] > 0.5, np.nan, feeds[9]["x"]).astype(np.float32)}
    constant, duplicate, broken, far = check_representative(feeds, advised=20)
    assert constant == "input 'x' is constant in sample 3: nothing is learnt from those"
    assert duplicate == "sample 5 is the same as an earlier one"
    assert broken == "input 'x' holds NaN or infinity in sample 9: leave those out"
    assert far.startswith(
        "input 'x' is out of range in samples 3, 7: its largest magnitude is over 10× or under 1/10 of "
    )


def test_same_numbers_in_another_shape_or_under_another_name_are_no_duplicates() -> None:
    a = np.arange(8, dtype=np.float32)
    feeds = [{"x": a.reshape(1, 8)}, {"x": a.reshape(2, 4)}, {"y": a.reshape(1, 8)}]
    assert not any("the same" in note for note in check_representative(feeds))


def test_texts_and_scalars_do_no_harm() -> None:
    feeds = [{"t": np.array(["a", "b"], object), "s": np.array(1.0, np.float32)} for _ in range(3)]
    assert [note for note in check_representative(feeds, advised=1)] == ["samples 1, 2 are the same as an earlier one"]


@given(st.integers(1, 12), st.integers(0, 11))
def test_any_copy_is_found(count: int, place: int) -> None:
    feeds = images(count)
    feeds.append(dict(feeds[place % count]))
    (note,) = check_representative(feeds, advised=1)
    assert note == f"sample {count} is the same as an earlier one"
