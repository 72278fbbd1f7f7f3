"""The translation service behind the routes: an engine (model, memories, combiners) and its worker thread.

Models are not thread-safe, so all translation happens in the one thread of a
:class:`~lacuna.serving.batching.Batcher`. This module does not know HTTP.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from lacuna.analysis.overview import Overviews
from lacuna.combiners import Combiner, SavedCombiner, Vanilla
from lacuna.decoding import BeamSettings
from lacuna.errors import SettingError
from lacuna.explanation import Explanation
from lacuna.explanation.calibration import Calibration
from lacuna.explanation.explainer import Explainer
from lacuna.models import Model
from lacuna.records import Translation
from lacuna.serving.batching import Batcher
from lacuna.serving.limits import OutOfTime, RequestError, ServerLimits, TooLarge
from lacuna.serving.middleware import Metrics
from lacuna.translator import Memory, Translator

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """Options of a request. Texts with equal options are translated in one batch.

    :param memories: Names of memories, in the order of the server; empty for the model alone.
    :param combiner: Name of a combiner of the server, or settings of the client.
    """

    memories: tuple[str, ...]
    combiner: str | Vanilla
    beam: BeamSettings


@dataclass(frozen=True, slots=True)
class Job:
    """The key of a batch: options and task.

    :param explain: Explain the translation too.
    :param without: Sentence numbers whose entries an explanation leaves out.
    """

    options: TranslationOptions
    explain: bool = False
    without: tuple[int, ...] = ()


class Engine:
    """A model with the memories and combiners that clients can select.

    :param memories: The first is the default of clients.
    :param combiners: Combiners by name; one with the name of a memory is the default of that memory.
    :param calibration: Source of the confidence in explanations.
    """

    def __init__(
        self,
        model: Model,
        memories: Sequence[Memory] = (),
        combiners: Mapping[str, Combiner] | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self.model = model
        self.memories = {memory.name: memory for memory in memories}
        self.combiners = dict(combiners or {})
        self.calibration = calibration
        _check_names(("memory", [memory.name for memory in memories]), ("combiner", list(self.combiners)))
        for memory in memories:
            memory.store.check_model(model)
        for combiner in self.combiners.values():
            if isinstance(combiner, SavedCombiner):
                combiner.check_model(model.fingerprint)
        for name in self.memories:
            self.resolve_options([name])  # refuse a combiner with a k that is too large now

    def resolve_options(
        self,
        memories: Sequence[str] | None = None,
        combiner: str | Vanilla | None = None,
        beam: BeamSettings | None = None,
    ) -> TranslationOptions:
        """Fill in defaults, and refuse unknown names and a k that is too large."""
        asked = list(self.memories)[:1] if memories is None else memories
        for name in asked:
            if name not in self.memories:
                raise RequestError(f"memories: got {name!r}; available: {_listed(self.memories)}")
        names = tuple(name for name in self.memories if name in asked)
        if combiner is None:
            combiner = next((name for name in names if name in self.combiners), Vanilla())
        if isinstance(combiner, str) and combiner not in self.combiners:
            raise RequestError(f"combiner: got {combiner!r}; available: {_listed(self.combiners)}")
        entries = sum(self.memories[name].store.entries for name in names)
        k = (self.combiners[combiner] if isinstance(combiner, str) else combiner).k
        if names and k > entries:
            raise RequestError(f"k: got {k:,}, but there are only {entries:,} entries; allowed is 1 to {entries:,}")
        return TranslationOptions(names, combiner, beam or BeamSettings())

    def run(self, job: Job, texts: list[str]) -> list[Translation | Explanation | Exception]:
        """Translate or explain texts; a text that is too long for the model gets an error."""
        refusals = [self._refusal(text) for text in texts]
        good = [text for text, refusal in zip(texts, refusals, strict=True) if refusal is None]
        done: Iterator[Translation | Explanation]
        done = iter(self._explain(job, good) if job.explain else self._translator(job.options).translate(good))
        return [next(done) if refusal is None else refusal for refusal in refusals]

    def _explain(self, job: Job, texts: list[str]) -> Sequence[Explanation]:
        # A calibration needs margins, which need a memory.
        calibration = self.calibration if job.options.memories else None
        return Explainer(self._translator(job.options), without=job.without, calibration=calibration).explain(texts)

    def _translator(self, options: TranslationOptions) -> Translator:
        combiner = self.combiners[options.combiner] if isinstance(options.combiner, str) else options.combiner
        return Translator(self.model, [self.memories[name] for name in options.memories], combiner, options.beam)

    def _refusal(self, text: str) -> Exception | None:
        """Return an error for a text that the translator would truncate: HTTP clients do not see its warning."""
        [tokens] = self.model.encode_sources([text])
        most = self.model.max_length
        if len(tokens) <= most:
            return None
        return TooLarge(
            f"a line has {len(tokens):,} tokens, the model takes {most:,}; put each sentence on a line of its own"
        )


def _check_names(*kinds: tuple[str, list[str]]) -> None:
    for kind, names in kinds:
        for name in names:
            if not NAME.fullmatch(name):
                raise SettingError(f"{kind} {name!r}: a name has 1 to 64 letters, digits, dots, dashes or underscores")
            if names.count(name) > 1:
                raise SettingError(f"{kind} {name!r}: given twice; give each its own name, as in NAME=FOLDER")


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names) or "none"


class Service:
    """An engine with its worker thread, limits and metrics.

    :param prepare: Called first in the worker thread, for settings that are per thread.
    """

    def __init__(self, engine: Engine, limits: ServerLimits, prepare: Callable[[], None] = lambda: None) -> None:
        self.engine, self.limits = engine, limits
        # A list of all token texts, because tokenizers are not thread-safe.
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
        """Whether the worker takes requests."""
        return self._batcher.accepts

    def close(self) -> None:
        """Finish the queue and stop the worker."""
        self._batcher.close()

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
            results.append(Translation(text, "\n".join(part.text for part in parts), score, tokens))
        return results

    async def explain(self, text: str, options: TranslationOptions, without: Sequence[int]) -> Explanation:
        """Translate and explain one sentence; line breaks count as spaces."""
        self._check([text], 1)
        job = Job(options, explain=True, without=tuple(sorted(set(without))))
        if not text.strip():
            raise RequestError("text: got only blanks; send a sentence")
        [answer] = await self._answers(job, [" ".join(text.split())])
        return cast(Explanation, answer)

    def _check(self, texts: Sequence[str], sentences: int) -> None:
        limits = self.limits
        if any("\ud800" <= letter <= "\udfff" for text in texts for letter in text):
            raise RequestError("a text has a lone surrogate, which is half of a character; send whole ones")
        longest = max(map(len, texts), default=0)
        if longest > limits.max_characters:
            raise TooLarge(f"a text has {longest:,} characters; allowed are {limits.max_characters:,}; split it")
        if max(len(texts), sentences) > limits.max_texts:
            got = f"{len(texts):,} texts with {sentences:,} lines"
            raise TooLarge(f"got {got}; allowed are {limits.max_texts:,}; send several requests")

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
