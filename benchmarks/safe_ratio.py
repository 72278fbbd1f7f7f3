"""The promise of ``lacuna prune --auto``: what it lets PLAC drop, and whether test keeps it.

The ratio is chosen on dev, for several values of the loss that is promised. On test, the loss of each choice is
measured; without TEST, only dev is read. With ``--translate``, test is translated with the choice of the defaults, the
whole memory and the model.

    python benchmarks/safe_ratio.py STORE DEV [TEST] --model MODEL --languages fr-en [--max-losses 0.005 0.01 0.03 0.05]

``--coverage`` measures on dev how often the bound holds that the promise rests on: dev stands for all text of its
kind, and each of many small dev sets drawn from it bounds the loss on all of it. ``--drops`` translates all of dev, and
prints how small a drop of BLEU and chrF a number of sentences can exclude. Both leave test alone.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.corpora import read_corpus
from lacuna.evaluation import compare_runs
from lacuna.evaluation.noninferiority import measure_drops, upper_bound
from lacuna.evaluation.significance import resample_sums
from lacuna.fitting import DevCache, DevSet, PruningChoice, choose_pruning, measure_loss
from lacuna.fitting.dev_texts import dev_references, dev_texts
from lacuna.fitting.pruning_choice import MAX_DROP, MAX_LOSS, PruningTrial
from lacuna.fitting.pruning_loss import find_neighbors_of
from lacuna.memory import Memory, open_memory
from lacuna.models import Model, load_model
from lacuna.progress import SILENT
from lacuna.pruning import Plac
from lacuna.pruning.plac import MIN_MARGINS
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import Languages, SentencePair
from lacuna.translator import System

_SIZES, _REPEATS = (100, 200, 400, 800), 500


def main() -> None:
    """Print one JSON object per measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("test", type=Path, nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--max-losses", type=float, nargs="+", default=[0.005, 0.01, MAX_LOSS, 0.05])
    parser.add_argument("--dev-pairs", type=int, default=1000)
    parser.add_argument("--test-pairs", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="numbers of dev pairs to choose with as well")
    parser.add_argument("--translate", action="store_true", help="translate test with the choice of the default")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--drops", action="store_true")
    given = parser.parse_args()
    model = load_model(given.model, languages=Languages.parse(given.languages), mask_placeholders=False)
    memory = open_memory(given.store)
    dev = DevSet(list(read_corpus(given.dev))[: given.dev_pairs], cache=DevCache())
    started = time.monotonic()
    list(dev.teacher_force(model))
    _show(step="read dev", pairs=len(dev), seconds=time.monotonic() - started)
    started = time.monotonic()
    found = choose_pruning(model, memory, dev, max_loss=max(given.max_losses), translated=0)
    gain = round(found.gain, 4)
    _show(step="try settings", gain=gain, settings=len(found.trials), combiner=repr(found.combiner))
    _show(step="search and try", entries=memory.entries, seconds=time.monotonic() - started)
    chosen = {max_loss: _within(found, max_loss) for max_loss in given.max_losses}
    for max_loss, trial in chosen.items():
        _show(step="dev", max_loss=max_loss, **_setting(trial))
    for size in given.sizes:
        few = choose_pruning(model, memory, dev.draw(size, 1), max_loss=MAX_LOSS, translated=0)
        _show(step="fewer dev pairs", pairs=size, max_loss=MAX_LOSS, **_setting(_within(few, MAX_LOSS)))
    if given.coverage:
        _measure_coverage(model, memory, dev, found)
    if given.drops:
        _measure_drops(model, memory, dev, found, chosen)
    if given.test and not given.coverage and not given.drops:
        test = list(read_corpus(given.test))[: given.test_pairs]
        _measure_test(model, memory, test, found, chosen)
        if given.translate:
            _translate(model, memory, dev, test)


def _within(found: PruningChoice, max_loss: float) -> PruningTrial | None:
    """Return what would have been chosen with a smaller loss: each sequence ends earlier."""
    within: list[PruningTrial] = []
    for least in MIN_MARGINS:
        for trial in (each for each in found.trials if each.min_margin == least):
            if not trial.loss.is_within(max_loss):
                break
            within.append(trial)
    return max(within, key=lambda trial: (trial.ratio, -trial.loss.loss), default=None)


def _setting(trial: PruningTrial | None) -> dict[str, Any]:
    if trial is None:
        return {"ratio": 0.0}
    shares = {"share": trial.loss.share, "bound": trial.loss.bound}
    return {"ratio": trial.ratio, "min_margin": trial.min_margin, **shares}


def _keep(memory: Memory, trial: PruningTrial) -> NDArray[np.bool_]:
    return Plac(trial.min_margin).prune(StoreEntries(memory.store, SILENT), ratio=trial.ratio, seed=1).keep


def _measure_test(
    model: Model,
    memory: Memory,
    test: list[SentencePair],
    found: PruningChoice,
    chosen: dict[float, PruningTrial | None],
) -> None:
    """Measure every choice on test."""
    held_out = DevSet(test, cache=DevCache())
    for max_loss, trial in chosen.items():
        if trial is not None:
            pruned = memory.keeping(_keep(memory, trial))
            loss = measure_loss(model, memory, pruned, held_out, found.combiner)
            _show(step="test", max_loss=max_loss, ratio=trial.ratio, share=loss.share, low=loss.low, high=loss.high)


def _translate(model: Model, memory: Memory, dev: DevSet, test: list[SentencePair]) -> None:
    """Choose with the defaults, as the command does, and translate test with the choice."""
    started = time.monotonic()
    choice = choose_pruning(model, memory, dev)
    drops = choice.chosen.drops if choice.chosen else ()
    _show(
        step="choose_pruning with its translations",
        ratio=choice.ratio,
        why="" if choice.pruner else choice.why,
        translated=choice.translated,
        drops={drop.metric: [drop.score - drop.baseline, drop.lowest] for drop in drops},
        seconds=time.monotonic() - started,
    )
    if choice.chosen is None:
        return
    pruned = memory.keeping(_keep(memory, choice.chosen))
    texts = {"alone": [], "whole": [memory], "pruned": [pruned]}
    sources = [pair.source for pair in test]
    lines = {
        name: [
            [
                one.text
                for one in System(model, memories, choice.combiner if memories else None).open().translate(sources)
            ]
        ]
        for name, memories in texts.items()
    }
    differences = compare_runs([pair.target for pair in test], lines, target_language=model.target_language)
    for name in ("alone", "pruned"):
        found_bleu = differences[name]["whole"]
        interval = [found_bleu.low, found_bleu.high]
        _show(step="test BLEU against whole", system=name, difference=found_bleu.bleu, interval=interval)


def _measure_coverage(model: Model, memory: Memory, dev: DevSet, found: PruningChoice) -> None:
    """Draw small dev sets, and count those whose bound is below the loss on all of dev."""
    tokens = find_neighbors_of(model, memory, dev, 64)
    _, places = np.unique(tokens.sentences, return_inverse=True)
    whole = tokens.log_p(found.combiner)
    gains = np.bincount(places, weights=whole - tokens.alone)
    for trial in [each for each in found.trials if round(100 * each.ratio) % 10 == 0]:
        losses = np.bincount(places, weights=whole - tokens.log_p(found.combiner, _keep(memory, trial)))
        for size in _SIZES:
            rng, broken = np.random.default_rng(size), dict.fromkeys((0.05, 0.0125), 0)
            for _ in range(_REPEATS):
                drawn = rng.choice(len(gains), size=size)
                sums = resample_sums(np.column_stack([losses[drawn], gains[drawn]]))
                shares = np.where(sums[:, 1] > 0, sums[:, 0] / sums[:, 1], np.inf)
                for level in broken:
                    broken[level] += int(upper_bound(shares, level) < losses.sum() / gains.sum())
            rates = {f"above the bound at {level:g}": count / _REPEATS for level, count in broken.items()}
            _show(step="coverage", min_margin=trial.min_margin, ratio=trial.ratio, pairs=size, **rates)


def _measure_drops(
    model: Model, memory: Memory, dev: DevSet, found: PruningChoice, chosen: dict[float, PruningTrial | None]
) -> None:
    """Translate dev with the model alone, the whole memory and every choice."""
    references = dev_references(model, dev.pairs)

    def texts(memories: list[Memory]) -> list[str]:
        started = time.monotonic()
        lines = dev_texts(System(model, memories, found.combiner if memories else None).open(), dev.pairs)
        _show(step="translate dev", pairs=len(dev), memories=len(memories), seconds=time.monotonic() - started)
        return lines

    alone, whole = texts([]), texts([memory])
    lines = {"alone": alone} | {
        f"max_loss {max_loss:g}": texts([memory.keeping(_keep(memory, trial))])
        for max_loss, trial in chosen.items()
        if trial is not None
    }
    for size in (*(each for each in _SIZES if each < len(dev)), len(dev)):
        for name, each in lines.items():
            some = slice(0, size)
            drops = measure_drops(
                references[some],
                whole[some],
                each[some],
                max_drop=MAX_DROP,
                target_language=model.target_language,
            )
            figures = {drop.metric: [drop.baseline, drop.score - drop.baseline, drop.lowest] for drop in drops}
            _show(step="drops", pairs=size, system=name, **figures)


def _show(**figures: Any) -> None:  # noqa: ANN401 - JSON
    print(json.dumps(_rounded(figures)), flush=True)


def _rounded(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
