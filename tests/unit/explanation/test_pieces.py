"""Which part of a sentence a token stands for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.explanation.explanation import mark, pieces

# A detokenizer that changes what came before: no space before a full stop, and 'n't is joined to the word.
WORDS = ["</s>", "do", "n't", "go", ".", "“", "”", "Straße"]


def decode(ids: Sequence[int]) -> str:
    text = " ".join(WORDS[number] for number in ids if number)
    for joined in (".", "n't", "”"):
        text = text.replace(f" {joined}", joined)
    return text.replace("“ ", "“").strip()


@given(st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=12), st.text("do n't.G", max_size=12))
def test_pieces_together_are_the_text(ids: list[int], written: str) -> None:
    for text in (decode(ids), written):
        assert len(pieces(decode, ids, text)) == len(ids)
        assert "".join(pieces(decode, ids, text)) == text


def test_pieces_by_hand() -> None:
    assert pieces(decode, [1, 2, 3, 4, 0], "don't go.") == ["do", "n't", " go", ".", ""]
    assert pieces(decode, [1, 2, 3, 4, 0], "“don't  go.”") == ["“do", "n't", "  go", ".", "”"]
    assert pieces(decode, [], "") == []


@given(st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=12), st.data(), st.text(max_size=20))
def test_a_marked_sentence_is_whole(ids: list[int], data: st.DataObject, written: str) -> None:
    position = data.draw(st.integers(0, len(ids) - 1))
    for text in (decode(ids), written):
        assert "".join(mark(decode, ids, position, text)) == text


@pytest.mark.parametrize(
    ("position", "expected"),
    [(0, ("", "do", "n't go.")), (1, ("do", "n't", " go.")), (2, ("don't ", "go", ".")), (4, ("don't go.", "", ""))],
)
def test_marks_by_hand(position: int, expected: tuple[str, str, str]) -> None:
    assert mark(decode, [1, 2, 3, 4, 0], position, "don't go.") == expected


def test_marks_the_text_as_it_was_written() -> None:
    assert mark(decode, [5, 7, 6, 4, 0], 1, '"Straße".') == ('"', "Straße", '".')
    assert mark(decode, [3, 4, 0], 0, "  go .") == ("  ", "go", " .")


def test_marks_what_the_model_has_no_token_for() -> None:
    # Token 0 in the middle stands for something that decoding leaves out.
    assert mark(decode, [3, 0, 4, 0], 1, "go 猫.") == ("go", " 猫", ".")
    assert mark(decode, [3, 4, 0, 0], 3, "go.猫") == ("go.猫", "", "")
