"""Translations that look cut or run on: what is flagged, and how often the model is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lacuna.datastore import build_store
from lacuna.decoding import Hypothesis
from lacuna.index import build_index
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair
from lacuna.translator import System
from lacuna.translator.length_check import CUT, RUN_ON, LengthCheck

LONG = "Der Hund schläft im Haus, und die Frau liest ein Buch, das ein Mann vor dem Fenster vergessen hat."


@pytest.fixture(scope="module")
def memory(bundled: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    pairs = [
        SentencePair(LONG, "The dog.", Origin("made up", "1")),
        SentencePair("Das Kind ist da.", "The child is here.", Origin("made up", "2")),
    ]
    store = build_store(bundled, pairs, tmp_path_factory.mktemp("memory") / "store", cleaning=None)
    build_index(store)
    return open_memory(store.path)


def hypothesis(length: int) -> Hypothesis:
    return Hypothesis(tuple(range(5, 5 + length)), 0.0, (), (0.0,) * length)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [(40, 40, ""), (40, 16, ""), (40, 15, CUT), (40, 100, ""), (40, 101, RUN_ON), (9, 1, ""), (40, 0, "")],
)
def test_lengths_against_the_source(bundled: Model, source: int, target: int, expected: str) -> None:
    def never(sources: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        raise AssertionError("without a memory there is nothing to compare with")

    assert LengthCheck(bundled, (), never).flags([range(source)], [hypothesis(target)]) == [expected]


@pytest.mark.parametrize(("alone", "expected"), [(39, CUT), (30, "")])
def test_a_short_translation_is_compared_with_the_model_alone(
    bundled: Model, memory: Memory, alone: int, expected: str
) -> None:
    asked: list[int] = []

    def translate_alone(sources: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        asked.extend(len(source) for source in sources)
        return [range(alone)] * len(sources)

    check = LengthCheck(bundled, [memory], translate_alone)
    sources = [list(range(5, 45)), list(range(5, 46)), list(range(5, 13))]
    flags = check.flags(sources, [hypothesis(23), hypothesis(30), hypothesis(2)])
    assert flags == [expected, "", ""]
    assert asked == [40]  # the second is long enough, the third too short to tell


def test_a_sentence_that_the_memory_has_is_as_short_as_it_wants(bundled: Model, memory: Memory) -> None:
    [found] = System(bundled, [memory]).open().translate([LONG])
    assert (found.text, found.flag) == ("The dog.", "")


def test_what_looks_cut_is_flagged(bundled: Model, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.translator.length_check._VERY_SHORT", 2.0)
    [found] = System(bundled).open().translate([LONG])
    assert found.flag == CUT
