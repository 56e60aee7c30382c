"""Two sides of many tensors: matched by name, compared sample by sample, the worst sample kept of each tensor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from trt_lab.compare.metrics import compare_arrays
from trt_lab.compare.tolerance import Tolerances
from trt_lab.compare.torch_module import as_array, is_module, module_runner
from trt_lab.errors import CompareError, TrtLabError
from trt_lab.record import Record, is_record
from trt_lab.record.schema import to_json
from trt_lab.tensors import dtype_name, open_samples
from trt_lab.types import JsonValue, TensorStats, Tolerance, Verdict

if TYPE_CHECKING:
    from trt_lab.backends.base import Runner

Sample: TypeAlias = Mapping[str, Any]
Runs: TypeAlias = Callable[[Mapping[str, np.ndarray]], "Mapping[str, Any] | Sequence[Any] | Any"]
SideSource: TypeAlias = "str | os.PathLike[str] | Record | Side | Sample | Sequence[Sample] | Runs | Runner"


class Side(Protocol):
    """Named tensors of several samples."""

    label: str
    samples: int

    def names(self) -> tuple[str, ...]:
        """Tensors in the side's own order."""
        ...

    def get(self, sample: int, name: str) -> np.ndarray:
        """One tensor."""
        ...


class _RunSide:
    """Samples that come whole: the one that was asked for last is kept."""

    def __init__(self, label: str, samples: int, load: Callable[[int], Mapping[str, np.ndarray]]) -> None:
        self.label = label
        self.samples = samples
        self._load = load
        self._at = -1
        self._arrays: Mapping[str, np.ndarray] = {}
        self._names: tuple[str, ...] | None = None

    def names(self) -> tuple[str, ...]:
        """Names of the first sample, in its order; it is not run again for them."""
        if self._names is None:
            self._names = tuple(self._sample(0)) if self.samples else ()
        return self._names

    def get(self, sample: int, name: str) -> np.ndarray:
        """One tensor. Raises CompareError when this sample lacks it."""
        try:
            return self._sample(sample)[name]
        except KeyError as error:
            raise _lacking(self.label, sample, name) from error

    def _sample(self, sample: int) -> Mapping[str, np.ndarray]:
        if sample != self._at:
            self._arrays = self._load(sample)
            self._at = sample
        return self._arrays


class RecordSide(_RunSide):
    """The outputs and probes of a record, by tensor id: views of its files."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.name, record.samples, record.outputs)
        self.record = record


class ArraySide:
    """Arrays, read when they are asked for."""

    def __init__(self, label: str, samples: Sequence[Sample]) -> None:
        self.label = label
        self.samples = len(samples)
        self._samples = samples

    def names(self) -> tuple[str, ...]:
        """Names of the first sample, in its order."""
        return tuple(self._samples[0]) if self._samples else ()

    def get(self, sample: int, name: str) -> np.ndarray:
        """One array. Raises CompareError when this sample lacks it."""
        try:
            return as_array(self._samples[sample][name])
        except KeyError as error:
            raise _lacking(self.label, sample, name) from error


class LiveSide(_RunSide):
    """A function, a PyTorch module or a live engine, run on each sample when it is asked for.

    Args:
        run: Takes the inputs by name as one mapping; a PyTorch module takes tensors, see `compare.torch_module`. Gives arrays
            or torch tensors by name, a sequence, or one alone (then called `output_0`, `output_1`, …).
        inputs: One mapping a sample.
    """

    def __init__(self, run: Runs, inputs: Sequence[Mapping[str, np.ndarray]], label: str = "live") -> None:
        self._run = module_runner(run) if is_module(run) else run
        self._inputs = inputs
        super().__init__(label, len(inputs), self._results)

    def _results(self, sample: int) -> dict[str, np.ndarray]:
        try:
            given = self._run(self._inputs[sample])
        except TrtLabError:
            raise
        except Exception as error:  # the function is the user's
            text = " ".join(str(error).split())[:300]
            raise CompareError(
                f"{self.label}: failed on sample {sample} ({type(error).__name__}: {text}); mend it"
            ) from error
        if not isinstance(given, Mapping):
            items = given if isinstance(given, list | tuple) else [given]
            given = {f"output_{i}": item for i, item in enumerate(items)}
        return {str(name): as_array(item) for name, item in given.items()}


def _lacking(label: str, sample: int, name: str) -> CompareError:
    return CompareError(f"{label}: sample {sample} has no tensor '{name}', sample 0 has; save all of them")


def open_side(source: SideSource, *, label: str | None = None, inputs: Sequence[Sample] | None = None) -> Side:
    """A side from whatever there is.

    Args:
        source: A record or its path, a golden folder, .npz, .safetensors, Polygraphy RunResults JSON (`FILE.json#RUNNER`
            where it holds several), arrays by name, a list of those, or what `inputs` are run on: a function, a PyTorch
            module, a live engine.
        label: Name of the side, by default the file's.
        inputs: What a live side is run on.

    Raises:
        RecordError: The file cannot be read. CompareError: The source is of no such kind.
    """
    if isinstance(source, Record):
        side: Side = RecordSide(source)
    elif isinstance(source, str | os.PathLike):
        side = _open_path(Path(source).expanduser())
    elif isinstance(source, Mapping):
        side = ArraySide("arrays", [source])
    elif isinstance(source, Sequence):
        side = ArraySide("arrays", list(source))
    elif hasattr(source, "names") and hasattr(source, "get"):
        side = source  # type: ignore[assignment]  # a Side by its methods
    elif callable(run := source if callable(source) else getattr(source, "run", None)):
        if inputs is None:
            raise CompareError("a function, module or live engine is compared on inputs; give them: inputs=[…]")
        side = LiveSide(run, inputs, type(source).__name__)
    else:
        raise CompareError(f"a {type(source).__name__} is no side; give a record, a file, arrays or a function")
    if label is not None:
        side.label = label
    return side


def _open_path(path: Path) -> Side:
    runner = None
    if not path.exists() and "#" in path.name:
        name, runner = path.name.rsplit("#", 1)
        path = path.with_name(name)
    if path.suffix in (".zip", ".trtlab") or is_record(path):
        return RecordSide(Record.open(path))
    return ArraySide(path.name, open_samples(path, which="outputs", runner=runner))


class _SideSample(Mapping[str, np.ndarray]):
    """One sample of a side, read when it is asked for; `names` are those on the outside, and what the side calls them."""

    def __init__(self, side: Side, sample: int, names: Mapping[str, str]) -> None:
        self._side, self._sample, self._names = side, sample, names

    def __getitem__(self, name: str) -> np.ndarray:
        return self._side.get(self._sample, self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def matched_samples(a: Side, b: Side) -> tuple[list[Mapping[str, np.ndarray]], list[Mapping[str, np.ndarray]]]:
    """What `compare_sides` compares, as one mapping a sample for a check: tensors and samples of both, by the names of `a`.

    Raises:
        CompareError: No tensor can be matched.
    """
    pairs, _, _ = _match(a, b, [])
    samples = range(min(a.samples, b.samples))
    own, other = {name: name for name, _ in pairs}, dict(pairs)
    return [_SideSample(a, i, own) for i in samples], [_SideSample(b, i, other) for i in samples]


@dataclass(frozen=True)
class Comparison:
    """Side a (the engine) against side b (the reference).

    Attributes:
        verdict: `differs` when any tensor differs on any sample; `not_comparable` when none could be compared.
        tensors: Of each tensor its worst sample, in graph order.
        per_sample: All of them: tensor by tensor, sample by sample.
        first_divergent: First tensor, in graph order, that differs.
        only_a, only_b: Tensors that the other side lacks; they do not count.
        notes: What the reader must know, one line each.
    """

    label_a: str
    label_b: str
    verdict: Verdict
    tensors: tuple[TensorStats, ...]
    per_sample: tuple[TensorStats, ...] = ()
    first_divergent: str | None = None
    notes: tuple[str, ...] = ()
    samples: int = 1
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()

    def stats(self, name: str, sample: int | None = None) -> TensorStats:
        """Stats of one tensor: of one sample, or of the worst. Raises CompareError."""
        for found in self.tensors if sample is None else self.per_sample:
            if found.name == name and sample in (None, found.sample):
                return found
        if any(found.name == name for found in self.tensors):
            raise CompareError(f"no sample {sample}: {self.samples} were compared, 0 to {self.samples - 1}")
        raise CompareError(f"no tensor '{name}' on both sides; compared: {', '.join(t.name for t in self.tensors)}")

    def restricted(self, names: Iterable[str]) -> Comparison:
        """The same comparison of some tensors only, its verdict anew."""
        wanted = set(names)
        tensors = tuple(stats for stats in self.tensors if stats.name in wanted)
        return replace(
            self,
            tensors=tensors,
            per_sample=tuple(stats for stats in self.per_sample if stats.name in wanted),
            verdict=_overall(tensors),
            first_divergent=_first(tensors),
        )


def compare_sides(
    a: Side,
    b: Side,
    *,
    tolerance: Tolerance | Tolerances | None = None,
    order: Sequence[str] | None = None,
    not_comparable: Mapping[str, str] | None = None,
    makers: Mapping[str, str] | None = None,
    sums: bool = True,
) -> Comparison:
    """Compares the tensors that both sides have, on every sample.

    Tensors are matched by name. When no name is on both sides and they hold equally many, they are matched by position,
    with a note.

    Args:
        a, b: The engine, and the reference.
        tolerance: One for all, or one by type and tensor.
        order: Names in graph order; default the order of `a`.
        not_comparable: Tensor → why no verdict is given (random ops upstream).
        makers: Tensor → what makes it, for notes.
        sums: See `compare_arrays`.

    Raises:
        CompareError: No tensor can be matched; the message lists the names of both sides. Or there are no samples.
    """
    notes: list[str] = []
    pairs, only_a, only_b = _match(a, b, notes)
    samples = min(a.samples, b.samples)
    if samples == 0:
        empty = a.label if a.samples == 0 else b.label
        raise CompareError(f"{empty}: no samples to compare; run it on at least one")
    if a.samples != b.samples:
        notes.append(f"{a.label} has {a.samples} samples, {b.label} {b.samples}: the first {samples} were compared")
    limits = Tolerances.given(tolerance)
    excluded = not_comparable or {}
    found: dict[str, list[TensorStats]] = {name: [] for name, _ in pairs}
    for sample in range(samples):
        for name, other in pairs:
            left, right = a.get(sample, name), b.get(sample, other)
            limit = limits.of(name, dtype_name(left.dtype))
            stats = compare_arrays(left, right, limit, name=name, sample=sample, sums=sums)
            if name in excluded:
                stats = replace(stats, verdict="not_comparable", note=excluded[name])
            found[name].append(stats)
    rank = {name: place for place, name in enumerate(order or ())}
    ordered = sorted(found, key=lambda name: rank.get(name, len(rank)))
    tensors = tuple(max(found[name], key=_badness) for name in ordered)
    notes += _non_finite_note(tensors, makers or {})
    return Comparison(
        label_a=a.label,
        label_b=b.label,
        verdict=_overall(tensors),
        tensors=tensors,
        per_sample=tuple(stats for name in ordered for stats in found[name]),
        first_divergent=_first(tensors),
        notes=tuple(notes),
        samples=samples,
        only_a=only_a,
        only_b=only_b,
    )


def comparison_json(comparison: Comparison) -> dict[str, JsonValue]:
    """The JSON keys of `trt-lab compare`: counts are integers, what is not defined is null."""
    return {
        "a": comparison.label_a,
        "b": comparison.label_b,
        "verdict": comparison.verdict,
        "first_divergent": comparison.first_divergent,
        "samples": comparison.samples,
        "only_a": list(comparison.only_a),
        "only_b": list(comparison.only_b),
        "notes": list(comparison.notes),
        "tensors": [to_json(stats) for stats in comparison.tensors],
        "per_sample": [
            {"name": s.name, "sample": s.sample, "verdict": s.verdict, "max_abs": to_json(s.max_abs)}
            for s in comparison.per_sample
        ],
    }


def _match(a: Side, b: Side, notes: list[str]) -> tuple[list[tuple[str, str]], tuple[str, ...], tuple[str, ...]]:
    names_a, names_b = a.names(), b.names()
    in_b = set(names_b)
    common = [name for name in names_a if name in in_b]
    if common:
        shared = set(common)
        only_a = tuple(name for name in names_a if name not in shared)
        only_b = tuple(name for name in names_b if name not in shared)
        notes += [
            f"only in {side.label}, not compared: {_some(names)}" for side, names in ((a, only_a), (b, only_b)) if names
        ]
        return [(name, name) for name in common], only_a, only_b
    if names_a and len(names_a) == len(names_b):
        pairs = list(zip(names_a, names_b, strict=True))
        notes.append("no name is on both sides, matched by position: " + _some([f"{x} = {y}" for x, y in pairs]))
        return pairs, (), ()
    raise CompareError(
        f"no tensor is on both sides; {a.label} has: {_some(names_a) or 'none'}; {b.label} has: {_some(names_b) or 'none'}; "
        "rename them or give sides of the same model"
    )


def _badness(stats: TensorStats) -> tuple[bool, bool, int, float, int, int]:
    """Orders the samples of one tensor, the worst largest; of equals the first is taken."""
    broken = stats.nan_only_a + stats.nan_only_b + stats.inf_mismatch
    return (
        stats.verdict == "differs",
        stats.shape_a != stats.shape_b,
        broken,
        stats.max_abs if stats.max_abs is not None else -1.0,
        stats.over_tolerance,
        -stats.sample,
    )


def _overall(tensors: Sequence[TensorStats]) -> Verdict:
    verdicts = {stats.verdict for stats in tensors}
    if "differs" in verdicts:
        return "differs"
    return "same" if "same" in verdicts else "not_comparable"


def _first(tensors: Sequence[TensorStats]) -> str | None:
    return next((stats.name for stats in tensors if stats.verdict == "differs"), None)


def _non_finite_note(tensors: Sequence[TensorStats], makers: Mapping[str, str]) -> list[str]:
    for stats in tensors:
        if stats.nan_only_a or (stats.inf_mismatch and stats.pos_inf_a + stats.neg_inf_a > stats.inf_both):
            made = f", made by {makers[stats.name]}" if stats.name in makers else ""
            return [f"first NaN or infinity that only side a has: {stats.name}, sample {stats.sample}{made}"]
    return []


def _some(names: Sequence[str], limit: int = 20) -> str:
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
