"""Still views: the plain HTML beside a live widget, for saved notebooks, code hosts and nbconvert."""

from __future__ import annotations


def still(html: str) -> str:
    """Marks HTML as a still view of ours; JupyterLab shows it where the widget is gone (src/plugin/still.ts)."""
    return f'<div class="trt-lab-still">{html}</div>'
