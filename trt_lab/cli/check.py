"""`trt-lab check`: what a model's file tells about trouble to come."""

from __future__ import annotations

from trt_lab import zoo
from trt_lab.cli.arguments import JsonOption, ModelArgument
from trt_lab.cli.output import FINDING, FINE, print_json, print_line, print_wrapped
from trt_lab.diagnose.preflight import Concern, check_model
from trt_lab.graph.view import GraphView
from trt_lab.model import Model

NAME = "check"
_WIDTH = 96


def run(model: ModelArgument, json: JsonOption = False) -> int:
    """Look a model over before building: types, operators, constants, branches, scales. Exit 1 on an error finding."""
    name = model.removeprefix("zoo:")
    opened = zoo.get(name).model if name != model else Model.load(model)
    found = check_model(GraphView.of(opened))
    if json:
        print_json({"findings": [concern.as_json() for concern in found], "opset": dict(opened.opset)})
    else:
        for concern in found:
            _print(concern)
        print_line(_summary(found))
    return FINDING if any(concern.severity == "error" for concern in found) else FINE


def _print(concern: Concern) -> None:
    for text, first in ((f"{concern.severity:7} {concern.rule}: {concern.message}", ""), (concern.fix, "        → ")):
        if text:
            print_wrapped(text, _WIDTH, first=first, indent=" " * 10)


def _summary(found: tuple[Concern, ...]) -> str:
    counts = [(sum(c.severity == s for c in found), s) for s in ("error", "warning", "info")]
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing found"
