"""Overviews of memories, compared with naive counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lacuna.memory import overview
from lacuna.memory.overview import WordBoundaries, needed_words, principal_plane

END = 0


class Columns:
    """The columns of a store that counting words needs."""

    def __init__(self, sentences: list[list[tuple[int, bool]]], dropped: frozenset[int] = frozenset()) -> None:
        rows = [
            (value, known, number, place)
            for number, pieces in enumerate(sentences)
            for place, (value, known) in enumerate([*pieces, (END, True)])
        ]
        kept = [row for n, row in enumerate(rows) if n not in dropped]
        self.values, self.sentence, self.position = (np.array([row[n] for row in kept], np.int32) for n in (0, 2, 3))
        self.known = np.array([row[1] for row in kept], np.bool_)
        self.entries = len(kept)
        self.manifest = type("Manifest", (), {"model": type("Model", (), {"eos_id": END})})


TEXTS = ["</s>", "▁the", "▁fi", "le", "▁", ",", "s", "▁s"]


def naive(sentences: list[list[tuple[int, bool]]]) -> Counter[tuple[str, bool]]:
    """Assemble the words of every sentence token by token."""
    words: Counter[tuple[str, bool]] = Counter()
    for pieces in sentences:
        word, new = "", False
        for value, known in [*pieces, (END, True)]:
            text = TEXTS[value]
            if text[0] == "▁" or text in (",", "</s>", "▁") or word in (",", "▁"):
                words[word.replace("▁", ""), new] += 1
                word, new = "", False
            word, new = word + text, new or not known
    return words


@example([[(6, False), (3, False)], [(7, False), (3, False)]])
@given(st.lists(st.lists(st.tuples(st.integers(1, len(TEXTS) - 1), st.booleans()), max_size=8), min_size=1, max_size=6))
def test_words_are_counted_as_one_would_by_hand(sentences: list[list[tuple[int, bool]]]) -> None:
    columns = Columns(sentences)
    found = needed_words(columns, ~columns.known, WordBoundaries.of(TEXTS, END), 99)  # type: ignore[arg-type]
    expected = naive(sentences)
    needed_ones = {word: count for (word, new), count in expected.items() if new and len(word) > 1}
    assert {(one.word, one.needed, one.unknown) for one in found} == {(w, n, n) for w, n in needed_ones.items()}
    assert all(one.count == expected[one.word, True] + expected[one.word, False] for one in found)
    assert [one.needed for one in found] == sorted((one.needed for one in found), reverse=True)


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [[(1, False), (2, True), (3, False)], [(2, False), (3, True)], [(1, False)]] * 3
    columns, boundaries = Columns(sentences), WordBoundaries.of(TEXTS, END)
    whole = needed_words(columns, ~columns.known, boundaries, 9)  # type: ignore[arg-type]
    monkeypatch.setattr(overview, "_ENTRIES_AT_ONCE", 2)
    assert needed_words(columns, ~columns.known, boundaries, 9) == whole  # type: ignore[arg-type]
    assert [(one.word, one.needed, one.count) for one in whole] == [("the", 6, 6), ("file", 6, 6)]


def test_what_pruning_left_of_a_word_is_none() -> None:
    # Of "the file </s>" the piece "fi" is gone: "le" is no word.
    columns = Columns([[(1, False), (2, False), (3, False)]], dropped=frozenset({1}))
    found = needed_words(columns, ~columns.known, WordBoundaries.of(TEXTS, END), 9)  # type: ignore[arg-type]
    assert [one.word for one in found] == ["the"]


@pytest.mark.parametrize("texts", [["</s>", "the</w>", "fi", "le</w>"], ["</s>", "the", "fi@@", "le"]])
def test_other_ways_to_spell_words(texts: list[str]) -> None:
    columns = Columns([[(1, False), (2, False), (3, False), (1, False)]])
    found = needed_words(columns, ~columns.known, WordBoundaries.of(texts, END), 9)  # type: ignore[arg-type]
    assert [(one.word, one.count) for one in found] == [("the", 2), ("file", 1)]


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 99))
def test_the_plane_keeps_as_much_variance_as_any_two_axes_can(rows: int, width: int, seed: int) -> None:
    keys = np.random.default_rng(seed).normal(size=(rows, width)) * np.arange(1, width + 1)
    points, shares = principal_plane(keys)
    centered = keys - keys.mean(0)
    singular = np.linalg.svd(centered, compute_uv=False) ** 2
    best = np.pad(singular, (0, 2))[:2]
    np.testing.assert_allclose((points**2).sum(0), best, atol=1e-8 * max(1.0, float(singular.sum())))
    np.testing.assert_allclose(shares, best / max(float(singular.sum()), 1e-12), atol=1e-8)
