"""``lacuna index``: build the index of a store, and measure its recall."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.commands import Settings, SettingsOf
from lacuna.cli.options import (
    ClusterOptions,
    Json,
    LanguagesOption,
    MemoryPath,
    ModelName,
    ModelOptions,
    Threads,
    memory_folder,
    use_threads,
)
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.errors import SettingError
from lacuna.milvus.address import TOKEN_VARIABLE
from lacuna.records import Languages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lacuna.datastore import Store
    from lacuna.index import IndexReport, RecallReport
    from lacuna.index.recall import IndexTrial
    from lacuna.memory.publication import PublishReport


def index(
    memory: MemoryPath,
    cluster: ClusterOptions,
    *,
    kind: Annotated[
        str, typer.Option(help='auto, exact, a faiss factory string such as "IVF4096,PQ64", or milvus; see --uri.')
    ] = "auto",
    uri: Annotated[
        str | None,
        typer.Option(help="With --kind milvus: http://HOST:PORT of the server, or FILE.db for Milvus Lite."),
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="Name of the collection in Milvus; default: that of the store's folder.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help=f"File with the token of the server; or set {TOKEN_VARIABLE}.")
    ] = None,
    recall: Annotated[bool, typer.Option("--recall", help="Measure recall against exact search.")] = False,
    k: Annotated[list[int], typer.Option(help="Neighbors to measure recall at; may be given several times.")] = [8],  # noqa: B006 - Typer copies it
    sample: Annotated[int, typer.Option(help="Number of keys used as queries for --recall and --tune.")] = 500,
    settings: Annotated[Settings, SettingsOf("lacuna.index:SearchSettings")],
    tune: Annotated[
        bool, typer.Option("--tune", help="Try several kinds and settings on this store and take the fastest.")
    ] = False,
    dev: Annotated[
        str | None, typer.Option(help="Corpus whose decoder states are the queries for --tune, instead of keys.")
    ] = None,
    model: ModelName = None,
    languages: LanguagesOption = None,
    least_recall: Annotated[float, typer.Option(help="Minimum recall for --tune.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the training sample and of the queries.")] = 1,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Build the index of a store, so that it can be searched; an existing index is replaced.

    Example: `lacuna index it/store --kind "IVF4096,PQ64" --recall --k 8 --k 64`

    Example: `lacuna index it/store --kind milvus --uri http://localhost:19530 --collection it`
    """
    from lacuna.datastore import open_store
    from lacuna.index import build_index, measure_recall, open_index
    from lacuna.index.recall import best_trial, check_recall, try_indexes

    use_threads(threads)
    in_milvus = kind.partition(":")[0] == "milvus"
    if not in_milvus and (uri or collection or token_file):
        raise SettingError("--uri, --collection, --token-file: given without --kind milvus; add it, or leave them out")
    opened, progress = open_store(memory_folder(memory)), BarProgress()
    if cluster.given and not recall:
        raise SettingError("--scheduler, --workers: an index is built in this process; only --recall uses workers")
    if recall:
        check_recall(opened, k, sample=sample, seed=seed)
    if in_milvus:
        _check_milvus(tune, cluster)
        published = _publish(opened, kind, uri, collection, token_file, settings)
        made = open_index(opened)
        at_server = measure_recall(opened, made, k, sample=sample, seed=seed, progress=progress) if recall else None
        return _print_published(published, at_server, json)
    trials: list[IndexTrial] = []
    if tune:
        if kind != "auto" or settings:
            raise SettingError("--tune chooses kind, probes, ef and rerank itself; leave them out, or leave --tune out")
        queries = _dev_states(opened, dev, model, languages, sample) if dev else None
        trials = try_indexes(opened, max(k), sample=sample, seed=seed, queries=queries, progress=progress)
        best = best_trial(trials, least_recall)
        kind, settings = best.kind, {name: value for name, value in asdict(best.settings).items() if value}
    with cluster.open(reads=[opened.path]) as pool:
        report = build_index(opened, kind, seed=seed, **settings, progress=progress)
        measured = None
        if recall:
            measured = measure_recall(opened, report.index, k, sample=sample, seed=seed, progress=progress, pool=pool)
    if json:
        tried = [trial.as_json() for trial in trials]
        return print_json({**report.as_json(), "recall": measured.as_json() if measured else None, "tried": tried})
    if trials:
        _print_trials(trials, max(k))
    _print_report(report, measured)


def _check_milvus(tune: bool, cluster: ClusterOptions) -> None:
    if tune:
        raise SettingError("--tune: tries indexes of this machine only; leave it out with --kind milvus")
    if cluster.given:
        raise SettingError("--scheduler, --workers: not used with --kind milvus; leave them out")


def _publish(
    store: Store,
    kind: str,
    uri: str | None,
    collection: str | None,
    token_file: Path | None,
    settings: Settings,
) -> PublishReport:
    from lacuna.memory.publication import publish_store
    from lacuna.milvus import CollectionKind, MilvusAddress, read_link
    from lacuna.milvus.address import collection_name

    link = read_link(store.path)
    if uri is None and link is None:
        raise SettingError("--uri: missing; give http://HOST:PORT of a Milvus server, or FILE.db for Milvus Lite")
    if uri is None and link is not None:
        name, token = collection or link.collection, token_file or (link.token_file and Path(link.token_file))
        address = MilvusAddress.of(link.uri, name, token or None)
    else:
        address = MilvusAddress.of(uri or "", collection or collection_name(store.path), token_file)
    chosen = CollectionKind.parse(kind, settings.get("ef_search"), settings.get("nprobe"), settings.get("rerank"))
    return publish_store(store, address, chosen, progress=BarProgress())


def _print_published(report: PublishReport, measured: RecallReport | None, json: bool) -> None:
    if json:
        return print_json({**report.as_json(), "recall": measured.as_json() if measured else None})
    if measured:
        _print_recall(measured)
    typer.echo(
        f"{report.address}: {report.entries:,} entries, {report.sent:,} of them sent now, index {report.kind}, "
        f"in {report.seconds:.1f} s"
    )


def _dev_states(
    store: Store, dev: str, model: str | None, languages: Languages | None, most: int
) -> NDArray[np.float32]:
    from lacuna.fitting import DevCache, DevSet
    from lacuna.fitting.dev_pass import decoder_states

    options = ModelOptions(model=model, languages=languages)
    pairs = DevSet(options.read_pairs(dev, most), cache=DevCache())  # each has one state or more
    return decoder_states(options.load(), store, pairs, most)


def _print_trials(trials: list[IndexTrial], k: int) -> None:
    ordered = sorted(trials, key=lambda trial: -trial.queries_per_second)
    rows = [
        (
            trial.kind,
            " ".join(f"{name} {value}" for name, value in _settings(trial) if value),
            f"{trial.build_seconds:.1f}",
            f"{trial.recall:.4f}",
            f"{trial.queries_per_second:,.0f}",
        )
        for trial in ordered
    ]
    print_table("Tried", ["kind", "settings", "build s", f"recall at {k}", "queries/s"], rows)


def _settings(trial: IndexTrial) -> tuple[tuple[str, int | None], ...]:
    settings = trial.settings
    return (("probes", settings.nprobe), ("ef", settings.ef_search), ("rerank", settings.rerank))


def _print_report(report: IndexReport, measured: RecallReport | None) -> None:
    made = report.manifest
    size = made.data.bytes if made.data else 0
    rows: list[tuple[str, object]] = [
        ("kind", made.kind),
        ("why", made.why),
        ("entries", f"{made.rows:,}"),
        ("dimension", made.dimension),
        ("size", f"{size / 2**20:,.1f} MiB" if size else "none: searches read the keys"),
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
    rows = [(at.k, f"{at.recall:.4f}", f"{at.complete:.4f}", f"{at.distance_error:.4f}") for at in measured.results]
    print_table(f"Recall, {measured.queries:,} queries", ["k", "recall", "all found", "median distance error"], rows)
    speed, exact = measured.queries_per_second, measured.exact_queries_per_second
    typer.echo(f"queries per second: {speed:,.0f} (exact search: {exact:,.0f})")
