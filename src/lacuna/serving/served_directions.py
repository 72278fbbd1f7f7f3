"""All directions of a server: one service for each loaded model, and which of them a request is for.

A direction is a model with its languages. Knows nothing of routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from lacuna.documents.language_detection import Detected, detect
from lacuna.errors import NotFoundError, SettingError
from lacuna.memory import Memory
from lacuna.models.directions import short_code
from lacuna.records import Languages
from lacuna.serving.engine import Engine
from lacuna.serving.limits import RequestError, ServerLimits
from lacuna.serving.middleware import Metrics
from lacuna.serving.service import Service

AUTO = "auto"
_SAMPLE = 5_000  # characters whose language is detected


class Chosen(NamedTuple):
    """The direction of a request.

    :param detected: The language of the texts, if it was to be detected; a confidence of 0 means that it was not.
    """

    service: Service
    detected: Detected | None = None


class Directions:
    """The services of a server; the first is the default.

    :param prepare: Called first in each worker thread, for settings that are per thread.
    :param writes: Whether clients may edit memories.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        limits: ServerLimits,
        prepare: Callable[[], None] = lambda: None,
        *,
        writes: bool = False,
    ) -> None:
        names = [name for engine in engines for name in engine.memories]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SettingError(f"memory {twice!r}: given twice; give each its own name, as in NAME=FOLDER")
        names = [name for engine in engines for name in engine.glossaries]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SettingError(f"glossary {twice!r}: given twice; give each its own name, as in NAME=FILE")
        self.limits = limits
        self.metrics = Metrics(lambda: sum(service.waiting for service in self.services))
        self.services = [Service(engine, limits, self.metrics, prepare, writes=writes) for engine in engines]

    @property
    def works(self) -> bool:
        """Whether all workers take requests."""
        return all(service.works for service in self.services)

    def close(self) -> None:
        """Finish the edits in progress and the queues, and stop all threads."""
        for service in self.services:
            service.close()

    def memories(self) -> Mapping[str, Memory]:
        """Return the latest states of all memories."""
        return {name: memory for service in self.services for name, memory in service.memories().items()}

    def of_memory(self, name: str) -> Service:
        """Return the service that has a memory."""
        for service in self.services:
            if name in service.engine.memories:
                return service
        raise NotFoundError(f"memory: got {name!r}; available: {self._available}")

    def of_glossary(self, name: str) -> Service:
        """Return the service that has a glossary."""
        for service in self.services:
            if name in service.engine.glossaries:
                return service
        available = ", ".join(name for service in self.services for name in service.engine.glossaries) or "none"
        raise NotFoundError(f"glossary: got {name!r}; available: {available}")

    async def choose(
        self, memories: Sequence[str] | None, source: str | None, target: str | None, texts: Iterable[str]
    ) -> Chosen:
        """Return the direction of a request: that of its memories, else the first one with its languages.

        :param source: A language, or ``auto`` to detect it.
        :param texts: What is translated, to detect the language.
        """
        own = self._of_memories(memories or ())
        if source != AUTO:
            return Chosen(self._of_languages(own, source, target))
        possible = [service for service in own if _fits(service, None, target)]
        detected = await asyncio.to_thread(self._detect, texts, possible or own)
        if detected is None:
            chosen = self._of_languages(own, None, target)
            languages = chosen.engine.model.languages
            return Chosen(chosen, Detected(languages.source, 0.0) if languages else None)
        return Chosen(self._of_languages(own, detected.language, target), detected)

    def _of_memories(self, names: Sequence[str]) -> list[Service]:
        """Return the services that have all of some memories: only one, unless there are no names."""
        for name in names:
            if not any(name in service.engine.memories for service in self.services):
                raise RequestError(f"memories: got {name!r}; available: {self._available}")
        services = [service for service in self.services if set(names) <= set(service.engine.memories)]
        if not services:
            raise RequestError(f"memories: got {', '.join(names)}, which are of several directions; name those of one")
        return services

    def _of_languages(self, services: Sequence[Service], source: str | None, target: str | None) -> Service:
        for service in services:
            if _fits(service, source, target):
                return service
        wrong = (
            "source"
            if source is not None and not any(_fits(service, source, None) for service in services)
            else "target"
        )
        got = source if wrong == "source" else target
        directions = ", ".join(f"{languages.source} to {languages.target}" for languages in _languages(services))
        subject = "this server translates" if services == self.services else "these memories translate"
        raise RequestError(f"{wrong}: got {got!r}; {subject} {directions}")

    def _detect(self, texts: Iterable[str], services: Sequence[Service]) -> Detected | None:
        """Return the source language among those of some services that the texts are most likely in."""
        sources = {_base(languages.source): languages.source for languages in _languages(services)}
        # Among one language there is nothing to detect, so that its confidence is that among all.
        among = list(sources) if len(sources) > 1 else None
        candidates = [candidate for candidate in detect(sample(texts), among) if _base(candidate.language) in sources]
        return Detected(sources[_base(candidates[0].language)], candidates[0].confidence) if candidates else None

    @property
    def _available(self) -> str:
        return ", ".join(name for service in self.services for name in service.engine.memories) or "none"


def sample(texts: Iterable[str]) -> str:
    """Return the beginning of texts, enough to detect their language."""
    parts: list[str] = []
    length = 0
    for text in texts:
        parts.append(text[:_SAMPLE])
        length += len(text)
        if length > _SAMPLE:
            break
    # A file may have half a character, which the detection cannot read.
    return "\n".join(parts)[:_SAMPLE].encode("utf-8", "replace").decode()


def _languages(services: Sequence[Service]) -> list[Languages]:
    return [service.engine.model.languages for service in services if service.engine.model.languages is not None]


def _fits(service: Service, source: str | None, target: str | None) -> bool:
    """Tell whether a service translates between some languages; a model that names no languages does."""
    has = service.engine.model.languages
    if has is None:
        return True
    pairs = ((source, has.source), (target, has.target))
    return all(asked is None or asked == own or _base(asked) == _base(own) for asked, own in pairs)


def _base(code: str) -> str:
    """Return the language of a code without region and script."""
    return short_code(code.replace("-", "_")) or code.lower()
