"""The ``lacuna`` command: the list of verbs, and the mapping from errors to exit codes.

Exit codes: 0 done; 2 the user can fix it (one line on stderr); 1 a bug (traceback); 130 interrupted; 141 the reader of
stdout has closed it, as in ``lacuna translate | head``.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any, TextIO

import typer

from lacuna.cli import INTERRUPTED
from lacuna.cli.commands import add_verb, commands_of
from lacuna.cli.error_text import name_options
from lacuna.cli.render import stop_bar
from lacuna.errors import LacunaError, LacunaWarning
from lacuna.version import __version__

_STDOUT_CLOSED = 141
# The base class of all errors in the arguments of a command, which Typer does not export.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_RESUMES = "the same command resumes from the work that is finished"
_STARTS_OVER = "the same command starts from the beginning"
# The message after Ctrl-C, for each verb. A test interrupts the verbs and runs them again.
AFTER_INTERRUPT: dict[str, str] = {
    "adapt": _RESUMES,
    "fetch": "downloaded packages are cached; the same command downloads the others",
    "train": _RESUMES,
    "finetune": _RESUMES,
    "build": _RESUMES,
    "margin": _RESUMES,
    "add": _RESUMES,
    "reproduce": _RESUMES,
    "demo": _RESUMES,
    "fit": f"{_STARTS_OVER}; remove the folder first if the combiner is already in it",
    "translate": "all translations printed so far are complete; the same command starts from the first line",
    "serve": "the server has stopped",
}

app = typer.Typer(
    name="lacuna",
    help="Adapt a translation model to a domain with a searchable memory, and keep only what the model needs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Verbs of two words share their first one, a group.
GROUPS = {"glossary": "Check and propose glossaries: files of terms, and how they must be translated."}
# Each verb, as module and function of this package.
VERBS = {
    "adapt": "adapt:adapt",
    "fetch": "fetch:fetch",
    "train": "train:train",
    "finetune": "train:finetune",
    "import": "store:import_",
    "build": "store:build",
    "index": "index:index",
    "inspect": "store:inspect",
    "verify": "store:verify",
    "add": "edit:add",
    "forget": "edit:forget",
    "replace": "edit:replace",
    "compact": "edit:compact",
    "log": "edit:log",
    "scan": "edit:scan",
    "margin": "margin:margin",
    "prune": "prune:prune",
    "tune": "fit:tune",
    "fit": "fit:fit",
    "translate": "translate:translate",
    "glossary check": "glossary:check",
    "glossary suggest": "glossary_suggest:suggest",
    "evaluate": "evaluate:evaluate",
    "explain": "explain:explain",
    "calibrate": "explain:calibrate",
    "gaps": "explain:gaps",
    "reproduce": "reproduce:reproduce",
    "report": "reproduce:report",
    "serve": "serve:serve",
    "demo": "reproduce:demo",
}
_groups = {name: typer.Typer(help=text, no_args_is_help=True) for name, text in GROUPS.items()}
for _name, _path in VERBS.items():
    _first, _, _second = _name.partition(" ")
    add_verb(_groups[_first] if _second else app, f"lacuna.cli.{_path}", _second or _first)


@dataclass
class Invocation:
    """The verb that was invoked, or its first word, and the commands of all verbs; empty if there was none."""

    verb: str = ""
    commands: dict[str, Any] = field(default_factory=dict)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lacuna {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Adapt a translation model to a domain with a searchable memory, and keep only what the model needs."""
    invocation = context.ensure_object(Invocation)
    invocation.verb = context.invoked_subcommand or ""
    invocation.commands = commands_of(context.command)


def _note_second_word(context: typer.Context) -> None:
    """Complete the name of the verb that was invoked."""
    context.ensure_object(Invocation).verb += f" {context.invoked_subcommand}"


for _name, _group in _groups.items():
    _group.callback()(_note_second_word)
    app.add_typer(_group, name=_name, help=GROUPS[_name])


def main() -> None:
    """Run the command line and exit with the right code."""
    code, complaint = _run()
    if complaint:
        typer.echo(f"lacuna: {' '.join(complaint.split())}", err=True)
    sys.exit(code)


def _run() -> tuple[int, str]:
    """Run a verb; return the exit code and the message for stderr."""
    warnings.showwarning = _show_warning
    invocation, stdout = Invocation(), sys.stdout
    try:
        code: int = app(prog_name="lacuna", standalone_mode=False, obj=invocation) or 0
        stdout.flush()
    except KeyboardInterrupt:  # Typer turns it into the code, except for one that comes while it does so
        code = INTERRUPTED
    except LacunaError as error:
        return 2, name_options(str(error), invocation.verb, invocation.commands, sys.argv)
    except _UsageError as error:
        return 2, _usage_text(error, invocation.verb)
    except (BrokenPipeError, SystemExit) as error:
        # Typer and rich turn a broken pipe into SystemExit.
        if not isinstance(error.__context__ or error, BrokenPipeError):
            raise
        # Python flushes stdout once more at exit, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        return _STDOUT_CLOSED, ""
    finally:
        stop_bar()
    if code == INTERRUPTED:
        return code, f"interrupted; {AFTER_INTERRUPT.get(invocation.verb, _STARTS_OVER)}"
    return code, ""


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print our own warnings as one line, without the place in the code; others as Python does."""
    if issubclass(category, LacunaWarning):
        typer.echo(f"lacuna: note: {message}", err=True)
    else:
        (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))


def _usage_text(error: Any, verb: str) -> str:  # noqa: ANN401 - see _UsageError
    message: str = error.format_message()  # empty if the help was shown instead
    # An error of the parser, such as a missing value, does not know its command.
    return message and f"{message.removesuffix('.')} (see {f'lacuna {verb}'.rstrip()} --help)"
