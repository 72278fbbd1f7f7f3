"""Choosing how much of a memory PLAC may drop, on a dev set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lacuna.combiners import Vanilla
from lacuna.errors import SettingError
from lacuna.evaluation import evaluate_systems
from lacuna.evaluation.scores import LEVEL
from lacuna.evaluation.significance import decline_p, resample_sums
from lacuna.fitting.dev_pass import read_dev
from lacuna.fitting.vanilla import DevRetrievals, memory_probability, retrieval_columns, tune_vanilla
from lacuna.index import FilteredIndex, VectorIndex
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import EntryTable, Plac
from lacuna.pruning.plac import MIN_MARGINS
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import SentencePair
from lacuna.translator import Memory, Translator

# Gives BLEU and its p of decline for a setting, or for the whole memory.
Judge = Callable[["PruningTrial | None"], tuple[float, float]]
RATIOS = tuple(round(0.05 * step, 2) for step in range(1, 20))
# Neighbors kept of every dev token: enough that most of the first few remain when others are taken out.
_RETRIEVED = 64
_KS = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class PruningTrial:
    """One setting of PLAC on dev.

    :param log_p: Mean log-probability of the right tokens, from the retrievals of the whole memory.
    :param p_log_p: Small if that is below the whole memory's by more than chance.
    :param bleu: Of the translated dev set, where that was done.
    :param p_bleu: Small if that is below the whole memory's by more than chance.
    """

    min_margin: int
    ratio: float
    log_p: float
    p_log_p: float
    bleu: float | None = None
    p_bleu: float | None = None


@dataclass(frozen=True, slots=True)
class PruningChoice:
    """What to drop.

    :param pruner: ``None`` where nothing can be dropped without a significant loss.
    :param ratio: The share of entries to drop.
    :param combiner: The settings of vanilla kNN-MT that were used, tuned on dev with the whole memory.
    :param log_p: Mean log-probability of the right tokens with the whole memory.
    :param bleu: Of dev with the whole memory.
    :param trials: The best setting of every ratio; those that were translated have a BLEU.
    """

    pruner: Plac | None
    ratio: float
    combiner: Vanilla
    log_p: float
    bleu: float
    trials: tuple[PruningTrial, ...]


def choose_pruning(
    model: Model,
    memory: Memory,
    dev: Sequence[SentencePair],
    *,
    ratios: Sequence[float] = RATIOS,
    min_margins: Sequence[int] = MIN_MARGINS,
    seed: int = 1,
    progress: Progress = SILENT,
) -> PruningChoice:
    """Find the largest ratio that costs nothing significant on dev, and the ``min_margin`` that suits it."""
    if not dev:
        raise SettingError("dev: no sentence pair; give at least one, and better some hundreds")
    table = StoreEntries(memory.store, SILENT)
    retrieved, entries, sentences = _retrieve(model, memory, dev, progress)
    combiner = tune_vanilla(retrieved, ks=_KS)[0].combiner
    whole = _log_p(retrieved, combiner)
    settings = _possible(table, ratios, min_margins)
    trials: dict[float, PruningTrial] = {}
    progress.start("try settings", len(settings), "settings")
    for min_margin, ratio in settings:
        keep = _keep(table, min_margin, ratio, seed)
        log_p = _log_p(_without(retrieved, keep[entries] & (entries >= 0), combiner.k), combiner)
        trial = PruningTrial(min_margin, ratio, float(log_p.mean()), _decline(sentences, whole, log_p))
        if ratio not in trials or trial.log_p > trials[ratio].log_p:
            trials[ratio] = trial
        progress.advance(1)
    progress.finish()
    judge = _judge(model, memory, table, dev, combiner, seed, progress)
    return _confirm(trials, judge, combiner, float(whole.mean()))


def _confirm(trials: dict[float, PruningTrial], judge: Judge, combiner: Vanilla, log_p: float) -> PruningChoice:
    """Translate dev with ever less pruned memories until one is as good as the whole."""
    pruner, chosen = None, 0.0
    for ratio in sorted((ratio for ratio, trial in trials.items() if trial.p_log_p >= LEVEL), reverse=True):
        bleu, p = judge(trials[ratio])
        trials[ratio] = replace(trials[ratio], bleu=bleu, p_bleu=p)
        if p >= LEVEL:
            pruner, chosen = Plac(trials[ratio].min_margin), ratio
            break
    order = tuple(trials[ratio] for ratio in sorted(trials))
    return PruningChoice(pruner, chosen, combiner, log_p, judge(None)[0], order)


def _judge(
    model: Model,
    memory: Memory,
    table: EntryTable,
    dev: Sequence[SentencePair],
    combiner: Vanilla,
    seed: int,
    progress: Progress,
) -> Judge:
    """Return what gives the BLEU of dev under a setting, and how likely its decline is chance."""
    sources, references = [pair.source for pair in dev], [pair.target for pair in dev]

    def texts(index: VectorIndex) -> list[str]:
        translator = Translator(model, [replace(memory, index=index)], combiner)
        return [result.text for result in translator.translate(sources, progress=progress)]

    whole = texts(memory.index)

    def judge(trial: PruningTrial | None) -> tuple[float, float]:
        if trial is None:
            pruned = whole
        else:
            pruned = texts(FilteredIndex(memory.index, _keep(table, trial.min_margin, trial.ratio, seed)))
        score = evaluate_systems(references, {"whole": whole, "pruned": pruned})[1]
        return score.bleu.value, 1.0 if score.p_decline is None else score.p_decline

    return judge


def _retrieve(
    model: Model, memory: Memory, dev: Sequence[SentencePair], progress: Progress
) -> tuple[DevRetrievals, NDArray[np.int64], NDArray[np.int64]]:
    """Return the retrievals of every dev token, the entries found, and the sentence of each token."""
    parts = []
    for batch in read_dev(model, [memory], dev, min(_RETRIEVED, memory.store.entries), progress=progress):
        parts.append((*retrieval_columns(batch), batch.found.entries, batch.sentences.numpy()))
    *columns, entries, sentences = map(np.concatenate, zip(*parts, strict=True))
    return DevRetrievals(*columns), entries, sentences


def _possible(table: EntryTable, ratios: Sequence[float], min_margins: Sequence[int]) -> list[tuple[int, float]]:
    """List the settings whose ratio the candidates can reach."""
    known, margin = table.known, table.margin
    largest = {least: np.count_nonzero(known & (margin >= least)) / max(1, len(known)) for least in min_margins}
    return [(least, ratio) for least in min_margins for ratio in ratios if ratio <= largest[least]]


def _keep(table: EntryTable, min_margin: int, ratio: float, seed: int) -> NDArray[np.bool_]:
    return Plac(min_margin).prune(table, ratio=ratio, seed=seed, clamp=True).keep


def _without(retrieved: DevRetrievals, kept: NDArray[np.bool_], k: int) -> DevRetrievals:
    """Take out the neighbors that are not kept, and let the next ones move up."""
    order = np.argsort(~kept, axis=1, kind="stable")[:, :k]
    rows = np.arange(len(order))[:, None]
    return DevRetrievals(
        retrieved.log_p_gold,
        np.where(kept[rows, order], retrieved.distances[rows, order], np.float32(np.inf)),
        retrieved.says_gold[rows, order],
        None if retrieved.weights is None else retrieved.weights[rows, order],
    )


def _log_p(retrieved: DevRetrievals, combiner: Vanilla) -> NDArray[np.float64]:
    """Return the log-probability that model and memory together give each right token."""
    p_memory, has_any = memory_probability(retrieved, combiner.k, combiner.temperature)
    share = combiner.knn_weight * has_any
    p_model = np.exp(retrieved.log_p_gold.astype(np.float64))
    return np.log(np.maximum((1 - share) * p_model + share * p_memory, 1e-300))


def _decline(sentences: NDArray[np.int64], whole: NDArray[np.float64], pruned: NDArray[np.float64]) -> float:
    """Test whether the right tokens lost probability, by drawing sentences with replacement."""
    count = int(sentences.max()) + 1
    sums = np.stack([np.bincount(sentences, weights=part, minlength=count) for part in (whole, pruned)], axis=1)
    drawn = resample_sums(sums)
    return decline_p(drawn[:, 0], drawn[:, 1])
