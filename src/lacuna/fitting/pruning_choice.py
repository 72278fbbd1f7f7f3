"""Choose on a dev set how much of a memory PLAC may drop, so that a stated loss is not exceeded.

The promise is about log-probability: with 95 % confidence, at most a given share of what the whole memory adds to the
dev tokens is lost. All settings are tried on one search of the whole memory. Then some dev pairs are translated, to
confirm that BLEU and chrF drop by less than a stated margin. Both tests ask for evidence that the loss is small, so
more dev pairs allow more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lacuna.combiners import Vanilla
from lacuna.corpora import draw_pairs
from lacuna.errors import SettingError
from lacuna.evaluation import check_target_language
from lacuna.evaluation.noninferiority import NonInferiority, check_drop, measure_drops
from lacuna.evaluation.scores import LEVEL
from lacuna.fitting import DevSet
from lacuna.fitting.dev_texts import dev_references, dev_texts
from lacuna.fitting.pruning_loss import LossTest, PruningLoss, find_neighbors_of
from lacuna.fitting.vanilla import search_grid
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import EntryTable, Plac
from lacuna.pruning.plac import MIN_MARGINS
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import SentencePair
from lacuna.translator import System

# Chosen on dev of several memories, see docs/prune.md: where the bound is 3 %, the loss itself is 1.3 to 2.1 %.
MAX_LOSS, MAX_DROP = 0.03, 1.0
# Dev pairs that are translated to confirm a choice.
TRANSLATED = 400
RATIOS = tuple(round(0.01 * step, 2) for step in range(1, 100))
# If a ratio is not confirmed, these shares of it are tried; each takes a translation.
_STEPS_BACK = (1.0, 0.75, 0.5)
# Neighbors per dev token: enough that k remain after most of them are dropped.
_RETRIEVED = 64
_KS = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class PruningTrial:
    """One setting of PLAC on dev.

    :param log_p: Mean log-probability of the right tokens.
    :param loss: What is lost, as a share of what the whole memory adds.
    :param drops: The tests of BLEU and chrF, if dev was translated with this setting.
    """

    min_margin: int
    ratio: float
    log_p: float
    loss: PruningLoss
    drops: tuple[NonInferiority, ...] = ()


@dataclass(frozen=True, slots=True)
class PruningChoice:
    """The largest ratio that keeps the promise on dev.

    :param pruner: ``None`` if no ratio keeps it; :attr:`why` says why.
    :param ratio: Share of the entries to drop.
    :param max_loss: The promise: the largest share of what the memory adds that may be lost.
    :param max_drop: The largest drop of BLEU and chrF that is accepted.
    :param gain: Log-probability per dev token that the whole memory adds to the model.
    :param adds: Whether the gain is above 0, with 95 % confidence.
    :param combiner: Settings of vanilla kNN-MT for all trials, tuned on dev with the whole memory.
    :param log_p: Mean log-probability of the right tokens with the whole memory.
    :param bleu: BLEU of the translated dev pairs with the whole memory; ``None`` if nothing was translated.
    :param translated: Number of dev pairs that are translated.
    :param trials: What was tried: for each ``min_margin``, every ratio up to the first that exceeds ``max_loss``.
    :param skipped: Dev pairs that were too long for the model; their tokens are not in ``log_p``.
    """

    pruner: Plac | None
    ratio: float
    max_loss: float
    max_drop: float
    gain: float
    adds: bool
    combiner: Vanilla
    log_p: float
    bleu: float | None
    translated: int
    trials: tuple[PruningTrial, ...]
    skipped: int

    @property
    def chosen(self) -> PruningTrial | None:
        """The trial of the setting that was chosen."""
        setting = self.pruner and (self.pruner.min_margin, self.ratio)
        return next((trial for trial in self.trials if (trial.min_margin, trial.ratio) == setting), None)

    @property
    def listed(self) -> list[PruningTrial]:
        """What a table shows: the best trial of every twentieth, and those that were translated."""
        best: dict[float, PruningTrial] = {}
        for trial in sorted(self.trials, key=lambda trial: (not trial.drops, trial.loss.loss)):
            if trial.drops or round(100 * trial.ratio) % 5 == 0:
                best.setdefault(trial.ratio, trial)
        return [best[ratio] for ratio in sorted(best)]

    @property
    def why(self) -> str:
        """Why nothing is dropped."""
        if not self.adds:
            return f"the memory adds nothing for certain to the log-probability of dev ({self.gain:+.4f} per token)"
        if not self.trials:
            return "too few of the entries are known with a margin that is large enough"
        if not any(trial.loss.is_within(self.max_loss) for trial in self.trials):
            return f"no ratio loses at most {self.max_loss:.1%} of what the memory adds to dev, with 95 % confidence"
        return (
            f"{self.translated:,} dev translations cannot exclude that BLEU or chrF drops by {self.max_drop:g} or more"
        )


def choose_pruning(
    model: Model,
    memory: Memory,
    dev: DevSet | Iterable[SentencePair],
    *,
    max_loss: float = MAX_LOSS,
    max_drop: float = MAX_DROP,
    translated: int = TRANSLATED,
    ratios: Sequence[float] = RATIOS,
    min_margins: Sequence[int] = MIN_MARGINS,
    seed: int = 1,
    progress: Progress = SILENT,
) -> PruningChoice:
    """Return the largest ratio that keeps the promise on dev, and the best ``min_margin`` for it.

    :param dev: Held-out pairs; a :class:`~lacuna.fitting.DevSet` reuses its pass over the model.
    :param max_loss: Largest share of what the memory adds to the log-probability of dev that may be lost.
    :param max_drop: Largest drop of BLEU and of chrF that is accepted, in points.
    :param translated: Number of dev pairs, drawn at random, that are translated to confirm the choice; with 0,
        the log-probability alone decides.
    """
    check_promise(max_loss, max_drop)
    if translated < 0:
        raise SettingError(f"translated: got {translated}; allowed is 0 or more; {TRANSLATED} is usual")
    dev = DevSet.of(dev)
    if not len(dev):
        raise SettingError("dev: no sentence pair; give at least one, and better some hundreds")
    check_target_language(model.target_language)
    table = StoreEntries(memory.store, SILENT)
    sequences = _sequences(table, ratios, min_margins)
    tokens = find_neighbors_of(model, memory, dev, _RETRIEVED, progress=progress)
    combiner = search_grid(tokens.retrieved, ks=_KS)[0].combiner
    whole = tokens.log_p(combiner)
    # Each sequence may be wrong once; together they are wrong with a probability of LEVEL at most.
    test = LossTest(tokens.sentences, tokens.alone, whole, LEVEL / max(1, len(sequences)))

    def try_one(min_margin: int, ratio: float) -> PruningTrial:
        log_p = tokens.log_p(combiner, _keep(table, min_margin, ratio, seed))
        progress.advance(1)
        return PruningTrial(min_margin, ratio, float(log_p.mean()), test.measure(log_p))

    trials: list[PruningTrial] = []
    if test.gains():
        progress.start("try settings", sum(map(len, sequences.values())), "settings")
        for min_margin, possible in sequences.items():
            trials += _until_exceeded((try_one(min_margin, ratio) for ratio in possible), max_loss)
        progress.finish()
    sample = draw_pairs(dev.pairs, translated, seed)
    confirm = _Confirmation(model, memory, sample, combiner, max_drop, progress)
    chosen, trials = _confirm(
        trials,
        max_loss,
        lambda trial: confirm.test(_keep(table, trial.min_margin, trial.ratio, seed)) if sample else (),
    )
    return PruningChoice(
        pruner=None if chosen is None else Plac(chosen.min_margin),
        ratio=0.0 if chosen is None else chosen.ratio,
        max_loss=max_loss,
        max_drop=max_drop,
        gain=test.gain,
        adds=test.gains(),
        combiner=combiner,
        log_p=float(whole.mean()),
        bleu=next((trial.drops[0].baseline for trial in trials if trial.drops), None),
        translated=len(sample),
        trials=tuple(trials),
        skipped=dev.skipped(model),
    )


def check_promise(max_loss: float = MAX_LOSS, max_drop: float = MAX_DROP) -> None:
    """Check the two limits; called before slow work."""
    if not 0 < max_loss < 1:
        raise SettingError(
            f"max_loss: got {max_loss:g}; allowed is a share above 0 and below 1, such as {MAX_LOSS:g}, which is usual"
        )
    check_drop(max_drop)


def _sequences(table: EntryTable, ratios: Sequence[float], min_margins: Sequence[int]) -> dict[int, list[float]]:
    """Return the ratios that each ``min_margin`` has enough candidates for, the smallest first."""
    known, margin = table.known, table.margin
    largest = {least: np.count_nonzero(known & (margin >= least)) / max(1, len(known)) for least in min_margins}
    possible = {least: sorted(ratio for ratio in ratios if ratio <= largest[least]) for least in min_margins}
    return {least: each for least, each in possible.items() if each}


def _keep(table: EntryTable, min_margin: int, ratio: float, seed: int) -> NDArray[np.bool_]:
    return Plac(min_margin).prune(table, ratio=ratio, seed=seed, clamp=True).keep


def _until_exceeded(trials: Iterable[PruningTrial], max_loss: float) -> list[PruningTrial]:
    """Return the trials up to the first that loses too much.

    This is a fixed-sequence test: the order is known beforehand and nothing after the first failure counts, so every
    ratio can be tested at the full level, however many there are.
    """
    tried: list[PruningTrial] = []
    for trial in trials:
        tried.append(trial)
        if not trial.loss.is_within(max_loss):
            break
    return tried


def _confirm(
    trials: Sequence[PruningTrial], max_loss: float, test: Callable[[PruningTrial], tuple[NonInferiority, ...]]
) -> tuple[PruningTrial | None, list[PruningTrial]]:
    """Return the largest ratio whose drops are small enough, and the trials with the drops that were tested."""
    done = list(trials)
    for number in _attempts(trials, max_loss):
        done[number] = replace(done[number], drops=test(done[number]))
        if all(drop.holds for drop in done[number].drops):
            return done[number], done
    return None, done


def _attempts(trials: Sequence[PruningTrial], max_loss: float) -> list[int]:
    """Return the places of the trials to translate with: of the largest ratio within the promise, then of smaller ones.

    Among the trials of one ratio, it is the one with the smallest loss.
    """
    within = {number: trial for number, trial in enumerate(trials) if trial.loss.is_within(max_loss)}
    largest = max((trial.ratio for trial in within.values()), default=0.0)
    attempts: list[int] = []
    for part in _STEPS_BACK:
        small = [number for number, trial in within.items() if trial.ratio <= part * largest + 1e-9]
        best = max(small, key=lambda number: (within[number].ratio, -within[number].loss.loss), default=None)
        if best is not None and best not in attempts:
            attempts.append(best)
    return attempts


class _Confirmation:
    """Translates dev pairs with the whole memory, once, and with pruned ones."""

    def __init__(
        self,
        model: Model,
        memory: Memory,
        pairs: Sequence[SentencePair],
        combiner: Vanilla,
        max_drop: float,
        progress: Progress,
    ) -> None:
        self._model, self._memory, self._pairs, self._combiner = model, memory, pairs, combiner
        self._max_drop, self._progress = max_drop, progress

    def test(self, keep: NDArray[np.bool_]) -> tuple[NonInferiority, ...]:
        """Test for drops without the entries that are not kept."""
        return measure_drops(
            dev_references(self._model, self._pairs),
            self._whole,
            self._texts(self._memory.keeping(keep)),
            max_drop=self._max_drop,
            target_language=self._model.target_language,
        )

    @cached_property
    def _whole(self) -> list[str]:
        return self._texts(self._memory)

    def _texts(self, searched: Memory) -> list[str]:
        translator = System(self._model, [searched], self._combiner).open()
        return dev_texts(translator, self._pairs, progress=self._progress)
