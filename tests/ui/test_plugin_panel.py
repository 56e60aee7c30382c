"""The life of a panel: reload, close, two of them; launcher and palette."""

from __future__ import annotations

from playwright.sync_api import expect

from .conftest import KERNEL_MS, Lab


def make(lab: Lab, name: str) -> str:
    """Writes an empty file where kernels run the stand-in; returns its path in the served folder."""
    (lab.root / "stub").mkdir(exist_ok=True)
    (lab.root / "stub" / name).write_text("")
    return f"stub/{name}"


def run_from_palette(lab: Lab, text: str) -> None:
    """Picks a command as a user does."""
    lab.execute("apputils:activate-command-palette")
    palette = lab.page.locator(".lm-CommandPalette")
    palette.locator("input").fill(text)
    palette.locator(".lm-CommandPalette-item", has_text=text).first.click()


def test_panel_comes_back_after_a_reload(lab: Lab) -> None:
    path = make(lab, "kept.onnx")
    with lab.page.expect_response(
        lambda response: (
            "/api/workspaces" in response.url
            and response.request.method == "PUT"
            and "kept.onnx" in (response.request.post_data or "")
        ),
        timeout=KERNEL_MS,
    ):
        lab.double_click(path)
    lab.ready_panel(path).get_by_role("button").click()
    expect(lab.panel(path).get_by_role("button")).to_contain_text("clicked")
    before = [kernel["id"] for kernel in lab.server.get("api/kernels")]
    lab.open(reset=False)
    # The same kernel, so what was done is still there, and answers.
    expect(lab.ready_panel(path).get_by_role("button")).to_contain_text("clicked kept.onnx")
    assert [kernel["id"] for kernel in lab.server.get("api/kernels")] == before
    lab.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    expect(lab.panel(path).get_by_role("alert")).to_be_visible()
    lab.open(reset=False)
    # The kernel has gone meanwhile: a new one.
    expect(lab.ready_panel(path).get_by_role("button")).to_contain_text("opened")


def test_kernel_ends_with_the_panel_and_a_new_one_starts_clean(lab: Lab) -> None:
    path = make(lab, "closed.onnx")
    lab.double_click(path)
    lab.ready_panel(path).get_by_role("button").click()
    lab.execute("application:close")
    expect(lab.panel(path)).to_have_count(0)
    lab.wait_kernels(0)
    lab.double_click(path)
    expect(lab.ready_panel(path).get_by_role("button")).to_contain_text("opened")


def test_two_panels_have_two_kernels(lab: Lab) -> None:
    first, second = make(lab, "first.onnx"), make(lab, "second.onnx")
    lab.double_click(first)
    lab.ready_panel(first)
    lab.double_click(second)
    lab.ready_panel(second).get_by_role("button").click()
    expect(lab.panel(second).get_by_role("button")).to_contain_text("clicked second.onnx")
    lab.wait_kernels(2)
    lab.execute("application:close")
    lab.wait_kernels(1)
    lab.panel(first).get_by_role("button").click()
    expect(lab.panel(first).get_by_role("button")).to_contain_text("clicked first.onnx")


def test_open_twice_is_one_panel(lab: Lab) -> None:
    path = make(lab, "once.onnx")
    lab.double_click(path)
    lab.ready_panel(path)
    lab.double_click(path)
    expect(lab.panel(path)).to_have_count(1)
    lab.wait_kernels(1)


def test_restart_from_the_palette_opens_the_file_again(lab: Lab) -> None:
    path = make(lab, "again.onnx")
    lab.double_click(path)
    lab.ready_panel(path).get_by_role("button").click()
    expect(lab.panel(path).get_by_role("button")).to_contain_text("clicked")
    run_from_palette(lab, "TRT Lab: Restart Kernel")
    expect(lab.panel(path).get_by_role("button")).to_contain_text("opened", timeout=KERNEL_MS)


def test_build_and_its_failure_from_the_palette(lab: Lab) -> None:
    path = make(lab, "built.onnx")
    lab.double_click(path)
    lab.ready_panel(path)
    run_from_palette(lab, "TRT Lab: Build")
    expect(lab.panel(path).get_by_role("button")).to_contain_text("building")
    run_from_palette(lab, "TRT Lab: Build")
    expect(lab.page.locator(".Toastify__toast")).to_contain_text("a build is running already")


def test_export_from_the_palette_opens_the_notebook(lab: Lab) -> None:
    path = make(lab, "told.onnx")
    lab.double_click(path)
    lab.ready_panel(path)
    run_from_palette(lab, "TRT Lab: Export as Notebook")
    expect(lab.page.locator(".jp-NotebookPanel")).to_be_visible()
    assert (lab.root / "stub" / "told trt-lab.ipynb").is_file()


def test_launcher_card_opens_the_dialog(lab: Lab) -> None:
    path = make(lab, "picked.onnx")
    lab.execute("filebrowser:go-to-path", path="/stub", dontShowBrowser=False)
    lab.execute("launcher:create")
    launcher = lab.page.locator(".jp-Launcher:visible")
    launcher.get_by_role("button", name="Open Model").click()
    dialog = lab.page.locator(".jp-Dialog")
    dialog.locator(".jp-DirListing-item").get_by_text("picked.onnx", exact=True).click()
    dialog.locator("button.jp-mod-accept").click()
    lab.ready_panel(path)


def test_commands_for_a_workbench_are_off_without_one(lab: Lab) -> None:
    enabled = lab.page.evaluate(
        "() => ['build', 'export-notebook', 'restart'].map(id => window.jupyterapp.commands.isEnabled('trt-lab:' + id))"
    )
    assert enabled == [False, False, False]
