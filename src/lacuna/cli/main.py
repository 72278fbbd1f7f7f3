"""The ``lacuna`` command: gathers the verbs, and turns errors into exit codes.

Exit codes: 0 done; 2 the user can mend it (one line on stderr); 1 our fault (traceback); 130 interrupted.
"""

from __future__ import annotations

import sys

import typer

from lacuna.cli import demo, evaluate, fetch, index, store, train, translate
from lacuna.errors import LacunaError
from lacuna.version import __version__

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
app.command("build")(store.build)
app.command("index")(index.index)
app.command("inspect")(store.inspect)
app.command("verify")(store.verify)
app.command("tune")(translate.tune)
app.command("translate")(translate.translate)
app.command("evaluate")(evaluate.evaluate)
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
    try:
        app()
    except LacunaError as error:
        typer.echo(f"lacuna: {' '.join(str(error).split())}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("lacuna: interrupted; what was finished is kept, the same command goes on from there", err=True)
        sys.exit(130)
