"""Translate text with a model, with or without memories, and give the evidence behind each token.

Does not know files, or how translations are shown.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import accumulate, groupby, islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import torch

from lacuna.combiners import Combiner, EndGuard, ExactContexts, Gate, SavedCombiner, Vanilla, interpolate
from lacuna.decoding import BatchCapacity, BeamSettings, Hypothesis, decode_blocks, plan_batches, pool_for
from lacuna.errors import LacunaWarning, UnavailableError
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.models.stepping import ModelScorer
from lacuna.progress import SILENT, Progress
from lacuna.records import Neighbor, Step, Translation
from lacuna.translator.knn_scorer import KnnScorer, SearchCount
from lacuna.translator.length_check import LengthCheck
from lacuna.translator.restoring import Restored, Restorer
from lacuna.translator.retrieval import Retrieval, find_neighbors
from lacuna.translator.streaming import Item, gather_windows
from lacuna.workers import Pool


def shorten(source: list[int], most: int) -> list[int]:
    """Truncate a source to ``most`` tokens, and keep its last token, which ends the sentence."""
    return source if len(source) <= most else [*source[: most - 1], source[-1]]


# Keys that are projected to the vocabulary at once, for the gate.
_PROJECTED_AT_ONCE = 256

# Beam width when a sentence is translated again because its placeholders were lost: a wide beam has more hypotheses to
# choose from, and such sentences are rare.
_WIDE_BEAM = 20

# Sentences whose placeholders are put back together, so that those to be translated again share batches.
_RESTORED_AT_ONCE = 128

# Sentences in each block of a window, sorted by length within the block. The first blocks are small, so that output
# starts early.
BLOCKS = (64, 128, 256, 512, 1024)


# Sentences that a worker of a pool translates at a time. It does not depend on the number of workers, so that the same
# sentences always share batches.
WINDOW = 256


class Translator:
    """A model, any number of memories, and the combiner that mixes their probabilities.

    :param memories: Searched together; without any, this is the plain model.
    :param combiner: Turns neighbors into probability.
    :param beam: Settings of beam search.
    :param gate: Decides where to search; without it, every step searches.
    :param int8: Translate with 8-bit weights: faster for large models on a CPU, slightly less accurate.
    :param exact_contexts: Where a memory has the same source and target prefix, trust it: a sentence of the memory is
        translated as there. Other sentences are not affected.
    :param guard_ends: A memory may end a translation only where the model sees an end as well; see
        :class:`~lacuna.combiners.EndGuard`.
    :param fallback: If a memory on a server does not answer, translate with the model alone and say so in the
        translation, instead of raising an error.
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
        exact_contexts: bool = False,
        guard_ends: bool = False,
        fallback: bool = False,
    ) -> None:
        if isinstance(combiner, SavedCombiner):
            combiner.check_model(model.fingerprint)
        combiner = combiner or Vanilla()
        self.model, self.combiner = model, ExactContexts(combiner) if exact_contexts else combiner
        self.beam, self.fallback = beam or BeamSettings(), fallback
        # Created once: preparing the weights of a model for stepping takes a while.
        self._plain = ModelScorer(model, int8=int8)
        self._int8 = int8
        self._end_guard = EndGuard(model.eos_id) if guard_ends else None
        self._set_memories(memories, gate)

    def _set_memories(self, memories: Sequence[Memory], gate: Gate | None) -> None:
        for memory in memories:
            memory.check_model(self.model)
        self.memories = tuple(memories)
        self.gate = gate if memories else None
        self._scorer: KnnScorer | None = None
        if memories:
            self._scorer = KnnScorer(self._plain, self.memories, self.combiner, self.gate, self._end_guard)

    def reopening(self) -> tuple[Callable[..., Translator], tuple[object, ...]]:
        """Say how another process opens this translator; see :class:`~lacuna.workers.Reopened`."""
        exact = isinstance(self.combiner, ExactContexts)
        combiner = self.combiner.combiner if isinstance(self.combiner, ExactContexts) else self.combiner
        guard = self._end_guard is not None
        settings = (self.gate, self._int8, exact, guard, self.fallback)
        return _reopen, (self.model, self.memories, combiner, self.beam, *settings)

    def with_memories(self, memories: Sequence[Memory]) -> Translator:
        """Return a translator with other memories and otherwise the same settings, gate and int8 included."""
        other = copy.copy(self)
        other._set_memories(memories, self.gate)
        return other

    @property
    def search_count(self) -> SearchCount:
        """Number of rows scored so far, and for how many of them the memories were searched."""
        return SearchCount() if self._scorer is None else self._scorer.count

    def translate(
        self,
        texts: Sequence[str],
        *,
        evidence: bool = False,
        batch_size: int = 32,
        progress: Progress = SILENT,
        pool: Pool | None = None,
    ) -> list[Translation]:
        """Translate sentences and return the translations in order.

        A blank sentence stays blank. A sentence too long for the model is truncated, with a warning. On a CPU, the
        threads of torch form a worker pool.

        :param evidence: Also return the evidence behind every token.
        :param pool: As in :meth:`stream`.
        """
        progress.start("translate", sum(1 for text in texts if text.strip()), "sentences")
        if pool is None:
            found = list(self._translate(texts, [len(texts)], evidence, batch_size, progress))
        else:
            found = list(self._translate_in(pool, texts, evidence, batch_size, progress))
        progress.finish()
        return found

    def stream(
        self,
        texts: Iterable[str],
        *,
        evidence: bool = False,
        batch_size: int = 32,
        progress: Progress = SILENT,
        pool: Pool | None = None,
    ) -> Generator[Translation, None, None]:
        """Translate a stream of sentences of any length and yield the translations in order, as they become ready.

        Sentences are translated in windows. A window ends early if ``texts`` pauses. At most two windows are in memory:
        one that is translated and one that a background thread reads ahead.

        :param evidence: Also return the evidence behind every token.
        :param pool: Workers that translate windows of :data:`WINDOW` sentences each. It reads ahead for all of them,
            also if ``texts`` pauses.
        """
        progress.start("translate", None, "sentences")
        if pool is not None:
            yield from self._translate_in(pool, texts, evidence, batch_size, progress)
            return progress.finish()
        done = 0
        for window in gather_windows(texts, sum(BLOCKS)):
            yield from self._translate(window, BLOCKS, evidence, batch_size, progress, done)
            done += len(window)
        progress.finish()

    def _translate(
        self,
        texts: Sequence[str],
        blocks: Sequence[int],
        evidence: bool,
        batch_size: int,
        progress: Progress,
        offset: int = 0,
    ) -> Iterator[Translation]:
        """Translate sentences, and yield the translations in order as soon as they are ready.

        :param offset: Number of sentences before these, for warnings.
        """
        written = [number for number, text in enumerate(texts) if text.strip()]
        encoded = self.model.encode_sources([texts[number] for number in written])
        sources = self._truncated([offset + number for number in written], encoded)
        with closing(self._decode(sources, blocks, batch_size, progress)) as decoding:
            done, following = 0, 0
            together = max(batch_size if evidence else 1, _RESTORED_AT_ONCE if self.model.mask_placeholders else 1)
            for group in _at_least(together, decoding):
                for alone, run in groupby(group, itemgetter(1)):
                    found = [hypotheses for hypotheses, _ in run]
                    chosen = slice(done, done + len(found))
                    numbers, own = written[chosen], [texts[number] for number in written[chosen]]
                    finished = self._finish(own, sources[chosen], found, alone, evidence, batch_size)
                    for number, (one, why, alone) in zip(numbers, finished, strict=True):
                        yield from (Translation(text, "", 0.0, 0) for text in texts[following:number])
                        tokens, score = one.hypothesis.tokens, one.hypothesis.score
                        yield Translation(texts[number], one.text, score, len(tokens), why, tokens, alone, one.flag)
                        following = number + 1
                    done += len(found)
            yield from (Translation(text, "", 0.0, 0) for text in texts[following:])

    def _decode(
        self, sources: Sequence[Sequence[int]], blocks: Sequence[int], batch_size: int, progress: Progress
    ) -> Generator[list[tuple[list[Hypothesis], bool]], None, None]:
        """Yield the hypotheses of each sentence in order, in groups, and whether the model made them alone.

        If a memory fails, sentences that are not finished are translated again without memories.
        """
        done = 0
        if self._scorer is not None:
            try:
                for group in self._search(self._scorer, sources, blocks, batch_size, progress):
                    yield [(hypotheses, False) for hypotheses in group]
                    done += len(group)
                return
            except UnavailableError:
                if not self.fallback:
                    raise
        rest = sources[done:]
        for group in self._search(self._plain, rest, blocks if not done else [len(rest)], batch_size, progress):
            yield [(hypotheses, self._scorer is not None) for hypotheses in group]

    def _finish(
        self,
        texts: Sequence[str],
        sources: Sequence[Sequence[int]],
        found: Sequence[list[Hypothesis]],
        alone: bool,
        evidence: bool,
        batch_size: int,
    ) -> list[_Finished]:
        """Choose a hypothesis of each sentence, and add the evidence, with the memories that found it.

        If a memory fails now, these sentences are translated again without: evidence must be that of the translation.

        :param alone: The model found the hypotheses without the memories.
        """
        used = self.with_memories(()) if alone else self
        try:
            retry = partial(used.find_hypotheses, beam=_WIDE_BEAM, batch_size=batch_size)
            restored = Restorer(self.model, retry).restore(texts, found)
            best = [one.hypothesis for one in restored]
            lengths = LengthCheck(self.model, used.memories, partial(self._translate_alone, batch_size))
            flags = lengths.flags(sources, best)
            restored = [one.flagged(flag) for one, flag in zip(restored, flags, strict=True)]
            steps = used._evidence(sources, best, batch_size) if evidence else [()] * len(best)
        except UnavailableError:
            if not self.fallback:
                raise
            groups = self._search(self._plain, sources, [len(sources)], batch_size, SILENT)
            again = [hypotheses for group in groups for hypotheses in group]
            return self._finish(texts, sources, again, True, evidence, batch_size)
        return [_Finished(one, why, alone) for one, why in zip(restored, steps, strict=True)]

    def find_hypotheses(self, texts: Sequence[str], beam: int, *, batch_size: int = 32) -> list[list[Hypothesis]]:
        """Return all hypotheses of each text, the best first; placeholders are not put back.

        :param beam: Beam width, if it is more than that of the translator. Texts that are too long are truncated.
        """
        sources = [shorten(source, self.model.max_length) for source in self.model.encode_sources(texts)]
        wide = copy.copy(self)
        wide.beam = replace(self.beam, beam=max(self.beam.beam, beam))
        groups = wide._search(self._scorer or self._plain, sources, [len(sources)], batch_size, SILENT)
        return [hypotheses for group in groups for hypotheses in group]

    def _translate_alone(self, batch_size: int, sources: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        """Translate with the model alone, greedily: the length is all that counts."""
        greedy = copy.copy(self)
        greedy.beam = replace(self.beam, beam=1)
        groups = greedy._search(self._plain, sources, [len(sources)], batch_size, SILENT)
        return [hypotheses[0].tokens for group in groups for hypotheses in group]

    def _search(
        self,
        scorer: ModelScorer | KnnScorer,
        sources: Sequence[Sequence[int]],
        blocks: Sequence[int],
        batch_size: int,
        progress: Progress,
    ) -> Iterator[list[list[Hypothesis]]]:
        on_cpu = self.model.device.type == "cpu"
        pool = pool_for(len(sources), batch_size, self._plain.min_sentences) if on_cpu else None
        decoding = decode_blocks(
            scorer, sources, self.beam, blocks, BatchCapacity(batch_size), pool=pool, on_finished=progress.advance
        )
        with closing(decoding):
            yield from decoding

    def _translate_in(
        self, pool: Pool, texts: Iterable[str], evidence: bool, batch_size: int, progress: Progress
    ) -> Iterator[Translation]:
        """Translate windows of sentences in the workers of a pool."""
        task = partial(translate_window, self, evidence, batch_size)
        with closing(pool.map(task, _windows(texts))) as windows:
            for window in windows:
                if self._scorer is not None:
                    self._scorer.count.add(window.rows, window.searched)
                progress.advance(sum(1 for result in window.translations if result.source.strip()))
                yield from window.translations

    def _truncated(self, numbers: Sequence[int], sources: list[list[int]]) -> list[list[int]]:
        """Truncate sources that are too long for the model, with a warning."""
        most = self.model.max_length
        cut = [number + 1 for number, source in zip(numbers, sources, strict=True) if len(source) > most]
        if cut:
            which = ", ".join(map(str, cut[:5])) + (", ..." if len(cut) > 5 else "")
            text = f"{len(cut)} sentences have more than the model's maximum of {most} tokens and were cut: {which}"
            warnings.warn(text, LacunaWarning, stacklevel=3)
        return [shorten(source, most) for source in sources]

    def explain(self, sources: Sequence[str], targets: Sequence[str]) -> list[tuple[Step, ...]]:
        """Return the evidence for each token of given translations."""
        tokens = [tuple(ids) for ids in self.model.encode_targets(targets)]
        hypotheses = [Hypothesis(ids, 0.0, (), (0.0,) * len(ids)) for ids in tokens]
        return self._evidence(self.model.encode_sources(sources), hypotheses, 32)

    def _evidence(
        self, sources: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis], batch_size: int
    ) -> list[tuple[Step, ...]]:
        """Compute evidence with teacher forcing: one more pass, instead of recording every step of beam search."""
        results: list[tuple[Step, ...]] = [()] * len(sources)
        for batch in plan_batches([len(source) for source in sources], batch_size=batch_size):
            targets = [hypotheses[number].tokens for number in batch]
            forced = self.model.teacher_force([sources[number] for number in batch], targets)
            gold = torch.tensor([token for target in targets for token in target])
            gaps = torch.tensor([gap for number in batch for gap in hypotheses[number].score_gaps])
            steps = self._steps(forced.keys, gold, forced.log_p_gold.exp().double(), forced.predictions, gaps)
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
        score_gaps: torch.Tensor,
    ) -> list[Step]:
        if not self.memories:
            weights, p_knn = torch.zeros(len(gold)), torch.zeros(len(gold))
            neighbors: list[tuple[Neighbor, ...]] = [()] * len(gold)
        else:
            found = find_neighbors(self.memories, keys, self.combiner.k)
            mass = self.combiner.mass(found.neighbors)
            if self._end_guard is not None:
                mass = self._end_guard.apply(
                    mass, found.neighbors, lambda rows: self._log_probs(keys[rows])[:, self.model.eos_id]
                )
            mass = mass.double().cpu() * self._searched(keys, score_gaps)[:, None]
            weights = mass.sum(1)
            share = mass / weights.clamp(min=1e-30)[:, None]
            p_knn = (share * (found.neighbors.values.cpu() == gold[:, None])).sum(1)
            neighbors = self._neighbors(found, share)
        p = interpolate(p_model, p_knn, weights)
        name = self.model.token_text
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
        return self.model.project(keys).log_softmax(-1)

    def _searched(self, keys: torch.Tensor, score_gaps: torch.Tensor) -> torch.Tensor:
        """Return 1 for keys with which the memories are searched during translation, 0 for others: (rows,)."""
        if self.gate is None:
            return torch.ones(len(keys))
        with torch.inference_mode():
            parts = zip(keys.split(_PROJECTED_AT_ONCE), score_gaps.split(_PROJECTED_AT_ONCE), strict=True)
            wanted = [self.gate.wants(part, self._log_probs(part), gaps.to(part.device)).cpu() for part, gaps in parts]
        return torch.cat(wanted).double()

    def _neighbors(self, found: Retrieval, share: torch.Tensor) -> list[tuple[Neighbor, ...]]:
        rows: list[list[Neighbor]] = [[] for _ in share]
        columns = found.columns(self.memories, "sentence", "position", "known")
        distances, values = found.neighbors.distances.cpu(), found.neighbors.values.cpu()
        for row, column in np.argwhere(found.entries >= 0).tolist():
            rows[row].append(
                Neighbor(
                    memory=self.memories[found.memories[row, column]].name,
                    entry=int(found.entries[row, column]),
                    sentence=int(columns["sentence"][row, column]),
                    position=int(columns["position"][row, column]),
                    token=self.model.token_text(int(values[row, column])),
                    distance=float(distances[row, column]),
                    weight=float(share[row, column]),
                    known=bool(columns["known"][row, column]),
                )
            )
        return [tuple(row) for row in rows]


def _reopen(
    model: Model,
    memories: Sequence[Memory],
    combiner: Combiner,
    beam: BeamSettings,
    gate: Gate | None,
    int8: bool,
    exact_contexts: bool,
    guard_ends: bool,
    fallback: bool,
) -> Translator:
    return Translator(
        model,
        memories,
        combiner,
        beam,
        gate=gate,
        int8=int8,
        exact_contexts=exact_contexts,
        guard_ends=guard_ends,
        fallback=fallback,
    )


class _Finished(NamedTuple):
    """A translation with its evidence, and whether the model made both alone because a memory did not answer."""

    restored: Restored
    steps: tuple[Step, ...]
    alone: bool


class TranslatedWindow(NamedTuple):
    """The translations of a window, and what :class:`~lacuna.translator.knn_scorer.SearchCount` has counted."""

    translations: list[Translation]
    rows: int
    searched: int


def translate_window(
    translator: Translator, evidence: bool, batch_size: int, numbered: tuple[int, list[str]]
) -> TranslatedWindow:
    """Translate a window of sentences: the task of a worker of a pool.

    :param numbered: The number of sentences before the window, for warnings; and the window.
    """
    offset, texts = numbered
    own = translator.with_memories(translator.memories)  # with a count of its own
    found = list(own._translate(texts, [len(texts)], evidence, batch_size, SILENT, offset))
    return TranslatedWindow(found, own.search_count.rows, own.search_count.searched)


def _windows(texts: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    stream, offset = iter(texts), 0
    while window := list(islice(stream, WINDOW)):
        yield offset, window
        offset += len(window)


def _at_least(size: int, groups: Iterable[list[Item]]) -> Iterator[list[Item]]:
    """Merge groups to ``size`` or more items each; the last may be smaller."""
    merged: list[Item] = []
    for group in groups:
        merged += group
        if len(merged) >= size:
            yield merged
            merged = []
    if merged:
        yield merged
