"""Opening files: double click, names, what is fetched, what is shown when it fails."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from .conftest import KERNEL_MS, Lab

MEBIBYTE = 1024 * 1024


def make(lab: Lab, path: str, text: str = "") -> str:
    """Writes a file into a folder whose kernels run the stand-in; returns its path in the served folder."""
    file = lab.root / "stub" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return f"stub/{path}"


@pytest.mark.parametrize("name", ["plain.onnx", "deep/er/two words.onnx", "qu'o\"te.onnx", "ünï 模型 100%.onnx"])
def test_double_click_opens_the_workbench(lab: Lab, name: str) -> None:
    path = make(lab, name)
    lab.double_click(path)
    panel = lab.ready_panel(path)
    expect(panel.get_by_role("button")).to_contain_text(f"opened {lab.root / path}")
    panel.get_by_role("button").click()
    expect(panel.get_by_role("button")).to_contain_text(f"clicked {name.rpartition('/')[2]}")
    assert lab.errors == []


def test_loading_is_shown_at_once(lab: Lab) -> None:
    path = make(lab, "slow.onnx")
    lab.double_click(path)
    expect(lab.panel(path).get_by_role("status")).to_contain_text("Starting the kernel…")
    lab.ready_panel(path)
    expect(lab.panel(path).get_by_role("status")).to_be_hidden()


def test_model_is_neither_fetched_nor_copied(lab: Lab) -> None:
    path = make(lab, "large.onnx")
    with (lab.root / path).open("wb") as file:
        file.truncate(200 * MEBIBYTE)
    lab.double_click(path)
    lab.ready_panel(path)
    about = [
        f"{request.method} {unquote(request.url)}" for request in lab.requests if "large.onnx" in unquote(request.url)
    ]
    assert about, "the page asked nothing about the file, so this test sees nothing"
    loading = [line for line in about if "content=1" in line or "/files/" in line or not line.startswith("GET ")]
    assert loading == []
    assert list((lab.root / "stub").rglob("large*checkpoint*")) == []


def test_saving_does_not_touch_the_model(lab: Lab) -> None:
    path = make(lab, "precious.onnx", "weights")
    lab.double_click(path)
    lab.ready_panel(path)
    lab.start("docmanager:rename")
    box = lab.page.locator(".jp-Dialog input")
    box.fill("renamed.onnx")
    box.press("Enter")
    expect(lab.panel("stub/renamed.onnx")).to_be_visible()
    saved = lab.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.save().then(() => 'saved', error => String(error))"
    )
    assert "does not write" in saved
    assert (lab.root / "stub" / "renamed.onnx").read_text() == "weights"


def test_file_that_cannot_be_opened_says_so_and_can_be_tried_again(lab: Lab) -> None:
    path = make(lab, "broken.onnx", "raise")
    lab.double_click(path)
    notice = lab.panel(path).get_by_role("alert")
    expect(notice).to_contain_text("broken.onnx could not be opened", timeout=KERNEL_MS)
    expect(notice.locator("p")).to_have_text("broken.onnx: this is no ONNX file")
    expect(lab.panel(path)).not_to_contain_text("Traceback")
    make(lab, "broken.onnx", "")
    notice.get_by_role("button", name="Restart Kernel").click()
    lab.ready_panel(path)
    expect(lab.panel(path).get_by_role("button")).to_contain_text("opened")


def test_kernel_without_the_package(lab: Lab) -> None:
    path = make(lab, "elsewhere.onnx", "no package")
    lab.double_click(path)
    notice = lab.panel(path).get_by_role("alert")
    expect(notice).to_contain_text("trt-lab is not installed in this kernel", timeout=KERNEL_MS)
    expect(notice).to_contain_text("pip install trt-lab")
    expect(notice.get_by_role("button", name="Choose Kernel…")).to_be_visible()


def test_kernel_that_dies_is_not_started_for_ever(lab: Lab) -> None:
    path = make(lab, "deadly.onnx", "die")
    lab.double_click(path)
    notice = lab.panel(path).get_by_role("alert")
    expect(notice).to_contain_text("The kernel died", timeout=KERNEL_MS)
    make(lab, "deadly.onnx", "")
    notice.get_by_role("button", name="Open Again").click()
    lab.ready_panel(path)
    expect(lab.panel(path).get_by_role("button")).to_contain_text("opened")


def test_kernel_shut_down_elsewhere(lab: Lab) -> None:
    path = make(lab, "left.onnx")
    lab.double_click(path)
    lab.ready_panel(path)
    lab.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    notice = lab.panel(path).get_by_role("alert")
    expect(notice).to_contain_text("The kernel has ended")
    notice.get_by_role("button", name="Restart Kernel").click()
    lab.ready_panel(path)


def test_record_as_a_zip(lab: Lab) -> None:
    path = make(lab, "run.trtlab", "")
    lab.double_click(path)
    expect(lab.ready_panel(path).get_by_role("button")).to_contain_text(f"opened {lab.root / path}")


def test_record_as_a_folder(lab: Lab) -> None:
    make(lab, "folder.trtlab/record.json", "{}")
    path = "stub/folder.trtlab"
    lab.execute("filebrowser:go-to-path", path="/stub", dontShowBrowser=False)
    lab.execute("filebrowser:refresh")
    lab.item("folder.trtlab").click(button="right")
    lab.page.locator(".lm-Menu").get_by_text("Open in TRT Lab").click()
    expect(lab.ready_panel(path).get_by_role("button")).to_contain_text(f"opened {lab.root / path}")


def test_plain_folder_has_no_entry_in_the_menu(lab: Lab) -> None:
    make(lab, "ordinary/note.txt")
    lab.execute("filebrowser:go-to-path", path="/stub", dontShowBrowser=False)
    lab.execute("filebrowser:refresh")
    lab.item("ordinary").click(button="right")
    menu = lab.page.locator(".lm-Menu")
    expect(menu.get_by_text("Rename")).to_be_visible()
    expect(menu.get_by_text("Open in TRT Lab")).to_be_hidden()


def test_open_in_notebook(lab: Lab) -> None:
    path = make(lab, "for 'book.onnx")
    lab.execute("filebrowser:go-to-path", path="/stub", dontShowBrowser=False)
    lab.execute("filebrowser:refresh")
    lab.item("for 'book.onnx").click(button="right")
    lab.page.locator(".lm-Menu").get_by_text("Open in Notebook").click()
    expect(lab.page.locator(".jp-NotebookPanel")).to_be_visible()
    notebook = json.loads((lab.root / path).with_suffix(".ipynb").read_text())
    source = "".join(notebook["cells"][0]["source"])
    assert source == 'import trt_lab\n\nlab = trt_lab.Session("for \'book.onnx")\nlab'
