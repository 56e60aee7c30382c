"""Whether the reference deserves trust where an error is big: it is run under the other setting of its optimiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trt_lab.compare.selfcheck import check_optimiser, largest, random_tensors
from trt_lab.compare.sides import compare_sides, open_side
from trt_lab.compare.words import format_figure
from trt_lab.diagnose.locate import is_large
from trt_lab.edit.probe import Probed, add_probes
from trt_lab.errors import CancelledError, TrtLabError
from trt_lab.graph.view import GraphView
from trt_lab.model import Model
from trt_lab.record import Record
from trt_lab.results import Diff
from trt_lab.runs import Role
from trt_lab.types import BuildOptions

TF32_LEEWAY = 2.0
"""An engine may be off by this much more than emulated TF32, which adds up in another order."""

Run = Callable[[Probed, BuildOptions, Role], Record]


def is_big(diff: Diff) -> bool:
    """Whether an output of the model is so far off that the reference itself may be wrong: no rounding, and over tolerance."""
    own = (stats for stats in diff.tensors if stats.name in diff.outputs)
    return any(stats.verdict == "differs" and is_large(stats) for stats in own)


def doubt_reference(diff: Diff, model: Model, run: Run) -> str:
    """A note when the reference moves by more than the tolerance with its optimiser on; "" when it holds still.

    Costs nothing while the error is not big. A run that fails is told by the note, not raised.

    Args:
        diff: An engine against the reference of `model`, on the samples that `run` uses.

    Raises:
        CancelledError: The run was cancelled.
    """
    if not is_big(diff):
        return ""
    options = replace(diff.reference.meta.build_options, optimizer=True)
    try:
        other = run(add_probes(model, ()), options, "reference")
        found = check_optimiser(diff.reference, other, diff.tolerance, random_tensors(GraphView.of(model)))
    except CancelledError:
        raise
    except TrtLabError as error:
        return f"the reference could not be run with its optimiser on: {error}"
    if found.verdict != "differs":
        return ""
    figure = format_figure(largest(found.comparison))
    return f"the reference itself changes by {figure} with its optimiser on: do not blame the engine yet"


def explain_tf32(diff: Diff, model: Model, run: Run) -> str:
    """A note when an engine with TF32 on is off by what TF32 itself gives, as the emulated reference tells; else "".

    Costs nothing where TF32 is off or nothing differs. A run that fails is told by the note, not raised.

    Raises:
        CancelledError: The run was cancelled.
    """
    found = largest(diff.comparison)
    if not diff.engine.meta.tf32 or not found or not any(stats.verdict == "differs" for stats in diff.tensors):
        return ""
    try:
        other = run(add_probes(model, ()), replace(diff.reference.meta.build_options, tf32=True), "reference")
        emulated = largest(compare_sides(open_side(other), open_side(diff.reference), tolerance=diff.tolerance))
    except CancelledError:
        raise
    except TrtLabError as error:
        return f"TF32 is on, and what it gives could not be emulated: {error}"
    if emulated is None or found > TF32_LEEWAY * emulated:
        figure = "nothing" if emulated is None else format_figure(emulated)
        return f"TF32 is on, but emulated it gives {figure} where the engine is off by {format_figure(found)}"
    return f"TF32 is on, and the error is as TF32 would give: {format_figure(emulated)} where emulated"


def with_note(diff: Diff, note: str) -> Diff:
    """The same with one more note; without one, as it was."""
    if not note:
        return diff
    return replace(diff, comparison=replace(diff.comparison, notes=(*diff.comparison.notes, note)))
