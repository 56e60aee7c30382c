"""Guards that keep the house standing: what is public, what an import costs, one version, sizes, licences.

A failure says what to do. The layers have their own contract in pyproject.toml (`lint-imports`).
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import trt_lab

CHECKOUT = Path(__file__).resolve().parents[1]
PACKAGE = CHECKOUT / "trt_lab"
MAX_LINES = 500
IMPORT_S = 0.3
HEAVY = (
    "tensorrt",
    "onnxruntime",
    "onnx",
    "onnx_ir",
    "bokeh",
    "anywidget",
    "ipywidgets",
    "pandas",
    "numpy",
    "pydantic",
)

HOMES: dict[str, tuple[str, ...]] = {
    "anywidget": ("trt_lab.widgets",),
    "bokeh": ("trt_lab.views", "trt_lab.widgets.figure"),
    "ipywidgets": ("trt_lab.widgets",),
    "jinja2": ("trt_lab.views",),
    "loky": ("trt_lab.backends",),
    # onnxruntime.layers reads the graph that the runtime wrote after fusing, which holds operators of its own.
    "onnx": ("trt_lab.model", "trt_lab.graph", "trt_lab.edit", "trt_lab.zoo", "trt_lab.backends.onnxruntime.layers"),
    "onnx_graphsurgeon": ("trt_lab.edit",),
    "onnx_ir": ("trt_lab.model", "trt_lab.graph", "trt_lab.edit", "trt_lab.zoo"),
    "onnxruntime": ("trt_lab.backends.onnxruntime",),
    "pandas": (
        "trt_lab.comparing",
        "trt_lab.frames",
        "trt_lab.quantizing",
        "trt_lab.results",
        "trt_lab.session",
        "trt_lab.sweeping",
        "trt_lab.third_side",
        "trt_lab.views",
        "trt_lab.notebook",
    ),
    "prometheus_client": ("trt_lab.profiling.exporter",),
    "rich": ("trt_lab.cli",),
    "tensorrt": ("trt_lab.backends.tensorrt",),
    "traitlets": ("trt_lab.widgets",),
    "typer": ("trt_lab.cli",),
}
"""The modules (with what lies below them) that may import a library."""


def tracked(*patterns: str) -> list[Path]:
    """Files of the project, as git knows them (new ones that are not ignored included)."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [CHECKOUT / line for line in done.stdout.splitlines() if (CHECKOUT / line).is_file()]


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")


def python_files() -> list[Path]:
    return [file for file in sorted(PACKAGE.rglob("*.py")) if "labextension" not in file.parts]


def imported(tree: ast.AST) -> set[str]:
    """Top-level names of the libraries that a module imports."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


# --- the public API ----------------------------------------------------------------------


def test_public_names_are_exactly_these() -> None:
    errors = [name for name in trt_lab.__all__ if name.endswith("Error")]
    assert set(trt_lab.__all__) - set(errors) == {
        *("BuildOptions", "Model", "PrecisionPlan", "Record", "Session", "ShapeRange", "Tolerance", "__version__"),
        *(
            "Exporter",
            "Sampler",
            "open_engine",
            "read_images",
            "read_trace",
            "read_triton_metrics",
            "write_chrome_trace",
        ),
    }
    assert trt_lab.__all__ == sorted(trt_lab.__all__)
    assert dir(trt_lab) == trt_lab.__all__


@pytest.mark.parametrize("name", trt_lab.__all__)
def test_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(trt_lab, name)
    assert name == "__version__" or value.__doc__, f"{name} has no docstring"


def test_every_error_is_public() -> None:
    from trt_lab import errors

    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert defined <= set(trt_lab.__all__), "add new errors to __all__ and _HOMES of trt_lab/__init__.py"


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'trt_lab' has no attribute 'Sesion'"):
        _ = trt_lab.Sesion  # pyright: ignore[reportAttributeAccessIssue]  # the point of the test


def test_type_checkers_see_what_python_does() -> None:
    """The names under TYPE_CHECKING, the table of homes and `__all__` say the same."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    checked = {
        alias.name: node.module.removeprefix("trt_lab.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("trt_lab.")
        for alias in node.names
    }
    assert checked == trt_lab._HOMES
    assert set(trt_lab.__all__) == {*checked, "__version__"}


# --- what an import costs ----------------------------------------------------------------


def test_import_is_light() -> None:
    code = f"import sys, trt_lab; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert done.stdout.strip() == "[]", "`import trt_lab` alone must load none of these"


def test_import_is_quick() -> None:
    code = "import time; start = time.perf_counter(); import trt_lab; print(time.perf_counter() - start)"
    runs = [
        float(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CHECKOUT
            ).stdout
        )
        for _ in range(3)
    ]
    assert min(runs) <= IMPORT_S


# --- one home a library --------------------------------------------------------------------


@pytest.mark.parametrize("library", HOMES)
def test_library_is_imported_only_in_its_home(library: str) -> None:
    homes = HOMES[library]
    strays = [
        module_name(file)
        for file in python_files()
        if library in imported(ast.parse(file.read_text(encoding="utf-8")))
        and not any(f"{module_name(file)}.".startswith(f"{home}.") for home in homes)
    ]
    assert strays == [], f"{library} belongs in {', '.join(homes)}"


def test_every_imported_library_is_declared() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "dev" for line in lines]
    declared = {
        re.split(r"[\s\[<>=!~;]", line, maxsplit=1)[0].lower().replace("-", "_")
        for line in [*project["dependencies"], *extras]
    }
    other_name = {"google": "protobuf", "IPython": "ipython", "PIL": "pillow"}
    other_name["tensorrt_rtx_bindings"] = "tensorrt_rtx_cu13_bindings"
    used = set[str]().union(*(imported(ast.parse(file.read_text(encoding="utf-8"))) for file in python_files()))
    used -= {*sys.stdlib_module_names, "trt_lab"}
    missing = {name for name in used if other_name.get(name, name).lower() not in declared}
    assert missing == set(), "add them to the dependencies in pyproject.toml"


# --- one version, sizes, licence -------------------------------------------------------------


def test_one_version() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = json.loads((CHECKOUT / "labextension" / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((CHECKOUT / "labextension" / "package-lock.json").read_text(encoding="utf-8"))
    versions = {trt_lab.__version__, project["version"], package["version"], lock["version"]}
    assert len(versions) == 1, f"give all the same version: {versions}"
    changelog = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## Unreleased" in changelog or f"## {trt_lab.__version__}" in changelog


def test_licence_is_apache_everywhere() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = json.loads((CHECKOUT / "labextension" / "package.json").read_text(encoding="utf-8"))
    assert project["license"] == package["license"] == "Apache-2.0"
    assert "Apache License" in (CHECKOUT / "LICENSE").read_text(encoding="utf-8")[:200]


def test_no_file_grows_too_long() -> None:
    sources = tracked("trt_lab/**.py", "tests/**.py", "labextension/src/**.ts", "labextension/tests/**.ts")
    long = {
        str(file.relative_to(CHECKOUT)): lines
        for file in sources
        if not file.name.endswith(".gen.ts")
        and (lines := len(file.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert long == {}, f"over {MAX_LINES} lines: split them"


def test_nothing_names_a_machine_or_a_registry() -> None:
    """No path of a developer's machine, no registry or mirror in what is shipped."""
    pattern = re.compile(
        r"/home/[a-z]\w*/|/Users/[A-Za-z]\w*/|C:\\\\Users\\\\|/work/(main|tmp|shared)\b"
        r"|registry\.(npmjs|yarnpkg)|\bfiles\.pythonhosted\.org|--index-url|\"resolved\":"
    )
    found = [
        f"{file.relative_to(CHECKOUT)}:{number}"
        for file in tracked()
        if file.suffix in {".py", ".ts", ".mjs", ".json", ".toml", ".md", ".ipynb", ".sh", ".yml", ".yaml", ".css"}
        and file != Path(__file__)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_untrusted_text_is_never_parsed_as_html() -> None:
    pattern = re.compile(r"\.innerHTML|\.outerHTML|insertAdjacentHTML|\beval\(|new Function\(|document\.write")
    found = [
        f"{file.relative_to(CHECKOUT)}:{number}"
        for file in tracked("labextension/src/**.ts")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line) and "guard: allowed" not in line
    ]
    assert found == [], "use textContent"
