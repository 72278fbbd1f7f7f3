"""Collecting what combiners learn from: the tokens of a dev set, or entries of the memories themselves.

The model's logits are made for a bounded number of tokens at once, and what is kept of them is k + 2 numbers. Keys of
entries are not kept: they are read from the stores again when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners.fitting import LOWEST_LOG_P, KeyReader, TokenCache
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.dev_pass import read_dev
from lacuna.translator.memories import Found, Memory, find_neighbors, read_keys

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
        memory.store.check_model(model.fingerprint)
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
    itself[:, -1] |= ~itself.any(1)  # an index that misses the entry itself gives one other too many
    others = torch.from_numpy(~itself)
    columns = {name: column[others].reshape(-1, k) for name, column in _neighbor_columns(found).items()}
    columns |= {"sentences": torch.from_numpy(sentences), "gold": torch.from_numpy(gold)}
    return columns | _model_columns(model, queries, columns["gold"], columns["values"])


def _neighbor_columns(found: Found) -> _Columns:
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
