"""Evaluate files of translations: one sentence per line, or the target side of bilingual files.

Translators are evaluated too; they translate the source side first. This module does not compute metrics.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from lacuna.corpora import BILINGUAL_SUFFIXES, read_corpus
from lacuna.errors import EvaluationError, SettingError
from lacuna.evaluation.comet import SegmentScorer
from lacuna.evaluation.scores import SystemScore, evaluate_systems
from lacuna.evaluation.significance import SAMPLES, SEED
from lacuna.formats.input_files import content_suffix, read_lines
from lacuna.formats.languages import language_matches
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, Translation


class TextTranslator(Protocol):
    """Translates sentences, as :class:`lacuna.translator.Translator` does."""

    def translate(self, texts: Sequence[str], *, progress: Progress = SILENT) -> Sequence[Translation]:
        """Translate sentences, in order."""


_NONE: Mapping[str, TextTranslator] = MappingProxyType({})


def evaluate_files(
    reference: str | Path,
    systems: Sequence[str | Path],
    *,
    translators: Mapping[str, TextTranslator] = _NONE,
    languages: Languages | None = None,
    target_language: str | None = None,
    comet: SegmentScorer | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
    progress: Progress = SILENT,
) -> list[SystemScore]:
    """Score files of translations and translators against a file of references; see ``evaluate_systems``.

    :param reference: Plain text, one sentence per line (also ``.gz`` and ``.xz``); or a bilingual corpus.
    :param systems: Files of the same kinds. A file that is given twice gets a number after its name.
    :param translators: Translators by name, evaluated after the files; ``reference`` must be a bilingual corpus.
    :param languages: Direction of bilingual files that need one; its target is the target language.
    :param target_language: The target language, if no direction is needed.
    :param comet: Scores with COMET too; ``reference`` must be a bilingual corpus.
    :raises EvaluationError: A file is empty or does not have one translation per reference.
    :raises CorpusError: A file cannot be read.
    """
    target = _target(languages, target_language)
    references = _read_target_side(reference, languages)
    translations: dict[str, list[str]] = {}
    for path in systems:
        translations[_free_name(os.fspath(path), translations)] = _read_target_side(path, languages)
    sources = _read_sources(reference, languages, bool(translators)) if translators or comet else []
    for name, translator in translators.items():
        results = translator.translate(sources, progress=progress)
        translations[_free_name(name, translations)] = [result.text for result in results]
    return evaluate_systems(
        references,
        translations,
        target_language=target,
        comet=comet,
        sources=sources,
        samples=samples,
        seed=seed,
        progress=progress,
    )


def _target(languages: Languages | None, target: str | None) -> str | None:
    if languages is None:
        return target
    if target is not None and not language_matches(languages.target, target):
        raise SettingError(
            f"languages {languages} end in {languages.target}, but the target is {target}; give one of them"
        )
    return target or languages.target


def _read_target_side(name: str | Path, languages: Languages | None) -> list[str]:
    path = Path(name)
    if _is_plain(path):
        lines = list(read_lines(path))
    else:
        lines = [pair.target for pair in read_corpus(path, languages=languages)]
    if not lines:
        raise EvaluationError(f"{path}: empty file; expected one sentence per line")
    return lines


def _read_sources(name: str | Path, languages: Languages | None, to_translate: bool) -> list[str]:
    path = Path(name)
    if _is_plain(path):
        lack = "nothing to translate" if to_translate else "but COMET needs the sources"
        raise EvaluationError(f"{path}: has references only, {lack}; name a bilingual test set")
    return [pair.source for pair in read_corpus(path, languages=languages)]


def _is_plain(path: Path) -> bool:
    return path.is_file() and content_suffix(path) not in BILINGUAL_SUFFIXES


def _free_name(name: str, taken: dict[str, list[str]]) -> str:
    # Comparing a system with itself is a valid check of the test, and a mapping would lose one of the two.
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free
