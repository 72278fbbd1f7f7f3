"""Exact contexts: hand-worked masses, and a correction that shows at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lacuna.combiners import ExactContexts, Neighbors, Vanilla
from lacuna.memory import open_memory
from lacuna.memory.folder_edits import add_pairs
from lacuna.models import load_model
from lacuna.records import Languages, Origin, SentencePair
from plain_systems import open_plain

QUERIES = torch.tensor([[3.0, 4.0], [0.0, 5.0], [1.0, 0.0]])  # squared lengths 25, 25 and 1
DISTANCES = torch.tensor([[0.001, 0.002, 4.0], [1.0, 2.0, 3.0], [0.00001, 0.5, torch.inf]])
VALUES = torch.tensor([[7, 8, 9], [7, 7, 9], [5, 6, -1]])


def test_hand_worked() -> None:
    vanilla = Vanilla(k=3, knn_weight=0.5, temperature=10)
    found = Neighbors(DISTANCES, VALUES, None, QUERIES)
    mass, plain = ExactContexts(vanilla, 0.8).mass(found), vanilla.mass(found)
    assert mass[0].tolist() == pytest.approx([0.4, 0.4, 0.0])  # two neighbors of the same context share the mass
    assert torch.equal(mass[1], plain[1])  # no such neighbor
    assert mass[2].tolist() == pytest.approx([0.8, 0.0, 0.0])
    weighted = Neighbors(DISTANCES, VALUES, torch.tensor([[3.0, 1.0, 1.0]] * 3).log(), QUERIES)
    assert ExactContexts(vanilla, 0.8).mass(weighted)[0].tolist() == pytest.approx([0.6, 0.2, 0.0])
    with pytest.raises(LookupError, match="without their queries"):
        ExactContexts(vanilla).mass(Neighbors(DISTANCES, VALUES))


def test_a_correction_shows_at_once_and_changes_nothing_else(tmp_path: Path) -> None:
    model = load_model(languages=Languages("de", "en"))
    texts = [("Die Katze schläft.", "A feline is snoozing right here."), ("Der Hund läuft.", "Dogs run about.")]
    pairs = [SentencePair(source, target, Origin("made-up", "1")) for source, target in texts]
    add_pairs(tmp_path / "memory", pairs[:1], model)
    combiner = Vanilla(k=4, knn_weight=0.2, temperature=100)

    def translate(exact: bool) -> list[str]:
        translator = open_plain(model, [open_memory(tmp_path / "memory")], combiner, exact_contexts=exact)
        return [result.text for result in translator.translate([pair.source for pair in pairs])]

    assert translate(exact=True) == [pairs[0].target, translate(exact=False)[1]]
    assert translate(exact=False)[0] != pairs[0].target
    add_pairs(tmp_path / "memory", pairs[1:], model)
    assert translate(exact=True) == [pair.target for pair in pairs]
