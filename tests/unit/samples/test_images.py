"""Images with a stated preprocessing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trt_lab.errors import InputError, RecordError
from trt_lab.samples.images import read_images
from trt_lab.tensors import open_samples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, colour in (("a10.png", (255, 0, 0)), ("a2.png", (0, 51, 102))):
        Image.new("RGB", (8, 4), colour).save(tmp_path / name)
    (tmp_path / "notes.txt").touch()
    return tmp_path


def test_channels_first(folder: Path) -> None:
    first, second = read_images(folder, name="x", size=(2, 3), mean=(0.1, 0.2, 0.4), std=(1, 0.5, 2))
    assert first["x"].shape == (1, 3, 2, 3) and first["x"].dtype == np.float32
    np.testing.assert_allclose(first["x"][0, :, 0, 0], [-0.1, 0.0, 0.0], atol=1e-7)
    np.testing.assert_allclose(second["x"][0, :, 1, 2], [0.9, -0.4, -0.2], rtol=1e-6)


def test_channels_last_in_bytes(folder: Path) -> None:
    (only,) = read_images(folder, name="x", size=(4, 8), scale=1, layout="NHWC", dtype="uint8", limit=1)
    assert only["x"].shape == (1, 4, 8, 3) and only["x"][0, 0, 0].tolist() == [0, 51, 102]


def test_grey(folder: Path) -> None:
    (only,) = read_images(folder / "a10.png", name="x", size=(1, 1), mean=[0], std=[1], scale=1)
    assert only["x"].shape == (1, 1, 1, 1) and only["x"].item() == 76


def test_what_makes_no_sense_is_refused(folder: Path) -> None:
    (folder / "broken.jpg").write_bytes(b"no image")
    for arguments, message in (
        ({"mean": (0, 0)}, "3 of each"),
        ({"std": (1, 0, 1)}, "larger than 0"),
        ({"size": (0, 3)}, "larger than 0"),
        ({"layout": "HWC"}, "NCHW or NHWC"),
        ({"dtype": "float23"}, "no type"),
        ({"dtype": "uint8", "scale": 2}, "do not fit uint8"),
        ({}, "broken.jpg: cannot be read as an image"),
    ):
        with pytest.raises(InputError, match=message):
            read_images(folder, **{"name": "x", "size": (2, 2), **arguments})
    with pytest.raises(InputError, match="holds no images"):
        read_images(folder / "notes.txt", name="x", size=(2, 2))


def test_a_folder_of_images_given_as_samples_says_what_to_do(folder: Path) -> None:
    with pytest.raises(RecordError, match=r"trt_lab\.read_images"):
        open_samples(folder)
