"""What careless and hostile users give to commands: one line that says what to do, or right figures; nothing lost."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.calling import call, strict
from trt_lab.cli import output
from trt_lab.errors import UsageError

DIGITS = "9" * 5000


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The line of a command that must end with 2."""
    code, out, err = call(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "failed inside" not in err
    assert all(char.isprintable() for char in err[:-1])
    return err


def profile(path: Path, *rows: tuple[str, object]) -> Path:
    path.write_text(json.dumps([{"count": 10}, *({"name": name, "averageMs": ms} for name, ms in rows)]))
    return path


def ort(*events: dict[str, object]) -> str:
    whole = {"cat": "Session", "name": "model_run", "ts": 0, "dur": 5}
    return json.dumps(
        [whole, *({"cat": "Node", "name": "a_kernel_time", "ts": 1, "dur": 2} | event for event in events)]
    )


@pytest.mark.parametrize("command", ["inspect", "profile"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 100_000, "nested too deeply"),
        (f'{{"Layers": [{DIGITS}]}}', "thousands of digits"),
        (ort({"dur": "long"}), "'dur'"),
        (ort({"ts": None}), "'ts'"),
        (ort({"dur": int("9" * 400)}), "'dur'"),
        (ort({"dur": -2}), "'dur'"),
    ],
)
def test_broken_files_are_told_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, text: str, told: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    assert told in refused(capsys, command, file, "--json")


@pytest.mark.parametrize("command", ["inspect", "profile"])
def test_odd_arguments_of_a_kernel_are_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    file = tmp_path / "ort.json"
    odd = {
        "op_name": ["x"],
        "output_size": "²",
        "parameter_size": DIGITS,
        "input_type_shape": [3, None, {"float": "q"}],
    }
    file.write_text(ort({"args": odd}, {"name": "b_kernel_time", "args": [1]}))
    code, out, _ = call(capsys, command, file, "--json")
    assert code == 0
    assert strict(out)["dialect"] == "onnxruntime"


def test_times_that_are_none_are_missing_and_sums_stay_finite(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = profile(tmp_path / "p.json", ("a", -1.0), ("b", 1e300), ("c", 2.0), ("d", True))
    code, out, _ = call(capsys, "profile", file, "--json")
    data = strict(out)
    assert code == 0
    assert [(row["layer"], row["average_ms"]) for row in data["rows"]] == [("c", 2.0)]
    assert data["layer_sum_ms"] == 2.0
    assert sum("'a' has no averageMs of 0 or more" in note for note in data["notes"]) == 1


def test_a_latency_below_zero_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    times = tmp_path / "t.json"
    times.write_text(json.dumps([{"latencyMs": -1.0}]))
    assert "'latencyMs' is missing" in refused(capsys, "profile", times)


def test_names_move_no_terminal_and_json_stays_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "ünï code\x1b[31m\u202e"
    folder.mkdir()
    file = profile(folder / "p é.json", ("\x1b[2J\ud800\u202eé\nnote: all is well", 1.0))
    for command in (["inspect", file], ["profile", file], ["diff-engines", file, file]):
        code, out, _ = call(capsys, *command)
        assert code == 0
        assert all(char.isprintable() or char == "\n" for char in out)
        assert not any(line.startswith("note: all is well") for line in out.splitlines())
        code, out, _ = call(capsys, *command, "--json")
        assert code == 0
        assert "\ud800" not in out
        assert strict(out)
    assert "no such file" in refused(capsys, "inspect", folder / "other.json")


def test_an_error_is_short_whatever_a_name_is(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_error("n" * 100_000)
    assert len(capsys.readouterr().err) < 2100


def test_json_fits_a_terminal_of_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    output.print_json({"name": "é→\U0001f600"})
    sys.stdout.flush()
    assert strict(written.getvalue().decode("ascii")) == {"name": "é→\U0001f600"}


def test_a_reader_that_went_away_is_no_finding() -> None:
    text = "import os; r, w = os.pipe(); os.close(r); os.dup2(w, 1); from trt_lab.cli.main import run; run(['zoo', '--json'])"
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, b"Traceback" in ended.stderr) == (2, False)


@pytest.mark.parametrize("value", ["inf", "1e999", "nan", "-1"])
def test_a_tolerance_is_a_finite_number(capsys: pytest.CaptureFixture[str], tmp_path: Path, value: str) -> None:
    file, base = profile(tmp_path / "p.json", ("a", 1.0)), tmp_path / "b.json"
    assert call(capsys, "profile", file, "--write-baseline", base)[0] == 0
    assert "--tolerance" in refused(capsys, "profile", file, "--baseline", base, "--tolerance", value, "--json")


@pytest.mark.parametrize(
    "change", [{"runs": 10**400}, {"average_ms": 1e308}, {"average_ms": -1.0}, {"spread_ms": -1.0}, {"runs": -5}]
)
def test_a_baseline_of_impossible_figures_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: dict[str, object]
) -> None:
    file, base = profile(tmp_path / "p.json", ("a", 1.0)), tmp_path / "b.json"
    assert call(capsys, "profile", file, "--write-baseline", base)[0] == 0
    data = json.loads(base.read_text())
    data["layers"][0] |= change
    base.write_text(json.dumps(data))
    assert f"layers.0.{next(iter(change))}" in refused(capsys, "profile", file, "--baseline", base, "--json")


def test_a_baseline_of_next_to_no_time_has_no_change(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, base = profile(tmp_path / "p.json", ("a", 1.0)), tmp_path / "b.json"
    tiny = profile(tmp_path / "tiny.json", ("a", 5e-324))
    assert call(capsys, "profile", tiny, "--write-baseline", base)[0] == 0
    code, out, _ = call(capsys, "profile", file, "--baseline", base, "--json")
    assert (code, {row["change"] for row in strict(out)["baseline"]["rows"]}) == (1, {None})


# --- what is written ------------------------------------------------------------------------


OUTPUTS = ["--write-baseline", "--chrome-trace", "--junit", "--markdown"]


@pytest.fixture
def given(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> tuple[Path, Path]:
    """A profile and its baseline."""
    file, base = profile(tmp_path / "p.json", ("a", 1.0)), tmp_path / "b.json"
    assert call(capsys, "profile", file, "--write-baseline", base)[0] == 0
    return file, base


@pytest.mark.parametrize("option", OUTPUTS)
def test_what_is_read_is_not_overwritten(
    capsys: pytest.CaptureFixture[str], given: tuple[Path, Path], tmp_path: Path, option: str
) -> None:
    file, base = given
    before, link = file.read_bytes(), tmp_path / "link"
    link.symlink_to(file)
    for target in (file, link):
        assert "would overwrite" in refused(capsys, "profile", file, "--baseline", base, option, target)
    assert file.read_bytes() == before


@pytest.mark.parametrize("option", OUTPUTS)
def test_another_file_is_not_overwritten_and_an_earlier_output_is(
    capsys: pytest.CaptureFixture[str], given: tuple[Path, Path], tmp_path: Path, option: str
) -> None:
    file, base = given
    notes, own = tmp_path / "notes", tmp_path / "own"
    notes.write_text("a month of work")
    assert "is not overwritten" in refused(capsys, "profile", file, "--baseline", base, option, notes)
    assert notes.read_text() == "a month of work"
    for _ in range(2):
        assert call(capsys, "profile", file, "--baseline", base, option, own)[0] == 0
    assert "is a folder" in refused(capsys, "profile", file, "--baseline", base, option, tmp_path)


def test_two_outputs_are_two_files(
    capsys: pytest.CaptureFixture[str], given: tuple[Path, Path], tmp_path: Path
) -> None:
    file, base = given
    one = tmp_path / "one"
    told = refused(capsys, "profile", file, "--baseline", base, "--junit", one, "--markdown", one)
    assert "--junit is written there too" in told
    assert not one.exists()


def test_a_baseline_may_replace_the_one_it_was_held_against(
    capsys: pytest.CaptureFixture[str], given: tuple[Path, Path]
) -> None:
    file, base = given
    assert call(capsys, "profile", file, "--baseline", base, "--write-baseline", base)[0] == 0


def test_links_stay_and_devices_too(
    capsys: pytest.CaptureFixture[str], given: tuple[Path, Path], tmp_path: Path
) -> None:
    file, _ = given
    link, real, pipe = tmp_path / "link", tmp_path / "real", tmp_path / "pipe"
    link.symlink_to(real)
    assert call(capsys, "profile", file, "--write-baseline", link)[0] == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["baseline_version"] == 1
    os.mkfifo(pipe)
    assert "device or a pipe" in refused(capsys, "profile", file, "--write-baseline", pipe)
    assert pipe.is_fifo()
    assert "device or a pipe" in refused(capsys, "reduce", "zoo:l2norm_overflow", "-o", pipe)


def test_reduce_and_report_keep_what_they_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"\x08\x08")
    assert "would overwrite" in refused(capsys, "reduce", model, "-o", model)
    inputs = tmp_path / "m.inputs.npz"
    inputs.write_bytes(b"x")
    assert "would overwrite" in refused(capsys, "reduce", "zoo:l2norm_overflow", "--inputs", inputs, "-o", model)
    record = Path(__file__).resolve().parents[2] / "data" / "gpu" / "encoder4-fp16.trtlab"
    assert "would overwrite" in refused(capsys, "report", record, "-o", record / "record.json")


def test_times_given_twice_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = profile(tmp_path / "p.json", ("a", 1.0))
    assert "layer times itself" in refused(capsys, "inspect", file, "--profile", file)
    times = tmp_path / "t.json"
    times.write_text(json.dumps([{"latencyMs": 3.0}]))
    assert "run times itself" in refused(capsys, "inspect", times, "--times", times)
    code, out, _ = call(capsys, "inspect", file, "--times", times, "--json")
    assert (code, strict(out)["times"]["median_latency_ms"]) == (0, 3.0)


def test_a_check_without_a_number_says_so() -> None:
    from trt_lab.diagnose.check import Check

    with pytest.raises(UsageError, match="is no number"):
        Check.of("cosine>=e")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-o", "MODEL"], "would overwrite"),
        (["-o", "one", "--fixed", "one", "--check", "cosine>=0.9"], "-o is written there too"),
        (["-o", "new", "--write-cache", "notes"], "is not overwritten"),
        (["-o", "."], "is a folder"),
        (["--write-cache", "new"], "give -o"),
        (["--read-cache", "notes"], "give -o"),
        (["--exclude", "Conv"], "give -o"),
        (["-o", "new", "--float-model", "MODEL"], "leave it out"),
    ],
)
def test_quantize_refuses_before_it_works(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("MODEL", "notes"):
        Path(name).write_text("a month of work")
    assert told in refused(capsys, "quantize", "MODEL", *arguments)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["MODEL", "notes"]


def test_a_precision_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = profile(tmp_path / "p.json", ("a", 1.0))
    assert "take fp16, bf16, int8, fp8 or fp32" in refused(capsys, "inspect", file, "--precision", "banana")


def test_tolerances_of_compare_are_finite(capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("inf", "1e999", "y:inf"):
        assert "--atol" in refused(capsys, "compare", "a.npz", "b.npz", "--atol", value, "--json")


def test_polygraphy_json_nested_too_deeply_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 100_000)
    assert "not JSON" in refused(capsys, "compare", file, file)


def test_a_regression_does_not_become_the_baseline(
    capsys: pytest.CaptureFixture[str], given: tuple[Path, Path], tmp_path: Path
) -> None:
    _, base = given
    before, slower = base.read_bytes(), profile(tmp_path / "slower.json", ("a", 2.0))
    code, out, err = call(capsys, "profile", slower, "--baseline", base, "--write-baseline", base, "--json")
    assert (code, strict(out)["written"], err.count("\n")) == (1, [], 1)
    assert "is kept" in err
    assert base.read_bytes() == before
    other = tmp_path / "other.json"
    assert call(capsys, "profile", slower, "--baseline", base, "--write-baseline", other)[0] == 1
    assert other.exists()
