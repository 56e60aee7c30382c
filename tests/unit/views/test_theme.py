"""Themes of figures."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from bokeh.models import WheelZoomTool
from bokeh.plotting import figure

from tests.unit.views.samples import plots_of, record
from trt_lab.views.diff import diff_figure
from trt_lab.views.theme import ROLES, Theme, apply_theme, finish, paint, theme_table
from trt_lab.views.timeline import timeline_figure


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: object, b: object) -> float:
    assert isinstance(a, str) and isinstance(b, str)
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_words_and_lines_can_be_read_on_both_papers() -> None:
    for theme in (0, 1):
        paper = ROLES["paper"][theme]
        for role, needed in (("text", 7.0), ("muted", 4.5), ("golden", 3.0), ("engine", 3.0), ("difference", 3.0)):
            assert contrast(ROLES[role][theme], paper) >= needed, (role, theme)


def test_the_table_holds_what_apply_theme_sets() -> None:
    golden = np.zeros((3, 4))
    for root in (diff_figure(golden, golden + 1), timeline_figure(record([1.0, 2.0]))):
        table = theme_table(root)
        models: dict[str, Any] = {model.id: model for model in root.references()}
        assert table and set(table) <= set(models)
        for which, theme in enumerate(get_args(Theme)):
            apply_theme(root, theme)
            for name, properties in table.items():
                for key, both in properties.items():
                    value = both[which]["value"] if isinstance(both[which], dict) else both[which]
                    assert getattr(models[name], key) == value


def test_a_users_own_figure_is_themed_too() -> None:
    plot = figure()
    plot.line([1, 2], [3, 4])
    apply_theme(plot, "dark")
    assert plot.background_fill_alpha == 0
    assert all(axis.axis_label_text_color == ROLES["muted"][1] for axis in plot.axis)
    assert len(theme_table(plot)) >= 5


def test_figures_have_no_logo_and_let_the_page_scroll() -> None:
    root = diff_figure(np.zeros((3, 4)), np.ones((3, 4)))
    for plot in plots_of(root):
        assert plot.toolbar.logo is None
        assert plot.background_fill_alpha == plot.border_fill_alpha == 0
    wheels = [model for model in root.references() if isinstance(model, WheelZoomTool)]
    assert wheels and all(tool.modifiers == {"ctrl": True} for tool in wheels)
    assert "logo" not in {getattr(model, "logo", None) for model in root.references()}


def test_paint_sets_the_light_colour_at_once() -> None:
    plot = figure()
    finish(plot)
    bar = plot.vbar(x=[1], top=[1])
    paint(bar.glyph, fill_color="golden")
    assert bar.glyph.fill_color == ROLES["golden"][0]
    assert theme_table(plot)[bar.glyph.id]["fill_color"] == tuple({"value": c} for c in ROLES["golden"])
