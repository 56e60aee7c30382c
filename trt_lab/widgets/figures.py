"""Figures of several kinds in one place, one of them shown at a time."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as ui
from bokeh.models import UIElement

from trt_lab.widgets.figure import FigureWidget


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
