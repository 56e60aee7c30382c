"""Requests from the browser and their replies, events, and big data, over a widget's custom messages.

    browser  {"id": "7f.1", "kind": "graph.card", ...}          a request of `trt_lab.wire`
    Python   {"re": "7f.1", "ok": true, "data": {...}}          or  {"re": ..., "ok": false, "error": "one line"}
    browser  {"kind": "cancel", "id": "7f.1"}                    the reply is no longer wanted
    Python   {"kind": "graph.changed"}                           an event

Handlers run while a cell runs (see `answer_while_busy`), in other threads than the cell: what they share needs a lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ipywidgets import Widget
from pydantic import ValidationError

from trt_lab.errors import CancelledError, TrtLabError
from trt_lab.widgets.transfer import Arrays, Assembler, TransferError, pack
from trt_lab.wire import REQUESTS, Done, Message, PingRequest, kind_of

log = logging.getLogger(__name__)

_ROUTE = "_reply_subshell_for"
"""Private method of ipykernel's comms that chooses the shell for a message."""

_THREADS = 2
_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="trt-lab-widget")

RequestT = TypeVar("RequestT", bound=Message)


@dataclass(frozen=True)
class Reply:
    """A reply with arrays."""

    data: Message
    arrays: Arrays


@dataclass(frozen=True)
class Call:
    """What a handler is told besides the request.

    Attributes:
        arrays: What came with the request.
        cancelled: Set when the browser no longer wants the reply.
    """

    arrays: Arrays
    cancelled: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raises CancelledError once the browser has cancelled."""
        if self.cancelled.is_set():
            raise CancelledError("cancelled")


Handler = Callable[[RequestT, Call], "Message | Reply | None"]


def answer_while_busy(*widgets: Widget) -> None:
    """Lets messages of these widgets, and of all inside them, be handled while a cell runs.

    ipykernel 7.4 sends a comm's messages to the shell that last published on it, the main one if a cell made or
    changed the widget, so they wait for the cell. The browser does name a subshell; this makes the kernel follow it.
    The attribute is private, so its absence (other versions need no cure) is not an error.
    """
    pending, seen = list(widgets), set()
    while pending:
        widget = pending.pop()
        if id(widget) in seen:
            continue
        seen.add(id(widget))
        comm = widget.comm
        if comm is not None and hasattr(comm, _ROUTE):
            setattr(comm, _ROUTE, lambda data, default: default)
        children = getattr(widget, "children", ())
        pending += [child for child in children if isinstance(child, Widget)]


class Channel:
    """The messages of one widget.

    Args:
        widget: Its custom messages belong to the channel from now on.
    """

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._assembler = Assembler()
        self._handlers: dict[str, tuple[type[Message], Handler[Any], bool]] = {}
        self._calls: dict[str, Call] = {}
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self.handle(PingRequest, lambda request, call: None)
        answer_while_busy(widget)
        widget.on_msg(lambda _widget, content, buffers: self._receive(content, buffers))

    def handle(self, request: type[RequestT], handler: Handler[RequestT], *, background: bool = False) -> None:
        """Answers requests of one kind with what `handler` returns (None: done, nothing to tell).

        Args:
            request: A class of `wire.REQUESTS`.
            handler: Gets the request and its `Call`. A TrtLabError it raises is shown to the user.
            background: It takes long: run it in a thread of its own, so that others, and its cancel, are heard.
        """
        if not any(request is known for known, _reply in REQUESTS):
            raise KeyError(f"{request.__name__} is not in wire.REQUESTS")
        self._handlers[kind_of(request)] = (request, handler, background)

    def emit(self, event: Message, arrays: Arrays | None = None) -> None:
        """Sends an event to all views of the widget."""
        self._send(event.model_dump(mode="json"), arrays)

    def _send(self, message: dict[str, Any], arrays: Arrays | None = None) -> None:
        if self._widget.comm is None:
            return
        with self._sending:
            for content, buffers in pack(message, arrays):
                self._widget.send(content, buffers)

    def _receive(self, content: Any, buffers: Iterable[Any]) -> None:
        name = content.get("id") if isinstance(content, dict) else None
        try:
            whole = self._assembler.add(content, list(buffers or []))
        except TransferError as error:
            self._refuse(name, f"bad message: {error}")
            return
        if whole is None:
            return
        message, arrays = whole
        name, kind = message.get("id"), message.get("kind")
        if kind == "cancel":
            with self._lock:
                call = self._calls.get(name) if isinstance(name, str) else None
            if call:
                call.cancelled.set()
            return
        if not isinstance(name, str) or not name:
            self._refuse(None, "bad message: a request needs an id")
            return
        self._start(name, kind, {key: value for key, value in message.items() if key != "id"}, arrays)

    def _start(self, name: str, kind: Any, fields: dict[str, Any], arrays: Arrays) -> None:
        known = self._handlers.get(kind) if isinstance(kind, str) else None
        if known is None:
            self._refuse(name, f"bad message: unknown kind {kind!r}")
            return
        request_type, handler, background = known
        try:
            request = request_type.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(step) for step in first["loc"])
            self._refuse(name, f"bad message: {kind}: {place}: {first['msg']}")
            return
        call = Call(arrays)
        with self._lock:
            self._calls[name] = call
        if background:
            _pool.submit(self._run, name, handler, request, call)
        else:
            self._run(name, handler, request, call)

    def _run(self, name: str, handler: Handler[Any], request: Message, call: Call) -> None:
        try:
            call.check()
            result = handler(request, call)
            reply = result if isinstance(result, Reply) else Reply(result or Done(), {})
            if not call.cancelled.is_set():
                self._send({"re": name, "ok": True, "data": reply.data.model_dump(mode="json")}, reply.arrays)
        except TrtLabError as error:
            self._refuse(name, str(error))
        except Exception:
            log.exception("%s failed", type(request).__name__)
            self._refuse(name, "this failed inside trt-lab; the kernel's log says where. Please report it")
        finally:
            with self._lock:
                self._calls.pop(name, None)

    def _refuse(self, name: Any, error: str) -> None:
        self._send({"re": name if isinstance(name, str) else None, "ok": False, "error": error})
