"""``lacuna margin``: measure the knowledge margin of every entry."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.commands import with_default
from lacuna.cli.options import ClusterOptions, Json, MemoryPath, Threads, memory_folder, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.errors import SettingError
from lacuna.margin.storage import MAX_MARGIN, Approximate

if TYPE_CHECKING:
    from lacuna.margin import MarginReport


def margin(
    memory: MemoryPath,
    cluster: ClusterOptions,
    max_margin: Annotated[int, typer.Option(help="Margins are counted up to this bound.")] = MAX_MARGIN,
    approximate: Annotated[bool, typer.Option("--approximate", help="Search only the nearest lists.")] = False,
    probes: Annotated[
        int | None,
        typer.Option(
            "--probes",
            "--nprobe",
            help=with_default("Lists that are searched (--approximate)", "lacuna.margin.storage:Approximate.nprobe"),
        ),
    ] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Measure the knowledge margin of every entry: the number of nearest neighbors before the first unknown one.

    If it is interrupted or killed, the same command resumes. Approximate margins are compared with exact ones on a
    sample.

    Example: `lacuna margin it/store --max-margin 2048`
    """
    from lacuna.datastore import open_store
    from lacuna.margin import measure_margin

    if probes is not None and not approximate:
        raise SettingError(f"--probes: got {probes} without --approximate; exact margins search all entries")
    use_threads(threads)
    settings = None
    if approximate:
        settings = Approximate() if probes is None else Approximate(nprobe=probes)
    opened = open_store(memory_folder(memory))
    with cluster.open(writes=[opened.path]) as pool:
        report = measure_margin(opened, max_margin, approximate=settings, progress=BarProgress(), pool=pool)
    if json:
        return print_json(report.as_json())
    _print_report(report)


def print_histogram(title: str, histogram: dict[str, dict[str, int]]) -> None:
    """Print the number of entries by margin. A bin is named by its smallest margin and reaches up to the next."""
    least = [int(name) for name in histogram]
    names = [f"{first}" if first + 1 == after else f"{first} to {after - 1}" for first, after in pairwise(least)]
    names += [f"{first} or more" for first in least[-1:]]
    rows = [(name, count["known"], count["unknown"]) for name, count in zip(names, histogram.values(), strict=True)]
    print_table(title, ["margin", "known entries", "unknown entries"], rows)


def _print_report(report: MarginReport) -> None:
    made = report.manifest
    print_histogram(f"Knowledge margins, {made.method}", report.histogram)
    if made.agreement is not None:
        same = ", ".join(f"{share:.1%} at {least}" for least, share in made.agreement.decisions.items())
        typer.echo(
            f"of {made.agreement.entries:,} entries {made.agreement.equal:.1%} have the exact margin; pruning decides "
            f"the same about known ones, by min_margin: {same}"
        )
    if report.measured:
        typer.echo(f"{report.path}: written in {report.seconds:.1f} s")
    else:
        typer.echo(f"{report.path}: measured before, up to {made.max_margin:,}; nothing to do")
