"""The vocabulary: as Hugging Face's own tokenizer reads it, and without unknown characters."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import MarianTokenizer

from lacuna.errors import TrainingError
from lacuna.models.training.vocabulary import FILES, Pieces, sample_sentences, train_vocabulary
from lacuna.records import Languages
from made_up import make_pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vocabulary")
    sentences = sample_sentences(make_pairs(400), 500, seed=1)
    train_vocabulary(sentences, 370, Languages("de", "en"), folder)
    return folder


def test_hugging_face_reads_the_same_ids(folder: Path) -> None:
    theirs = MarianTokenizer.from_pretrained(folder)
    sentences = [pair.source for pair in make_pairs(20, seed=5)]
    assert theirs(sentences)["input_ids"] == Pieces(folder).encode(sentences)
    targets = [pair.target for pair in make_pairs(20, seed=5)]
    assert theirs(text_target=targets)["input_ids"] == Pieces(folder).encode(targets)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=["C", "Z", "M"]), max_size=20))
def test_no_character_is_unknown(folder: Path, text: str) -> None:
    pieces = Pieces(folder)
    [ids] = pieces.encode([text])
    assert pieces.ids["<unk>"] not in ids
    assert ids[-1] == pieces.end_id


def test_code_and_placeholders_are_whole_characters_not_bytes(folder: Path) -> None:
    ids = Pieces(folder).ids
    assert [character for character in "%{}_$<>\\#@[]" if character not in ids] == []


def test_same_sentences_give_the_same_files(folder: Path, tmp_path: Path) -> None:
    train_vocabulary(sample_sentences(make_pairs(400), 500, seed=1), 370, Languages("de", "en"), tmp_path)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_sample_is_uniform_over_the_stream() -> None:
    pairs = make_pairs(50)
    seen = [0] * 100
    for seed in range(400):
        positions = {id(text): place for place, text in enumerate(t for p in pairs for t in (p.source, p.target))}
        for sentence in sample_sentences(pairs, 10, seed):
            seen[positions[id(sentence)]] += 1
    assert sum(seen) == 4000
    assert 15 < min(seen) <= max(seen) < 70  # 40 expected each; 6 standard deviations either way


def test_too_small_a_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"too small for it .* smaller vocabulary"):
        train_vocabulary(["ein Satz"], 5000, Languages("de", "en"), tmp_path)
