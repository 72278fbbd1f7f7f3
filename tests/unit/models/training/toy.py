"""Pairs that the tiny models can learn: each word has one translation, and order is kept."""

from __future__ import annotations

import copy

import numpy as np

from lacuna.models.adapter import Model
from lacuna.models.training.data import Batch, make_batch
from lacuna.models.training.finetuning import encode_for
from lacuna.progress import SILENT
from lacuna.records import Origin, SentencePair
from unit.models.tiny_models import SOURCES, TARGETS

WORDS = list(zip(" ".join(SOURCES).split(), " ".join(TARGETS).split(), strict=False))


def toy_pairs(count: int, seed: int = 0) -> list[SentencePair]:
    rng = np.random.default_rng(seed)
    pairs = []
    for line in range(count):
        words = [WORDS[place] for place in rng.integers(len(WORDS), size=int(rng.integers(1, 4)))]
        source, target = (" ".join(side) for side in zip(*words, strict=True))
        pairs.append(SentencePair(source, target, Origin("folder/toy.tsv", str(line + 1))))
    return pairs


def trainable(model: Model) -> Model:
    """A copy of a model with all weights trainable."""
    copied = model.with_hf(copy.deepcopy(model.hf))
    copied.hf.requires_grad_(True)
    return copied


def toy_batch(model: Model) -> Batch:
    """Four pairs of different lengths, so that both sides are padded."""
    pairs = [SentencePair(source, target, Origin("toy", "1")) for source, target in zip(SOURCES, TARGETS, strict=True)]
    encoded = encode_for(model, pairs, "toy", SILENT)
    return make_batch(encoded.tokens, encoded.parts[0], model.pad_id)
