"""Real exports open, keep their structure, and are drawn without overlaps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.graph.test_layout import all_scopes, check_drawing
from trt_lab.graph import GraphView, layout, search
from trt_lab.model import Model

NODES = {
    "magika": (95, 1),
    "ppocr_det": (672, 1),
    "ppocr_rec": (860, 1),
    "ppocr_cls": (566, 1),
    "silero_16k": (350, 25),
    "silero": (689, 51),
    "silero_half": (325, 25),
}
"""Nodes, nested ones included, and graphs, as counted in the protobufs."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NODES))
def test_real_model_opens_and_is_drawn_well(name: str, real_model: Callable[[str], Path]) -> None:
    model = Model.load(real_model(name))
    view = GraphView.of(model)
    assert (len(view.nodes), len(view.graphs)) == NODES[name]
    assert Model.load(model.proto()).hash == model.hash
    for graph in view.graphs:
        for opened in (None, frozenset[str](), all_scopes(view, graph)):
            check_drawing(layout(view, opened, graph))
    for node in list(view.nodes)[::50]:
        assert search(view, node, limit=1)[0].id == node
