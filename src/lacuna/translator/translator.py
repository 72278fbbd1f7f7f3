"""Translating text with a model, with or without memories, and saying why each token was chosen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch

from lacuna.combiners import Combiner, Gate, SavedCombiner, Vanilla
from lacuna.decoding import BeamSettings, Hypothesis, decode_all, muster, plan_batches
from lacuna.errors import LacunaWarning
from lacuna.index import use_threads
from lacuna.models import Model
from lacuna.models.stepping import ModelScorer
from lacuna.progress import SILENT, Progress
from lacuna.records import Neighbor, Step, Translation
from lacuna.translator.knn_scorer import KnnScorer, SearchCount
from lacuna.translator.memory import Memory, Retrieval, find_neighbors


def shorten(source: list[int], most: int) -> list[int]:
    """Cut a source to so many tokens, keeping its last one, which ends the sentence."""
    return source if len(source) <= most else [*source[: most - 1], source[-1]]


# Keys whose distributions are made at once, for the gate's sake.
_PROJECTED_AT_ONCE = 256


class Translator:
    """A model, any number of memories, and the combiner that weighs what they say.

    :param memories: Searched together; without any, this is the plain model.
    :param combiner: How neighbors become probability.
    :param gate: Where to search at all; without it, everywhere.
    :param int8: Translate with 8-bit weights: quicker on a CPU, and a little less exact.
    """

    def __init__(
        self,
        model: Model,
        memories: Sequence[Memory] = (),
        combiner: Combiner | None = None,
        beam: BeamSettings | None = None,
        *,
        gate: Gate | None = None,
        int8: bool = False,
    ) -> None:
        for memory in memories:
            memory.store.check_model(model)
        if isinstance(combiner, SavedCombiner):
            combiner.check_model(model.fingerprint)
        self.model, self.memories, self.combiner = model, tuple(memories), combiner or Vanilla()
        self.beam = beam or BeamSettings()
        self.gate = gate if memories else None
        # Made once: preparing a model's weights for stepping takes a while.
        self._plain = ModelScorer(model, int8=int8)
        self._scorer = KnnScorer(self._plain, self.memories, self.combiner, self.gate) if memories else None

    @property
    def search_count(self) -> SearchCount:
        """How many steps were scored so far, and for how many the memories were searched."""
        return SearchCount() if self._scorer is None else self._scorer.count

    def translate(
        self, texts: Sequence[str], *, evidence: bool = False, batch_size: int = 32, progress: Progress = SILENT
    ) -> list[Translation]:
        """Translate sentences, in order; a blank one stays blank, one too long for the model is cut, with a warning.

        On a CPU the threads that torch may use share the batches out among them.

        :param evidence: Also say, for every token, what model and memories thought of it.
        """
        written = [number for number, text in enumerate(texts) if text.strip()]
        sources = self._fitting(written, self.model.encode_sources([texts[number] for number in written]))
        scorer = self._plain if self._scorer is None else self._scorer
        crew = muster(len(sources), batch_size, use_threads) if self.model.device.type == "cpu" else None
        found = decode_all(scorer, sources, self.beam, batch_size=batch_size, crew=crew, progress=progress)
        best = [hypotheses[0] for hypotheses in found]
        steps = self._evidence(sources, best, batch_size) if evidence else [()] * len(best)
        results = [Translation(text, "", 0.0, 0) for text in texts]
        for number, hypothesis, why in zip(written, best, steps, strict=True):
            text = self.model.decode(hypothesis.tokens)
            tokens = hypothesis.tokens
            results[number] = Translation(texts[number], text, hypothesis.score, len(tokens), why, tokens)
        return results

    def _fitting(self, numbers: Sequence[int], sources: list[list[int]]) -> list[list[int]]:
        """Cut sources that are longer than the model can take, and say so."""
        most = self.model.max_length
        cut = [number + 1 for number, source in zip(numbers, sources, strict=True) if len(source) > most]
        if cut:
            which = ", ".join(map(str, cut[:5])) + (", ..." if len(cut) > 5 else "")
            text = f"{len(cut)} sentences have more than the {most} tokens the model takes and were cut: {which}"
            warnings.warn(text, LacunaWarning, stacklevel=3)
        return [shorten(source, most) for source in sources]

    def explain(self, sources: Sequence[str], targets: Sequence[str]) -> list[tuple[Step, ...]]:
        """Say why each token of given translations would be chosen, or not."""
        tokens = [tuple(ids) for ids in self.model.encode_targets(targets)]
        hypotheses = [Hypothesis(ids, 0.0, (), (0.0,) * len(ids)) for ids in tokens]
        return self._evidence(self.model.encode_sources(sources), hypotheses, 32)

    def _evidence(
        self, sources: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis], batch_size: int
    ) -> list[tuple[Step, ...]]:
        """Read the finished translations through the model once more: one pass instead of books kept per beam."""
        results: list[tuple[Step, ...]] = [()] * len(sources)
        for batch in plan_batches([len(source) for source in sources], batch_size=batch_size):
            targets = [hypotheses[number].tokens for number in batch]
            forced = self.model.teacher_force([sources[number] for number in batch], targets)
            gold = torch.tensor([token for target in targets for token in target])
            behind = torch.tensor([gap for number in batch for gap in hypotheses[number].behind])
            steps = self._steps(forced.keys, gold, forced.log_p_gold.exp().double(), forced.predictions, behind)
            starts = [0, *accumulate(map(len, targets))]
            for place, number in enumerate(batch):
                results[number] = tuple(steps[starts[place] : starts[place + 1]])
        return results

    def _steps(
        self,
        keys: torch.Tensor,
        gold: torch.Tensor,
        p_model: torch.Tensor,
        predictions: torch.Tensor,
        behind: torch.Tensor,
    ) -> list[Step]:
        if not self.memories:
            weights, p_knn = torch.zeros(len(gold)), torch.zeros(len(gold))
            neighbors: list[tuple[Neighbor, ...]] = [()] * len(gold)
        else:
            found = find_neighbors(self.memories, keys, self.combiner.k)
            mass = self.combiner.mass(found.neighbors).double().cpu() * self._searched(keys, behind)[:, None]
            weights = mass.sum(1)
            share = mass / weights.clamp(min=1e-30)[:, None]
            p_knn = (share * (found.neighbors.values.cpu() == gold[:, None])).sum(1)
            neighbors = self._neighbors(found, share)
        p = weights * p_knn + (1 - weights) * p_model
        name = self.model.token_text
        columns = (gold, p, p_model, p_knn, weights, predictions)
        return [
            Step(name(token), final, model, memory, weight, name(said), near)
            for (token, final, model, memory, weight, said), near in zip(
                zip(*(column.tolist() for column in columns), strict=True), neighbors, strict=True
            )
        ]

    def _searched(self, keys: torch.Tensor, behind: torch.Tensor) -> torch.Tensor:
        """Tell for which keys the memories are searched when translating: 1 or 0, (rows,)."""
        if self.gate is None:
            return torch.ones(len(keys))
        with torch.inference_mode():
            wanted = [
                self.gate.wants(part, self.model.project(part).log_softmax(-1), gaps.to(part.device)).cpu()
                for part, gaps in zip(keys.split(_PROJECTED_AT_ONCE), behind.split(_PROJECTED_AT_ONCE), strict=True)
            ]
        return torch.cat(wanted).double()

    def _neighbors(self, found: Retrieval, share: torch.Tensor) -> list[tuple[Neighbor, ...]]:
        rows: list[list[Neighbor]] = [[] for _ in share]
        distances = found.neighbors.distances.cpu()
        for row, column in np.argwhere(found.entries >= 0):
            memory, entry = self.memories[found.memories[row, column]], int(found.entries[row, column])
            store = memory.store
            rows[row].append(
                Neighbor(
                    memory=memory.name,
                    entry=entry,
                    sentence=int(store.sentence[entry]),
                    position=int(store.position[entry]),
                    token=self.model.token_text(int(store.values[entry])),
                    distance=float(distances[row, column]),
                    weight=float(share[row, column]),
                    known=bool(store.known[entry]),
                )
            )
        return [tuple(row) for row in rows]
