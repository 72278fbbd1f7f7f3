"""Tables about a model's knowledge of a store: known entries, margins, accuracy by margin, and index sizes.

They correspond to section 3 and table 9 of the paper. This module does not translate or draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.decoding import plan_batches
from lacuna.errors import SettingError
from lacuna.fitting.dev_pass import BATCH_TOKENS, encode_fitting
from lacuna.margin import Margins, margin_of
from lacuna.margin.storage import MAX_MARGIN, check_max_margin
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.reproduction.paper import PaperDomain, paper_index_bytes
from lacuna.reproduction.tables import Cell, Column, Plot, Table
from lacuna.steps import IndexSize
from lacuna.workers import WorkerPool

# The margins that the paper calls small and large.
SMALL, LARGE = 4, 32

_MARGIN = Column("margin", help="Number of nearest neighbors that are known before the first unknown one.")
# Queries per call: each call reads all entries.
_QUERIES_AT_ONCE = 8192
_MIB = 2**20


def known_statistics(store: Store, paper: PaperDomain | None = None) -> Table:
    """Count the known entries, with the figures of the paper in the row below."""
    known = int(np.count_nonzero(store.known))
    rows: list[tuple[Cell, ...]] = [
        ("this store", known, store.entries - known, store.entries, _share(known, store.entries))
    ]
    note = "Known: the prediction of the model alone is the right token."
    if paper is not None and paper.entries is None:
        note += f" The paper has no such figures for {paper.title}."
    elif paper is not None and paper.entries is not None:
        theirs = paper.entries
        rows.append((f"paper, {paper.title}", theirs.known, theirs.unknown, theirs.all, theirs.known_ratio))
        counted = theirs.known / theirs.all
        if abs(counted - theirs.known_ratio) > 0.5e-4:
            note += f" The known ratio is the one printed in the paper; its counts give {100 * counted:.2f} %."
    columns = (
        Column("store"),
        Column("known", "count", help="Entries that the model predicts correctly."),
        Column("unknown", "count"),
        Column("all", "count"),
        Column("known ratio", "share", 2, help="Known entries over all."),
    )
    return Table("statistics", "Known and unknown entries", columns, tuple(rows), note, paper="Table 2")


def margin_distribution(store: Store, margins: Margins) -> Table:
    """List the distribution of margins of known and of unknown entries."""
    known, cap = store.known, margins.manifest.max_margin
    starts = _bin_starts(cap)
    of_known, of_unknown = (_count(margins.values[chosen], starts) for chosen in (known, ~known))
    rows = tuple(
        (
            name,
            _share(known_count, of_known.sum()),
            _share(unknown_count, of_unknown.sum()),
            int(known_count),
            int(unknown_count),
        )
        for name, known_count, unknown_count in zip(_names(starts, cap), of_known, of_unknown, strict=True)
    )
    unknown = margins.values[~known]
    few = _share(np.count_nonzero(unknown < SMALL), len(unknown))
    note = f"Margins are {margins.manifest.method}; {_beyond(cap)}"
    if few is not None and cap >= SMALL:
        note = f"{100 * few:.1f} % of the unknown entries have a margin below {SMALL}. {note}"
    columns = (
        _MARGIN,
        Column("known", "share", help="Share of the known entries with such a margin."),
        Column("unknown", "share", help="Share of the unknown entries with such a margin."),
        Column("known entries", "count"),
        Column("unknown entries", "count"),
    )
    plot = Plot("bars", "margin", ("known", "unknown"), x_label="knowledge margin", y_label="share of entries")
    title = "Knowledge margins of known and unknown entries"
    return Table("margins", title, columns, rows, note, plot=plot, paper="Figure 1")


def accuracy_by_margin(
    model: Model,
    store: Store,
    dev_pairs: Sequence[SentencePair],
    *,
    max_margin: int = MAX_MARGIN,
    most: int | None = None,
    seed: int = 1,
    progress: Progress = SILENT,
) -> Table:
    """Measure the accuracy of the model alone on the tokens of a dev set, by their knowledge margin in the store.

    :param max_margin: Margins are counted up to this bound.
    :param most: Number of tokens to sample; ``None`` for all. Exact margins take time.
    """
    store.check_model(model)
    check_max_margin(max_margin)
    if most is not None and most < 1:
        raise SettingError(f"most: got {most}; allowed is 1 or more, or leave it out for all tokens")
    margin, right = _measure(model, store, _DevTokens(model, dev_pairs, most, seed), max_margin, progress)
    starts = _bin_starts(max_margin)
    tokens, correct = _count(margin, starts), _count(margin[right], starts)
    rows = tuple(
        (name, int(count), _share(good, count))
        for name, count, good in zip(_names(starts, max_margin), tokens, correct, strict=True)
    )
    columns = (
        _MARGIN,
        Column("tokens", "count", help="Tokens of the dev set with such a margin."),
        Column("accuracy", "share", help="Share of these tokens that the model alone predicts."),
    )
    plot = Plot("bars", "margin", ("accuracy",), x_label="knowledge margin", y_label="accuracy of the model")
    title = "Accuracy of the model on dev by margin"
    note = f"{_accuracies(margin, right, max_margin)} Margins are exact; {_beyond(max_margin)}"
    return Table("accuracy", title, columns, rows, note, plot=plot, paper="Figure 2")


def index_sizes(sizes: Mapping[str, IndexSize]) -> Table:
    """Compare the sizes of indexes with that of the first, and with the size of the paper's kind of index.

    :param sizes: By the name of the row; the whole store first.
    """
    rows: list[tuple[Cell, ...]] = []
    whole: tuple[int, int] | None = None
    for name, size in sizes.items():
        keys = size.entries * size.dimension * np.dtype(np.float16).itemsize
        both = (keys if size.bytes is None else size.bytes, paper_index_bytes(size.entries, size.dimension))
        whole = whole or both
        saved = [1 - part / max(1, most) if rows else None for part, most in zip(both, whole, strict=True)]
        rows.append((name, size.entries, keys / _MIB, size.kind, both[0] / _MIB, saved[0], both[1] / _MIB, saved[1]))
    columns = (
        Column("store"),
        Column("entries", "count"),
        Column("keys MiB", "number", 1),
        Column("index"),
        Column("MiB", "number", 1, help="Size of the index; for exact search, the size of the keys."),
        Column("saved", "share", help="Compared with the first row."),
        Column("paper's MiB", "number", 1, help="Size of IVF4096,PQ64 with 64-bit ids for these entries."),
        Column("paper's saved", "share", help="Compared with the first row."),
    )
    note = (
        "Exact search reads the keys, so their size is given. The last two columns are computed for IVF4096,PQ64 with "
        "64-bit ids, the index that matches the sizes in the paper."
    )
    return Table("index-sizes", "Size of the index", columns, tuple(rows), note, paper="Table 9")


def _measure(
    model: Model, store: Store, dev: _DevTokens, max_margin: int, progress: Progress
) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
    """Return the margin of each token, and whether the model predicts it."""
    margins, rights = [], []
    waiting: list[NDArray[np.float32]] = []
    progress.start("margins of dev tokens", dev.tokens, "tokens")
    for queries, right in dev.batches(model):
        rights.append(right)
        waiting.append(queries)
        done = sum(map(len, rights))
        if sum(map(len, waiting)) >= _QUERIES_AT_ONCE or done == dev.tokens:
            margins.append(margin_of(store, np.concatenate(waiting), max_margin))
            progress.advance(len(margins[-1]))
            waiting.clear()
    progress.finish()
    return np.concatenate(margins), np.concatenate(rights)


def _accuracies(margin: NDArray[np.uint16], right: NDArray[np.bool_], cap: int) -> str:
    """Describe the accuracy at all, at small and at large margins, as the paper does."""
    parts = {"on all tokens": np.ones(len(margin), np.bool_)}
    if cap >= SMALL:
        parts[f"on those with a margin below {SMALL}"] = margin < SMALL
    if cap >= LARGE:
        parts[f"on those with {LARGE} or more"] = margin >= LARGE
    parts_text = (f"{100 * np.mean(right[part]):.1f} % {which}" for which, part in parts.items() if part.any())
    return f"Accuracy of the model: {', '.join(parts_text)}."


def _beyond(cap: int) -> str:
    return f"margins above {cap:,} count as {cap:,}."


class _DevTokens:
    """The tokens of a dev set, or a random sample of them. Pairs too long for the model are left out."""

    def __init__(self, model: Model, pairs: Sequence[SentencePair], most: int | None, seed: int) -> None:
        self._pairs = [(pair.source, pair.target) for pair in encode_fitting(model, pairs)]
        ends = np.cumsum([len(target) for _, target in self._pairs], dtype=np.int64)
        total = int(ends[-1])
        self.tokens = total if most is None else min(most, total)
        chosen = np.zeros(total, np.bool_)
        chosen[np.random.default_rng(seed).choice(total, self.tokens, replace=False)] = True
        self._chosen = np.split(chosen, ends[:-1])

    def batches(self, model: Model) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
        """Yield the queries of the tokens, and whether the model predicts them, batch by batch."""
        drawn = [number for number, chosen in enumerate(self._chosen) if chosen.any()]

        def force(batch: list[int]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
            numbers = [drawn[index] for index in batch]
            sources, targets = zip(*(self._pairs[number] for number in numbers), strict=True)
            forced = model.teacher_force(sources, targets)
            right = forced.predictions.numpy() == np.concatenate(targets)
            chosen = np.concatenate([self._chosen[number] for number in numbers])
            return forced.keys.numpy()[chosen], right[chosen]

        plan = plan_batches([len(self._pairs[number][1]) for number in drawn], max_tokens=BATCH_TOKENS)
        return WorkerPool.of_process(model.device).map(force, plan)


def _bin_starts(cap: int) -> list[int]:
    """Return the smallest margin of each bin; the last bin is the cap and stands for all larger margins."""
    doubled = [SMALL << power for power in range(cap.bit_length()) if SMALL << power < cap]
    return [0, *doubled, cap]


def _names(starts: Sequence[int], cap: int) -> list[str]:
    spans = [f"{start}" if start + 1 == after else f"{start}-{after - 1}" for start, after in pairwise(starts)]
    return [*spans, f"{cap}+"]


def _count(margins: NDArray[np.uint16], starts: Sequence[int]) -> NDArray[np.int64]:
    buckets = np.searchsorted(starts, margins, side="right") - 1
    return np.bincount(buckets, minlength=len(starts))


def _share(part: int | np.integer[Any], whole: int | np.integer[Any]) -> float | None:
    return int(part) / int(whole) if whole else None
