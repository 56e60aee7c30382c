"""Timing caches entry by entry, on a fake with the names of the bindings of TensorRT 10.8 and later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_lab.backends.tensorrt import tactics
from trt_lab.backends.tensorrt.cache import default_folder, describe_timing_caches
from trt_lab.backends.tensorrt.config import make_config
from trt_lab.backends.tensorrt.engines import engines_folder
from trt_lab.backends.tensorrt.progress import BuildProgress
from trt_lab.backends.tensorrt.tactics import (
    Autotuned,
    Changed,
    Entry,
    Tactic,
    TimingCacheEdit,
    edit_in_worker,
    edit_timing_cache,
    read_autotuning,
    read_timing_cache,
)
from trt_lab.backends.tensorrt.versions import Library, describe_version
from trt_lab.errors import BuildError, UsageError
from trt_lab.types import BuildOptions, LogLine

FIRST, SECOND = "0x" + "1a" * 16, "0x" + "b2" * 16
LOG = [
    f"Autotuning op matMul1(key: {FIRST}):",
    (
        "Sorted table of all evaluated tactics:\n"
        "tactic_id, cost(in ms), cost/fastest_cost, prediction_correlation, kernel_name, tactic_hash, tunable_parameter\n"
        "   3, 0.0112640, 1.00000, 0.50673, sm80_gemm_stage3, 0x665ded9abbf88,\n"
        "   5, 0.0118784, 1.05455, 0.51157, sm80_gemm_stage4, 0x393e4ef8ad243,\n"
        "   6, 1.23e-02, 1.10000, 0.50600, fused<a, b>, 0x2ad3a182fb05c, tile, 4\n"
    ),
    "The selected tactic is (tactic hash, cost(in ms)):0x665ded9abbf88,  0.011264",
    "Writing the best tactic (0x665ded9abbf88) to cache",
    f"Autotuning op soft max (key: {SECOND.upper().replace('X', 'x')}):\nno tactic was timed",
]
TIMED = (
    Autotuned(
        "matMul1",
        FIRST,
        (
            Tactic(0x665DED9ABBF88, "sm80_gemm_stage3", 0.011264),
            Tactic(0x393E4EF8AD243, "sm80_gemm_stage4", 0.0118784),
            Tactic(0x2AD3A182FB05C, "fused<a, b>", 0.0123),
        ),
        0x665DED9ABBF88,
    ),
    Autotuned("soft max", SECOND, ()),
)
ENTRIES = {FIRST: [0x665DED9ABBF88, 0.011264], SECOND: [77, 0.5]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "t.cache", ENTRIES)


def write(path: Path, entries: Mapping[str, Any], gpu: str = "stub") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"gpu": gpu, "entries": entries}))
    return path


def held(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["entries"]


def test_what_was_timed_is_read_from_the_log() -> None:
    assert read_autotuning([LogLine("verbose", message) for message in LOG]) == TIMED
    assert read_autotuning([]) == ()


@given(st.lists(st.one_of(st.text(max_size=60), st.sampled_from(LOG)), max_size=5))
def test_any_log_is_read(messages: list[str]) -> None:
    assert isinstance(read_autotuning([LogLine("info", message) for message in messages]), tuple)


def test_entries_are_read(file: Path, later_library: Library) -> None:
    assert read_timing_cache(file, later_library) == (Entry(FIRST, 0x665DED9ABBF88, 0.011264), Entry(SECOND, 77, 0.5))


@pytest.mark.parametrize("what", [0x665DED9ABBF88, "0x665ded9abbf88", "sm80_gemm_stage3"])
def test_forbidding_takes_the_next_best(file: Path, later_library: Library, what: int | str) -> None:
    changed = edit_timing_cache(file, forbid=[what], timed=TIMED, library=later_library)
    assert changed == (Changed(FIRST, 0x665DED9ABBF88, 0x393E4EF8AD243),)
    assert held(file) == {FIRST: [0x393E4EF8AD243, 0.0118784], SECOND: [77, 0.5]}


def test_forbidding_two_takes_the_third(file: Path, later_library: Library) -> None:
    names = ["sm80_gemm_stage3", "sm80_gemm_stage4"]
    edit_timing_cache(file, forbid=names, timed=TIMED, library=later_library)
    assert held(file)[FIRST][0] == 0x2AD3A182FB05C
    with pytest.raises(UsageError, match=r"'matMul1' \(0x.*\) has no tactic left: all 3 timed are forbidden"):
        edit_timing_cache(file, forbid=[*names, "fused<a, b>"], timed=TIMED, library=later_library)


def test_locking(file: Path, later_library: Library, tmp_path: Path) -> None:
    before = file.read_bytes()
    out = tmp_path / "sub" / "out.cache"
    changed = edit_timing_cache(
        file, lock={FIRST.upper().replace("X", "x"): "0x2ad3a182fb05c"}, timed=TIMED, out=out, library=later_library
    )
    assert changed == (Changed(FIRST, 0x665DED9ABBF88, 0x2AD3A182FB05C),)
    assert held(out)[FIRST] == [0x2AD3A182FB05C, 0.0123]
    assert file.read_bytes() == before


def test_without_a_table_the_time_of_before_is_kept(file: Path, later_library: Library) -> None:
    edit_timing_cache(file, lock={SECOND: 99}, library=later_library)
    assert held(file)[SECOND] == [99, 0.5]


def test_nothing_to_change_writes_nothing(file: Path, later_library: Library) -> None:
    stamp = file.stat().st_mtime_ns
    assert edit_timing_cache(file, forbid=[12345], timed=TIMED, library=later_library) == ()
    assert edit_timing_cache(file, lock={SECOND: 77}, library=later_library) == ()
    assert file.stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"forbid": [77]}, UsageError, "has the forbidden tactic 0x4d, and no other is known for it: build once with"),
        ({"forbid": ["sm90_other"], "timed": TIMED}, UsageError, "no timed kernel is called 'sm90_other'"),
        ({"lock": {"matMul1": 5}}, UsageError, "the timing cache has no key 'matMul1'; its 2 keys are"),
        ({"lock": {"0x" + "0" * 32: 5}}, UsageError, "the timing cache has no key '0x0000"),
        ({"lock": {FIRST: 5}, "timed": TIMED}, UsageError, "tactic 0x5 was not timed for 'matMul1'"),
        ({"lock": {FIRST: "fast"}}, UsageError, "'fast' is no tactic; give its hash"),
        ({"lock": {FIRST: -3}}, UsageError, "'-3' is no tactic"),
        ({"lock": {SECOND: 1}}, BuildError, "refuses tactic 0x1 for entry"),
    ],
)
def test_wrong_edits_change_nothing(
    file: Path, later_library: Library, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    before = file.read_bytes()
    with pytest.raises(error, match=words):
        edit_timing_cache(file, library=later_library, **arguments)
    assert file.read_bytes() == before


def test_wrong_files(tmp_path: Path, later_library: Library) -> None:
    with pytest.raises(UsageError, match=r"none\.cache cannot be read"):
        read_timing_cache(tmp_path / "none.cache", later_library)
    (tmp_path / "text").write_text("hello")
    other = write(tmp_path / "other.cache", ENTRIES, gpu="another")
    for path in (tmp_path / "text", other):
        with pytest.raises(BuildError, match="no timing cache of TensorRT 10.13.3 and this GPU"):
            read_timing_cache(path, later_library)


def test_versions_without_it_say_so(file: Path, fake_library: Library) -> None:
    assert not fake_library.editable_timing_cache
    with pytest.raises(UsageError, match=r"TensorRT 10\.6\.0 cannot edit a timing cache: TensorRT 10\.8 and later can"):
        edit_timing_cache(file, forbid=[77], library=fake_library)
    told = {
        v: describe_version(v)["editable_timing_cache"]
        for v in ("10.6.0", "10.7.0", "10.8.0.43", "10.13.3.9", "11.4.0")
    }
    assert list(told.values()) == [False, False, True, True, True]


def test_engines_with_the_tactics_of_before_are_dropped(later_library: Library) -> None:
    engines_folder().mkdir(parents=True)
    (engines_folder() / "a.plan").write_bytes(b"")
    (engines_folder() / "a.json").write_bytes(b"")
    own = write(default_folder() / "GPU.cache", ENTRIES)
    assert describe_timing_caches() == {"folder": str(default_folder()), "files": 1, "bytes": own.stat().st_size}
    edit_timing_cache(own, lock={SECOND: 77}, library=later_library)
    assert list(engines_folder().glob("*.plan")), "nothing was changed"
    edit_timing_cache(own, lock={SECOND: 78}, library=later_library)
    assert not list(engines_folder().glob("*.plan"))


def test_in_the_worker(file: Path, later_library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tactics, "load", lambda kind: later_library)
    seen: list[str] = []
    edit = TimingCacheEdit(str(file), forbid=("sm80_gemm_stage3",), timed=TIMED)
    changed = edit_in_worker(edit, lambda progress: seen.append(progress.message))
    assert [c.after for c in changed] == [0x393E4EF8AD243]
    assert seen == ["editing t.cache"]


def test_the_build_obeys_an_edited_cache_only_where_it_can(later_library: Library, fake_library: Library) -> None:
    def configure(library: Library, **more: Any) -> Any:
        options = BuildOptions(backend="tensorrt", editable_timing_cache=True, **more)
        return make_config(
            library, library.module.Builder(None), options, BuildProgress(library, lambda progress: None)
        )

    config, facts = configure(later_library)
    assert later_library.module.BuilderFlag.EDITABLE_TIMING_CACHE in config.flags
    assert facts["editable_timing_cache"] is True
    with pytest.raises(UsageError, match="TensorRT 10.6.0 has no editable timing cache"):
        configure(fake_library)
    with pytest.raises(UsageError, match="needs a timing cache; name one instead of 'off'"):
        configure(later_library, timing_cache="off")
