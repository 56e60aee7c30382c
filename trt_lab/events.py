"""Who wants to know when something changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

ChangeT = TypeVar("ChangeT")


class Events(Generic[ChangeT]):
    """Calls everyone who observes, in the thread that changed something."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[ChangeT], None]] = []

    def observe(self, callback: Callable[[ChangeT], None]) -> Callable[[], None]:
        """Calls `callback` with each change from now on. Returns a function that ends it."""
        self._callbacks.append(callback)

        def stop() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return stop

    def tell(self, change: ChangeT) -> None:
        """Tells a change. A callback that fails is logged: a view must not take the build with it."""
        for callback in tuple(self._callbacks):
            try:
                callback(change)
            except Exception:
                log.exception("an observer failed on %r", change)
