"""Samples as the options of a command ask for them: edge cases and images."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image
from typer.testing import CliRunner

from trt_lab.cli.images import Images
from trt_lab.cli.main import app
from trt_lab.cli.opening import open_session
from trt_lab.cli.sampling import SampleOptions
from trt_lab.errors import UsageError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3, 4, 6]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="relu")], "g", value[:1], value[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "m.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, colour in (("a.png", (255, 0, 51)), ("b.png", (0, 255, 102))):
        Image.new("RGB", (9, 5), colour).save(folder / name)
    return folder


def test_edges_come_behind_the_random_samples(model: Path, tmp_path: Path) -> None:
    session = open_session(str(model), samples=2, edges=True, records=tmp_path / "r")
    assert [np.unique(feed["x"]).tolist() for feed in session.samples.feeds[2:]] == [[0.0], [1.0], [-4.0], [4.0]]


def test_images_are_fed_as_stated(model: Path, photos: Path, tmp_path: Path) -> None:
    images = Images.of("4x6", "0.5,0.5,0.5", "0.5,0.5,0.5")
    feeds = open_session(str(model), inputs=photos, images=images, records=tmp_path / "r").samples.feeds
    assert [feed["x"].shape for feed in feeds] == [(1, 3, 4, 6)] * 2
    np.testing.assert_allclose(feeds[0]["x"][0, :, 0, 0], [1.0, -1.0, -0.6], atol=1e-6)


def test_golden_takes_edges_and_images(model: Path, photos: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["golden", str(model), "-o", str(tmp_path / "e"), "--samples", "1", "--edges", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["samples"] == 5
    given = ["--inputs", str(photos), "--image-size", "4x6"]
    done = runner.invoke(app, ["golden", str(model), "-o", str(tmp_path / "i"), *given, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["samples"] == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((None, "0.5"), "need --image-size"),
        (("224",), "--image-size '224'"),
        (("4x6", "a,b,c"), "--image-mean 'a,b,c'"),
        (("4x6", None, "1,inf,1"), "--image-std '1,inf,1'"),
        (("4x6", None, None, "CHW"), "--image-layout 'CHW'"),
    ],
)
def test_options_that_make_no_sense_are_named(given: tuple[str | None, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Images.of(*given)


def test_options_that_contradict_each_other_are_refused(photos: Path) -> None:
    with pytest.raises(UsageError, match="needs --inputs"):
        open_session("zoo:l2norm_overflow", images=Images.of("4x6"))
    with pytest.raises(UsageError, match="--edges adds to random samples"):
        open_session("zoo:l2norm_overflow", inputs=photos, edges=True)


def test_one_mean_makes_grey_images() -> None:
    assert Images.of("4x6", "0.5") == Images((4, 6), (0.5,), (1.0,))
    assert Images.of("4x6") == Images((4, 6), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def test_build_locate_and_reduce_take_the_same_samples(model: Path, photos: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    images = ["--inputs", str(photos), "--image-size", "4x6"]
    for command, out in (("build", "r.trtlab"), ("locate", "steps"), ("reduce", "min.onnx")):
        start = [command, str(model), "-o", str(tmp_path / out)]
        done = runner.invoke(app, [*start, *images, "--image-mean", "1,2", "--json"])
        assert done.exit_code != 0
        assert "3 numbers" in str(done.exception) or "mean" in str(done.exception)
        done = runner.invoke(app, [*start, *images, "--edges"])
        assert "leave out --inputs or --edges" in str(done.exception)
        done = runner.invoke(app, [*start, "--samples", "1", "--edges", "--json"])
        assert done.exit_code == 0, (command, done.output, done.exception)


def test_options_of_samples_are_written_once_and_shown_by_every_command_that_runs_a_model() -> None:
    for command in ("golden", "build", "locate", "reduce"):
        shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
        missing = [field.name for field in fields(SampleOptions) if f"--{field.name.replace('_', '-')}" not in shown]
        assert not missing, command
