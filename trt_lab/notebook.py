"""The public `Session`: the session of `trt_lab.session`, shown. Also what the JupyterLab panel runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tqdm.auto import tqdm

from trt_lab import session
from trt_lab.diagnose.check import CheckSource
from trt_lab.diagnose.flaky import Flaky
from trt_lab.diagnose.reduce import Reduced
from trt_lab.diagnose.switches import Switches
from trt_lab.errors import TrtLabError, UsageError
from trt_lab.profiling.sweep_sizes import SizesArgument
from trt_lab.record import Record
from trt_lab.results import Finding
from trt_lab.sweeping import SizeSweep
from trt_lab.types import OnProgress, Progress
from trt_lab.views.report import records_report, report_data, write_report
from trt_lab.widgets.figure import FigureWidget
from trt_lab.widgets.panes.diff import diff_widget
from trt_lab.widgets.panes.timeline import timeline_widget
from trt_lab.widgets.workbench import Workbench, error_panel


class Session(session.Session):
    __doc__ = session.Session.__doc__

    @cached_property
    def workbench(self) -> Workbench:
        """The workbench of this session; one, however often it is shown."""
        return Workbench(self)

    def build(self, on_progress: OnProgress | None = None) -> Record:
        """See `trt_lab.session.Session.build`; shows a progress bar unless `on_progress` is given."""
        with _telling(on_progress) as tell:
            return super().build(tell)

    def locate(
        self,
        on_progress: OnProgress | None = None,
        *,
        check: CheckSource | None = None,
        artifacts: str | Path | None = None,
        resume: bool = False,
        fp32: bool = False,
    ) -> Finding:
        """See `trt_lab.session.Session.locate`; shows a progress bar unless `on_progress` is given."""
        with _telling(on_progress) as tell:
            return super().locate(tell, check=check, artifacts=artifacts, resume=resume, fp32=fp32)

    def flaky(self, k: int = 3, on_progress: OnProgress | None = None) -> Flaky:
        """See `trt_lab.session.Session.flaky`; shows a progress bar unless `on_progress` is given."""
        with _telling(on_progress) as tell:
            return super().flaky(k, tell)

    def switches(self, fusions: Iterable[tuple[str, str]] = (), on_progress: OnProgress | None = None) -> Switches:
        """See `trt_lab.session.Session.switches`; shows a progress bar unless `on_progress` is given."""
        with _telling(on_progress) as tell:
            return super().switches(fusions, tell)

    def reduce(
        self, out: str | Path, on_progress: OnProgress | None = None, *, check: CheckSource | None = None
    ) -> Reduced:
        """See `trt_lab.session.Session.reduce`; shows a progress bar unless `on_progress` is given."""
        with _telling(on_progress) as tell:
            return super().reduce(out, tell, check=check)

    def sweep(
        self,
        sizes: SizesArgument | None = None,
        on_progress: OnProgress | None = None,
        *,
        repeats: int = 30,
        tuned: bool = False,
    ) -> SizeSweep:
        """See `trt_lab.session.Session.sweep`; shows a progress bar unless `on_progress` is given."""
        with _telling(on_progress) as tell:
            return super().sweep(sizes, tell, repeats=repeats, tuned=tuned)

    def timeline(self, record: Record | None = None) -> FigureWidget:
        """Layers of an engine along time. Raises UsageError when nothing was built."""
        return timeline_widget(self.newest(record))

    def figure(self, tensor: str, *, sample: int = 0, record: Record | None = None) -> FigureWidget:
        """Golden, engine and difference of one tensor as heat maps.

        Raises:
            UsageError: Nothing was built. CompareError: No such tensor in the record; probe it and build.
        """
        return diff_widget(self.compare(self.newest(record)), tensor, sample=sample)

    def report(self, path: str | Path) -> Path:
        """Writes one self-contained HTML file of the newest finding, or of the newest engine. Returns its path.

        Raises:
            UsageError: Nothing was built and nothing located.
        """
        if self.finding is not None:
            return write_report(path, report_data(self, self.finding))
        sides = [record for record in (self.newest(), self.reference) if record is not None]
        return write_report(path, records_report(sides))

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.workbench._repr_mimebundle_(**kwargs)


class _Bar:
    """A progress bar that fits where it is shown: a widget in a notebook, text in a terminal."""

    def __enter__(self) -> Self:
        self._bar = tqdm(total=100, bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}", leave=False)
        return self

    def tell(self, progress: Progress) -> None:
        self._bar.set_description_str(f"{progress.phase} {progress.message}".strip(), refresh=False)
        if progress.fraction is not None:
            self._bar.update(100 * progress.fraction - self._bar.n)

    def __exit__(self, *_: object) -> None:
        self._bar.close()


@contextmanager
def _telling(on_progress: OnProgress | None) -> Iterator[OnProgress]:
    """The progress function given, or that of a bar."""
    if on_progress is not None:
        yield on_progress
        return
    with _Bar() as bar:
        yield bar.tell


_panel: Session | None = None
_panel_path: Path | None = None


def open_panel(path: str) -> None:
    """What a JupyterLab panel runs in its kernel: shows the workbench on `path`, or in place why it cannot.

    The same path again, as after a reload of the page, shows the session that is there, with its probes and records.

    Args:
        path: ONNX file or record.
    """
    from IPython.display import display

    global _panel, _panel_path
    wanted = Path(path).absolute()
    if _panel is None or wanted != _panel_path:
        try:
            _panel, _panel_path = Session.open_any(path), wanted
        except TrtLabError as error:
            _panel = _panel_path = None
            display(error_panel(path, str(error)))
            return
    display(_panel.workbench)


def panel_session() -> Session:
    """The session of this kernel's panel. Raises UsageError when the panel shows none."""
    if _panel is None:
        raise UsageError("no model is open in this panel")
    return _panel
