"""The frozen types that cross borders between rooms. They hold data and know nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from lacuna.errors import SettingError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a sentence pair came from, so that an explanation can name it.

    :param file: The file as the user named it.
    :param place: Line number (from 1) of a line-based file, otherwise the unit's own id.
    :param tag: An optional label of the user's: a client, a document, a batch.
    """

    file: str
    place: str
    tag: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.place}" + (f" [{self.tag}]" if self.tag else "")


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source sentence and its translation."""

    source: str
    target: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Languages:
    """A translation direction, written ``de-en`` on the command line."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    @classmethod
    def parse(cls, text: str) -> Languages:
        """Read ``de-en``; regions are written with an underscore (``de-pt_BR``)."""
        source, dash, target = text.partition("-")
        if not (dash and source and target) or "-" in target or source == target:
            raise SettingError(f"languages: got {text!r}; write two different codes with a dash, as in de-en or zh-en")
        return cls(source, target)
