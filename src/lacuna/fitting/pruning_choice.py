"""Choose on a dev set how much of a memory PLAC may drop.

Settings are compared by the log-probability of the dev tokens, computed from one search of the whole memory: neighbors
that a setting would drop are left out. The best ones are confirmed by BLEU of dev translations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.combiners import Vanilla
from lacuna.errors import SettingError
from lacuna.evaluation import check_target_language, score_texts
from lacuna.evaluation.scores import LEVEL
from lacuna.evaluation.significance import decline_p, resample_sums
from lacuna.fitting import DevSet
from lacuna.fitting.dev_pass import DevBatch
from lacuna.fitting.dev_texts import dev_references, dev_texts
from lacuna.fitting.vanilla import DevRetrievals, gold_log_p, retrieval_columns, search_grid
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import EntryTable, Plac
from lacuna.pruning.plac import MIN_MARGINS
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import SentencePair
from lacuna.translator import System

# Returns BLEU of dev and the p-value of its decline, for a setting or (``None``) for the whole memory.
BleuOfTrial = Callable[["PruningTrial | None"], tuple[float, float]]
RATIOS = tuple(round(0.05 * step, 2) for step in range(1, 20))
# Neighbors per dev token: enough that k remain after most of them are dropped.
_RETRIEVED = 64
_KS = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class PruningTrial:
    """One setting of PLAC on dev.

    :param log_p: Mean log-probability of the right tokens.
    :param p_log_p: p-value of its decline against the whole memory.
    :param bleu: BLEU of dev, if it was translated with this setting.
    :param p_bleu: p-value of its decline against the whole memory.
    """

    min_margin: int
    ratio: float
    log_p: float
    p_log_p: float
    bleu: float | None = None
    p_bleu: float | None = None


@dataclass(frozen=True, slots=True)
class PruningChoice:
    """The largest ratio without a significant decline.

    :param pruner: ``None`` if every ratio gives a significant decline.
    :param ratio: Share of the entries to drop.
    :param combiner: Settings of vanilla kNN-MT for all trials, tuned on dev with the whole memory.
    :param log_p: Mean log-probability of the right tokens with the whole memory.
    :param bleu: BLEU of dev with the whole memory.
    :param trials: The best setting of every ratio; those that were translated have a BLEU.
    :param skipped: Dev pairs that were too long for the model; their tokens are not in ``log_p``.
    """

    pruner: Plac | None
    ratio: float
    combiner: Vanilla
    log_p: float
    bleu: float
    trials: tuple[PruningTrial, ...]
    skipped: int


def choose_pruning(
    model: Model,
    memory: Memory,
    dev: DevSet | Iterable[SentencePair],
    *,
    ratios: Sequence[float] = RATIOS,
    min_margins: Sequence[int] = MIN_MARGINS,
    seed: int = 1,
    progress: Progress = SILENT,
) -> PruningChoice:
    """Return the largest ratio without a significant decline on dev, and the best ``min_margin`` for it.

    :param dev: Held-out pairs; a :class:`~lacuna.fitting.DevSet` reuses its pass over the model.
    """
    dev = DevSet.of(dev)
    if not len(dev):
        raise SettingError("dev: no sentence pair; give at least one, and better some hundreds")
    check_target_language(model.target_language)
    table = StoreEntries(memory.store, SILENT)
    retrieved, entries, sentences = _retrieve(model, memory, dev, progress)
    combiner = search_grid(retrieved, ks=_KS)[0].combiner
    whole = gold_log_p(retrieved, combiner)
    settings = _possible(table, ratios, min_margins)
    best: dict[float, tuple[int, NDArray[np.float64]]] = {}
    progress.start("try settings", len(settings), "settings")
    for min_margin, ratio in settings:
        keep = _keep(table, min_margin, ratio, seed)
        log_p = gold_log_p(_without(retrieved, keep[entries] & (entries >= 0), combiner.k), combiner)
        if ratio not in best or log_p.mean() > best[ratio][1].mean():
            best[ratio] = min_margin, log_p
        progress.advance(1)
    progress.finish()
    trials = {
        ratio: PruningTrial(min_margin, ratio, float(log_p.mean()), _decline(sentences, whole, log_p))
        for ratio, (min_margin, log_p) in best.items()
    }
    bleu_of = _bleu_of_trials(model, memory, table, dev.pairs, combiner, seed, progress)
    pruner, ratio = _confirm(trials, bleu_of)
    order = tuple(trials[ratio] for ratio in sorted(trials))
    whole_bleu, _ = bleu_of(None)
    return PruningChoice(pruner, ratio, combiner, float(whole.mean()), whole_bleu, order, dev.skipped(model))


def _confirm(trials: dict[float, PruningTrial], bleu_of: BleuOfTrial) -> tuple[Plac | None, float]:
    """Translate dev with less and less pruned memories until BLEU does not decline significantly."""
    for ratio in sorted((ratio for ratio, trial in trials.items() if trial.p_log_p >= LEVEL), reverse=True):
        bleu, p = bleu_of(trials[ratio])
        trials[ratio] = replace(trials[ratio], bleu=bleu, p_bleu=p)
        if p >= LEVEL:
            return Plac(trials[ratio].min_margin), ratio
    return None, 0.0


def _bleu_of_trials(
    model: Model,
    memory: Memory,
    table: EntryTable,
    pairs: Sequence[SentencePair],
    combiner: Vanilla,
    seed: int,
    progress: Progress,
) -> BleuOfTrial:
    """Translate dev with the whole memory; return a function that does so with a pruned one and compares."""
    references = dev_references(model, pairs)

    def texts(searched: Memory) -> list[str]:
        return dev_texts(System(model, [searched], combiner).open(), pairs, progress=progress)

    whole = texts(memory)

    def bleu_of(trial: PruningTrial | None) -> tuple[float, float]:
        systems = [whole]
        if trial is not None:
            systems.append(texts(memory.keeping(_keep(table, trial.min_margin, trial.ratio, seed))))
        score = score_texts(references, systems, target_language=model.target_language)[-1]
        return score.bleu, score.p_decline

    return bleu_of


def _retrieve(
    model: Model, memory: Memory, dev: DevSet, progress: Progress
) -> tuple[DevRetrievals, NDArray[np.int64], NDArray[np.int64]]:
    """Run the dev pass; return the retrievals, the entries of the neighbors, and the sentence of each token."""

    def columns_of(batch: DevBatch) -> tuple[NDArray[Any], ...]:
        return *retrieval_columns(batch), batch.retrieval.entries, batch.sentences.numpy()

    parts = dev.retrieve(model, [memory], min(_RETRIEVED, memory.entries), columns_of, progress=progress)
    *columns, entries, sentences = map(np.concatenate, zip(*parts, strict=True))
    return DevRetrievals(*columns), entries, sentences


def _possible(table: EntryTable, ratios: Sequence[float], min_margins: Sequence[int]) -> list[tuple[int, float]]:
    """Return the settings with enough candidates for their ratio."""
    known, margin = table.known, table.margin
    largest = {least: np.count_nonzero(known & (margin >= least)) / max(1, len(known)) for least in min_margins}
    return [(least, ratio) for least in min_margins for ratio in ratios if ratio <= largest[least]]


def _keep(table: EntryTable, min_margin: int, ratio: float, seed: int) -> NDArray[np.bool_]:
    return Plac(min_margin).prune(table, ratio=ratio, seed=seed, clamp=True).keep


def _without(retrieved: DevRetrievals, kept: NDArray[np.bool_], k: int) -> DevRetrievals:
    """Return the k nearest of the neighbors that are kept."""
    order = np.argsort(~kept, axis=1, kind="stable")[:, :k]
    rows = np.arange(len(order))[:, None]
    return DevRetrievals(
        retrieved.log_p_gold,
        np.where(kept[rows, order], retrieved.distances[rows, order], np.float32(np.inf)),
        retrieved.says_gold[rows, order],
        None if retrieved.weights is None else retrieved.weights[rows, order],
    )


def _decline(sentences: NDArray[np.int64], whole: NDArray[np.float64], pruned: NDArray[np.float64]) -> float:
    """Return the p-value of a decline of the log-probability, by bootstrap resampling of sentences."""
    count = int(sentences.max()) + 1
    sums = np.stack([np.bincount(sentences, weights=part, minlength=count) for part in (whole, pruned)], axis=1)
    drawn = resample_sums(sums)
    return decline_p(drawn[:, 0], drawn[:, 1])
