"""``lacuna build``, ``inspect``, ``verify`` and ``import``: create, show, check and import stores (and models)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.artifacts.files import check_unused
from lacuna.cli.margin import print_histogram
from lacuna.cli.options import (
    CORPUS_HELP,
    ClusterOptions,
    Device,
    Json,
    LanguagesOption,
    MemoryPath,
    ModelOptions,
    Precision,
    Threads,
    memory_folder,
)
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.corpora import DEFAULT_CLEANING, CleaningReport, count_pairs, read_corpus
from lacuna.datastore import (
    BuildSettings,
    Entry,
    StoreReport,
    build_store,
    compare_predictions,
    entries_of,
    inspect_store,
    open_store,
    verify_store,
)
from lacuna.datastore.importing import LOOKED_FOR, StoreImport, import_store, recognize_store
from lacuna.datastore.inspection import measured_margins
from lacuna.errors import LacunaWarning, SettingError, StoreError
from lacuna.memory import check_receipt
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.datastore import Store
    from lacuna.models import Model
    from lacuna.models.importing import ImportReport
    from lacuna.translator import SystemRecord

_DEFAULTS = BuildSettings()
_OUTDATED = "The margins were measured before the last edits{new}; bring them up to date with: lacuna margin {path}"


def build(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help=CORPUS_HELP)],
    system: ModelOptions,
    cluster: ClusterOptions,
    into: Annotated[Path, typer.Option(help="Folder for the store.")],
    batch_tokens: Annotated[int, typer.Option(help="Tokens in one batch of the model.")] = _DEFAULTS.batch_tokens,
    shard_rows: Annotated[int, typer.Option(help="Maximum number of entries in a shard.")] = _DEFAULTS.shard_rows,
    cleaning: Annotated[bool, typer.Option("--clean/--no-clean", help="Drop useless pairs and duplicates.")] = True,
    precision: Precision = "float32",
    json: Json = False,
) -> None:
    """Run a model over a corpus with teacher forcing, and store one entry for every target token.

    If it is interrupted or killed, the same command resumes, and the store ends up the same.

    Example: `lacuna build it/train.tsv --model model --into it/store`
    """
    conditions = DEFAULT_CLEANING if cleaning else None
    report = count_pairs(read_corpus(corpus, languages=system.languages), conditions)
    with cluster.open(writes=[into]) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore", LacunaWarning)  # the report has the number of skipped pairs
        build_store(
            system.load(precision),
            read_corpus(corpus, languages=system.languages),
            into,
            cleaning=conditions,
            batch_tokens=batch_tokens,
            shard_rows=shard_rows,
            total=report.kept,
            progress=BarProgress(),
            pool=pool,
        )
    _print_store(inspect_store(into), json, report if cleaning else None)


def inspect(
    memory: MemoryPath,
    system: ModelOptions,
    sentence: Annotated[int | None, typer.Option(help="List the entries of this sentence, by its number.")] = None,
    token: Annotated[
        str | None, typer.Option(help="List entries with this token, as in the model's vocabulary.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of entries to list.")] = 50,
    json: Json = False,
) -> None:
    """Show a store: number of entries, how many of them the model knows, index and margins.

    Of a domain, it also shows the system: all that decides its translations.

    With --sentence or --token it lists entries instead: value, prediction, whether the entry is known, its knowledge
    margin, and where it comes from.

    Example: `lacuna inspect it/store`, or `lacuna inspect it/store --sentence 12`
    """
    if sentence is None and token is None:
        folder = memory_folder(memory)
        return _print_store(inspect_store(folder), json, system=None if folder == memory else _read_system(memory))
    model, opened = _open_checked(system, memory)
    value = None if token is None else model.token_number(token)
    measured = measured_margins(opened)
    margins = None if measured is None else measured.values
    entries = entries_of(opened, sentence=sentence, token=value, margins=margins, limit=limit)
    if json:
        return print_json({"store": str(opened.path), "entries": [entry.as_json() for entry in entries]})
    _print_entries(entries, model.token_text)
    if measured is not None and measured.outdated:
        typer.echo(_OUTDATED.format(new="", path=opened.path))


def verify(
    memory: MemoryPath,
    system: ModelOptions,
    keys: Annotated[
        bool, typer.Option("--keys", help="Also check that the keys reproduce the predictions of the model.")
    ] = False,
    receipt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also check a receipt of lacuna forget: its sentences are gone.")
    ] = None,
    json: Json = False,
) -> None:
    """Check every byte of a store against its hash, and every column for validity.

    Exit code 2 if anything is wrong; each problem is named with its file. With a receipt, it also compares all texts of
    the memory with it.

    Example: `lacuna verify it/store`
    """
    store = memory_folder(memory)
    report = verify_store(store, BarProgress())
    gone = None if receipt is None else check_receipt(store, receipt)
    predictions = None
    if keys and report.sound:
        model, opened = _open_checked(system, memory)
        predictions = compare_predictions(opened, model.predict, BarProgress())
    if json:
        parts = {"predictions": predictions, "receipt": gone}
        print_json(report.as_json() | {name: part.as_json() for name, part in parts.items() if part})
    else:
        for problem in report.problems:
            typer.echo(problem)
    if not report.sound:
        raise StoreError(f"{store}: {len(report.problems)} problems; copy the store again, or build it again")
    if gone is not None and gone.listed:
        raise StoreError(
            f"{receipt}: {gone.listed:,} of {gone.sentences:,} sentences are in {store}; forget them again"
        )
    if gone is not None and not json:
        rest = f"{gone.on_disk:,} still have bytes in the files: lacuna compact {store}" if gone.on_disk else "no bytes"
        typer.echo(f"{receipt}: {gone.sentences:,} sentences are gone; {rest}")
    if not json:
        typer.echo(f"{store}: sound; {report.entries:,} entries, {report.files:,} files, {report.bytes / 1e6:,.1f} MB")
    if predictions and not json:
        typer.echo(f"predictions: {predictions.mismatches:,} of {predictions.entries:,} differ from those of the keys")
    if predictions and not predictions.sound:
        raise StoreError(f"{store}: its keys do not give its predictions; build it again with this model")


def import_(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder or file of the other toolkit; only read.")],
    into: Annotated[Path, typer.Option(help="New folder for the model or the store.")],
    model: Annotated[
        str | None, typer.Option(help="Stores: the model that the keys come from, a folder or a hub name.")
    ] = None,
    languages: LanguagesOption = None,
    key: Annotated[
        str | None, typer.Option(help="Stores: out or ffn_in; default: what the toolkit writes by default.")
    ] = None,
    entries: Annotated[int | None, typer.Option(help="Stores: import only this number of entries.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Models: the file to import if a folder has several.")] = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Import a model (fairseq, CTranslate2, Argos) or a store (knn-box, adaptive-knn-mt, knn-transformers).

    A store needs --model: the model that it was made with, imported before.

    Example: `lacuna import wmt19.de-en --into model`, then `lacuna import datastore/it --model model --into it/store`
    """
    if not source.exists():
        raise SettingError(f"{source}: no such file or folder; name what is to be imported")
    if recognize_store(source):
        if model is None:
            raise SettingError(f"{source}: a store needs --model: name the model that its keys come from")
        if checkpoint is not None:
            raise SettingError(f"{source}: a store, and --checkpoint is for models; leave it out")
        check_unused(into, StoreError)  # before the model is loaded
        loaded = ModelOptions(model=model, languages=languages, device=device, threads=threads).load()
        report = import_store(source, into, loaded, key=key, entries=entries, progress=BarProgress())
        return print_json(report.as_json()) if json else _print_store_import(report, model)
    if model is not None or key is not None or entries is not None:
        raise SettingError(f"{source}: not a store ({_looked_for()}); --model, --key and --entries are for stores")
    imported = _import_model(source, into, languages, checkpoint)
    return print_json(imported.as_json()) if json else _print_model_import(imported)


def _read_system(domain: Path) -> SystemRecord:
    from lacuna.domain import read_system_record

    return read_system_record(domain)


def _open_checked(system: ModelOptions, memory: Path) -> tuple[Model, Store]:
    """Load the model and open a memory that was built with it."""
    folder, model = system.load_for(memory)
    opened = open_store(folder)
    opened.check_model(model)
    return model, opened


def _import_model(source: Path, into: Path, languages: Languages | None, checkpoint: str | None) -> ImportReport:
    from lacuna.models.importing import import_model, recognize

    if recognize(source) is None:
        raise SettingError(
            f"{source}: nothing that can be imported; looked for a store ({_looked_for()}) and for a model "
            "(fairseq: .pt and dict.*.txt; CTranslate2: model.bin and vocabulary; Argos: .argosmodel)"
        )
    return import_model(source, into, languages=languages, checkpoint=checkpoint, progress=BarProgress())


def _looked_for() -> str:
    return "; ".join(f"{name}: {files}" for name, files in LOOKED_FOR.items())


def _print_entries(entries: list[Entry], text: Callable[[int], str]) -> None:
    for sentence in dict.fromkeys(entry.sentence for entry in entries):
        chosen = [entry for entry in entries if entry.sentence == sentence]
        origin = chosen[0].pair.origin
        typer.echo(
            f"sentence {sentence}, {origin.file}:{origin.place}\n  {chosen[0].pair.source}\n  {chosen[0].pair.target}"
        )
        rows = [
            (e.entry, e.position, text(e.value), text(e.prediction), "yes" if e.known else "no", f"{e.p_gold:.3f}")
            + (("",) if e.margin is None else (str(e.margin),))
            for e in chosen
        ]
        print_table("", ["entry", "position", "token", "prediction", "known", "p", "margin"], rows)
    if not entries:
        typer.echo("no such entry")


def _print_store(
    report: StoreReport, json: bool, cleaning: CleaningReport | None = None, system: SystemRecord | None = None
) -> None:
    content = report.as_json()
    if system is not None:
        content["system"] = system.model_dump(mode="json")
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
        ("precision of the keys", manifest.model.precision),
        ("made from", "a corpus" if manifest.parent is None else f"another store, by {manifest.parent.made_by}"),
        ("index", "none" if report.index is None else _index_text(report.index)),
        *([("cleaning", cleaning.summary())] if cleaning else []),
    ]
    print_table(str(report.path), ["", ""], [(name, str(value)) for name, value in rows])
    if system is not None:
        print_table("The system", ["", ""], system.rows())
    if report.margin_histogram:
        print_histogram("Entries by knowledge margin", report.margin_histogram)
    if report.margins_outdated:
        new = f", and {report.unmeasured:,} entries have none" if report.unmeasured else ""
        typer.echo(_OUTDATED.format(new=new, path=report.path))


def _index_text(index: dict[str, object]) -> str:
    return f"{index['kind']}" + ("" if index["current"] else " (the store has changed since: build it again)")


def _print_store_import(report: StoreImport, model: str) -> None:
    rows = [
        ("a store of", report.kind),
        ("entries", f"{report.entries:,}"),
        ("of these known", f"{report.known:,} ({report.known / report.entries:.1%})"),
        ("sentences", f"{report.sentences:,}"),
        ("of these without end token", f"{report.without_end:,}"),
        ("empty rows left out", f"{report.ghosts:,}"),
        *((f"{name} that differ", f"{count:,}") for name, count in report.differing.items()),
        ("keys", report.key if report.key == "out" else f"{report.key}, carried to out"),
        ("model", model),
    ]
    print_table(str(report.into), ["", ""], rows)


def _print_model_import(report: ImportReport) -> None:
    rows = [(name, _text(value)) for name, value in report.as_json().items() if value not in (None, (), [])]
    print_table(str(report.into), ["", ""], rows)


def _text(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
