"""A memory suggests what it translates consistently and the model gets wrong, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.glossaries import Glossary
from lacuna.glossaries.glossary_files import to_bytes
from lacuna.glossaries.stemming import Stemmer
from lacuna.glossaries.suggestion import Proposal, suggest_terms, unknown_words
from lacuna.glossaries.word_sequences import read_words
from lacuna.records import Languages, Origin, SentencePair

END = 0


class Memory:
    """What proposals read of a store. Each target is cut into tokens of three letters at most."""

    def __init__(self, pairs: list[tuple[str, str]], unknown: set[str], dropped: float = 0.0) -> None:
        """Make the entries; the model does not know the first token of the words that are named."""
        self._pairs = [SentencePair(source, target, Origin("made-up", "1")) for source, target in pairs]
        self._texts = ["</s>"]
        rows = []
        chance = random.Random(3)
        for sentence, (_, target) in enumerate(pairs):
            position = 0
            for word in target.split():
                for start in range(0, len(word), 3):
                    text = "▁" * (start == 0) + word[start : start + 3]
                    if text not in self._texts:
                        self._texts.append(text)
                    known = start > 0 or word.strip(".,") not in unknown
                    if not known or chance.random() >= dropped:
                        rows.append((self._texts.index(text), known, sentence, position))
                    position += 1
            rows.append((END, True, sentence, position))
        self.values, self.sentence, self.position = (np.array([row[n] for row in rows], np.int32) for n in (0, 2, 3))
        self.known = np.array([row[1] for row in rows], np.bool_)
        self.manifest = type("Manifest", (), {"model": type("Model", (), {"eos_id": END})})
        self.sentences = self

    def __getitem__(self, sentence: int) -> SentencePair:
        return self._pairs[sentence]

    def present(self) -> Iterator[tuple[int, SentencePair]]:
        return iter(enumerate(self._pairs))

    def token_text(self, token: int) -> str:
        return self._texts[token]


FILLERS = [(f"{a}{b}olo", f"{b}{a}ani") for a in "bdfgklmnprtvwz" for b in "aeiou"]


def made_up(terms: list[tuple[str, str]], count: int = 600, seed: int = 0) -> list[tuple[str, str]]:
    """Return pairs of sentences; each has the same function word and fillers, and some have a term."""
    chance = random.Random(seed)
    pairs = []
    for number in range(count):
        fillers = chance.sample(FILLERS, 3)
        term = terms[number // 6 % len(terms)] if number % 6 == 0 else ("", "")
        words = ["Der", fillers[0][0], term[0], fillers[1][0], "der", fillers[2][0]]
        others = ["The", fillers[0][1], term[1], fillers[1][1], "the", fillers[2][1]]
        pairs.append(tuple(" ".join(" ".join(side).split()) + "." for side in (words, others)))
    return pairs


TERMS = [(f"Quix{letter}", f"yonder{letter}") for letter in "bdgklmnp"] + [("rote Grüze", "red gruel")] * 2


def propose(memory: Memory, **settings: float) -> list[Proposal]:
    languages = Languages("de", "en")
    return suggest_terms(memory, languages, memory.token_text, **settings).proposals  # type: ignore[arg-type]


def test_only_what_the_model_gets_wrong_is_proposed_the_most_frequent_first() -> None:
    memory = Memory(made_up(TERMS), unknown={"yonderb", "gruel"})
    assert [(each.source, each.target, each.count) for each in propose(memory)] == [
        ("rote Grüze", "red gruel", 20),
        ("Quixb", "yonderb", 10),
    ]


def test_numbers_by_hand() -> None:
    """A term in 20 pairs: 15 times with its translation, which the model does not know in 6 of them."""
    pairs = made_up([("Quixb", "yonderb")], 120)
    changed = [
        (source, target.replace("yonderb", "elsewhere" if n < 30 else "Yonderb" if n < 66 else "yonderb"))
        for n, (source, target) in enumerate(pairs)
    ]
    [proposal] = [each for each in propose(Memory(changed, unknown={"Yonderb"})) if each.source == "Quixb"]
    assert proposal == Proposal("Quixb", "yonderb", 15, 0.75, 0.4)
    assert propose(Memory(changed, unknown={"Yonderb"}), min_share=0.76) == []
    assert propose(Memory(changed, unknown={"Yonderb"}), min_count=16) == []


def test_dropped_entries_change_nothing() -> None:
    pairs = made_up(TERMS)
    whole, pruned = (propose(Memory(pairs, {"yonderb", "gruel"}, dropped)) for dropped in (0.0, 0.7))
    assert whole == pruned


def test_repeated_pairs_count_once() -> None:
    pairs = made_up(TERMS)
    memory = Memory(pairs * 2, unknown={"yonderb"})
    suggestion = suggest_terms(memory, Languages("de", "en"), memory.token_text)  # type: ignore[arg-type]
    assert (suggestion.pairs, suggestion.repeated) == (len(set(pairs)), 2 * len(pairs) - len(set(pairs)))
    assert [each.count for each in suggestion.proposals] == [10]


def test_most_and_an_empty_memory() -> None:
    memory = Memory(made_up(TERMS), unknown={"yonderb", "gruel"})
    assert [each.source for each in propose(memory, most=1)] == ["rote Grüze"]
    assert propose(Memory([], set())) == []


def test_chinese_terms_are_longer_than_three_characters() -> None:
    pairs = [(source.replace("Quixb", "插件目录"), target) for source, target in made_up([("Quixb", "yonderb")], 150)]
    memory = Memory(pairs, unknown={"yonderb"})
    found = suggest_terms(memory, Languages("zh", "en"), memory.token_text)  # type: ignore[arg-type]
    assert [(each.source, each.target) for each in found.proposals] == [("插件目录", "yonderb")]


def test_inflected_forms_are_one_term_with_the_capitals_that_it_has_within_sentences() -> None:
    forms = ["Yonders", "yonder", "yonders", "yonders"]
    pairs = []
    for number, (source, target) in enumerate(made_up([("Quixb", "X")], 150)):
        form = forms[number // 6 % 4] if number % 6 == 0 else ""
        begins = form == "Yonders"
        pairs.append((source, f"{form} {target.replace('X ', '')}" if begins else target.replace("X", form)))
    [proposal] = propose(Memory(pairs, unknown={"Yonders", "yonder", "yonders"}))
    assert (proposal.target, proposal.count, proposal.consistency) == ("yonders", 25, 1.0)


def test_a_proposal_is_a_term_that_can_be_written() -> None:
    kept = Proposal("Quixb", "Quixb", 5, 1.0, 0.5).as_term()
    other = Proposal("Server", "server", 12, 0.923, 0.75).as_term()
    assert (kept.translate, kept.targets) == (False, ())
    assert (other.targets, other.note) == (("server",), "count 12, consistency 0.92, model wrong 0.75")
    assert to_bytes(Path("terms.tsv"), Glossary([kept, other])).count(b"\n") == 3


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("the file name", [("the", 1), ("fi", 1), ("le", 0), ("name", 1)], "file"),
        ("the file, name", [("the", 1), ("file", 1), (",", 0), ("name", 1)], ""),
        ("see files", [("s", 1), ("ee", 1), ("file", 1), ("s", 0)], "files"),
        ("a <b> c d", [("a", 1), ("71", 0), ("c", 0), ("d", 1)], "c"),  # a stand-in, and resuming after it
        ("ﬁle name", [("file", 0), ("name", 0)], "name"),  # the model has read two letters
        ("a b", [("a", 1), ("", 0), ("b", 0)], "b"),
    ],
)
def test_words_with_unknown_tokens(text: str, tokens: list[tuple[str, int]], expected: str) -> None:
    words = read_words(text, Stemmer("en"))
    given_tokens = [(piece, bool(known), place) for place, (piece, known) in enumerate(tokens)]
    found = unknown_words(words, given_tokens)
    assert [word.text for word, flag in zip(words.words, found, strict=True) if flag] == expected.split()


@given(st.lists(st.tuples(st.text("abc", min_size=1, max_size=6), st.booleans()), min_size=1, max_size=8))
def test_all_tokens_there_mean_all_words_right(words: list[tuple[str, bool]]) -> None:
    text = " ".join(word for word, _ in words)
    tokens: list[tuple[str, bool, int]] = []
    for word, known in words:
        for start in range(0, len(word), 2):
            tokens.append((word[start : start + 2], known or start > 0, len(tokens)))
    assert unknown_words(read_words(text, Stemmer("xx")), tokens) == [not known for _, known in words]
