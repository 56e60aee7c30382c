"""What a session examines: model, options, samples and probes; and the state that the rest of it stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from trt_lab import backends, storage
from trt_lab.activity import Activity, Status, silent
from trt_lab.backends.jobs import Task
from trt_lab.backends.worker import Worker, default_worker
from trt_lab.diagnose.steps import Search
from trt_lab.edit.probe import Probed, add_probes
from trt_lab.errors import UsageError
from trt_lab.events import Events
from trt_lab.graph.view import GraphView
from trt_lab.history import History, opening_line, shown_samples
from trt_lab.model import Model, ModelSource
from trt_lab.options import ShapeArgument, change_options, change_tolerance
from trt_lab.profiling.source import Engine
from trt_lab.record import Record, is_record
from trt_lab.results import Diff, Finding
from trt_lab.runs import Found, Role, RunUnderWay, Samples, open_source, run_task
from trt_lab.types import BuildOptions, NodeId, OnProgress, TensorId, Tolerance

_Chosen: TypeAlias = Literal["model", "options", "probes", "samples"]
Change: TypeAlias = _Chosen | Literal["reference", "outputs", "record", "observer", "finding", "status", "code"]


class Subject:
    """Model, options, samples, probes, records and the running job of one examination; see `Session`."""

    def __init__(
        self, model: ModelSource, *, records: str | Path | None = None, executor: Executor | None = None
    ) -> None:
        self._lock = RLock()
        self._events: Events[Change] = Events()
        self._records_root = Path(records) if records is not None else None
        self._worker = Worker(executor) if executor is not None else default_worker()
        self._activity = Activity(lambda: self._notify("status"))
        self._adopt(model)
        if executor is None:
            self._worker.warm()

    # --- model ---------------------------------------------------------------------------

    @classmethod
    def open_any(cls, path: str | Path) -> Self:
        """A session on a model file, `zoo:NAME`, or a record.

        Raises:
            ModelError, RecordError: It cannot be opened.
        """
        if is_record(path):
            return cls.of_record(Record.open(path))
        return cls(path)

    @classmethod
    def of_record(cls, record: Record, *, executor: Executor | None = None) -> Self:
        """A session that begins with a record: its model, inputs, probes and options; nothing is built.

        Raises:
            RecordError: The record does not hold its model.
        """
        session = cls(record.model(), executor=executor)
        session._begin(f"lab = trt_lab.Session.open_any({str(record.path)!r})")
        session._options = record.meta.build_options
        session._probes = tuple(TensorId(t) for t in record.meta.probes if t not in session._view.outputs)
        session._samples = Samples.given(session._model, [record.inputs(i) for i in range(record.samples)])
        if record.meta.role == "reference":
            session._reference = record
        else:
            session._records.append(record)
            session._activity.status = Status("idle", f"record {record.name}")
        return session

    def open(self, model: ModelSource) -> None:
        """Turns to another model; probes, records and code start anew.

        Raises:
            ModelError: It cannot be opened; the session keeps the one it has.
            UsageError: A build is running.
        """
        self._activity.refuse("open another model")
        self._adopt(model)
        for change in ("model", "options", "probes", "samples", "record", "status", "code"):
            self._notify(change)

    def _adopt(self, source: ModelSource) -> None:
        opened, feeds = open_source(source)
        view = GraphView.of(opened)
        with self._lock:
            self._model, self._view = opened, view
            self._probes: tuple[TensorId, ...] = ()
            self._options = BuildOptions()
            self._samples: Samples | None = Samples.given(opened, feeds) if feeds else None
            self._tolerance = Tolerance()
            self._reference: Record | None = None
            self._records: list[Record] = []
            self._finding: Finding | None = None
            self._search: Search | None = None
            self._clean: list[Record] = []
            self._compared: tuple[object, Diff] | None = None
            self._early: Diff | None = None
            self._inside: tuple[Record, Engine] | None = None
            self._doubts: dict[Path, str] = {}
            self._activity.status = Status("idle", "not built yet")
            self._begin(opening_line(source, opened.path))

    def _begin(self, line: str) -> None:
        """Starts the code anew."""
        self._history = History("import trt_lab", line, on_line=lambda: self._notify("code"))

    @property
    def model(self) -> Model:
        """The model, as opened; probes are not in it."""
        return self._model

    @property
    def view(self) -> GraphView:
        """Its graph: nodes, tensors, scopes."""
        return self._view

    # --- options -------------------------------------------------------------------------

    def use(
        self,
        *,
        backend: str | None = None,
        precision: str | None = None,
        keep_fp32: Iterable[str] | None = None,
        shapes: ShapeArgument | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        **build: Any,
    ) -> None:
        """Changes how the next engine is built and compared; what is not given stays.

        Args:
            backend: Name of a backend, see `trt-lab doctor`.
            precision: Default type of the plan: fp32, fp16, bf16.
            keep_fp32: Nodes kept in FP32; replaces those kept so far.
            shapes: Input name → shape, or (min, opt, max).
            atol, rtol: An element is fine when |engine − reference| ≤ atol + rtol · |reference|.
            **build: Other fields of `BuildOptions`, by name.

        Raises:
            UsageError: An unknown name or value; nothing is changed then.
        """
        kept = None if keep_fp32 is None else [keep_fp32] if isinstance(keep_fp32, str) else list(keep_fp32)
        given = {"backend": backend, "precision": precision, "keep_fp32": kept, "shapes": shapes, "atol": atol}
        given |= {"rtol": rtol, **build}
        shown = ", ".join(f"{key}={value!r}" for key, value in given.items() if value is not None)
        with self._history.action(f"lab.use({shown})"), self._lock:
            if backend is not None:
                backends.get(backend)
            nodes = None if kept is None else self._known_nodes(kept)
            options = change_options(self._options, precision=precision, keep_fp32=nodes, shapes=shapes, **build)
            options = options if backend is None else replace(options, backend=backend)
            if options.shapes != self._options.shapes and self._samples is not None:
                self._samples = self._samples.reshaped(self._model, options.shapes)
                self._reference = None
            self._options = options
            self._tolerance = change_tolerance(self._tolerance, atol, rtol)
        self._notify("options")

    def keep(self, node: str) -> None:
        """Keeps one more node in FP32. Raises ModelError when there is no such node."""
        with self._history.action(f"lab.keep({node!r})"), self._lock:
            (found,) = self._known_nodes([node])
            self._set_kept((*self._options.plan.keep_fp32, found))
        self._notify("options")

    def unkeep(self, node: str) -> None:
        """Gives one node back to the plan's default type. Raises ModelError when there is no such node."""
        with self._history.action(f"lab.unkeep({node!r})"), self._lock:
            (found,) = self._known_nodes([node])
            self._set_kept(tuple(n for n in self._options.plan.keep_fp32 if n != found))
        self._notify("options")

    def _set_kept(self, kept: Sequence[NodeId]) -> None:
        self._options = replace(self._options, plan=replace(self._options.plan, keep_fp32=self._known_nodes(kept)))

    def _known_nodes(self, nodes: Iterable[str]) -> tuple[NodeId, ...]:
        wanted = {self._view.node(NodeId(node)).id for node in nodes}
        return tuple(node for node in self._view.nodes if node in wanted)

    @property
    def options(self) -> BuildOptions:
        """How the next engine is built."""
        return self._options

    @property
    def tolerance(self) -> Tolerance:
        """What counts as the same."""
        return self._tolerance

    # --- samples -------------------------------------------------------------------------

    def feed(
        self,
        samples: int | Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]] | str | Path = 4,
        *,
        seed: int = 0,
        edges: bool = False,
    ) -> None:
        """Sets the inputs: a number of seeded random samples, arrays by input name, or a file or folder of them.

        `edges` adds four edge cases to random samples: all zeros, all ones, both ends of the range.

        Raises:
            InputError: They do not fit the model: which input, what is wanted, what was given.
        """
        with self._history.action(f"lab.feed({shown_samples(samples, seed, edges=edges)})"), self._lock:
            self._samples = Samples.of(self._model, samples, seed=seed, shapes=self._options.shapes, edges=edges)
            self._reference = None
        self._notify("samples")

    @property
    def samples(self) -> Samples:
        """The inputs; four seeded random samples unless `feed` said otherwise."""
        with self._lock:
            if self._samples is None:
                self._samples = Samples.of(self._model, 4, seed=0, shapes=self._options.shapes)
            return self._samples

    # --- probes --------------------------------------------------------------------------

    @property
    def probes(self) -> tuple[TensorId, ...]:
        """Probed tensors, in the order they were asked for."""
        return self._probes

    def probe(self, tensor: str) -> None:
        """Puts a probe behind a tensor; asked twice is once.

        Raises:
            ModelError: No such tensor. EditError: It cannot be probed; the message says what to do.
        """
        with self._history.action(f"lab.probe({tensor!r})"), self._lock:
            found = self._view.tensor(TensorId(tensor)).id
            if found not in self._probes:
                add_probes(self._model, (*self._probes, found))
                self._probes = (*self._probes, found)
        self._notify("probes")

    def unprobe(self, tensor: str) -> None:
        """Takes a probe away. Raises UsageError when there is none on that tensor."""
        with self._history.action(f"lab.unprobe({tensor!r})"), self._lock:
            if tensor not in self._probes:
                raise UsageError(f"no probe on {tensor!r}; probes are on: {', '.join(self._probes) or 'nothing'}")
            self._probes = tuple(p for p in self._probes if p != tensor)
        self._notify("probes")

    def cancel(self) -> None:
        """Stops what is running, within about 2 s. Does nothing when nothing runs."""
        self._activity.cancel()

    @property
    def building(self) -> bool:
        """Whether a build, reference run or search is under way."""
        return self._activity.busy

    @property
    def records(self) -> tuple[Record, ...]:
        """Records of the engines built, oldest first."""
        return tuple(self._records)

    @property
    def reference(self) -> Record | None:
        """The newest reference record."""
        return self._reference

    def newest(self, record: Record | None = None) -> Record:
        """`record`, or the newest one. Raises UsageError when nothing was built."""
        records = [record] if record is not None else self._records
        if not records:
            raise UsageError("no engine yet; build one first: lab.build()")
        return records[-1]

    # --- what was done -------------------------------------------------------------------

    @property
    def code(self) -> str:
        """The Python that repeats all that was done here."""
        return self._history.code

    def export_notebook(self, path: str | Path) -> Path:
        """Writes a notebook that repeats `code`. Returns its path."""
        return self._history.write_notebook(path, self._model.name)

    @property
    def status(self) -> Status:
        """For a status bar."""
        return self._activity.status

    def observe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Calls `callback` with what changed, in the thread that changed it. Returns a function that ends it."""
        return self._events.observe(callback)

    # --- inside --------------------------------------------------------------------------

    def _start(
        self, probed: Probed, options: BuildOptions, role: Role, tell: OnProgress, own: Samples | None = None
    ) -> RunUnderWay:
        return RunUnderWay(
            self._worker, self._model, probed, options, own or self.samples, role=role,
            folder=storage.records_folder(self._records_root, self._model),
            on_progress=self._activity.telling(tell), on_submit=self._activity.submitted,
        )  # fmt: skip

    def _run(
        self, probed: Probed, options: BuildOptions, role: Role, tell: OnProgress = silent, own: Samples | None = None
    ) -> Record:
        return self._start(probed, options, role, tell, own).record()

    def _submit(self, task: Task[Found], tell: OnProgress) -> Found:
        return run_task(self._worker, task, self._activity.telling(tell), self._activity.submitted)

    def _notify(self, change: Change) -> None:
        self._events.tell(change)
