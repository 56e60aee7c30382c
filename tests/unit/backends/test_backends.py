"""The table of backends, jobs without a process, records played back, and what libraries print."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from trt_lab import backends, zoo
from trt_lab.backends.base import Backend
from trt_lab.backends.crash import describe_crash
from trt_lab.backends.jobs import Request, execute
from trt_lab.backends.output import OUTPUT_FILE, log_lines, printed_to, taken_over
from trt_lab.backends.recorded import Recorded
from trt_lab.errors import (
    BackendUnavailableError,
    CancelledError,
    InputError,
    ModelError,
    RecordError,
    RunError,
    UsageError,
)
from trt_lab.model import Model
from trt_lab.tensors import read_samples, write_samples
from trt_lab.types import BuildOptions, LayerInfo, LayerTime, LogLine, Progress


def silent(_: Progress) -> None:
    """Nobody listens."""


# --- the table --------------------------------------------------------------------------------


def test_names_are_unique_and_the_default_is_first() -> None:
    names = backends.names()
    assert names[0] == BuildOptions().backend == "onnxruntime"
    assert len(set(names)) == len(names)
    assert "recorded" in names
    assert [info.name for info in backends.infos()] == list(names)


def test_every_backend_says_why_it_cannot() -> None:
    for info in backends.infos():
        assert info.reason or (info.can_build and info.can_run)


def test_an_unknown_backend_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no backend 'onnxruntme': did you mean 'onnxruntime'\?.*recorded"):
        backends.get("onnxruntme")


# --- jobs -------------------------------------------------------------------------------------


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    fault = zoo.get("clean_cnn")
    path = fault.model.save(tmp_path / "clean.onnx")
    write_samples(tmp_path / "in", fault.feeds[:2], which="inputs")
    return Request("onnxruntime", str(path), BuildOptions(profile_runs=2), str(tmp_path / "in"), str(tmp_path / "out"))


def test_a_job_writes_what_the_backend_gives(request_: Request) -> None:
    outcome = execute(request_, silent)
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert len(pickle.dumps(outcome)) < 100_000
    model = Model.load(request_.model_path)
    backend = backends.get("onnxruntime")
    runner = backend.open(backend.build(model, request_.options, silent))
    for feeds, written in zip(
        read_samples(request_.samples_dir), read_samples(request_.out_dir, which="outputs"), strict=True
    ):
        expected = runner.run(feeds)
        assert list(written) == list(expected) == list(outcome.output_names)
        for name, array in expected.items():
            np.testing.assert_array_equal(written[name], array)
    runner.close()
    assert outcome.engine_file is None and outcome.samples == 2 and outcome.run_s > 0 and outcome.build_s > 0


def test_only_the_outputs_to_keep_are_written(request_: Request) -> None:
    name = execute(request_, silent).output_names[-1]
    outcome = execute(replace(request_, keep=(name,)), silent)
    assert outcome.output_names == (name,)
    with pytest.raises(InputError, match=f"no output 'nope' to keep; the engine gives.*{name}"):
        execute(replace(request_, keep=("nope",)), silent)


def test_without_a_profile_there_are_no_times(request_: Request) -> None:
    outcome = execute(replace(request_, options=BuildOptions(profile_runs=0)), silent)
    assert outcome.times == () and outcome.latency_ms == ()


def test_what_is_missing_is_named(request_: Request, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.onnx"):
        execute(replace(request_, model_path=str(tmp_path / "nowhere.onnx")), silent)
    with pytest.raises(RecordError, match="empty"):
        execute(replace(request_, samples_dir=str(tmp_path / "empty")), silent)
    with pytest.raises(UsageError, match="no backend"):
        execute(replace(request_, backend="nope"), silent)


@pytest.mark.parametrize("phase", ["build", "run", "profile"])
def test_a_job_stops_where_it_is_asked_to(request_: Request, phase: str) -> None:
    def stop(progress: Progress) -> None:
        if progress.phase == phase:
            raise CancelledError("cancelled")

    with pytest.raises(CancelledError):
        execute(request_, stop)


# --- records played back ----------------------------------------------------------------------


class Tape:
    """A recording of one sample."""

    name = "tape"
    layers = (LayerInfo(0, "l", "Add"),)
    times = (LayerTime(0, "l", 1.0, 1.0, (1.0,)),)
    latency_ms = (1.5,)
    samples = 1

    def inputs(self, index: int) -> dict[str, np.ndarray]:
        return {"x": np.array([1.0, np.nan], np.float32)}

    def outputs(self, index: int) -> dict[str, np.ndarray]:
        return {"y": np.array([2.0], np.float32)}

    def log(self) -> list[LogLine]:
        return [LogLine("info", "built")]


def test_a_record_is_played_back() -> None:
    backend: Backend = Recorded(Tape())
    info = backend.info()
    assert info.can_run and not info.can_build and "tape" in info.reason
    built = backend.build(zoo.get("clean_cnn").model, BuildOptions(), silent)
    assert built.layers == Tape.layers and built.log == (LogLine("info", "built"),)
    runner = backend.open(built)
    assert runner.run({"x": np.array([1.0, np.nan], np.float32)})["y"].tolist() == [2.0]
    assert runner.profile({}, 99).times == Tape.times
    for other in ({"x": np.array([1.0, 2.0], np.float32)}, {"x": np.array([1.0, np.nan])}, {"z": np.zeros(1)}, {}):
        with pytest.raises(RunError, match="plays back its 1 samples only"):
            runner.run(other)
    runner.close()


def test_without_a_record_nothing_can_be_played() -> None:
    info = Recorded().info()
    assert not info.can_run and "Record.open" in info.reason
    with pytest.raises(BackendUnavailableError, match=r"Record\.open"):
        Recorded().build(zoo.get("clean_cnn").model, BuildOptions(), silent)


# --- what libraries print -----------------------------------------------------------------------


def test_lines_of_onnxruntime_become_a_log(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text(
        "\x1b[0;93m2026-01-02 03:04:06.500000123 [W:onnxruntime:, graph.cc:1492 Graph] Initializer w appears\x1b[m\n"
        "2026-01-02 03:04:05.000000000 [W:onnxruntime:, inference_session.cc:3368 operator()] Serializing optimized "
        "model with Graph Optimization level greater than ORT_ENABLE_EXTENDED\n"
        "\n"
        "2026-01-02 03:04:05.250000000 [E:onnxruntime:Default, x.cc:1 F] bad\n"
        "free(): invalid pointer\n"
    )
    lines = log_lines(file, datetime(2026, 1, 2, 3, 4, 5))
    assert lines == (
        LogLine("warning", "Initializer w appears", "onnxruntime", 1.5),
        LogLine("error", "bad", "onnxruntime", 0.25),
        LogLine("info", "free(): invalid pointer", "output"),
    )


def test_the_output_of_the_process_is_taken_over_and_given_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.write(1, b"before\n")
    with printed_to(tmp_path / "deep" / "out.txt") as file:
        assert taken_over()
        os.write(1, b"one\n")
        os.write(2, b"two\n")
    assert not taken_over()
    os.write(2, b"after\n")
    assert file.read_text() == "one\ntwo\n"
    assert capfd.readouterr() == ("before\n", "after\n")


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("exit codes of the workers are {SIGSEGV(-11)}", "died by SIGSEGV (invalid memory access)"),
        ("exit codes of the workers are {SIGKILL(-9)}", "out of memory"),
        ("exit codes of the workers are {EXIT(1)}", "ended with exit code 1"),
        ("exit codes of the workers are {SIGXCPU(-24)}", "died by SIGXCPU while"),
        ("no codes here", "died without saying why"),
    ],
)
def test_a_crash_is_told_in_one_line(request_: Request, report: str, words: str) -> None:
    out = Path(request_.out_dir)
    out.mkdir()
    (out / OUTPUT_FILE).write_text(
        "first\n\x1b[31mlast words\x1b[m\n\nFatal Python error: Segmentation fault\n\nThread 0x1\n"
    )
    message = describe_crash(report, request_, Progress("build", None, "optimising"))
    assert words in message and '"last words"' in message and "'build: optimising'" in message
    assert "\n" not in message
