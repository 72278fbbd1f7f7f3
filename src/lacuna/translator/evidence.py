"""The evidence behind each token of a translation: its probabilities and its neighbors.

It is computed with teacher forcing: one more pass over the finished translation, instead of recording every step of
beam search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import torch

from lacuna.combiners import interpolate
from lacuna.decoding import Hypothesis, plan_batches
from lacuna.models import Model
from lacuna.records import Neighbor, Step
from lacuna.translator.retrieval import Retrieval
from lacuna.translator.retriever import Retriever

# A probability of 0 would have no logarithm.
_SMALLEST = 1e-300


def score_of(steps: Sequence[Step], length_penalty: float) -> float:
    """Return the score of a translation with this evidence, as beam search computes it."""
    log_p = sum(math.log(max(step.p, _SMALLEST)) for step in steps)
    return float(log_p / max(1, len(steps)) ** length_penalty)


class Evidence:
    """Finds the evidence of translations.

    :param retriever: That of the translation; ``None`` for the model alone.
    """

    def __init__(self, model: Model, retriever: Retriever | None) -> None:
        self._model, self._retriever = model, retriever

    def steps(
        self, sources: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis], batch_size: int
    ) -> list[tuple[Step, ...]]:
        """Return the evidence of each token of each translation."""
        results: list[tuple[Step, ...]] = [()] * len(sources)
        for batch in plan_batches([len(source) for source in sources], batch_size=batch_size):
            targets = [hypotheses[number].tokens for number in batch]
            forced = self._model.teacher_force([sources[number] for number in batch], targets)
            gold = torch.tensor([token for target in targets for token in target])
            gaps = torch.tensor([gap for number in batch for gap in hypotheses[number].score_gaps])
            steps = self._steps(forced.keys, gold, forced.log_p_gold.exp().double(), forced.predictions, gaps)
            starts = [0, *accumulate(map(len, targets))]
            for number, (start, end) in zip(batch, pairwise(starts), strict=True):
                results[number] = tuple(steps[start:end])
        return results

    def _steps(
        self,
        keys: torch.Tensor,
        gold: torch.Tensor,
        p_model: torch.Tensor,
        predictions: torch.Tensor,
        score_gaps: torch.Tensor,
    ) -> list[Step]:
        if self._retriever is None:
            weights, p_knn = torch.zeros(len(gold)), torch.zeros(len(gold))
            neighbors: list[tuple[Neighbor, ...]] = [()] * len(gold)
        else:
            retrieval, mass = self._retriever.retrieve(
                keys, lambda rows: self._log_probs(keys[rows])[:, self._model.eos_id]
            )
            mass = mass.double().cpu() * self._retriever.searched(keys, score_gaps, self._log_probs)[:, None]
            weights = mass.sum(1)
            share = mass / weights.clamp(min=1e-30)[:, None]
            p_knn = (share * (retrieval.neighbors.values.cpu() == gold[:, None])).sum(1)
            neighbors = self._neighbors(self._retriever, retrieval, share)
        p = interpolate(p_model, p_knn, weights)
        name = self._model.token_text
        columns = (gold, p, p_model, p_knn, weights, predictions)
        return [
            Step(name(token), final, model, memory, weight, name(prediction), near)
            for (token, final, model, memory, weight, prediction), near in zip(
                zip(*(column.tolist() for column in columns), strict=True), neighbors, strict=True
            )
        ]

    @torch.inference_mode()
    def _log_probs(self, keys: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of the model: (rows, vocabulary)."""
        return self._model.project(keys).log_softmax(-1)

    def _neighbors(self, retriever: Retriever, retrieval: Retrieval, share: torch.Tensor) -> list[tuple[Neighbor, ...]]:
        rows: list[list[Neighbor]] = [[] for _ in share]
        columns = retrieval.columns(retriever.memories, "sentence", "position", "known")
        distances, values = retrieval.neighbors.distances.cpu(), retrieval.neighbors.values.cpu()
        for row, rank in np.argwhere(retrieval.entries >= 0).tolist():
            rows[row].append(
                Neighbor(
                    memory=retriever.memories[retrieval.memories[row, rank]].name,
                    entry=int(retrieval.entries[row, rank]),
                    sentence=int(columns["sentence"][row, rank]),
                    position=int(columns["position"][row, rank]),
                    token=self._model.token_text(int(values[row, rank])),
                    distance=float(distances[row, rank]),
                    weight=float(share[row, rank]),
                    known=bool(columns["known"][row, rank]),
                )
            )
        return [tuple(row) for row in rows]
