"""What requests ask for, between HTTP and the model: checks against the limits, waits its turn, keeps the time.

Knows nothing of HTTP but that answers are awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import cast

from lacuna.explaining import Explanation
from lacuna.records import Translation
from lacuna.serving.batching import Batcher
from lacuna.serving.engine import Choice, Engine, Job
from lacuna.serving.errors import OutOfTime, RequestError, TooLarge
from lacuna.serving.limits import Limits
from lacuna.serving.metrics import Metrics
from lacuna.serving.overview import Overviews


class Service:
    """An engine with its worker thread.

    :param prepare: Called in the worker thread before any work; the place for settings that count per thread.
    """

    def __init__(self, engine: Engine, limits: Limits, prepare: Callable[[], None] = lambda: None) -> None:
        self.engine, self.limits = engine, limits
        # A table, because tokenizers must not be asked in two threads at once.
        texts = [engine.model.token_text(number) for number in range(engine.model.vocabulary_size)]
        self.overviews = Overviews(list(engine.memories.values()), texts)
        self.metrics = Metrics(lambda: self._batcher.waiting)
        self._batcher = Batcher[Job, Translation | Explanation](
            self._work,
            texts=limits.batch_texts,
            characters=limits.batch_characters,
            waiting=limits.max_waiting,
            prepare=prepare,
        )

    @property
    def works(self) -> bool:
        """Whether the worker takes anything."""
        return self._batcher.accepts

    def close(self) -> None:
        """Finish what waits, and end."""
        self._batcher.close()

    async def translate(self, texts: Sequence[str], choice: Choice) -> list[Translation]:
        """Translate texts line by line; blank lines stay as they are."""
        lines = [text.split("\n") for text in texts]
        self._check(texts, sum(bool(line.strip()) for some in lines for line in some))
        written = [line for some in lines for line in some if line.strip()]
        done = iter(cast(list[Translation], await self._answers(Job(choice), written)))
        results = []
        for text, some in zip(texts, lines, strict=True):
            parts = [next(done) if line.strip() else Translation(line, line, 0.0, 0) for line in some]
            tokens = sum(part.tokens for part in parts)
            score = sum(part.score * part.tokens for part in parts) / max(1, tokens)
            results.append(Translation(text, "\n".join(part.text for part in parts), score, tokens))
        return results

    async def explain(self, text: str, choice: Choice, without: Sequence[int]) -> Explanation:
        """Translate one sentence and explain it; line breaks count as spaces."""
        self._check([text], 1)
        job = Job(choice, explain=True, without=tuple(sorted(set(without))))
        if not text.strip():
            raise RequestError("text: got only blanks; write a sentence")
        [answer] = await self._answers(job, [" ".join(text.split())])
        return cast(Explanation, answer)

    def _check(self, texts: Sequence[str], sentences: int) -> None:
        limits = self.limits
        if any("\ud800" <= letter <= "\udfff" for text in texts for letter in text):
            raise RequestError("a text has half of a character (a lone surrogate); send whole ones")
        longest = max(map(len, texts), default=0)
        if longest > limits.max_characters:
            raise TooLarge(f"a text has {longest:,} characters; allowed are {limits.max_characters:,}: split it")
        if max(len(texts), sentences) > limits.max_texts:
            got = f"{len(texts):,} texts with {sentences:,} lines"
            raise TooLarge(f"got {got}; allowed are {limits.max_texts:,}: send them in several requests")

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
