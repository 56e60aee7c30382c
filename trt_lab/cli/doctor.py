"""`trt-lab doctor`: what this machine can build and run, and why not."""

from __future__ import annotations

import platform
from dataclasses import asdict

from trt_lab import __version__, backends
from trt_lab.cli.arguments import JsonOption
from trt_lab.cli.output import print_json, print_line, print_table

NAME = "doctor"


def run(json: JsonOption = False) -> int:
    """Tell what this machine can build and run, and why not."""
    infos = backends.infos()
    if json:
        print_json(
            {
                "trt_lab": __version__,
                "python": platform.python_version(),
                "platform": platform.platform(),
                "backends": [asdict(info) | {"details": dict(info.details)} for info in infos],
            }
        )
        return 0
    print_line(f"trt-lab {__version__}, Python {platform.python_version()}, {platform.platform()}")
    rows = [(i.name, i.version, _yes(i.can_build), _yes(i.can_run), i.reason) for i in infos]
    print_table(("backend", "version", "builds", "runs", "reason"), rows)
    return 0


def _yes(value: bool) -> str:
    return "✓ yes" if value else "✗ no"
