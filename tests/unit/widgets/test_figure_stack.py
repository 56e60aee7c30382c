"""Figures of several kinds in one place."""

from __future__ import annotations

from bokeh.models import Div, UIElement

from trt_lab.widgets.figure import FigureStack


def draw(stack: FigureStack, kind: str, text: str) -> UIElement:
    """Draws `text` as a figure of a kind, and returns what is shown then."""

    def change(figure: UIElement) -> bool:
        assert isinstance(figure, Div)
        if figure.name != kind:
            return False
        figure.text = text
        return True

    stack.draw(change, lambda: Div(name=kind, text=text))
    (place,) = [place for place in stack.children if place.layout.display != "none"]
    assert place.figure is stack.figure and isinstance(stack.figure, Div)
    assert (stack.figure.name, stack.figure.text) == (kind, text)
    return stack.figure


def test_a_kind_that_was_shown_is_drawn_again_in_place() -> None:
    stack = FigureStack(3)
    assert stack.figure is None
    maps, lines = draw(stack, "maps", "a"), draw(stack, "lines", "b")
    assert maps is not lines
    assert draw(stack, "maps", "c") is maps
    assert draw(stack, "lines", "d") is lines
    assert maps.text == "c", "one that is not shown is left alone"  # pyright: ignore[reportAttributeAccessIssue]


def test_with_no_place_left_the_one_shown_gives_way() -> None:
    stack = FigureStack(2)
    maps, lines = draw(stack, "maps", "a"), draw(stack, "lines", "b")
    words = draw(stack, "words", "c")
    assert draw(stack, "maps", "d") is maps
    assert draw(stack, "words", "e") is words
    assert draw(stack, "lines", "f") is not lines
