"""The edits of a memory that is a collection in Milvus: add, forget and replace.

Any number of processes may edit it at once. A new pair gets its number from its content, so that two processes that add
the same pair write the same entries. The sentence is written before its entries and deleted after them: an entry that a
search finds has its sentence. When an edit returns, all later searches see it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from lacuna.corpora.cleaning import DEFAULT_CLEANING, Cleaning, clean
from lacuna.datastore import Store
from lacuna.datastore.decoded_windows import TeacherForcingModel
from lacuna.datastore.unsaved import make_unsaved_store
from lacuna.memory.editing import EditReport, corrected_pair, fitting_pairs, last_of_each_id, same_pair
from lacuna.memory.lookup import MemorySentences, check_sentence, pair_key
from lacuna.milvus import Collection
from lacuna.milvus.collection import EntryRows
from lacuna.milvus.schema import OWN_SEGMENT, check_tag, content_of, own_entries, own_sentence
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair

_PAIRS_AT_ONCE = 1000
_NOTHING = EditReport(None, (), (), 0, 0, 0, 0, 1)


def add_to_collection(
    collection: Collection,
    pairs: Iterable[SentencePair],
    model: TeacherForcingModel,
    *,
    cleaning: Cleaning | None = DEFAULT_CLEANING,
    progress: Progress = SILENT,
) -> EditReport:
    """Add sentence pairs; as :meth:`~lacuna.memory.Memory.add`.

    Entries are sent in parts. If it is interrupted, the same call adds what is missing.
    """
    fitting, too_long = fitting_pairs(str(collection.address), clean(pairs, cleaning), model)
    new = iter(last_of_each_id(fitting))
    own = {pair_key(pair) for pair in too_long if pair.id is not None}
    kept = {pair_key(pair) for pair in collection.sentences_like(list(own)).values()} & own
    report = replace(_NOTHING, skipped=len(too_long), kept=len(kept))
    progress.start("add", None, "pairs")
    while batch := list(islice(new, _PAIRS_AT_ONCE)):
        report = _joined(report, _add(collection, batch, model))
        progress.advance(len(batch))
    progress.finish()
    return _finished(collection, report)


def forget_in_collection(collection: Collection, sentences: Sequence[int], *, dry_run: bool = False) -> EditReport:
    """Forget sentences: they are deleted from the collection.

    :param dry_run: Only return what would be forgotten.
    """
    report = replace(_NOTHING, forgotten=tuple(sentences))
    if dry_run or not sentences:
        return _finished(collection, report, commit=False)
    collection.delete_sentences(sentences)
    return _finished(collection, report)


def replace_in_collection(
    collection: Collection, sentences: MemorySentences, sentence: int, target: str, model: TeacherForcingModel
) -> EditReport:
    """Replace the translation of a sentence; the corrected pair gets another number."""
    address = str(collection.address)
    check_sentence(sentences, sentence, address)
    report = _write(collection, [corrected_pair(address, sentences[sentence], target, model)], model)
    if sentence not in report.added:
        collection.delete_sentences([sentence])
    return _finished(collection, replace(report, forgotten=(sentence,)))


def numbers_of(collection: Collection, pairs: Sequence[SentencePair]) -> tuple[int, ...]:
    """Return the sentence number of each pair, all of which are in the collection."""
    candidates = collection.sentences_like([pair_key(pair) for pair in pairs])
    numbers = {pair_key(pair): number for number, pair in sorted(candidates.items())}
    return tuple(numbers[pair_key(pair)] for pair in pairs)


def _add(collection: Collection, pairs: Sequence[SentencePair], model: TeacherForcingModel) -> EditReport:
    known: dict[tuple[str, ...], dict[int, SentencePair]] = {}
    for number, pair in collection.sentences_like([pair_key(pair) for pair in pairs]).items():
        known.setdefault(pair_key(pair), {})[number] = pair
    new = [pair for pair in pairs if not any(same_pair(pair, old) for old in known.get(pair_key(pair), {}).values())]
    report = _write(collection, new, model) if new else _NOTHING
    # Only a pair with an id has a key that another pair can have.
    replaced = [number for pair in new for number in known.get(pair_key(pair), {}) if number not in report.added]
    if replaced:
        collection.delete_sentences(replaced)
    return replace(report, forgotten=tuple(replaced), repeated=len(pairs) - len(new))


def _write(collection: Collection, pairs: Sequence[SentencePair], model: TeacherForcingModel) -> EditReport:
    """Compute the entries of new pairs, all of which fit the model, and write them."""
    entries = make_unsaved_store(model, pairs, str(collection.address))
    numbers = _free_numbers(collection, list(entries.sentences))
    collection.write_sentences(dict(zip(numbers, entries.sentences, strict=True)), pair_key)
    collection.write_entries(_rows(collection, entries, numbers))
    collection.settle()
    return replace(_NOTHING, added=tuple(numbers))


def _free_numbers(collection: Collection, pairs: Sequence[SentencePair]) -> list[int]:
    """Return the number of each pair; two pairs of the same hash get different ones."""
    numbers = [own_sentence(pair) for pair in pairs]
    taken = collection.sentences(numbers, fresh=True)
    for index, pair in enumerate(pairs):
        attempt = 0
        while content_of(taken.setdefault(numbers[index], pair)) != content_of(pair):
            attempt += 1
            numbers[index] = own_sentence(pair, attempt)
            taken |= collection.sentences([numbers[index]], fresh=True)
    return numbers


def _rows(collection: Collection, entries: Store, numbers: Sequence[int]) -> EntryRows:
    lengths = np.bincount(entries.sentence, minlength=len(numbers))
    ids = [own_entries(number, length) for number, length in zip(numbers, lengths.tolist(), strict=True)]
    return EntryRows.of(
        entries,
        np.arange(entries.entries),
        collection.mean,
        ids=np.concatenate(ids),
        segments=np.full(entries.entries, OWN_SEGMENT, np.int64),
        sentences=np.repeat(np.array(numbers, np.int64), lengths),
        tags=np.repeat([check_tag(pair.origin.tag or "") for pair in entries.sentences], lengths).tolist(),
    )


def _joined(report: EditReport, other: EditReport) -> EditReport:
    return replace(
        report,
        added=report.added + other.added,
        forgotten=report.forgotten + other.forgotten,
        repeated=report.repeated + other.repeated,
    )


def _finished(collection: Collection, report: EditReport, *, commit: bool = True) -> EditReport:
    """Complete a report. A collection has no commits; the time in milliseconds tells edits apart."""
    done = commit and bool(report.added or report.forgotten)
    return replace(
        report,
        commit=time.time_ns() // 1_000_000 if done else None,
        entries=collection.count(fresh=True),
        sentences=collection.count_sentences(),
    )
