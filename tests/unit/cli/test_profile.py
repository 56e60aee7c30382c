"""`trt-lab profile` and `trt-lab diff-engines` as a user meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.unit.cli.calling import call, strict

DATA = Path(__file__).resolve().parents[2] / "data"
FP16 = DATA / "gpu" / "encoder4-fp16.trtlab"
FP32 = DATA / "gpu" / "encoder4-fp32.trtlab"


def read(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, err = call(capsys, *arguments, "--json")
    assert err == ""

    return code, strict(out)


def pair(folder: Path, name: str, times: dict[str, float]) -> tuple[Path, Path]:
    """Layer JSON and its profile, under names that do not belong together by themselves."""
    layers, profile = folder / f"{name}-info.json", folder / f"{name}-times.json"
    layers.write_text(json.dumps({"Layers": list(times), "Bindings": []}))
    rows = [
        {"name": key, "timeMs": ms * 10, "averageMs": ms, "medianMs": ms, "percentage": 1.0}
        for key, ms in times.items()
    ]
    profile.write_text(json.dumps([{"count": 10}, *rows]))
    return layers, profile


# --- profile --------------------------------------------------------------------------------


def test_a_record_gives_rows_by_layer_and_node(capsys: pytest.CaptureFixture[str]) -> None:
    code, data = read(capsys, "profile", FP16)
    assert code == 0
    assert len(data["rows"]) == 43
    assert {"layer", "average_ms", "median_ms", "share", "nodes"} <= set(data["rows"][0])
    assert sum(row["share"] for row in data["rows"]) == pytest.approx(1)
    assert data["layer_sum_ms"] == pytest.approx(sum(row["average_ms"] for row in data["rows"]))
    assert data["layer_sum_median_ms"] == pytest.approx(sum(row["ms"] for row in data["nodes"]))
    assert data["latency_ms"] == pytest.approx(0.161488, abs=1e-6)
    assert data["latency"]["difference_ms"] == pytest.approx(data["latency"]["layers_ms"] - data["latency_ms"])
    assert (data["regressions"], data["improvements"], data["baseline"], data["more"]) == ([], [], None, [])


def test_c39_shares_are_computed_anew_and_rows_of_no_time_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [("a", 0.5, 40.0), ("b", 0.0, 0.0), ("c", 1.5, 53.0)]
    file = tmp_path / "p.json"
    file.write_text(
        json.dumps(
            [{"count": 11}, *({"name": n, "timeMs": 11 * ms, "averageMs": ms, "percentage": p} for n, ms, p in rows)]
        )
    )
    _, data = read(capsys, "profile", file)
    assert [(row["layer"], row["average_ms"], row["median_ms"], row["share"]) for row in data["rows"]] == [
        ("a", 0.5, None, 0.25),
        ("b", 0.0, None, 0.0),
        ("c", 1.5, None, 0.75),
    ]
    assert (data["layer_sum_ms"], data["latency_ms"], data["layer_sum_median_ms"]) == (2.0, None, None)
    assert any("93" in note for note in data["notes"])


def test_c40_equal_names_are_matched_in_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    layers, profile = tmp_path / "l.json", tmp_path / "p.json"
    layers.write_text('{"Layers":["a","b","copy","d","e","copy"],"Bindings":[]}')
    profile.write_text(
        '[{"count":1},{"name":"copy","timeMs":0.1,"averageMs":0.1},{"name":"copy","timeMs":0.3,"averageMs":0.3}]'
    )
    _, data = read(capsys, "profile", layers, profile)
    assert [(row["index"], row["average_ms"]) for row in data["rows"]] == [(2, 0.1), (5, 0.3)]
    assert data["layer_sum_ms"] == pytest.approx(0.4)


def test_layers_take_the_profile_after_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first, second = pair(tmp_path, "one", {"a": 1.0, "b": 2.0}), pair(tmp_path, "two", {"a": 3.0})
    code, data = read(capsys, "profile", *first, *second, FP16)
    assert code == 0
    assert (data["layer_sum_ms"], data["more"][0]["layer_sum_ms"], len(data["more"][1]["rows"])) == (3.0, 3.0, 43)
    code, out, err = call(capsys, "profile", first[0], pair(tmp_path, "three", {"z": 1.0})[1])
    assert (code, out) == (2, "")
    assert "the profile of another engine" in err


def test_a_regression_is_exit_1_and_told_everywhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = {f"Conv_{i}": 1.0 + i for i in range(12)}
    before, after = pair(tmp_path, "before", names), pair(tmp_path, "after", {**names, "Conv_4": 6.5, "Conv_7": 4.0})
    base, junit, text = tmp_path / "base.json", tmp_path / "j.xml", tmp_path / "m.md"
    assert call(capsys, "profile", *before, "--write-baseline", base)[0] == 0
    assert read(capsys, "profile", *before, "--baseline", base)[0] == 0
    code, data = read(capsys, "profile", *after, "--baseline", base, "--junit", junit, "--markdown", text)
    assert code == 1
    assert [(row["layer"], row["nodes"]) for row in data["regressions"]] == [("Conv_4", ["Conv_4"])]
    assert data["regressions"][0]["change"] == pytest.approx(0.3)
    assert [(row["layer"], row["change"]) for row in data["improvements"]] == [("Conv_7", -0.5)]
    assert data["written"] == [str(junit), str(text)]
    assert [
        case.get("name") for case in ElementTree.parse(junit).iter("testcase") if case.find("failure") is not None
    ] == ["Conv_4"]
    assert "1 slower, 1 faster" in text.read_text()
    assert read(capsys, "profile", *after, "--baseline", base, "--tolerance", 0.35)[0] == 0
    code, out, _ = call(capsys, "profile", *after, "--baseline", base)
    assert code == 1
    assert "slower: Conv_4: 5 ms → 6.5 ms (+30.0 %" in out


def test_a_baseline_of_another_gpu_or_model_is_exit_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = tmp_path / "base.json"
    assert call(capsys, "profile", FP16, "--write-baseline", base)[0] == 0
    assert call(capsys, "profile", FP16, "--baseline", base)[0] == 0
    content = json.loads(base.read_text())
    for key, value in (("gpu", "NVIDIA L4"), ("version", "11.0.0"), ("model_hash", "0" * 64)):
        base.write_text(json.dumps({**content, key: value}))
        code, out, err = call(capsys, "profile", FP16, "--baseline", base, "--json")
        assert (code, out) == (2, "")
        assert f"of another {key}" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["profile", "nothing.json"], "nothing.json"),
        (["profile", str(FP16), "--junit", "x.xml"], "--baseline"),
        (["profile", str(FP16), str(FP32), "--write-baseline", "b.json"], "give one"),
        (["profile", str(FP16), "--baseline", "missing.json"], "missing.json"),
        (["profile", str(FP16), "--tolerance", "-1"], "--tolerance"),
        (["diff-engines", str(FP16)], "one engine alone"),
        (["diff-engines", str(FP16), str(DATA / "gpu" / "magika-fp16.trtlab")], "no ONNX node in common"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_chrome_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    code, data = read(capsys, "profile", FP16, FP32, "--chrome-trace", trace)
    assert (code, data["written"]) == (0, [str(trace)])
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) >= 20 * (43 + 61)


def test_tables_fit_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in (["profile", FP16], ["diff-engines", FP32, FP16]):
        code, out, _ = call(capsys, *arguments)
        assert code == 0
        table = [line for line in out.splitlines() if line.startswith("/") or line.endswith("float16")]
        assert len(table) >= 5
        assert max(len(line.rstrip()) for line in table) <= 80


# --- diff-engines ------------------------------------------------------------------------------


def test_diff_of_two_records(capsys: pytest.CaptureFixture[str]) -> None:
    code, data = read(capsys, "diff-engines", FP32, FP16)
    assert code == 0
    totals = data["totals"]
    for side in ("a_ms", "b_ms", "delta_ms"):
        assert sum(row[side] or 0.0 for row in data["rows"]) == pytest.approx(totals[side])
        assert sum(row[side] or 0.0 for row in data["groups"]) == pytest.approx(totals[side])
        assert sum(row[side] or 0.0 for row in data["scopes"]) == pytest.approx(totals[side])
    assert (len(data["fusions_changed"]), len(data["tactics_changed"]), len(data["types_changed"])) == (8, 24, 144)
    assert totals["latency_b_ms"] < totals["latency_a_ms"]
    assert data["facts_changed"]["precision"] == {"a": "fp32", "b": "fp16"}
    assert data["more"] == []


def test_the_first_of_several_is_what_the_others_are_compared_with(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [
        *pair(tmp_path, "one", {"a": 1.0}),
        *pair(tmp_path, "two", {"a": 2.0}),
        *pair(tmp_path, "three", {"a": 4.0}),
    ]
    code, data = read(capsys, "diff-engines", *files)
    assert code == 0
    assert [row["delta_ms"] for row in (data["rows"][0], data["more"][0]["rows"][0])] == [1.0, 3.0]
    assert any("what is noise cannot be told" in note for note in data["notes"])


def test_explorer_folders_of_one_name_are_told_apart(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    source = shared / "real_inputs" / "trex" / "examples" / "pytorch" / "resnet" / "A100"
    for name in ("fp32", "fp16"):
        shutil.copytree(source / name, tmp_path / name)
    code, data = read(capsys, "diff-engines", tmp_path / "fp32", tmp_path / "fp16")
    assert code == 0
    assert [data[side]["label"] for side in ("a", "b")] == ["fp32/resnet.onnx", "fp16/resnet.onnx"]
    assert data["totals"]["delta_ms"] < -1
    assert data["fusions_changed"] == []
    assert ("Conv_3", "tf32", "float16") in {(t["node"], t["type_a"], t["type_b"]) for t in data["types_changed"]}
