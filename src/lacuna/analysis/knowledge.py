"""What a model knows of a domain, as tables: known entries, knowledge margins, and how often it is right by margin.

The paper's section 3, and the sizes of its table 9. Knows nothing of translating or of how a table is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.analysis.paper import PaperDomain, paper_index_bytes
from lacuna.analysis.tables import Cell, Column, Plot, Table
from lacuna.datastore import Store
from lacuna.decoding import plan_batches
from lacuna.errors import SettingError
from lacuna.fitting.dev_pass import encode_fitting
from lacuna.index.manifest import read_manifest
from lacuna.margin import Margins, margin_of
from lacuna.margin.manifest import MAX_MARGIN, check_max_margin
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair

# The margins that the paper calls small and large.
SMALL, LARGE = 4, 32

_MARGIN = Column("margin", help="Nearest neighbors that are known, up to the first that is not.")
# Queries whose margins are measured together: each measuring first goes over all entries.
_QUERIES_AT_ONCE = 8192
_MIB = 2**20


def known_statistics(store: Store, paper: PaperDomain | None = None) -> Table:
    """Count the entries that the model knows, with the paper's line below ours where it has one."""
    known = int(np.count_nonzero(store.known))
    rows: list[tuple[Cell, ...]] = [
        ("this store", known, store.entries - known, store.entries, _share(known, store.entries))
    ]
    note = "Known: the model alone finds the right token most probable."
    if paper is not None and paper.entries is None:
        note += f" The paper has no such figures for {paper.title}."
    elif paper is not None and paper.entries is not None:
        theirs = paper.entries
        rows.append((f"paper, {paper.title}", theirs.known, theirs.unknown, theirs.all, theirs.known_ratio))
        counted = theirs.known / theirs.all
        if abs(counted - theirs.known_ratio) > 0.5e-4:
            note += f" The known ratio is as the paper prints it; its counts give {100 * counted:.2f} %."
    columns = (
        Column("store"),
        Column("known", "count", help="Entries that the model knows."),
        Column("unknown", "count"),
        Column("all", "count"),
        Column("known ratio", "share", 2, help="Known entries over all."),
    )
    return Table("statistics", "Entries that the model knows", columns, tuple(rows), note, paper="Table 2")


def margin_distribution(store: Store, margins: Margins) -> Table:
    """Say how known and unknown entries are spread over margins."""
    known, cap = store.known, margins.manifest.max_margin
    leasts = _leasts(cap)
    of_known, of_unknown = (_count(margins.values[some], leasts) for some in (known, ~known))
    rows = tuple(
        (name, _share(one, of_known.sum()), _share(other, of_unknown.sum()), int(one), int(other))
        for name, one, other in zip(_names(leasts, cap), of_known, of_unknown, strict=True)
    )
    unknown = margins.values[~known]
    few = _share(np.count_nonzero(unknown < SMALL), len(unknown))
    note = f"Margins are {margins.manifest.method}; {_beyond(cap)}"
    if few is not None and cap >= SMALL:
        note = f"{100 * few:.1f} % of the unknown entries have a margin below {SMALL}. {note}"
    columns = (
        _MARGIN,
        Column("known", "share", help="Share of the known entries that have such a margin."),
        Column("unknown", "share", help="Share of the unknown entries that have such a margin."),
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
    """Say how often the model alone is right at tokens of an unseen dev set, by their knowledge margin in the store.

    :param max_margin: Larger margins count as this.
    :param most: How many tokens to look at; if there are more, they are drawn. Exact margins take time.
    """
    store.check_model(model.fingerprint)
    check_max_margin(max_margin)
    if most is not None and most < 1:
        raise SettingError(f"most: got {most}; allowed is 1 or more, or leave it out for all tokens")
    margin, right = _measure(model, store, _Draw(model, dev_pairs, most, seed), max_margin, progress)
    leasts = _leasts(max_margin)
    tokens, correct = _count(margin, leasts), _count(margin[right], leasts)
    rows = tuple(
        (name, int(count), _share(good, count))
        for name, count, good in zip(_names(leasts, max_margin), tokens, correct, strict=True)
    )
    columns = (
        _MARGIN,
        Column("tokens", "count", help="Tokens of the dev set with such a margin."),
        Column("accuracy", "share", help="Share of them that the model alone finds most probable."),
    )
    plot = Plot("bars", "margin", ("accuracy",), x_label="knowledge margin", y_label="accuracy of the model")
    title = "How often the model is right on unseen text"
    note = f"{_accuracies(margin, right, max_margin)} Margins are exact; {_beyond(max_margin)}"
    return Table("accuracy", title, columns, rows, note, plot=plot, paper="Figure 2")


def index_sizes(stores: Mapping[str, Store]) -> Table:
    """Compare the sizes of the stores' indexes, each with the first, and with those that the paper's index would have.

    :param stores: By the name of the line; the whole store first.
    """
    rows: list[tuple[Cell, ...]] = []
    whole: tuple[int, int] | None = None
    for name, store in stores.items():
        made = read_manifest(store)
        keys = store.entries * store.dimension * np.dtype(np.float16).itemsize
        sizes = (keys if made.data is None else made.data.bytes, paper_index_bytes(store.entries, store.dimension))
        whole = whole or sizes
        saved = [1 - size / max(1, most) if rows else None for size, most in zip(sizes, whole, strict=True)]
        rows.append((name, store.entries, made.kind, sizes[0] / _MIB, saved[0], sizes[1] / _MIB, saved[1]))
    columns = (
        Column("store"),
        Column("entries", "count"),
        Column("index"),
        Column("MiB", "number", 1, help="Size of the index; of an exact one, of the keys, which it searches."),
        Column("saved", "share", help="Compared with the first line."),
        Column("paper's MiB", "number", 1, help="What IVF4096,PQ64 with ids of 64 bits would take for these entries."),
        Column("paper's saved", "share", help="Compared with the first line."),
    )
    note = (
        "An exact index has no data of its own: its size is that of the keys. The last two columns are computed, for "
        "the index that fits the sizes in the paper: IVF4096,PQ64 with ids of 64 bits."
    )
    return Table("index-sizes", "Size of the index", columns, tuple(rows), note, paper="Table 9")


def _measure(
    model: Model, store: Store, draw: _Draw, max_margin: int, progress: Progress
) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
    """Return the margin of each token, and whether the model is right there."""
    margins, rights = [], []
    waiting: list[NDArray[np.float32]] = []
    progress.start("margins of dev tokens", draw.tokens, "tokens")
    for queries, right in draw.batches(model):
        rights.append(right)
        waiting.append(queries)
        done = sum(map(len, rights))
        if sum(map(len, waiting)) >= _QUERIES_AT_ONCE or done == draw.tokens:
            margins.append(margin_of(store, np.concatenate(waiting), max_margin))
            progress.advance(len(margins[-1]))
            waiting.clear()
    progress.finish()
    return np.concatenate(margins), np.concatenate(rights)


def _accuracies(margin: NDArray[np.uint16], right: NDArray[np.bool_], cap: int) -> str:
    """Say how often the model is right where the paper looks: at small and at large margins."""
    parts = {"of all tokens": np.ones(len(margin), np.bool_)}
    if cap >= SMALL:
        parts[f"of those with a margin below {SMALL}"] = margin < SMALL
    if cap >= LARGE:
        parts[f"of those with {LARGE} or more"] = margin >= LARGE
    told = (f"{100 * np.mean(right[part]):.1f} % {which}" for which, part in parts.items() if part.any())
    return f"The model is right at {', '.join(told)}."


def _beyond(cap: int) -> str:
    return f"those above {cap:,} count as {cap:,}."


class _Draw:
    """Tokens of a dev set: all of them, or some that are drawn. Pairs too long for the model are left out."""

    def __init__(self, model: Model, pairs: Sequence[SentencePair], most: int | None, seed: int) -> None:
        self._pairs = [(pair.source, pair.target) for pair in encode_fitting(model, pairs)]
        ends = np.cumsum([len(target) for _, target in self._pairs], dtype=np.int64)
        total = int(ends[-1])
        self.tokens = total if most is None else min(most, total)
        chosen = np.zeros(total, np.bool_)
        chosen[np.random.default_rng(seed).choice(total, self.tokens, replace=False)] = True
        self._chosen = np.split(chosen, ends[:-1])

    def batches(self, model: Model) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
        """Give the model's states at the tokens, and whether it is right there, batch by batch."""
        drawn = [number for number, chosen in enumerate(self._chosen) if chosen.any()]
        for batch in plan_batches([len(self._pairs[number][1]) for number in drawn]):
            numbers = [drawn[place] for place in batch]
            sources, targets = zip(*(self._pairs[number] for number in numbers), strict=True)
            forced = model.teacher_force(sources, targets)
            right = forced.predictions.numpy() == np.concatenate(targets)
            chosen = np.concatenate([self._chosen[number] for number in numbers])
            yield forced.keys.numpy()[chosen], right[chosen]


def _leasts(cap: int) -> list[int]:
    """Return the least margin of each bucket; the last bucket is the cap, which stands for all beyond it."""
    doubled = [SMALL << power for power in range(cap.bit_length()) if SMALL << power < cap]
    return [0, *doubled, cap]


def _names(leasts: Sequence[int], cap: int) -> list[str]:
    spans = [f"{least}" if least + 1 == after else f"{least}-{after - 1}" for least, after in pairwise(leasts)]
    return [*spans, f"{cap}+"]


def _count(margins: NDArray[np.uint16], leasts: Sequence[int]) -> NDArray[np.int64]:
    buckets = np.searchsorted(leasts, margins, side="right") - 1
    return np.bincount(buckets, minlength=len(leasts))


def _share(part: int | np.integer[Any], whole: int | np.integer[Any]) -> float | None:
    return int(part) / int(whole) if whole else None
