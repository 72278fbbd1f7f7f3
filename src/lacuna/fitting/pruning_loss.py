"""What pruning costs: the loss of log-probability on held-out text, as a share of what the whole memory adds to it.

With the whole memory, the reference tokens of a text get a higher log-probability than with the model alone: this is
the gain. A pruned memory takes a part of it back: this is the loss. Their quotient does not depend on the language, the
domain or the size of the text. Bounds come from a paired bootstrap over sentences, so more text makes them tighter.
Does not prune, and does not translate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.combiners import Vanilla
from lacuna.evaluation.noninferiority import upper_bound
from lacuna.evaluation.scores import LEVEL
from lacuna.evaluation.significance import resample_sums
from lacuna.fitting.dev_pass import DevBatch, DevSet
from lacuna.fitting.vanilla import DevRetrievals, gold_log_p, retrieval_columns
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair


@dataclass(frozen=True, slots=True)
class PruningLoss:
    """What a pruned memory loses on held-out text.

    ``share`` and its bounds are ``None`` where the whole memory adds nothing: there is no gain to take a share of.

    :param gain: Log-probability per token that the whole memory adds to the model.
    :param loss: Log-probability per token that the pruned memory takes from the whole one.
    :param share: ``loss / gain``.
    :param low: Lower bound of the 95 % confidence interval of ``share``.
    :param high: Upper bound.
    :param bound: One-sided upper bound of ``share``, at the confidence level that was asked for.
    """

    gain: float
    loss: float
    share: float | None
    low: float | None
    high: float | None
    bound: float | None

    def is_within(self, max_loss: float) -> bool:
        """Return whether the share is at most ``max_loss``, with the confidence of ``bound``."""
        return self.bound is not None and self.bound <= max_loss


@dataclass(frozen=True, eq=False)
class HeldOutTokens:
    """Held-out tokens with their neighbors in the whole memory.

    :param retrieved: Columns of the tokens and their neighbors.
    :param entries: Number of the entry of each neighbor, -1 where there is none: (tokens, k).
    :param sentences: Number of the sentence of each token: (tokens,).
    """

    retrieved: DevRetrievals
    entries: NDArray[np.int64]
    sentences: NDArray[np.int64]

    @property
    def alone(self) -> NDArray[np.float64]:
        """Log-probability of the right tokens with the model alone: (tokens,)."""
        return self.retrieved.log_p_gold.astype(np.float64)

    def without(self, keep: NDArray[np.bool_], k: int) -> DevRetrievals:
        """Return the k nearest of the neighbors that are kept.

        :param keep: Whether an entry of the memory is kept.
        """
        return _nearest_kept(self.retrieved, keep[self.entries] & (self.entries >= 0), k)

    def log_p(self, combiner: Vanilla, keep: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Return the log-probability of the right tokens, with all entries or with those that are kept: (tokens,)."""
        if keep is None:
            return gold_log_p(self.retrieved, combiner)
        return gold_log_p(self.without(keep, combiner.k), combiner)


def find_neighbors_of(
    model: Model, memory: Memory, dev: DevSet, k: int, *, progress: Progress = SILENT
) -> HeldOutTokens:
    """Run the dev pass and keep the neighbors with their entries."""

    def columns_of(batch: DevBatch) -> tuple[NDArray[Any], ...]:
        return *retrieval_columns(batch), batch.retrieval.entries, batch.sentences.numpy()

    parts = dev.retrieve(model, [memory], min(k, memory.entries), columns_of, progress=progress)
    *columns, entries, sentences = map(np.concatenate, zip(*parts, strict=True))
    return HeldOutTokens(DevRetrievals(*columns), entries, sentences)


@dataclass(frozen=True, eq=False)
class LossTest:
    """Compares pruned memories with the whole one on the same tokens.

    :param sentences: Number of the sentence of each token: (tokens,).
    :param alone: Log-probability of the right tokens with the model alone: (tokens,).
    :param whole: The same with the whole memory.
    :param level: Probability with which ``bound`` may be too low.
    """

    sentences: NDArray[np.int64]
    alone: NDArray[np.float64]
    whole: NDArray[np.float64]
    level: float = LEVEL

    def measure(self, pruned: NDArray[np.float64]) -> PruningLoss:
        """Measure a pruned memory.

        :param pruned: Log-probability of the right tokens with it: (tokens,).
        """
        losses = self.whole - pruned
        gain, loss = self.gain, float(losses.mean())
        shares = self._sample(losses)
        bounds = [upper_bound(shares, level) for level in (0.975, 0.025, self.level)]
        low, high, bound = (each if np.isfinite(each) else None for each in bounds)
        return PruningLoss(gain, loss, loss / gain if gain > 0 else None, low, high, bound)

    def gains(self) -> bool:
        """Return whether the memory adds something, with the confidence of the test."""
        return bool(np.mean(self._sampled_gains <= 0) <= self.level)

    @property
    def gain(self) -> float:
        """Log-probability per token that the whole memory adds."""
        return float(self._gains.mean())

    @cached_property
    def _gains(self) -> NDArray[np.float64]:
        return self.whole - self.alone

    @cached_property
    def _sampled_gains(self) -> NDArray[np.float64]:
        return resample_sums(self._by_sentence(self._gains)[:, None])[:, 0]

    def _sample(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share that is lost in each bootstrap sample; infinite where the memory adds nothing.

        ``share <= s`` is then the same as ``loss <= s * gain`` and ``gain > 0``, also where the gain is close to 0.
        """
        gains, sampled = self._sampled_gains, resample_sums(self._by_sentence(losses)[:, None])[:, 0]
        return np.divide(sampled, gains, out=np.full_like(gains, np.inf), where=gains > 0)

    def _by_sentence(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum up tokens; sentences without tokens are left out, so that they do not count as text."""
        _, places = np.unique(self.sentences, return_inverse=True)
        sums: NDArray[np.float64] = np.bincount(places, weights=values).astype(np.float64)
        return sums


def measure_loss(
    model: Model,
    whole: Memory,
    pruned: Memory,
    pairs: DevSet | Iterable[SentencePair],
    combiner: Vanilla,
    *,
    progress: Progress = SILENT,
) -> PruningLoss:
    """Measure what a pruned memory loses on held-out pairs, such as a test set.

    :param pruned: Any memory with a part of the entries, such as ``whole.keeping(mask)`` or a store that was pruned.
    :param pairs: Pairs that neither memory contains and that chose nothing.
    :param combiner: Vanilla kNN-MT for both, such as that of :func:`~lacuna.fitting.choose_pruning`.
    """
    held_out = DevSet(pairs) if not isinstance(pairs, DevSet) else pairs
    found = [find_neighbors_of(model, memory, held_out, combiner.k, progress=progress) for memory in (whole, pruned)]
    test = LossTest(found[0].sentences, found[0].alone, found[0].log_p(combiner))
    return test.measure(found[1].log_p(combiner))


def _nearest_kept(retrieved: DevRetrievals, kept: NDArray[np.bool_], k: int) -> DevRetrievals:
    """Return the k nearest of the neighbors that are kept."""
    order = np.argsort(~kept, axis=1, kind="stable")[:, :k]
    rows = np.arange(len(order))[:, None]
    return DevRetrievals(
        retrieved.log_p_gold,
        np.where(kept[rows, order], retrieved.distances[rows, order], np.float32(np.inf)),
        retrieved.says_gold[rows, order],
        None if retrieved.weights is None else retrieved.weights[rows, order],
    )
