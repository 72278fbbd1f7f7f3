"""Translate sentences with a system: its model, memories and all that decides a translation.

Each step has its own module: sentences are gathered (``streaming``), decoded (``hypotheses``), chosen and completed
(``restoring``, ``term_keeper``), checked (``length_check``) and, on request, explained (``evidence``, ``confidence``).
Knows nothing of documents.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from lacuna.decoding import Constraints, Hypothesis
from lacuna.errors import LacunaWarning, SettingError, UnavailableError
from lacuna.glossaries import Glossary
from lacuna.memory import Memory
from lacuna.models.stepping import ModelScorer
from lacuna.progress import SILENT, Progress
from lacuna.records import Step, Translation
from lacuna.translator.confidence import confidences
from lacuna.translator.evidence import Evidence, score_of
from lacuna.translator.hypotheses import HypothesisSearch, Sources
from lacuna.translator.knn_scorer import KnnScorer, SearchCount
from lacuna.translator.length_check import LengthCheck
from lacuna.translator.restoring import Restored, Restorer
from lacuna.translator.streaming import gather_windows, merge_groups, windows_of
from lacuna.translator.term_keeper import KeptTerms, ReadSource, TermKeeper
from lacuna.workers import Pool

if TYPE_CHECKING:
    from lacuna.translator.system import System

# Beam width when a sentence is translated again because its placeholders were lost: a wide beam has more hypotheses to
# choose from, and such sentences are rare.
_WIDE_BEAM = 20

# Sentences whose placeholders are put back together, so that those to be translated again share batches.
_RESTORED_AT_ONCE = 128

# Sentences in each block of a window, sorted by length within the block. The first blocks are small, so that output
# starts early.
BLOCKS = (64, 128, 256, 512, 1024)

# Size of a window that a worker of a pool translates at a time. It does not depend on the number of workers, so that
# the same sentences always share batches.
WINDOW = 256


class Wanted(NamedTuple):
    """What is computed for each translation besides its text.

    :param evidence: The evidence behind every token.
    :param confidence: The confidence, if the system has a calibration.
    """

    evidence: bool = False
    confidence: bool = False


class Translator:
    """An open system. Make one with :meth:`System.open <lacuna.translator.System.open>`."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.model, self.memories, self.beam = system.model, tuple(system.memories), system.beam
        system.check()
        self.retriever = system.retriever()
        # The weights are prepared once for each model, not for each translator.
        plain = ModelScorer(self.model, int8=system.int8)
        self._knn = None if self.retriever is None else KnnScorer(plain, self.retriever)
        self._search = HypothesisSearch(plain, self._knn, self.beam, parallel=self.model.device.type == "cpu")
        self._evidence = Evidence(self.model, self.retriever)
        self._terms = None if system.glossary is None else self._keeper(system.glossary)

    def _keeper(self, glossary: Glossary) -> TermKeeper:
        languages = self.model.languages
        if languages is None:
            raise SettingError("glossary: the model does not say its languages, which terms need; give the languages")
        return TermKeeper(self.model, languages, glossary, self.memories, strict=self.system.strict_terms)

    def reopening(self) -> tuple[Callable[..., Translator], tuple[object, ...]]:
        """Say how another process opens this translator; see :class:`~lacuna.workers.Reopened`."""
        return Translator, (self.system,)

    def with_memories(self, memories: Sequence[Memory]) -> Translator:
        """Return a translator with other memories and otherwise the same settings, gate and int8 included."""
        if memories:
            return replace(self.system, memories=tuple(memories)).open()
        return replace(self.system, memories=(), gate=None, calibration=None).open()

    @property
    def search_count(self) -> SearchCount:
        """Number of rows scored so far, and for how many of them the memories were searched."""
        return SearchCount() if self._knn is None else self._knn.count

    def translate(
        self,
        texts: Sequence[str],
        *,
        evidence: bool = False,
        confidence: bool = False,
        batch_size: int = 32,
        progress: Progress = SILENT,
        pool: Pool | None = None,
    ) -> list[Translation]:
        """Translate sentences and return the translations in order.

        A blank sentence stays blank. A sentence too long for the model is truncated, with a warning. On a CPU, the
        threads of torch form a worker pool.

        :param evidence: Also return the evidence behind every token.
        :param confidence: Also compute the confidence, if the system has a calibration.
        :param pool: As in :meth:`stream`.
        """
        progress.start("translate", sum(1 for text in texts if text.strip()), "sentences")
        wanted = Wanted(evidence, confidence)
        if pool is None:
            translations = list(self._translate(texts, [len(texts)], wanted, batch_size, progress))
        else:
            groups = self._translate_in(pool, [[text] for text in texts], wanted, batch_size, progress)
            translations = [translation for [translation] in groups]
        progress.finish()
        return translations

    def stream(
        self,
        texts: Iterable[str],
        *,
        evidence: bool = False,
        confidence: bool = False,
        batch_size: int = 32,
        progress: Progress = SILENT,
        pool: Pool | None = None,
    ) -> Iterator[Translation]:
        """Translate a stream of sentences of any length and yield the translations in order, as they become ready.

        Parameters as in :meth:`stream_groups`.
        """
        groups = self.stream_groups(
            ([text] for text in texts),
            evidence=evidence,
            confidence=confidence,
            batch_size=batch_size,
            progress=progress,
            pool=pool,
        )
        with closing(groups):
            for [translation] in groups:
                yield translation

    def stream_groups(
        self,
        groups: Iterable[Sequence[str]],
        *,
        evidence: bool = False,
        confidence: bool = False,
        batch_size: int = 32,
        progress: Progress = SILENT,
        pool: Pool | None = None,
    ) -> Generator[list[Translation], None, None]:
        """Translate a stream of groups of sentences, such as paragraphs, and yield each group when it is ready.

        Groups are translated in windows. A window ends early if ``groups`` pauses. At most two windows are in memory:
        one that is translated and one that a background thread reads ahead. A group may be empty.

        :param evidence: Also return the evidence behind every token.
        :param confidence: Also compute the confidence, if the system has a calibration.
        :param pool: Workers that translate windows of size :data:`WINDOW` each. It reads ahead for all of them, also if
            ``groups`` pauses.
        """
        wanted = Wanted(evidence, confidence)
        progress.start("translate", None, "sentences")
        if pool is not None:
            yield from self._translate_in(pool, groups, wanted, batch_size, progress)
            return progress.finish()
        done = 0
        for window in gather_windows(groups, sum(BLOCKS), weight=_size):
            yield from self._translate_groups(window, BLOCKS, wanted, batch_size, progress, done)
            done += sum(map(len, window))
        progress.finish()

    def _translate_groups(
        self,
        groups: Sequence[Sequence[str]],
        blocks: Sequence[int],
        wanted: Wanted,
        batch_size: int,
        progress: Progress,
        offset: int,
    ) -> Iterator[list[Translation]]:
        texts = [text for group in groups for text in group]
        with closing(self._translate(texts, blocks, wanted, batch_size, progress, offset)) as translations:
            for group in groups:
                yield list(islice(translations, len(group)))

    def _translate(
        self,
        texts: Sequence[str],
        blocks: Sequence[int],
        wanted: Wanted,
        batch_size: int,
        progress: Progress,
        offset: int = 0,
    ) -> Generator[Translation, None, None]:
        """Translate sentences, and yield the translations in order as soon as they are ready.

        :param offset: Number of sentences before these, for warnings.
        """
        written = [number for number, text in enumerate(texts) if text.strip()]
        readings = [self._read(texts[number]) for number in written]
        encoded = self.model.encode_sources([reading.protected for reading in readings])
        sources = self._truncated([offset + number for number in written], encoded)
        decoding = self._search.stream(sources, blocks, batch_size, progress, fallback=self.system.fallback)
        together = max(batch_size if wanted.evidence else 1, _RESTORED_AT_ONCE if self.model.mask_placeholders else 1)
        done, following = 0, 0
        with closing(decoding):
            for group in merge_groups(together, decoding):
                for alone, run in groupby(group, itemgetter(1)):
                    hypotheses = [candidates for candidates, _ in run]
                    chosen = slice(done, done + len(hypotheses))
                    finished = self._finish(readings[chosen], sources[chosen], hypotheses, alone, wanted, batch_size)
                    for number, translation in zip(written[chosen], finished, strict=True):
                        yield from (Translation(text, "", 0.0, 0) for text in texts[following:number])
                        yield translation
                        following = number + 1
                    done += len(hypotheses)
        yield from (Translation(text, "", 0.0, 0) for text in texts[following:])

    def _read(self, text: str) -> ReadSource:
        return ReadSource(text, text) if self._terms is None else self._terms.read(text)

    def _finish(
        self,
        readings: Sequence[ReadSource],
        sources: Sources,
        hypotheses: Sequence[list[Hypothesis]],
        alone: bool,
        wanted: Wanted,
        batch_size: int,
    ) -> list[Translation]:
        """Choose a hypothesis of each sentence, and add what is wanted, with the memories that found it.

        If a memory fails now, these sentences are translated again without: evidence must be that of the translation.

        :param alone: The model found the hypotheses without the memories.
        """
        used = self.with_memories(()) if alone else self
        try:
            retry = partial(used.find_hypotheses, beam=_WIDE_BEAM, batch_size=batch_size)
            restorer = Restorer(self.model, retry)
            restored = restorer.restore([reading.protected for reading in readings], hypotheses)
            kept = used._keep(readings, hypotheses, restored, restorer, batch_size)
            best = [each.result.hypothesis for each in kept]
            lengths = LengthCheck(self.model, used.memories, partial(self._translate_alone, batch_size))
            flags = lengths.flags(sources, best)
            steps = used._evidence.steps(sources, best, batch_size) if wanted.evidence else [()] * len(best)
            sure = used._confidences(sources, best) if wanted.confidence else [None] * len(best)
        except UnavailableError:
            if not self.system.fallback:
                raise
            again = self._search.find(sources, batch_size, alone=True)
            return self._finish(readings, sources, again, True, wanted, batch_size)
        return [
            replace(
                each.result.flagged(flag).translation(reading.source, why, alone, confidence),
                terms=each.terms,
                without_glossary=each.without,
            )
            for reading, each, flag, why, confidence in zip(readings, kept, flags, steps, sure, strict=True)
        ]

    def _keep(
        self,
        readings: Sequence[ReadSource],
        hypotheses: Sequence[list[Hypothesis]],
        restored: Sequence[Restored],
        restorer: Restorer,
        batch_size: int,
    ) -> list[KeptTerms]:
        """Keep translations to the glossary, if there is one."""
        if self._terms is None:
            return [KeptTerms(result) for result in restored]

        def search(texts: Sequence[str], constraints: Constraints) -> list[list[Hypothesis]]:
            return self._search.find(self.encode(texts), batch_size, constraints=constraints)

        def rescore(texts: Sequence[str], found: Sequence[Hypothesis]) -> list[Hypothesis]:
            steps = self._evidence.steps(self.encode(texts), found, batch_size)
            penalty = self.beam.length_penalty
            return [replace(each, score=score_of(own, penalty)) for each, own in zip(found, steps, strict=True)]

        return self._terms.keep(readings, hypotheses, restored, restorer, search, rescore)

    def find_hypotheses(
        self, texts: Sequence[str], beam: int = 1, *, batch_size: int = 32, progress: Progress = SILENT
    ) -> list[list[Hypothesis]]:
        """Return all hypotheses of each text, the best first; placeholders are not put back.

        :param beam: Beam width, if it is more than that of the translator. Texts that are too long are truncated.
        :param progress: Advances with each sentence; the caller starts and finishes it.
        """
        return self._search.find(self.encode(texts), batch_size, beam=max(self.beam.beam, beam), progress=progress)

    def _translate_alone(self, batch_size: int, sources: Sources) -> list[Sequence[int]]:
        """Translate with the model alone, greedily: the length is all that counts."""
        results = self._search.find(sources, batch_size, beam=1, alone=True)
        return [hypotheses[0].tokens for hypotheses in results]

    def _confidences(self, sources: Sources, best: Sequence[Hypothesis]) -> list[float | None]:
        """Return the confidence of each translation; None without memories, for which there are no margins."""
        calibration = self.system.calibration
        if calibration is None or not self.memories:
            return [None] * len(best)
        try:
            targets = [hypothesis.tokens for hypothesis in best]
            return confidences(self.model, self.memories, calibration, sources, targets)
        except UnavailableError:
            if not self.system.fallback:
                raise
            return [None] * len(best)

    def _translate_in(
        self, pool: Pool, groups: Iterable[Sequence[str]], wanted: Wanted, batch_size: int, progress: Progress
    ) -> Iterator[list[Translation]]:
        """Translate windows of sentences in the workers of a pool."""
        task = partial(translate_window, self, wanted, batch_size)
        with closing(pool.map(task, windows_of(groups, WINDOW, _size))) as windows:
            for window in windows:
                self.search_count.add(window.rows, window.searched)
                translations = (translation for group in window.groups for translation in group)
                progress.advance(sum(1 for translation in translations if translation.source.strip()))
                yield from window.groups

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text; those that are too long for the model are truncated."""
        return [_shorten(source, self.model.max_length) for source in self.model.encode_sources(texts)]

    def _truncated(self, numbers: Sequence[int], sources: list[list[int]]) -> list[list[int]]:
        """Truncate sources that are too long for the model, with a warning."""
        most = self.model.max_length
        cut = [number + 1 for number, source in zip(numbers, sources, strict=True) if len(source) > most]
        if cut:
            which = ", ".join(map(str, cut[:5])) + (", ..." if len(cut) > 5 else "")
            text = f"{len(cut)} sentences have more than the model's maximum of {most} tokens and were cut: {which}"
            warnings.warn(text, LacunaWarning, stacklevel=3)
        return [_shorten(source, most) for source in sources]

    def explain(self, sources: Sequence[str], targets: Sequence[str]) -> list[tuple[Step, ...]]:
        """Return the evidence for each token of given translations."""
        tokens = [tuple(ids) for ids in self.model.encode_targets(targets)]
        hypotheses = [Hypothesis(ids, 0.0, (), (0.0,) * len(ids)) for ids in tokens]
        return self._evidence.steps(self.model.encode_sources(sources), hypotheses, 32)


class TranslatedWindow(NamedTuple):
    """The translations of a window, and what :class:`~lacuna.translator.knn_scorer.SearchCount` has counted."""

    groups: list[list[Translation]]
    rows: int
    searched: int


def translate_window(
    translator: Translator, wanted: Wanted, batch_size: int, numbered: tuple[int, list[Sequence[str]]]
) -> TranslatedWindow:
    """Translate a window of groups of sentences: the task of a worker of a pool.

    :param numbered: The number of sentences before the window, for warnings; and the window.
    """
    offset, window = numbered
    own = translator.system.open()  # with a count of its own
    size = sum(map(len, window))
    groups = list(own._translate_groups(window, [size], wanted, batch_size, SILENT, offset))
    return TranslatedWindow(groups, own.search_count.rows, own.search_count.searched)


def _size(group: Sequence[str]) -> int:
    """Return the size of a group in a window. Empty groups count too, since they wait in memory like others."""
    return max(1, len(group))


def _shorten(source: list[int], most: int) -> list[int]:
    """Truncate a source to ``most`` tokens, and keep its last token, which ends the sentence."""
    return source if len(source) <= most else [*source[: most - 1], source[-1]]
