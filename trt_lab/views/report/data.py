"""What a report says, before it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trt_lab.types import LogLine, NodeId, TensorStats, Verdict
from trt_lab.views.lanes import Timed


@dataclass(frozen=True)
class TensorRow:
    """One line of the tensor table.

    Attributes:
        stats: The worst sample of the tensor.
        node: The node that makes it.
        blame: Where its error comes from, in words ("source", "inherited", ...), "" if that is not known.
        local: Error of its node alone, fed golden inputs; None where it was not measured.
    """

    stats: TensorStats
    node: NodeId | None = None
    blame: str = ""
    local: TensorStats | None = None


@dataclass(frozen=True)
class TensorPair:
    """A tensor to be drawn.

    Attributes:
        role: Why it is shown: "source", "output".
        golden, engine: Both sides at one sample.
    """

    stats: TensorStats
    role: str
    golden: np.ndarray
    engine: np.ndarray


@dataclass(frozen=True)
class Outcome:
    """How the outputs stand against the reference under one plan."""

    label: str
    verdict: Verdict
    tensors: tuple[TensorStats, ...]


@dataclass(frozen=True)
class Suspect:
    """A node under suspicion: what the numbers say.

    Attributes:
        kind, text: Kind of fault, and why in words. largest, limit: Largest magnitude, and that of the low type.
        lost: Values that become 0. depth: Terms of each sum.
        role: "source", "keep FP32" or both.
    """

    node: NodeId
    kind: str
    text: str
    local: TensorStats | None
    largest: float
    limit: float
    lost: int
    depth: int | None
    role: str


@dataclass(frozen=True)
class Cause:
    """What is to blame, and what repairs it.

    Attributes:
        headline: The finding in a sentence or two.
        source, tensor, why: First node whose error is large while its inputs' are small; None and "" if there is none.
        keep_fp32: Nodes that must stay in FP32.
        minimal: Without any one of them the check fails.
        method: How it was found: number of trials and builds, emulated or not, seconds.
        suspects: Nodes whose numbers were looked at, in graph order.
        recipes: The same plan for other tools: name → command line.
        heads, table: Metric and times, an engine a row; None where not known.
        notes: What else was found, a sentence each.
    """

    headline: str
    source: NodeId | None
    tensor: str | None
    why: str
    keep_fp32: tuple[NodeId, ...]
    minimal: bool
    method: str
    suspects: Sequence[Suspect] = ()
    recipes: Mapping[str, str] = field(default_factory=dict)
    heads: Sequence[str] = ()
    table: Sequence[Sequence[str | float | None]] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class ReportData:
    """All that a report shows. Parts that are empty are left out, but for the tensors.

    Attributes:
        title: What it is about: the model's name.
        verdict: None when nothing was compared.
        headline: The verdict in words: largest figure, first tensor that differs.
        facts: What was compared, as (name, value): model hash, backend, versions, precision, samples, tolerance, ...
        outcomes: The outputs against the reference, for each engine or plan: before and after the repair.
        tensors: In graph order.
        pairs: Tensors drawn as diff figures.
        records: Their timelines and layers.
        log: Warnings and errors of the build and run.
        code, commands: How to repeat it, in Python and on the command line.
        notes: What the reader must know, a sentence each.
    """

    title: str
    verdict: Verdict | None
    headline: str
    facts: Sequence[tuple[str, str]]
    cause: Cause | None = None
    outcomes: Sequence[Outcome] = ()
    tensors: Sequence[TensorRow] = ()
    pairs: Sequence[TensorPair] = ()
    records: Sequence[Timed] = ()
    log: Sequence[LogLine] = field(default_factory=tuple)
    code: str = ""
    commands: Sequence[str] = ()
    notes: Sequence[str] = ()
