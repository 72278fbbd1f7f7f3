"""Byte pair encoding: by hand, and against subword-nmt's own command line."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import ModelError, TrainingError
from lacuna.models.tokenization.bpe import Bpe, join_pieces, learn_codes, merged_pieces
from made_up import make_pairs

TEXT = [pair.target for pair in make_pairs(60)]
COUNTS = Counter(word for line in TEXT for word in line.split())
LEARNED = Bpe(learn_codes(COUNTS, 30))


def command_line(verb: str, *arguments: str, text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"subword_nmt.{verb}", *arguments],
        input=text, capture_output=True, check=True, encoding="utf-8",
    )  # fmt: skip
    return done.stdout


def test_learning_and_applying_equal_the_command_line(tmp_path: Path) -> None:
    codes = learn_codes(COUNTS, 40)
    assert codes == command_line("learn_bpe", "-s", "40", text="\n".join(TEXT) + "\n")
    (tmp_path / "codes").write_text(codes, encoding="utf-8")
    unseen = "three dogswindows @-@ büro x <unk> see. @ a@@b"
    expected = command_line("apply_bpe", "-c", str(tmp_path / "codes"), "--glossaries", "@-@", text=unseen)
    subwords = Bpe(codes)
    assert [piece for word in unseen.split() for piece in subwords.split(word)] == expected.split()


def test_merges_by_hand() -> None:
    # At first (a, b</w>) occurs 5 times and (a, b) and (b, a) 3 times; then (a, b) and (b, ab</w>) 3 times, of which
    # the one later in the alphabet is taken; then only (a, bab</w>) is left.
    codes = learn_codes({"abab": 3, "ab": 2}, 10)
    assert codes.splitlines() == ["#version: 0.2", "a b</w>", "b ab</w>", "a bab</w>"]
    assert Bpe("#version: 0.2\na b</w>\n").split("abab") == ("a@@", "b@@", "ab")
    assert merged_pieces("#version: 0.2\na b</w>\na b\nab ab</w>\n") == ["ab", "ab@@", "abab"]


def test_the_hyphen_of_moses_is_never_cut() -> None:
    assert Bpe("#version: 0.2\na b</w>\n").split("@-@") == ("@-@",)


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=8)))
def test_pieces_make_the_words_again(words: list[str]) -> None:
    assert join_pieces(piece for word in words for piece in LEARNED.split(word)) == words


def test_no_piece_is_learned_that_could_be_mistaken() -> None:
    counts = {"</s>": 50, "a@@": 50, "x</w>y": 50, "<pad>": 50, "<unk>ab": 50, "ab": 2}
    assert merged_pieces(learn_codes(counts, 100)) == ["ab"]


def test_learning_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    learn_codes(COUNTS, 10_000)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("counts", [{}, {"a": 5}, {"ab": 1}])
def test_too_little_text_is_refused(counts: dict[str, int]) -> None:
    with pytest.raises(TrainingError, match="give more text"):
        learn_codes(counts, 10)


@pytest.mark.parametrize("codes", ["", "#version: 0.2\n", "a b\n", "#version: 0.2\na b c\n", "#version: 9\na b\n"])
def test_bad_codes_are_refused_and_do_not_end_the_process(codes: str) -> None:
    with pytest.raises(ModelError, match="BPE codes"):
        Bpe(codes)
