"""The service behind the routes: an engine (model, memories, combiners), its worker thread and its writer thread.

Models are not thread-safe, so all translation happens in the one thread of a
:class:`~lacuna.serving.batching.Batcher`. Edits happen in that of an :class:`~lacuna.serving.editor.Editor`. This
module does not know HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import cast

import torch

from lacuna.analysis.overviews import Overviews
from lacuna.combiners import Vanilla
from lacuna.decoding import BeamSettings
from lacuna.explanation import Explanation
from lacuna.records import SentencePair, Translation
from lacuna.serving.batching import Batcher
from lacuna.serving.editor import Edit, Editor
from lacuna.serving.engine import Engine, Job, TranslationOptions
from lacuna.serving.limits import OutOfTime, Overloaded, RequestError, ServerLimits, TooLarge
from lacuna.serving.middleware import Metrics
from lacuna.serving.pairs import check_text
from lacuna.serving.worker_model import WorkerModel
from lacuna.translator import Memory


class Service:
    """An engine with its threads, limits and metrics.

    :param prepare: Called first in the worker thread, for settings that are per thread.
    :param writes: Whether clients may edit memories.
    """

    def __init__(
        self,
        engine: Engine,
        limits: ServerLimits,
        prepare: Callable[[], None] = lambda: None,
        *,
        writes: bool = False,
    ) -> None:
        self.engine, self.limits = engine, limits
        # A list of all token texts, because tokenizers are not thread-safe.
        texts = [engine.model.token_text(number) for number in range(engine.model.vocabulary_size)]
        self.overviews = Overviews(self.memories, texts)
        self.metrics = Metrics(lambda: self._batcher.waiting)
        self._batcher = Batcher[Job, Translation | Explanation](
            self._work,
            texts=limits.batch_texts,
            characters=limits.batch_characters,
            waiting=limits.max_waiting,
            prepare=prepare,
        )
        # The worker's number of threads is settled before the writer thread uses one only, see lacuna.workers.
        self._batcher.call(torch.get_num_threads).result()
        self._editor = Editor(engine, WorkerModel(engine.model, self._batcher), writes=writes)

    @property
    def works(self) -> bool:
        """Whether the worker takes requests."""
        return self._batcher.accepts

    def close(self) -> None:
        """Finish the edit in progress and the queue, and stop both threads."""
        self._editor.close()  # first, because edits need the worker
        self._batcher.close()

    def memories(self) -> Mapping[str, Memory]:
        """Return the latest states of all memories. An edit by another process appears a little later."""
        self._editor.look()
        return self.engine.memories

    def resolve_options(
        self,
        memories: Sequence[str] | None = None,
        combiner: str | Vanilla | None = None,
        beam: BeamSettings | None = None,
        pairs: Sequence[SentencePair] = (),
    ) -> TranslationOptions:
        """Fill in defaults, and take the latest states of the memories for a request."""
        self._editor.look()
        self._check_pairs(pairs)
        return self.engine.resolve_options(memories, combiner, beam, pairs)

    async def translate(self, texts: Sequence[str], options: TranslationOptions) -> list[Translation]:
        """Translate texts line by line; blank lines are kept."""
        lines = [text.split("\n") for text in texts]
        self._check(texts, sum(bool(line.strip()) for some in lines for line in some))
        written = [line for some in lines for line in some if line.strip()]
        done = iter(cast(list[Translation], await self._answers(Job(options), written)))
        results = []
        for text, some in zip(texts, lines, strict=True):
            parts = [next(done) if line.strip() else Translation(line, line, 0.0, 0) for line in some]
            tokens = sum(part.tokens for part in parts)
            score = sum(part.score * part.tokens for part in parts) / max(1, tokens)
            alone = any(part.without_memory for part in parts)
            joined = "\n".join(part.text for part in parts)
            results.append(Translation(text, joined, score, tokens, without_memory=alone))
        return results

    async def explain(self, text: str, options: TranslationOptions, without: Sequence[int]) -> Explanation:
        """Translate and explain one sentence; line breaks count as spaces."""
        self._check([text], 1)
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
        self._check_texts([target])
        return await self._edited(self._editor.replace(name, sentence, target))

    async def forget(self, name: str, sentence: int) -> Edit:
        """Forget a sentence of a memory."""
        return await self._edited(self._editor.forget(name, sentence))

    async def _edited(self, future: Future[Edit]) -> Edit:
        try:
            async with asyncio.timeout(self.limits.max_seconds):
                return await asyncio.shield(asyncio.wrap_future(future))
        except TimeoutError:
            if future.cancel():
                raise Overloaded("other edits took too long, and this one was not begun; try again later") from None
            raise OutOfTime("the edit takes long and goes on; look at the memory before you send it again") from None

    def _check_pairs(self, pairs: Sequence[SentencePair]) -> None:
        for number, pair in enumerate(pairs):
            self._check_texts([pair.source, pair.target, pair.id or "", pair.origin.tag or ""])
            check_text(pair, f"pairs.{number}")
        if len(pairs) > self.limits.max_texts:
            raise TooLarge(f"got {len(pairs):,} pairs; allowed are {self.limits.max_texts:,}; send several requests")

    def _check(self, texts: Sequence[str], sentences: int) -> None:
        self._check_texts(texts)
        if max(len(texts), sentences) > self.limits.max_texts:
            got = f"{len(texts):,} texts with {sentences:,} lines"
            raise TooLarge(f"got {got}; allowed are {self.limits.max_texts:,}; send several requests")

    def _check_texts(self, texts: Sequence[str]) -> None:
        limits = self.limits
        if any("\ud800" <= letter <= "\udfff" for text in texts for letter in text):
            raise RequestError("a text has a lone surrogate, which is half of a character; send whole ones")
        longest = max(map(len, texts), default=0)
        if longest > limits.max_characters:
            raise TooLarge(f"a text has {longest:,} characters; allowed are {limits.max_characters:,}; split it")

    async def _answers(self, job: Job, texts: Sequence[str]) -> list[Translation | Explanation]:
        futures = [asyncio.wrap_future(future) for future in self._batcher.submit(job, texts)]
        try:
            async with asyncio.timeout(self.limits.max_seconds):
                return list(await asyncio.gather(*futures))
        except TimeoutError:
            raise OutOfTime(f"no answer within {self.limits.max_seconds:g} seconds; send less, or later") from None
        finally:
            for future in futures:
                future.cancel()

    def _work(self, job: Job, texts: list[str]) -> Sequence[Translation | Explanation | Exception]:
        start = time.perf_counter()
        results = self.engine.run(job, texts)
        self.metrics.batch_seconds.observe(time.perf_counter() - start)
        self.metrics.batch_sentences.observe(len(texts))
        self.metrics.sentences.labels("explained" if job.explain else "translated").inc(len(texts))
        return results
