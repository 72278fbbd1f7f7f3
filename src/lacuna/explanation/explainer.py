"""Explain the translations of a translator, with the texts, margins and confidence of each token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace

import numpy as np

from lacuna.errors import SettingError, UnavailableError
from lacuna.explanation.explanation import (
    ChosenBy,
    ExplainedNeighbor,
    ExplainedToken,
    Explanation,
    mark,
    pieces,
    spans_of,
)
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import Neighbor, Step, TranslatedTerm, Translation
from lacuna.translator import Translator
from lacuna.translator.evidence import score_of
from lacuna.translator.knowledge import MAX_MARGIN, Knowledge, know


def explain(
    translator: Translator,
    text: str,
    *,
    target: str | None = None,
    without: Collection[int] = (),
) -> Explanation:
    """Translate a sentence and explain every token.

    The calibration of the translator's system, if it has one, gives the confidence of each token.

    :param target: A translation to explain instead of the translator's own.
    :param without: Ids of sentences whose entries the search must not find, in any memory.
    """
    explainer = Explainer(translator, without=without)
    [explanation] = explainer.explain([text], None if target is None else [target])
    return explanation


class Explainer:
    """Explains the translations of a translator, exactly as it makes them: same combiner, gate and weights.

    :param without: Ids of sentences whose entries the search must not find, in any memory.
    :param most_margin: Margins are counted up to this bound.
    """

    def __init__(self, translator: Translator, *, without: Collection[int] = (), most_margin: int = MAX_MARGIN) -> None:
        if most_margin < 1:
            raise SettingError(f"most_margin: got {most_margin}; allowed is 1 or more")
        self._calibration = translator.system.calibration
        if self._calibration is not None:
            self._calibration.check(translator.memories, most_margin)
        _check_names(translator.memories)
        self.without = tuple(sorted(set(without)))
        _check_without(self.without, translator.memories)
        memories = translator.memories
        if self.without:
            memories = tuple(memory.excluding(self.without) for memory in memories)
        # All or nothing: a translation, its evidence and its margins are with the memories, or all are without.
        self.translator = replace(translator.system, memories=memories, fallback=False).open()
        self._fallback, self._without_memory = translator.system.fallback, translator.with_memories(())
        self._alone = replace(self._without_memory.system, glossary=None, strict_terms=False).open()
        self._most_margin = most_margin

    def explain(
        self, texts: Sequence[str], targets: Sequence[str] | None = None, *, progress: Progress = SILENT
    ) -> list[Explanation]:
        """Translate sentences and explain every token.

        If a memory does not answer and the translator may do without, all of them are explained without memories.

        :param targets: Translations to explain instead of the translator's own; one for each text.
        """
        try:
            return self._explained(texts, targets, progress)
        except UnavailableError:
            if not self._fallback:
                raise
        alone = Explainer(self._without_memory)._explained(texts, targets, progress)
        return [replace(explanation, without=self.without, without_memory=True) for explanation in alone]

    def _explained(self, texts: Sequence[str], targets: Sequence[str] | None, progress: Progress) -> list[Explanation]:
        if targets is None:
            translations = self.translator.translate(texts, evidence=True, progress=progress)
        else:
            translations = self._given(texts, targets)
        has_memory = bool(self.translator.memories)
        is_alone = not has_memory and self.translator.system.glossary is None
        plain = translations if is_alone and targets is None else self._alone.translate(texts, progress=progress)
        known: Sequence[Knowledge | None] = [None] * len(texts)
        if has_memory:
            ids = [translation.ids for translation in translations]
            sources = self.translator.encode(texts)
            known = know(self.translator.model, self.translator.memories, sources, ids, self._most_margin)
        neighbors = _NeighborSentences(self.translator.model, self.translator.memories, translations)
        return [
            self._explanation(translation, base.text, knowledge, neighbors)
            for translation, base, knowledge in zip(translations, plain, known, strict=True)
        ]

    def _given(self, texts: Sequence[str], targets: Sequence[str]) -> list[Translation]:
        """Treat given translations as if the translator had made them."""
        if len(texts) != len(targets):
            raise SettingError(f"got {len(texts)} sentences but {len(targets)} translations; give one for each")
        model, penalty = self.translator.model, self.translator.beam.length_penalty
        results = []
        encoded = model.encode_targets(targets)
        for text, target, ids, steps in zip(
            texts, targets, encoded, self.translator.explain(texts, targets), strict=True
        ):
            score = score_of(steps, penalty)
            results.append(Translation(text, target, score, len(ids), steps, tuple(ids)))
        return results

    def _explanation(
        self, translation: Translation, base_text: str, known: Knowledge | None, neighbors: _NeighborSentences
    ) -> Explanation:
        texts = pieces(self.translator.model.decode, translation.ids, translation.text)
        margins = [None] * len(texts) if known is None else known.margins.tolist()
        confidences: Sequence[float | None] = [None] * len(texts)
        confidence = None
        if self._calibration is not None and known is not None and texts:
            confidences = self._calibration.probability(known.margins, known.max_probs).tolist()
            confidence = float(np.mean(np.asarray(confidences)))
        chosen = [
            _chosen_by(step, span, translation.terms)
            for step, span in zip(translation.steps, spans_of(texts), strict=True)
        ]
        tokens = tuple(
            self._token(step, text, margin, sure, neighbors, by)
            for step, text, margin, sure, by in zip(translation.steps, texts, margins, confidences, chosen, strict=True)
        )
        return Explanation(
            translation.source,
            translation.text,
            base_text,
            translation.score,
            tokens,
            confidence,
            self.without,
            terms=translation.terms,
            without_glossary=translation.without_glossary,
        )

    def _token(
        self,
        step: Step,
        text: str,
        margin: int | None,
        confidence: float | None,
        neighbors: _NeighborSentences,
        chosen_by: ChosenBy,
    ) -> ExplainedToken:
        return ExplainedToken(
            token=step.token,
            text=text,
            p=step.p,
            p_model=step.p_model,
            p_knn=step.p_knn,
            knn_weight=step.knn_weight,
            model_token=step.model_token,
            changed=step.model_token != step.token,
            margin=margin,
            margin_cap=self._most_margin,
            confidence=confidence,
            neighbors=tuple(neighbors.explain(near) for near in step.neighbors),
            chosen_by=chosen_by,
        )


def _chosen_by(step: Step, span: tuple[int, int], terms: Sequence[TranslatedTerm]) -> ChosenBy:
    """Say what chose a token.

    :param span: Where its word starts and ends in the translation.
    """
    start, end = span
    for term in terms:
        if term.enforced and max(start, term.target_start) < min(end, term.target_start + len(term.target)):
            return "glossary"
    if step.model_token != step.token and step.knn_weight * step.p_knn > 0:
        return "memory"
    return "model"


class _NeighborSentences:
    """Shows neighbors in their sentences. Each sentence is tokenized once."""

    def __init__(self, model: Model, memories: Sequence[Memory], translations: Sequence[Translation]) -> None:
        self._model = model
        steps = (step for translation in translations for step in translation.steps)
        wanted = list(dict.fromkeys((near.memory, near.sentence) for step in steps for near in step.neighbors))
        read = {
            memory.name: memory.sentences.pairs([number for own, number in wanted if own == memory.name])
            for memory in memories
        }
        pairs = [read[name][sentence] for name, sentence in wanted]
        ids = model.encode_targets([pair.target for pair in pairs])
        self._sentences = dict(zip(wanted, zip(pairs, ids, strict=True), strict=True))

    def explain(self, near: Neighbor) -> ExplainedNeighbor:
        pair, ids = self._sentences[near.memory, near.sentence]
        before, word, after = pair.target, "", ""
        # An imported store may have been tokenized differently, or have no text: then nothing is marked.
        if near.position < len(ids) and self._model.token_text(ids[near.position]) == near.token:
            before, word, after = mark(self._model.decode, ids, near.position, pair.target)
        origin = str(pair.origin)
        return ExplainedNeighbor(
            **asdict(near), source=pair.source, before=before, word=word, after=after, origin=origin
        )


def _check_without(without: Sequence[int], memories: Sequence[Memory]) -> None:
    count = max((len(memory.sentences) for memory in memories), default=0)
    for sentence in without:
        if 0 <= sentence < count or any(sentence in memory.sentences for memory in memories):
            continue
        allowed = f"0 to {count - 1}" if count else "nothing, there is no memory"
        raise SettingError(f"without: got sentence {sentence}; allowed is {allowed}; an explanation lists the ids")


def _check_names(memories: Sequence[Memory]) -> None:
    names = [memory.name for memory in memories]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SettingError(f"two memories are named {twice!r}; open them with different names")
