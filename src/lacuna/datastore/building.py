"""Starting a build, or going on with one: what is in the folder decides. Every refusal leaves the folder as it was.

Knows nothing of keys; of the model only its record.
"""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from lacuna.datastore.columns import shard_folder, write_mean, write_shard
from lacuna.datastore.manifest import (
    MANIFEST,
    UNFINISHED,
    BuildSettings,
    CorpusRecord,
    KeyMaker,
    Manifest,
    Unfinished,
    describe_model,
    read_manifest,
    read_unfinished,
    write_record,
)
from lacuna.datastore.store import Store, open_store
from lacuna.datastore.windows import Encoder, Meter, Window, cut_windows, make_batches
from lacuna.errors import LacunaWarning, SettingError, StoreError
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.version import __version__


def look_into(folder: Path, wanted: Unfinished) -> Manifest | Unfinished:
    """Return what is in the folder, once it is sure that it is the same build; ``wanted`` itself if nothing is.

    :raises StoreError: Something else is there.
    """
    found: Manifest | Unfinished
    try:
        if not folder.exists():
            _check_place(folder)
            return wanted
        names = {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise StoreError(f"{folder}: not a folder that can be read ({error.strerror}); name another") from error
    if MANIFEST in names:
        found = read_manifest(folder)
        if found.parent is not None:
            raise StoreError(f"{folder}: already there, made by {found.parent.made_by}; name a new folder")
    elif UNFINISHED in names:
        found = read_unfinished(folder)
    # What a kill can leave behind while the very first file is written.
    elif all(name.startswith(f".{UNFINISHED}.") for name in names):
        return wanted
    else:
        raise StoreError(f"{folder}: not empty and not a store; name a new folder")
    _refuse_other_build(folder, found, wanted)
    return found


def pass_over(pairs: Iterator[SentencePair], meter: Meter, found: Manifest | Unfinished, folder: Path) -> None:
    """Read over the pairs that are in the store already, and make sure that they are still the same.

    A finished store must hold all there are.
    """
    finished = isinstance(found, Manifest)
    meter.pass_over(pairs, None if finished else found.corpus.pairs)
    seen, stored = meter.record(), found.corpus
    if (seen.pairs, seen.xxh3) != (stored.pairs, stored.xxh3):
        state = "already there, built" if finished else "begun"
        raise StoreError(
            f"{folder}: {state} from other sentence pairs ({stored.pairs:,} of them); "
            "give the same corpus and cleaning, or name a new folder"
        )
    meter.skipped = stored.skipped


def begin(folder: Path, state: Unfinished) -> None:
    """Make the folder, or sweep out what a kill has left half done."""
    for number, shard in enumerate(state.shards):
        for name, record in shard.files.items():
            path = shard_folder(folder, number) / name
            if not path.is_file() or path.stat().st_size != record.bytes:
                raise StoreError(f"{path}: missing or cut off since the build began; remove {folder} and build anew")
    with writing(folder):
        if not (folder / UNFINISHED).exists():  # the first of all: by it a folder is known as ours
            write_record(folder / UNFINISHED, state)
        (folder / "shards").mkdir(exist_ok=True)
        noted = {shard_folder(folder, number).name for number in range(len(state.shards))}
        for entry in [*folder.glob(".*.tmp"), *(folder / "shards").iterdir()]:
            if entry.name not in noted:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def finish(folder: Path, manifest: Manifest) -> None:
    """Turn an unfinished store into a finished one: the manifest is the last file to appear."""
    with writing(folder):
        write_record(folder / MANIFEST, manifest)
        sweep(folder)


def sweep(folder: Path) -> None:
    """Remove what is of use only while a store is built."""
    (folder / UNFINISHED).unlink(missing_ok=True)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a failure to write into an error that names the folder."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno) if error.errno else str(error)
        raise StoreError(
            f"{folder}: cannot be written ({reason}); free space or mend the permissions, then run the same command"
        ) from error


def _check_place(folder: Path) -> None:
    """Refuse, before any work, a folder that could not be made."""
    place = next(parent for parent in folder.parents if parent.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        reason = "permission is missing" if place.is_dir() else "it is not a folder"
        raise StoreError(f"{folder}: cannot be written below {place} ({reason}); name another folder")


def _refuse_other_build(folder: Path, found: Manifest | Unfinished, wanted: Unfinished) -> None:
    state = "already there, built" if isinstance(found, Manifest) else "begun"
    if found.model.fingerprint != wanted.model.fingerprint or found.model.languages != wanted.model.languages:
        raise StoreError(
            f"{folder}: {state} with another model ({found.model.name}, {found.model.languages}); "
            "use that model, or name a new folder"
        )
    if found.settings != wanted.settings:
        settings = ", ".join(f"{name} {value}" for name, value in found.settings.model_dump().items())
        raise StoreError(f"{folder}: {state} with other settings ({settings}); use these, or name a new folder")


_DEFAULTS = BuildSettings()


class TeacherForcedRows(Protocol):
    """What a model says at each position of given translations: see :class:`lacuna.models.TeacherForced`."""

    @property
    def keys(self) -> ArrayLike: ...  # noqa: D102

    @property
    def predictions(self) -> ArrayLike: ...  # noqa: D102

    @property
    def log_p_gold(self) -> ArrayLike: ...  # noqa: D102

    @property
    def entropy(self) -> ArrayLike: ...  # noqa: D102


class TeacherForcingModel(Encoder, KeyMaker, Protocol):
    """A model, as far as a store needs one: :class:`lacuna.models.Model` is such."""

    def teacher_force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> TeacherForcedRows:
        """Give rows over sentences, then positions."""


def build_store(
    model: TeacherForcingModel,
    pairs: Iterable[SentencePair],
    into: str | Path,
    *,
    batch_tokens: int = _DEFAULTS.batch_tokens,
    shard_rows: int = _DEFAULTS.shard_rows,
    total: int | None = None,
    progress: Progress = SILENT,
) -> Store:
    """Build a store, or go on with one that was broken off; the finished files are the same either way.

    A folder with the finished store of the same model, corpus and settings is opened and returned. Anything else in the
    folder is refused and left as it is. Pairs too long for the model are left out, counted in the manifest, and warned
    of.

    :param model: Anything that can run the decoder with teacher forcing.
    :param pairs: Read once, as a stream.
    :param into: The folder of the store.
    :param batch_tokens: Tokens that go through the model at once.
    :param shard_rows: Entries in a file of keys, and at most lost when a build is broken off.
    :param total: The number of pairs, where it is known, for the time left.
    :param progress: Told of the pairs read and the tokens a second.
    """
    folder = Path(into)
    found = look_into(folder, _describe(model, batch_tokens, shard_rows))
    stream, meter = iter(pairs), Meter()
    pass_over(stream, meter, found, folder)
    if isinstance(found, Manifest):
        with writing(folder):
            sweep(folder)
        return open_store(folder)
    progress.start("build", total, "pairs")
    progress.advance(meter.pairs)
    store = _finish(
        folder, _add_shards(folder, found, model, cut_windows(stream, model, meter, found.settings), progress)
    )
    progress.finish(f"({store.entries:,} entries)")
    return store


def _describe(model: TeacherForcingModel, batch_tokens: int, shard_rows: int) -> Unfinished:
    """Say what is to be built, before the first pair."""
    try:
        settings = BuildSettings(batch_tokens=batch_tokens, shard_rows=shard_rows)
    except ValidationError as error:
        got = f"batch_tokens {batch_tokens!r}, shard_rows {shard_rows!r}"
        raise SettingError(f"build: got {got}; each must be a whole number, 1 or more") from error
    return Unfinished(
        lacuna=__version__,
        dimension=model.dimension,
        vocabulary_size=model.vocabulary_size,
        model=describe_model(model),
        settings=settings,
        corpus=Meter().record(),
    )


def _add_shards(
    folder: Path, state: Unfinished, model: TeacherForcingModel, windows: Iterator[Window], progress: Progress
) -> Unfinished:
    started, rows, begun = time.monotonic(), 0, bool(state.shards)

    def tell(pairs: int, tokens: int) -> None:
        nonlocal rows
        rows += tokens
        progress.advance(pairs, f"{rows / max(time.monotonic() - started, 1e-9):,.0f} tokens/s")

    if begun:
        begin(folder, state)
    for window in windows:
        if not begun:  # not before there is something to store
            begin(folder, state)
            begun = True
        left_out = window.corpus.pairs - state.corpus.pairs - len(window.sentences)
        state = _add_shard(folder, state, model, window, tell)
        tell(left_out, 0)
    if not begun:
        raise StoreError(f"{folder}: nothing to store, no pair is there that the model can take; give another corpus")
    return state


def _add_shard(
    folder: Path, state: Unfinished, model: TeacherForcingModel, window: Window, tell: Callable[[int, int], None]
) -> Unfinished:
    """Read a window through the model, write its shard, and take note of it."""
    first = sum(shard.sentences for shard in state.shards)
    keys, columns = decode_window(model, window, state.settings.batch_tokens, first, tell)
    lines = [sentence.line for sentence in window.sentences]
    with writing(folder):
        shard = write_shard(folder, len(state.shards), keys, columns, lines)
        state = state.model_copy(update={"corpus": window.corpus, "shards": (*state.shards, shard)})
        write_record(folder / UNFINISHED, state)
    return state


def decode_window(
    model: TeacherForcingModel,
    window: Window,
    batch_tokens: int,
    first_sentence: int = 0,
    tell: Callable[[int, int], None] = lambda pairs, tokens: None,
) -> tuple[NDArray[np.float16], dict[str, NDArray[np.generic]]]:
    """Read a window through the model in batches of like length; rows come back in the order of the corpus.

    :param tell: Called after each batch with its pairs and target tokens.
    """
    sentences = window.sentences
    lengths = np.array([len(sentence.target) for sentence in sentences])
    starts = np.cumsum(lengths) - lengths
    position = np.arange(window.rows) - np.repeat(starts, lengths)
    keys = np.empty((window.rows, model.dimension), dtype=np.float16)
    predictions = np.empty(window.rows, dtype=np.int32)
    log_p_gold, entropy = (np.empty(window.rows, dtype=np.float32) for _ in range(2))
    for batch in make_batches(sentences, batch_tokens):
        forced = model.teacher_force([sentences[n].source for n in batch], [sentences[n].target for n in batch])
        rows = np.concatenate([np.arange(starts[n], starts[n] + lengths[n]) for n in batch])
        keys[rows] = _half(np.asarray(forced.keys), model.name)
        predictions[rows] = np.asarray(forced.predictions)
        log_p_gold[rows] = np.asarray(forced.log_p_gold)
        entropy[rows] = np.asarray(forced.entropy)
        tell(len(batch), len(rows))
    values = np.concatenate([np.asarray(sentence.target, dtype=np.int32) for sentence in sentences])
    columns: dict[str, NDArray[np.generic]] = {
        "values": values,
        "predictions": predictions,
        "known": values == predictions,
        "log_p_gold": log_p_gold,
        "entropy": entropy,
        "sentence": np.repeat(np.arange(first_sentence, first_sentence + len(sentences)), lengths),
        "position": position,
    }
    return keys, columns


def _half(keys: NDArray[np.float32], name: str) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        half = keys.astype(np.float16)
    if not np.isfinite(half).all():
        raise StoreError(f"{name}: gives keys beyond {np.finfo(np.float16).max}, which a store cannot hold in 16 bits")
    return half


def _finish(folder: Path, state: Unfinished) -> Store:
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
        text = f"{folder}: {corpus.skipped:,} of {corpus.pairs:,} pairs are too long for the model and were left out"
        warnings.warn(text, LacunaWarning, stacklevel=4)
