"""`trt-lab zoo`: the small models with a planted, known fault."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_lab import zoo
from trt_lab.cli.arguments import JsonOption
from trt_lab.cli.output import print_json, print_line, print_table
from trt_lab.tensors import write_npz
from trt_lab.types import JsonValue

NAME = "zoo"


def run(
    name: Annotated[
        str | None, typer.Argument(help="Model to write; all are listed without it.", metavar="NAME")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder for NAME.onnx and its samples.")] = None,
    json: JsonOption = False,
) -> int:
    """List the built-in models, or write one with its samples."""
    known = zoo.entries(None)
    chosen = list(known) if name is None else [e for e in known if e.name == name] or [zoo.get(name)]
    written = [_write(zoo.get(entry.name), out) for entry in chosen] if out is not None else [None] * len(chosen)
    if json:
        models: list[JsonValue] = [
            {
                "name": m.name,
                "fault": m.fault,
                "truth": list(m.truth),
                "keep": list(m.keep),
                "note": m.note,
                "precision": m.precision,
                "file": str(path) if path is not None else None,
            }
            for m, path in zip(chosen, written, strict=True)
        ]
        print_json({"models": models})
        return 0
    print_table(
        ("name", "precision", "fault", "truth", "keep in FP32"),
        [(m.name, m.precision, m.fault, ", ".join(m.truth) or "–", ", ".join(m.keep) or "–") for m in chosen],
    )
    for path in written:
        if path is not None:
            print_line(f"wrote {path}")
    return 0


def _write(model: zoo.ZooModel, folder: Path) -> Path:
    samples = folder / f"{model.name}.samples"
    samples.mkdir(parents=True, exist_ok=True)
    path = model.model.save(folder / f"{model.name}.onnx")
    for number, feeds in enumerate(model.feeds):
        write_npz(samples / f"{number:03d}.npz", feeds)
    return path
