"""Steps on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from trt_lab.diagnose.journal import STEPS_FILE, Journal
from trt_lab.errors import UsageError

KEY = {"model": "abc", "options.tf32": False}


def never() -> None:
    raise AssertionError("a finished step is done again")


def test_finished_steps_are_taken_over(tmp_path: Path) -> None:
    first = Journal(tmp_path, KEY)
    assert first.step("a", lambda: {"passes": True}) == {"passes": True}
    again = Journal(tmp_path, KEY, resume=True)
    assert again.step("a", never) == {"passes": True}
    assert again.reused == 1
    assert again.step("b", lambda: 3) == 3


def test_a_step_is_written_before_it_is_begun(tmp_path: Path) -> None:
    journal = Journal(tmp_path, KEY)

    def killed() -> None:
        lines = (tmp_path / STEPS_FILE).read_text().splitlines()
        assert '"state": "begun"' in lines[-1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        journal.step("a", killed)
    assert Journal(tmp_path, KEY, resume=True).step("a", lambda: 7) == 7, "begun is not ended"


def test_a_line_that_was_cut_off_counts_as_not_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, KEY)
    journal.step("a", lambda: 1)
    journal.step("b", lambda: 2)
    whole = (tmp_path / STEPS_FILE).read_bytes()
    for cut in range(len(whole.splitlines()[0]) + 1, len(whole)):
        (tmp_path / STEPS_FILE).write_bytes(whole[:cut])
        resumed = Journal(tmp_path, KEY, resume=True)
        assert (resumed.step("a", lambda: 1), resumed.step("b", lambda: 2)) == (1, 2)
        assert Journal(tmp_path, KEY, resume=True).step("b", never) == 2


def test_another_search_is_refused_by_the_name_of_its_key(tmp_path: Path) -> None:
    Journal(tmp_path, KEY).step("a", lambda: 1)
    with pytest.raises(UsageError, match=r"another search: 'options\.tf32' was false and is now true"):
        Journal(tmp_path, {**KEY, "options.tf32": True}, resume=True)
    (tmp_path / STEPS_FILE).write_text('{"x": 1}\n')
    with pytest.raises(UsageError, match="holds no steps"):
        Journal(tmp_path, KEY, resume=True)
    (tmp_path / STEPS_FILE).write_text("no json\n")
    with pytest.raises(UsageError, match="line 1 is no JSON"):
        Journal(tmp_path, KEY, resume=True)


def test_without_resume_steps_are_dropped_and_without_a_folder_nothing_is_written(tmp_path: Path) -> None:
    Journal(tmp_path, KEY).step("a", lambda: 1)
    assert Journal(tmp_path, KEY).step("a", lambda: 2) == 2
    memory = Journal(None, KEY)
    assert memory.step("a", lambda: 1) == 1
    assert memory.step("a", never) == 1
