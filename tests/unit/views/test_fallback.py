"""What a saved notebook keeps of a figure."""

from __future__ import annotations

import numpy as np
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure

from tests.unit.views.samples import record
from trt_lab.views.diff import diff_figure
from trt_lab.views.fallback import MAX_BYTES, figure_fallback
from trt_lab.views.timeline import timeline_figure


def test_c47_it_holds_words_and_numbers_and_no_script() -> None:
    html = figure_fallback(timeline_figure(record([1.0, 2.0], latency=(2.5,))))
    assert "layer sum 3 ms" in html and "end-to-end latency 2.5 ms" in html
    assert "<table>" in html and "layer1" in html
    assert "<script" not in html


def test_names_are_escaped() -> None:
    html = figure_fallback(diff_figure(np.zeros((2, 3)), np.ones((2, 3)), name="<img src=x onerror=alert(1)>"))
    assert "&lt;img src=x onerror=alert(1)&gt;" in html and "<img" not in html
    source = ColumnDataSource({"<b>": ["<i>", "&"], "x": [1, 2]})
    plot = figure(title="<u>")
    plot.scatter("x", "x", source=source)
    html = figure_fallback(plot)
    assert "&lt;b&gt;" in html and "&lt;i&gt;" in html and "&lt;u&gt;" in html
    assert not any(tag in html for tag in ("<b>", "<td><i>", "<u>"))


def test_it_stays_below_300_kb() -> None:
    plot = figure()
    for _ in range(40):
        plot.scatter(
            "x", "x", source=ColumnDataSource({"x": np.arange(500), **{f"c{i}": ["ä" * 900] * 500 for i in range(9)}})
        )
    html = figure_fallback(plot)
    assert 10_000 < len(html.encode()) <= MAX_BYTES
    assert html.endswith("(shortened)</p></div>")


def test_rows_left_out_are_counted() -> None:
    plot = figure()
    plot.scatter("x", "x", source=ColumnDataSource({"x": np.arange(500)}))
    assert "and 460 more rows" in figure_fallback(plot)
