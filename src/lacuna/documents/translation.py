"""Translate a document: read its segments, translate what is missing, write it, and report what a person should see.

Works in a stream, so that memory does not grow with the file.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from lacuna.artifacts.files import atomic_path
from lacuna.documents.base import DocumentSegment, Filled, Format
from lacuna.documents.file_formats import format_of
from lacuna.documents.paragraphs import (
    CheckTranslation,
    Paragraph,
    Splitter,
    TranslateGroups,
    is_translatable,
    mark_matches,
    translate_paragraphs,
    unchecked,
)
from lacuna.errors import DocumentError, SettingError
from lacuna.memory import SegmentMatches
from lacuna.records import Languages

# Segments of a report; a file of any size has a bounded report.
MAX_REVIEWED = 1000
UNSURE = "low confidence"
UNKNOWN = "confidence unknown"
STILL_UNFINISHED = "was marked as unfinished before"
# A lower confidence is marked for review unless the settings say otherwise. The page has the same number.
REVIEW_BELOW = 0.6


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    """How a document is translated.

    :param overwrite: Translate again what the file has a translation for.
    :param exact_matches: Take the translation of the same segment in a memory.
    :param review_below: Mark translations of a lower confidence for review, and those whose confidence is not known;
        by default :data:`REVIEW_BELOW` where a calibration gives the confidence, and 0 marks none.
    """

    overwrite: bool = False
    exact_matches: bool = True
    review_below: float | None = None

    def __post_init__(self) -> None:
        if self.review_below is not None and not 0 <= self.review_below <= 1:
            raise SettingError(f"review_below: got {self.review_below}; allowed is 0 to 1")


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A translation that a person should look at."""

    place: str
    source: str
    text: str
    confidence: float | None
    reason: str


@dataclass(slots=True)
class DocumentReport:
    """What was done with the segments of a document.

    :param segments: Texts to translate in the document.
    :param translated: Texts that were translated.
    :param matched: Texts whose translation was taken from a memory.
    :param kept: Texts that had a translation.
    :param without_memory: Texts that were translated without memory, because it did not answer.
    :param review: Number of texts that a person should look at.
    :param least_sure: The first ones to look at, at most 1,000: flagged ones, then by confidence.
    """

    format: str
    segments: int = 0
    translated: int = 0
    matched: int = 0
    kept: int = 0
    without_memory: int = 0
    review: int = 0
    _worst: list[tuple[float, int, Reviewed]] = field(default_factory=list)

    @property
    def least_sure(self) -> list[Reviewed]:
        """Texts that a person should look at, the least sure first."""
        return [reviewed for _, _, reviewed in sorted(self._worst, key=lambda item: (-item[0], -item[1]))]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        counts = ("format", "segments", "translated", "matched", "kept", "without_memory", "review")
        numbers = {name: getattr(self, name) for name in counts}
        return numbers | {"least_sure": [asdict(reviewed) for reviewed in self.least_sure]}

    def add(self, place: str, source: str, filled: Filled) -> None:
        """Count a translation that was marked for review."""
        self.review += 1
        sureness = filled.confidence if filled.confidence is not None and filled.reason == UNSURE else -1.0
        reviewed = Reviewed(place, source, filled.text, filled.confidence, filled.reason)
        # A heap of the worst: the surest of them is the first to go.
        item = (-sureness, -self.review, reviewed)
        (heapq.heappush if len(self._worst) < MAX_REVIEWED else heapq.heappushpop)(self._worst, item)


class DocumentTranslator:
    """Translates documents of all formats.

    :param translate: Translates groups of sentences.
    :param matches: Where exact matches are looked up.
    :param check: Checks exact matches, and other translations that are a person's, against the glossary.
    """

    def __init__(
        self,
        translate: TranslateGroups,
        splitter: Splitter,
        matches: SegmentMatches | None = None,
        settings: DocumentSettings | None = None,
        *,
        check: CheckTranslation = unchecked,
    ) -> None:
        self._translate, self._splitter = translate, splitter
        self.settings = settings or DocumentSettings()
        self._matches, self._check = matches, check

    @property
    def languages(self) -> Languages:
        """The direction."""
        return self._splitter.languages

    def translate_file(self, path: Path, into: Path) -> DocumentReport:
        """Translate a file. Its suffix says the format; the new file appears when it is complete."""
        chosen = format_of(path.name)
        check_files(path, into)
        with path.open("rb") as file, atomic_path(into) as temporary, temporary.open("wb") as out:
            return self.translate_stream(file, out, chosen, str(path))

    def translate_stream(self, file: BinaryIO, out: BinaryIO, chosen: Format, name: str) -> DocumentReport:
        """Translate an open file.

        :param name: The name of the file, for errors.
        """
        report = DocumentReport(chosen.name)
        parts = chosen.parts(file, name, self.languages)
        try:
            with closing(self.translate_parts(parts, report)) as written:
                for part in written:
                    out.write(part)
        finally:
            if isinstance(parts, Generator):
                parts.close()  # before the file is
        return report

    def translate_parts(
        self, parts: Iterable[bytes | DocumentSegment], report: DocumentReport
    ) -> Generator[bytes, None, None]:
        """Yield the bytes of the translated document, and fill in the report."""
        waiting: deque[_Plan] = deque()

        def missing() -> Iterator[list[str]]:
            for part in parts:
                plan = self._plan(part)
                waiting.append(plan)
                yield plan.missing

        for paragraphs in translate_paragraphs(missing(), self._splitter, self._translate):
            plan = waiting.popleft()
            yield plan.part if isinstance(plan.part, bytes) else self._render(plan.part, plan, paragraphs, report)

    def _plan(self, part: bytes | DocumentSegment) -> _Plan:
        if isinstance(part, bytes):
            return _Plan(part, [], [])
        existing = part.existing or ("",) * len(part.texts)
        filled = [self._known(text, old) for text, old in zip(part.texts, existing, strict=True)]
        missing = [text for text, known in zip(part.texts, filled, strict=True) if known is None]
        return _Plan(part, filled, missing)

    def _known(self, text: str, old: str) -> Filled | None:
        """Return the translation of a text if the model is not needed for it."""
        if old.strip() and not self.settings.overwrite:
            return Filled(old)
        if not is_translatable(text):
            return Filled(text)
        match = self._matches.exact(text) if self._matches is not None and self.settings.exact_matches else None
        if match is None:
            return None
        # A person wrote it, so it stays even if it lacks a term, but someone should look at it.
        reason = self._check(text, match.text)
        return Filled(match.text, review=bool(reason), reason=reason, match=True)

    def _render(
        self, segment: DocumentSegment, plan: _Plan, paragraphs: Sequence[Paragraph], report: DocumentReport
    ) -> bytes:
        new = iter(paragraphs)
        unfinished = segment.unfinished or (False,) * len(plan.filled)
        filled = [
            known if known is not None else self._fill(next(new), was_unfinished, report)
            for known, was_unfinished in zip(plan.filled, unfinished, strict=True)
        ]
        for text, result, planned in zip(segment.texts, filled, plan.filled, strict=True):
            report.segments += 1
            report.translated += planned is None
            report.matched += result.match
            report.kept += planned is not None and not result.match
            if result.review:
                report.add(segment.place, text, result)
        if segment.texts and tuple(result.text for result in filled) == segment.existing:
            return segment.raw
        return segment.render(filled)

    def _fill(self, paragraph: Paragraph, was_unfinished: bool, report: DocumentReport) -> Filled:
        if self._matches is not None:
            paragraph = mark_matches(paragraph, self._matches, self._check)
        confidence, reason = paragraph.confidence, paragraph.flag
        report.without_memory += paragraph.without_memory
        below = REVIEW_BELOW if self.settings.review_below is None else self.settings.review_below
        if not reason and confidence is not None and confidence < below:
            reason = UNSURE
        # Without a calibration no confidence is known, and nothing has to be said unless a confidence was asked for.
        expected = self.settings.review_below is not None or paragraph.without_memory
        if not reason and below and expected and paragraph.has_unknown_confidence:
            reason = UNKNOWN
        reason = reason or (STILL_UNFINISHED if was_unfinished else "")
        return Filled(paragraph.text, confidence, bool(reason), reason)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is done with a part.

    :param filled: Translations that are there already; None where one is missing.
    :param missing: The texts to translate, in order.
    """

    part: bytes | DocumentSegment
    filled: list[Filled | None]
    missing: list[str]


def check_files(path: Path, into: Path) -> None:
    """Refuse a file that cannot be read, or an output that is the file itself or a folder, before slow work."""
    if not path.is_file():
        raise DocumentError(f"{path}: no such file; name a file to translate")
    if into.is_dir() or any(parent.is_file() for parent in into.parents):
        raise DocumentError(f"into: got {into}, which cannot be a file; name another")
    if into.exists() and into.samefile(path):
        raise DocumentError(f"into: got {into}, which is the file itself; name another")
    if format_of(into.name) is not format_of(path.name):
        raise DocumentError(f"into: got {into} for {path.name}; give it the same suffix, since the format is kept")
