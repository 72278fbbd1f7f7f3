"""The edits of a memory in a folder: add, forget, replace and compact. Each is one atomic commit.

After a kill at any moment the memory is as before the edit or as after it. Readers keep the state that they opened.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.files import writing
from lacuna.corpora.cleaning import DEFAULT_CLEANING, Cleaning, clean
from lacuna.datastore import Store, build_store, open_store
from lacuna.datastore.copying import copy_store
from lacuna.datastore.decoded_windows import TeacherForcingModel
from lacuna.datastore.log import Action
from lacuna.datastore.manifest import Parent
from lacuna.datastore.segments import SegmentRecord
from lacuna.datastore.store import join_segments, open_commit
from lacuna.errors import StoreError
from lacuna.index import build_index, check_kind
from lacuna.index.kinds import AUTO
from lacuna.margin.storage import write_margins
from lacuna.memory.editing import MERGED_AT_ONCE, EditReport, corrected_pair, fitting_pairs, last_of_each_id, same_pair
from lacuna.memory.lookup import Selection, SentenceLookup, check_sentence
from lacuna.memory.publication import sync_folder
from lacuna.memory.receipts import Receipt, receipt_file
from lacuna.memory.segment_pruning import SegmentPruning, current_margins
from lacuna.memory.writer import MemoryWriter, committed, edit_memory
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair

_MIN_TIER = 1024


def add_pairs(
    memory: str | Path,
    pairs: Iterable[SentencePair],
    model: TeacherForcingModel,
    *,
    cleaning: Cleaning | None = DEFAULT_CLEANING,
    lookup: SentenceLookup | None = None,
    before: Store | None = None,
    merge: bool = True,
    prune: bool = False,
    progress: Progress = SILENT,
) -> EditReport:
    """Add sentence pairs to a memory, as :meth:`~lacuna.memory.Memory.add`; a missing folder becomes a new memory.

    :param lookup: Kept by callers that add often.
    :param before: The same memory, opened earlier, to open it faster.
    """
    fitting, too_long = fitting_pairs(str(memory), clean(pairs, cleaning), model)
    new = last_of_each_id(fitting)
    with edit_memory(Path(memory), model, before) as (writer, store):
        lookup = lookup or SentenceLookup()
        known_sentences = lookup.find(store, new)
        known = {number: store.sentences[sentence] for number, sentence in known_sentences.items()}
        fresh = [n for n, pair in enumerate(new) if n not in known or not same_pair(pair, known[n])]
        kept = len(lookup.find(store, [pair for pair in too_long if pair.id is not None]))
        if not fresh:
            return replace(_report(writer, None, len(new)), skipped=len(too_long), kept=kept)
        pruning = SegmentPruning.of(store, progress) if prune else None
        replaced = [known_sentences[number] for number in fresh if number in known_sentences]
        # What is too long is counted in the manifest of the segment.
        added = [*(new[number] for number in fresh), *too_long]
        report = _commit(writer, store, "add", added, replaced, model, len(new) - len(fresh), progress, pruning)
        first = _worth_merging(writer.manifest.segments) if merge else None
        if first is not None:
            with committed(writer.folder, "its small segments were not merged"):
                merged = _merge(writer, open_store(writer.folder), first, AUTO, 1, progress)
                report = replace(report, segments=merged.segments)
        _sync(writer.folder)
        return replace(report, kept=kept)


def forget_sentences(
    memory: str | Path,
    selection: Selection,
    *,
    dry_run: bool = False,
    receipt: Path | None = None,
    before: Store | None = None,
) -> EditReport:
    """Forget the selected sentences, as :meth:`~lacuna.memory.Memory.forget`.

    :param before: The same memory, opened earlier, to open it faster.
    """
    # Refuses what is wrong before anything is written.
    selection.check(open_store(memory, before=before).sentences, str(memory))
    with edit_memory(Path(memory), before=before) as (writer, store):
        chosen = selection.find(store.sentences, str(memory))
        if dry_run or not len(chosen):
            return replace(_report(writer, None), forgotten=tuple(chosen.tolist()))
        writer.begin()
        records = writer.forgetting(store, chosen)
        with nullcontext() if receipt is None else _receipt(receipt, writer, store, records, chosen):
            commit = writer.commit("forget", records, added=0, forgotten=len(chosen)).commit
        _sync(writer.folder)
        return replace(_report(writer, commit), forgotten=tuple(chosen.tolist()))


def replace_sentence(
    memory: str | Path,
    sentence: int,
    target: str,
    model: TeacherForcingModel,
    *,
    before: Store | None = None,
    progress: Progress = SILENT,
) -> EditReport:
    """Replace the translation of a sentence; the corrected pair gets a new sentence id.

    :param before: The same memory, opened earlier, to open it faster.
    """
    now = open_store(memory, before=before)
    check_sentence(now.sentences, sentence, str(memory))  # refuses it before anything is written
    corrected_pair(str(memory), now.sentences[sentence], target, model)
    with edit_memory(Path(memory), model, before) as (writer, store):
        check_sentence(store.sentences, sentence, str(memory))
        pair = replace(store.sentences[sentence], target=target)
        report = _commit(writer, store, "replace", [pair], [sentence], model, 0, progress)
        _sync(writer.folder)
        return report


def compact_memory(
    memory: str | Path, kind: str = AUTO, *, tiers: bool = False, seed: int = 1, progress: Progress = SILENT
) -> EditReport:
    """Write all segments as one, without the forgotten sentences, and delete the old ones.

    :param kind: Kind of index of the new segment.
    :param tiers: Merge only segments of about the same size, where it pays.
    """
    now = open_store(memory)
    check_kind(kind, now.entries, now.dimension)  # refuses an unknown kind before anything is written
    with edit_memory(Path(memory)) as (writer, store):
        records = writer.manifest.segments
        first = _worth_merging(records) if tiers else 0
        compacted = len(records) == 1 and records[0].forgotten is None and kind == AUTO
        if first is None or (compacted and not tiers):
            return _report(writer, None)
        report = _merge(writer, store, first, kind, seed, progress)
        _sync(writer.folder)
        return report


def _commit(
    writer: MemoryWriter,
    store: Store,
    action: Action,
    pairs: list[SentencePair],
    replaced: list[int],
    model: TeacherForcingModel,
    repeated: int,
    progress: Progress,
    pruning: SegmentPruning | None = None,
) -> EditReport:
    """Build a segment of new pairs, and commit it together with the sentences that they replace."""
    writer.begin()
    segment = _build(writer.new_folder(), pairs, model, progress)
    if pruning is not None:
        segment = pruning.prune(segment, writer.manifest, progress)
    gone = np.unique(np.array(replaced, dtype=np.int64))
    first = len(store.sentences)
    records = (*writer.forgetting(store, gone), writer.record(segment))
    entry = writer.commit(action, records, added=len(segment.sentences), forgotten=len(gone))
    return replace(
        _report(writer, entry.commit, repeated),
        added=tuple(range(first, first + len(segment.sentences))),
        forgotten=tuple(gone.tolist()),
        skipped=segment.manifest.skipped,
    )


def _build(folder: Path, pairs: list[SentencePair], model: TeacherForcingModel, progress: Progress) -> Store:
    """Build a segment with its index, or resume a killed build of the same pairs."""
    try:
        segment = build_store(model, pairs, folder, cleaning=None, total=len(pairs), progress=progress)
    except StoreError:
        if not folder.exists():
            raise
        shutil.rmtree(folder)  # a killed build of other pairs
        segment = build_store(model, pairs, folder, cleaning=None, total=len(pairs), progress=progress)
    build_index(segment, progress=progress)
    return segment


def _worth_merging(records: Sequence[SegmentRecord]) -> int | None:
    """Return the first of the last segments that are worth merging, or ``None``."""
    if not records:
        return None
    tier = _tier(records[-1])
    count = sum(1 for _ in takewhile(lambda record: _tier(record) <= tier, reversed(records)))
    return len(records) - count if count >= MERGED_AT_ONCE else None


def _tier(record: SegmentRecord) -> int:
    """Return the number of times that a segment of the smallest size can grow until it has this size."""
    return int(np.log(max(1.0, record.entries / _MIN_TIER)) / np.log(MERGED_AT_ONCE))


def _merge(writer: MemoryWriter, store: Store, first: int, kind: str, seed: int, progress: Progress) -> EditReport:
    """Merge all segments from ``first`` on."""
    joined = join_segments(writer.folder, store.parts[first:], writer.manifest)
    margins = current_margins(store, progress)
    writer.begin()
    folder = writer.new_folder()
    with writing(writer.folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        copy_store(joined, folder, _parent(joined), join_shards=True, progress=progress)
    segment = open_store(folder)
    build_index(segment, kind, seed=seed, progress=progress)
    records = (*writer.manifest.segments[:first], writer.record(segment))
    commit = writer.commit("compact", records, added=0, forgotten=0).commit
    if margins is not None:  # entries and their order are the same
        settings = margins.manifest
        with committed(writer.folder, f"its margins were not kept, measure them with: lacuna margin {writer.folder}"):
            write_margins(
                open_store(writer.folder),
                margins.values,
                settings.max_margin,
                settings.approximate,
                settings.agreement,
                margins.unknown_distance,
            )
    return _report(writer, commit)


def _sync(folder: Path) -> None:
    """Bring the collection in Milvus up to date, if the memory has one."""
    with committed(folder, "its collection in Milvus is not up to date"):
        sync_folder(folder)


def _receipt(
    path: Path, writer: MemoryWriter, store: Store, records: Sequence[SegmentRecord], forgotten: NDArray[np.int64]
) -> AbstractContextManager[None]:
    """Return a context for the commit that forgets sentences: the receipt is written before, and appears after it."""
    manifest = writer.after(records)
    after = open_commit(writer.folder, manifest, store)
    pairs = [store.sentences[sentence] for sentence in forgotten.tolist()]
    return receipt_file(path, Receipt.of(manifest.commit, store, after, pairs))


def _parent(joined: Store) -> Parent:
    """Return the origin of merged segments: that of the first, so that a pruned memory knows how it was pruned."""
    first = joined.manifest.parent
    made = Parent(fingerprint=joined.fingerprint, entries=joined.entries, made_by="compact", settings={})
    return made if first is None else first


def _report(writer: MemoryWriter, commit: int | None, repeated: int = 0) -> EditReport:
    records = writer.manifest.segments
    return EditReport(
        commit=commit,
        added=(),
        forgotten=(),
        repeated=repeated,
        skipped=0,
        entries=writer.manifest.live_entries,
        sentences=sum(each.sentences for each in records),
        segments=len(records),
    )
