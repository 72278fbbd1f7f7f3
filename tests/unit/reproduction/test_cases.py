"""Example sentences: each has the properties it shows, checked independently with model and store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.combiners import Vanilla
from lacuna.datastore import Store, build_store
from lacuna.errors import SettingError, StoreError
from lacuna.index import build_index
from lacuna.margin import read_margins
from lacuna.margin.storage import write_margins
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair, Step
from lacuna.reproduction.cases import before_and_token, corpus_cases, neighbor_case, underline
from plain_systems import open_plain

RESTS = {
    "schläft im Haus": "is sleeping in the house",
    "liest ein Buch": "reads a book",
    "ist nicht da": "is away",
    "trinkt Wasser": "drinks water",
    "hat Hunger": "is hungry",
    "wohnt in der Stadt": "lives in the town",
}
TEXT = "The woman's house, no. 42, is unbelievably old."
K = 4


def pair(subject: str, translated: str, rest: str, end: str) -> SentencePair:
    return SentencePair(f"{subject} {rest}.", f"{translated} {end}.", Origin("made up", rest))


# The model cannot know this animal by that name.
STRANGE = [pair("Der Hund", "The wumpus", rest, end) for rest, end in RESTS.items()]
UNSEEN = [
    pair("Die Frau", "The woman", "ist alt", "is old"),
    pair("Der Hund", "The wumpus", "ist heute sehr müde", "is very tired today"),
]


@pytest.fixture(scope="module")
def strange(bundled: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    store = build_store(bundled, STRANGE, tmp_path_factory.mktemp("strange") / "store")
    build_index(store)
    return open_memory(store.path)


def spelled(model: Model, ids: list[int], chosen: list[bool]) -> str:
    """Underline by the tokens' own spelling, in which a bar stands before each word."""
    text, inside, space = "", False, ""
    for token, marked in zip(ids, chosen, strict=True):
        word = "" if token == model.eos_id else space + model.token_text(token).replace("▁", " ")
        space = word if word.isspace() else ""
        if not word.strip():
            continue
        if marked != inside:
            text += word[: len(word) - len(word.lstrip())] + "⟦" + word.lstrip() if marked else "⟧" + word
        else:
            text += word
        inside = marked
    return (text + "⟧" * inside).strip()


@settings(max_examples=40)
@given(chosen=st.lists(st.booleans(), min_size=40, max_size=40))
def test_underlining_against_the_spelling_of_tokens(bundled: Model, chosen: list[bool]) -> None:
    [ids] = bundled.encode_targets([TEXT])
    written = underline(bundled, ids, chosen[: len(ids)])
    assert written.replace("⟦", "").replace("⟧", "") == TEXT
    assert written == spelled(bundled, ids, chosen[: len(ids)])


def test_marks_in_the_text_itself_do_not_underline() -> None:
    class Echo:
        eos_id = 0

        def decode(self, ids: list[int]) -> str:
            return "".join(map(chr, ids))

    written = underline(Echo(), [ord("⟦"), ord("a"), ord("⟧")], [False, True, False])  # type: ignore[arg-type]
    assert written == "[[⟦a⟧]]"


def test_where_a_token_goes_on_with_a_word(bundled: Model) -> None:
    [ids] = bundled.encode_targets(["The wumpus is old."])
    parts = [before_and_token(bundled, ids[:place], token) for place, token in enumerate(ids)]
    assert parts[0][0] == ""
    assert parts[-1] == ("The wumpus is old.", "(end of sentence)")
    inside = [part for part in parts if part[1].startswith("-")]
    assert inside  # the model has no such word
    for before, token in inside:
        assert before.endswith("-")
        assert "The wumpus is old.".startswith(before[:-1] + token[1:])
    assert ("The wumpus is", "old") in parts or ("The wumpus is o-", "-ld") in parts


def found_by_hand(model: Model, memory: Memory) -> list[tuple[str, Step]]:
    """Explain the dev set, and keep the steps that a case may show."""
    translator = open_plain(model, [memory], Vanilla(k=K))
    explained = translator.explain([one.source for one in UNSEEN], [one.target for one in UNSEEN])
    return [
        (one.source, step)
        for one, steps in zip(UNSEEN, explained, strict=True)
        for step in steps[:-1]
        if step.model_token != step.token
        and {near.token for near in step.neighbors} == {step.token}
        and not step.neighbors[0].known
        and any(letter.isalpha() for letter in step.token)
    ]


def test_neighbor_case(bundled: Model, strange: Memory) -> None:
    table = neighbor_case(bundled, strange, UNSEEN, K)
    assert table is not None
    allowed = found_by_hand(bundled, strange)
    assert allowed
    store = strange.store
    distances = [row[5] for row in table.rows]
    [(source, step)] = [
        (source, step)
        for source, step in allowed
        if [near.distance for near in step.neighbors] == pytest.approx(distances, rel=1e-3)
    ]
    assert f"“{source}”" in table.note
    unknown = [sum(not near.known for near in step.neighbors) for _, step in allowed]
    assert [row[1] for row in table.rows].count("unknown") == max(unknown)
    for row, near in zip(table.rows, step.neighbors, strict=True):
        assert row[:3] == (
            step.neighbors.index(near) + 1,
            "known" if near.known else "unknown",
            store.sentences[near.sentence].source,
        )
        so_far, value = str(row[3]).removesuffix("-"), str(row[4]).removeprefix("-")
        assert step.token.endswith(value)
        target = store.sentences[near.sentence].target
        assert target.startswith(so_far)
        assert target[len(so_far) :].lstrip().startswith(value)
    assert neighbor_case(bundled, strange, UNSEEN, K) == table


def test_no_case_is_no_table(bundled: Model, strange: Memory) -> None:
    assert neighbor_case(bundled, strange, UNSEEN, strange.store.entries + 1) is None
    assert neighbor_case(bundled, strange, UNSEEN[:1], K) is None


@pytest.fixture
def measured(bundled: Model, pairs: list[SentencePair], tmp_path: Path) -> Store:
    """Return a store in which two of five entries have small margins; some sentences come twice."""
    store = build_store(bundled, [*pairs, *pairs[:6]], tmp_path / "store")
    values = np.where(np.arange(store.entries) % 5 < 2, 1, 20).astype(np.uint16)
    write_margins(store, values, max_margin=20)
    return store


@pytest.mark.parametrize("count", [1, 3, 50])
def test_corpus_cases(bundled: Model, measured: Store, count: int) -> None:
    margins = read_margins(measured)
    fitting = {}
    for sentence in range(len(measured.sentences)):
        rows = [row for row in range(measured.entries) if measured.sentence[row] == sentence]
        ids, small = measured.values[rows].tolist(), [bool(margins.values[row] < 4) for row in rows]
        share = sum(small[:-1]) / (len(ids) - 1)  # the last is the end of the sentence
        if 6 <= len(ids) - 1 <= 30 and 0.2 <= share <= 0.7:
            fitting[sentence] = (
                measured.sentences[sentence].source,
                spelled(bundled, ids, small),
                pytest.approx(share),
            )
    table = corpus_cases(bundled, measured, margins, count)
    assert fitting
    for row in table.rows:
        assert row in fitting.values()
    plain = {row[1].replace("⟦", "").replace("⟧", "") for row in table.rows if isinstance(row[1], str)}
    different = {measured.sentences[sentence].target for sentence in fitting}
    assert len(plain) == len(table.rows) == min(count, len(different))
    assert corpus_cases(bundled, measured, margins, count) == table


def test_corpus_cases_that_cannot_be(bundled: Model, measured: Store) -> None:
    margins = read_margins(measured)
    with pytest.raises(SettingError, match="count: got 0"):
        corpus_cases(bundled, measured, margins, 0)
    with pytest.raises(StoreError, match="measured up to 20, but 21 is needed"):
        corpus_cases(bundled, measured, margins, below=21)
    assert corpus_cases(bundled, measured, margins, below=1).rows == ()  # no margin is 0


def test_a_margin_that_the_index_got_wrong_is_no_case(
    bundled: Model, strange: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lacuna.reproduction.cases.margin_of", lambda store, queries, max_margin: np.ones(len(queries)))
    assert neighbor_case(bundled, strange, UNSEEN, K) is None
