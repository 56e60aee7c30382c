"""Writes `labextension/src/wire.gen.ts` from `trt_lab.wire`.

Usage: python labextension/scripts/generate_wire.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from trt_lab import wire
from trt_lab.widgets import transfer

TARGET = Path(__file__).resolve().parents[1] / "src" / "wire.gen.ts"

HEADER = """// Generated from trt_lab/wire.py by labextension/scripts/generate_wire.py. Do not edit.

"""

SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def ts_type(schema: dict[str, Any]) -> str:
    """The TypeScript type of a JSON schema; raises KeyError on a form that wire.py does not use yet."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(ts_type(choice) for choice in schema["anyOf"]))
    if "type" not in schema:
        return "unknown"
    if schema["type"] == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(ts_type(item) for item in schema['prefixItems'])}]"
        item = ts_type(schema["items"])
        return f"({item})[]" if " | " in item else f"{item}[]"
    if schema["type"] == "object":
        return f"Record<string, {ts_type(schema['additionalProperties'])}>"
    return SIMPLE[schema["type"]]


def comment(text: str, indent: str = "") -> list[str]:
    """A doc comment."""
    lines = text.strip().splitlines()
    if len(lines) == 1:
        return [f"{indent}/** {lines[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines), f"{indent} */"]


def interface(name: str, schema: dict[str, Any], sent_by_python: bool) -> list[str]:
    """One interface. What Python sends is always complete; what the browser sends may leave defaults out."""
    lines = [*comment(schema.get("description", "")), f"export interface {name} {{"]
    required = schema.get("required", [])
    for key, value in schema.get("properties", {}).items():
        optional = "" if sent_by_python or key in required or "const" in value else "?"
        lines.append(f"  {key}{optional}: {ts_type(value)};")
    return [*lines, "}", ""]


def pairs(name: str, rows: list[str]) -> list[str]:
    """An interface that maps kinds to types."""
    return [f"export interface {name} {{", *(f"  {row};" for row in rows), "}", ""]


def generate() -> str:
    """The text of wire.gen.ts."""
    requests = [request for request, _ in wire.REQUESTS]
    replies = list(dict.fromkeys(reply for _, reply in wire.REQUESTS))
    models: list[type[BaseModel]] = [*requests, *replies, *wire.EVENTS, *wire.TRAITS]
    _, schema = models_json_schema([(model, "validation") for model in models])
    nested_in_requests = {"TableQuery"}
    from_browser = {request.__name__ for request in requests} | nested_in_requests
    lines: list[str] = []
    for name, definition in sorted(schema["$defs"].items()):
        if "properties" not in definition and definition.get("type") != "object":
            lines += [*comment(definition.get("description", name)), f"export type {name} = {ts_type(definition)};", ""]
        else:
            lines += interface(name, definition, name not in from_browser)
    lines += ["/** Kind of each request, what it holds, and what it is answered with. */"]
    lines += pairs(
        "Requests",
        [
            f'"{wire.kind_of(request)}": {{ request: {request.__name__}; reply: {reply.__name__} }}'
            for request, reply in wire.REQUESTS
        ],
    )
    lines += ["/** Kind of each event. */"]
    lines += pairs("Events", [f'"{wire.kind_of(event)}": {event.__name__}' for event in wire.EVENTS])
    for name in ("ItemKind", "ColourBy", "Mark"):
        values = " | ".join(f'"{value}"' for value in getattr(wire, name).__args__)
        lines += [f"export type {name} = {values};", ""]
    lines += [f"export const PART_BYTES = {transfer.PART_BYTES};"]
    lines += [f"export const MAX_PARTS = {transfer.MAX_PARTS};"]
    dtypes = ", ".join(f'"{dtype}"' for dtype in transfer.DTYPES)
    lines += [f"export const DTYPES = [{dtypes}] as const;"]
    return HEADER + "\n".join(lines) + "\n"


def main() -> int:
    """Writes the file, or with --check says whether it is up to date."""
    text = generate()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(
        f"{TARGET} is not what trt_lab/wire.py says: run python labextension/scripts/generate_wire.py", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
