"""Colours of all figures, in light and dark.

A figure is built once; each colour that depends on the theme is named by its *role* ("text",
"golden", "diverging", ...) in the tags of the Bokeh model that wears it (`paint`). So the two
themes are one table of values (`theme_table`) that the browser applies by itself when the page
turns dark, and that `apply_theme` applies in Python. Backgrounds stay transparent: the page shows through.

Colours are told apart by people with the common colour vision deficiencies (Okabe and Ito's set,
viridis, blue to orange), and nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from bokeh.core.properties import value
from bokeh.core.property.dataspec import DataSpec
from bokeh.model import Model
from bokeh.models import (
    Axis,
    ColorBar,
    Grid,
    HTMLAnnotation,
    LabelSet,
    LayoutDOM,
    Legend,
    Plot,
    Title,
    WheelZoomTool,
)
from bokeh.palettes import Viridis256

Theme: TypeAlias = Literal["light", "dark"]
Colour: TypeAlias = "str | tuple[str, ...]"

FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Helvetica, Arial, sans-serif"

NAN_COLOUR = "#e5007d"
POSITIVE_INFINITY_COLOUR = "#ff6a00"
NEGATIVE_INFINITY_COLOUR = "#00c8ff"
DISAGREE_COLOUR = "#e5007d"
AGREE_COLOUR = "#8a8f98"
MERGED_COLOUR = "#8a8f98"

CATEGORICAL: tuple[str, ...] = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#b8a800",
    "#7b5bb5",
    "#8c5a3c",
)
"""Okabe and Ito's colours, yellow darkened for white paper, with two more."""

VALUES: tuple[str, ...] = tuple(Viridis256)


def _ramp(stops: tuple[str, ...], count: int = 255) -> tuple[str, ...]:
    """`count` colours on the straight lines between the `stops` (sRGB)."""
    rgb = np.array([[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in stops], dtype=np.float64)
    at = np.linspace(0, len(stops) - 1, count)
    channels = [np.interp(at, np.arange(len(stops)), rgb[:, channel]) for channel in range(3)]
    return tuple("#{:02x}{:02x}{:02x}".format(*(round(c) for c in colour)) for colour in zip(*channels, strict=True))


ROLES: dict[str, tuple[Colour, Colour]] = {
    "text": ("#1f2328", "#e6edf3"),
    "muted": ("#57606a", "#a3adb8"),
    "line": ("#8c959f", "#6e7681"),
    "grid": ("#e3e6ea", "#2f353d"),
    "paper": ("#ffffff", "#16191d"),
    "golden": ("#b07500", "#f0b429"),
    "engine": ("#0072b2", "#56b4e9"),
    "difference": ("#b3360b", "#ff9466"),
    "diverging": (
        _ramp(("#08407e", "#2b7bba", "#a6cde6", "#f4f4f4", "#fbc28a", "#e8731a", "#8f3503")),
        _ramp(("#b3d8ff", "#4a9bf5", "#1d4a80", "#1f2328", "#7a3c10", "#f0883e", "#ffdcb8")),
    ),
}
"""Role → (light, dark)."""

_TAG = "theme:"

_BY_TYPE: tuple[tuple[type[Model], dict[str, str]], ...] = (
    (
        Axis,
        {
            "axis_label_text_color": "muted",
            "major_label_text_color": "muted",
            "axis_line_color": "line",
            "major_tick_line_color": "line",
            "minor_tick_line_color": "line",
        },
    ),
    (Grid, {"grid_line_color": "grid"}),
    (Title, {"text_color": "text"}),
    (Legend, {"label_text_color": "text", "title_text_color": "muted"}),
    (
        ColorBar,
        {
            "major_label_text_color": "muted",
            "title_text_color": "muted",
            "bar_line_color": "line",
            "major_tick_line_color": "line",
        },
    ),
    (LabelSet, {"text_color": "text"}),
)

_CLEAR: tuple[tuple[type[Model], dict[str, Any]], ...] = (
    (
        Plot,
        {"background_fill_alpha": 0.0, "border_fill_alpha": 0.0, "outline_line_color": None},
    ),
    (Legend, {"background_fill_alpha": 0.0, "border_line_color": None}),
    (ColorBar, {"background_fill_alpha": 0.0}),
)

TOOLTIP_CSS = """
.bk-Tooltip {
  --tooltip-color: var(--jp-layout-color1, #ffffff);
  --tooltip-text: var(--jp-ui-font-color1, #1f2328);
  --tooltip-border: var(--jp-border-color1, #bdbdbd);
  --tooltip-arrow-color: var(--jp-border-color1, #bdbdbd);
  --tooltip-arrow-inner-color: var(--jp-layout-color1, #ffffff);
  max-width: 32rem;
  overflow-wrap: anywhere;
}
"""
"""BokehJS hangs its tooltips on the page's body, so the page's own style sheet colours them."""


def paint(model: Model, **roles: str) -> None:
    """Says which role colours which property of `model`: `paint(glyph, fill_color="golden")`."""
    model.tags = [*model.tags, *(f"{_TAG}{name}={role}" for name, role in roles.items())]
    _apply(model, {name: ROLES[role][0] for name, role in roles.items()})


def theme_table(root: Model) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Model id → property → (light value, dark value), in the form that BokehJS' `setv` takes."""
    table: dict[str, dict[str, tuple[Any, Any]]] = {}
    for model in root.references():
        roles = _roles(model)
        if roles:
            table[model.id] = {
                name: (_for_browser(model, name, ROLES[role][0]), _for_browser(model, name, ROLES[role][1]))
                for name, role in sorted(roles.items())
            }
    return table


def apply_theme(figure: Model, theme: Theme) -> None:
    """Gives `figure`, and all that it holds, the colours of `theme`; any Bokeh figure will do."""
    _dress(figure.references(), theme)


def _dress(models: Iterable[Model], theme: Theme) -> None:
    which = 0 if theme == "light" else 1
    for model in models:
        for types, values in _CLEAR:
            if isinstance(model, types):
                _apply(model, values)
        _apply(model, {name: ROLES[role][which] for name, role in _roles(model).items()})


def finish(figure: LayoutDOM) -> LayoutDOM:
    """Last step of every figure here: fonts, no logo, wheel zoom only with Ctrl (the page must scroll), light colours."""
    models = figure.references()
    for model in models:
        for name, spec in _fonts(type(model)):
            setattr(model, name, value(FONT) if spec else FONT)
        if isinstance(model, Plot):
            model.toolbar.logo = None
        if isinstance(model, Title):
            model.update(text_font_size="13px", text_font_style="normal")
        if isinstance(model, Axis):
            model.axis_label_text_font_style = "normal"
        if isinstance(model, WheelZoomTool):
            model.modifiers = {"ctrl": True}
        if "logo" in model.properties():
            model.logo = None  # pyright: ignore[reportAttributeAccessIssue] - the toolbars of a grid
    _dress(models, "light")
    return figure


@lru_cache(maxsize=256)
def _fonts(kind: type[Model]) -> tuple[tuple[str, bool], ...]:
    """Properties that hold a font, and whether each is a value for every element."""
    names = [name for name in kind.properties() if name.endswith("text_font")]
    return tuple((name, isinstance(kind.lookup(name).property, DataSpec)) for name in names)


def category_colours(names: list[str]) -> dict[str, str]:
    """A colour for each of the first names; the rest share the colour of "other"."""
    return {name: CATEGORICAL[rank] if rank < len(CATEGORICAL) else MERGED_COLOUR for rank, name in enumerate(names)}


def _roles(model: Model) -> dict[str, str]:
    roles: dict[str, str] = {}
    for types, defaults in _BY_TYPE:
        if isinstance(model, types) and not isinstance(model, HTMLAnnotation):
            roles.update(defaults)
    for tag in model.tags:
        if isinstance(tag, str) and tag.startswith(_TAG):
            name, _, role = tag[len(_TAG) :].partition("=")
            roles[name] = role
    return roles


def _apply(model: Model, values: dict[str, Any]) -> None:
    for name, wanted in values.items():
        setattr(model, name, list(wanted) if isinstance(wanted, tuple) else wanted)


def _for_browser(model: Model, name: str, colour: Colour) -> Any:
    if isinstance(colour, tuple):
        return list(colour)
    return {"value": colour} if isinstance(model.lookup(name).property, DataSpec) else colour
