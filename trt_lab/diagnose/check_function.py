"""A function of the user's own that judges outputs, found by `FILE.py:FUNCTION`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trt_lab.errors import UsageError

_NAMED = re.compile(r"\s*(.+\.py):([A-Za-z_]\w*)\s*(?:(<=|>=)\s*([-+0-9.eE]+))?\s*")


def named_function(text: str) -> tuple[Callable[..., Any], str | None, float | None] | None:
    """The function, the comparison and the threshold that `metric.py:top1 >= 0.7` names; None when it names no function.

    The file is run, as `python FILE` would run it, but under the name of a module.

    Raises:
        UsageError: There is no such file or function, the file fails, or the threshold is no number.
    """
    found = _NAMED.fullmatch(text)
    if found is None:
        return None
    path, name, sign, number = Path(found[1]).expanduser(), found[2], found[3], found[4]
    try:
        threshold = None if number is None else float(number)
    except ValueError:
        raise UsageError(f"the check {text!r}: {number!r} is no number; write {path.name}:{name} >= 0.7") from None
    function = getattr(_module(path), name, None)
    if not callable(function):
        raise UsageError(f"{path}: has no function '{name}'; the check is written FILE.py:FUNCTION, or with >= NUMBER")
    return function, sign, threshold


def _module(path: Path) -> Any:
    if not path.is_file():
        raise UsageError(f"{path}: no such file; the check is written FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location(f"trt_lab_check_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: is no Python file; the check is written FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the file is the user's
        text = " ".join(str(error).split())[:200]
        raise UsageError(f"{path}: failed by itself ({type(error).__name__}: {text}); mend it") from error
    return module
