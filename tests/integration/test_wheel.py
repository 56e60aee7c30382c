"""The wheel as a user gets it: what is in it, and that it works in a fresh environment without Node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
LARGEST = 10 * 1000 * 1000
"""Bytes."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built with the browser's part that is there."""
    if not (CHECKOUT / "trt_lab" / "labextension" / "package.json").is_file():
        pytest.fail("The JupyterLab extension is not built: run `make build` first.", pytrace=False)
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(CHECKOUT)], check=True)
    (file,) = folder.glob("trt_lab-*.whl")
    return file


def test_what_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    extension = [name for name in names if "share/jupyter/labextensions/trt-lab/" in name]
    assert any(name.endswith("/package.json") for name in extension)
    assert any(name.endswith("/install.json") for name in extension)
    assert any("/static/remoteEntry." in name for name in extension)
    bundles = {Path(name).stem for name in names if name.startswith("trt_lab/widgets/static/") and name.endswith(".js")}
    assert {"figure", "graph", "table"} <= bundles
    assert "trt_lab/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    unwanted = [name for name in names if "node_modules" in name or name.endswith((".ts", ".map", ".pyc"))]
    assert unwanted == []
    assert not any(name.startswith(("tests/", "labextension/", "trt_lab/labextension/")) for name in names)


def test_it_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST


@pytest.mark.timeout(900)
def test_demo_in_a_fresh_environment_without_node(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "fresh"
    venv.create(home, with_pip=True)
    scripts = home / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([scripts / "python", "-m", "pip", "install", "--quiet", str(wheel)], check=True)

    bare = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    bare |= {"PATH": f"{scripts}{os.pathsep}/usr/bin-without-node", "HOME": str(tmp_path)}
    command = [scripts / "trt-lab", "demo", "--json", "--out", "demo"]
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["source"] == "/Mul"
    assert (tmp_path / "demo" / "report.html").is_file()

    listed = subprocess.run(
        [scripts / "jupyter", "labextension", "list"], env=bare, capture_output=True, text=True, check=True
    )
    assert "trt-lab" in listed.stdout + listed.stderr
    assert "enabled" in (listed.stdout + listed.stderr).split("trt-lab", 1)[1].splitlines()[0]
