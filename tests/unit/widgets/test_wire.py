"""The shapes of the wire and their TypeScript copy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trt_lab import wire
from trt_lab.graph.layout import KINDS

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "labextension" / "scripts" / "generate_wire.py"


def test_the_typescript_is_what_the_python_says() -> None:
    command = [sys.executable, str(SCRIPT), "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


def test_every_kind_is_used_once() -> None:
    kinds = [wire.kind_of(message) for message in (*[request for request, _ in wire.REQUESTS], *wire.EVENTS)]
    assert len(set(kinds)) == len(kinds)
    assert "cancel" not in kinds and "part" not in kinds


def test_unknown_keys_are_errors() -> None:
    with pytest.raises(ValueError, match="Extra inputs"):
        wire.CardRequest.model_validate({"kind": "graph.card", "item": "a", "nmae": 1})


def test_no_request_has_a_field_that_the_envelope_needs() -> None:
    for request, _reply in wire.REQUESTS:
        assert not {"id", "re"} & set(request.model_fields), request.__name__


def test_marks_and_kinds_match_their_literals() -> None:
    assert wire.Mark.__args__ == wire.MARKS
    assert wire.ItemKind.__args__ == KINDS
