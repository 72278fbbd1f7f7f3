"""The ``lacuna`` command: gathers the verbs, and turns errors into exit codes.

Exit codes: 0 done; 2 the user can mend it (one line on stderr); 1 our fault (traceback); 130 interrupted.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, TextIO

import typer

from lacuna.cli import (
    calibrate,
    demo,
    evaluate,
    explain,
    fetch,
    finetune,
    fit,
    gaps,
    importing,
    index,
    margin,
    prune,
    report,
    reproduce,
    serve,
    store,
    train,
    translate,
)
from lacuna.cli.render import stop_bar
from lacuna.errors import LacunaError, LacunaWarning
from lacuna.version import __version__

_INTERRUPTED = 130
# Every complaint about the words of a command is of this class, for which Typer has no name of its own.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="lacuna",
    help="Adapt a translation model to a domain with a searchable memory, and keep only what the model needs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("fetch")(fetch.fetch)
app.command("train")(train.train)
app.command("finetune")(finetune.finetune)
app.command("import")(importing.import_)
app.command("build")(store.build)
app.command("index")(index.index)
app.command("inspect")(store.inspect)
app.command("verify")(store.verify)
app.command("margin")(margin.margin)
app.command("prune")(prune.prune)
app.command("tune")(translate.tune)
app.command("fit")(fit.fit)
app.command("translate")(translate.translate)
app.command("evaluate")(evaluate.evaluate)
app.command("explain")(explain.explain)
app.command("calibrate")(calibrate.calibrate)
app.command("gaps")(gaps.gaps)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(report.report)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lacuna {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Adapt a translation model to a domain with a searchable memory, and keep only what the model needs."""


def main() -> None:
    """Run the command line and exit with the code that says how it went."""
    code, complaint = _run()
    if complaint:
        typer.echo(f"lacuna: {' '.join(complaint.split())}", err=True)
    sys.exit(code)


def _run() -> tuple[int, str]:
    """Run a verb; return the exit code, and what is to be said on stderr."""
    warnings.showwarning = _show_warning
    try:
        code: int = app(prog_name="lacuna", standalone_mode=False) or 0
    except LacunaError as error:
        return 2, str(error)
    except _UsageError as error:
        return 2, _usage_text(error)
    finally:
        stop_bar()
    # Typer itself turns Ctrl-C into this code.
    if code == _INTERRUPTED:
        return code, "interrupted; what was finished is kept, the same command goes on from there"
    return code, ""


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Say our own warnings in one line, without the place in the code; others as Python does."""
    if issubclass(category, LacunaWarning):
        typer.echo(f"lacuna: note: {message}", err=True)
    else:
        (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))


def _usage_text(error: Any) -> str:  # noqa: ANN401 - see _UsageError
    message: str = error.format_message()  # empty where the help was shown instead
    return message and f"{message.removesuffix('.')} (see {error.ctx.command_path} --help)"
