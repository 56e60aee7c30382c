"""A real JupyterLab and a real Chromium for the tests of this folder.

`lab_server` is one server for the whole test session with directories of its own; `lab` is a page in it,
with what the tests need: open a file by double click, run code in a notebook, read the console.
Everything waits on conditions.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect

CHECKOUT = Path(__file__).resolve().parents[2]
LABEXTENSION = CHECKOUT / "trt_lab" / "labextension"
START_S = 90
"""Longest start of a server on a slow machine, in seconds."""
KERNEL_MS = 60_000
"""Longest start of a kernel that imports the whole package on a slow machine, in milliseconds."""

HARMLESS = (
    "favicon.ico",
    "Failed to load resource: the server responded with a status of 404 (Not Found)",  # workspace of a first visit
)
"""Console errors that JupyterLab itself prints in a fresh profile."""


@dataclass
class LabServer:
    """A running JupyterLab: its address and the folder it serves."""

    url: str
    root: Path
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def get(self, path: str) -> Any:
        """JSON that the server answers at `path`, such as `api/kernels`."""
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=30) as reply:
            return json.load(reply)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _prepare(home: Path) -> dict[str, str]:
    """Makes the server's own Jupyter folders; returns its environment."""
    if not (LABEXTENSION / "package.json").is_file():
        pytest.fail("The JupyterLab extension is not built: run `make build` first.", pytrace=False)
    extensions = home / "data" / "labextensions"
    extensions.mkdir(parents=True)
    (extensions / "trt-lab").symlink_to(LABEXTENSION, target_is_directory=True)
    startup = home / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("stub_kernel.py"), startup / "00-stub.py")
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    return os.environ | {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_PREFER_ENV_PATH": "0",  # the extension of this checkout, not an installed one
        "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


@contextlib.contextmanager
def running_lab(home: Path) -> Iterator[LabServer]:
    """JupyterLab on a free port, without a token, serving an empty folder whose name has a space in it.

    Args:
        home: Empty folder for all that the server keeps.
    """
    root = home / "lab röot"
    root.mkdir()
    port = _free_port()
    command = [
        *[sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"],
        *["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"],
        *["--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"],
        *["--LabApp.expose_app_in_browser=True", f"--ServerApp.root_dir={root}"],
    ]
    process = subprocess.Popen(command, env=_prepare(home), stderr=subprocess.PIPE, text=True, cwd=root)
    server = LabServer(url=f"http://127.0.0.1:{port}", root=root, process=process)
    ready = threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            server.lines.append(line)
            if "is running at" in line:
                ready.set()

    threading.Thread(target=listen, daemon=True).start()
    try:
        if not ready.wait(START_S):
            pytest.fail(f"JupyterLab did not start in {START_S} s:\n{''.join(server.lines[-30:])}", pytrace=False)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """One server for the whole test session."""
    with running_lab(tmp_path_factory.mktemp("jupyter")) as server:
        yield server


class Lab:
    """A JupyterLab page under test."""

    def __init__(self, page: Page, server: LabServer, workspace: str) -> None:
        self.page = page
        self.server = server
        self.root = server.root
        self.workspace = workspace
        self.errors: list[str] = []
        self.requests: list[Request] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error.stack or error}"))
        page.on("request", lambda request: self.requests.append(request))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(known in message.text for known in HARMLESS):
            self.errors.append(message.text)

    def open(self, *, reset: bool = True) -> Lab:
        """Loads the page (again), in a workspace of this test's own; ready when all plugins are."""
        query = "?reset" if reset else ""
        self.page.goto(f"{self.server.url}/lab/workspaces/{self.workspace}{query}")
        self.page.wait_for_function("() => window.jupyterapp?.commands.hasCommand('trt-lab:open')", timeout=60_000)
        self.page.evaluate("() => window.jupyterapp.restored")
        return self

    def execute(self, command: str, **args: object) -> None:
        """Runs a JupyterLab command and waits for it."""
        self.page.evaluate(
            "([command, args]) => window.jupyterapp.commands.execute(command, args).then(() => null)", [command, args]
        )

    def start(self, command: str, **args: object) -> None:
        """Runs a JupyterLab command that ends only when the user has answered a dialog."""
        self.page.evaluate(
            "([command, args]) => void window.jupyterapp.commands.execute(command, args)", [command, args]
        )

    def item(self, name: str) -> Locator:
        """The row of a file in the file browser."""
        return self.page.locator(".jp-DirListing-item").filter(has=self.page.get_by_text(name, exact=True))

    def double_click(self, path: str) -> None:
        """Opens a file of the served folder by double click in the file browser."""
        folder, _, name = path.rpartition("/")
        self.execute("filebrowser:go-to-path", path=f"/{folder}", dontShowBrowser=False)
        self.execute("filebrowser:refresh")
        self.item(name).dblclick()

    def panel(self, path: str) -> Locator:
        """The workbench panel of a file, by its path in the served folder."""
        return self.page.locator(f".trt-lab-Panel[data-path={json.dumps(path, ensure_ascii=False)}]")

    def ready_panel(self, path: str) -> Locator:
        """The panel of a file, once its kernel has shown something in it."""
        panel = self.panel(path)
        expect(panel).to_have_attribute("data-state", "ready", timeout=KERNEL_MS)
        return panel

    def wait_kernels(self, count: int) -> None:
        """Waits until the server runs exactly `count` kernels."""
        self.page.wait_for_function(
            "async ([url, count]) => (await (await fetch(url)).json()).length === count",
            arg=[f"{self.server.url}/api/kernels", count],
            timeout=KERNEL_MS,
        )

    def run_cells(self, *sources: str, name: str = "test.ipynb") -> Locator:
        """Makes a notebook of these cells in the served folder, opens it and runs it to the end.

        Returns:
            The notebook panel. Cells are `.jp-CodeCell`, what they show `.jp-OutputArea`.
        """
        cells = [
            {"cell_type": "code", "id": f"cell-{number}", "source": source}
            | {"metadata": {}, "outputs": [], "execution_count": None}
            for number, source in enumerate(sources)
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        (self.root / name).write_text(json.dumps(notebook), encoding="utf-8")
        self.execute("docmanager:open", path=name)
        panel = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        expect(panel.locator(".jp-CodeCell")).to_have_count(len(cells), timeout=KERNEL_MS)
        self.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
            timeout=KERNEL_MS,
        )
        self.execute("notebook:run-all-cells")
        last = panel.locator(".jp-CodeCell").last.locator(".jp-InputArea-prompt")
        expect(last).to_have_text(f"[{len(cells)}]:", timeout=KERNEL_MS)
        return panel

    def set_theme(self, *, dark: bool) -> None:
        """Switches between JupyterLab's light and dark theme and waits until it is painted.

        JupyterLab shows its splash screen meanwhile, and removes it twice where a theme changes before the
        last splash has faded, which is an uncaught error.
        """
        splash = self.page.locator("#jupyterlab-splash")
        expect(splash).to_have_count(0)
        theme = "JupyterLab Dark" if dark else "JupyterLab Light"
        self.execute("apputils:change-theme", theme=theme)
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", str(not dark).lower())
        expect(splash).to_have_count(0)


@pytest.fixture
def lab(page: Page, lab_server: LabServer, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A fresh JupyterLab page; what its kernels hold is shut down after the test."""
    page.set_default_timeout(30_000)
    workspace = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    lab = Lab(page, lab_server, workspace).open()
    lab.set_theme(dark=False)  # the server keeps what another test chose
    yield lab
    for session in lab_server.get("api/sessions"):
        end = urllib.request.Request(f"{lab_server.url}/api/sessions/{session['id']}", method="DELETE")
        with contextlib.suppress(urllib.error.HTTPError):  # it ended by itself meanwhile
            urllib.request.urlopen(end, timeout=30).close()


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Takes the system's Chromium where there is one; else the one that `playwright install` brought."""
    found = os.environ.get("TRT_LAB_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    chosen = {"executable_path": found} if found else {}
    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-device-scale-factor=1"]
    return {**browser_type_launch_args, **chosen, "args": flags}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    """A laptop's screen."""
    return {**browser_context_args, "viewport": {"width": 1440, "height": 900}}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a browser."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.ui)
