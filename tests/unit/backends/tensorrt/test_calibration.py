"""Calibration caches: the text that TensorRT writes, read and written."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_lab.backends.tensorrt.calibration import CalibrationCache, of_ranges, parse_cache, read_cache, write_cache
from trt_lab.errors import RecordError

REAL = (
    "TRT-8205-EntropyCalibration2\ninput: 3b810a13\ninput.1: 3c96d93c\nonnx::Conv_329: 3c96d93c\n"
    "(Unnamed Layer* 22) [Constant]_output: 3a4b050c\n(Unnamed Layer* 64) [Shuffle]_output: 0\n"
)
"""Lines of the form seen in public reports (NVIDIA/TensorRT#2958)."""


def test_names_with_colons_and_spaces_and_tensors_without_a_scale() -> None:
    cache = parse_cache(REAL, "model.cache")
    assert (cache.algorithm, cache.version, cache.trt_version) == ("EntropyCalibration2", "8205", "8.2.5")
    assert list(cache.scales) == ["input", "input.1", "onnx::Conv_329", "(Unnamed Layer* 22) [Constant]_output"]
    assert cache.without == ("(Unnamed Layer* 64) [Shuffle]_output",) and cache.notes == ()
    assert cache.scales["input"] == struct.unpack(">f", bytes.fromhex("3b810a13"))[0]
    assert cache.scales["input"] == pytest.approx(1 / 254, rel=1e-3)


def test_ort_reads_the_same_number_as_a_range() -> None:
    """The reader of ONNX Runtime's provider takes 4000889d as 2.0083…, times 127."""
    cache = parse_cache("TRT-7103-EntropyCalibration2\ndata_0: 4000889d\n", "t")
    assert cache.ranges["data_0"][1] == pytest.approx(2.008338 * 127, rel=1e-6)
    assert cache.ranges["data_0"][0] == -cache.ranges["data_0"][1]


@pytest.mark.parametrize(
    ("digits", "version"), [("8401", "8.4.1"), ("7103", "7.1.3"), ("100600", "10.6.0"), ("101401", "10.14.1")]
)
def test_versions(digits: str, version: str) -> None:
    assert parse_cache(f"TRT-{digits}-MinMaxCalibration\n", "t").trt_version == version


SCALES = st.floats(0, allow_infinity=False, allow_nan=False, width=32, exclude_min=True, allow_subnormal=True)
NAMES = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(NAMES, SCALES, max_size=8))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, scales: dict[str, float]) -> None:
    file = tmp_path_factory.mktemp("cache") / "model.cache"
    write_cache(file, CalibrationCache(scales, ("none",) if "none" not in scales else ()))
    again = read_cache(file)
    assert dict(again.scales) == scales and list(again.scales) == list(scales)
    assert again.without == (("none",) if "none" not in scales else ())


def test_the_bytes_are_those_of_tensorrt(tmp_path: Path) -> None:
    cache = parse_cache(REAL, "t")
    assert write_cache(tmp_path / "c", cache).read_bytes() == REAL.encode()


def test_ranges_become_scales() -> None:
    cache = of_ranges({"a": (-12.7, 3.0), "b": (0.0, 0.0), "c": (0.0, float("inf"))})
    assert cache.scales == {"a": pytest.approx(0.1)} and cache.without == ("b", "c")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1 is ''"),
        ("{}", "begins like TRT-100600-EntropyCalibration2"),
        ("TRT-8205-EntropyCalibration2\ninput 3b810a13\n", "line 2 is 'input 3b810a13'"),
        ("TRT-8205-EntropyCalibration2\na: 1\nb: 3b810a13ff\n", "line 3"),
        ("TRT-8205-EntropyCalibration2\na: xyz\n", "up to 8 hex digits"),
    ],
)
def test_what_is_no_cache_is_told_by_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "model.cache"
    file.write_text(text)
    with pytest.raises(RecordError, match="model.cache") as error:
        read_cache(file)
    assert words in str(error.value)


def test_bytes_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="byte 0 is no text"):
        read_cache(tmp_path / "b")
    with pytest.raises(RecordError, match="No such file"):
        read_cache(tmp_path / "nothing")


def test_odd_lines_are_told_and_taken() -> None:
    cache = parse_cache("TRT-8205-EntropyCalibration2\r\na: 3f800000\r\na: 40000000\nn: 7fc00000\nm: bf800000\n", "t")
    assert cache.scales == {"a": 2.0} and cache.without == ("n", "m")
    assert [note.split(":")[0] for note in cache.notes] == ["line 3", "line 4", "line 5"]


def test_what_a_cache_cannot_hold_is_refused(tmp_path: Path) -> None:
    for scales, words in (
        ({"a\nb": 1.0}, "line break"),
        ({"a": float("nan")}, "'a' is nan"),
        ({"a": -1.0}, "'a' is -1"),
    ):
        with pytest.raises(RecordError, match=words):
            write_cache(tmp_path / "c", CalibrationCache(scales))
    assert not (tmp_path / "c").exists()
