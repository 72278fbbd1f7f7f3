"""``lacuna build``, ``inspect``, ``verify``: making a store, and looking at it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.margin import print_histogram
from lacuna.cli.options import Device, Json, ModelName, Threads, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.corpora import DEFAULT_CLEANING, CleaningReport, count_pairs, read_corpus
from lacuna.datastore import (
    BuildSettings,
    Entry,
    PredictionReport,
    StoreReport,
    build_store,
    compare_predictions,
    entries_of,
    inspect_store,
    open_store,
    verify_store,
)
from lacuna.datastore.inspection import MARGIN
from lacuna.errors import LacunaWarning, StoreError
from lacuna.margin import read_margins
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.models import Model

_DEFAULTS = BuildSettings()


def build(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A bilingual file, or the prefix of two plain ones.")],
    into: Annotated[Path, typer.Option(help="Folder of the store.")],
    model: ModelName = None,
    languages: Annotated[str | None, typer.Option(help="Direction, as in de-en, where needed.")] = None,
    batch_tokens: Annotated[int, typer.Option(help="Tokens through the model at once.")] = _DEFAULTS.batch_tokens,
    shard_rows: Annotated[int, typer.Option(help="Most entries in one file of keys.")] = _DEFAULTS.shard_rows,
    cleaning: Annotated[bool, typer.Option("--clean/--no-clean", help="Drop pairs of no use and duplicates.")] = True,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Read a corpus through a model and store one entry for every target token.

    Killed at any moment, the same command goes on where it was, and the store ends up the same.

    Example: `lacuna build it/train.tsv --model model --into it/store`
    """
    direction = None if languages is None else Languages.parse(languages)
    conditions = DEFAULT_CLEANING if cleaning else None
    report = count_pairs(read_corpus(corpus, languages=direction), conditions)
    loaded = _load(model, device, direction, threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LacunaWarning)  # the report has the number of skipped pairs
        build_store(
            loaded,
            read_corpus(corpus, languages=direction),
            into,
            cleaning=conditions,
            batch_tokens=batch_tokens,
            shard_rows=shard_rows,
            total=report.kept,
            progress=BarProgress(),
        )
    _print_store(inspect_store(into), json, report if cleaning else None)


def inspect(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder of a store.")],
    sentence: Annotated[int | None, typer.Option(help="List the entries of this sentence, by its number.")] = None,
    token: Annotated[str | None, typer.Option(help="List entries with this token, as the model spells it.")] = None,
    limit: Annotated[int, typer.Option(help="List at most so many.")] = 50,
    model: ModelName = None,
    json: Json = False,
) -> None:
    """Say what is in a store: how many entries, how many of them the model knows, which index, which margins.

    With --sentence or --token it lists entries instead: right token, what the model would have said, whether it knew,
    the knowledge margin, and where the entry comes from.

    Example: `lacuna inspect it/store`, or `lacuna inspect it/store --sentence 12`
    """
    if sentence is None and token is None:
        return _print_store(inspect_store(store), json)
    loaded, opened = _load(model, "cpu", None, None), open_store(store)
    opened.check_model(loaded)
    margins = read_margins(opened).values if (store / MARGIN).is_file() else None
    number = None if token is None else loaded.token_number(token)
    entries = entries_of(opened, sentence=sentence, token=number, margins=margins, limit=limit)
    if json:
        return print_json({"store": str(store), "entries": [entry.as_json() for entry in entries]})
    _print_entries(entries, loaded.token_text)


def verify(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder of a store.")],
    keys: Annotated[bool, typer.Option("--keys", help="Also ask the model whether the keys are its own.")] = False,
    model: ModelName = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Check every byte of a store against its hash, and every column against what it must be.

    Exit code 2 if anything is wrong; each problem is named with its file.

    Example: `lacuna verify it/store`
    """
    report = verify_store(store, BarProgress())
    predictions = _ask_model(store, model, device, threads) if keys and report.sound else None
    if json:
        print_json(report.as_json() | ({"predictions": predictions.as_json()} if predictions else {}))
    else:
        for problem in report.problems:
            typer.echo(problem)
    if not report.sound:
        raise StoreError(f"{store}: {len(report.problems)} problems; copy the store again, or build it again")
    if not json:
        typer.echo(f"{store}: sound; {report.entries:,} entries, {report.files:,} files, {report.bytes / 1e6:,.1f} MB")
    if predictions and not json:
        typer.echo(f"predictions: {predictions.mismatches:,} of {predictions.entries:,} differ from those of the keys")
    if predictions and not predictions.sound:
        raise StoreError(f"{store}: its keys do not give its predictions; build it again with this model")


def _ask_model(store: Path, name: str | None, device: str, threads: int | None) -> PredictionReport:
    model, opened = _load(name, device, None, threads), open_store(store)
    opened.check_model(model)
    return compare_predictions(opened, model.predict, BarProgress())


def _print_entries(entries: list[Entry], text: Callable[[int], str]) -> None:
    for sentence in dict.fromkeys(entry.sentence for entry in entries):
        some = [entry for entry in entries if entry.sentence == sentence]
        origin = some[0].pair.origin
        typer.echo(
            f"sentence {sentence}, {origin.file}:{origin.place}\n  {some[0].pair.source}\n  {some[0].pair.target}"
        )
        rows = [
            (e.entry, e.position, text(e.value), text(e.prediction), "yes" if e.known else "no", f"{e.p_gold:.3f}")
            + (("",) if e.margin is None else (str(e.margin),))
            for e in some
        ]
        print_table("", ["entry", "position", "token", "model says", "known", "p", "margin"], rows)
    if not entries:
        typer.echo("no such entry")


def _load(name: str | None, device: str, languages: Languages | None, threads: int | None) -> Model:
    """Load the model; torch and transformers are slow to import, so not before they are needed."""
    from lacuna.models import load_model

    use_threads(threads)
    return load_model(name, device=device, languages=languages)


def _print_store(report: StoreReport, json: bool, cleaning: CleaningReport | None = None) -> None:
    content = report.as_json()
    if cleaning is not None:
        content["cleaning"] = {"kept": cleaning.kept, "dropped": dict(cleaning.dropped)}
    if json:
        return print_json(content)
    manifest = report.manifest
    rows = [
        ("entries", f"{manifest.entries:,}"),
        ("of these known", f"{report.known:,} ({report.known_ratio:.1%})"),
        ("sentences", f"{manifest.sentences:,}"),
        ("left out, too long", f"{manifest.skipped:,}"),
        ("dimension", manifest.dimension),
        ("megabytes", f"{report.bytes / 1e6:,.1f} in {len(manifest.shards):,} shards"),
        ("model", f"{manifest.model.name} {manifest.model.languages or ''} {manifest.model.fingerprint[:12]}"),
        ("made from", "a corpus" if manifest.parent is None else f"another store, by {manifest.parent.made_by}"),
        ("index", "none" if report.index is None else _index_text(report.index)),
        *([("cleaning", cleaning.summary())] if cleaning else []),
    ]
    print_table(str(report.path), ["", ""], [(name, str(value)) for name, value in rows])
    if report.margin_histogram:
        print_histogram("Entries by knowledge margin", report.margin_histogram)


def _index_text(index: dict[str, object]) -> str:
    return f"{index['kind']}" + ("" if index["current"] else " (of another state of the store: make it again)")
