"""Requests, replies and events over a widget's custom messages; parts of big messages."""

from __future__ import annotations

import json
import threading
from typing import Any

import ipywidgets
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trt_lab import wire
from trt_lab.errors import EditError
from trt_lab.widgets import transfer
from trt_lab.widgets.channel import _ROUTE, Channel, Reply, answer_while_busy
from trt_lab.widgets.transfer import Assembler, TransferError, pack


class Recorder(ipywidgets.Widget):
    """A widget that keeps what it would send."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[Any, Any]] = []
        self.arrived = threading.Condition()

    def send(self, content: Any, buffers: Any = None) -> None:
        with self.arrived:
            self.sent.append((content, buffers))
            self.arrived.notify_all()

    def wait_for(self, count: int) -> list[tuple[Any, Any]]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.sent) >= count, timeout=5)
            return self.sent


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def receive(widget: Recorder, content: Any, buffers: list[bytes] | None = None) -> None:
    """What ipywidgets does with a custom message."""
    widget._handle_custom_msg(content, buffers or [])


def test_a_request_is_answered_under_its_id(recorder: Recorder) -> None:
    channel = Channel(recorder)
    seen = []
    channel.handle(wire.ProbeRequest, lambda request, call: seen.append(request))
    receive(recorder, {"id": "a.1", "kind": "graph.probe", "tensor": "y", "on": True})
    assert seen == [wire.ProbeRequest(tensor="y", on=True)]
    assert recorder.sent == [({"re": "a.1", "ok": True, "data": {}}, [])]


def test_an_error_of_ours_is_told_in_its_own_words(recorder: Recorder) -> None:
    def refuse(request: wire.ProbeRequest, call: Any) -> None:
        raise EditError("tensor 'y': inside a subgraph")

    Channel(recorder).handle(wire.ProbeRequest, refuse)
    receive(recorder, {"id": "a", "kind": "graph.probe", "tensor": "y", "on": True})
    assert recorder.sent[0][0] == {"re": "a", "ok": False, "error": "tensor 'y': inside a subgraph"}


def test_any_other_error_is_logged_and_shows_no_traceback(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: wire.ProbeRequest, call: Any) -> None:
        raise ZeroDivisionError("secret")

    Channel(recorder).handle(wire.ProbeRequest, fail)
    receive(recorder, {"id": "a", "kind": "graph.probe", "tensor": "y", "on": True})
    reply = recorder.sent[0][0]
    assert reply["ok"] is False
    assert "secret" not in reply["error"] and "\n" not in reply["error"]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        ("text", None, "not an object"),
        ({"kind": "graph.probe"}, None, "needs an id"),
        ({"id": "a"}, "a", "unknown kind None"),
        ({"id": "a", "kind": "graph.nonsense"}, "a", "unknown kind 'graph.nonsense'"),
        ({"id": "a", "kind": "graph.probe", "tensor": "y"}, "a", "on: Field required"),
        ({"id": "a", "kind": "graph.probe", "tensor": "y", "on": True, "more": 1}, "a", "more: Extra inputs"),
        ({"id": "a", "kind": "graph.probe", "tensor": 3, "on": True}, "a", "tensor: Input should be a valid string"),
        ({"kind": "part", "id": "a"}, "a", "part without transfer"),
        ({"kind": "part", "transfer": "t", "index": 5, "count": 2}, None, "out of range"),
        ({"kind": "part", "transfer": "t", "index": 0, "count": 10**9}, None, "out of range"),
        ({"kind": "part", "transfer": "t", "index": 0, "count": 1}, None, "needs one buffer"),
    ],
)
def test_malformed_messages_are_answered_in_the_same_shape(
    recorder: Recorder, content: Any, name: str | None, says: str
) -> None:
    Channel(recorder).handle(wire.ProbeRequest, lambda request, call: None)
    receive(recorder, content)
    ((reply, _buffers),) = recorder.sent
    assert (reply["re"], reply["ok"]) == (name, False)
    assert reply["error"].startswith("bad message: ") and says in reply["error"]


def test_a_cancelled_request_gets_no_reply(recorder: Recorder) -> None:
    channel = Channel(recorder)
    started, ended = threading.Event(), threading.Event()

    def slow(request: wire.SceneRequest, call: Any) -> None:
        started.set()
        assert call.cancelled.wait(5)
        ended.set()
        call.check()

    channel.handle(wire.SceneRequest, slow, background=True)
    channel.handle(wire.CardRequest, lambda request, call: wire.Card(id="x", what="node", title="", subtitle=""))
    receive(recorder, {"id": "slow", "kind": "graph.scene"})
    assert started.wait(5)
    receive(recorder, {"id": "quick", "kind": "graph.card", "item": "x"})
    receive(recorder, {"kind": "cancel", "id": "slow"})
    assert ended.wait(5)
    sent = recorder.wait_for(2)
    assert [content["re"] for content, _ in sent] == ["quick", "slow"]
    assert sent[1][0]["error"] == "cancelled"


def test_arrays_go_in_parts_and_come_together_again(recorder: Recorder) -> None:
    array = np.arange(600_000, dtype=np.float32).reshape(2, 300_000)
    message = wire.Hits(hits=[wire.Hit(what="node", id="层", label="l", detail="")])
    Channel(recorder).handle(wire.SearchRequest, lambda request, call: Reply(message, {"values": array}))
    receive(recorder, {"id": "a", "kind": "graph.search", "query": "x"})
    assert len(recorder.sent) == 3
    assert max(len(buffers[0]) for _, buffers in recorder.sent) <= 1_000_000
    assembler = Assembler()
    wholes = [assembler.add(json.loads(json.dumps(content)), buffers) for content, buffers in recorder.sent]
    assert wholes[:2] == [None, None] and wholes[2] is not None
    got, arrays = wholes[2]
    assert got == {"re": "a", "ok": True, "data": message.model_dump(mode="json")}
    np.testing.assert_array_equal(arrays["values"], array)


def test_events_reach_nobody_once_the_widget_is_closed(recorder: Recorder) -> None:
    channel = Channel(recorder)
    channel.emit(wire.GraphChanged())
    recorder.close()
    channel.emit(wire.GraphChanged())
    assert recorder.sent == [({"kind": "graph.changed"}, [])]


def test_c48_a_long_message_without_arrays_is_cut_too() -> None:
    parts = list(pack({"log": ["line of a build log"] * 200_000}))
    assert len(parts) > 4
    assert all(len(buffers[0]) <= transfer.PART_BYTES < 1_000_000 for _, buffers in parts)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=8),
        st.sampled_from(transfer.DTYPES).flatmap(
            lambda name: hnp.arrays(np.dtype(name), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
        ),
        min_size=1,
        max_size=4,
    ),
    st.randoms(),
    st.integers(16, 200),
)
def test_whatever_is_packed_is_unpacked_in_any_order(arrays: dict[str, np.ndarray], random: Any, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "PART_BYTES", size)
        parts = list(pack({"kind": "x", "text": "né\u2028"}, arrays))
        random.shuffle(parts)
        assembler = Assembler()
        *early, last = [assembler.add(content, buffers) for content, buffers in parts]
    assert early == [None] * len(early) and last is not None
    message, got = last
    assert message == {"kind": "x", "text": "né\u2028"}
    assert list(got) == list(arrays)
    for name, array in arrays.items():
        assert got[name].shape == array.shape
        assert got[name].dtype == array.dtype
        np.testing.assert_array_equal(got[name], array)


def test_what_has_no_typed_array_is_refused_by_name() -> None:
    with pytest.raises(TransferError, match=r"array 'big': int64"):
        list(pack({}, {"big": np.zeros(3, np.int64)}))
    with pytest.raises(TransferError, match="JSON"):
        list(pack({"x": float("nan")}))


def test_unfinished_transfers_do_not_pile_up() -> None:
    assembler = Assembler()
    for index in range(100):
        content = {"kind": "part", "transfer": f"t{index}", "index": 0, "count": 2, "json_bytes": 2, "arrays": []}
        assert assembler.add(content, [b"{}"]) is None
    assert len(assembler._open) == transfer.MAX_OPEN_TRANSFERS


def test_messages_follow_the_subshell_that_the_browser_names() -> None:
    inner = ipywidgets.Button()
    box = ipywidgets.VBox([ipywidgets.HBox([inner])])
    for widget in (box, inner):
        setattr(widget.comm, _ROUTE, lambda data, default: "main")  # as ipykernel 7.4 has it
    answer_while_busy(box)
    for widget in (box, inner):
        assert getattr(widget.comm, _ROUTE)({}, "browser's") == "browser's"


def test_other_kernels_are_left_alone(recorder: Recorder) -> None:
    answer_while_busy(recorder)
    assert not hasattr(recorder.comm, _ROUTE)
