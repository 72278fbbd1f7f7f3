"""Scores of single runs, from which systems are compared later, without their translations.

A run keeps the scores of the bootstrap samples of its test set. All runs of a test set have the same samples, so that
any two of them can be compared, even if they were made on different machines. This module does not translate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lacuna.evaluation.comet import SegmentScorer
from lacuna.evaluation.scores import LEVEL, Score, SystemScore, bleu_statistics, evaluate_systems, with_test
from lacuna.evaluation.significance import (
    SAMPLES,
    SEED,
    bleu_of_sums,
    check_draws,
    decline_p,
    resample_means,
    resample_sums,
    two_sided_p,
)
from lacuna.progress import SILENT, Progress

# Decimals of the samples: scores are rarely closer, and files stay small.
_DIGITS = 5
_METRICS = ("bleu", "chrf", "ter", "comet")


@dataclass(frozen=True, slots=True)
class RunScore:
    """The scores of one run on a test set.

    :param scores: By metric: bleu, chrf, ter and perhaps comet.
    :param samples: Scores of the bootstrap samples, for bleu and perhaps comet.
    :param comet_model: Name of the COMET model.
    """

    scores: Mapping[str, Score]
    samples: Mapping[str, tuple[float, ...]]
    comet_model: str | None = None

    @property
    def bleu(self) -> float:
        """BLEU."""
        return self.scores["bleu"].value

    def against(self, first: RunScore | None, name: str) -> SystemScore:
        """Return the scores with a test of the differences from the first run; ``None`` if this is the first."""
        score = SystemScore(name, **{each: self.scores.get(each) for each in _METRICS})  # type: ignore[arg-type]
        score = replace(score, comet_model=self.comet_model)
        if first is None:
            return score
        p_value, p_decline = self._test(first, "bleu")
        score = replace(score, p_value=p_value, p_decline=p_decline)
        score = replace(score, better=self.bleu > first.bleu and p_value < LEVEL)
        if "comet" in self.samples:
            p_value, p_decline = self._test(first, "comet")
            score = replace(score, comet_p_value=p_value, comet_p_decline=p_decline)
        return score

    def _test(self, first: RunScore, metric: str) -> tuple[float, float]:
        theirs, ours = np.array(first.samples[metric]), np.array(self.samples[metric])
        gain = self.scores[metric].value - first.scores[metric].value
        return two_sided_p(theirs, ours, gain), decline_p(theirs, ours)

    def as_json(self) -> dict[str, Any]:
        """Return the run as JSON, without any text of the corpus; samples are one string, so that files are short."""
        scores = {
            name: {"metric": score.metric, "value": score.value, "signature": score.signature, "digits": score.digits}
            for name, score in self.scores.items()
        }
        samples = {name: " ".join(map(repr, values)) for name, values in self.samples.items()}
        return {"scores": scores, "samples": samples, "comet_model": self.comet_model}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> RunScore:
        """Read the result of :meth:`as_json`."""
        scores = {name: Score(**score) for name, score in content["scores"].items()}
        samples = {name: tuple(map(float, values.split())) for name, values in content["samples"].items()}
        return cls(scores, samples, content["comet_model"])


def score_run(
    references: Sequence[str],
    lines: Sequence[str],
    *,
    target_language: str | None = None,
    comet: SegmentScorer | None = None,
    sources: Sequence[str] = (),
    samples: int = SAMPLES,
    seed: int = SEED,
    progress: Progress = SILENT,
) -> RunScore:
    """Score the translations of one run; the parameters are those of :func:`~lacuna.evaluation.evaluate_systems`."""
    [score] = evaluate_systems(references, {"run": lines}, target_language=target_language, samples=samples, seed=seed)
    scores = {"bleu": with_test(score.bleu, samples, seed), "chrf": score.chrf, "ter": score.ter}
    statistics = bleu_statistics(references, lines, target_language)
    drawn = {"bleu": _rounded(bleu_of_sums(resample_sums(statistics, samples, seed)))}
    if comet is None:
        return RunScore(scores, drawn)
    segments = comet.score(sources, references, [lines], progress=progress)
    value = Score("COMET", float(segments.values.mean()), segments.signature, digits=4)
    scores["comet"] = with_test(value, samples, seed)
    drawn["comet"] = _rounded(resample_means(segments.values.T, samples, seed)[:, 0])
    return RunScore(scores, drawn, comet.model)


def _rounded(samples: np.ndarray[Any, Any]) -> tuple[float, ...]:
    return tuple(samples.round(_DIGITS).tolist())


@dataclass(frozen=True, slots=True)
class RunsDifference:
    """The difference in BLEU between two systems, each the mean of its runs.

    :param bleu: BLEU of the one minus BLEU of the other.
    :param low: Lower bound of the 95 % confidence interval of ``bleu``.
    :param high: Upper bound.
    :param at_least: Share of the bootstrap samples in which the one has at least the BLEU of the other.
    """

    bleu: float
    low: float
    high: float
    at_least: float

    @classmethod
    def between(cls, runs: Sequence[RunScore], others: Sequence[RunScore]) -> RunsDifference:
        """Compare two systems by a paired bootstrap over segments.

        Repeating a run does not make a difference more significant. The interval is about other test sentences, not
        about other seeds: all samples have the same runs.
        """
        means = [float(np.mean([run.bleu for run in each])) for each in (runs, others)]
        ours, theirs = (np.mean([run.samples["bleu"] for run in each], axis=0) for each in (runs, others))
        low, high = np.percentile(ours - theirs, [2.5, 97.5])
        return cls(means[0] - means[1], float(low), float(high), decline_p(theirs, ours))


def compare_runs(
    references: Sequence[str],
    systems: Mapping[str, Sequence[Sequence[str]]],
    *,
    target_language: str | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> dict[str, dict[str, RunsDifference]]:
    """Compare every system with every other one; see :meth:`RunsDifference.between`.

    :param systems: Translations of each run by the name of the system.
    :return: ``[one][other]``: the difference of ``one`` from ``other``.
    """
    check_draws(samples, seed)

    def score(lines: Sequence[str]) -> RunScore:
        statistics = bleu_statistics(references, lines, target_language)
        whole, drawn = statistics.sum(axis=0, keepdims=True), resample_sums(statistics, samples, seed)
        bleu = Score("BLEU", float(bleu_of_sums(whole)[0]), "")
        return RunScore({"bleu": bleu}, {"bleu": tuple(bleu_of_sums(drawn).tolist())})

    return compare_scored({name: [score(lines) for lines in runs] for name, runs in systems.items()})


def compare_scored(systems: Mapping[str, Sequence[RunScore]]) -> dict[str, dict[str, RunsDifference]]:
    """Compare every system with every other one, as :func:`compare_runs` does, by the scores of their runs."""
    return {
        name: {other: RunsDifference.between(systems[name], systems[other]) for other in systems} for name in systems
    }
