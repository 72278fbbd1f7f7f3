"""Accuracy on changed words, against hand-worked counts and its laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import EvaluationError
from lacuna.evaluation import term_accuracy

REFERENCES = ["the folder was deleted , the file was not", "save the file"]
PLAIN = ["the directory was deleted , the folder was not", "save the file"]
ADAPTED = ["the folder was removed , the file was not", "save file"]


def test_hand_worked() -> None:
    # Only plain has "deleted" and the "the" of the second sentence; only adapted has "file". Both have one "folder".
    found = term_accuracy(REFERENCES, PLAIN, ADAPTED, {"plain": PLAIN, "adapted": ADAPTED, "gold": REFERENCES})
    assert found.terms == 3
    assert found.accuracy == {"plain": pytest.approx(2 / 3), "adapted": pytest.approx(1 / 3), "gold": 1.0}
    assert term_accuracy(REFERENCES, PLAIN, ADAPTED, {"none": ["", ""]}).accuracy == {"none": 0.0}


def test_punctuation_does_not_count() -> None:
    found = term_accuracy(["go , now !"], ["go now"], ["go , now !"], {"plain": ["go now"]})
    assert (found.terms, found.accuracy) == (0, {})


sentences = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6).map(" ".join), min_size=3, max_size=3)


@given(sentences, sentences, sentences, sentences)
def test_laws(references: list[str], plain: list[str], adapted: list[str], other: list[str]) -> None:
    systems = {"plain": plain, "adapted": adapted, "other": other, "gold": references}
    if not any(references):
        return
    found = term_accuracy(references, plain, adapted, systems)
    if not found.terms:
        assert found.accuracy == {}
        return
    assert found.accuracy["plain"] + found.accuracy["adapted"] == pytest.approx(1)
    assert found.accuracy["gold"] == 1
    assert 0 <= found.accuracy["other"] <= 1
    swapped = term_accuracy(references, adapted, plain, systems)
    assert swapped == found


def test_missing_translations_are_an_error() -> None:
    with pytest.raises(EvaluationError, match="each of the 2 references"):
        term_accuracy(REFERENCES, PLAIN, ADAPTED, {"short": PLAIN[:1]})
