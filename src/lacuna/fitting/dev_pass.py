"""One pass over a dev set: every pair read through the model, and every target token looked up in the memories.

What is kept of it is for the caller to say; this yields it batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.decoding import plan_batches
from lacuna.errors import CorpusError
from lacuna.fitting.objective import LOWEST_LOG_P, KeyReader, TokenCache
from lacuna.index.distances import other_neighbors
from lacuna.models import Model, TeacherForced
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.memory import Memory, Retrieval, find_neighbors, read_keys


@dataclass(frozen=True, eq=False, slots=True)
class DevBatch:
    """Some dev pairs after the pass. Rows run over sentences, then positions.

    :param sentences: The number of the dev pair that each token is of: (tokens,).
    :param gold: The right tokens: (tokens,).
    :param forced: What the model says of them.
    :param found: Their neighbors.
    """

    sentences: torch.Tensor
    gold: torch.Tensor
    forced: TeacherForced
    found: Retrieval


class ForcedBatch(NamedTuple):
    """Some pairs, read through the model.

    :param numbers: Which pairs.
    :param gold: Their target tokens, one pair after the other: (tokens,).
    """

    numbers: list[int]
    gold: torch.Tensor
    forced: TeacherForced


class ReadOnce(Sequence[SentencePair]):
    """Pairs that go through a model once, however often they are read: for fitting to many memories in turn.

    Keeps the keys of all target tokens in memory.
    """

    def __init__(self, pairs: Iterable[SentencePair]) -> None:
        self._pairs = list(pairs)
        self._kept: dict[tuple[str, int], list[ForcedBatch]] = {}

    @overload
    def __getitem__(self, place: int) -> SentencePair: ...

    @overload
    def __getitem__(self, place: slice) -> list[SentencePair]: ...

    def __getitem__(self, place: int | slice) -> SentencePair | list[SentencePair]:
        return self._pairs[place]

    def __len__(self) -> int:
        return len(self._pairs)

    def forced(self, model: Model, batch_size: int) -> list[ForcedBatch]:
        """Read the pairs through the model, or remember how that went."""
        key = (model.fingerprint, batch_size)
        if key not in self._kept:
            self._kept[key] = list(_force(model, self._pairs, batch_size))
        return self._kept[key]


def read_dev(
    model: Model,
    memories: Sequence[Memory],
    pairs: Iterable[SentencePair],
    k: int,
    *,
    batch_size: int = 32,
    progress: Progress = SILENT,
) -> Iterator[DevBatch]:
    """Force-decode the pairs in batches of like length, and find the k neighbors of every target token."""
    for memory in memories:
        memory.store.check_model(model)
    texts = pairs if isinstance(pairs, ReadOnce) else list(pairs)
    progress.start("retrieve", len(texts), "sentences")
    for numbers, gold, forced in (
        texts.forced(model, batch_size) if isinstance(texts, ReadOnce) else _force(model, texts, batch_size)
    ):
        yield DevBatch(
            sentences=torch.tensor(numbers).repeat_interleave(torch.tensor(forced.lengths)),
            gold=gold,
            forced=forced,
            found=find_neighbors(memories, forced.keys, k),
        )
        progress.advance(len(numbers))
    progress.finish()


def _force(model: Model, pairs: Sequence[SentencePair], batch_size: int) -> Iterator[ForcedBatch]:
    sources = model.encode_sources([pair.source for pair in pairs])
    targets = model.encode_targets([pair.target for pair in pairs])
    # A sentence too long for the model cannot be measured; it is no reason to give up the others.
    fitting = [n for n in range(len(pairs)) if max(len(sources[n]), len(targets[n])) < model.max_length]
    if not fitting:
        raise CorpusError("the dev set has no sentence that the model can take; give another --dev")
    for batch in plan_batches([len(targets[n]) for n in fitting], batch_size=batch_size):
        chosen = [fitting[n] for n in batch]
        forced = model.teacher_force([sources[n] for n in chosen], [targets[n] for n in chosen])
        yield ForcedBatch(chosen, torch.tensor([token for n in chosen for token in targets[n]]), forced)


# Logits held at once (16 MB), and entries looked up at once.
_LOGITS_AT_ONCE = 2**22
_ENTRIES_AT_ONCE = 512

_CPU = torch.device("cpu")
_Columns = dict[str, torch.Tensor]


def collect_dev(
    model: Model,
    memories: Sequence[Memory],
    pairs: Iterable[SentencePair],
    k: int,
    *,
    keep_queries: bool = False,
    batch_size: int = 32,
    progress: Progress = SILENT,
) -> TokenCache:
    """Read a dev set through the model and the memories; tokens come in its order.

    :param keep_queries: For combiners that look at keys.
    """
    parts: list[_Columns] = []
    for batch in read_dev(model, memories, pairs, k, batch_size=batch_size, progress=progress):
        queries = batch.forced.keys
        columns = _neighbor_columns(batch.found) | {"sentences": batch.sentences, "gold": batch.gold}
        columns |= _model_columns(model, queries, batch.gold, columns["values"])
        parts.append(columns | ({"queries": queries} if keep_queries else {}))
    joined = _join(parts)
    order = joined["sentences"].argsort(stable=True)
    columns = {name: column[order] for name, column in joined.items()}
    kept = columns.pop("queries", None)
    return _as_cache(model, memories, columns, None if kept is None else lambda rows: kept[rows])


def collect_entries(
    model: Model, memories: Sequence[Memory], k: int, *, most: int, seed: int, progress: Progress = SILENT
) -> TokenCache:
    """Look entries of the memories up in the memories, each with itself left out.

    An entry's query is its own key, from which the model's distribution follows: nothing is decoded.

    :param most: How many entries; if there are more, they are drawn.
    """
    for memory in memories:
        memory.store.check_model(model)
    owners, entries = _draw_entries(memories, most, seed)
    parts: list[_Columns] = []
    progress.start("retrieve", len(entries), "entries")
    for start in range(0, len(entries), _ENTRIES_AT_ONCE):
        some = slice(start, start + _ENTRIES_AT_ONCE)
        parts.append(_look_up(model, memories, owners[some], entries[some], k))
        progress.advance(len(entries[some]))
    progress.finish()

    def read_queries(rows: torch.Tensor) -> torch.Tensor:
        wanted = rows.numpy()
        return read_keys(memories, owners[wanted], entries[wanted], _CPU)

    return _as_cache(model, memories, _join(parts), read_queries)


def _draw_entries(
    memories: Sequence[Memory], most: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # the memory of each, and its row there
    ends = np.cumsum([memory.store.entries for memory in memories])
    total = int(ends[-1])
    drawn = np.random.default_rng(seed).choice(total, size=min(most, total), replace=False)
    drawn.sort()  # neighboring rows lie in the same pages
    owners = np.searchsorted(ends, drawn, side="right")
    return owners, drawn - np.concatenate([[0], ends])[owners]


def _look_up(
    model: Model, memories: Sequence[Memory], owners: NDArray[np.int64], entries: NDArray[np.int64], k: int
) -> _Columns:
    queries = read_keys(memories, owners, entries, _CPU)
    gold, sentences = np.empty(len(entries), np.int64), np.empty(len(entries), np.int64)
    for number, memory in enumerate(memories):
        own = owners == number
        gold[own], sentences[own] = memory.store.values[entries[own]], memory.store.sentence[entries[own]]
    found = find_neighbors(memories, queries, k + 1)
    itself = (found.entries == entries[:, None]) & (found.memories == owners[:, None])
    others = torch.from_numpy(other_neighbors(itself))
    columns = {name: column[others].reshape(-1, k) for name, column in _neighbor_columns(found).items()}
    columns |= {"sentences": torch.from_numpy(sentences), "gold": torch.from_numpy(gold)}
    return columns | _model_columns(model, queries, columns["gold"], columns["values"])


def _neighbor_columns(found: Retrieval) -> _Columns:
    near = found.neighbors
    columns = {"distances": near.distances.cpu(), "values": near.values.cpu()}
    if near.log_weights is not None:
        columns["log_weights"] = near.log_weights.cpu()
    return columns | {"owners": torch.from_numpy(found.memories), "entries": torch.from_numpy(found.entries)}


@torch.inference_mode()
def _model_columns(model: Model, queries: torch.Tensor, gold: torch.Tensor, values: torch.Tensor) -> _Columns:
    """Return what a cache keeps of the model's log-probabilities."""
    rows = max(1, _LOGITS_AT_ONCE // model.vocabulary_size)
    parts = []
    for keys, *wanted in zip(*(column.split(rows) for column in (queries, gold[:, None], values)), strict=True):
        log_p = model.project(keys).log_softmax(-1).clamp(min=LOWEST_LOG_P)
        asked = torch.cat(wanted, dim=1).clamp(min=0).to(log_p.device)
        parts.append(torch.cat([log_p.gather(1, asked), log_p.sum(1, keepdim=True)], dim=1).cpu())
    numbers = torch.cat(parts)
    return {"log_p_gold": numbers[:, 0], "log_p_values": numbers[:, 1:-1], "log_p_sum": numbers[:, -1]}


def _join(parts: Sequence[_Columns]) -> _Columns:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _as_cache(
    model: Model, memories: Sequence[Memory], columns: _Columns, read_queries: KeyReader | None
) -> TokenCache:
    owners, entries = columns.pop("owners").numpy(), columns.pop("entries").numpy()
    return TokenCache(
        log_weights=columns.pop("log_weights", None),
        vocabulary_size=model.vocabulary_size,
        read_queries=read_queries,
        read_keys=lambda rows: read_keys(memories, owners[rows.numpy()], entries[rows.numpy()], _CPU),
        **columns,
    )
