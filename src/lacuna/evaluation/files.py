"""Evaluating files: one sentence per line, or bilingual files of which the target side counts.

Knows no metric.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lacuna.corpora import BILINGUAL_SUFFIXES, read_corpus
from lacuna.corpora.base import content_suffix, language_matches, read_lines
from lacuna.errors import EvaluationError, SettingError
from lacuna.evaluation.scores import SystemScore
from lacuna.evaluation.significance import SAMPLES, SEED
from lacuna.evaluation.systems import evaluate_systems
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages


def evaluate_files(
    reference: str | Path,
    systems: Sequence[str | Path],
    *,
    languages: Languages | None = None,
    target_language: str | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
    progress: Progress = SILENT,
) -> list[SystemScore]:
    """Score files of translations against a file of references; see ``evaluate_systems``.

    :param reference: Plain text, one sentence per line (also ``.gz`` and ``.xz``); or a bilingual corpus.
    :param systems: Files of the same kinds. A file named twice gets a number behind its name.
    :param languages: The direction, for bilingual files that need it; its target is the target language.
    :param target_language: The target language where the direction is not needed.
    :raises EvaluationError: A file without a line, or not one translation per reference.
    :raises CorpusError: A file that cannot be read.
    """
    target = _target(languages, target_language)
    references = _read_target_side(reference, languages)
    translations: dict[str, list[str]] = {}
    for path in systems:
        translations[_free_name(os.fspath(path), translations)] = _read_target_side(path, languages)
    return evaluate_systems(
        references, translations, target_language=target, samples=samples, seed=seed, progress=progress
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
    if path.is_file() and content_suffix(path) not in BILINGUAL_SUFFIXES:
        lines = list(read_lines(path))
    else:
        lines = [pair.target for pair in read_corpus(path, languages=languages)]
    if not lines:
        raise EvaluationError(f"{path}: empty file; it must hold one sentence per line")
    return lines


def _free_name(name: str, taken: dict[str, list[str]]) -> str:
    # A system against itself is a fair check of the test, and a mapping would lose one of the two.
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free
