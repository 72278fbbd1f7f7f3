"""The target's sentencepiece model, rebuilt from a vocabulary: it splits words as the most probable unigrams do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentencepiece

from lacuna.models.importing.target_pieces import covers_target, rebuild_target_pieces
from unit.models.tiny_models import pieces, train_sentencepiece

# Most frequent first.
TOKENS = ["</s>", "<unk>", ".", "▁the", "s", "▁a", "ing", "▁cat", "▁", "a", "c", "t", "▁c", "at", "▁w", "wash", "▁wash"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "sentencepiece.model"
    train_sentencepiece(path, 76)
    return path


def splits(text: str) -> Iterator[list[str]]:
    """Yield every way to split a text into tokens."""
    if not text:
        yield []
    for token in TOKENS[2:]:
        if text.startswith(token):
            yield from ([token, *rest] for rest in splits(text.removeprefix(token)))


@pytest.mark.parametrize("text", ["the cat", "a cat s.", "washing cats", "cat at the wash.", "atatat"])
def test_a_text_is_split_into_its_most_probable_pieces(source: Path, tmp_path: Path, text: str) -> None:
    rebuild_target_pieces(source, TOKENS, tmp_path / "target.spm")
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "target.spm"))

    def score(tokens: list[str]) -> float:
        return sum(-math.log(TOKENS.index(token) + 10) - 3 for token in tokens)

    assert model.encode(text, out_type=str) == max(splits("▁" + text.replace(" ", "▁")), key=score)


def test_special_pieces_are_those_of_the_source(source: Path, tmp_path: Path) -> None:
    rebuild_target_pieces(source, TOKENS, tmp_path / "target.spm")
    names = [piece for piece, _ in pieces(tmp_path / "target.spm")]
    assert names[:3] == ["<unk>", "<s>", "</s>"]
    assert sorted(names[3:]) == sorted(set(TOKENS) - {"<unk>", "<s>", "</s>"})


def test_a_model_of_both_sides_is_told_from_one_of_the_source(source: Path) -> None:
    own = [piece for piece, _ in pieces(source)]
    assert covers_target(set(own), own)
    assert covers_target(set(own), [*own, "rare"])
    assert not covers_target(set(own), [*own, *(f"▁other{number}" for number in range(len(own)))])
