"""The graph without a kernel or a script: a picture and a table, for saved notebooks, code hosts and nbconvert."""

from __future__ import annotations

from collections import Counter
from html import escape

from trt_lab.graph.layout import KINDS, Layout, layout
from trt_lab.graph.view import GraphView
from trt_lab.widgets.graph_scene import type_text

MAX_BYTES = 300_000
_MAX_BOXES = 500
_MAX_EDGES = 1500
_MAX_ROWS = 200

_STYLE = 'style="max-width:100%;height:auto;max-height:520px;border:1px solid #bbb;background:#fff"'


def static_html(view: GraphView) -> str:
    """At most 300 KB; every name is escaped."""
    heading = f"<p><b>{escape(view.model.name)}</b>: {len(view.nodes)} nodes, {len(view.tensors)} tensors</p>"
    parts = [heading, _ports(view), _operators(view)]
    drawn = layout(view)
    if len(drawn.ids) <= _MAX_BOXES and len(drawn.edge_sources) <= _MAX_EDGES:
        picture = _picture(drawn)
        if sum(len(part.encode()) for part in (*parts, picture)) <= MAX_BYTES:
            parts.append(picture)
    return "".join(parts)


def _short(text: str, length: int) -> str:
    if len(text) <= length:
        return escape(text)
    half = (length - 1) // 2
    return escape(f"{text[:half]}…{text[-half:]}")


def _ports(view: GraphView) -> str:
    rows = [("input", tensor) for tensor in view.inputs] + [("output", tensor) for tensor in view.outputs]
    cells = "".join(
        f"<tr><td>{kind}</td><td>{_short(tensor, 120)}</td><td>{_short(type_text(view.tensors[tensor]), 120)}</td></tr>"
        for kind, tensor in rows[:_MAX_ROWS]
    )
    more = f"<p>and {len(rows) - _MAX_ROWS} more</p>" if len(rows) > _MAX_ROWS else ""
    return f"<table><thead><tr><th></th><th>tensor</th><th>type</th></tr></thead><tbody>{cells}</tbody></table>{more}"


def _operators(view: GraphView) -> str:
    counts = Counter(node.op_type for node in view.nodes.values()).most_common(40)
    return f"<p>{', '.join(f'{_short(op, 40)} {count}' for op, count in counts)}</p>" if counts else ""


def _picture(drawn: Layout) -> str:
    size = f'width="{drawn.width + 20:.0f}" height="{drawn.height + 20:.0f}"'
    box = f'viewBox="-10 -10 {drawn.width + 20:.0f} {drawn.height + 20:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Graph" {size} {box} {_STYLE}>',
        '<g font-family="sans-serif" font-size="12" stroke-width="1">',
    ]
    kinds = drawn.kinds.tolist()
    boxes = drawn.boxes.tolist()
    for index, (x, y, w, h) in enumerate(boxes):
        if KINDS[kinds[index]] == "frame":
            lines.append(
                f'<rect x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}" rx="8" fill="#f4f4f4" stroke="#999" '
                f'stroke-dasharray="4"/><text x="{x + 8:.0f}" y="{y + 17:.0f}">{_short(drawn.labels[index], 40)}</text>'
            )
    for edge in range(len(drawn.edge_sources)):
        points = " ".join(f"{x:.0f},{y:.0f}" for x, y in drawn.route(edge).tolist())
        lines.append(f'<polyline points="{points}" fill="none" stroke="#888"/>')
    for index, (x, y, w, h) in enumerate(boxes):
        if KINDS[kinds[index]] == "frame":
            continue
        text = _short(drawn.op_types[index] or drawn.labels[index], max(3, int((w - 12) / 7)))
        radius = 5 if KINDS[kinds[index]] in ("node", "scope") else h / 2
        lines.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}" rx="{radius:.0f}" fill="#fff" stroke="#555"/>'
            f'<text x="{x + w / 2:.0f}" y="{y + h / 2 + 4:.0f}" text-anchor="middle">{text}</text>'
        )
    return "".join([*lines, "</g></svg>"])
