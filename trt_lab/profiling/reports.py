"""A check against a baseline, for machines that build: JUnit XML and Markdown. Names in them are untrusted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from trt_lab.profiling.baseline import BaselineCheck, Regression
from trt_lab.tensors.atomic import replacing

MAX_ROWS = 30
"""Most rows of a Markdown table; comments on code hosts are limited."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~$@])")


def junit_xml(checks: Sequence[BaselineCheck]) -> bytes:
    """One suite an engine, one case a figure that was compared; regressions are failures."""
    root = ElementTree.Element("testsuites", name="trt-lab profile")
    for check in checks:
        cases = [row for row in check.rows if row.verdict not in ("new", "gone")]
        slower = check.only("slower")
        label = _plain(check.engine.label)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            {"name": label, "tests": str(len(cases)), "failures": str(len(slower)), "errors": "0", "skipped": "0"},
        )
        for row in cases:
            seconds = f"{(row.now_ms or 0.0) / 1000:.9f}"
            attributes = {"classname": f"{label}.{row.what}", "name": _plain(row.label), "time": seconds}
            case = ElementTree.SubElement(suite, "testcase", attributes)
            if row.verdict == "slower":
                message = _plain(in_words(row))
                failure = ElementTree.SubElement(case, "failure", type="regression", message=message)
                failure.text = _plain("\n".join((f"tolerance {check.tolerance:.0%}", *row.layers)))
            elif row.verdict == "faster":
                ElementTree.SubElement(case, "system-out").text = _plain(in_words(row))
        told = [f"{row.verdict}: {row.label}" for row in check.only("new", "gone")]
        if told or check.notes:
            ElementTree.SubElement(suite, "system-out").text = _plain("\n".join((*check.notes, *told)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def markdown(checks: Sequence[BaselineCheck]) -> str:
    """A verdict, both totals, and tables of what became slower and faster; one section an engine."""
    return "\n".join(line for check in checks for line in _section(check)) + "\n"


def write_text(text: str | bytes, path: str | Path) -> Path:
    """Writes a report and returns its path. Raises RecordError when that fails."""
    target = Path(path).expanduser()
    with replacing(target) as file:
        file.write(text.encode() if isinstance(text, str) else text)
    return target


def in_words(row: Regression) -> str:
    """`0.1 ms → 0.12 ms (+20.0 % ± 1.1 %)`."""
    before, now = (f"{ms:.4g} ms" if ms is not None else "–" for ms in (row.baseline_ms, row.now_ms))
    if row.change is None:
        return f"{before} → {now}"
    noise = "" if row.noise is None else f" ± {100 * row.noise:.1f} %"
    return f"{before} → {now} ({100 * row.change:+.1f} %{noise})"


def _section(check: BaselineCheck) -> list[str]:
    slower, faster = check.only("slower"), check.only("faster")
    verdict = (
        f"{len(slower)} slower, {len(faster)} faster" if slower or faster else "no change beyond tolerance and noise"
    )
    lines = [f"## {_mark(check.engine.label)}: {verdict}", ""]
    against = f"Baseline {_mark(check.baseline.label)} of {_mark(check.baseline.created[:10])}"
    lines += [f"{against}, tolerance {check.tolerance:.0%}, {check.statistic} of the runs.", ""]
    lines += _table("", [row for row in check.rows if row.what != "layer"])
    lines += _table("Slower", [row for row in slower if row.what == "layer"])
    lines += _table("Faster", [row for row in faster if row.what == "layer"])
    lines += _table("Only now", check.only("new")) + _table("Only in the baseline", check.only("gone"))
    lines += [f"- {_mark(note)}" for note in check.notes] + ([""] if check.notes else [])
    return lines


def _table(title: str, rows: Sequence[Regression]) -> list[str]:
    if not rows:
        return []
    lines = [f"### {title}", ""] if title else []
    lines += ["| what | baseline ms | now ms | change | noise |", "| --- | ---: | ---: | ---: | ---: |"]
    for row in rows[:MAX_ROWS]:
        change = "" if row.change is None else f"{100 * row.change:+.1f} %"
        noise = "" if row.noise is None else f"± {100 * row.noise:.1f} %"
        figures = ("" if ms is None else f"{ms:.4g}" for ms in (row.baseline_ms, row.now_ms))
        lines.append(f"| {_mark(row.label)} | {' | '.join(figures)} | {change} | {noise} |")
    if len(rows) > MAX_ROWS:
        lines += ["", f"and {len(rows) - MAX_ROWS} more"]
    return [*lines, ""]


def _plain(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return _NO_XML.sub(" ", text)


def _mark(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    safe = " ".join(_NO_XML.sub(" ", text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\1", safe)
