"""The bar on top of the workbench: what is built, the buttons, progress and verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as ui

from trt_lab import backends, zoo
from trt_lab.errors import TrtLabError, UsageError
from trt_lab.options import parse_shape_options
from trt_lab.session import Session, Status
from trt_lab.types import PRECISIONS
from trt_lab.widgets.text import Kind, line

SAMPLE_COUNTS = (1, 4, 10, 20)
NARROW = {"width": "auto"}


class Toolbar(ui.VBox):
    """Forwards what is chosen to a session and shows its status.

    Args:
        show_error: Shows a line, or takes it away when it is empty.
    """

    def __init__(self, session: Session, show_error: Callable[[str], None]) -> None:
        self._session, self._show_error = session, show_error
        self._filling = False
        self.model = _choice("model")
        self.backend = _choice("backend", [(_backend_label(info), info.name) for info in backends.infos()])
        self.precision = _choice("precision", list(PRECISIONS))
        self.shapes = ui.Text(
            description="shapes",
            placeholder="x:1x3x64x64",
            continuous_update=False,
            layout={"width": "190px"},
            style={"description_width": "auto"},
            tooltip="NAME:1x3x64x64, or NAME:MIN:OPT:MAX; several with spaces between",
        )
        self.samples = _choice("samples")
        self.build = ui.Button(description="Build", button_style="primary", icon="play", layout=NARROW)
        self.locate = ui.Button(
            description="Find cause",
            icon="search",
            layout=NARROW,
            tooltip="Which nodes must stay in FP32 (runs on the CPU)",
        )
        self.cancel = ui.Button(description="Cancel", icon="stop", disabled=True, layout=NARROW)
        self.progress = ui.FloatProgress(min=0, max=1, layout={"width": "140px", "display": "none"})
        self.status = ui.HTML(layout={"flex": "1 1 240px", "min_width": "0"})
        super().__init__(
            [
                _row(self.model, self.backend, self.precision, self.shapes, self.samples),
                _row(self.build, self.cancel, self.locate, self.progress, self.status),
            ]
        )
        self.add_class("trt-lab-toolbar")
        self.refresh()
        self.show_status(session.status)
        self._listen()

    def refresh(self) -> None:
        """Shows the session's options."""
        session, options = self._session, self._session.options
        self._filling = True
        try:
            here = f"{session.model.name} (open)"
            self.model.options = [(here, ""), *((f"zoo: {name}", f"zoo:{name}") for name in zoo.names())]
            self.model.value = ""
            self.backend.value = options.backend
            self.precision.value = options.plan.default
            self.shapes.value = " ".join(shape_text(shape) for shape in options.shapes)
            self._show_samples()
        finally:
            self._filling = False

    def _show_samples(self) -> None:
        """Shows how many there are, or why none can be made (an input of unknown rank): the graph is of use without."""
        counts = [(str(count), count) for count in SAMPLE_COUNTS]
        try:
            samples = self._session.samples
        except TrtLabError as error:
            self.samples.options = [("–", 0), *counts]
            self.samples.value = 0
            self._show_error(str(error))
            return
        self.samples.options = [(samples.label, 0), *counts] if samples.seed is None else counts
        self.samples.value = 0 if samples.seed is None else samples.count

    def show_status(self, status: Status) -> None:
        """Shows what the session is doing and what came of it."""
        busy = status.state == "busy"
        self.build.disabled = self.locate.disabled = busy
        self.cancel.disabled = not busy
        self.progress.layout.display = "" if busy else "none"
        self.progress.value = status.fraction or 0.0
        kind: Kind = "plain" if busy else "quiet"
        if status.state == "failed":
            kind = "error"
        elif status.state == "done":
            kind = "good" if status.text.startswith("same") else "bad" if status.text.startswith("differs") else "plain"
        self.status.value = line(status.text, kind=kind)

    def _listen(self) -> None:
        session = self._session
        self._on_value(self.model, lambda value: session.open(value) if value else None)
        self._on_value(self.backend, lambda value: session.use(backend=value))
        self._on_value(self.precision, lambda value: session.use(precision=value))
        self._on_value(self.samples, lambda value: session.feed(value) if value else None)
        self._on_value(self.shapes, self._use_shapes)
        self.build.on_click(lambda _: self._try(session.start_build))
        self.locate.on_click(lambda _: self._try(session.start_locate))
        self.cancel.on_click(lambda _: self._try(session.cancel))

    def _use_shapes(self, text: str) -> None:
        try:
            ranges = parse_shape_options(text.split())
        except UsageError as error:
            raise UsageError(str(error).removeprefix("--")) from None  # it names the option of the commands
        self._session.use(shapes={r.name: (r.min, r.opt, r.max) for r in ranges})

    def _on_value(self, control: ui.DOMWidget, action: Callable[[Any], None]) -> None:
        def changed(change: dict[str, Any]) -> None:
            if not self._filling:
                self._try(lambda: action(change["new"]))

        control.observe(changed, "value")

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except TrtLabError as error:
            self._show_error(str(error))
            self.refresh()
        else:
            self._show_error("")


def shape_text(shape) -> str:
    """A `ShapeRange` as it is typed."""
    parts = ["x".join(map(str, sizes)) for sizes in (shape.min, shape.opt, shape.max)]
    return f"{shape.name}:{parts[0]}" if len(set(parts)) == 1 else f"{shape.name}:{':'.join(parts)}"


def _choice(label: str, options: list | None = None) -> ui.Dropdown:
    return ui.Dropdown(description=label, options=options or [], layout=NARROW, style={"description_width": "auto"})


def _row(*children: ui.DOMWidget) -> ui.HBox:
    return ui.HBox(children, layout={"flex_flow": "row wrap", "align_items": "center"})


def _backend_label(info) -> str:
    return info.name if info.can_build else f"{info.name} (not here)"
