from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from trt_lab.history import History


def test_outer_action_is_one_line() -> None:
    history = History("import trt_lab", "lab = trt_lab.Session('m.onnx')")
    with history.action("lab.build()"), history.action("lab.golden()"):
        pass
    assert history.lines[2:] == ("lab.build()",)


def test_a_line_is_told_when_it_stands_there() -> None:
    seen: list[tuple[str, ...]] = []
    history = History("first", on_line=lambda: seen.append(history.lines))
    with history.action("outer"), history.action("inner"):
        assert seen == []
    assert seen == [("first", "outer")]


def test_failed_action_adds_nothing() -> None:
    history = History()
    with pytest.raises(ValueError, match="no"), history.action("lab.probe('x')"):
        raise ValueError("no")
    with history.action("lab.probe('y')"):
        pass
    assert history.lines == ("lab.probe('y')",)


def test_notebook_holds_every_line_once(tmp_path: Path) -> None:
    history = History("import trt_lab", "lab = trt_lab.Session('m.onnx')")
    for line in ("lab.use(precision='fp16')", "lab.probe('a')", "lab.build()"):
        with history.action(line):
            pass
    path = history.write_notebook(tmp_path / "sub" / "again", "a <b> *model*")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.name == "again.ipynb"
    assert [cell.source for cell in notebook.cells if cell.cell_type == "code"] == [
        "import trt_lab\nlab = trt_lab.Session('m.onnx')",
        "lab.use(precision='fp16')",
        "lab.probe('a')",
        "lab.build()",
        "lab",
    ]
    assert notebook.cells[0].source.startswith(r"# a \<b\> \*model\*")
    assert list(tmp_path.glob("sub/.*")) == []
