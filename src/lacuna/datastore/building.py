"""Build a store, or resume an interrupted build.

Each window of the corpus becomes a shard. The content of the folder decides whether a build starts, resumes or has
nothing to do; a refusal leaves the folder unchanged. Knows nothing of indexes and margins.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError

from lacuna.artifacts.files import check_creatable, writing
from lacuna.artifacts.locks import alone
from lacuna.corpora.cleaning import DEFAULT_CLEANING, Cleaning, CleaningReport, clean
from lacuna.datastore.columns import WrittenShard, publish_shard, shard_folder, write_mean
from lacuna.datastore.decoded_windows import (
    NumberedWindow,
    TeacherForcingModel,
    decode_and_write,
    decode_windows,
    write_columns,
)
from lacuna.datastore.manifest import (
    MANIFEST,
    UNFINISHED,
    BuildSettings,
    CorpusRecord,
    Manifest,
    Unfinished,
    describe_model,
    read_store_manifest,
    read_unfinished,
    write_record,
)
from lacuna.datastore.store import Store, open_store
from lacuna.datastore.windows import CorpusDigest, Window, cut_windows
from lacuna.errors import LacunaWarning, SettingError, StoreError
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.version import __version__
from lacuna.workers import Pool

_DEFAULTS = BuildSettings()


@alone("into")
def build_store(
    model: TeacherForcingModel,
    pairs: Iterable[SentencePair],
    into: str | Path,
    *,
    cleaning: Cleaning | None = DEFAULT_CLEANING,
    report: CleaningReport | None = None,
    batch_tokens: int = _DEFAULTS.batch_tokens,
    shard_rows: int = _DEFAULTS.shard_rows,
    total: int | None = None,
    progress: Progress = SILENT,
    pool: Pool | None = None,
) -> Store:
    """Build a store, or resume an interrupted build; the finished files are the same in both cases.

    If the folder has the finished store of the same model, corpus and settings, it is opened and returned. Anything
    else in the folder is refused and left unchanged. Pairs too long for the model are skipped, counted in the manifest,
    and reported in a warning.

    :param model: Any model that can run with teacher forcing.
    :param pairs: Read once, as a stream.
    :param into: The folder of the store.
    :param cleaning: Drops pairs of no use, as ``lacuna build`` does; None stores every pair as it is.
    :param report: Counts the pairs that cleaning keeps and drops.
    :param batch_tokens: See :class:`~lacuna.datastore.manifest.BuildSettings`.
    :param shard_rows: See :class:`~lacuna.datastore.manifest.BuildSettings`. At most this many entries are computed
        again after an interruption.
    :param total: Number of pairs after cleaning, if known, for the remaining time.
    :param progress: Shows pairs, and tokens per second.
    :param pool: Workers that each decode windows of their own and write them below ``into``. By default, the threads of
        this process share the batches of each window. The files are the same.
    """
    folder = Path(into)
    state = _read_folder(folder, _describe(model, batch_tokens, shard_rows))
    stream, digest = clean(pairs, cleaning, report), CorpusDigest()
    _skip_stored(stream, digest, state, folder)
    if isinstance(state, Manifest):
        with writing(folder):
            _remove_state(folder)
        return open_store(folder)
    progress.start("build", total, "pairs")
    progress.advance(digest.pairs)
    windows = cut_windows(stream, model, digest, state.settings)
    store = _finish_build(folder, _add_shards(folder, state, model, windows, progress, pool))
    progress.finish(f"({store.entries:,} entries)")
    return store


def _describe(model: TeacherForcingModel, batch_tokens: int, shard_rows: int) -> Unfinished:
    """Return the state of a build before the first pair."""
    try:
        settings = BuildSettings(batch_tokens=batch_tokens, shard_rows=shard_rows)
    except ValidationError as error:
        got = f"batch_tokens {batch_tokens!r}, shard_rows {shard_rows!r}"
        raise SettingError(f"build: got {got}; each must be an integer, 1 or more") from error
    return Unfinished(
        lacuna=__version__,
        dimension=model.dimension,
        vocabulary_size=model.vocabulary_size,
        model=describe_model(model),
        settings=settings,
        corpus=CorpusDigest().record(),
    )


def _add_shards(
    folder: Path,
    state: Unfinished,
    model: TeacherForcingModel,
    windows: Iterator[Window],
    progress: Progress,
    pool: Pool | None,
) -> Unfinished:
    first = next(windows, None)
    if first is None and not state.shards:
        raise StoreError(f"{folder}: nothing to store, no pair fits the model; give another corpus")
    speed = _Speed(progress, pool)
    parts = _prepare_folder(folder, state)  # not before there is something to store
    queue = chain([] if first is None else [first], windows)
    numbered = _numbered(queue, sum(shard.sentences for shard in state.shards))
    with closing(_written(model, numbered, state.settings.batch_tokens, parts, speed.advance, pool)) as written:
        for window, shard in written:
            skipped = window.corpus.pairs - state.corpus.pairs - len(window.sentences)
            state = _add_shard(folder, state, window, shard)
            speed.advance(skipped, 0)
    with writing(folder):
        shutil.rmtree(parts)
    return state


@dataclass(slots=True)
class _Speed:
    """Reports pairs, with the tokens per second of all workers, and of each if they are other processes."""

    progress: Progress
    pool: Pool | None
    started: float = field(default_factory=time.monotonic)
    tokens: int = 0

    def advance(self, pairs: int, tokens: int) -> None:
        self.tokens += tokens
        speed = self.tokens / max(time.monotonic() - self.started, 1e-9)
        each = "" if self.pool is None else f", {self.pool.workers} workers, {speed / self.pool.workers:,.0f} each"
        self.progress.advance(pairs, f"{speed:,.0f} tokens/s{each}")


def _numbered(windows: Iterable[Window], first_sentence: int) -> Iterator[NumberedWindow]:
    for window in windows:
        yield NumberedWindow(window, first_sentence)
        first_sentence += len(window.sentences)


def _written(
    model: TeacherForcingModel,
    numbered: Iterator[NumberedWindow],
    batch_tokens: int,
    parts: Path,
    advance: Callable[[int, int], None],
    pool: Pool | None,
) -> Generator[tuple[Window, WrittenShard], None, None]:
    """Yield all windows in order, with their shards.

    :param advance: Called with the numbers of pairs and tokens that were processed.
    """
    waiting: deque[NumberedWindow] = deque()

    def queued() -> Iterator[NumberedWindow]:
        for each in numbered:
            waiting.append(each)
            yield each

    if pool is None:
        with closing(decode_windows(model, (each.window for each in queued()), batch_tokens, advance)) as decoded:
            for collected in decoded:
                first_sentence = waiting.popleft().first_sentence
                yield collected.window, write_columns(collected, first_sentence, parts)
        return
    task = partial(decode_and_write, model, batch_tokens, parts.resolve())
    with closing(pool.map(task, queued())) as shards:
        for shard in shards:
            window = waiting.popleft().window
            advance(len(window.sentences), window.rows)
            yield window, shard


def _add_shard(folder: Path, state: Unfinished, window: Window, shard: WrittenShard) -> Unfinished:
    """Give a shard its place, and record it in the state."""
    with writing(folder):
        publish_shard(shard.folder, folder, len(state.shards))
        state = state.model_copy(update={"corpus": window.corpus, "shards": (*state.shards, shard.record)})
        write_record(folder / UNFINISHED, state)
    return state


def _finish_build(folder: Path, state: Unfinished) -> Store:
    with writing(folder):
        mean = write_mean(folder, state.shards, state.dimension)
    manifest = Manifest(
        lacuna=state.lacuna,
        entries=sum(shard.rows for shard in state.shards),
        sentences=sum(shard.sentences for shard in state.shards),
        skipped=state.corpus.skipped,
        dimension=state.dimension,
        vocabulary_size=state.vocabulary_size,
        model=state.model,
        corpus=state.corpus,
        settings=state.settings,
        mean=mean,
        shards=state.shards,
    )
    finish(folder, manifest)
    _warn_of_skipped(folder, state.corpus)
    return open_store(folder)


def _warn_of_skipped(folder: Path, corpus: CorpusRecord) -> None:
    if corpus.skipped:
        text = f"{folder}: {corpus.skipped:,} of {corpus.pairs:,} pairs are too long for the model and were skipped"
        warnings.warn(text, LacunaWarning, stacklevel=4)


# --- The folder of a build -------------------------------------------------------------------------------------------


def finish(folder: Path, manifest: Manifest) -> None:
    """Turn an unfinished store into a finished one: the manifest is the last file to be written."""
    with writing(folder):
        write_record(folder / MANIFEST, manifest)
        _remove_state(folder)


def _read_folder(folder: Path, wanted: Unfinished) -> Manifest | Unfinished:
    """Return the manifest or the state in the folder if it is of the same build; ``wanted`` itself for a new folder.

    :raises StoreError: The folder has something else.
    """
    existing: Manifest | Unfinished
    try:
        if not folder.exists():
            check_creatable(folder, StoreError)
            return wanted
        names = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise StoreError(f"{folder}: not a folder that can be read ({error.strerror}); name another") from error
    if MANIFEST in names:
        existing = read_store_manifest(folder)
        if existing.parent is not None:
            raise StoreError(f"{folder}: already exists, written by {existing.parent.made_by}; name a new folder")
    elif UNFINISHED in names:
        existing = read_unfinished(folder)
    # A build that was killed while it wrote its first file leaves only a temporary file.
    elif all(name.startswith(f".{UNFINISHED}.") for name in names):
        return wanted
    else:
        raise StoreError(f"{folder}: not empty and not a store; name a new folder")
    _refuse_other_build(folder, existing, wanted)
    return existing


def _refuse_other_build(folder: Path, existing: Manifest | Unfinished, wanted: Unfinished) -> None:
    if existing.model.fingerprint != wanted.model.fingerprint or existing.model.languages != wanted.model.languages:
        raise StoreError(
            f"{folder}: {_state_of(existing)} with another model ({existing.model.name}, {existing.model.languages}); "
            "use that model, or name a new folder"
        )
    if existing.model.mask_placeholders != wanted.model.mask_placeholders:
        how = "with" if existing.model.mask_placeholders else "without"
        raise StoreError(
            f"{folder}: {_state_of(existing)} {how} masked placeholders (mask_placeholders of the model); "
            "load the model the same way, or name a new folder"
        )
    if existing.model.precision != wanted.model.precision:
        raise StoreError(
            f"{folder}: {_state_of(existing)} in {existing.model.precision}, not {wanted.model.precision} (precision "
            "of the model); load the model the same way, or name a new folder"
        )
    if existing.settings != wanted.settings:
        settings = ", ".join(f"{name} {value}" for name, value in existing.settings.model_dump().items())
        raise StoreError(
            f"{folder}: {_state_of(existing)} with other settings ({settings}); use these, or name a new folder"
        )


def _skip_stored(
    pairs: Iterator[SentencePair], digest: CorpusDigest, existing: Manifest | Unfinished, folder: Path
) -> None:
    """Read the pairs that are already stored and check that they are the same; a finished store must have all."""
    digest.add_stored(pairs, None if isinstance(existing, Manifest) else existing.corpus.pairs)
    seen, stored = digest.record(), existing.corpus
    if (seen.pairs, seen.xxh3) != (stored.pairs, stored.xxh3):
        raise StoreError(
            f"{folder}: {_state_of(existing)} from other sentence pairs ({stored.pairs:,} of them); "
            "give the same corpus and cleaning, or name a new folder"
        )
    digest.skipped = stored.skipped


def _state_of(existing: Manifest | Unfinished) -> str:
    return "already exists, built" if isinstance(existing, Manifest) else "an unfinished build"


def _prepare_folder(folder: Path, state: Unfinished) -> Path:
    """Create the folder, or check its shards and remove the files of an interrupted write.

    :return: A new folder for shards that are being written. Workers of an interrupted build no longer find theirs.
    """
    for number, shard in enumerate(state.shards):
        for name, record in shard.files.items():
            path = shard_folder(folder, number) / name
            if not path.is_file() or path.stat().st_size != record.bytes:
                raise StoreError(
                    f"{path}: missing or truncated since the build began; remove {folder} and build it again"
                )
    with writing(folder):
        if not (folder / UNFINISHED).exists():  # the first file: it identifies the folder as an unfinished store
            write_record(folder / UNFINISHED, state)
        (folder / "shards").mkdir(exist_ok=True)
        recorded = {shard_folder(folder, number).name for number in range(len(state.shards))}
        for entry in [*folder.glob(".*.tmp"), *(folder / "shards").iterdir()]:
            if entry.name not in recorded:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        parts = folder / "shards" / f".{uuid4().hex}.tmp"
        parts.mkdir()
    return parts


def _remove_state(folder: Path) -> None:
    (folder / UNFINISHED).unlink(missing_ok=True)
