"""Writing the report of an experiment into its own folder. Everything is drawn before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lacuna.files import atomic_path, write_text
from lacuna.reports.experiment import read_experiment
from lacuna.reports.figures import Figure, draw
from lacuna.reports.page import render_page

PAGE = "report.html"
FIGURES = "figures"


@dataclass(frozen=True, slots=True)
class Report:
    """The files that were written."""

    page: Path
    figures: tuple[Path, ...]


def write_report(folder: str | Path) -> Report:
    """Write the page and the figures of an experiment; the same experiment gives the same bytes.

    :param folder: As ``lacuna reproduce`` left it.
    :raises ReportError: It holds no experiment, or not a whole one, or a plot that does not fit its table.
    """
    folder = Path(folder)
    experiment = read_experiment(folder)
    drawn = ((table.name, draw(table, table.plot)) for table in experiment.tables if table.plot is not None)
    figures: dict[str, Figure] = {name: figure for name, figure in drawn if figure is not None}
    page = render_page(experiment, {name: figure.inline for name, figure in figures.items()})
    files = []
    for name, figure in figures.items():
        for suffix, content in (("svg", figure.svg), ("png", figure.png)):
            files.append(folder / FIGURES / f"{name}.{suffix}")
            with atomic_path(files[-1]) as temporary:
                temporary.write_bytes(content)
    write_text(folder / PAGE, page)
    return Report(folder / PAGE, tuple(files))
