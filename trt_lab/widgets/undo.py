"""What was changed by clicks and can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

DEPTH = 200
"""Changes remembered; the oldest is forgotten first."""


class Undo:
    """Changes, newest last.

    Args:
        show: Called with what would be taken back next, in words; "" for nothing.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._lock = RLock()
        self._changes: list[tuple[str, Callable[[], None]]] = []

    def did(self, what: str, back: Callable[[], None]) -> None:
        """Remembers a change that was made, and how it is taken back."""
        with self._lock:
            self._changes = [*self._changes, (what, back)][-DEPTH:]
        self._show(what)

    def take_back(self) -> None:
        """Takes the newest change back; does nothing where there is none.

        Raises:
            TrtLabError: It was taken back in another way already (in a cell); it is forgotten then.
        """
        with self._lock:
            if not self._changes:
                return
            *self._changes, (_, back) = self._changes
            left = self._changes[-1][0] if self._changes else ""
        try:
            back()
        finally:
            self._show(left)

    def clear(self) -> None:
        """Forgets all: another model is open."""
        with self._lock:
            self._changes = []
        self._show("")
