"""Fitting a gate: learn on one part of dev, set thresholds on another, and take the boldest that costs no BLEU.

The loosest allowance comes first; the first gate whose translations of dev give no hint of being worse than those
without a gate is saved. The test set is never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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

# Shares of what all searches gain that a gate may lose, boldest first.
LOSSES = (0.08, 0.04, 0.02, 0.01, 0.005)
# The best of several gates on dev is a little worse elsewhere: what is to be no significant decline there must not look
# like one here.
_LEAST_P = 0.25


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
    learn, judge = _halves(tokens, seed)
    gate = fit_gate(regions, tokens.features[learn], tokens.gains[learn], seed=seed)
    sample = draw_pairs(pairs, translated, seed)
    sources, references = [pair.source for pair in sample], [pair.target for pair in sample]

    def translate(gate: Gate | None) -> list[str]:
        translator = Translator(model, memories, combiner, gate=gate)
        return [result.text for result in translator.translate(sources, progress=progress)]

    always = translate(None)
    tried: list[dict[str, Any]] = []
    for loss in LOSSES:
        bounded, searched = set_threshold(gate, tokens.features[judge], tokens.gains[judge], loss)
        scores = evaluate_systems(references, {"always": always, "gated": translate(bounded)})
        p = 1.0 if scores[1].p_decline is None else scores[1].p_decline
        tried.append({"lost": loss, "bleu": scores[1].bleu.value, "p_decline": p})
        if p >= _LEAST_P:
            manifest = GateManifest(
                threshold=bounded.threshold,
                searched=searched,
                lost=loss,
                bleu=(scores[0].bleu.value, scores[1].bleu.value),
                p_decline=p,
                model=model.fingerprint,
                seed=seed,
            )
            return save_gate(bounded, Path(combiner.path), manifest)
    raise CombinerError(
        f"no gate: each of {len(tried)} seems to lower the BLEU of dev (the last to {tried[-1]['bleu']:.2f}); "
        "the combiner is saved without one, and searches at every step"
    )


def _halves(tokens: GateTokens, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cut the tokens in two, by sentence."""
    count = int(tokens.sentences.max()) + 1
    chosen = torch.randperm(count, generator=torch.Generator().manual_seed(seed)) < count // 2
    mine = chosen[tokens.sentences]
    return mine.nonzero()[:, 0], (~mine).nonzero()[:, 0]
