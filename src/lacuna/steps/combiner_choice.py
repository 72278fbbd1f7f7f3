"""The combiner of a domain: adaptive or tuned vanilla, whichever translates held-out pairs better; or safe settings.

Both are fitted on one part of dev and compared on the rest. Without enough dev pairs, nothing is fitted. Knows nothing
of the step cache.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from lacuna.combiners import Combiner, load_combiner, save_combiner
from lacuna.combiners.gate import FOLDER as GATE_FOLDER
from lacuna.combiners.storage import MemoryRecord
from lacuna.corpora import draw_pairs
from lacuna.datastore.manifest import ModelIdentity
from lacuna.errors import CombinerError
from lacuna.evaluation import score_texts
from lacuna.fitting import DevSet, FitAdaptive, Fitter, FitVanilla, add_gate, fit_combiner
from lacuna.fitting.dev_texts import dev_references, dev_texts
from lacuna.fitting.objective import perplexity
from lacuna.fitting.token_cache import collect_dev
from lacuna.fitting.vanilla import KS
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator import System, safe_combiner

# The candidates.
FITTED: tuple[Fitter, ...] = (FitAdaptive(), FitVanilla())
ALONE = "model alone"
# Share of the dev pairs on which the candidates are compared.
COMPARED = 0.25
# Dev pairs that are translated to compare memories and gates.
MAX_TRANSLATED = 500
# A gate that saves fewer searches is not worth its own time.
_MIN_SAVING = 0.3


@dataclass(frozen=True, slots=True)
class Candidate:
    """The model alone, or a combiner that was fitted, on held-out dev pairs.

    :param bleu: Of the translations, as ``chrf``; ``None`` for the model alone.
    """

    name: str
    perplexity: float
    bleu: float | None = None
    chrf: float | None = None


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
) -> list[Candidate]:
    """Fit vanilla and adaptive, and save the one that translates held-out dev pairs better.

    :param into: Folder for the combiner; it must not exist.
    :return: The model alone and both candidates.
    """
    fitted = {
        fitter.name: fit_combiner(
            fitter, model, [memory], dev.fitted, _folder(into, fitter.name), seed=seed, progress=progress
        ).combiner
        for fitter in FITTED
    }
    candidates = _compare(model, memory, dev.compared, fitted, progress)
    best = max(candidates[1:], key=lambda candidate: candidate.chrf or 0.0)
    _folder(into, best.name).rename(into)
    return candidates


def _folder(into: Path, name: str) -> Path:
    return into.with_name(f"{into.name}-{name}")


def _compare(
    model: Model, memory: Memory, dev: DevSet, fitted: Mapping[str, Combiner], progress: Progress
) -> list[Candidate]:
    """Compare combiners on held-out dev pairs.

    What counts is chrF of the translations, since BLEU of a few sentences is noisy; docs/adapt.md compares it with
    perplexity.
    """
    texts = [
        dev_texts(System(model, [memory], combiner).open(), dev.pairs, progress=progress)
        for combiner in fitted.values()
    ]
    scores = score_texts(dev_references(model, dev.pairs), texts, target_language=model.target_language)
    candidates: list[Candidate] = []
    for score, (name, combiner) in zip(scores, fitted.items(), strict=True):
        tokens = collect_dev(model, [memory], dev, combiner.k, progress=progress)
        rows = torch.arange(tokens.tokens)
        if not candidates:
            candidates.append(Candidate(ALONE, perplexity(tokens, rows)))
        fit = perplexity(tokens, rows, combiner)
        candidates.append(Candidate(name, fit, score.bleu, score.chrf))
    return candidates


def save_safe_combiner(model: Model, memory: Memory, into: Path, *, seed: int) -> None:
    """Save the settings for a memory to which nothing can be fitted."""
    save_combiner(
        safe_combiner([memory]),
        into,
        model=ModelIdentity.of(model),
        memories=(MemoryRecord.of(memory),),
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
        gate = add_gate(model, [memory], combiner, dev, translated=translated, seed=seed, progress=progress)
    except CombinerError:  # every gate lowers BLEU
        return None
    if 1 - gate.searched >= _MIN_SAVING:
        return gate.searched
    shutil.rmtree(folder / GATE_FOLDER)
    return None
