"""What the Locate tab says, in words and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trt_lab.diagnose.steps import Step
from trt_lab.results import Finding
from trt_lab.types import NodeId, TensorStats
from trt_lab.widgets.text import line

NAMES_SHOWN = 6
"""Sets of at most this many nodes are listed whole."""


def intro(precision: str, backend: str) -> str:
    """What to do, and what a search does."""
    low = "the low precision" if precision == "fp32" else precision
    proof = (
        "The result is a prediction by emulation; choose a TensorRT backend to have it proved."
        if backend == "onnxruntime"
        else f"One or two engines without probes, built with {backend}, then prove it."
    )
    first = (
        line("Nothing to search in fp32: choose fp16 or bf16 as precision above, then press Find the cause.")
        if precision == "fp32"
        else line(f"Press Find the cause: which nodes does {precision} spoil, and which must stay in FP32?")
    )
    what = (
        f"The model is run on the CPU with its nodes in {low}. For each node it is measured how far its own rounding takes "
        "it off (local error) and what has come together there (accumulated error). Then the smallest set of nodes is "
        f"searched that must stay in FP32. {proof}"
    )
    return first + line(what, kind="quiet")


def verdict_lines(finding: Finding) -> list[str]:
    """What was found, before and after, how sure it is, and notes."""
    same = finding.verdict == "same"
    if same:
        found = [line(finding.headline, kind="good", strong=True)]
    else:
        found = [line(short_verdict(finding), kind="bad", strong=True), line(finding.headline)]
        found.append(line(f"before: {finding.before.headline}"))
    if finding.after is not None:
        found.append(
            line(f"after: {finding.after.headline}", kind="good" if finding.after.verdict == "same" else "bad")
        )
    return [*found, line(how_sure(finding), kind="quiet"), *(line(f"note: {note}") for note in finding.notes)]


def short_verdict(finding: Finding) -> str:
    """That it differs, and where it begins."""
    source = finding.source
    if source is None:
        return f"{finding.precision} differs"
    kind = f"{source.evidence.kind} in " if source.evidence is not None else ""
    return f"{finding.precision} differs: {kind}{source.node}"


def how_sure(finding: Finding) -> str:
    """Proved or predicted, at what cost."""
    builds = "1 engine built" if finding.engine_builds == 1 else f"{finding.engine_builds} engines built"
    if finding.proved:
        sure = f"proved on the engine without probes, {builds}"
    elif finding.engine_builds:
        sure = f"not proved, {builds}"
    else:
        sure = "predicted by emulation on the CPU, no engine built"
    cost = f" · keeping them costs {finding.cost_ms:+.3g} ms a run" if finding.cost_ms is not None else ""
    return f"{sure} · {finding.seconds:.1f} s{cost}"


def role_of(finding: Finding, node: NodeId | None, local_large: bool) -> str:
    """Why a node is listed; "" when it need not be."""
    roles = ["source"] if node in {source.node for source in finding.sources} else []
    roles += ["keep"] if node in finding.keep_fp32 else []
    return " · ".join(roles) or ("suspect" if local_large else "")


def decibels(stats: TensorStats | None) -> float | None:
    """Signal to noise as a number that sorts: infinite where equal, minus infinite where values were lost."""
    if stats is None:
        return None
    if stats.exact:
        return math.inf
    broken = stats.nan_only_a or stats.nan_only_b or stats.inf_mismatch or stats.shape_a != stats.shape_b
    return -math.inf if broken or stats.snr_db is None else stats.snr_db


def count_steps(steps: Sequence[Step]) -> str:
    """Sets tried on the CPU, engines built."""
    tries = sum(step.what == "try" for step in steps)
    builds = sum(step.builds for step in steps)
    engines = "no engine built" if not builds else "1 engine built" if builds == 1 else f"{builds} engines built"
    return f"{tries} {'set' if tries == 1 else 'sets'} tried on the CPU, {engines}"


def kept_text(nodes: Sequence[NodeId] | None) -> str:
    """The names of few nodes; of more, how many, and the ends of the set."""
    if nodes is None:
        return ""
    if not nodes:
        return "nothing"
    if len(nodes) <= NAMES_SHOWN:
        return ", ".join(nodes)
    return f"{len(nodes)} nodes: {nodes[0]} … {nodes[-1]}"
