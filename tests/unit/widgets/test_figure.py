"""FigureWidget without a browser: what it sends, and what it does with what comes back."""

from __future__ import annotations

import gzip
import json
import threading
from typing import Any

import bokeh
import numpy as np
import pytest
from bokeh.core.serialization import Buffer, Deserializer, Serialized
from bokeh.core.types import ID
from bokeh.document import Document
from bokeh.models import ColumnDataSource, Title
from bokeh.plotting import figure

from trt_lab.errors import UsageError
from trt_lab.views.diff import diff_figure
from trt_lab.widgets.figure import FigureWidget
from trt_lab.widgets.transfer import PART_BYTES, Assembler


class Browser:
    """The other end of a widget's messages."""

    def __init__(self, widget: FigureWidget, monkeypatch: pytest.MonkeyPatch) -> None:
        self.widget = widget
        self.sizes: list[int] = []
        self.inbox: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = []
        self._assembler = Assembler()
        self._count = 0
        monkeypatch.setattr(widget, "send", self._receive)

    def _receive(self, content: Any, buffers: list[bytes] | None = None) -> None:
        self.sizes.append(len(json.dumps(content)) + sum(len(buffer) for buffer in buffers or []))
        whole = self._assembler.add(content, list(buffers or []))
        if whole is not None:
            self.inbox.append(whole)

    def ask(self, kind: str, **fields: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        self._count += 1
        name = f"b.{self._count}"
        self.widget._handle_custom_msg({"id": name, "kind": kind, **fields}, [])
        return next(whole for whole in self.inbox if whole[0].get("re") == name)

    def item(self) -> dict[str, Any]:
        reply, _ = self.ask("figure.item")
        assert reply["ok"]
        return reply["data"]["item"]

    def patch(self, events: list[dict[str, Any]], *, generation: int, view: str = "v1") -> dict[str, Any]:
        return self.ask("figure.patch", patch={"events": events, "generation": generation, "view": view})[0]

    def events(self, kind: str) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        return [whole for whole in self.inbox if whole[0].get("kind") == kind]


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Browser:
    return Browser(FigureWidget(), monkeypatch)


def plot_of(source: ColumnDataSource):
    plot = figure(title="t")
    plot.scatter("x", "y", source=source)
    return plot


def changed(model: Any, attribute: str, new: Any) -> dict[str, Any]:
    """The event that BokehJS makes of a change of one property."""
    return {"kind": "ModelChanged", "model": {"id": model.id}, "attr": attribute, "new": new}


def test_bokehjs_is_sent_once_asked_for_as_gzip_in_small_parts(browser: Browser) -> None:
    reply, arrays = browser.ask("figure.bokeh", version=bokeh.__version__)
    assert reply["ok"]
    script = gzip.decompress(arrays["gzip"].tobytes()).decode()
    assert "Bokeh" in script and len(script) > 500_000
    assert max(browser.sizes) <= PART_BYTES + 1000
    refusal, _ = browser.ask("figure.bokeh", version="0.0.1")
    assert refusal["ok"] is False and "Run the cell again" in refusal["error"]


def test_columns_travel_as_binary_and_come_out_the_same(browser: Browser) -> None:
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    browser.widget.set_figure(plot_of(ColumnDataSource({"x": values, "y": values * 2}, name="s")))
    reply, arrays = browser.ask("figure.item")
    item = reply["data"]["item"]
    assert len(arrays) == 2 and len(json.dumps(item)) < 60_000
    assert item["bokeh"] == bokeh.__version__ and item["themes"]
    content = json.loads(json.dumps(item["doc"]))
    source = next(m for m in _models(content) if m["name"] == "ColumnDataSource")
    (x, y) = (entry[1]["array"]["data"]["id"] for entry in source["attributes"]["data"]["entries"])
    np.testing.assert_array_equal(np.frombuffer(arrays[x].tobytes(), np.float32), values)
    np.testing.assert_array_equal(np.frombuffer(arrays[y].tobytes(), np.float32), values * 2)


def _models(node: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(node, dict):
        found += [node] if node.get("type") == "object" and "attributes" in node else []
        for value in node.values():
            found += _models(value)
    elif isinstance(node, list):
        for value in node:
            found += _models(value)
    return found


def test_nothing_to_show_is_no_error(browser: Browser) -> None:
    assert browser.item()["doc"] is None
    browser.widget.set_figure(figure())
    browser.widget.set_figure(None)
    assert browser.item()["doc"] is None


def test_a_change_in_the_browser_calls_python_once_and_is_not_sent_back(browser: Browser) -> None:
    source = ColumnDataSource({"x": [1, 2], "y": [3, 4]})
    calls: list[tuple[str, Any, Any]] = []
    source.selected.on_change("indices", lambda name, old, new: calls.append((name, list(old), list(new))))
    browser.widget.set_figure(plot_of(source))
    generation = browser.item()["generation"]
    reply = browser.patch([changed(source.selected, "indices", [1])], generation=generation)
    assert reply["ok"] and calls == [("indices", [], [1])]
    assert browser.events("figure.patched") == []


def test_a_change_in_the_browser_reaches_the_other_view(browser: Browser) -> None:
    source = ColumnDataSource({"x": [1, 2], "y": [3, 4]})
    browser.widget.set_figure(plot_of(source))
    browser.item()
    generation = browser.item()["generation"]
    browser.patch([changed(source.selected, "indices", [0])], generation=generation, view="v2")
    ((event, _),) = browser.events("figure.patched")
    assert event["patch"]["origin"] == "v2"


def test_what_a_callback_changes_is_sent_to_all_views(browser: Browser) -> None:
    source = ColumnDataSource({"x": [1, 2], "y": [3, 4]})
    title = Title(text="t")
    plot = plot_of(source)
    plot.add_layout(title, "above")
    source.selected.on_change("indices", lambda name, old, new: title.update(text=f"chosen {new}"))
    browser.widget.set_figure(plot)
    browser.patch([changed(source.selected, "indices", [1])], generation=browser.item()["generation"])
    ((event, _),) = browser.events("figure.patched")
    assert event["patch"]["origin"] == ""
    assert event["patch"]["events"][0]["new"] == "chosen [1]"


def test_numpy_columns_set_in_python_are_sent_as_binary(browser: Browser) -> None:
    source = ColumnDataSource({"x": np.zeros(3), "y": np.zeros(3)})
    browser.widget.set_figure(plot_of(source))
    first = browser.item()
    source.data = {"x": np.arange(4.0), "y": np.arange(4.0)}
    source.stream({"x": np.array([9.0]), "y": np.array([9.0])})
    sent = browser.events("figure.patched")
    assert len(sent) == 2 and all(arrays for _, arrays in sent)
    revisions = [event["patch"]["revision"] for event, _ in sent]
    assert revisions == sorted(revisions) and revisions[0] > first["revision"]
    assert browser.item()["revision"] == revisions[-1]


def test_a_patch_brings_another_copy_of_the_figure_to_the_same_state(browser: Browser) -> None:
    source = ColumnDataSource({"x": np.zeros(3), "y": np.zeros(3)}, name="s")
    browser.widget.set_figure(plot_of(source))
    item = browser.item()
    copy = Document.from_json(item["doc"] | {"roots": _inline(browser, item["doc"]["roots"])})
    source.data = {"x": np.arange(4.0), "y": np.arange(4.0)}
    event, arrays = browser.events("figure.patched")[-1]
    buffers = [Buffer(ID(name), array.tobytes()) for name, array in arrays.items()]
    patch: Any = Serialized({"events": event["patch"]["events"]}, buffers)
    assert Deserializer(list(copy.models)).deserialize(patch)["events"]
    copy.apply_json_patch(patch)
    np.testing.assert_array_equal(_named(copy, "s").data["x"], np.arange(4.0))


def _named(document: Document, name: str) -> Any:
    return document.select_one({"name": name})


def _inline(browser: Browser, node: Any) -> Any:
    """A document's JSON with its binary columns in it, as Python reads it."""
    import base64

    arrays = next(arrays for message, arrays in reversed(browser.inbox) if "re" in message and arrays)
    if isinstance(node, dict):
        if node.get("type") == "bytes":
            raw = arrays[node["data"]["id"]].tobytes()
            return node | {"data": base64.b64encode(gzip.compress(raw)).decode()}
        return {key: _inline(browser, value) for key, value in node.items()}
    return [_inline(browser, value) for value in node] if isinstance(node, list) else node


def test_changes_of_a_figure_no_longer_shown_are_ignored(browser: Browser) -> None:
    first, second = ColumnDataSource({"x": [1], "y": [1]}), ColumnDataSource({"x": [1], "y": [1]})
    browser.widget.set_figure(plot_of(first))
    old = browser.item()["generation"]
    browser.widget.set_figure(plot_of(second))
    assert len(browser.events("figure.changed")) == 2
    assert browser.patch([changed(first.selected, "indices", [0])], generation=old)["ok"]
    assert first.selected.indices == []
    first.data = {"x": [2], "y": [2]}
    assert browser.events("figure.patched") == []


def test_an_error_of_a_callback_is_told_in_its_words(browser: Browser) -> None:
    source = ColumnDataSource({"x": [1], "y": [1]})

    def refuse(name: str, old: Any, new: Any) -> None:
        raise UsageError("no such layer")

    source.selected.on_change("indices", refuse)
    browser.widget.set_figure(plot_of(source))
    reply = browser.patch([changed(source.selected, "indices", [0])], generation=browser.item()["generation"])
    assert reply["ok"] is False and reply["error"] == "no such layer"


@pytest.mark.parametrize("patch", [None, 3, {}, {"events": 7}, [1]])
def test_a_message_that_is_no_patch_is_refused(browser: Browser, patch: Any) -> None:
    browser.widget.set_figure(figure())
    reply, _ = browser.ask("figure.patch", patch=patch)
    assert reply["ok"] is False and "Run the cell again" in reply["error"]


def test_c48_every_message_of_a_large_diff_stays_below_1_mb(browser: Browser) -> None:
    golden = np.zeros((2048, 2048), np.float32)
    browser.widget.set_figure(diff_figure(golden, golden + 1, name="big"))
    browser.item()
    assert max(browser.sizes) < 1_000_000


def test_the_same_figure_in_two_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ColumnDataSource({"x": [1], "y": [1]})
    plot = plot_of(source)
    browsers = [Browser(FigureWidget(plot), monkeypatch) for _ in range(2)]
    for browser in browsers:
        assert browser.item()["doc"] is not None
    source.data = {"x": [2], "y": [2]}
    assert [len(browser.events("figure.patched")) for browser in browsers] == [1, 1]


def test_a_figure_changed_by_another_thread_while_it_is_read(browser: Browser) -> None:
    source = ColumnDataSource({"x": np.zeros(50), "y": np.zeros(50)}, name="s")
    browser.widget.set_figure(plot_of(source))
    failures: list[Exception] = []

    def change() -> None:
        try:
            for value in range(50):
                source.data = {"x": np.full(50, value), "y": np.full(50, value)}
        except Exception as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    items = [browser.item() for _ in range(20)]
    thread.join()
    assert not failures
    revisions = [item["revision"] for item in items]
    assert revisions == sorted(revisions)
    assert browser.item()["revision"] == 50


def test_c47_a_saved_notebook_keeps_numbers() -> None:
    widget = FigureWidget(diff_figure(np.zeros((2, 3)), np.ones((2, 3)), name="/Mul"))
    bundle = widget._repr_mimebundle_()
    assert bundle is not None
    data, _ = bundle
    assert "application/vnd.jupyter.widget-view+json" in data and "text/plain" in data
    assert "/Mul" in data["text/html"] and "<script" not in data["text/html"]
    assert len(data["text/html"]) <= 300_000


def test_a_closed_widget_lets_go_of_its_figure() -> None:
    source = ColumnDataSource({"x": [1], "y": [1]})
    widget = FigureWidget(plot_of(source))
    widget.close()
    source.data = {"x": [2], "y": [2]}
    assert widget.figure is None
