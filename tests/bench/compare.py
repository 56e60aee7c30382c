"""How fast tensors are compared: against Polygraphy, against memory, in the same run.

    python tests/bench/compare.py [--megabytes 100] [--repeats 5] [--json]

Two float32 tensors that differ by noise of 1e-4. Screening gives verdict, counts and largest errors; `all_figures` RMSE, cosine and
SNR as well. Bytes are those of both tensors. Each figure is the best of the repeats. The memory
read speed is that of numpy's float32 maximum over the same bytes, on as many threads as there are processors.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from polygraphy.comparator import CompareFunc, IterationResult
from polygraphy.logger import G_LOGGER

from trt_lab.compare.metrics import compare_arrays
from trt_lab.types import Tolerance

TOLERANCE = Tolerance(1e-3, 1e-3)


def best_s(call: Callable[[], object], repeats: int) -> float:
    """Seconds of the quickest call."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def read_both(a: np.ndarray, b: np.ndarray) -> None:
    """Reads every byte once, on all processors."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = [part for array in (a, b) for part in np.array_split(array, cores)]
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(np.max, parts))


def polygraphy_simple(a: np.ndarray, b: np.ndarray) -> None:
    """Polygraphy's comparison, its messages dropped."""
    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    compare = CompareFunc.simple(atol=TOLERANCE.atol, rtol=TOLERANCE.rtol)
    with contextlib.redirect_stdout(io.StringIO()):
        compare(IterationResult({"y": a}, runner_name="a"), IterationResult({"y": b}, runner_name="b"))


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    count = int(arguments.megabytes * 1e6) // 4
    rng = np.random.default_rng(0)
    b = rng.standard_normal(count, np.float32)
    a = b + rng.standard_normal(count, np.float32) * np.float32(1e-4)
    gigabytes = (a.nbytes + b.nbytes) / 1e9
    ours = best_s(lambda: compare_arrays(a, b, TOLERANCE, sums=False), arguments.repeats)
    full = best_s(lambda: compare_arrays(a, b, TOLERANCE), arguments.repeats)
    memory = best_s(lambda: read_both(a, b), arguments.repeats)
    theirs = best_s(lambda: polygraphy_simple(a, b), 1)
    tracemalloc.start()
    compare_arrays(a, b, TOLERANCE)
    extra = tracemalloc.get_traced_memory()[1] / 1e6
    figures = {
        "screening_gb_s": gigabytes / ours,
        "all_figures_gb_s": gigabytes / full,
        "polygraphy_gb_s": gigabytes / theirs,
        "screening_times_polygraphy": theirs / ours,
        "all_figures_times_polygraphy": theirs / full,
        "memory_read_gb_s": gigabytes / memory,
        "screening_share_of_memory": memory / ours,
        "extra_mb": extra,
    }
    figures = {key: round(value, 3) for key, value in figures.items()}
    print(
        json.dumps(figures)
        if arguments.json
        else "\n".join(f"{key:30} {value:10.3f}" for key, value in figures.items())
    )


if __name__ == "__main__":
    main()
