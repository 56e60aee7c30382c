"""`trt-lab`: puts the commands together, and turns errors into one line and an exit code."""

from __future__ import annotations

import gc
import importlib
import io
import sys
import traceback
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trt_lab import __version__, storage
from trt_lab.cli.output import ERROR, print_error, print_line
from trt_lab.errors import TrtLabError

COMMANDS = (
    "lab",
    "demo",
    "doctor",
    "golden",
    "build",
    "compare",
    "check",
    "locate",
    "switches",
    "reduce",
    "quantize",
    "inspect",
    "profile",
    "diff-engines",
    "zoo",
    "report",
)
"""In the order of the help. Each is a module of this package with a function `run`."""


_WRONG_USE: Any = typer.BadParameter.__mro__[2]
"""click's ClickException: newer versions of typer carry a click of their own, older ones use the installed one."""


class _Commands(TyperGroup):
    """Imports a command when it is asked for: most need no session, and a start costs what is imported."""

    def list_commands(self, ctx: typer.Context) -> list[str]:
        """All names, in the order of the help."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:
        """The command of that name, None when there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = _import(f"trt_lab.cli.{cmd_name.replace('-', '_')}")
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(cmd_name)(module.run)
        return typer.main.get_command(alone)


def _import(name: str) -> ModuleType:
    """Imports with the garbage collector held back, and what was imported left out of it: a sixth of a start otherwise."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


app = typer.Typer(
    name="trt-lab",
    cls=_Commands,
    help="Why does the engine give other numbers than the ONNX model, which nodes are to blame, where does the time go?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print_line(f"trt-lab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")] = False,
) -> None:
    del version  # handled by its callback


def run(arguments: list[str] | None = None) -> None:
    """Entry point. Exits 0, 1 (a finding) or 2 (wrong use or an error, told in one line)."""
    _accept_all_text()
    try:
        code = app(args=arguments, standalone_mode=False)
    except SystemExit:  # click's, when the reader of a pipe has gone; its 1 would mean a finding
        sys.exit(ERROR)
    except (typer.Abort, KeyboardInterrupt):
        print_error("interrupted")
        sys.exit(ERROR)
    except _WRONG_USE as error:
        print_error(f"{error.format_message()} (see trt-lab --help)")
        sys.exit(ERROR)
    except TrtLabError as error:
        print_error(str(error))
        sys.exit(ERROR)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(ERROR)
    except MemoryError as error:
        print_error(
            f"not enough memory ({error or 'no more is given'}); give a smaller model, shape or number of samples"
        )
        sys.exit(ERROR)
    except OSError as error:
        print_error(f"{error.filename or 'file system'}: {error.strerror or error}")
        sys.exit(ERROR)
    except Exception as error:  # noqa: BLE001  # the last resort: a user gets a line, not a traceback
        print_error(f"this failed inside trt-lab ({type(error).__name__}: {error}); {_keep_trace()} helps to report it")
        sys.exit(ERROR)
    sys.exit(code if isinstance(code, int) else 0)


def _accept_all_text() -> None:
    """Names may hold what the terminal's encoding has no place for: shown as `?`, not a reason to fail."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _keep_trace() -> str:
    """Writes the traceback where a report can take it from; returns where."""
    file = storage.data_folder() / "last-error.txt"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(traceback.format_exc(), encoding="utf-8", errors="replace")
    except OSError as error:
        return f"its traceback could not be kept ({file}: {error.strerror}), running it in Python"
    return str(file)


if __name__ == "__main__":
    run()
