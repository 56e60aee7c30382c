"""Text beside figures: real DOM text, which wraps, can be selected and is read aloud. Never parsed as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from bokeh.models import Pane
from bokeh.models.dom import Div, DOMNode, Span

from trt_lab.views.theme import FONT

TEXT = "var(--jp-ui-font-color1, #1f2328)"
MUTED = "var(--jp-ui-font-color2, #57606a)"
BORDER = "var(--jp-border-color2, #d0d7de)"

Piece: TypeAlias = "str | DOMNode"


def strong(text: str) -> Span:
    """Text that stands out."""
    return Span(children=[text], style={"font-weight": "600", "color": TEXT})


def swatch(colour: str, text: str) -> Span:
    """A small square of `colour` followed by what it means."""
    square = Span(
        children=[],
        style={
            "display": "inline-block",
            "width": "0.75em",
            "height": "0.75em",
            "margin-right": "0.35em",
            "border": f"1px solid {BORDER}",
            "border-radius": "2px",
            "vertical-align": "-0.05em",
            "background": colour,
        },
    )
    return Span(children=[square, text], style={"margin-right": "1em", "white-space": "nowrap"})


def text_pane(lines: Sequence[Sequence[Piece]]) -> Pane:
    """Lines of text over or under a figure. Empty lines are left out."""
    blocks = [Div(children=list(line), style={"overflow-wrap": "anywhere"}) for line in lines if line]
    return _pane(blocks, {"padding": "2px 8px 4px 8px"})


def message_pane(title: str, lines: Sequence[str], height: int = 220) -> Pane:
    """A figure-sized box that says why there is nothing to draw."""
    blocks: list[Div] = [Div(children=[strong(title)], style={"overflow-wrap": "anywhere"})]
    blocks += [Div(children=[line], style={"overflow-wrap": "anywhere"}) for line in lines if line]
    inner = Div(children=[*blocks], style={"max-width": "46em", "text-align": "center", "padding": "12px"})
    style = {
        "display": "flex",
        "align-items": "center",
        "justify-content": "center",
        "min-height": f"{height}px",
        "border": f"1px dashed {BORDER}",
        "border-radius": "4px",
        "margin": "4px 8px",
    }
    return _pane([Div(children=[inner], style=style)], {})


def change_text(pane: Pane, other: Pane) -> None:
    """Gives `pane` the text of `other`: a pane in its place would have everything around it laid out anew."""
    if texts_of(pane) != texts_of(other):
        pane.elements = list(other.elements)


def texts_of(pane: Pane) -> list[str]:
    """The lines of a pane as plain text."""
    return [text for element in pane.elements for block in getattr(element, "children", []) if (text := _plain(block))]


def _pane(blocks: Sequence[DOMNode], style: dict[str, str]) -> Pane:
    body = Div(
        children=list(blocks),
        style={"font": f"12px/1.5 {FONT}", "color": MUTED, "box-sizing": "border-box", **style},
    )
    return Pane(elements=[body], styles={"display": "block", "width": "100%"})


def _plain(node: Piece) -> str:
    if isinstance(node, str):
        return node
    children = getattr(node, "children", [])
    inner = [_plain(child) for child in children]
    return ("\n" if any(isinstance(child, Div) for child in children) else "").join(inner)
