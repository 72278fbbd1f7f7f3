"""``lacuna translate``: translate lines of text, paragraphs and files."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuna.cli.commands import with_default
from lacuna.cli.options import (
    CalibrationFolder,
    ClusterOptions,
    FallbackOption,
    OptionalSystemOptions,
    check_at_least_one,
)
from lacuna.cli.render import BarProgress, print_json, print_line
from lacuna.errors import SettingError
from lacuna.progress import SILENT

if TYPE_CHECKING:
    from lacuna.documents import DocumentReport, DocumentSettings, Paragraph


def translate(
    system: OptionalSystemOptions,
    cluster: ClusterOptions,
    file: Annotated[Path | None, typer.Argument(help="Text, or with --into any file; default: standard input.")] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="Write the translated file here; its suffix says the format, such as .po or .html."),
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line is one sentence; do not split it.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --into: translate again what has a translation.")
    ] = False,
    exact_matches: Annotated[
        bool, typer.Option(help="With --into: take the translation of the same segment in a memory.")
    ] = True,
    review_below: Annotated[
        float | None,
        typer.Option(
            help=with_default(
                "With --into: mark translations with a lower confidence for review; 0 for none",
                "lacuna.documents.translation:REVIEW_BELOW",
            )
        ),
    ] = None,
    calibration: CalibrationFolder = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(
            help=with_default(
                "Scores are divided by the length to this power", "lacuna.decoding:BeamSettings.length_penalty"
            )
        ),
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Search only where the gate of the combiner says so; see lacuna fit --gate.")
    ] = False,
    int8: Annotated[
        bool | None,
        typer.Option(
            "--int8/--no-int8",
            help="8-bit weights: faster, and nearly the same translations. By default they are used where that is "
            "possible: on a CPU, with models like OPUS-MT, if numba is installed.",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Maximum number of sentences in a batch.")] = 32,
    without_memory_on_failure: FallbackOption = False,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, with the evidence of every token.")
    ] = False,
) -> None:
    """Translate text or a file, with or without memories.

    Each line of text is a paragraph, which is translated sentence by sentence; translations are printed in order as
    they become ready. With --into, a file is translated and keeps its format: text, Markdown, HTML, PO, XLIFF, TMX or
    JSON messages.

    Example: `echo "Klicken Sie auf OK." | lacuna translate --domain it`

    Example: `lacuna translate messages.po --domain it --into messages.en.po`

    Example: `echo "Klicken Sie auf OK." | lacuna translate --memory milvus://localhost/it --tag client-a`
    """
    from lacuna.documents import DocumentSettings, check_review, translate_file, translate_texts
    from lacuna.translator.streaming import open_lines

    check_at_least_one("--batch-size", batch_size)
    settings = DocumentSettings(overwrite=overwrite, exact_matches=exact_matches, review_below=review_below)
    texts: Iterator[str] = iter(())
    if into is None:
        _check_text(file, settings)
        texts = open_lines(file)
    elif file is None:
        raise SettingError("--into: needs a file to translate; name one")
    else:
        _check_file(file, into, lines)
    translator = system.open(
        calibration=calibration,
        length_penalty=length_penalty,
        gate=gate,
        int8=int8,
        fallback=without_memory_on_failure,
    )
    check_review(translator, settings)
    # On a terminal the translations themselves show the progress.
    progress = SILENT if into is None and sys.stdout.isatty() else BarProgress()
    folders = [folder for memory in translator.memories for folder in memory.folders]
    with cluster.open(reads=folders) as pool:
        shared: dict[str, Any] = {"batch_size": batch_size, "progress": progress, "pool": pool}
        if file is not None and into is not None:
            report = translate_file(translator, file, into, settings=settings, tag=system.tag, **shared)
            alone = report.without_memory
            print_json(report.as_json() | {"into": str(into)}) if json else _print_report(report, into)
        else:
            alone = _print_texts(translate_texts(translator, texts, lines=lines, evidence=json, **shared), json)
    if alone:
        typer.echo(f"{alone:,} texts were translated without memory, which did not answer", err=True)
    if gate:
        count = translator.search_count
        typer.echo(f"searched at {count.searched:,} of {count.rows:,} steps", err=True)


def _print_texts(paragraphs: Iterator[Paragraph], json: bool) -> int:
    """Print the translation of each line; return how many were made without a memory that did not answer."""
    alone = 0
    for paragraph in paragraphs:
        print_line(_json_line(paragraph) if json else paragraph.text)
        alone += paragraph.without_memory
    return alone


def _check_text(file: Path | None, settings: DocumentSettings) -> None:
    from lacuna.documents import is_document, is_plain_text

    if settings.overwrite or settings.review_below is not None:
        raise SettingError("--overwrite and --review-below are for files; give --into OUT")
    if file is None or is_plain_text(file):
        return
    if is_document(file.name):
        raise SettingError(f"{file}: has a format of its own; write its translation into a file with --into OUT")
    raise SettingError(f"{file}: is a corpus with both languages; give a text file with its source sentences")


def _check_file(file: Path, into: Path, lines: bool) -> None:
    from lacuna.documents import check_files

    if lines:
        raise SettingError("--lines: is for text on standard output; leave out --into or --lines")
    check_files(file, into)


def _print_report(report: DocumentReport, into: Path) -> None:
    parts = [f"{report.translated:,} translated", f"{report.matched:,} taken from the memory", f"{report.kept:,} kept"]
    typer.echo(f"{into}: {report.segments:,} segments: {', '.join(parts)}; {report.review:,} to review")
    for reviewed in report.least_sure[:10]:
        sure = "" if reviewed.confidence is None else f" {reviewed.confidence:.2f}"
        typer.echo(f"  {reviewed.place}{sure} {reviewed.reason}: {_short(reviewed.source)} -> {_short(reviewed.text)}")


def _short(text: str, most: int = 60) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def _json_line(paragraph: Paragraph) -> str:
    content: dict[str, Any] = {"text": paragraph.text, "score": paragraph.score}
    translations = [sentence.translation for sentence in paragraph.sentences if sentence.translation is not None]
    content["steps"] = [asdict(step) for translation in translations for step in translation.steps]
    if paragraph.without_memory:
        content["without_memory"] = True
    if paragraph.flag:
        content["flag"] = paragraph.flag
    return json_format.dumps(content, ensure_ascii=False)
