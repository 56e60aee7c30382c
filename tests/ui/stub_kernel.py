"""A stand-in for `trt_lab.notebook`, for tests of the JupyterLab plugins alone.

The test server's kernels run this file at their start. In folders whose name begins with `stub` it takes the place of
the real module, so that the text of an opened "model" says what shall happen.
"""

# Run by IPython in the kernel's own namespace, so everything stays inside functions.


def _install() -> None:
    import os
    import signal
    import sys
    import types
    from pathlib import Path

    if not any(part.startswith("stub") for part in Path.cwd().parts):
        return

    import ipywidgets
    from IPython.display import display

    from trt_lab.errors import ModelError

    module = types.ModuleType("trt_lab.notebook")
    shown: dict[str, ipywidgets.Button] = {}

    def open_panel(path: str) -> None:
        file = Path(path)
        order = file.read_text() if file.is_file() else ""
        if order == "raise":
            raise ModelError(f"{file.name}: this is no ONNX file")
        if order == "no package":
            raise ModuleNotFoundError("No module named 'trt_lab'")
        if order == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if "button" not in shown:
            shown["button"] = ipywidgets.Button(description=f"opened {file}", layout={"width": "100%"})
            shown["button"].on_click(lambda button: setattr(button, "description", f"clicked {file.name}"))
        display(shown["button"])

    class Session:
        def start_build(self) -> None:
            if shown["button"].description.startswith("building"):
                raise RuntimeError("a build is running already")
            shown["button"].description = "building"

        def export_notebook(self, path: str) -> None:
            Path(path).write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')

    module.open_panel = open_panel  # type: ignore[attr-defined]  # a module made by hand
    module.panel_session = Session  # type: ignore[attr-defined]
    sys.modules["trt_lab.notebook"] = module
    import trt_lab

    trt_lab.notebook = module  # type: ignore[attr-defined]


_install()
