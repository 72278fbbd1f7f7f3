"""Tokens to fit a combiner to, with their neighbors and the few log-probabilities of the model that the loss needs.

They are dev tokens, from the dev pass, or entries of the memories, each without itself among its neighbors. Computing
the cache takes the model and a search; fitting then needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners.base import Neighbors, first_ranks
from lacuna.fitting.dev_pass import MIN_LOG_P, DevBatch, DevSet, vocabulary_totals
from lacuna.index.distances import other_neighbors
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.translator.retrieval import Retrieval, find_neighbors, read_keys
from lacuna.workers import WorkerPool

# Weights of the output projection held at once (16 MB), and rows per block, to bound memory. Comparing values takes
# k * k numbers per token.
_WEIGHTS_AT_ONCE = 2**22
_ENTRIES_AT_ONCE = 512
_TOKENS_AT_ONCE = 4096

_CPU = torch.device("cpu")
_Columns = dict[str, torch.Tensor]
# Reads float32 keys for some rows of a cache.
TokenKeys = Callable[[torch.Tensor], torch.Tensor]


def _no_keys(rows: torch.Tensor) -> torch.Tensor:
    raise LookupError("these tokens were collected without keys")


@dataclass(frozen=True, eq=False)
class TokenCache:
    """Tokens with their neighbors and log-probabilities of the model.

    It holds all tokens at once; :meth:`neighbors` gives those of some, as combiners take them.

    :param distances: Distances of the neighbors, as in :class:`~lacuna.combiners.base.Neighbors`: (tokens, k).
    :param values: Values of the neighbors: (tokens, k).
    :param log_weights: Log of the number of entries that each neighbor stands for: (tokens, k), or ``None``.
    :param gold: The right tokens: (tokens,).
    :param log_p_gold: The model's log-probability of the right token: (tokens,).
    :param log_p_values: The model's log-probability of each neighbor's value; arbitrary for a missing one: (tokens, k).
    :param log_p_sum: Sum of the model's log-probabilities over the vocabulary: (tokens,).
    :param vocabulary_size: Number of terms of that sum.
    :param sentences: Sentence of each token: (tokens,).
    :param read_queries: Reads the queries of some tokens; ``None`` if they were not kept: (rows, dimension).
    :param read_keys: Reads the neighbors' keys of some tokens, zeros for a missing neighbor: (rows, k, dimension).
    """

    distances: torch.Tensor
    values: torch.Tensor
    log_weights: torch.Tensor | None
    gold: torch.Tensor
    log_p_gold: torch.Tensor
    log_p_values: torch.Tensor
    log_p_sum: torch.Tensor
    vocabulary_size: int
    sentences: torch.Tensor
    read_queries: TokenKeys | None = None
    read_keys: TokenKeys = _no_keys

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return len(self.gold)

    @cached_property
    def first_ranks(self) -> torch.Tensor:
        """Rank of the nearest neighbor with the same value: (tokens, k)."""
        return torch.cat([first_ranks(part) for part in self.values.split(_TOKENS_AT_ONCE)])

    @cached_property
    def says_gold(self) -> torch.Tensor:
        """Whether the value of a neighbor is the right token: (tokens, k)."""
        return self.values == self.gold[:, None]

    def neighbors(self, rows: torch.Tensor) -> Neighbors:
        """Return the neighbors of some tokens; their keys are read on first use."""
        return Neighbors(
            self.distances.index_select(0, rows),
            self.values.index_select(0, rows),
            None if self.log_weights is None else self.log_weights.index_select(0, rows),
            None if self.read_queries is None else self.read_queries(rows),
            lambda: self.read_keys(rows),
        )


def collect_dev(
    model: Model,
    memories: Sequence[Memory],
    dev: DevSet,
    k: int,
    *,
    keep_queries: bool = False,
    progress: Progress = SILENT,
) -> TokenCache:
    """Run the dev pass and cache the dev tokens, in the order of the dev set.

    :param keep_queries: Keep the queries, for combiners that look at keys.
    """

    def columns_of(batch: DevBatch) -> _Columns:
        queries = batch.outputs.keys
        columns = _neighbor_columns(batch.retrieval) | {"sentences": batch.sentences, "gold": batch.gold}
        columns |= _model_columns(model, queries, batch.gold, columns["values"], dev.totals(model, batch))
        return columns | ({"queries": queries} if keep_queries else {})

    joined = _join(list(dev.retrieve(model, memories, k, columns_of, progress=progress)))
    order = joined["sentences"].argsort(stable=True)
    columns = {name: column[order] for name, column in joined.items()}
    kept = columns.pop("queries", None)
    return _as_cache(model, memories, columns, None if kept is None else lambda rows: kept[rows])


def collect_entries(
    model: Model, memories: Sequence[Memory], k: int, *, most: int, seed: int, progress: Progress = SILENT
) -> TokenCache:
    """Search the memories for their own entries, each left out of its neighbors, and cache these as tokens.

    The query of an entry is its key, and the model's distribution follows from it. So nothing is decoded.

    :param most: Largest number of entries; if there are more, they are drawn at random.
    """
    for memory in memories:
        memory.check_model(model)
    owners, entries = _draw_entries(memories, most, seed)
    parts: list[_Columns] = []
    progress.start("retrieve", len(entries), "entries")
    blocks = (slice(start, start + _ENTRIES_AT_ONCE) for start in range(0, len(entries), _ENTRIES_AT_ONCE))
    pool = WorkerPool.of_process(model.device)
    for part in pool.map(lambda block: _entry_columns(model, memories, owners[block], entries[block], k), blocks):
        parts.append(part)
        progress.advance(len(part["gold"]))
    progress.finish()

    def read_queries(rows: torch.Tensor) -> torch.Tensor:
        wanted = rows.numpy()
        return read_keys(memories, owners[wanted], entries[wanted], _CPU)

    return _as_cache(model, memories, _join(parts), read_queries)


def _draw_entries(
    memories: Sequence[Memory], most: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # the memory of each entry, and its row there
    ends = np.cumsum([memory.store.entries for memory in memories])  # in files, their numbers are 0, 1, 2, ...
    total = int(ends[-1])
    drawn = np.random.default_rng(seed).choice(total, size=min(most, total), replace=False)
    drawn.sort()  # rows next to each other are read from the same pages
    owners = np.searchsorted(ends, drawn, side="right")
    return owners, drawn - np.concatenate([[0], ends])[owners]


def _entry_columns(
    model: Model, memories: Sequence[Memory], owners: NDArray[np.int64], entries: NDArray[np.int64], k: int
) -> _Columns:
    queries = read_keys(memories, owners, entries, _CPU)
    gold, sentences = np.empty(len(entries), np.int64), np.empty(len(entries), np.int64)
    for number, memory in enumerate(memories):
        own = owners == number
        read = memory.columns(entries[own], "values", "sentence")
        gold[own], sentences[own] = read["values"], read["sentence"]
    retrieval = find_neighbors(memories, queries, k + 1)
    itself = (retrieval.entries == entries[:, None]) & (retrieval.memories == owners[:, None])
    others = torch.from_numpy(other_neighbors(itself))
    columns = {name: column[others].reshape(-1, k) for name, column in _neighbor_columns(retrieval).items()}
    columns |= {"sentences": torch.from_numpy(sentences), "gold": torch.from_numpy(gold)}
    totals = vocabulary_totals(model, queries)
    return columns | _model_columns(model, queries, columns["gold"], columns["values"], totals)


def _neighbor_columns(retrieval: Retrieval) -> _Columns:
    near = retrieval.neighbors
    columns = {"distances": near.distances.cpu(), "values": near.values.cpu()}
    if near.log_weights is not None:
        columns["log_weights"] = near.log_weights.cpu()
    return columns | {"owners": torch.from_numpy(retrieval.memories), "entries": torch.from_numpy(retrieval.entries)}


@torch.inference_mode()
def _model_columns(
    model: Model, queries: torch.Tensor, gold: torch.Tensor, values: torch.Tensor, totals: torch.Tensor
) -> _Columns:
    """Return the columns of a cache that come from the model's distribution.

    :param totals: From :func:`~lacuna.fitting.dev_pass.vocabulary_totals`.
    """
    normalizer, log_p_sum = totals.unbind(1)
    wanted = torch.cat([gold[:, None], values], dim=1).clamp(min=0)
    rows = max(1, _WEIGHTS_AT_ONCE // (wanted.shape[1] * queries.shape[1]))
    parts = (model.project_some(*part).cpu() for part in zip(queries.split(rows), wanted.split(rows), strict=True))
    log_p = (torch.cat(list(parts)) - normalizer[:, None]).clamp(min=MIN_LOG_P)
    return {"log_p_gold": log_p[:, 0], "log_p_values": log_p[:, 1:], "log_p_sum": log_p_sum}


def _join(parts: Sequence[_Columns]) -> _Columns:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _as_cache(
    model: Model, memories: Sequence[Memory], columns: _Columns, read_queries: TokenKeys | None
) -> TokenCache:
    owners, entries = columns.pop("owners").numpy(), columns.pop("entries").numpy()
    return TokenCache(
        log_weights=columns.pop("log_weights", None),
        vocabulary_size=model.vocabulary_size,
        read_queries=read_queries,
        read_keys=lambda rows: read_keys(memories, owners[rows.numpy()], entries[rows.numpy()], _CPU),
        **columns,
    )
