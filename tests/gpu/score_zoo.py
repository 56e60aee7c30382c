"""Finds and repairs the planted faults of the zoo on a real GPU, strongly typed, and prints a table.

    python -m tests.gpu.score_zoo OUT.json [--seconds 240] [NAME ...]

Each model is searched on the CPU and proved with clean engines. Stops when the time is over; what was not run is said.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from trt_lab import zoo
from trt_lab.errors import TrtLabError
from trt_lab.session import Session


def score(name: str, cache: Path, records: Path) -> dict[str, Any]:
    """One row: what was found, whether the engine was repaired, with how many builds."""
    subject = zoo.get(name)
    started = time.perf_counter()
    row: dict[str, Any] = {"name": name, "truth": list(subject.truth)}
    session = Session(f"zoo:{name}", records=records)
    try:
        sizes = {key: tuple(value.shape) for key, value in subject.feeds[0].items()}
        session.use(
            backend="tensorrt", precision="fp16", shapes=sizes, builder_level=1, timing_cache=str(cache), profile_runs=0
        )
        finding = session.locate()
    except TrtLabError as error:
        return row | {"error": str(error), "seconds": time.perf_counter() - started}
    told = finding.as_json()
    row |= {
        key: told.get(key) for key in ("verdict", "source", "keep_fp32", "engine_builds", "before", "after", "notes")
    }
    row["as_planted"] = sorted(finding.keep_fp32) == sorted(subject.keep)
    return row | {"seconds": time.perf_counter() - started}


def main() -> None:
    """Scores what fits into the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=240.0)
    chosen = parser.parse_args()
    names = chosen.names or list(zoo.names())
    end = time.perf_counter() + chosen.seconds
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, name in enumerate(names):
            if time.perf_counter() > end:
                print(f"time is over: {len(names) - number} models were not run", flush=True)
                break
            row = score(name, Path(scratch) / "zoo.cache", Path(scratch) / "records")
            rows.append(row)
            chosen.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
            after = (row.get("after") or {}).get("verdict")
            print(
                f"{name}: {row.get('error') or row['verdict']}, repaired {after}, builds {row.get('engine_builds')}, "
                f"as planted {row.get('as_planted')}, {row['seconds']:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
