"""`trt-lab doctor`: what this machine can build and run, and why not."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Annotated

import typer

from trt_lab import __version__, backends
from trt_lab.backends.tensorrt import device
from trt_lab.backends.tensorrt.cache import describe_timing_caches
from trt_lab.backends.tensorrt.engines import clear_engines, describe_engines
from trt_lab.cli.arguments import JsonOption
from trt_lab.cli.output import print_json, print_line, print_table
from trt_lab.types import JsonValue

NAME = "doctor"

_MB = 1_000_000


def run(
    clear_engine_cache: Annotated[
        bool, typer.Option("--clear-engine-cache", help="Remove the engines kept for rebuilds of the very same thing.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Tell what this machine can build and run, and why not; and what is kept where."""
    removed = clear_engines() if clear_engine_cache else None
    infos = backends.infos()
    memory, timing, engines = _memory(), describe_timing_caches(), describe_engines()
    if json:
        print_json(
            {
                "trt_lab": __version__,
                "python": platform.python_version(),
                "platform": platform.platform(),
                "backends": [asdict(info) | {"details": dict(info.details)} for info in infos],
                "gpu_memory": memory,
                "timing_caches": timing,
                "engine_cache": engines,
                "engines_removed": removed,
            }
        )
        return 0
    print_line(f"trt-lab {__version__}, Python {platform.python_version()}, {platform.platform()}")
    rows = [(i.name, i.version, _yes(i.can_build), _yes(i.can_run), i.reason) for i in infos]
    print_table(("backend", "version", "builds", "runs", "reason"), rows)
    for info in infos:
        for key, words in _SAID.items():
            if key in info.details:
                print_line(f"{info.name}: {words} {_words(info.details[key])}")
    if removed is not None:
        print_line(f"engine cache cleared: {removed} engines removed")
    missing = "" if memory["available"] else f", not here: {memory['reason']}"
    print_line(f"GPU memory: {memory['used']}{missing}{_also(memory['installed'])}")
    print_line(f"timing caches: {timing['files']} files, {_size(timing['bytes'])}, in {timing['folder']}")
    limit = f" of at most {_size(engines['limit_bytes'])}" if engines["limit_bytes"] is not None else ""
    print_line(f"engine cache: {engines['engines']} engines, {_size(engines['bytes'])}{limit}, in {engines['folder']}")
    if engines["note"]:
        print_line(f"engine cache: {engines['note']}")
    return 0


_SAID = {
    "networks": "networks",
    "tensors_inside": "tensors inside are seen by",
    "editable_timing_cache": "editable timing cache:",
}
"""Details of a backend that are told in words, and the words before them."""


def _memory() -> dict[str, JsonValue]:
    """What GPU memory is had from, and what else is installed for it."""
    found = device.machine()
    return {
        "used": device.MEMORY_PROVIDER,
        "available": found.cuda_driver is not None,
        "reason": found.reason,
        "installed": list(device.other_providers()),
    }


def _also(names: JsonValue) -> str:
    return f"; {', '.join(map(str, names))} installed as well, not used" if isinstance(names, list) and names else ""


def _size(count: JsonValue) -> str:
    return f"{float(count) / _MB:.1f} MB" if isinstance(count, (int, float)) else "unknown"


def _words(value: JsonValue) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _yes(value: bool) -> str:
    return "✓ yes" if value else "✗ no"
