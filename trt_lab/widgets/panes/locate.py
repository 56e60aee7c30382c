"""The Locate tab: the search for the cause, step by step, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ipywidgets as ui

from trt_lab.diagnose.locate import TensorError
from trt_lab.diagnose.steps import Search, Step
from trt_lab.errors import TrtLabError
from trt_lab.results import Finding
from trt_lab.widgets.panes.locate_words import (
    count_steps,
    decibels,
    intro,
    kept_text,
    role_of,
    verdict_lines,
)
from trt_lab.widgets.snippets import SnippetsWidget
from trt_lab.widgets.table import TableWidget
from trt_lab.widgets.text import line
from trt_lab.wire import Column

STEP_COLUMNS = (
    Column(name="number", label="#", format="integer", width=46),
    Column(name="what", label="step", width=156),
    Column(name="kept", label="kept in FP32", format="name"),
    Column(name="state", label="result", width=92),
    Column(name="error", label="max abs", format="figure", width=84, help="worst of the outputs; – where not finite"),
)
_SNR_HELP = "signal to noise; under 30 dB is more than rounding; −Inf: values became infinite or NaN"
EVIDENCE_COLUMNS = (
    Column(name="node", label="node", format="name"),
    Column(name="role", label="role", width=104, help="source: the error arises here; keep: must stay in FP32"),
    Column(name="kind", label="kind", width=138),
    Column(name="local", label="local", unit="dB", format="figure", width=78, help=f"the node alone: {_SNR_HELP}"),
    Column(
        name="accumulated", label="accumulated", unit="dB", format="figure", width=128, help=f"all low: {_SNR_HELP}"
    ),
)
TABLE_COLUMNS = (
    Column(name="engine", label="engine"),
    Column(name="verdict", label="verdict", format="verdict", width=104),
    Column(name="max_abs", label="max abs", format="figure", width=84),
    Column(name="latency_ms", label="latency", unit="ms", format="figure", width=92, help="median of a whole run"),
    Column(name="runs_per_s", label="runs", unit="/s", format="figure", width=84, help="one after the other"),
    Column(name="low_layers", label="low layers", format="integer", width=92, help="layers that have the low type"),
)
_TOOLS = {
    "autocast": "ModelOpt AutoCast, for any TensorRT",
    "trtexec": "trtexec, up to TensorRT 10",
    "polygraphy": "Polygraphy, up to TensorRT 10",
}
_STATES = {"running": "… running", "passes": "✓ passes", "fails": "✗ fails", "done": "✓ done", "none": "– no result"}
_NARROW = {"width": "auto"}


@dataclass(frozen=True)
class LocateActions:
    """What the pane's buttons and rows do.

    Attributes:
        start: Begins a search; goes on with the stopped one where it is told to.
        choose: Shows a node in the graph.
        keep: Keeps the nodes found in FP32. undo: Takes that, or the newest change, back.
        export: Writes the repaired model and returns its path.
    """

    start: Callable[[bool], None]
    stop: Callable[[], None]
    choose: Callable[[str], None]
    keep: Callable[[], None]
    undo: Callable[[], None]
    export: Callable[[], str]


class LocatePane(ui.VBox):
    """Shows one search and its finding."""

    def __init__(self, actions: LocateActions) -> None:
        self._actions = actions
        self._rows: dict[str, TensorError] = {}
        self._steps: tuple[Step, ...] = ()
        self._finding: Finding | None = None
        self.start = _button("Find the cause", "search", lambda: actions.start(False))
        self.go_on = _button("Go on", "play", lambda: actions.start(True))
        self.stop = _button("Stop", "stop", actions.stop)
        self.heading = ui.HTML(layout={"flex": "1 1 200px", "min_width": "0", "margin": "0 0 0 8px"})
        self.intro = ui.HTML()
        self.verdict = ui.HTML()
        self.evidence = TableWidget(
            columns=EVIDENCE_COLUMNS, empty="No node stands out.", rows_shown=8, label="Evidence"
        )
        self.detail = ui.HTML()
        self.table = TableWidget(columns=TABLE_COLUMNS, empty="No engine.", rows_shown=3, label="Engines compared")
        self.keep = _button("Keep these in FP32", "check", self._tell(actions.keep))
        self.undo = _button("Undo", "undo", self._tell(actions.undo))
        self.export = _button("Export repaired ONNX", "download", self._tell(self._export))
        self.told = ui.HTML()
        self.recipes = SnippetsWidget()
        self.steps_heading = ui.HTML()
        self.steps = TableWidget(columns=STEP_COLUMNS, empty="No step yet.", rows_shown=8, label="Steps")
        elsewhere = ui.HTML(line("The same in other tools", strong=True))
        self.repair = ui.VBox([_row(self.keep, self.undo, self.export), self.told, elsewhere, self.recipes])
        self.result = ui.VBox([self.verdict, self.table, self.evidence, self.detail, self.repair])
        bar = _row(self.start, self.go_on, self.stop, self.heading)
        super().__init__([bar, self.intro, self.result, self.steps_heading, self.steps])
        self.add_class("trt-lab-pane")
        for box in (self.result, self.repair):
            box.add_class("trt-lab-stack")
        self.show_undo("")
        self.evidence.observe(lambda change: self._row_chosen(change["new"]), "selected")
        self.steps.observe(lambda change: self._step_chosen(change["new"]), "selected")

    def show_choice(self, precision: str, backend: str, *, busy: bool) -> None:
        """Says what a search would do with what is chosen, and whether one can begin."""
        self.start.disabled = self.go_on.disabled = busy or precision == "fp32"
        self.intro.value = intro(precision, backend)

    def show_undo(self, what: str) -> None:
        """Says what Undo takes back; "" for nothing."""
        self.undo.disabled = what == ""
        self.undo.tooltip = f"Undo: {what}" if what else "Nothing to undo"

    def show_search(self, search: Search | None, steps: Sequence[Step], status: str) -> None:
        """Shows the steps so far.

        Args:
            status: What is being done, while the search runs.
        """
        running = search is not None and search.state == "running"
        stopped = search is not None and search.state == "stopped"
        _show(self.stop, running)
        _show(self.start, not running)
        _show(self.go_on, stopped and bool(steps))
        _show(self.intro, search is None or stopped)
        _show(self.steps, bool(steps) or running)
        if search is None or not running:
            told = stopped and bool(steps)
            self.heading.value = line("Stopped. Go on repeats no finished step.", kind="quiet") if told else ""
        else:
            self.heading.value = line(f"{search.precision} · {status}")
        self.steps_heading.value = line(f"Steps: {count_steps(steps)}", strong=True) if steps else ""
        if self._steps == tuple(steps):
            return
        self._steps = tuple(steps)
        newest = list(enumerate(steps, 1))[::-1]
        self.steps.set_rows(
            keys=[str(number) for number, _ in newest],
            number=[number for number, _ in newest],
            what=[step.what for _, step in newest],
            kept=[kept_text(step.keep_fp32) for _, step in newest],
            state=[_STATES[step.state] for _, step in newest],
            error=[step.error for _, step in newest],
        )

    def show_kept(self, kept: bool) -> None:
        """Whether the nodes found are kept already."""
        self.keep.disabled = kept
        self.keep.description = "Kept in FP32" if kept else "Keep these in FP32"

    def show_finding(self, finding: Finding | None, recipes: Mapping[str, str]) -> None:
        """Shows the result, its source chosen; None hides it.

        Args:
            recipes: Command lines, by tool.
        """
        _show(self.result, finding is not None)
        known, self._finding = self._finding is finding, finding
        if finding is None:
            self.told.value = ""
            return
        self.verdict.value = "".join(verdict_lines(finding))
        rows = [row for row in finding.errors if row.node is not None and role_of(finding, row.node, row.local_large)]
        self._rows = {str(row.tensor): row for row in rows}
        _show(self.evidence, bool(rows))
        self.evidence.set_rows(
            keys=[str(row.tensor) for row in rows],
            node=[str(row.node) for row in rows],
            role=[role_of(finding, row.node, row.local_large) for row in rows],
            kind=[row.evidence.kind if row.evidence is not None else "" for row in rows],
            local=[decibels(row.local) for row in rows],
            accumulated=[decibels(row.stats) for row in rows],
        )
        self._show_detail()
        self._show_table(finding)
        if not known and finding.source is not None:
            self.evidence.selected = finding.source.tensor
        _show(self.repair, bool(finding.keep_fp32))
        self.recipes.show({_TOOLS.get(tool, tool): text for tool, text in recipes.items()})

    def _row_chosen(self, tensor: str) -> None:
        self._show_detail()
        if tensor in self._rows:
            self._actions.choose(str(self._rows[tensor].node))

    def _show_table(self, finding: Finding) -> None:
        """What the engines cost, where engines were built."""
        frame = finding.table
        _show(self.table, finding.engine_builds > 0)
        known = frame.astype(object).where(frame.notna(), None)
        self.table.set_rows(
            keys=[str(name) for name in frame["engine"]],
            **{column.name: list(known[column.name]) for column in TABLE_COLUMNS},
        )

    def _show_detail(self) -> None:
        """What the numbers say of the chosen row."""
        row = self._rows.get(self.evidence.selected)
        told = f"{row.node}: {row.evidence.kind}: {row.evidence.text}" if row is not None and row.evidence else ""
        if not told and self._rows:
            told = "Choose a row: the graph shows its node, and its numbers are told here."
        self.detail.value = line(told, kind="quiet") if told else ""

    def _step_chosen(self, number: str) -> None:
        kept = self._steps[int(number) - 1].keep_fp32 if number else None
        if kept:
            self._actions.choose(kept[0])

    def _export(self) -> None:
        self.told.value = line(f"wrote {self._actions.export()}", kind="good")

    def _tell(self, action: Callable[[], None]) -> Callable[[], None]:
        """`action`, its error told beside the buttons."""

        def act() -> None:
            self.told.value = ""
            try:
                action()
            except (TrtLabError, OSError) as error:
                self.told.value = line(str(error), kind="error")

        return act


def _button(text: str, icon: str, press: Callable[[], None]) -> ui.Button:
    button = ui.Button(description=text, icon=icon, layout=_NARROW)
    button.on_click(lambda _: press())
    return button


def _row(*children: ui.DOMWidget) -> ui.HBox:
    return ui.HBox(children, layout={"flex_flow": "row wrap", "align_items": "center"})


def _show(widget: ui.DOMWidget | TableWidget, shown: bool) -> None:
    widget.layout.display = "" if shown else "none"
