"""ReportData in, one HTML file out: no network, light and dark, fit for paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from bokeh.document import Document
from bokeh.embed.util import standalone_docs_json_and_render_items
from bokeh.models import UIElement
from bokeh.resources import Resources
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from trt_lab import __version__
from trt_lab.tensors.atomic import replacing
from trt_lab.types import LayerInfo, LayerTime, LogLine
from trt_lab.views.diff import diff_figure
from trt_lab.views.lanes import Timed, layer_sum_ms
from trt_lab.views.numbers import number, shape_text
from trt_lab.views.report.data import ReportData
from trt_lab.views.theme import TOOLTIP_CSS, apply_theme, theme_table
from trt_lab.views.timeline import timeline_figure

MAX_FIGURES = 5
MAX_CELLS = 96
"""Cells a side of a map: a picture of it is enough here, and several must fit into a file of 3 MB."""

MAX_TENSORS = 1000
MAX_LAYERS = 400
MAX_LOG = 200

WORDS = {"same": "Same", "differs": "Differs", "not_comparable": "Not comparable", None: "Not compared"}
MARKS = {"same": "✓", "differs": "✗", "not_comparable": "?", None: "–"}

_environment = Environment(
    loader=PackageLoader("trt_lab.views"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {"number": number, "shape": shape_text}


def write_report(path: str | PathLike[str], data: ReportData) -> Path:
    """Writes the report; the file is replaced whole.

    Raises:
        RecordError: The folder cannot be written.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    page = render_report(data)
    with replacing(target) as file:
        file.write(page.encode("utf-8"))
    return target


def render_report(data: ReportData) -> str:
    """The whole page as text. Everything that comes from a model or a log is escaped."""
    figures = _figures(data)
    return _environment.get_template("report.html.j2").render(
        data=data,
        word=WORDS[data.verdict],
        marks=MARKS,
        words=WORDS,
        tensors=data.tensors[:MAX_TENSORS],
        has_local=any(row.local is not None for row in data.tensors),
        layers=[_layer_table(record) for record in data.records if record.layers or record.times],
        log=_serious(data.log)[:MAX_LOG],
        log_total=len(_serious(data.log)),
        pair_figures=[key for key in figures if key.startswith("tensor")],
        timeline_figures=[key for key in figures if key.startswith("timeline")],
        island=_island(figures),
        bokeh=Markup(_bokeh_script()),  # BokehJS itself, from the installed package
        tooltip_css=Markup(TOOLTIP_CSS),  # a constant of this package
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _figures(data: ReportData) -> dict[str, UIElement]:
    figures: dict[str, UIElement] = {}
    for rank, pair in enumerate(data.pairs[:MAX_FIGURES]):
        name = f"{pair.role}: {pair.stats.name}"
        figures[f"tensor-{rank}"] = diff_figure(
            pair.golden, pair.engine, name=name, stats=pair.stats, max_cells=MAX_CELLS
        )
    if any(record.times for record in data.records):
        figures["timeline"] = timeline_figure(data.records)
    return figures


def _island(figures: dict[str, UIElement]) -> Markup:
    """The figures as JSON that is safe inside a script element: no `<` is left in it."""
    items: list[dict[str, Any]] = []
    for key, figure in figures.items():
        apply_theme(figure, "light")
        document = Document()
        document.add_root(figure)
        docs, _ = standalone_docs_json_and_render_items(figure, suppress_callback_warning=True)
        (doc,) = docs.values()
        items.append({"element": key, "doc": doc, "themes": theme_table(figure)})
    text = json.dumps(items, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # JSON without `<` cannot end its element


def _bokeh_script() -> str:
    """BokehJS as shipped with the package; it must not be able to end the element it stands in."""
    resources = Resources(mode="inline", components=["bokeh"], minified=True)
    return "\n".join(resources.js_raw).replace("</script", "<\\/script")


def _serious(log: Sequence[LogLine]) -> list[LogLine]:
    return [line for line in log if line.severity in ("warning", "error")]


def _layer_table(record: Timed) -> dict[str, Any]:
    """Rows of one record's layers: what the engine says, its time and share; by time, slowest first, where known."""
    times: dict[int, LayerTime] = {time.index: time for time in record.times}
    layers: dict[int, LayerInfo] = {layer.index: layer for layer in record.layers}
    total = layer_sum_ms(record)
    rows = []
    for index in sorted(times.keys() | layers.keys()):
        layer, time = layers.get(index), times.get(index)
        spent = None if time is None else time.average_ms
        rows.append(
            {
                "index": index,
                "name": layer.name if layer else time.name if time else "",
                "type": layer.type if layer else "",
                "precision": (layer.precision or "") if layer else "",
                "nodes": ", ".join(layer.nodes) if layer else "",
                "ms": spent,
                "share": None if spent is None or not total else spent / total,
            }
        )
    rows.sort(key=lambda row: -(row["ms"] or 0.0))
    return {"name": record.name, "rows": rows[:MAX_LAYERS], "total": len(rows), "sum": total, "timed": bool(times)}
