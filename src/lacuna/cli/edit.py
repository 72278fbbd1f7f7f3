"""``lacuna add``, ``forget``, ``replace``, ``compact``, ``log`` and ``scan``: edit a memory, and look into it."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from lacuna.cli.options import (
    CORPUS_HELP,
    Json,
    LanguagesOption,
    MemoryPath,
    ModelOptions,
    check_output,
    memory_folder,
    memory_place,
)
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.corpora import DEFAULT_CLEANING, read_corpus
from lacuna.datastore import open_store
from lacuna.datastore.log import read_log
from lacuna.errors import LacunaWarning, SettingError
from lacuna.memory import KINDS, EditReport, Selection, compact_memory, memory_at, scan_sentences

MemoryPlace = Annotated[
    str,
    typer.Argument(metavar="MEMORY", help="Folder of a memory or of a domain, or milvus://HOST/COLLECTION."),
]


def add(
    memory: MemoryPlace,
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help=CORPUS_HELP)],
    system: ModelOptions,
    tag: Annotated[str | None, typer.Option(help="Label of the pairs, for forget --tag.")] = None,
    cleaning: Annotated[bool, typer.Option("--clean/--no-clean", help="Drop useless pairs and duplicates.")] = True,
    prune: Annotated[
        bool, typer.Option("--prune", help="Keep only what PLAC would keep, as when the memory was pruned.")
    ] = False,
    json: Json = False,
) -> None:
    """Add sentence pairs to a memory; a folder that does not exist becomes a new memory.

    A pair with an id (tuid in TMX, "id" in JSONL) replaces the pair of the same id. Pairs that are there already are
    not added again. If it is killed, the memory is as before; the same command resumes.

    Example: `lacuna add it/memory corrections.tsv --tag april`

    Example: `lacuna add milvus://localhost/it corrections.tsv`
    """
    pairs = list(read_corpus(corpus, languages=system.languages, tag=tag))
    conditions = DEFAULT_CLEANING if cleaning else None
    place, model = system.load_for(memory)
    with warnings.catch_warnings():
        # The report has the number of skipped pairs.
        warnings.filterwarnings("ignore", ".* pairs are too long for the model", LacunaWarning)
        report = memory_at(place).add(pairs, model, cleaning=conditions, prune=prune, progress=BarProgress())
    _print(memory, report, json)


def forget(
    memory: MemoryPlace,
    sentence: Annotated[list[int] | None, typer.Option(help="Sentence number; may be given several times.")] = None,
    sentences: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with one sentence number per line; - for stdin.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Sentences with this label.")] = None,
    origin: Annotated[str | None, typer.Option(help="Sentences from this file, as named when it was added.")] = None,
    matching: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Sentences whose source or target matches.")
    ] = None,
    pairs: Annotated[str | None, typer.Option(metavar="CORPUS", help="The pairs of a corpus.")] = None,
    languages: LanguagesOption = None,
    receipt: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a receipt, without any text.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be forgotten.")] = False,
    json: Json = False,
) -> None:
    """Forget sentences: no search, explanation or listing finds them any more.

    With several conditions, sentences that meet all of them are forgotten. `lacuna compact` then removes their bytes
    from the files.

    Example: `lacuna forget it/memory --tag client-a --receipt receipt.json`
    """
    check_output("--receipt", receipt)
    numbers = None if sentence is None and sentences is None else (*(sentence or ()), *_read_numbers(sentences))
    given = None if pairs is None else tuple(read_corpus(pairs, languages=languages))
    selection = Selection(numbers, tag, origin, matching, given)
    _print(memory, memory_at(memory_place(memory)).forget(selection, dry_run=dry_run, receipt=receipt), json)


def replace(
    memory: MemoryPlace,
    system: ModelOptions,
    sentence: Annotated[int, typer.Option(help="Number of the sentence.")],
    target: Annotated[str, typer.Option(help="The right translation.")],
    json: Json = False,
) -> None:
    """Correct the translation of a sentence; the corrected pair gets a new number.

    Example: `lacuna replace it/memory --sentence 12 --target "Save the file."`
    """
    place, model = system.load_for(memory)
    _print(memory, memory_at(place).replace(sentence, target, model, progress=BarProgress()), json)


def compact(
    memory: MemoryPath,
    kind: Annotated[str, typer.Option(help="Kind of index, as in lacuna index.")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the index.")] = 1,
    json: Json = False,
) -> None:
    """Write a memory as one segment, without the bytes of forgotten sentences.

    Example: `lacuna compact it/memory`
    """
    _print(memory, compact_memory(memory_folder(memory), kind, seed=seed, progress=BarProgress()), json)


def log(memory: MemoryPath, json: Json = False) -> None:
    """Show what was done to a memory, and when.

    Example: `lacuna log it/memory`
    """
    entries = read_log(memory_folder(memory))
    if json:
        return print_json({"memory": str(memory), "commits": [entry.as_json() for entry in entries]})
    names = ["commit", "time", "action", "added", "forgotten", "entries", "segments"]
    print_table(str(memory), names, [tuple(str(entry.as_json()[name]) for name in names) for entry in entries])


def scan(
    memory: MemoryPath,
    kind: Annotated[list[str] | None, typer.Option(help=f"What to look for: {', '.join(KINDS)}; default: all.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Show what was found.")] = False,
    numbers: Annotated[bool, typer.Option("--numbers", help="Print sentence numbers only, for forget.")] = False,
    json: Json = False,
) -> None:
    """List sentences that look personal or secret: e-mail addresses, phone, card and account numbers, keys, tokens.

    It finds typical forms, not names or postal addresses.

    Example: `lacuna scan it/memory --numbers | lacuna forget it/memory --sentences -`
    """
    findings = list(scan_sentences(open_store(memory_folder(memory)).sentences.present(), kind or tuple(KINDS)))
    sentences = sorted({finding.sentence for finding in findings})
    if json:
        content = [finding.as_json(show) for finding in findings]
        return print_json({"memory": str(memory), "sentences": len(sentences), "findings": content})
    if numbers:
        return typer.echo("\n".join(map(str, sentences)), nl=bool(sentences))
    if show:
        rows = [(str(each.sentence), each.kind, each.side, each.text) for each in findings]
        return print_table(str(memory), ["sentence", "kind", "side", "found"], rows)
    counts = Counter(finding.kind for finding in findings)
    print_table(str(memory), ["kind", "found"], [(name, f"{counts[name]:,}") for name in kind or KINDS])
    typer.echo(f"{len(sentences):,} sentences; --show lists them")


def _read_numbers(file: str | None) -> list[int]:
    if file is None:
        return []
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return [int(line) for line in text.split()]
    except OSError as error:
        raise SettingError(
            f"--sentences: {file} cannot be read ({error.strerror}); name a file, or - for stdin"
        ) from error
    except ValueError as error:
        raise SettingError(f"--sentences: {file} has a line that is no number ({error}); one per line") from error


def _print(memory: Path | str, report: EditReport, json: bool) -> None:
    if json:
        return print_json({"memory": str(memory), **report.as_json()})
    parts = []
    if report.added:
        last = f" to {report.added[-1]}" if len(report.added) > 1 else ""
        parts.append(f"added {len(report.added):,} (number {report.added[0]}{last})")
    if report.forgotten:
        parts.append(f"{'forgot' if report.commit else 'would forget'} {len(report.forgotten):,}")
    parts += [f"{report.repeated:,} were there already"] if report.repeated else []
    parts += [f"{report.skipped:,} are too long for the model{_kept(report)}"] if report.skipped else []
    done = f"sentences: {', '.join(parts)}" if parts else "compacted" if report.commit else "nothing to do"
    state = f"{report.entries:,} entries in {report.segments:,} segment{'s' if report.segments != 1 else ''}"
    typer.echo(f"{memory}: {done}; {state}")


def _kept(report: EditReport) -> str:
    return f", so {report.kept:,} earlier pairs with the same id stay" if report.kept else ""
