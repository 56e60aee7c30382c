"""`trt-lab lab`: JupyterLab with the workbench open on a model."""

from __future__ import annotations

import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from trt_lab import storage, zoo
from trt_lab.cli.output import print_line
from trt_lab.errors import UsageError
from trt_lab.model import Model

NAME = "lab"
DEFAULT_MODEL = "zoo:l2norm_overflow"


def run(
    model: Annotated[str, typer.Argument(help="ONNX file or record, or zoo:NAME.", metavar="[MODEL]")] = DEFAULT_MODEL,
    port: Annotated[int | None, typer.Option("--port", help="Port; a free one is taken by default.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> int:
    """Open JupyterLab with the workbench on MODEL; Ctrl-C ends it."""
    path = _model_file(model)
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={path.parent}"]
    command.append(f"--LabApp.default_url=/lab/tree/{quote(path.name)}")
    if port is not None:
        command.append(f"--ServerApp.port={port}")
    if not browser or not _browser_here():
        command.append("--no-browser")
        print_line("No browser is opened here: go to the address that JupyterLab prints below.")
    if _is_root():
        command.append("--allow-root")
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 0


def _model_file(model: str) -> Path:
    if model.startswith("zoo:"):
        entry = zoo.get(model.removeprefix("zoo:"))
        folder = storage.data_folder() / "zoo"
        folder.mkdir(parents=True, exist_ok=True)
        return entry.model.save(folder / f"{entry.name}.onnx")
    path = Path(model).expanduser().resolve()
    if not path.exists():
        raise UsageError(f"{model}: no such file; give an ONNX file, a record, or zoo:NAME (see trt-lab zoo)")
    if path.suffix == ".onnx":
        Model.load(path)
    return path


def _browser_here() -> bool:
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _is_root() -> bool:
    return sys.platform != "win32" and Path("/proc/self").exists() and Path("/proc/self").stat().st_uid == 0
