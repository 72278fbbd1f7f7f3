"""Fitting a gate: learn on one part of dev, set bounds on another, and take the boldest that cost no BLEU.

First the reach, then the threshold of foretold gains. Of each, the boldest comes first, and the first whose
translations of dev give no hint of being worse than those without a gate is taken. The test set is never seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from lacuna.combiners import SavedCombiner
from lacuna.combiners.fitting.gate import fit_gate, set_threshold
from lacuna.combiners.gate import Gate
from lacuna.combiners.saving_gate import FOLDER as GATE_FOLDER
from lacuna.combiners.saving_gate import GateManifest, save_gate
from lacuna.corpora import draw_pairs
from lacuna.errors import CombinerError
from lacuna.evaluation import evaluate_systems
from lacuna.files import check_unused
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator import Memory, Translator
from lacuna.translator.gating import GateTokens, collect_gate_tokens, find_regions

# How many nats a translation may be behind the best of its sentence, boldest first. Less than two passed on dev, but on
# other texts BLEU fell now and then: the translation that wins is too often that far behind.
REACHES = (2.0, 3.0, 5.0)
# Shares of what all searches gain that a gate may lose, boldest first.
LOSSES = (0.08, 0.04, 0.02, 0.01, 0.005)
# The best of several gates on dev is a little worse elsewhere: what is to be no significant decline there must not look
# like one here.
_LEAST_P = 0.25
# Foretelling gains takes about as long as a tenth of the searches, so it has to spare more than that.
_WORTH_FORETELLING = 0.1


@dataclass(frozen=True, slots=True)
class _Trial:
    """A gate, and what became of dev with it.

    :param searched: The share of steps that it searched at.
    :param lost: The share of gains that its threshold may lose.
    """

    gate: Gate
    searched: float
    bleu: tuple[float, float]
    p_decline: float
    lost: float = 0.0


class _Judge:
    """Translates dev with a gate and compares with what comes without one."""

    def __init__(
        self,
        model: Model,
        memories: Sequence[Memory],
        combiner: SavedCombiner,
        pairs: Sequence[SentencePair],
        progress: Progress,
    ) -> None:
        self._model, self._memories, self._combiner, self._progress = model, memories, combiner, progress
        self._sources, self._references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        self._always, _ = self._translate(None)
        self.lowest = torch.inf

    def try_out(self, gate: Gate, lost: float = 0.0) -> _Trial:
        """Translate with a gate."""
        gated, searched = self._translate(gate)
        without, with_gate = evaluate_systems(self._references, {"always": self._always, "gated": gated})
        self.lowest = min(self.lowest, with_gate.bleu.value)
        p = 1.0 if with_gate.p_decline is None else with_gate.p_decline
        return _Trial(gate, searched, (without.bleu.value, with_gate.bleu.value), p, lost)

    def _translate(self, gate: Gate | None) -> tuple[list[str], float]:
        translator = Translator(self._model, self._memories, self._combiner, gate=gate)
        results = translator.translate(self._sources, progress=self._progress)
        count = translator.search_count
        return [result.text for result in results], count.searched / max(1, count.rows)


def add_gate(
    model: Model,
    memories: Sequence[Memory],
    combiner: SavedCombiner,
    pairs: Sequence[SentencePair],
    *,
    translated: int = 500,
    seed: int = 1,
    progress: Progress = SILENT,
) -> GateManifest:
    """Fit a gate for a combiner and save it in the combiner's folder.

    :param pairs: The dev set.
    :param translated: At most so many pairs of it are translated for BLEU.
    :raises CombinerError: Every gate costs BLEU; then none is saved.
    """
    check_unused(Path(combiner.path) / GATE_FOLDER, CombinerError)
    regions = find_regions(memories, seed=seed, progress=progress)
    tokens = collect_gate_tokens(model, memories, combiner, regions, pairs, progress=progress)
    learn, held_out = _halves(tokens, seed)
    gate = fit_gate(regions, tokens.features[learn], tokens.gains[learn], seed=seed)
    judge = _Judge(model, memories, combiner, draw_pairs(pairs, translated, seed), progress)
    reaching = _first_harmless(judge.try_out(replace(gate, reach=reach)) for reach in REACHES)
    near = gate if reaching is None else reaching.gate
    foretelling = _first_harmless(
        judge.try_out(set_threshold(near, tokens.features[held_out], tokens.gains[held_out], loss), loss)
        for loss in LOSSES
    )
    chosen = _quicker(reaching, foretelling)
    if chosen is None:
        tried = len(REACHES) + len(LOSSES)
        raise CombinerError(
            f"no gate: each of {tried} seems to lower the BLEU of dev (one to {judge.lowest:.2f}); "
            "the combiner is saved without one, and searches at every step"
        )
    manifest = GateManifest(
        threshold=_finite(chosen.gate.threshold),
        reach=_finite(chosen.gate.reach),
        searched=chosen.searched,
        lost=chosen.lost,
        bleu=chosen.bleu,
        p_decline=chosen.p_decline,
        model=model.fingerprint,
        seed=seed,
    )
    return save_gate(chosen.gate, Path(combiner.path), manifest)


def _first_harmless(trials: Iterator[_Trial]) -> _Trial | None:
    """Try gates until one does not seem to lower BLEU."""
    return next((trial for trial in trials if trial.p_decline >= _LEAST_P), None)


def _quicker(reaching: _Trial | None, foretelling: _Trial | None) -> _Trial | None:
    """Choose between a gate that only looks how far behind a translation is, and one that also foretells gains."""
    without = 1.0 if reaching is None else reaching.searched
    if foretelling is not None and without - foretelling.searched > _WORTH_FORETELLING:
        return foretelling
    return reaching or foretelling


def _finite(bound: float) -> float | None:
    """Give a bound as JSON can hold it: ``None`` where there is none."""
    return bound if abs(bound) < torch.inf else None


def _halves(tokens: GateTokens, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cut the tokens in two, by sentence."""
    count = int(tokens.sentences.max()) + 1
    chosen = torch.randperm(count, generator=torch.Generator().manual_seed(seed)) < count // 2
    mine = chosen[tokens.sentences]
    return mine.nonzero()[:, 0], (~mine).nonzero()[:, 0]
