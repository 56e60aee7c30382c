"""Engines built again and again: as they are, to see whether builds agree, and with one switch turned at a time."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trt_lab.backends.jobs import MOVED_TWICE, Task
from trt_lab.backends.tensorrt.tactics import Changed, TimingCacheEdit, edit_in_worker, read_autotuning
from trt_lab.compare.observer import observe
from trt_lab.compare.selfcheck import compare_builds, random_tensors
from trt_lab.diagnose.flaky import Flaky, best_build, judge_builds
from trt_lab.diagnose.switches import Switch, Switches, Tried, plan_switches
from trt_lab.edit.mark import mark
from trt_lab.edit.probe import add_probes
from trt_lab.errors import BackendError, UsageError
from trt_lab.graph.view import GraphView
from trt_lab.means import Means, Submit
from trt_lab.model import Model
from trt_lab.progress import scaled
from trt_lab.record import Record
from trt_lab.types import BuildOptions, NodeId, OnProgress, Progress


def build_repeatedly(means: Means, count: int, folder: Path, report: OnProgress) -> Flaky:
    """Builds the clean engine `count` times, each time as if for the first time, and holds the builds against each other.

    With full TensorRT each build begins with an empty timing cache of its own, which is saved; the one of the best right
    build is then built from once more, to see that it locks the kernels.

    Args:
        folder: For the timing caches.

    Raises:
        UsageError: Fewer than 2 builds, or a backend that cannot run here. BackendError: A build fails.
    """
    if count < 2:
        raise UsageError(f"{count} builds cannot differ from each other; build 2 or more times")
    caches = _caches(means.options, count, folder)

    def build(number: int) -> Record:
        report(Progress("repeat", number / (count + 1), f"build {number + 1} of {count}"))
        cache = caches[number]
        fresh = means.options if cache is None else replace(
            means.options, timing_cache=str(cache), engine_cache="off"
        )  # fmt: skip
        record = means.clean(fresh)
        means.compared(record)  # an engine that cannot run here is refused before more are built
        return record

    records = means.together(build, range(count))
    found = judge_builds(
        records,
        means.golden,
        means.tolerance,
        not_comparable=_random(means),
        repeats=[_repeats(record) for record in records],
        caches=[None if cache is None else str(cache) for cache in caches],
    )
    best = best_build(found)
    if best is None or best.saved_cache is None or found.kind == "identical":
        return found
    report(Progress("repeat", count / (count + 1), "building from the saved cache"))
    lock = folder / "locked.cache"
    shutil.copyfile(best.saved_cache, lock)
    again = means.clean(replace(means.options, timing_cache=str(lock), engine_cache="off"))
    pair = compare_builds(best.record, again, tolerance=means.tolerance)
    same = not pair.tactics and not pair.fusions and all(s.exact for s in pair.between.tensors)
    return replace(found, lock=str(lock), locked=same)


def try_switches(means: Means, cuts: Sequence[tuple[NodeId, NodeId]], report: OnProgress) -> Switches:
    """Builds the clean engine, then once with each switch turned.

    Args:
        cuts: Pairs of nodes whose fusion is cut.

    Raises:
        EditError: A pair is not of neighbours. BackendError: The engine in question does not build.
    """
    view = GraphView.of(means.model)
    switches = plan_switches(view, means.options, cuts)
    report(Progress("switches", 0.0, "the engine as it is"))
    base = means.clean(means.options)
    start = Switch("none", "the engine in question", means.options)
    turned = scaled(report, 0.1, 1.0)

    def turn(place: int) -> Tried:
        switch = switches[place]
        turned(Progress("switches", place / len(switches), f"{switch.name}: {switch.how}"))
        try:
            probed = add_probes(means.model, ()) if switch.marked is None else mark(means.model, [switch.marked])
            return _tried(means, switch, means.run(probed, switch.options, "engine"), base)
        except (BackendError, UsageError) as error:
            return Tried(switch, None, note=str(error))

    return Switches(_tried(means, start, base, base), tuple(means.together(turn, range(len(switches)))))


def forbid_tactics(
    model: Model,
    submit: Submit,
    record: Record,
    cache: Path,
    tactics: Sequence[str],
    out: Path,
    report: OnProgress,
) -> tuple[Changed, ...]:
    """Writes a timing cache without some tactics: the next best one that was timed stands in their place.

    The log of the build tells what was timed, so it must have been built with `editable_timing_cache` and
    `log_severity="verbose"`. Not run on a GPU that has such a TensorRT; see `backends.tensorrt.tactics`.

    Args:
        record: The build. cache: Its timing cache.
        tactics: Hashes in hexadecimal, or names of kernels as the log has them.

    Raises:
        UsageError: The record tells no timed tactics, or as `edit_timing_cache`. BackendError: As that.
    """
    timed = read_autotuning(record.log())
    if not timed:
        raise UsageError(
            f"{record.name} tells no tactics that were timed: build with editable_timing_cache=True and "
            "log_severity='verbose', on TensorRT 10.8 or later, with an empty timing cache (lab.flaky does)"
        )
    edit = TimingCacheEdit(str(cache), forbid=tuple(tactics), timed=timed, out=str(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    task = Task(edit_in_worker, edit, str(model.path or model.name), str(out.parent), "tensorrt")
    return submit(task, report)


def _tried(means: Means, switch: Switch, record: Record, base: Record) -> Tried:
    diff = means.compared(record)
    changed = 0 if record is base else len(observe(base.layers, record.layers).changes)
    emulated = bool(record.meta.facts.get("emulated"))
    latency = statistics.median(record.latency_ms) if record.latency_ms and not emulated else None
    return Tried(switch, diff.verdict != "differs", diff.largest, len(record.layers), changed, latency)


def _caches(options: BuildOptions, count: int, folder: Path) -> list[Path | None]:
    if options.backend != "tensorrt":
        return [None] * count
    folder.mkdir(parents=True, exist_ok=True)
    return [folder / f"build-{number + 1:03d}.cache" for number in range(count)]


def _repeats(record: Record) -> bool | None:
    moved = record.meta.facts.get(MOVED_TWICE)
    return None if not isinstance(moved, dict) else not moved


def _random(means: Means) -> Mapping[str, str]:
    return random_tensors(GraphView.of(means.model))
