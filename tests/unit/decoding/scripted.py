"""A scorer whose probabilities are drawn for every prefix from a fixed seed: search without a model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.likely_tokens import NextTokens
from lacuna.models.top_tokens import best_tokens

EOS = 0


@dataclass
class Prefixes:
    seeds: list[int]
    tokens: list[tuple[int, ...]]


@dataclass(frozen=True)
class Scripted:
    """The first token of a source is the seed of its probabilities."""

    vocabulary_size: int = 5
    banned_ids: tuple[int, ...] = ()
    max_new_tokens: int = 50
    eos_id: int = EOS
    eos_bonus: float = 0.0
    joins: bool = True

    def log_probs(self, seed: int, prefix: Sequence[int]) -> torch.Tensor:
        logits = np.random.default_rng([seed, len(prefix), *prefix]).normal(size=self.vocabulary_size) * 2
        logits[EOS] += self.eos_bonus
        return torch.from_numpy(logits).float().log_softmax(-1)

    def start(self, sources: Sequence[Sequence[int]]) -> Prefixes:
        return Prefixes([source[0] for source in sources], [() for _ in sources])

    def score(
        self,
        state: Prefixes,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        dense = torch.stack([self.log_probs(*each) for each in zip(state.seeds, state.tokens, strict=True)])
        best = best_tokens(dense.clone(), count, self.banned_ids)
        if also is None:
            return best
        rows = np.arange(len(also))[:, None]
        return best.append(also, dense.numpy()[rows, np.maximum(also, 0)], self.banned_ids)

    def join(self, state: Prefixes, others: Prefixes) -> Prefixes:
        return Prefixes(state.seeds + others.seeds, state.tokens + others.tokens)

    def advance(self, state: Prefixes, rows: torch.Tensor, tokens: torch.Tensor) -> Prefixes:
        pairs = list(zip(rows.tolist(), tokens.tolist(), strict=True))
        return Prefixes([state.seeds[row] for row, _ in pairs], [(*state.tokens[row], token) for row, token in pairs])


def all_translations(scorer: Scripted, seed: int, length: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every sequence that ends, or is cut off at ``length``, and its log-probability."""
    allowed = [token for token in range(scorer.vocabulary_size) if token not in scorer.banned_ids]
    words = [token for token in allowed if token != EOS]
    for size in range(length):
        for body in itertools.product(words, repeat=size):
            last = [EOS] if size + 1 < length else allowed
            for token in last:
                tokens = (*body, token)
                yield tokens, sum(float(scorer.log_probs(seed, tokens[:n])[t]) for n, t in enumerate(tokens))
