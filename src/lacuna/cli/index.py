"""``lacuna index``: make the index of a store, and measure what it finds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.options import Json
from lacuna.cli.render import BarProgress, print_json, print_table

if TYPE_CHECKING:
    from lacuna.index import IndexReport, RecallReport


def index(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the store; the index goes into it.")],
    kind: Annotated[str, typer.Option(help='auto, exact, or a faiss factory string such as "IVF4096,PQ64".')] = "auto",
    recall: Annotated[bool, typer.Option("--recall", help="Measure the index against exact search.")] = False,
    k: Annotated[list[int], typer.Option(help="Neighbors to measure recall at; may be given several times.")] = [8],  # noqa: B006 - Typer copies it
    sample: Annotated[int, typer.Option(help="Keys drawn as queries for --recall.")] = 500,
    probes: Annotated[int | None, typer.Option(help="Lists read for each query (IVF kinds).")] = None,
    ef: Annotated[int | None, typer.Option(help="Candidates kept on a walk through the graph (HNSW kinds).")] = None,
    rerank: Annotated[
        int | None, typer.Option(help="Candidates per neighbor that get their true distance; 0 for none.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the training sample and of the drawn queries.")] = 1,
    threads: Annotated[int | None, typer.Option(help="CPU threads of faiss; default: all cores.")] = None,
    json: Json = False,
) -> None:
    """Make the index of a store, so that it can be searched; an earlier index is replaced.

    Example: `lacuna index it/store --kind "IVF4096,PQ64" --recall --k 8 --k 64`
    """
    from lacuna.datastore import open_store
    from lacuna.index import build_index, measure_recall, open_index
    from lacuna.index.faiss import use_threads
    from lacuna.index.recall import check_recall

    if threads is not None:
        use_threads(threads)
    opened, progress = open_store(store), BarProgress()
    if recall:
        check_recall(opened, k, sample=sample, seed=seed)
    report = build_index(opened, kind, seed=seed, probes=probes, ef=ef, rerank=rerank, progress=progress)
    measured = None
    if recall:
        measured = measure_recall(opened, open_index(opened), k, sample=sample, seed=seed, progress=progress)
    if json:
        return print_json({**report.as_json(), "recall": measured.as_json() if measured else None})
    _print_report(report, measured)


def _print_report(report: IndexReport, measured: RecallReport | None) -> None:
    made = report.manifest
    size = made.data.bytes if made.data else 0
    rows: list[tuple[str, object]] = [
        ("kind", made.kind),
        ("why", made.why),
        ("entries", f"{made.rows:,}"),
        ("dimension", made.dimension),
        ("size", f"{size / 2**20:,.1f} MiB" if size else "none: the keys are searched themselves"),
    ]
    rows += [(name, value) for name, value in (("probes", made.probes), ("ef", made.ef)) if value is not None]
    rows += [("rerank", f"{made.rerank} candidates per neighbor" if made.rerank else "no"), ("seed", made.seed)]
    print_table(str(report.path), ["setting", "value"], rows)
    if measured:
        _print_recall(measured)
    for note in made.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{report.path}: written in {report.seconds:.1f} s")


def _print_recall(measured: RecallReport) -> None:
    rows = [
        (one.k, f"{one.recall:.4f}", f"{one.complete:.4f}", f"{one.distance_error:.4f}") for one in measured.results
    ]
    print_table(f"Recall, {measured.queries:,} queries", ["k", "recall", "all found", "median distance error"], rows)
    speed, exact = measured.queries_per_second, measured.exact_queries_per_second
    typer.echo(f"queries per second: {speed:,.0f} (exact search: {exact:,.0f})")
