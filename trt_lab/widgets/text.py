"""Lines of text for ipywidgets.HTML. Everything is escaped: names and messages are untrusted."""

from __future__ import annotations

from html import escape
from typing import Literal

Kind = Literal["plain", "error", "good", "bad", "quiet"]
_MARKS: dict[Kind, str] = {"error": "⚠ ", "good": "✓ ", "bad": "✗ "}


def line(text: str, *, kind: Kind = "plain", strong: bool = False) -> str:
    """One line; its kind is told by a mark as well as by colour."""
    inner = f"<b>{escape(text)}</b>" if strong else escape(text)
    role = ' role="alert"' if kind == "error" else ""
    return f'<div class="trt-lab-line trt-lab-{kind}"{role} title="{escape(text)}">{_MARKS.get(kind, "")}{inner}</div>'


def preformatted(text: str) -> str:
    """Text in a fixed-width font, as it is."""
    return f'<pre class="trt-lab-code">{escape(text)}</pre>'
