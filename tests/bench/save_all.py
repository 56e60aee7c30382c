"""All tensors of a model saved, and two such runs compared, as whole processes: against Polygraphy in the same run.

    python tests/bench/save_all.py MODEL.onnx --shapes x:1x3x640x640 [--compare] [--json]

`--compare` also times the comparison of two saved runs, which takes Polygraphy long. Both programs are started once
before the clock runs, and may keep their bytecode, as installed programs do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAUNCH = "from trt_lab.cli.main import run; run()"


def measure(command: list[str], log: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of a process and what it waited for. Exit 1 is a finding, not an error."""
    started = time.perf_counter()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{' '.join(command[:4])} failed:\n{log.read_text(errors='replace')[-2000:]}")
    return seconds, usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--shapes", required=True, help="NAME:1x3x640x640")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    name, sizes = arguments.shapes.split(":")
    polygraphy = [str(Path(sys.executable).with_name("polygraphy")), "run"]
    ours = [sys.executable, "-c", LAUNCH]
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        log = work / "log.txt"
        measure([*ours, "golden", "--help"], log)
        measure([*polygraphy, "--help"], log)
        save = [*ours, "golden", str(arguments.model), "--all", "--samples", "1", "--shapes", arguments.shapes, "-o"]
        seconds, megabytes = measure([*save, str(work / "a")], log)
        theirs = [*polygraphy, str(arguments.model), "--onnxrt", "--onnx-outputs", "mark", "all"]
        theirs += ["--input-shapes", f"{name}:[{sizes.replace('x', ',')}]", "--save-outputs"]
        their_seconds, their_megabytes = measure([*theirs, str(work / "a.json")], log)
        figures = {
            "save_s": seconds,
            "save_polygraphy_s": their_seconds,
            "save_times": their_seconds / seconds,
            "save_mb": megabytes,
            "save_polygraphy_mb": their_megabytes,
            "save_share_of_memory": megabytes / their_megabytes,
        }
        if arguments.compare:
            measure([*save, str(work / "b")], log)
            seconds, megabytes = measure([*ours, "compare", str(work / "a"), str(work / "b"), "--json"], log)
            loaded = [*polygraphy, "--load-outputs", str(work / "a.json"), str(work / "a.json")]
            their_seconds, _ = measure(loaded, log)
            figures |= {
                "compare_s": seconds,
                "compare_polygraphy_s": their_seconds,
                "compare_times": their_seconds / seconds,
                "compare_mb": megabytes,
            }
    figures = {key: round(value, 3) for key, value in figures.items()}
    lines = "\n".join(f"{key:22} {value:10.3f}" for key, value in figures.items())
    print(json.dumps(figures) if arguments.json else lines)


if __name__ == "__main__":
    main()
