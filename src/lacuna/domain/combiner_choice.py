"""The combiner of a domain: adaptive or tuned vanilla, whichever is better on held-out dev pairs; or safe settings.

Both are fitted on one part of dev and compared on the rest. Without enough dev pairs, nothing is fitted. Does not know
the folder of a domain.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from lacuna.combiners import Combiner, Vanilla, load_combiner, save_combiner
from lacuna.combiners.gate import FOLDER as GATE_FOLDER
from lacuna.combiners.storage import MemoryRecord, ModelIdentity
from lacuna.corpora import draw_pairs
from lacuna.errors import CombinerError
from lacuna.fitting import DevSet, FitAdaptive, Fitter, FitVanilla, add_gate, fit_combiner
from lacuna.fitting.objective import perplexity
from lacuna.fitting.token_cache import collect_dev
from lacuna.fitting.vanilla import KS
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator import Memory

# Of all settings of the grid, those with the best mean perplexity that were worse than the model alone in none of 18
# cases; docs/adapt.md has the experiment.
SAFE = Vanilla(k=16, knn_weight=0.15, temperature=30.0)
# Share of the dev pairs on which the candidates are compared.
COMPARED = 0.2
# A gate that saves fewer searches is not worth its own time.
_MIN_SAVING = 0.3


@dataclass(frozen=True, slots=True)
class DevParts:
    """A dev set in two parts: one to fit on, one to compare on."""

    fitted: DevSet
    compared: DevSet

    @classmethod
    def of(cls, pairs: list[SentencePair], seed: int) -> DevParts:
        """Split dev pairs at random."""
        compared = draw_pairs(pairs, max(1, int(COMPARED * len(pairs))), seed)
        chosen = {id(pair) for pair in compared}
        return cls(DevSet(pair for pair in pairs if id(pair) not in chosen), DevSet(compared))


def can_fit(entries: int) -> bool:
    """Return whether a memory is large enough for every k that fitting tries."""
    return entries >= max(KS)


def choose_combiner(
    model: Model, memory: Memory, dev: DevParts, into: Path, *, seed: int, progress: Progress = SILENT
) -> dict[str, float]:
    """Fit vanilla and adaptive, and save the better one.

    :param into: Folder for the combiner; it must not exist.
    :return: Perplexity of the held-out dev pairs, of the model alone and with each candidate.
    """
    fitters: tuple[Fitter, ...] = (FitVanilla(), FitAdaptive())
    found: dict[str, float] = {}
    for fitter in fitters:
        folder = into.with_name(f"{into.name}-{fitter.name}")
        fitted = fit_combiner(fitter, model, [memory], dev.fitted, folder, seed=seed, progress=progress).combiner
        found |= _perplexities(model, memory, dev.compared, fitter.name, fitted, progress)
    best = min((fitter.name for fitter in fitters), key=lambda name: found[name])
    into.with_name(f"{into.name}-{best}").rename(into)
    return found


def _perplexities(
    model: Model, memory: Memory, dev: DevSet, name: str, combiner: Combiner, progress: Progress
) -> dict[str, float]:
    tokens = collect_dev(model, [memory], dev, combiner.k, progress=progress)
    rows = torch.arange(tokens.tokens)
    return {"model alone": perplexity(tokens, rows), name: perplexity(tokens, rows, combiner)}


def save_safe_combiner(model: Model, memory: Memory, into: Path, *, seed: int) -> None:
    """Save the settings for a memory to which nothing can be fitted."""
    save_combiner(
        replace(SAFE, k=min(SAFE.k, memory.store.entries)),
        into,
        model=ModelIdentity(name=model.name, fingerprint=model.fingerprint),
        memories=(MemoryRecord.of(memory.name, memory.store),),
        dev_loss=None,
        seed=seed,
    )


def choose_gate(
    model: Model, memory: Memory, folder: Path, dev: DevSet, *, translated: int, seed: int, progress: Progress = SILENT
) -> float | None:
    """Fit a gate for a combiner; keep it if it saves enough searches without a decline on dev.

    :param folder: Folder of the combiner.
    :param translated: Number of dev pairs that are translated.
    :return: Share of the decoding steps at which it searches; ``None`` if there is no gate.
    """
    combiner = load_combiner(folder)
    try:
        made = add_gate(model, [memory], combiner, dev, translated=translated, seed=seed, progress=progress)
    except CombinerError:  # every gate lowers BLEU
        return None
    if 1 - made.searched >= _MIN_SAVING:
        return made.searched
    shutil.rmtree(folder / GATE_FOLDER)
    return None
