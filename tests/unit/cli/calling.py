"""Commands called as a user calls them, and what they say read strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trt_lab.cli.main import run


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `trt-lab ARGUMENTS`."""
    with pytest.raises(SystemExit) as ended:
        run([str(argument) for argument in arguments])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def one_line(text: str) -> str:
    """The only line of `text`, which starts with the program's name."""
    assert text.startswith("trt-lab: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


def strict(text: str) -> dict[str, Any]:
    """JSON with no NaN and no Infinity in it."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)
