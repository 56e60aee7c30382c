"""`trt-lab locate` against `polygraphy debug precision`, on one GPU, one after the other. Needs TensorRT 10.

    python -m tests.bench.locate_vs_polygraphy OUT.json [MODEL] [--limit 600]

Both look for what must stay in FP32 of the same weakly typed FP16 engine, on the same inputs, golden outputs and
tolerance, at the same builder level, each with no kernels timed before: ours once without a timing cache, as Polygraphy
works, and once with a cache of its own that starts empty, as it works by default. Libraries are loaded within the time
of each. Written rows: seconds, engines built, what was found, and whether the true source is in it.
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

LEVEL = 3
"""Builder level of both: TensorRT's default."""


def ours(name: str, folder: Path, *, cache: str, strongly_typed: bool) -> dict[str, Any]:
    """One search of ours in a process of its own, since loading the libraries counts."""
    code = f"""
import json, time
started = time.perf_counter()
from trt_lab.session import Session
lab = Session({name!r}, records={str(folder / "records")!r})
shapes = {{key: tuple(value.shape) for key, value in lab.samples.feeds[0].items()}}
lab.use(backend="tensorrt", precision="fp16", shapes=shapes, builder_level={LEVEL}, strongly_typed={strongly_typed},
        timing_cache={cache!r}, engine_cache="off", profile_runs=0)
told = lab.locate().as_json()
keys = ("verdict", "source", "keep_fp32", "minimal", "engine_builds", "before", "after", "notes", "observer")
print("RESULT" + json.dumps({{"seconds": time.perf_counter() - started, **{{k: told[k] for k in keys}}}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    line = next((row for row in done.stdout.splitlines() if row.startswith("RESULT")), None)
    if line is None:
        return {"error": (done.stderr.strip().splitlines() or ["no result"])[-1]}
    return json.loads(line.removeprefix("RESULT"))


def polygraphy(name: str, folder: Path, limit_s: float) -> dict[str, Any]:
    """One search of Polygraphy's, in its default mode."""
    lab = Session(name, records=folder / "reference")
    golden, tolerance = lab.golden(), Tolerance()
    model = lab.model.save(folder / "model.onnx")
    feeds = [golden.inputs(i) for i in range(golden.samples)]
    write_polygraphy_inputs(folder / "inputs.json", feeds)
    write_polygraphy(folder / "golden.json", {"reference": [golden.outputs(i) for i in range(golden.samples)]})
    shapes = [f"{key}:[{','.join(map(str, value.shape))}]" for key, value in feeds[0].items()]
    check = [
        "polygraphy", "run", "polygraphy_debug.engine", "--trt", "--load-inputs", "inputs.json", "--load-outputs", "golden.json",
        "--atol", str(tolerance.atol), "--rtol", str(tolerance.rtol),
    ]  # fmt: skip
    ranges = [word for kind in ("min", "opt", "max") for word in (f"--trt-{kind}-shapes", *shapes)]
    command = [
        "polygraphy", "debug", "precision", str(model), "--fp16", "--precision-constraints", "obey", "--precision", "float32",
        "--builder-optimization-level", str(LEVEL), *ranges, "--check", *check,
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
    parser.add_argument("--limit", type=float, default=600.0, help="Seconds for Polygraphy.")
    chosen = parser.parse_args()
    truth, name = zoo.get(chosen.model).truth, f"zoo:{chosen.model}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            rows = {
                "ours, weakly typed, no cache": ours(name, folder, cache="off", strongly_typed=False),
                "ours, weakly typed": ours(name, folder, cache=str(folder / "weak.cache"), strongly_typed=False),
                "ours, strongly typed": ours(name, folder, cache=str(folder / "strong.cache"), strongly_typed=True),
                "polygraphy debug precision": polygraphy(name, folder, chosen.limit),
            }
        except TrtLabError as error:
            sys.exit(str(error))
    for row in rows.values():
        found = json.dumps(row.get("keep_fp32") or row.get("text", ""))
        row["holds_the_source"] = all(node in found for node in truth)
    chosen.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for label, row in rows.items():
        told = row.get("error") or row.get("answer") or f"source {row.get('source')}, keeps {row.get('keep_fp32')}"
        print(f"{label}: {row.get('seconds', float('nan')):.1f} s, {row.get('engine_builds')} builds; {told}")


if __name__ == "__main__":
    main()
