"""The service of one direction: an engine (model, memories, glossaries), its worker thread and its writer thread.

Models are not thread-safe, so all translation happens in the one thread of a :class:`~lacuna.serving.batching.Batcher`.
Edits happen in that of an :class:`~lacuna.serving.edit_queue.EditQueue`. Knows nothing of routes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from itertools import islice
from typing import TypeVar, cast

import torch

from lacuna.combiners import Vanilla
from lacuna.corpora.placeholders import mask
from lacuna.decoding import BeamSettings
from lacuna.documents import Paragraph, Splitter
from lacuna.documents.base import DocumentSegment
from lacuna.documents.html_pages import html_fragment_parts
from lacuna.documents.paragraphs import is_translatable, mark_matches
from lacuna.documents.sentence_splitting import Piece
from lacuna.explanation import Explanation
from lacuna.glossaries import Glossary, Term
from lacuna.glossaries.glossary_log import GlossaryCommit
from lacuna.memory import Memory, SegmentMatches
from lacuna.memory.overview import KeyMap, Overview, StoredSentence
from lacuna.records import SentencePair, Translation
from lacuna.serving.alternatives import Alternatives
from lacuna.serving.batching import Batcher
from lacuna.serving.edit_queue import EditQueue
from lacuna.serving.editor import Edit, Editor
from lacuna.serving.engine import Engine, Job, Result, TranslationOptions
from lacuna.serving.glossary_editor import GlossaryEdit, GlossaryEditor
from lacuna.serving.limits import OutOfTime, Overloaded, RequestError, ServerLimits, TooLarge, byte_size
from lacuna.serving.middleware import Metrics
from lacuna.serving.pairs import check_text
from lacuna.serving.translated_text import TranslatedText, fill_page, flag_of, other_texts
from lacuna.serving.worker_model import WorkerModel

# Sentences of a document that wait in the queue at once, or fewer that fill a batch: requests wait for no more of them.
_WINDOW = 16
# Sentences and blanks of a document that are read ahead.
_READ_AHEAD = 1_000
_RETRY_SECONDS = 0.2
UNTRANSLATED = "too long for the model; not translated"

Done = TypeVar("Done")


class Service:
    """An engine with its threads, limits and metrics.

    :param metrics: Of the whole server.
    :param prepare: Called first in the worker thread, for settings that are per thread.
    :param writes: Whether clients may edit memories and glossaries.
    """

    def __init__(
        self,
        engine: Engine,
        limits: ServerLimits,
        metrics: Metrics,
        prepare: Callable[[], None] = lambda: None,
        *,
        writes: bool = False,
    ) -> None:
        self.engine, self.limits = engine, limits
        # A list of all token texts, because tokenizers are not thread-safe.
        self._token_texts = [engine.model.token_text(number) for number in range(engine.model.vocabulary_size)]
        self._metrics = metrics
        self._batcher = Batcher[Job, Result](
            self._work,
            texts=limits.batch_texts,
            size=limits.batch_bytes,
            waiting=limits.max_waiting,
            prepare=prepare,
        )
        # The worker's number of threads is settled before the writer thread uses one only, see lacuna.workers.
        self._batcher.call(torch.get_num_threads).result()
        self._edits = EditQueue()
        self._editor = Editor(engine, WorkerModel(engine.model, self._batcher), self._edits, writes=writes)
        self._glossary_editor = GlossaryEditor(engine, self._edits)

    @property
    def works(self) -> bool:
        """Whether the worker takes requests."""
        return self._batcher.accepts

    @property
    def waiting(self) -> int:
        """Number of sentences in the queue."""
        return self._batcher.waiting

    def close(self) -> None:
        """Finish the edit in progress and the queue, and stop both threads."""
        self._edits.close()  # first, because edits need the worker
        self._batcher.close()

    def memories(self) -> Mapping[str, Memory]:
        """Return the latest states of all memories. An edit by another process appears a little later."""
        self._editor.look()
        return self.engine.memories

    def glossaries(self) -> Mapping[str, Glossary]:
        """Return the latest states of all glossaries. A file that was edited by hand appears a little later."""
        self._glossary_editor.look()
        return self.engine.glossaries

    def resolve_options(
        self,
        memories: Sequence[str] | None = None,
        combiner: str | Vanilla | None = None,
        beam: BeamSettings | None = None,
        pairs: Sequence[SentencePair] = (),
        glossary: str | None = None,
        terms: Sequence[Term] = (),
    ) -> TranslationOptions:
        """Fill in defaults, and take the latest states of the memories and of the glossary for a request.

        :param terms: Checked.
        """
        self._editor.look()
        self._glossary_editor.look()
        self._check_pairs(pairs)
        return self.engine.resolve_options(memories, combiner, beam, pairs, glossary, terms)

    def overview(self, name: str) -> Overview:
        """Return the statistics of a memory."""
        return self.memories()[name].overview(self._token_texts)

    def key_map(self, name: str) -> KeyMap:
        """Return a map of a sample of the keys of a memory."""
        return self.memories()[name].key_map(self._token_texts)

    def sentence(self, name: str, sentence: int) -> StoredSentence:
        """Return a sentence pair of a memory with its entries."""
        return self.memories()[name].stored_sentence(sentence, self._token_texts)

    def matches(self, memories: Sequence[Memory]) -> SegmentMatches:
        """Return a search for segments in memories."""
        return SegmentMatches(memories, fallback=self.engine.fallback)

    def splitter(self, *, lines: bool = False) -> Splitter:
        """Return what cuts texts into sentences, and sentences into parts that fill a batch at most.

        :param lines: Each line is one sentence.
        """
        return self.engine.splitter(lambda text: byte_size(text) <= self.limits.batch_bytes, lines=lines)

    def _can_wait(self, text: str) -> bool:
        """Tell whether a sentence is short enough for the queue: a longer one has no place to cut it.

        A placeholder may be of any length, because the model reads a stand-in.
        """
        most = self.limits.batch_bytes
        return byte_size(text) <= most or (self.engine.model.mask_placeholders and byte_size(mask(text).text) <= most)

    async def translate(
        self, texts: Sequence[str], options: TranslationOptions, *, lines: bool = False, confidence: bool = False
    ) -> list[TranslatedText]:
        """Translate texts sentence by sentence; white space is kept.

        :param lines: Each line is one sentence.
        :param confidence: Compute it too, which takes another pass of the model.
        """
        self.check_texts(texts)
        done = await self._paragraphs(texts, options, self.splitter(lines=lines), confidence)
        return [TranslatedText.of(paragraph) for paragraph in done]

    async def translate_html(
        self, texts: Sequence[str], options: TranslationOptions, *, confidence: bool = False
    ) -> list[TranslatedText]:
        """Translate snippets of HTML; tags stay."""
        self.check_texts(texts)
        pages = await asyncio.to_thread(lambda: [list(html_fragment_parts(text)) for text in texts])
        wanted = [text for parts in pages for part in parts if isinstance(part, DocumentSegment) for text in part.texts]
        done = iter(await self._paragraphs(wanted, options, self.splitter(), confidence))
        return [fill_page(text, parts, done) for text, parts in zip(texts, pages, strict=True)]

    async def _paragraphs(
        self, texts: Sequence[str], options: TranslationOptions, splitter: Splitter, confidence: bool
    ) -> list[Paragraph]:
        cut = await asyncio.to_thread(lambda: [splitter.split(text) for text in texts])
        sentences = [sentence for pieces in cut for sentence in _translatable(pieces)]
        self._check_count(texts, len(sentences))
        long = next((sentence for sentence in sentences if not self._can_wait(sentence)), None)
        if long is not None:
            raise TooLarge(f"a text has {len(long):,} characters without a place to cut it; send shorter words")
        done = iter(cast(list[Translation], await self._answers(Job(options, confidence=confidence), sentences)))
        paragraphs = [splitter.join(text, pieces, done) for text, pieces in zip(texts, cut, strict=True)]
        if options.memories and (confidence or flag_of(paragraphs)):
            # Only now, because the sentences of large memories take a while to read.
            return await asyncio.to_thread(self._marked, paragraphs, options)
        return paragraphs

    def _marked(self, paragraphs: Sequence[Paragraph], options: TranslationOptions) -> list[Paragraph]:
        matches, check = self.matches(options.memories), self.engine.checking(options)
        return [mark_matches(paragraph, matches, check) for paragraph in paragraphs]

    async def alternatives(
        self, texts: Sequence[TranslatedText], options: TranslationOptions, most: int
    ) -> list[Alternatives]:
        """Return other translations of texts of one sentence; none for longer texts."""
        alone = [text for text in texts if sum(part.translation is not None for part in text.paragraph.sentences) == 1]
        wanted = [part.source for text in alone for part in text.paragraph.sentences if part.translation is not None]
        answers = iter(await self._answers(Job(options, alternatives=most), wanted))
        alternatives = {id(text): cast(Alternatives, next(answers)) for text in alone}
        return [other_texts(text, alternatives.get(id(text), Alternatives()), most) for text in texts]

    def stream_groups(
        self,
        groups: Iterable[Sequence[str]],
        options: TranslationOptions,
        *,
        confidence: bool = False,
        on_window: Callable[[int], None] = lambda count: None,
    ) -> Iterator[list[Translation]]:
        """Translate any number of groups of sentences for another thread, in order.

        Few of them wait in the queue at a time, so that requests of other clients are not held up. A sentence that the
        model cannot read stays as it is, with a flag.

        :param on_window: Called with the number of sentences before they are translated; may raise to stop.
        """
        job = Job(options, confidence=confidence)
        for window in _windows(groups, *self._window_limits):
            translations = self._translate_window([text for group in window for text in group], job, on_window)
            with closing(translations):
                for group in window:
                    yield list(islice(translations, len(group)))

    @property
    def _window_limits(self) -> tuple[int, int]:
        """Number of sentences and bytes of a document that wait in the queue at a time."""
        return min(_WINDOW, self.limits.max_waiting), self.limits.batch_bytes

    def _translate_window(
        self, texts: Sequence[str], job: Job, on_window: Callable[[int], None]
    ) -> Generator[Translation, None, None]:
        # A group with more sentences than can wait is translated in parts.
        for part in _parts(texts, *self._window_limits):
            written = list(dict.fromkeys(text for text in part if self._can_wait(text)))
            on_window(len(part))
            futures = dict(zip(written, self._submit_patiently(job, written), strict=True))
            try:
                for text in part:
                    yield _result(text, cast(Future[Translation] | None, futures.get(text)))
            finally:
                for future in futures.values():
                    future.cancel()

    def _submit_patiently(self, job: Job, texts: Sequence[str]) -> list[Future[Result]]:
        """Wait while the queue is full."""
        while True:
            try:
                return self._batcher.submit(job, texts)
            except Overloaded:
                if not self._batcher.accepts:
                    raise
                time.sleep(_RETRY_SECONDS)

    async def explain(self, text: str, options: TranslationOptions, without: Sequence[int]) -> Explanation:
        """Translate and explain one sentence; line breaks count as spaces."""
        self.check_texts([text])
        job = Job(options, explain=True, without=tuple(sorted(set(without))))
        if not text.strip():
            raise RequestError("text: got only blanks; send a sentence")
        [answer] = await self._answers(job, [" ".join(text.split())])
        return cast(Explanation, answer)

    async def add(self, name: str, pairs: Sequence[SentencePair]) -> Edit:
        """Add pairs to a memory; they are on disk, and found by the next request, when this returns."""
        self._check_pairs(pairs)
        return await self._edited(self._editor.add(name, pairs))

    async def replace(self, name: str, sentence: int, target: str) -> Edit:
        """Replace the translation of a sentence of a memory."""
        self.check_texts([target])
        return await self._edited(self._editor.replace(name, sentence, target))

    async def forget(self, name: str, sentence: int) -> Edit:
        """Forget a sentence of a memory."""
        return await self._edited(self._editor.forget(name, sentence))

    async def add_terms(self, name: str, terms: Sequence[Term]) -> GlossaryEdit:
        """Add terms to a glossary, or replace them.

        :param terms: Checked.
        """
        return await self._edited(self._glossary_editor.add(name, terms))

    async def remove_term(self, name: str, source: str, target: str | None) -> GlossaryEdit:
        """Remove a term of a glossary, or one of its translations."""
        return await self._edited(self._glossary_editor.remove(name, source, target))

    async def undo_commit(self, name: str, commit: int) -> GlossaryEdit:
        """Undo an edit of a glossary by another one."""
        return await self._edited(self._glossary_editor.undo(name, commit))

    def glossary_commits(self, name: str) -> list[GlossaryCommit]:
        """Return the edits of a glossary, oldest first."""
        return self._glossary_editor.commits(name)

    async def _edited(self, future: Future[Done]) -> Done:
        try:
            async with asyncio.timeout(self.limits.max_seconds):
                return await asyncio.shield(asyncio.wrap_future(future))
        except TimeoutError:
            if future.cancel():
                raise Overloaded("other edits took too long, and this one was not begun; try again later") from None
            raise OutOfTime(
                "the edit takes long and goes on; look at the memory or glossary before you send it again"
            ) from None

    def _check_pairs(self, pairs: Sequence[SentencePair]) -> None:
        for number, pair in enumerate(pairs):
            self.check_texts([pair.source, pair.target, pair.id or "", pair.origin.tag or ""])
            check_text(pair, f"pairs.{number}")
        if len(pairs) > self.limits.max_texts:
            raise TooLarge(f"got {len(pairs):,} pairs; allowed are {self.limits.max_texts:,}; send several requests")

    def _check_count(self, texts: Sequence[str], sentences: int) -> None:
        if max(len(texts), sentences) > self.limits.max_texts:
            got = f"{len(texts):,} texts with {sentences:,} sentences"
            raise TooLarge(f"got {got}; allowed are {self.limits.max_texts:,}; send several requests")

    def check_texts(self, texts: Sequence[str]) -> None:
        """Refuse texts that are too long, or that no encoding can write."""
        limits = self.limits
        if any("\ud800" <= letter <= "\udfff" for text in texts for letter in text):
            raise RequestError("a text has a lone surrogate, which is half of a character; send whole ones")
        longest = max(map(len, texts), default=0)
        if longest > limits.max_characters:
            raise TooLarge(f"a text has {longest:,} characters; allowed are {limits.max_characters:,}; split it")

    async def _answers(self, job: Job, texts: Sequence[str]) -> list[Result]:
        futures = [asyncio.wrap_future(future) for future in self._batcher.submit(job, texts)]
        try:
            async with asyncio.timeout(self.limits.max_seconds):
                return list(await asyncio.gather(*futures))
        except TimeoutError:
            raise OutOfTime(f"no answer within {self.limits.max_seconds:g} seconds; send less, or later") from None
        finally:
            for future in futures:
                future.cancel()

    def _work(self, job: Job, texts: list[str]) -> Sequence[Result | Exception]:
        start = time.perf_counter()
        results = self.engine.run(job, texts)
        self._metrics.batch_seconds.observe(time.perf_counter() - start)
        self._metrics.batch_sentences.observe(len(texts))
        self._metrics.sentences.labels("explained" if job.explain else "translated").inc(len(texts))
        return results


def _translatable(pieces: Sequence[Piece]) -> list[str]:
    return [piece.text for piece in pieces if is_translatable(piece.text)]


def _windows(groups: Iterable[Sequence[str]], most: int, most_bytes: int) -> Iterator[list[Sequence[str]]]:
    """Cut a stream into windows of groups with few sentences, which fill a batch at most; a group stays whole."""
    window: list[Sequence[str]] = []
    sentences = size = 0
    for group in groups:
        own = sum(map(byte_size, group))
        full = sentences + len(group) > most or size + own > most_bytes or len(window) == _READ_AHEAD
        if window and full:
            yield window
            window, sentences, size = [], 0, 0
        window.append(group)
        sentences, size = sentences + len(group), size + own
    if window:
        yield window


def _parts(texts: Sequence[str], most: int, most_bytes: int) -> Iterator[list[str]]:
    """Cut sentences into parts that fill a batch at most."""
    singles = ([text] for text in texts)
    return ([text for [text] in window] for window in _windows(singles, most, most_bytes))


def _result(text: str, future: Future[Translation] | None) -> Translation:
    """Wait for a translation.

    :param future: ``None`` for a text that is too long for the queue.
    """
    try:
        if future is not None:
            return future.result()
    except TooLarge:
        pass
    return Translation(text, text, 0.0, 0, flag=UNTRANSLATED)
