"""The still picture of a record in a notebook: small, no script, every name escaped."""

from __future__ import annotations

from collections import Counter
from html import escape
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trt_lab.record.read import Record

_NAMES_SHOWN = 12


def facts_of(record: Record) -> list[tuple[str, str]]:
    """The lines shown of a record: title and text, nothing that is not known."""
    meta = record.meta
    version = f" {meta.backend_version}" if meta.backend_version else ""
    where = f" on {meta.device}" if meta.device else ""
    plan = meta.plan
    kept = f", {len(plan.keep_fp32)} nodes kept in FP32" if plan.keep_fp32 else ""
    state = "ok" if meta.outcome.state == "ok" else f"failed: {meta.outcome.message}"
    rows = [
        ("model", f"{meta.model.name} ({meta.model.hash[:12]})"),
        ("outcome", state),
        ("backend", f"{meta.backend}{version}{where}"),
        ("precision", f"{plan.default}{kept}, TF32 {'on' if meta.tf32 else 'off'}"),
        ("samples", f"{meta.samples}" + (f", seed {meta.seed}" if meta.seed is not None else "")),
        ("probes", _some(list(meta.probes))),
    ]
    if record.layers:
        types = Counter(layer.precision or "unknown" for layer in record.layers)
        rows.append(("layers", f"{len(record.layers)}: " + ", ".join(f"{n} {name}" for name, n in types.most_common())))
    if meta.timing_cache is not None:
        rows.append(("timing cache", "used" if meta.timing_cache else "not used"))
    rows += _cache_rows(meta.facts.get("engine_cache"))
    if meta.build_s is not None:
        rows.append(("build", f"{meta.build_s:.3g} s"))
    if record.times:
        rows.append(("sum of layers", f"{sum(time.average_ms for time in record.times):.4g} ms, profiler on"))
    if record.latency_ms:
        rows.append(
            ("latency", f"{median(record.latency_ms):.4g} ms, median of {len(record.latency_ms)}, profiler off")
        )
    profiler = meta.facts.get("profiler")
    if isinstance(profiler, dict) and profiler.get("line"):
        rows.append(("profiler", str(profiler["line"])))
    rows += [("created", meta.created), ("path", str(record.path))]
    return rows


def record_html(record: Record) -> str:
    """A two-column table."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(title)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for title, text in facts_of(record)
    )
    return f"<table><caption>{escape(record.name)} ({escape(record.meta.role)})</caption><tbody>{rows}</tbody></table>"


def _cache_rows(engine_cache: object) -> list[tuple[str, str]]:
    """Whether the engine was built for this record, where the backend has an engine cache."""
    if not isinstance(engine_cache, dict) or engine_cache.get("state") not in ("hit", "miss"):
        return []
    built_s = engine_cache.get("built_s")
    took = f", built before in {built_s:.3g} s" if isinstance(built_s, (int, float)) else ""
    return [("engine cache", f"hit{took}" if engine_cache["state"] == "hit" else "miss: built anew")]


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
