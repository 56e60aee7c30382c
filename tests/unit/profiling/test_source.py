"""Engines opened from any file: every form, nothing filled in, and errors that name the key or the byte."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_lab.engine_json import NOT_DETAILED
from trt_lab.errors import RecordError, TrtLabError
from trt_lab.frames import engine_frame, layer_map_frame
from trt_lab.profiling.fusion import groups
from trt_lab.profiling.lints import lints
from trt_lab.profiling.shares import memory, precision_key, reformats, shares
from trt_lab.profiling.source import Engine, open_engine

GPU = Path(__file__).resolve().parents[2] / "data" / "gpu"


def write(folder: Path, name: str, content: Any) -> Path:
    """A file of this content: bytes as they are, all else as JSON."""
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return file


def conv(name: str, out: str, dtype: str = "Float", **more: Any) -> dict[str, Any]:
    """A layer of the TensorRT 10 dialect."""
    tensor = {"Name": "x", "Dimensions": [1, 8, 4, 4], "Format/Datatype": dtype}
    return {
        "Name": name, "LayerType": "CaskConvolution", "Inputs": [tensor], "Outputs": [{**tensor, "Name": out}],
        "StreamId": 0, **more,
    }  # fmt: skip


# --- all pairs of the explorer --------------------------------------------------------------------


def pairs(shared: Path) -> list[tuple[Path, Path]]:
    found = sorted((shared / "real_inputs" / "trex").rglob("*.graph.json"))
    return [(file, file.with_name(file.name.replace(".graph.", ".profile."))) for file in found]


def test_every_pair_of_the_explorer_has_the_rows_and_sums_of_its_files(shared: Path) -> None:
    found = pairs(shared)
    assert len(found) == 7
    for layers_file, profile_file in found:
        layers = json.loads(layers_file.read_text())["Layers"]
        rows = [row for row in json.loads(profile_file.read_text()) if "name" in row]
        engine = open_engine(layers_file)
        frame = engine_frame(engine)
        assert engine.kind == "explorer" and engine.dialect == "trt8"
        assert frame["name"].tolist() == [layer["Name"] for layer in layers]
        assert len(engine.times) == len(rows) == frame["average_ms"].notna().sum()
        assert frame["average_ms"].sum() == pytest.approx(sum(row["averageMs"] for row in rows), rel=1e-12)
        assert frame["share"].sum() * 100 == pytest.approx(100, abs=0.1)
        told = [row["percentage"] for row in rows]
        assert max(abs(a * 100 - b) for a, b in zip(frame["share"], told, strict=True)) < 0.01
        assert dict(zip(frame["name"], frame["average_ms"], strict=True)) == {r["name"]: r["averageMs"] for r in rows}
        assert dict(zip(frame["name"], frame["median_ms"], strict=True)) == {r["name"]: r["medianMs"] for r in rows}


def test_what_the_explorers_files_do_not_tell_stays_missing(shared: Path) -> None:
    for layers_file, _ in pairs(shared):
        layers = json.loads(layers_file.read_text())["Layers"]
        frame = engine_frame(open_engine(layers_file))
        for layer, tactic, stream, weights in zip(
            layers, frame["tactic"], frame["stream"].isna(), frame["weights_bytes"].isna(), strict=True
        ):
            assert (tactic is None) == (not layer.get("TacticName") and not layer.get("TacticValue"))
            assert stream == ("StreamId" not in layer)
            assert "Weights" in layer or layer["LayerType"] == "Constant" or weights
        assert frame[["min_ms", "max_ms", "runs"]].isna().all().all()


def test_run_times_of_the_explorer_are_the_latency(shared: Path) -> None:
    file = next((shared / "real_inputs" / "trex").rglob("A100/fp32/*.timing.json"))
    told = [row["latencyMs"] for row in json.loads(file.read_text())]
    assert open_engine(file).kind == "times" and open_engine(file).latency_ms == tuple(told)
    beside = open_engine(file.with_name(file.name.replace(".timing.", ".graph.")))
    assert beside.latency_ms == tuple(told)
    assert beside.layer_sum_ms is not None and beside.layer_sum_ms != pytest.approx(sum(told) / len(told), rel=0.01)


def test_an_explorers_folder_is_one_engine_and_of_several_they_are_listed(shared: Path, tmp_path: Path) -> None:
    folder = shared / "real_inputs" / "trex" / "examples" / "pytorch" / "resnet" / "A100"
    engine = open_engine(folder / "fp16")
    assert engine.kind == "explorer" and len(engine.layers) == 36
    assert engine.facts["gpu"] == "NVIDIA A100 80GB PCIe" and engine.facts["precision"] == "fp32+fp16"
    with pytest.raises(RecordError, match="there are engines in"):
        open_engine(folder)
    for name in ("a.graph.json", "b.graph.json"):
        write(tmp_path, name, {"Layers": []})
    with pytest.raises(RecordError, match=r"2 engines in it \(a\.graph\.json, b\.graph\.json\)"):
        open_engine(tmp_path)


def test_every_recorded_file_is_read(shared: Path) -> None:
    files = sorted((shared / "trt_records").glob("*.json"))
    assert len(files) >= 16
    for file in files:
        engine = open_engine(file)
        assert engine.dialect == "trt10" and engine.layers
        assert len(engine_frame(engine)) == len(engine.layers)


@pytest.mark.parametrize("record", sorted(GPU.glob("*.trtlab")), ids=lambda path: path.stem)
def test_records_are_engines(record: Path) -> None:
    engine = open_engine(record)
    assert engine.kind == "record" and engine.layers and engine.facts["model_hash"]
    assert engine.dialect == ("onnxruntime" if "reference" in record.name else "trt10")
    assert all(time.index < len(engine.layers) for time in engine.times)
    assert (engine.view is None) == any("no graph" in note for note in engine.notes)


# --- pairs that do not fit ------------------------------------------------------------------------


def test_the_profile_of_another_engine_is_refused_with_the_key(tmp_path: Path) -> None:
    layers = write(tmp_path, "l.json", {"Layers": [conv("a", "t")]})
    other = write(tmp_path, "p.json", [{"count": 1}, {"name": "zz", "averageMs": 1.0}])
    with pytest.raises(RecordError, match="'name' 'zz'"):
        open_engine(layers, profile=other)


def test_c40_equal_names_are_matched_in_order(tmp_path: Path) -> None:
    names = ["a", "b", "copy", "c", "d", "copy"]
    layers = write(tmp_path, "l.json", {"Layers": [conv(name, f"t{i}") for i, name in enumerate(names)]})
    rows = [{"name": n, "averageMs": t} for n, t in (("a", 1.0), ("copy", 0.1), ("d", 2.0), ("copy", 0.3))]
    engine = open_engine(layers, profile=write(tmp_path, "p.json", [{"count": 1}, *rows]))
    assert engine.time_of[2].average_ms == 0.1 and engine.time_of[5].average_ms == 0.3
    assert engine.layer_sum_ms == pytest.approx(3.4)
    assert any("2 layers have no time, first 'b'" in note for note in engine.notes)


def test_c40_another_count_is_ambiguous_and_summed_once(tmp_path: Path) -> None:
    layers = write(tmp_path, "l.json", {"Layers": [conv("copy", "t0"), conv("copy", "t1"), conv("a", "t2")]})
    rows = [{"name": "copy", "averageMs": 0.4}, {"name": "a", "averageMs": 1.0}, {"name": "new", "averageMs": 0.5}]
    engine = open_engine(layers, profile=write(tmp_path, "p.json", rows))
    assert engine.time_of[0].average_ms == 0.4 and 1 not in engine.time_of
    assert engine.layer_sum_ms == pytest.approx(1.9)
    assert any("'copy': ambiguous" in note for note in engine.notes)
    assert any("'new' was timed but is no layer" in note for note in engine.notes)
    assert engine_frame(engine)["average_ms"].sum() == pytest.approx(1.9)


@pytest.mark.parametrize("profiles", [2, 12])
def test_layers_of_several_profiles_keep_their_own_times(tmp_path: Path, profiles: int) -> None:
    named = ["a"] + [f"a [profile {n}]" for n in range(1, profiles)]
    layers = write(tmp_path, "l.json", {"Layers": [conv(name, f"t{i}") for i, name in enumerate(named)]})
    rows = [{"name": name, "averageMs": float(i + 1)} for i, name in enumerate(named)]
    engine = open_engine(layers, profile=write(tmp_path, "p.json", rows))
    assert [engine.time_of[i].average_ms for i in range(profiles)] == [float(i + 1) for i in range(profiles)]
    assert engine.facts["profiles"] == profiles and {layer.name for layer in engine.layers} == {"a"}
    one = write(tmp_path, "q.json", [rows[-1]])
    assert [time.index for time in open_engine(layers, profile=one).times] == [profiles - 1]


# --- what the profile's numbers mean --------------------------------------------------------------


def test_c39_what_the_numbers_mean(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"name": "a", "timeMs": 22.0, "averageMs": 2.0, "medianMs": 1.9, "percentage": 50.0},
        {"name": "b", "timeMs": 12.1, "averageMs": 1.0, "percentage": 43.0},
        {"name": "z", "timeMs": 0, "averageMs": 0, "percentage": 0},
    ]
    layers = write(tmp_path, "l.json", {"Layers": [conv(name, f"t{name}") for name in "abz"]})
    engine = open_engine(layers, profile=write(tmp_path, "p.json", [{"count": 11}, *rows]))
    frame = engine_frame(engine).set_index("name")
    assert frame["average_ms"].to_dict() == {"a": 2.0, "b": 1.0, "z": 0.0}
    assert frame.loc["a", "share"] == pytest.approx(2 / 3) and frame["share"].sum() == pytest.approx(1)
    assert frame.loc["a", "median_ms"] == 1.9 and math.isnan(frame.loc["b", "median_ms"])
    assert engine.facts["file_percentage_sum"] == 93.0 and engine.facts["profiled_runs"] == 11
    assert any("percentages add up to 93" in note for note in engine.notes)
    assert any(note.startswith("'b': timeMs 12.1 is not 11") for note in engine.notes)
    assert not any(note.startswith(("'a'", "'z'")) for note in engine.notes)


def test_c39_a_count_that_is_absent_and_rows_without_an_average(tmp_path: Path) -> None:
    file = write(
        tmp_path, "p.json", [{"name": "a", "timeMs": 3.0}, {"name": "b", "averageMs": 1.0}, {"averageMs": 2.0}]
    )
    engine = open_engine(file)
    assert engine.kind == "profile" and [layer.name for layer in engine.layers] == ["b"]
    assert "profiled_runs" not in engine.facts
    assert any("'a' has no averageMs" in note for note in engine.notes)
    assert any("row 2 of the profile has no 'name'" in note for note in engine.notes)
    counted = open_engine(write(tmp_path, "q.json", [{"count": 2}, {"name": "a", "timeMs": 3.0}]))
    assert counted.times[0].average_ms == 1.5


# --- forms and broken files -----------------------------------------------------------------------


def test_c36_names_alone_give_names_and_times(tmp_path: Path) -> None:
    layers = write(tmp_path, "l.json", {"Layers": ["a + b", "c"], "Bindings": ["x", "y"]})
    engine = open_engine(layers, profile=write(tmp_path, "p.json", [{"name": "c", "averageMs": 1.0}]))
    assert engine.dialect == "names" and NOT_DETAILED in engine.notes
    assert "not recorded: build with detailed verbosity" in NOT_DETAILED
    assert engine.layers[0].nodes == ("a", "b") and engine.time_of[1].average_ms == 1.0
    assert [share.key for share in shares(engine, "type")] == ["unknown"]
    assert open_engine(write(tmp_path, "e.json", {"Layers": []})).notes == ("no layers",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "the key 'Layers' is missing"),
        ([], "a list at top level where an object with the key 'Layers' is expected"),
        ([{"foo": 1}], "the key 'name' is missing"),
        ({"Bindings": []}, r"keys found: 'Bindings'"),
        ({"Layers": {}}, "'Layers' holds no list"),
        ({"Layers": [{"LayerType": "x"}]}, "layer 0 has no key 'Name'"),
        ([{"computeMs": 1.0}], "the key 'latencyMs' is missing"),
        (b"", "empty"),
        (b"hello", "broken JSON at byte 0"),
        (b'{"Layers": ["a', "broken JSON at byte 12"),
        ('{"Layers":["a"]}'.encode("utf-16"), r"not UTF-8 text \(byte 0\)"),
        (b"ftrt" + bytes(64), "is not loaded"),
        (b'[{"cat":"Session","name":"x","ts":1,"dur":2}]', "no 'model_run' event"),
        (b'[{"cat":"Session","name":"model_run","ts":1,"dur":2},{"cat":"No', "broken JSON at byte 60"),
        (b"[V] [TRT] Layers:\nName: broken", "no layer in it can be read"),
    ],
)
def test_broken_files_are_told_in_one_line(tmp_path: Path, content: Any, words: str) -> None:
    file = write(tmp_path, "broken.json", content)
    with pytest.raises(RecordError, match=words) as caught:
        open_engine(file)
    assert str(file) in str(caught.value)


def test_c37_separators_and_raw_bytes_in_metadata(tmp_path: Path) -> None:
    for separator in ("\x1e", "\x1f"):
        text = json.dumps({"Layers": [conv("k", "t", Metadata=f"[ONNX Layer: a]{separator}[ONNX Layer: b]")]})
        for data in (text, text.replace("\\u001e", "\x1e").replace("\\u001f", "\x1f")):
            engine = open_engine(write(tmp_path, "l.json", data.encode()))
            assert engine.layers[0].nodes == ("a", "b") and engine.layers[0].nodes_from == "metadata"
            csv = engine_frame(engine).to_csv()
            assert not any(ord(char) < 32 for char in csv if char != "\n")


def test_c38_layers_without_tensors_are_kept_timed_and_have_no_precision(tmp_path: Path) -> None:
    layers = [
        {"Name": "[trainStation1]", "LayerType": "TrainStation", "Inputs": [], "Outputs": []},
        {"Name": "[trainStation2]", "LayerType": "TrainStation", "Inputs": [], "Outputs": []},
        {"Name": "signal", "LayerType": "signal", "Inputs": [], "Outputs": []},
        {"Name": "wait", "LayerType": "wait"},
        {"Name": "k", "LayerType": "kgen", "Outputs": [{"Name": "t", "Format/Datatype": "Half"}]},
    ]
    rows = [{"name": layer["Name"], "averageMs": 0.5} for layer in layers]
    engine = open_engine(write(tmp_path, "l.json", {"Layers": layers}), profile=write(tmp_path, "p.json", rows))
    assert [precision_key(layer) for layer in engine.layers] == ["none"] * 4 + ["float16"]
    assert len(engine.times) == 5 and engine_frame(engine)["precision"].tolist()[0] == "none"
    assert {share.key: share.layers for share in shares(engine, "precision")} == {"none": 4, "float16": 1}
    assert memory(engine)[0].output_bytes is None and not reformats(engine)


def test_c41_byte_order_mark_names_of_any_script_and_nan(tmp_path: Path) -> None:
    text = '{"Layers": [{"Name": "层/归一化", "LayerType": "k", "Outputs": [], "Alpha": NaN, "Beta": -Infinity}]}'
    engine = open_engine(write(tmp_path, "l.json", b"\xef\xbb\xbf" + text.encode()))
    assert engine.layers[0].name == "层/归一化" and engine.layers[0].attributes == {"Alpha": None, "Beta": None}
    assert any(note.startswith("2 figures in the file are no numbers (-Infinity, NaN)") for note in engine.notes)
    profile = write(tmp_path, "p.json", b'[{"name": "a", "averageMs": NaN}, {"name": "b", "averageMs": 1e999}]')
    assert open_engine(profile).times == ()


def test_onnx_runtimes_profile_tells_layers_times_and_types(tmp_path: Path) -> None:
    events = [{"cat": "Session", "name": "model_run", "ts": 0, "dur": 100}]
    for start, name, op in ((5, "conv", "Conv"), (40, "relu", "Relu")):
        told = {"op_name": op, "output_type_shape": [{"float": [1, 8]}], "input_type_shape": []}
        events.append({"cat": "Node", "name": f"{name}_kernel_time", "ts": start, "dur": 20, "args": told})
    engine = open_engine(write(tmp_path, "ort.json", events))
    assert engine.kind == "ort" and engine.dialect == "onnxruntime"
    assert [(layer.name, layer.type) for layer in engine.layers] == [("conv", "Conv"), ("relu", "Relu")]
    assert [time.average_ms for time in engine.times] == [0.02, 0.02] and engine.latency_ms == ()
    assert engine.layers[0].outputs[0].dtype == "float32" and engine.facts["profiled_run_ms"] == 0.1


def test_a_verbose_log_of_rtx_is_an_engine(tmp_path: Path) -> None:
    log = (
        "[I] building\n[V] Layers:\nName: a + b, LayerType: gemm, Inputs: [ { Name: x, Dimensions: [1,4], "
        "Datatype: Half, Format: Linear }], Outputs: [ { Name: y, Dimensions: [1,8], Datatype: Half, Format: Linear }], "
        "TacticName: t, StreamId: 0, Metadata: [ONNX Layer: a]\n\nI/O Tensors:\n"
        "Name: x, IOMode: INPUT, DataType: HALF, Dimensions: [1,4], Location: DEVICE\n"
    )
    engine = open_engine(write(tmp_path, "build.log", log.encode()))
    assert engine.kind == "rtx_log" and engine.dialect == "tensorrt_rtx" and not engine.times
    assert engine.layers[0].nodes == ("a",) and engine.layers[0].precision == "float16"
    assert [(b.name, b.is_input) for b in engine.bindings] == [("x", True)]


# --- size and anything at all ---------------------------------------------------------------------


def test_ten_thousand_layers_are_read_in_a_second_of_processor_time(tmp_path: Path) -> None:
    layers = [
        conv(f"/block.{i}/Conv + /block.{i}/Relu", f"t{i}", "Half", Metadata=f"[ONNX Layer: /b.{i}/Conv]",
             Kernel=[3, 3], Stride=[1, 1], TacticName="sm80_xmma", Weights={"Type": "Half", "Count": 576})
        for i in range(10_000)
    ]  # fmt: skip
    file = write(tmp_path, "l.json", {"Layers": layers, "Bindings": ["x"]})
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        engine = open_engine(file)
        best = min(best, time.process_time() - start)
    assert len(engine.layers) == 10_000 and engine.layers[9_999].nodes == ("/b.9999/Conv",)
    assert best <= 1.0


_TEXT = st.text(max_size=8)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_KEYS = ("Name", "LayerType", "Inputs", "Outputs", "Weights", "Bias", "Metadata", "TacticName", "StreamId", "Constants")
_TENSOR = st.fixed_dictionaries(
    {}, optional={k: _JSON for k in ("Name", "Dimensions", "Format/Datatype", "Datatype", "Format", "Location")}
)
_LAYER = st.fixed_dictionaries({}, optional={k: _JSON | st.lists(_TENSOR, max_size=2) for k in _KEYS}) | _TEXT
_FILE = st.fixed_dictionaries({"Layers": st.lists(_LAYER, max_size=4)}, optional={"Bindings": _JSON}) | _JSON


@settings(max_examples=150, deadline=None)
@given(content=_FILE)
def test_any_json_is_an_engine_or_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    file = tmp_path_factory.mktemp("any") / "l.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    try:
        engine: Engine = open_engine(file)
    except TrtLabError as error:
        assert "\n" not in str(error)
        return
    engine_frame(engine)
    assert isinstance(lints(engine), tuple) and isinstance(groups(engine), tuple)


def test_an_engine_shows_itself_in_a_few_words_and_escapes_names() -> None:
    engine = Engine("<b>", None, "layers", "trt10", (), latency_ms=(2.0, 1.0, 9.0), notes=("<i>",))
    assert repr(engine) == "<Engine <b>: kind layers, dialect trt10, layers 0, latency 2 ms (median of 3 runs)>"
    assert "&lt;b&gt;" in engine._repr_html_() and "<i>" not in engine._repr_html_()
    assert "layer sum" not in engine.summary and engine.layer_sum_ms is None


def test_a_map_needs_a_graph(tmp_path: Path, shared: Path) -> None:
    file = shared / "trt_records" / "l2norm_overflow.fp16.layers.json"
    assert open_engine(file).map is None
    engine = open_engine(file, model=shared / "trt_records" / "l2norm_overflow.onnx")
    assert engine.map is not None and engine.view is not None
    assert len(layer_map_frame(engine.map, engine.view)) == len(engine.map.links) + len(engine.map.node_reasons)
