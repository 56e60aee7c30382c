"""Puts together what a report says, from a session and its finding, or from records alone."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from trt_lab.compare.observer import Observation
from trt_lab.compare.sides import Comparison, compare_sides, open_side
from trt_lab.diagnose.recipes import recipes
from trt_lab.errors import TrtLabError, UsageError
from trt_lab.graph.view import GraphView
from trt_lab.observing import observe_engine
from trt_lab.options import parse_precision
from trt_lab.record import Record
from trt_lab.results import TABLE_HEADS, Diff, Finding, make_diff
from trt_lab.session import Session
from trt_lab.types import LogLine, TensorStats, Tolerance
from trt_lab.views.numbers import number, plural
from trt_lab.views.report.data import Cause, Outcome, ReportData, Suspect, TensorPair, TensorRow

PAIRS = 4
"""Most tensors drawn."""

LOG_LINES = 1000
"""Most warnings and errors kept of one log."""

LISTED = 12
"""Most tensors named in a note."""

EMULATED = "Low precision was emulated on the CPU: a prediction of what a strongly typed engine gives, not its numbers."


def report_data(session: Session, finding: Finding) -> ReportData:
    """The report of what `Session.locate` found."""
    before = finding.before
    blame = session.blame()
    rows = [TensorRow(error.stats, error.node, blame.get(error.tensor, ""), error.local) for error in finding.errors]
    outcomes = [_outcome(f"{finding.precision}, nothing kept in FP32", before)]
    if finding.after is not None:
        outcomes.append(
            _outcome(f"{finding.precision}, {plural(len(finding.keep_fp32), 'node')} in FP32", finding.after)
        )
    # The engines of the search were not profiled; the one that the user built was.
    engine = session.records[-1] if session.records else before.engine
    return ReportData(
        title=session.model.name,
        verdict=finding.verdict,
        headline=finding.headline,
        facts=[
            *_facts(before.engine, before.reference, before.tolerance, session.samples.label),
            *_observed(session.observer(engine)),
        ],
        cause=_cause(session, finding),
        outcomes=outcomes,
        tensors=rows or [TensorRow(stats) for stats in before.tensors],
        pairs=[*_source_pair(finding), *_pairs(before, "output")][:PAIRS],
        records=_timed([engine]),
        log=_log([engine, before.engine]),
        code=session.code,
        commands=_commands(session, finding),
        notes=[*_notes(before.engine, before.comparison), *_observer_notes(session.observer(engine))],
    )


def records_report(records: Sequence[Record]) -> ReportData:
    """The report of some records: each engine against the first reference among them.

    Raises:
        UsageError: There are no records.
    """
    if not records:
        raise UsageError("a report needs at least one record; build one: trt-lab build MODEL -o RECORD")
    engines = [record for record in records if record.meta.role == "engine"]
    reference = next((record for record in records if record.meta.role == "reference"), None)
    tolerance = Tolerance()
    shown = engines or list(records)
    diffs: list[Diff] = []
    view = _view(records[0])
    if reference is not None:
        for engine in engines:
            if view is not None:
                diffs.append(make_diff(view, engine, reference, tolerance))
            else:
                plain = compare_sides(open_side(engine), open_side(reference), tolerance=tolerance)
                diffs.append(Diff(plain, engine, reference, tolerance))
    worst = next((diff for diff in diffs if diff.verdict == "differs"), diffs[0] if diffs else None)
    seen = _observe(worst.engine if worst is not None else shown[0], records, tolerance)
    counted = f"{plural(len(records), 'record')}, none of them a reference to compare with"
    return ReportData(
        title=records[0].meta.model.name,
        verdict=worst.verdict if worst is not None else None,
        headline=worst.headline if worst is not None else counted,
        facts=[
            *_facts(worst.engine if worst is not None else shown[0], reference, tolerance if diffs else None),
            *_observed(seen),
        ],
        outcomes=[_outcome(diff.engine.name, diff) for diff in diffs],
        tensors=[TensorRow(stats, worst.makers.get(stats.name)) for stats in worst.tensors]
        if worst is not None
        else [],
        pairs=_pairs(worst, "tensor")[:PAIRS] if worst is not None else [],
        records=_timed(shown),
        log=_log(shown),
        commands=[shlex.join(["trt-lab", "report", *(str(record.path) for record in records), "-o", "report.html"])],
        notes=[*_notes(shown[0], worst.comparison if worst is not None else None), *_observer_notes(seen)],
    )


def _observe(engine: Record, records: Sequence[Record], tolerance: Tolerance) -> Observation | None:
    """What the probes did, where the records tell; None when the record cannot give its model."""
    try:
        return observe_engine(GraphView.of(engine.model()), engine, records, tolerance)
    except TrtLabError:
        return None


def _observed(seen: Observation | None) -> list[tuple[str, str]]:
    return [("Probes and the engine", seen.sentence)] if seen is not None and seen.by_probe else []


def _observer_notes(seen: Observation | None) -> list[str]:
    """What a reader must know of an engine that the probes changed."""
    if seen is None or seen.effect != "perturbing":
        return []
    notes = ["The probes changed the engine: what they show need not be so in the engine without them."]
    for label, tensors in (
        ("Neutral places to probe, between its layers", seen.neutral_tensors),
        ("Inside its layers, not to be seen without changing it", seen.hidden),
    ):
        if tensors:
            more = f" and {len(tensors) - LISTED} more" if len(tensors) > LISTED else ""
            notes.append(f"{label}: {', '.join(tensors[:LISTED])}{more}.")
    for probe, near in list(seen.instead.items())[:LISTED]:
        notes.append(
            f"In place of {probe} probe {', '.join(near[:LISTED]) or 'elsewhere: nothing near it is neutral'}."
        )
    return notes


def _outcome(label: str, diff: Diff) -> Outcome:
    return Outcome(label, diff.verdict, diff.tensors)


def _cause(session: Session, finding: Finding) -> Cause:
    source, region = finding.source, finding.region
    trials = len(region.trials) if region is not None else 0
    builds = plural(finding.engine_builds, "engine") + " built" if finding.engine_builds else "no engine built"
    where = "by emulation on the CPU, " if finding.emulated else ""
    return Cause(
        headline=finding.headline,
        source=source.node if source is not None else None,
        tensor=source.tensor if source is not None else None,
        why=source.why if source is not None else "",
        keep_fp32=finding.keep_fp32,
        minimal=region is not None and region.minimal,
        method=f"{plural(trials, 'set')} of nodes tried {where}{builds}, {finding.seconds:.1f} s",
        suspects=_suspects(finding),
        recipes=recipes(
            str(session.model.path or f"{session.model.name}.onnx"),
            parse_precision(finding.precision),
            finding.keep_fp32,
        ),
        heads=TABLE_HEADS,
        table=finding.shown_table,
        notes=[*finding.notes, *_costs(finding)],
    )


def _suspects(finding: Finding) -> list[Suspect]:
    sources = {source.node for source in finding.sources}
    found = []
    for row in finding.errors:
        seen = row.evidence
        if seen is None or row.node is None:
            continue
        roles = [name for name, nodes in (("source", sources), ("keep FP32", finding.keep_fp32)) if row.node in nodes]
        found.append(
            Suspect(
                row.node,
                seen.kind,
                seen.text,
                row.local,
                seen.largest,
                seen.limit,
                seen.lost,
                seen.depth,
                ", ".join(roles),
            )
        )
    return found


def _costs(finding: Finding) -> list[str]:
    costs = ((finding.cost_ms, "a run"), (finding.layer_cost_ms, "by the times of the layers"))
    return [f"Keeping them in FP32 costs {cost:+.3f} ms {what}." for cost, what in costs if cost is not None]


def _facts(
    engine: Record, reference: Record | None, tolerance: Tolerance | None, samples: str = ""
) -> list[tuple[str, str]]:
    """What was compared, nothing that is not known. `samples` says where the inputs come from."""
    meta, options = engine.meta, engine.meta.build_options
    kept = plural(len(options.plan.keep_fp32), "node") if options.plan.keep_fp32 else "nothing"
    emulated = meta.facts.get("emulated")
    rows = [
        ("Model", meta.model.name),
        ("Model hash", f"{meta.model.hash} (SHA-256 of graph and weights)"),
        ("Engine", _backend(engine) + (f"; {emulated} emulated" if emulated else "")),
        ("Precision plan", f"{options.plan.default}, {kept} kept in FP32"),
        ("Types in the engine", _types(engine)),
        ("Optimiser", "on" if options.optimizer else "off"),
        ("TF32", "on" if meta.tf32 else "off"),
        ("Timing cache", "" if meta.timing_cache is None else "used" if meta.timing_cache else "not used"),
        ("Build", "" if meta.build_s is None else f"{meta.build_s:.3g} s"),
    ]
    if reference is not None:
        mode = "on" if reference.meta.build_options.optimizer else "off"
        rows.append(("Reference", f"{_backend(reference)}, {reference.meta.plan.default}, optimiser {mode}"))
    seed = "" if meta.seed is None else f", seed {meta.seed}"
    rows.append(("Samples", samples or f"{meta.samples}{seed}"))
    if tolerance is not None:
        text = f"|engine − reference| ≤ {number(tolerance.atol)} + {number(tolerance.rtol)} · |reference|"
        rows.append(("Tolerance", text))
    rows += [("Probes", ", ".join(meta.probes)), ("Written by", f"trt-lab {meta.trt_lab}, {meta.created}")]
    return [(name, value) for name, value in rows if value]


def _backend(record: Record) -> str:
    meta = record.meta
    parts = [meta.backend, meta.backend_version or "", f"on {meta.device}" if meta.device else ""]
    driver = f", driver {meta.driver}" if meta.driver else ""
    return " ".join(part for part in parts if part) + driver


def _types(record: Record) -> str:
    """Layers by the type they compute in: what the engine really has, whatever was asked for."""
    counts = Counter(layer.precision or "not told" for layer in record.layers)
    return ", ".join(f"{name} in {plural(count, 'layer')}" for name, count in counts.most_common())


def _notes(engine: Record, comparison: Comparison | None) -> list[str]:
    own = engine.meta.facts.get("notes")
    notes = [EMULATED] if engine.meta.facts.get("emulated") else []
    notes += [str(note) for note in own] if isinstance(own, list) else []
    return notes + list(comparison.notes if comparison is not None else ())


def _pairs(diff: Diff, role: str) -> list[TensorPair]:
    """The tensors that differ, in graph order; where none does, the one with the largest difference."""
    chosen = [stats for stats in diff.tensors if stats.verdict == "differs"] or ([diff.worst] if diff.worst else [])
    return [pair for stats in chosen[:PAIRS] if (pair := _pair(diff, stats, role)) is not None]


def _pair(diff: Diff, stats: TensorStats, role: str) -> TensorPair | None:
    try:
        golden, engine = diff.pair(stats.name, stats.sample)
    except TrtLabError:  # samples were left out of the record, or one side lacks the tensor
        return None
    return TensorPair(stats, role, golden, engine)


def _source_pair(finding: Finding) -> list[TensorPair]:
    """The source's tensor on both sides."""
    source = finding.source
    if source is None or finding.source_pair is None:
        return []
    stats = next(error.stats for error in finding.errors if error.tensor == source.tensor)
    return [TensorPair(stats, "source", *finding.source_pair)]


def _timed(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.layers or record.times]


def _log(records: Iterable[Record]) -> list[LogLine]:
    """Warnings and errors of all logs."""
    lines: list[LogLine] = []
    for record in records:
        serious = (line for line in record.log() if line.severity in ("warning", "error"))
        lines += islice(serious, LOG_LINES)
    return lines


def _view(record: Record) -> GraphView | None:
    """Graph of a record's model; None where the record cannot give it."""
    try:
        return GraphView.of(record.model())
    except TrtLabError:
        return None


def _commands(session: Session, finding: Finding) -> list[str]:
    model = session.model.path
    if model is None:
        return []
    command = ["trt-lab", "locate", str(model), "--precision", finding.precision]
    samples = session.samples
    if samples.seed is not None:
        command += ["--samples", str(samples.count), "--seed", str(samples.seed)]
    return [shlex.join([*command, "-o", "out"])]
