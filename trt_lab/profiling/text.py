"""Names of layers as text that every format can hold."""

from __future__ import annotations


def whole_text(text: str) -> str:
    """The text without lone surrogates, which JSON can bring in and UTF-8 has no place for."""
    return text.encode("utf-8", "replace").decode("utf-8")
