"""The timed layers of all records of a timeline as columns, and what is said of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trt_lab.types import LayerInfo
from trt_lab.views.lanes import Timed, layer_sum_ms

_NODES_SHOWN = 6
_TYPES_SHOWN = 4


class Rows:
    """Timed layers of some records, one row each: those of the first record in its order, then those of the next.

    Attributes:
        engine: Index of the record.
        index: `LayerInfo.index` in its engine.
        names: Names as the profiler tells them.
        layers: What the engine tells; None for a name that it does not know.
        kinds: All layer types, and `kind` the index of each row's into them.
        share: Of the layer sum of its record, 0 to 1.
    """

    def __init__(self, records: Sequence[Timed]) -> None:
        self._times = [time for record in records for time in record.times]
        known = [{layer.index: layer for layer in record.layers} for record in records]
        self.engine = np.repeat(np.arange(len(records)), [len(record.times) for record in records])
        self.index = np.array([time.index for time in self._times], dtype=np.int64)
        self.names = [time.name for time in self._times]
        self.layers: list[LayerInfo | None] = [
            known[engine].get(time.index) for engine, time in zip(self.engine.tolist(), self._times, strict=True)
        ]
        types = [layer.type if layer is not None and layer.type else "type not recorded" for layer in self.layers]
        place: dict[str, int] = {}
        self.kind = np.array([place.setdefault(kind, len(place)) for kind in types], dtype=np.int64)
        self.kinds = list(place)
        sums = np.array([layer_sum_ms(record) or 1.0 for record in records])
        averages = np.array([time.average_ms for time in self._times], dtype=np.float64)
        self.share = averages / sums[self.engine] if averages.size else averages

    def with_layer(self, index: int) -> np.ndarray:
        """Rows of a layer of the first record, and those of the other records that share an ONNX node with it."""
        own = np.flatnonzero((self.engine == 0) & (self.index == index))
        nodes = {node for row in own.tolist() if (layer := self.layers[row]) is not None for node in layer.nodes}
        if not nodes or not self.engine.any():
            return own
        others = [
            row
            for row in np.flatnonzero(self.engine > 0).tolist()
            if (layer := self.layers[row]) is not None and not nodes.isdisjoint(layer.nodes)
        ]
        return np.concatenate([own, np.array(others, dtype=np.int64)])

    def layer_of(self, row: int) -> int | None:
        """The layer of the first record that a row is, or, in another record, that shares an ONNX node with it."""
        if self.engine[row] == 0:
            return int(self.index[row])
        layer = self.layers[row]
        nodes = set(layer.nodes) if layer is not None else set()
        return next(
            (
                int(self.index[other])
                for other in np.flatnonzero(self.engine == 0).tolist()
                if (mine := self.layers[other]) is not None and not nodes.isdisjoint(mine.nodes)
            ),
            None,
        )

    def spread(self, rows: np.ndarray) -> np.ndarray:
        """10 % and 90 % quantiles of the runs of some rows, float64 [n, 2] in ms; NaN with fewer than two runs."""
        found = np.full((rows.size, 2), np.nan)
        by_count: dict[int, list[int]] = {}
        for at, row in enumerate(rows.tolist()):
            by_count.setdefault(len(self._times[row].runs_ms), []).append(at)
        for count, places in by_count.items():
            if count > 1:
                runs = np.array([self._times[row].runs_ms for row in rows[places].tolist()])
                found[places] = np.quantile(runs, (0.1, 0.9), axis=1).T
        return found

    def nodes_text(self, row: int) -> str:
        """The ONNX nodes of a row, the first few by name."""
        layer = self.layers[row]
        nodes = layer.nodes if layer is not None else ()
        text = ", ".join(elide(node, 80) for node in nodes[:_NODES_SHOWN])
        more = f" and {len(nodes) - _NODES_SHOWN} more" if len(nodes) > _NODES_SHOWN else ""
        return text + more or "not known"

    def type_text(self, row: int) -> str:
        """Type and precision of a row."""
        layer = self.layers[row]
        kind = self.kinds[self.kind[row]]
        return f"{kind} · {layer.precision}" if layer is not None and layer.precision else kind

    def types_text(self, kinds: np.ndarray) -> str:
        """The first few of some types."""
        names = sorted(self.kinds[kind] for kind in kinds.tolist())
        return ", ".join(names[:_TYPES_SHOWN]) + (" …" if len(names) > _TYPES_SHOWN else "")


def elide(text: str, limit: int) -> str:
    """Long names keep their two ends: in a graph the end tells most."""
    if len(text) <= limit:
        return text
    head = limit // 3
    return f"{text[:head]}…{text[-(limit - head - 1) :]}"
