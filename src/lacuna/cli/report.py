"""``lacuna report``: an experiment as one page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lacuna.cli.options import Json
from lacuna.cli.render import print_json


def report(
    experiment: Annotated[Path, typer.Argument(metavar="OUT", help="Folder that lacuna reproduce made.")],
    json: Json = False,
) -> None:
    """Write OUT/report.html, one page that needs nothing else, and its figures as SVG and PNG.

    Example: `lacuna report koran`
    """
    from lacuna.reports import write_report

    written = write_report(experiment)
    if json:
        return print_json({"report": str(written.page), "figures": [str(path) for path in written.figures]})
    typer.echo(f"{written.page}: written, with {len(written.figures)} files of figures")
