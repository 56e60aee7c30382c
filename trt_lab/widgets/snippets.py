"""Texts to copy: commands for other tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from trt_lab.widgets.still import still
from trt_lab.widgets.text import line, preformatted
from trt_lab.wire import Snippet


class SnippetsWidget(anywidget.AnyWidget):
    """Shows texts, each under its label and with a button that copies it."""

    _esm = Path(__file__).parent / "static" / "snippets.js"

    snippets = traitlets.List(traitlets.Dict()).tag(sync=True)
    """`wire.Snippet` of each text. Type: list of dict. Default: []."""

    def show(self, texts: Mapping[str, str]) -> None:
        """Shows other texts, by label."""
        made = [Snippet(label=label, text=text) for label, text in texts.items()]
        self.snippets = [snippet.model_dump(mode="json") for snippet in made]

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        html = "".join(line(one["label"]) + preformatted(one["text"]) for one in self.snippets)
        return {**data, "text/plain": f"SnippetsWidget({len(self.snippets)})", "text/html": still(html)}, metadata
