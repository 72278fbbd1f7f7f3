"""A learned tokenization: nothing but unknown characters is unknown, and known text comes back exactly."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lacuna.errors import SettingError
from lacuna.models.tokenization.bpe import known_characters
from lacuna.models.tokenization.splitters import splitter_name
from lacuna.models.tokenization.tokenizer import WordBpe, learn_tokenization
from lacuna.records import Languages
from made_up import make_pairs
from unit.models.tokenization.sentences import chinese_pairs

KNOWN = string.printable.strip() + "￭␣"


@pytest.fixture(params=["joint", "separate"])
def pieces(request: pytest.FixtureRequest) -> WordBpe:
    found: WordBpe = request.getfixturevalue(request.param)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from(KNOWN + "  "), max_size=30).map(lambda text: " ".join(text.split())))
def test_text_of_known_characters_has_nothing_unknown_and_comes_back(pieces: WordBpe, text: str) -> None:
    for side in (pieces.source, pieces.target):
        ids = side.encode(text)
        assert {side.ids["<unk>"], side.ids["</s>"], side.ids["<pad>"]}.isdisjoint(ids)
        by_number = {number: piece for piece, number in side.ids.items()}
        assert side.text(by_number[number] for number in ids) == text


def test_sentences_come_back(joint: WordBpe, separate: WordBpe) -> None:
    for pieces, pairs in ((joint, make_pairs(30, seed=4)), (separate, chinese_pairs(30))):
        for pair in pairs:
            assert pieces.source.text(pieces.source.pieces(pair.source)) == pair.source
            assert pieces.target.text(pieces.target.pieces(pair.target)) == pair.target


def test_an_unknown_character_is_unknown(joint: WordBpe) -> None:
    [ids] = joint.encode_targets(["we Ω"])
    assert ids[-2:] == [joint.target.ids["<unk>"], joint.end_id]


def test_numbers_are_laid_out_as_the_network_needs_them(joint: WordBpe, separate: WordBpe) -> None:
    for pieces in (joint, separate):
        for side in (pieces.source, pieces.target):
            assert (side.ids["</s>"], side.ids["<unk>"], side.ids["<pad>"]) == (0, 1, pieces.size - 1)
            assert {"@-@", "￭", "␣"} <= set(side.ids)
            assert len(side.ids) <= 401
    assert joint.source.ids is joint.target.ids
    assert len(joint.tables) == 1
    assert separate.tables == (separate.source.ids, separate.target.ids)
    assert "我们" in separate.source.ids
    assert "我们" not in separate.target.ids


def test_the_same_text_gives_the_same_files() -> None:
    first, second = (learn_tokenization(make_pairs(50), 380, Languages("de", "en"), "joint") for _ in range(2))
    assert first == second
    assert sorted(first) == ["bpe.codes", "vocab.json", "words.json"]
    assert json.loads(first["words.json"]) == {
        "format": 1, "languages": ["de", "en"], "splitters": ["moses", "moses"], "vocabularies": "joint",
    }  # fmt: skip


def test_separate_files(separate: WordBpe) -> None:
    assert sorted(separate.files) == [
        "jieba.txt", "source.codes", "source.vocab.json", "target.codes", "target.vocab.json", "words.json",
    ]  # fmt: skip


def test_rare_characters_are_not_kept() -> None:
    counts = {"ä": 9000, "ö": 900, "ü": 100, "ß": 1}
    assert known_characters(counts, 1000) == [*KNOWN, "ä", "ö", "ü"]
    assert known_characters(counts, len(KNOWN) + 1) == [*KNOWN, "ä"]


@pytest.mark.parametrize(
    ("language", "splitter"), [("de", "moses"), ("zh", "jieba"), ("zho_Hans", "jieba"), ("xx", "moses")]
)
def test_splitters(language: str, splitter: str) -> None:
    assert splitter_name(language) == splitter


def test_languages_without_a_splitter_are_refused() -> None:
    with pytest.raises(SettingError, match=r"got bpe for ja.*allowed is sentencepiece"):
        splitter_name("ja")
