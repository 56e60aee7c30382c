"""A Bokeh figure in a notebook or the workbench, live both ways and without a network.

BokehJS comes from the installed `bokeh` package, once a page and version, over the widget's own messages; it is never
put on `window`, so other Bokeh output of the page keeps its own. A saved notebook holds a table of numbers instead.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as ui
import numpy as np
from bokeh.core.json_encoder import serialize_json
from bokeh.core.serialization import Buffer, Serialized, Serializer
from bokeh.core.types import ID
from bokeh.document import Document
from bokeh.document.events import DocumentPatchedEvent
from bokeh.models import UIElement
from bokeh.resources import Resources
from bokeh.util.version import __version__ as BOKEH_VERSION

from trt_lab.errors import UsageError
from trt_lab.views.fallback import figure_fallback
from trt_lab.views.theme import TOOLTIP_CSS, apply_theme, theme_table
from trt_lab.widgets.channel import Call, Channel, Reply
from trt_lab.widgets.still import still
from trt_lab.widgets.transfer import Arrays
from trt_lab.wire import (
    BokehRequest,
    Done,
    FigureChanged,
    FigureItem,
    FigurePatched,
    FigurePatchRequest,
    FigureRequest,
)


class FigureWidget(anywidget.AnyWidget):
    """Shows one Bokeh figure, or any other Bokeh model that can be a root.

    A change of a model in Python reaches the browser, and one made in the browser (a tap, a zoom) calls the Python
    callbacks, once. The figure follows the page's theme.

    Args:
        figure: What to show; None shows nothing until `set_figure`.
    """

    _esm = Path(__file__).parent / "static" / "figure.js"
    _css = TOOLTIP_CSS

    def __init__(self, figure: UIElement | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        self._lock = threading.RLock()
        self._figure: UIElement | None = None
        self._generation = 0
        self._revision = 0
        self._asked = 0
        self._origin = ""
        self._held: list[DocumentPatchedEvent] | None = None
        self._channel = Channel(self)
        self._channel.handle(BokehRequest, self._send_bokeh)
        self._channel.handle(FigureRequest, self._send_item)
        self._channel.handle(FigurePatchRequest, self._apply_patch)
        if figure is not None:
            self.set_figure(figure)

    @property
    def figure(self) -> UIElement | None:
        """What is shown."""
        return self._figure

    def set_figure(self, figure: UIElement | None) -> None:
        """Shows another figure; the views keep the old one until the new one is drawn."""
        with self._lock:
            if figure is self._figure:
                return
            if self._figure is not None and self._figure.document is not None:
                self._figure.document.remove_on_change(self)
            self._figure = figure
            self._generation += 1
            self._revision = self._asked = 0
            if figure is not None:
                apply_theme(figure, "light")
                document = figure.document
                if document is None:
                    document = Document()
                    document.add_root(figure)
                document.on_change_dispatch_to(self)
        self._channel.emit(FigureChanged())

    @contextmanager
    def changing(self) -> Iterator[UIElement | None]:
        """The figure that is shown, to be changed: all changes in the block reach the browser together, in one frame."""
        with self._lock:
            self._held = []
            try:
                yield self._figure
            finally:
                held, self._held = self._held, None
                if held:
                    self._send_patch(held, origin="")

    def close(self) -> None:
        """Ends the widget; its figure is left alone."""
        with self._lock:
            if self._figure is not None and self._figure.document is not None:
                self._figure.document.remove_on_change(self)
            self._figure = None
        super().close()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        with self._lock:
            words = "" if self._figure is None else figure_fallback(self._figure)
        return data | {"text/html": still(words)}, metadata

    def _send_bokeh(self, request: BokehRequest, call: Call) -> Reply:
        if request.version != BOKEH_VERSION:
            raise UsageError(
                f"This figure is of Bokeh {request.version}, the kernel has {BOKEH_VERSION}. Run the cell again."
            )
        return Reply(Done(), {"gzip": np.frombuffer(_zipped_bokeh(), dtype=np.uint8)})

    def _send_item(self, request: FigureRequest, call: Call) -> Reply:
        with self._lock:
            figure, content, arrays = self._figure, None, {}
            if figure is not None and figure.document is not None:
                self._asked += 1
                serialized = figure.document.to_json()
                content, arrays = _plain(serialized), _arrays(serialized)
            item = {
                "doc": content,
                "bokeh": BOKEH_VERSION,
                "generation": self._generation,
                "revision": self._revision,
                "themes": theme_table(figure) if figure is not None else {},
            }
        return Reply(FigureItem(item=item), arrays)

    def _apply_patch(self, request: FigurePatchRequest, call: Call) -> None:
        """Takes over what a view changed. Changes of a figure no longer shown are of no interest."""
        patch = request.patch
        if not isinstance(patch, dict) or not isinstance(patch.get("events"), list):
            raise UsageError("A figure sent a change that cannot be read. Run the cell again.")
        with self._lock:
            document = None if self._figure is None else self._figure.document
            if document is None or patch.get("generation") != self._generation:
                return
            buffers = [Buffer(ID(name), array.tobytes()) for name, array in call.arrays.items()]
            change: Any = Serialized({"events": patch["events"]}, buffers)
            self._origin = str(patch.get("view", ""))
            try:
                document.apply_json_patch(change, setter=self)  # pyright: ignore[reportArgumentType] - any object is one
            finally:
                self._origin = ""

    def _document_patched(self, event: DocumentPatchedEvent) -> None:
        """Called by the document of the figure on every change; a view's own change goes to the other views only."""
        with self._lock:
            own = event.setter is self
            if (own and self._asked < 2) or event.document is None:
                return
            if self._held is not None and not own:
                self._held.append(event)
            else:
                self._send_patch([event], origin=self._origin if own else "")

    def _send_patch(self, events: list[DocumentPatchedEvent], origin: str) -> None:
        models = events[0].document.models
        serializer = Serializer(references=models.synced_references)
        encoded = serializer.encode(events)
        models.flush_synced(lambda model: not serializer.has_ref(model))
        serialized = Serialized(encoded, serializer.buffers)
        self._revision += 1
        patch = {
            "generation": self._generation,
            "revision": self._revision,
            "origin": origin,
            "events": _plain(serialized),
        }
        self._channel.emit(FigurePatched(patch=patch), _arrays(serialized))


def _plain(serialized: Serialized[Any]) -> Any:
    """As JSON values, with a reference in place of each binary column."""
    return json.loads(serialize_json(serialized.content))


def _arrays(serialized: Serialized[Any]) -> Arrays:
    """The binary columns by the ids of their references."""
    return {buffer.id: np.frombuffer(buffer.to_bytes(), dtype=np.uint8) for buffer in serialized.buffers or ()}


@lru_cache(maxsize=1)
def _zipped_bokeh() -> bytes:
    """BokehJS without its extras, gzipped (about 0.4 MB)."""
    resources = Resources(mode="inline", components=["bokeh"], minified=True)
    script = next(text for text in resources.js_raw if len(text) > 100_000)
    return gzip.compress(script.encode(), compresslevel=9)


class FigureStack(ui.VBox):
    """Keeps a figure of each kind that was shown: to change one takes the browser far less time than a new one.

    Args:
        kinds: Most figures that are kept.
    """

    def __init__(self, kinds: int) -> None:
        self._places = [FigureWidget(layout={"display": "none"}) for _ in range(kinds)]
        self._shown = self._places[0]
        self._shown.layout.display = None
        super().__init__(self._places)

    @property
    def figure(self) -> UIElement | None:
        """What is shown."""
        return self._shown.figure

    def draw(self, change: Callable[[UIElement], bool], make: Callable[[], UIElement]) -> None:
        """Shows the first figure that `change` can turn into what is wanted, else a new one.

        Args:
            change: Changes the figure and returns True, or leaves it alone where it is of another kind.
            make: Gives a new figure. It takes a place that is empty, else that of the one shown.
        """
        for place in sorted(self._places, key=lambda place: place is not self._shown):
            with place.changing() as figure:
                if figure is None or not change(figure):
                    continue
            self._show(place)
            return
        place = next((place for place in self._places if place.figure is None), self._shown)
        place.set_figure(make())
        self._show(place)

    def _show(self, place: FigureWidget) -> None:
        if place is not self._shown:
            self._shown.layout.display, place.layout.display = "none", None
            self._shown = place
