"""Constrained search over scripted probabilities, against enumeration of every translation there can be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.decoding import (
    BatchCapacity,
    BeamSettings,
    Constraints,
    Form,
    SentenceConstraints,
    TokenBoundaries,
    decode_all,
    decode_blocks,
    search,
)
from lacuna.errors import ModelError, SettingError
from lacuna.likely_tokens import NextTokens
from lacuna.workers import WorkerPool
from unit.decoding.naive_constraints import boundaries, read
from unit.decoding.scripted import EOS, Prefixes, Scripted, all_translations

SIZE = 5
WIDE = 400
SEEDS = st.integers(0, 10_000)
FORMS = st.lists(st.integers(1, SIZE - 1), min_size=1, max_size=3).map(tuple)
TERMS = st.lists(FORMS, min_size=1, max_size=3).map(tuple)
# Few tokens, so that prefixes, overlaps and repeated terms are frequent.
SENTENCES = st.builds(
    SentenceConstraints,
    st.lists(TERMS, max_size=2).map(tuple),
    st.lists(FORMS, max_size=2).map(tuple),
    st.lists(TERMS, max_size=2).map(tuple),
)
TOKENS = st.frozensets(st.integers(1, SIZE - 1))
BOUNDARIES = st.builds(
    lambda continues, inside, closing: boundaries(SIZE, continues=continues, inside=inside, closing=closing),
    TOKENS,
    TOKENS,
    st.frozensets(st.integers(1, SIZE - 1), max_size=1),
)
PENALTIES = st.sampled_from([0.0, 1.0, 1.4])


def body(tokens: tuple[int, ...]) -> tuple[int, ...]:
    return tokens[:-1] if tokens[-1] == EOS else tokens


def ranked(scorer: Scripted, seed: int, length: int, penalty: float, constraints: Constraints) -> dict[Form, float]:
    """The score with the bonus of every translation that is allowed."""
    one = constraints.sentences[0]
    assert one is not None
    found = {}
    for tokens, total in all_translations(scorer, seed, length):
        reading = read(body(tokens), one, constraints)
        if not reading.banned and (reading.complete or not constraints.strict):
            found[tokens] = (total + reading.bonus) / len(tokens) ** penalty
    return found


@settings(max_examples=150, deadline=None)
@given(
    seed=SEEDS,
    one=SENTENCES,
    words=BOUNDARIES,
    bonus=st.sampled_from([0.0, 1.0, 4.0]),
    length=st.integers(1, 4),
    penalty=PENALTIES,
    one_sentence=st.booleans(),
)
def test_a_beam_wide_enough_finds_every_translation_in_the_order_of_probability_and_bonus(
    seed: int,
    one: SentenceConstraints,
    words: TokenBoundaries,
    bonus: float,
    length: int,
    penalty: float,
    one_sentence: bool,
) -> None:
    scorer, constraints = Scripted(SIZE), Constraints([one], words, bonus, one_sentence=one_sentence)
    truth = ranked(scorer, seed, length, penalty, constraints)
    [found] = search(scorer, [[seed]], BeamSettings(WIDE, penalty, max_new_tokens=length), constraints=constraints)
    assert {hypothesis.tokens for hypothesis in found} == set(truth)
    ranks = [truth[hypothesis.tokens] for hypothesis in found]
    assert ranks == pytest.approx(sorted(ranks, reverse=True), abs=1e-4)
    plain = dict(all_translations(scorer, seed, length))
    for hypothesis in found:
        expected = plain[hypothesis.tokens]
        assert sum(hypothesis.log_probs) == pytest.approx(expected, abs=1e-4)
        assert hypothesis.score == pytest.approx(expected / len(hypothesis.tokens) ** penalty, abs=1e-4)


@settings(max_examples=150, deadline=None)
@given(
    seed=SEEDS,
    one=SENTENCES,
    words=BOUNDARIES,
    length=st.integers(1, 4),
    bonus=st.sampled_from([0.0, 2.0]),
    one_sentence=st.booleans(),
)
def test_strict_search_finds_every_translation_with_all_terms(
    seed: int, one: SentenceConstraints, words: TokenBoundaries, length: int, bonus: float, one_sentence: bool
) -> None:
    scorer = Scripted(SIZE)
    constraints = Constraints([one], words, bonus, strict=True, one_sentence=one_sentence)
    truth = ranked(scorer, seed, length, 1.0, constraints)
    [found] = search(scorer, [[seed]], BeamSettings(WIDE, max_new_tokens=length), constraints=constraints)
    if truth:
        assert {hypothesis.tokens for hypothesis in found} == set(truth)
        ranks = [truth[hypothesis.tokens] for hypothesis in found]
        assert ranks == pytest.approx(sorted(ranks, reverse=True), abs=1e-4)
    else:
        # The best of those that are allowed but for the terms that are missing.
        free = ranked(scorer, seed, length, 1.0, replace(constraints, strict=False))
        [only] = found
        assert free[only.tokens] == pytest.approx(max(free.values()), abs=1e-4) or one_sentence


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, one=SENTENCES, words=BOUNDARIES, length=st.integers(1, 5), beam=st.integers(1, 3))
def test_a_narrow_beam_keeps_the_rules(
    seed: int, one: SentenceConstraints, words: TokenBoundaries, length: int, beam: int
) -> None:
    scorer = Scripted(SIZE, eos_bonus=1.0)
    for strict in (False, True):
        constraints = Constraints([one], words, 1.0, strict=strict)
        try:
            [found] = search(scorer, [[seed]], BeamSettings(beam, max_new_tokens=length), constraints=constraints)
        except ModelError:
            assert {(token,) for token in range(1, SIZE)} <= set(one.banned)
            continue
        assert 1 <= len(found) <= beam
        readings = [read(body(hypothesis.tokens), one, constraints) for hypothesis in found]
        assert not any(reading.banned for reading in readings)
        if strict and len(found) > 1:
            assert all(reading.complete for reading in readings)
        scores = [h.score + reading.bonus / len(h.tokens) for h, reading in zip(found, readings, strict=True)]
        assert scores == pytest.approx(sorted(scores, reverse=True), abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    seeds=st.lists(SEEDS, min_size=1, max_size=7),
    beam=st.integers(1, 4),
    capacity=st.builds(BatchCapacity, st.integers(1, 5)),
    joins=st.booleans(),
    strict=st.booleans(),
    data=st.data(),
)
def test_it_does_not_matter_who_else_is_searched(
    seeds: list[int], beam: int, capacity: BatchCapacity, joins: bool, strict: bool, data: st.DataObject
) -> None:
    scorer, chosen = Scripted(12, joins=joins, eos_bonus=0.5), BeamSettings(beam, max_new_tokens=8)
    sources = [[seed] * (1 + seed % 7) for seed in seeds]
    each = data.draw(st.lists(st.none() | SENTENCES, min_size=len(seeds), max_size=len(seeds)))
    words = boundaries(12, continues=(2, 5, 6), inside=(1, 2, 7), closing=(8,))
    constraints = Constraints(each, words, 1.5, strict=strict)
    found = search(scorer, sources, chosen, capacity=capacity, constraints=constraints)
    for source, one, hypotheses in zip(sources, each, found, strict=True):
        [alone] = search(scorer, [source], chosen, constraints=replace(constraints, sentences=[one]))
        assert hypotheses == alone
        if one is None:
            assert hypotheses == search(scorer, [source], chosen)[0]
    blocks = [2, 3, len(sources)]
    groups = decode_blocks(scorer, sources, chosen, blocks, capacity, constraints=constraints, pool=WorkerPool(2))
    assert [hypotheses for group in groups for hypotheses in group] == found
    assert decode_all(scorer, sources, chosen, batch_size=3, constraints=constraints) == found


# A vocabulary to write cases by hand: a space before a token begins a word.
WORDS = ["</s>", " open", " the", " file", "s", " manager", ".", " z", " B", "-", " data", " now"]
HAND = boundaries(
    len(WORDS),
    continues=[WORDS.index("s")],
    inside=[number for number, word in enumerate(WORDS) if word not in ("</s>", ".", "-")],
    closing=[WORDS.index(".")],
)


def tokens_of(text: str) -> Form:
    """Tokens of a text whose tokens are divided by ``|``."""
    return tuple(WORDS.index(word) for word in text.split("|"))


@dataclass(frozen=True)
class Reciting(Scripted):
    """Prefers one translation to all others, by ``margin`` nats a token."""

    text: Form = ()
    margin: float = 8.0

    def log_probs(self, seed: int, prefix: Form) -> torch.Tensor:  # type: ignore[override]
        logits = torch.arange(self.vocabulary_size) * -0.01
        logits[(*self.text, EOS)[min(len(prefix), len(self.text))]] += self.margin
        return logits.float().log_softmax(-1)


def translate(
    text: str,
    *required: str,
    banned: tuple[str, ...] = (),
    wanted: tuple[str, ...] = (),
    beam: int = 4,
    margin: float = 8.0,
    **options: float,
) -> str:
    """Translate with a scorer that prefers a text. Alternative forms of a term are divided by ``/``."""
    scorer = Reciting(len(WORDS), text=tokens_of(text), margin=margin)
    terms, wishes = (tuple(tuple(map(tokens_of, term.split("/"))) for term in each) for each in (required, wanted))
    one = SentenceConstraints(terms, tuple(map(tokens_of, banned)), wishes)
    constraints = Constraints([one], HAND, **options)  # type: ignore[arg-type]
    [[found, *_]] = search(scorer, [[1]], BeamSettings(beam, max_new_tokens=10), constraints=constraints)
    assert found.tokens[-1] == EOS
    return "|".join(WORDS[token] for token in found.tokens[:-1])


def test_a_banned_word_may_begin_a_longer_one() -> None:
    assert translate(" open| the| file|s", banned=(" file",)) == " open| the| file|s"
    # A word that begins so costs as little as any other.
    assert translate(" open| the| file", banned=(" file",)) in (" open| the| file|s", " open| the", " open| the| open")
    assert " file" not in translate(" open| the| file| now", banned=(" file", " file|s"))
    assert translate(" open| the| file| now", banned=(" file| manager",)) == " open| the| file| now"
    assert translate(" open| the| file", banned=("s",)) == " open| the| file"
    assert translate(" open| the| file|s", banned=("s",)) == " open| the| file|s"  # within a word


def test_with_a_beam_of_one_no_word_begins_like_a_banned_one() -> None:
    assert " file" not in translate(" open| the| file|s", banned=(" file",), beam=1)


def test_a_form_within_a_longer_word_is_no_form() -> None:
    found = translate(" open| the| file|s", " file", strict=True, margin=3.0)
    assert " file" in found
    assert not found.replace(" file|s", "").count("s")
    assert read(tokens_of(found), SentenceConstraints(((tokens_of(" file"),),)), Constraints([], HAND)).complete
    assert translate(" open| the| file|s", " file/ file|s", strict=True) == " open| the| file|s"
    assert translate(" open| the| file|-", " file", strict=True) == " open| the| file|-"


def test_a_form_that_begins_another_counts_only_if_the_other_one_does_not() -> None:
    both = translate(" open| file| manager", " file/ data", " file| manager", strict=True)
    assert " file| manager" in both
    assert both.count(" file") + both.count(" data") == 2
    twice = translate(" open| file| manager", " file", " file| manager", strict=True)
    assert twice.count(" file") == 2
    assert " file| manager" in twice


def test_a_term_required_twice_is_there_twice() -> None:
    assert translate(" open| data| now", " data", " data", strict=True).count(" data") == 2
    assert translate(" open| data| now", " data", strict=True) == " open| data| now"


def test_a_term_is_not_appended_after_the_sentence() -> None:
    """The end of a sentence is put off until the term is there; a form may contain it."""
    assert translate(" open| the| file|.", " data", strict=True) == " open| the| file| data"
    assert translate(" open| the| file|.", " data", strict=True, one_sentence=False) == " open| the| file|.| data"
    assert translate(" open| z|.| B|.", " z|.| B|.", " open", strict=True) == " open| z|.| B|."


def test_the_end_of_a_sentence_is_allowed_if_nothing_else_is() -> None:
    class Ending(Reciting):
        def log_probs(self, seed: int, prefix: Form) -> torch.Tensor:  # type: ignore[override]
            only = torch.full((self.vocabulary_size,), -math.inf)
            only[[WORDS.index(" open"), WORDS.index("."), EOS][min(len(prefix), 2)]] = 0.0
            return only

    scorer = Ending(len(WORDS))
    constraints = Constraints([SentenceConstraints(((tokens_of(" data"),),))], HAND, strict=True)
    [[found]] = search(scorer, [[1]], BeamSettings(2, max_new_tokens=6), constraints=constraints)
    assert found.tokens == (*tokens_of(" open|."), EOS)


def test_a_bonus_makes_up_for_what_the_term_costs_and_no_more() -> None:
    """Every token but the preferred one costs 4 nats and some hundredths; a form of two tokens has 1.41 bonuses."""
    without = " open| the| now"
    assert translate(without, " data", margin=4.0, bonus=3.0) == without
    assert " data" in translate(without, " data", margin=4.0, bonus=5.0)
    assert " file| manager" not in translate(without, " file| manager", margin=4.0, bonus=5.0)
    assert " file| manager" in translate(without, " file| manager", margin=4.0, bonus=6.0)
    # A wanted term earns the same, a covered one nothing more.
    assert " data" in translate(without, wanted=(" data",), margin=4.0, bonus=5.0)
    assert translate(without, " data", margin=4.0, bonus=5.0).count(" data") == 1
    assert translate(without, " data", " data", margin=4.0, bonus=5.0).count(" data") == 2


def test_strict_search_does_not_insist_on_wanted_terms() -> None:
    found = translate(" open| the| now", " data", wanted=(" manager",), strict=True)
    assert " data" in found
    assert " manager" not in found


@pytest.mark.parametrize("beam", [1, 2, 5])
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, forms=st.lists(st.lists(st.integers(1, 199), min_size=1, max_size=3).map(tuple), max_size=4))
def test_strict_search_finds_terms_that_are_not_among_the_most_probable_tokens(
    beam: int, seed: int, forms: list[Form]
) -> None:
    scorer, chosen = Scripted(200, eos_bonus=4.0), BeamSettings(beam, max_new_tokens=30)
    one = SentenceConstraints(tuple((form,) for form in forms))
    constraints = Constraints([one], boundaries(200), strict=True)
    [found] = search(scorer, [[seed]], chosen, constraints=constraints)
    for hypothesis in found:
        assert read(body(hypothesis.tokens), one, constraints).complete
        expected = [float(scorer.log_probs(seed, hypothesis.tokens[:n])[t]) for n, t in enumerate(hypothesis.tokens)]
        assert list(hypothesis.log_probs) == expected
        assert hypothesis.score == pytest.approx(sum(expected) / len(expected), abs=1e-5)


class Unaware(Scripted):
    """A scorer written before there were constraints."""

    def score(self, state: Prefixes, count: int, score_gap: torch.Tensor | None = None) -> NextTokens:  # type: ignore[override]
        return super().score(state, count)


def test_without_constraints_nothing_else_is_asked_for() -> None:
    sources, chosen = [[seed] for seed in range(5)], BeamSettings(3, max_new_tokens=9)
    expected = search(Scripted(9), sources, chosen)
    assert search(Unaware(9), sources, chosen) == expected  # type: ignore[arg-type]
    free = Constraints([None] * 5, boundaries(9), 2.0, strict=True)
    assert decode_all(Unaware(9), sources, chosen, constraints=free) == expected  # type: ignore[arg-type]


class Watching(Scripted):
    """Notes the number of rows of each step."""

    rows: list[int]

    def score(
        self,
        state: Prefixes,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        self.rows.append(len(state.tokens))
        return super().score(state, count, score_gap, also)


@pytest.mark.parametrize(("strict", "width"), [(False, 3), (True, 6)])
def test_only_strict_search_has_a_wider_beam(strict: bool, width: int) -> None:
    scorer = Watching(40)
    object.__setattr__(scorer, "rows", [])
    constraints = Constraints([SentenceConstraints((((3, 4),), ((5,),)))] * 2, boundaries(40), 1.0, strict=strict)
    search(scorer, [[1], [2]], BeamSettings(3, max_new_tokens=8), constraints=constraints)
    assert scorer.rows[:2] == [2, 2 * width]
    assert max(scorer.rows) == 2 * width


def test_strict_search_does_not_wait_for_incomplete_hypotheses_until_the_maximum_length() -> None:
    """A token that is not the term stays the most probable one forever."""

    class Rambling(Watching):
        def log_probs(self, seed: int, prefix: Form) -> torch.Tensor:  # type: ignore[override]
            logits = torch.zeros(self.vocabulary_size)
            logits[EOS if 2 in prefix else 1] = 8.0
            return logits.log_softmax(-1)

    scorer = Rambling(9, max_new_tokens=300)
    object.__setattr__(scorer, "rows", [])
    constraints = Constraints([SentenceConstraints((((2,),),))], boundaries(9), strict=True)
    [found] = search(scorer, [[1]], BeamSettings(2, 0.0, max_new_tokens=300), constraints=constraints)
    assert all(2 in hypothesis.tokens for hypothesis in found)
    assert len(scorer.rows) < 30


def test_an_unreachable_term_leaves_the_best_incomplete_hypothesis() -> None:
    constraints = Constraints([SentenceConstraints((((1, 2, 3),),))], boundaries(5), strict=True)
    [found] = search(Scripted(5), [[3]], BeamSettings(WIDE, max_new_tokens=2), constraints=constraints)
    best = max(all_translations(Scripted(5), 3, 2), key=lambda pair: pair[1] / len(pair[0]))
    assert [hypothesis.tokens for hypothesis in found] == [best[0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SentenceConstraints(((),)), "without forms"),
        (lambda: SentenceConstraints((), ((),)), "without tokens"),
        (lambda: SentenceConstraints((((3,), ()),)), "without tokens"),
        (lambda: Constraints([], boundaries(5), -0.1), "bonus must be"),
        (lambda: Constraints([], boundaries(5), math.nan), "bonus must be"),
        (lambda: Constraints([], boundaries(5)).check(1), "0 for 1 sentences"),
        (lambda: Constraints([SentenceConstraints((), ((5,),))], boundaries(5)).check(1), "allowed is 0 to 4"),
    ],
)
def test_impossible_constraints_are_an_error(make: object, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make()  # type: ignore[operator]


def test_constraints_that_leave_no_translation_are_an_error() -> None:
    never_ends = Scripted(3, banned_ids=(EOS,))
    constraints = Constraints([SentenceConstraints((), ((1,), (2,)))], boundaries(3))
    with pytest.raises(ModelError, match="no token is allowed"):
        search(never_ends, [[1]], BeamSettings(2), constraints=constraints)
