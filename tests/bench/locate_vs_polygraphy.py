"""`trt-lab locate` against `polygraphy debug precision`, on one GPU, one after the other. Needs TensorRT 10.

    python -m tests.bench.locate_vs_polygraphy OUT.json [MODEL] [--level 3] [--batch 1 32 64] [--limit 600] [--also-strongly]

Both look for what must stay in FP32 of the same weakly typed FP16 engine, on the same inputs, golden outputs, tolerance
and range of shapes, at the same builder level. Neither has timed a kernel before: ours starts with an empty timing
cache, as it works by default. Each is one process, timed from its start to its end. Written rows: seconds, engines
built, what was found, and whether the true source is in it. At a small batch TensorRT may choose FP32 everywhere; then
nothing fails and there is nothing to compare.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trt_lab import zoo
from trt_lab.errors import TrtLabError
from trt_lab.session import Session
from trt_lab.tensors import write_polygraphy, write_polygraphy_inputs
from trt_lab.types import Tolerance

Range = tuple[int, int, int]
"""Smallest, best and largest size of the first axis of every input."""


def ours(name: str, folder: Path, *, level: int, batch: Range, strongly_typed: bool) -> dict[str, Any]:
    """One search of ours."""
    code = f"""
import json
from trt_lab.session import Session
lab = Session({name!r}, records={str(folder / "records")!r})
shapes = {{key: [(n, *value.shape[1:]) for n in {batch}] for key, value in lab.samples.feeds[0].items()}}
lab.use(backend="tensorrt", precision="fp16", shapes=shapes, builder_level={level}, strongly_typed={strongly_typed},
        timing_cache={str(folder / f"{strongly_typed}.cache")!r}, engine_cache="off", profile_runs=0)
told = lab.locate().as_json()
keys = ("verdict", "source", "keep_fp32", "minimal", "needed", "engine_builds", "before", "after", "notes", "observer")
print("RESULT" + json.dumps({{k: told.get(k) for k in keys}}))
"""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    line = next((row for row in done.stdout.splitlines() if row.startswith("RESULT")), None)
    if line is None:
        return {"error": (done.stderr.strip().splitlines() or ["no result"])[-1]}
    return {"seconds": seconds, **json.loads(line.removeprefix("RESULT"))}


def polygraphy(name: str, folder: Path, limit_s: float, *, level: int, batch: Range) -> dict[str, Any]:
    """One search of Polygraphy's, in its default mode."""
    lab = Session(name, records=folder / "reference")
    golden, tolerance = lab.golden(), Tolerance()
    model = lab.model.save(folder / "model.onnx")
    feeds = [golden.inputs(i) for i in range(golden.samples)]
    write_polygraphy_inputs(folder / "inputs.json", feeds)
    write_polygraphy(folder / "golden.json", {"reference": [golden.outputs(i) for i in range(golden.samples)]})
    check = [
        "polygraphy", "run", "polygraphy_debug.engine", "--trt", "--load-inputs", "inputs.json", "--load-outputs", "golden.json",
        "--atol", str(tolerance.atol), "--rtol", str(tolerance.rtol),
    ]  # fmt: skip
    ranges: list[str] = []
    for kind, size in zip(("min", "opt", "max"), batch, strict=True):
        shapes = [f"{key}:[{','.join(map(str, (size, *value.shape[1:])))}]" for key, value in feeds[0].items()]
        ranges += [f"--trt-{kind}-shapes", *shapes]
    command = [
        "polygraphy", "debug", "precision", str(model), "--fp16", "--precision-constraints", "obey", "--precision", "float32",
        "--builder-optimization-level", str(level), *ranges, "--check", *check,
    ]  # fmt: skip
    started = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"error": f"not done within {limit_s:g} s"}
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    (folder / "polygraphy.txt").write_text(text, encoding="utf-8")
    return {
        "seconds": time.perf_counter() - started,
        "engine_builds": len(re.findall(r"RUNNING \| Iteration", text)),
        "answer": next((row.strip() for row in text.splitlines() if "higher precision" in row), None),
        "status": done.returncode,
        "text": text,
    }


def main() -> None:
    """Runs all and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("model", nargs="?", default="l2norm_overflow")
    parser.add_argument("--level", type=int, default=3, help="Builder level of both.")
    parser.add_argument("--batch", type=int, nargs=3, default=(1, 32, 64), help="Range of the first axis.")
    parser.add_argument("--limit", type=float, default=600.0, help="Seconds for Polygraphy.")
    parser.add_argument("--also-strongly", action="store_true", help="A strongly typed search of ours as well.")
    chosen = parser.parse_args()
    truth, name = zoo.get(chosen.model).truth, f"zoo:{chosen.model}"
    batch = (chosen.batch[0], chosen.batch[1], chosen.batch[2])
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for strongly in (False, True) if chosen.also_strongly else (False,):
            label = f"ours, {'strongly' if strongly else 'weakly'} typed"
            rows[label] = ours(name, folder, level=chosen.level, batch=batch, strongly_typed=strongly)
        if rows["ours, weakly typed"].get("verdict") == "differs":
            try:
                found = polygraphy(name, folder, chosen.limit, level=chosen.level, batch=batch)
            except TrtLabError as error:
                sys.exit(str(error))
            rows["polygraphy debug precision"] = found
        else:
            print("nothing fails at this level and batch, so Polygraphy was not run")
    for row in rows.values():
        found = json.dumps(row.get("keep_fp32") or row.get("text", ""))
        row["holds_the_source"] = all(node in found for node in truth)
    chosen.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for label, row in rows.items():
        told = row.get("error") or row.get("answer") or f"source {row.get('source')}, keeps {row.get('keep_fp32')}"
        print(f"{label}: {row.get('seconds', float('nan')):.1f} s, {row.get('engine_builds')} builds; {told}")


if __name__ == "__main__":
    main()
