"""Corpus scores of systems with sacreBLEU signatures, and the comparison of each system with the first.

The bootstrap is in :mod:`lacuna.evaluation.significance`, COMET in :mod:`lacuna.evaluation.comet`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import EvaluationError, MissingExtra, SettingError
from lacuna.evaluation.comet import SegmentScorer, SegmentScores
from lacuna.evaluation.significance import (
    BLEU_COLUMNS,
    SAMPLES,
    SEED,
    bleu_of_sums,
    check_draws,
    decline_p,
    resample_means,
    resample_sums,
    two_sided_p,
)
from lacuna.formats.languages import normalize_language
from lacuna.progress import SILENT, Progress

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

LEVEL = 0.05  # significance level, as in the papers we compare with


@dataclass(frozen=True, slots=True)
class Score:
    """A corpus score with its signature.

    :param metric: ``BLEU``, ``chrF2`` or ``TER`` as in sacreBLEU, or ``COMET``.
    :param value: 0 to 100 (TER may be larger); the scale of COMET depends on its model and is mostly 0 to 1.
    :param signature: That of sacreBLEU (tokenizer, smoothing, case, version), or COMET's model and version.
    :param digits: Decimals to show.
    """

    metric: str
    value: float
    signature: str
    digits: int = 2

    def __str__(self) -> str:
        return f"{self.metric}|{self.signature} = {self.value:.{self.digits}f}"


@dataclass(frozen=True, slots=True)
class SystemScore:
    """The scores of a system and its comparison with the first system (None for the first itself).

    :param name: Name of the system.
    :param bleu: Higher is better.
    :param chrf: Higher is better.
    :param ter: Lower is better.
    :param p_value: Two-sided p-value of the difference in BLEU from the first system.
    :param p_decline: One-sided p-value of a BLEU below that of the first system.
    :param better: Whether BLEU is above that of the first system and ``p_value`` is below ``LEVEL``.
    :param comet: Mean over segments, higher is better; like the other COMET fields, None if not requested.
    :param comet_model: Name of the COMET model.
    :param comet_p_value: ``p_value`` of COMET.
    :param comet_p_decline: ``p_decline`` of COMET.
    """

    name: str
    bleu: Score
    chrf: Score
    ter: Score
    p_value: float | None = None
    p_decline: float | None = None
    better: bool | None = None
    comet: Score | None = None
    comet_model: str | None = None
    comet_p_value: float | None = None
    comet_p_decline: float | None = None

    @property
    def declined(self) -> bool | None:
        """Whether BLEU is significantly below that of the first system: the asterisk of the PLAC paper."""
        return None if self.p_decline is None else self.p_decline < LEVEL

    @property
    def signature(self) -> str:
        """The signature of BLEU, the score that papers report."""
        return self.bleu.signature

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of ``lacuna evaluate --json``; it has COMET keys only if COMET was requested."""
        scores = {"bleu": self.bleu, "chrf": self.chrf, "ter": self.ter}
        if self.comet is not None:
            scores["comet"] = self.comet
        content: dict[str, Any] = {
            "name": self.name,
            **{name: score.value for name, score in scores.items()},
            "signature": self.signature,
            "signatures": {name: score.signature for name, score in scores.items()},
            "p_value": self.p_value,
            "p_decline": self.p_decline,
            "better": self.better,
            "declined": self.declined,
        }
        if self.comet is not None:
            content["comet_model"] = self.comet_model
            content["comet_p_value"] = self.comet_p_value
            content["comet_p_decline"] = self.comet_p_decline
        return content


_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")  # kana and Chinese characters
_LETTER = re.compile(r"[^\W\d_]")
_CODE = re.compile(r"[a-z]{2,3}")
_BY_CHARACTER = ("zh", "ja")


def evaluate_systems(
    references: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    *,
    target_language: str | None = None,
    comet: SegmentScorer | None = None,
    sources: Sequence[str] = (),
    samples: int = SAMPLES,
    seed: int = SEED,
    progress: Progress = SILENT,
) -> list[SystemScore]:
    """Score systems with BLEU, chrF and TER, and test the difference in BLEU from the first system.

    With ``comet``, score and test COMET too.

    :param references: One reference per segment.
    :param systems: Translations of each system by name; the first system is the baseline.
    :param target_language: Selects the tokenizer of zh, ja and ko; all other languages use 13a.
    :param comet: Scorer such as :class:`lacuna.evaluation.CometScorer`; needs the sources.
    :param sources: One source per reference, for COMET.
    :param samples: Number of bootstrap samples.
    :param seed: Seed of the bootstrap; ``sacrebleu --paired-bs`` gives the same p-value for the same seed and samples.
    :raises EvaluationError: There is nothing to score, or not one translation per reference.
    """
    _check(references, systems)
    if comet is not None and len(sources) != len(references):
        raise EvaluationError(
            f"COMET: got {len(sources):,} sources for {len(references):,} references; each reference needs its source"
        )
    check_draws(samples, seed)
    language = _main_language(references, target_language)
    bleu, chrf, ter = _metrics(references, language)
    progress.start("Scoring", len(systems), "systems")
    scores = []
    for name, lines in systems.items():
        scores.append(SystemScore(name, _score(bleu, lines), _score(chrf, lines), _score(ter, lines)))
        progress.advance(note=name)
    if len(systems) > 1:
        statistics = [_statistics(references, lines, language) for lines in systems.values()]
        scores = compare(scores, statistics, samples=samples, seed=seed)
    progress.finish()
    if comet is not None:
        segments = comet.score(sources, references, list(systems.values()), progress=progress)
        scores = with_comet(scores, segments, comet.model, samples=samples, seed=seed)
    return scores


def compare(
    scores: Sequence[SystemScore], statistics: Sequence[NDArray[np.int64]], *, samples: int = SAMPLES, seed: int = SEED
) -> list[SystemScore]:
    """Add the comparison of BLEU with the first system to all scores but the first.

    :param scores: Scores of the systems on the whole test set.
    :param statistics: For each system, one row of BLEU statistics per segment.
    :return: The scores with p-values; the signature of BLEU has the samples and the seed, as in sacreBLEU.
    """
    sums = resample_sums(np.hstack(statistics), samples, seed)
    resampled = [bleu_of_sums(part) for part in np.split(sums, len(statistics), axis=1)]
    first = replace(scores[0], bleu=with_test(scores[0].bleu, samples, seed))
    compared = [first]
    for score, sampled in zip(scores[1:], resampled[1:], strict=True):
        gain = score.bleu.value - first.bleu.value
        p_value = two_sided_p(resampled[0], sampled, gain)
        compared.append(
            replace(
                score,
                bleu=with_test(score.bleu, samples, seed),
                p_value=p_value,
                p_decline=decline_p(resampled[0], sampled),
                better=gain > 0 and p_value < LEVEL,
            )
        )
    return compared


@dataclass(frozen=True, slots=True)
class TextScore:
    """What decisions on a dev set need of :class:`SystemScore`; TER takes longer than all of it.

    :param p_decline: One-sided p-value of a BLEU below that of the first system; 1 for the first itself.
    """

    bleu: float
    chrf: float
    p_decline: float


def score_texts(
    references: Sequence[str], systems: Sequence[Sequence[str]], *, target_language: str | None = None
) -> list[TextScore]:
    """Score systems with BLEU and chrF, and test for a decline of BLEU; the figures of :func:`evaluate_systems`."""
    _check(references, {f"system {number}": lines for number, lines in enumerate(systems, start=1)})
    language = _main_language(references, target_language)
    bleu, chrf = _bleu(language, references=[references]), _chrf(references)
    statistics = [_statistics(references, lines, language) for lines in systems]
    resampled = [bleu_of_sums(part) for part in np.split(resample_sums(np.hstack(statistics)), len(systems), axis=1)]
    return [
        TextScore(_score(bleu, lines).value, _score(chrf, lines).value, decline_p(resampled[0], own) if number else 1.0)
        for number, (lines, own) in enumerate(zip(systems, resampled, strict=True))
    ]


def with_comet(
    scores: Sequence[SystemScore], segments: SegmentScores, model: str, *, samples: int = SAMPLES, seed: int = SEED
) -> list[SystemScore]:
    """Add COMET to all scores, and the comparison with the first system to all but the first.

    :param found: Segment scores, with systems in the order of ``scores``.
    """
    means = segments.values.mean(axis=1)
    comets = [Score("COMET", float(mean), segments.signature, digits=4) for mean in means]
    if len(scores) == 1:
        return [replace(scores[0], comet=comets[0], comet_model=model)]
    # The mean of differences, in which equal segment scores cancel without rounding errors.
    gains = resample_means((segments.values - segments.values[0]).T, samples, seed)
    compared = []
    for number, score in enumerate(scores):
        score = replace(score, comet=with_test(comets[number], samples, seed), comet_model=model)
        if number > 0:
            score = replace(
                score,
                comet_p_value=two_sided_p(gains[:, 0], gains[:, number], float(means[number] - means[0])),
                comet_p_decline=decline_p(gains[:, 0], gains[:, number]),
            )
        compared.append(score)
    return compared


def _check(references: Sequence[str], systems: Mapping[str, Sequence[str]]) -> None:
    if not systems:
        raise EvaluationError("no system to evaluate; give translations, or a `model` or `memory` to translate with")
    if not any(line.strip() for line in references):
        raise EvaluationError(
            f"references: got {len(references):,} lines without text; at least one must have a sentence"
        )
    for name, lines in systems.items():
        if len(lines) != len(references):
            raise EvaluationError(
                f"{name}: got {len(lines):,} lines for {len(references):,} references; "
                f"each reference needs one line, so translate the same test set again"
            )


def _main_language(references: Sequence[str], target_language: str | None) -> str:
    """Return the language code for sacreBLEU (``zh`` for ``zh_TW``), or an empty string without a language."""
    language = "" if target_language is None else normalize_language(target_language).partition("-")[0]
    if target_language is not None and not _CODE.fullmatch(language):
        raise SettingError(f"target_language: got {target_language!r}; give its code, such as en, zh or pt_BR")
    text = "".join(references)
    if language not in _BY_CHARACTER and 2 * len(_UNSPACED.findall(text)) > len(_LETTER.findall(text)):
        # Tokenizer 13a would treat whole sentences as words, and the score would be meaningless.
        got = f"the target language is {language}" if language else "no target language"
        raise EvaluationError(
            f"references: mostly Chinese or Japanese characters, but {got}; give `target_language` zh or ja"
        )
    return language


def check_target_language(language: str | None) -> None:
    """Raise if translations into a language cannot be scored here: call it before slow work.

    :raises MissingExtra: The tokenizer of the language is not installed.
    """
    _bleu(_main_language([], language))


def word_splitter(references: Sequence[str], target_language: str | None) -> Callable[[str], list[str]]:
    """Return a function that splits a text into words as BLEU does, without those that are only punctuation."""
    tokenize = _bleu(_main_language(references, target_language)).tokenizer
    return lambda text: [word for word in tokenize(text).split() if any(map(str.isalnum, word))]


def _metrics(references: Sequence[str], language: str) -> tuple[BLEU, CHRF, TER]:
    """Return the metrics with preprocessed references, which all systems share."""
    from sacrebleu.metrics.ter import TER

    # Without these two, TER counts a sentence without spaces as one word.
    by_character = language in _BY_CHARACTER
    return (
        _bleu(language, references=[references]),
        _chrf(references),
        TER(normalized=by_character, asian_support=by_character, references=[references]),
    )


def _chrf(references: Sequence[str]) -> CHRF:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(references=[references])


def _bleu(language: str, **settings: Any) -> BLEU:  # noqa: ANN401 - sacreBLEU's own settings
    from sacrebleu.metrics.bleu import BLEU

    try:
        return BLEU(trg_lang=language, **settings)
    except RuntimeError as error:  # sacreBLEU raises it if MeCab is missing
        raise MissingExtra(
            f'target language {language}: its tokenizer is not installed; pip install "sacrebleu[{language}]"'
        ) from error


def _score(metric: BLEU | CHRF | TER, lines: Sequence[str]) -> Score:
    result = metric.corpus_score(lines, None)
    return Score(result.name, float(result.score), str(metric.get_signature()))


def bleu_statistics(
    references: Sequence[str], lines: Sequence[str], target_language: str | None = None
) -> NDArray[np.int64]:
    """Return lengths, matches and n-gram counts of every segment: the statistics of :func:`bleu_of_sums`."""
    _check(references, {"lines": lines})
    return _statistics(references, lines, _main_language(references, target_language))


def _statistics(references: Sequence[str], lines: Sequence[str], language: str) -> NDArray[np.int64]:
    # The effective order changes sentence scores only, which are not used here, and avoids a warning of sacreBLEU.
    metric = _bleu(language, effective_order=True)
    rows = np.empty((len(lines), BLEU_COLUMNS), dtype=np.int64)
    for row, line, reference in zip(rows, lines, references, strict=True):
        score = metric.sentence_score(line, [reference])
        row[:] = (score.sys_len, score.ref_len, *score.counts, *score.totals)
    return rows


def with_test(score: Score, samples: int, seed: int) -> Score:
    """Add the bootstrap to the signature of a score, where sacreBLEU has it: after the number of references."""
    references, _, rest = score.signature.partition("|")
    return replace(score, signature=f"{references}|bs:{samples}|seed:{seed}|{rest}")
