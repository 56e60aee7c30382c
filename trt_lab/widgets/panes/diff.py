"""The Diff tab: tensors in graph order, and the one chosen as golden | engine | difference."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as ui
import numpy as np

from trt_lab.compare.observer import Effect, Observation
from trt_lab.errors import TrtLabError
from trt_lab.results import Diff
from trt_lab.types import TensorStats
from trt_lab.views.diff import default_slice, diff_figure, update_diff
from trt_lab.views.histogram import histogram_figure, update_histogram
from trt_lab.views.tiles import axes_of
from trt_lab.views.worst import worst_elements
from trt_lab.widgets.figure import FigureStack, FigureWidget
from trt_lab.widgets.table import TableWidget
from trt_lab.widgets.text import Kind, line
from trt_lab.wire import Column

TENSOR_COLUMNS = (
    Column(name="tensor", label="tensor", format="name"),
    Column(name="verdict", label="verdict", format="verdict", width=104),
    Column(name="max_abs", label="max abs", format="figure", width=84, help="largest |engine − golden|"),
    Column(name="cosine", label="cosine", format="figure", width=80, help="1: same direction; not defined for zeros"),
    Column(name="local", label="local?", width=84, help="does the error start here, or come in through its inputs?"),
)
WORST_COLUMNS = (
    Column(name="index", label="index"),
    Column(name="golden", label="golden", format="figure"),
    Column(name="engine", label="engine", format="figure"),
    Column(name="abs", label="abs", format="figure", help="|engine − golden|"),
    Column(name="rel", label="rel", format="figure", help="|engine − golden| / |golden|"),
)
WORST_COUNT = 20
FIGURE_KINDS = 4
"""Maps, lines, bars and words."""
OWN_WIDTH = {"description_width": "auto"}
_KIND_OF_EFFECT: dict[Effect, Kind] = {"neutral": "good", "perturbing": "error", "unknown": "plain"}


class DiffPane(ui.VBox):
    """Shows one diff.

    Args:
        on_select: Called with the tensor chosen in the table.
    """

    def __init__(self, on_select: Callable[[str], None]) -> None:
        self._diff: Diff | None = None
        self._local: dict[str, str] = {}
        self._shown = ""
        self._filling = False
        self._on_select = on_select
        self.table = TableWidget(columns=TENSOR_COLUMNS, empty="Nothing to compare yet: press Build.", rows_shown=7)
        self.heading = ui.HTML()
        self.observer = ui.HTML()
        self.sample = ui.Dropdown(description="sample", options=[("0", 0)], layout={"width": "110px"}, style=OWN_WIDTH)
        self.sliders = ui.HBox([], layout={"flex_flow": "row wrap"})
        self.figures = FigureStack(FIGURE_KINDS)
        self.histogram = FigureWidget()
        self.worst = TableWidget(columns=WORST_COLUMNS, empty="No element differs.", rows_shown=6)
        self.detail = ui.VBox(
            [self.heading, ui.HBox([self.sample, self.sliders]), self.figures, self.histogram, self.worst],
            layout={"display": "none"},
        )
        super().__init__([self.observer, self.table, self.detail])
        self.add_class("trt-lab-pane")
        self.table.observe(lambda change: self._chosen(change["new"]), "selected")
        self.sample.observe(lambda _: self._draw(), "value")

    def show(self, diff: Diff | None, local: dict[str, str]) -> None:
        """Shows another diff: the newest tensor in it, else the one that was shown before, else the worst.

        Args:
            local: Tensor → words on where its error comes from.
        """
        last, self._diff = self._diff, diff
        told, self._local = self._local, dict(local)
        if diff is not None and last is not None and diff.comparison is last.comparison and local == told:
            return  # the same numbers, of a record that is whole now
        before = {s.name for s in last.tensors} if last is not None else set()
        stats = diff.tensors if diff is not None else ()
        self.table.set_rows(
            keys=[s.name for s in stats],
            tensor=[s.name for s in stats],
            verdict=[s.verdict for s in stats],
            max_abs=[s.max_abs for s in stats],
            cosine=[s.cosine for s in stats],
            local=[local.get(s.name, "") for s in stats],
        )
        self.detail.layout.display = "none" if not stats else "flex"
        if diff is None or not stats:
            self._shown = ""
            return
        names = [s.name for s in stats]
        added = [name for name in names if name not in before] if before else []
        worst = diff.worst.name if diff.worst is not None else names[0]
        self.show_tensor(added[-1] if added else self._shown if self._shown in names else worst)

    def show_observation(self, seen: Observation | None) -> None:
        """Says above the table whether the probes changed the engine; nothing where there are none."""
        self.observer.value = "" if seen is None or not seen.by_probe else _observer_line(seen)

    def show_tensor(self, tensor: str) -> None:
        """Shows one tensor of the diff; one that it does not hold is left alone."""
        diff = self._diff
        stats = next((s for s in diff.tensors if s.name == tensor), None) if diff is not None else None
        if diff is None or stats is None:
            return
        self._shown = tensor
        self.table.selected = tensor
        self._filling = True
        try:
            self.sample.options = [(str(i), i) for i in range(diff.engine.samples)]
            self.sample.value = stats.sample
            self._make_sliders()
        finally:
            self._filling = False
        self._draw()

    def _make_sliders(self) -> None:
        """One for each axis that is not drawn; those that are there serve again, since the browser makes new ones slowly."""
        golden, engine = self._arrays()
        axes = axes_of(golden.shape) if golden.shape == engine.shape else None
        wanted = (
            [] if axes is None else list(zip(axes.chosen, axes.choices, default_slice(golden, engine), strict=True))
        )
        sliders = list(self.sliders.children[: len(wanted)])
        for _ in range(len(wanted) - len(sliders)):
            slider = ui.BoundedIntText(min=0, max=0, layout={"width": "110px"}, style=OWN_WIDTH)
            slider.observe(lambda _: self._draw(), "value")
            sliders.append(slider)
        for slider, (axis, size, value) in zip(sliders, wanted, strict=True):
            slider.max = size - 1
            slider.value = value
            slider.description = f"axis {axis}"
        if len(sliders) != len(self.sliders.children):
            self.sliders.children = tuple(sliders)

    def _chosen(self, tensor: str) -> None:
        if tensor and tensor != self._shown:
            self.show_tensor(tensor)
            self._on_select(tensor)

    def _arrays(self):
        assert self._diff is not None  # only called from `show_tensor` and `_draw`, which checked
        return self._diff.pair(self._shown, self.sample.value or 0)

    def _draw(self) -> None:
        diff = self._diff
        if self._filling or diff is None:
            return
        try:
            golden, engine = self._arrays()
            stats = diff.stats(self._shown, self.sample.value or 0)
            chosen = tuple(slider.value for slider in self.sliders.children)
            self.heading.value = ""
            self._draw_maps(golden, engine, stats, chosen or None)
            self._draw_histogram(golden, engine)
            worst = worst_elements(golden, engine, WORST_COUNT) if golden.shape == engine.shape else ()
        except TrtLabError as error:
            self.heading.value = line(str(error), kind="error")
            return
        self.worst.set_rows(
            keys=[str(list(w.index)) for w in worst],
            index=[str(list(w.index)) for w in worst],
            golden=[w.golden for w in worst],
            engine=[w.engine for w in worst],
            abs=[w.abs for w in worst],
            rel=[w.rel for w in worst],
        )

    def _draw_maps(
        self, golden: np.ndarray, engine: np.ndarray, stats: TensorStats, chosen: tuple[int, ...] | None
    ) -> None:
        name = self._shown
        self.figures.draw(
            lambda figure: update_diff(figure, golden, engine, name=name, stats=stats, slice=chosen),
            lambda: diff_figure(golden, engine, name=name, stats=stats, slice=chosen),
        )

    def _draw_histogram(self, golden: np.ndarray, engine: np.ndarray) -> None:
        with self.histogram.changing() as shown:
            if shown is not None and update_histogram(shown, golden, engine):
                return
        self.histogram.set_figure(histogram_figure(golden, engine, name=self._shown))


def _observer_line(seen: Observation) -> str:
    """One line, the whole sentence on hover."""
    return line(f"probes {seen.sentence}", kind=_KIND_OF_EFFECT[seen.effect])


def diff_widget(diff: Diff, tensor: str, *, sample: int = 0) -> FigureWidget:
    """One tensor of a diff as heat maps, for a notebook cell. Raises CompareError when it is not there."""
    golden, engine = diff.pair(tensor, sample)
    return FigureWidget(diff_figure(golden, engine, name=tensor, stats=diff.stats(tensor, sample)))
