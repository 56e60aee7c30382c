"""The report page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tests.unit.views.samples import record
from trt_lab import Session
from trt_lab.errors import UsageError
from trt_lab.types import LogLine, NodeId, TensorStats, Verdict
from trt_lab.views.report import (
    Cause,
    Outcome,
    ReportData,
    Suspect,
    TensorPair,
    TensorRow,
    records_report,
    write_report,
)
from trt_lab.views.report.render import render_report

EVIL = "</script><img src=x onerror=alert(1)>"


class Reader(HTMLParser):
    """Collects tags, visible text, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._script = False

    def handle_data(self, data: str) -> None:
        (self.scripts if self._script else self.text).append(data)


def stats(name: str, verdict: Verdict = "differs") -> TensorStats:
    return TensorStats(
        name,
        verdict,
        "float32",
        "float32",
        (8, 9),
        (8, 9),
        count=72,
        max_abs=0.154,
        max_abs_at=(1, 2),
        rmse=0.01,
        cosine=None,
        over_tolerance=3,
    )


def data(name: str = "t") -> ReportData:
    golden = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
    engine = golden + np.float32(0.01)
    engine[3, 4] = np.nan
    return ReportData(
        title=f"model {name}",
        verdict="differs",
        headline=f"max abs 0.154, first at {name}",
        facts=[("Backend", "onnxruntime 1.32.0"), ("TF32", "off")],
        cause=Cause(name, NodeId(name), name, f"why {name}", (NodeId(name), NodeId("/Div")), True, "23 sets tried"),
        outcomes=[Outcome("before", "differs", (stats("y"),)), Outcome("after", "same", (stats("y", "same"),))],
        tensors=[TensorRow(stats("x", "same")), TensorRow(stats(name), NodeId(name), "source")],
        pairs=[TensorPair(stats(name), "source", golden, engine)],
        records=[record([1.0, 2.0], name=name, latency=(2.5,))],
        log=[LogLine("info", "not shown"), LogLine("warning", f"shown {name}")],
        code=f"lab.probe({name!r})\n",
        commands=["trt-lab locate m.onnx -o out"],
        notes=[f"note {name}"],
    )


def test_it_is_one_file_that_needs_no_network(tmp_path: Path) -> None:
    path = write_report(tmp_path / "new folder" / "report.html", data())
    page = path.read_text(encoding="utf-8")
    assert len(page.encode()) < 3_000_000
    reader = Reader(page)
    assert not [tag for tag, attributes in reader.tags if "src" in attributes or tag in ("link", "iframe", "img")]
    assert [f.name for f in path.parent.iterdir()] == ["report.html"]


def test_it_says_everything() -> None:
    reader = Reader(render_report(data("/Mul")))
    text = re.sub(r"\s+", " ", " ".join(reader.text))
    for words in (
        "✗ Differs", "max abs 0.154, first at /Mul", "onnxruntime 1.32.0", "TF32 off", "why /Mul", "23 sets tried",
        "Keep in FP32 (2 nodes, none can be left out)", "before ✗ differs y", "after ✓ same y", "0.154", "not defined",
        "3 of 72", "layer sum 3 ms", "shown /Mul", "lab.probe('/Mul')", "trt-lab locate m.onnx -o out", "note /Mul",
    ):  # fmt: skip
        assert words in text, words
    assert "not shown" not in text
    figures = {attributes["id"] for tag, attributes in reader.tags if attributes.get("class") == "figure"}
    assert figures == {"tensor-0", "timeline"}
    items = json.loads(reader.scripts[0])
    assert {item["element"] for item in items} == figures


def test_names_stay_text_everywhere() -> None:
    clean, evil = Reader(render_report(data())), Reader(render_report(data(EVIL)))
    assert [tag for tag, _ in evil.tags] == [tag for tag, _ in clean.tags]
    assert any(EVIL in text for text in evil.text)
    assert not any("onerror" in attributes for _, attributes in evil.tags)


def test_a_report_without_findings_or_comparison_is_whole() -> None:
    empty = ReportData("m", None, "1 record", facts=[])
    text = " ".join(Reader(render_report(empty)).text)
    assert "Not compared" in text and "No tensors were compared" in text
    assert "Timeline" not in text and "Finding" not in text


def test_it_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("old")
    broken = ReportData("m", "differs", "h", facts=[("a",)])  # type: ignore[list-item]  # a fact without its value
    with pytest.raises(ValueError, match="unpack"):
        write_report(path, broken)
    assert path.read_text() == "old" and [f.name for f in tmp_path.iterdir()] == ["r.html"]


def test_no_records_is_said() -> None:
    with pytest.raises(UsageError, match="at least one record"):
        records_report([])


def test_the_finding_tells_kind_local_error_notes_recipes_and_times() -> None:
    local = replace(stats("t"), max_abs=0.0123, snr_db=12.5)
    node = NodeId(f"/mul{EVIL}")
    cause = Cause(
        "found", node, "t", "why", (node,), True, "3 sets tried",
        suspects=[Suspect(node, "overflow", "leaves the range", local, 161300.0, 65504.0, 7, None, "source, keep FP32")],
        recipes={"trtexec": f"trtexec --layerPrecisions={EVIL}"}, heads=("engine", "latency_ms"),
        table=[("fp32", 0.32), ("fp16", None)], notes=["some engines did not build"],
    )  # fmt: skip
    row = TensorRow(stats("t"), node, "source", local)
    page = render_report(ReportData("m", "differs", "it differs", [], cause=cause, tensors=[row]))
    reader = Reader(page)
    text = " ".join(" ".join(reader.text).split())
    for words in ("overflow", "leaves the range", "0.0123", "12.5", "65504", "source, keep FP32", "some engines did not build",
                  "trtexec --layerPrecisions=", "0.32", "local max abs"):  # fmt: skip
        assert words in text, words
    assert not [tag for tag, _ in reader.tags if tag == "img"]
    plain = render_report(ReportData("m", "differs", "it differs", [], tensors=[TensorRow(stats("t"))]))
    assert "local max abs" not in plain, "a column that nobody measured is not shown"


def test_a_report_of_a_search_holds_its_evidence(tmp_path: Path) -> None:
    lab = Session("zoo:square_norm", records=tmp_path / "records")
    lab.use(precision="fp16")
    finding = lab.locate(fp32=True)
    text = " ".join(" ".join(Reader(lab.report(tmp_path / "r.html").read_text(encoding="utf-8")).text).split())
    assert finding.source is not None and finding.source.evidence is not None
    for words in (
        finding.source.evidence.text,
        "python -m modelopt.onnx.autocast",
        "Metric and times",
        "local max abs",
    ):
        assert words in text, words
