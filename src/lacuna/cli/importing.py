"""``lacuna import``: a model or a store of another toolkit, made one of ours. What it is, its content says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.options import Device, Json, LanguagesOption, Threads, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.datastore.importing import LOOKED_FOR, StoreImport, import_store, recognize_store
from lacuna.errors import SettingError, StoreError
from lacuna.files import check_unused
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.models.importing import ImportReport


def import_(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder or file of the other toolkit; only read.")],
    into: Annotated[Path, typer.Option(help="New folder for the model or the store.")],
    model: Annotated[
        str | None, typer.Option(help="Stores: the model that the keys come from, a folder or a hub name.")
    ] = None,
    languages: LanguagesOption = None,
    key: Annotated[
        str | None, typer.Option(help="Stores: out or ffn_in; default: what the toolkit writes if left alone.")
    ] = None,
    entries: Annotated[int | None, typer.Option(help="Stores: take only so many entries, from the first.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Models: the file to take where a folder has several.")] = None,
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
    direction = None if languages is None else Languages.parse(languages)
    use_threads(threads)
    if recognize_store(source):
        if model is None:
            raise SettingError(f"{source}: a store needs --model: name the model that its keys come from")
        if checkpoint is not None:
            raise SettingError(f"{source}: a store, and --checkpoint is for models; leave it out")
        report = _import_store(source, into, model, direction, key, entries, device)
        return print_json(report.as_json()) if json else _print_store(report, model)
    if model is not None or key is not None or entries is not None:
        raise SettingError(f"{source}: not a store ({_looked_for()}); --model, --key and --entries are for stores")
    imported = _import_model(source, into, direction, checkpoint)
    return print_json(imported.as_json()) if json else _print_model(imported)


def _import_store(
    source: Path,
    into: Path,
    model: str,
    languages: Languages | None,
    key: str | None,
    entries: int | None,
    device: str,
) -> StoreImport:
    from lacuna.models import load_model

    check_unused(into, StoreError)  # before the model is loaded
    loaded = load_model(model, device=device, languages=languages)
    return import_store(source, into, loaded, key=key, entries=entries, progress=BarProgress())


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


def _print_store(report: StoreImport, model: str) -> None:
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


def _print_model(report: ImportReport) -> None:
    rows = [(name, _text(value)) for name, value in report.as_json().items() if value not in (None, (), [])]
    print_table(str(report.into), ["", ""], rows)


def _text(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
