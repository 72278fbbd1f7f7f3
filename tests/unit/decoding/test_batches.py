"""Batches of similar length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.decoding import BeamSettings, decode_all, plan_batches, search
from lacuna.errors import SettingError
from unit.decoding.scripted import Scripted


@given(lengths=st.lists(st.integers(0, 50)), size=st.integers(1, 5), budget=st.none() | st.integers(1, 100))
def test_batches_hold_every_sentence_once_within_their_bounds(
    lengths: list[int], size: int, budget: int | None
) -> None:
    batches = plan_batches(lengths, batch_size=size, max_tokens=budget)
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    order = [lengths[number] for batch in batches for number in batch]
    assert order == sorted(lengths, reverse=True)
    for batch in batches:
        assert 1 <= len(batch) <= size
        assert budget is None or len(batch) == 1 or len(batch) * lengths[batch[0]] <= budget


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"max_tokens": 0}])
def test_batches_of_nothing_are_an_error(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingError, match="1 or more"):
        plan_batches([3], **wrong)  # type: ignore[arg-type]


class Told:
    def __init__(self) -> None:
        self.events: list[object] = []

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        self.events.append(total)

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        self.events.append(amount)

    def finish(self, note: str = "") -> None:
        self.events.append("finished")


def test_decoding_all_keeps_the_order_and_tells_how_far_it_is() -> None:
    sources = [[seed] * length for seed, length in enumerate((3, 1, 4, 1, 5, 9, 2))]
    scorer, chosen, told = Scripted(20), BeamSettings(3, max_new_tokens=15), Told()
    found = decode_all(scorer, sources, chosen, batch_size=3, progress=told)
    assert [[h.tokens for h in each] for each in found] == [
        [h.tokens for h in search(scorer, [source], chosen)[0]] for source in sources
    ]
    first, *counts, last = told.events
    assert (first, sum(counts), last) == (7, 7, "finished")  # type: ignore[arg-type]
    assert decode_all(scorer, [], chosen) == []
