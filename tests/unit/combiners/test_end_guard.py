"""The end guard: which votes for the end count, worked out by hand."""

from __future__ import annotations

import pytest
import torch

from lacuna.combiners import EndGuard, Neighbors

END, STOP, WORD = 0, 1, 2


def neighbors(values: list[int], distances: list[float]) -> Neighbors:
    """Return the neighbors of one query of squared length 100."""
    return Neighbors(torch.tensor([distances]), torch.tensor([values]), None, torch.tensor([[6.0, 8.0]]))


def log_probs(end: float, stop: float) -> torch.Tensor:
    return torch.tensor([[end, stop, 1 - end - stop]]).log()


def guarded(found: Neighbors, model: torch.Tensor, guard: EndGuard) -> list[float]:
    mass = torch.tensor([[0.4, 0.2, 0.1]])
    return [round(number, 6) for number in guard.apply(mass, found, lambda rows: model[rows, END])[0].tolist()]


@pytest.mark.parametrize(
    ("p_end", "p_stop", "expected"),
    [
        (0.001, 0.0, [0.0, 0.2, 0.0]),  # the model sees more to say
        (0.05, 0.0, [0.4, 0.2, 0.1]),  # the end is possible
        (0.001, 0.9, [0.0, 0.2, 0.0]),  # a full stop is no end
    ],
)
def test_a_vote_for_the_end_counts_where_the_model_sees_one(p_end: float, p_stop: float, expected: list[float]) -> None:
    found = neighbors([END, WORD, END], [5.0, 6.0, 7.0])
    assert guarded(found, log_probs(p_end, p_stop), EndGuard(END, 0.03)) == expected


def test_the_same_context_always_counts() -> None:
    found = neighbors([END, WORD, END], [0.001, 6.0, 7.0])
    assert guarded(found, log_probs(0.001, 0.0), EndGuard(END, 0.03)) == [0.4, 0.2, 0.1]


def test_other_votes_and_missing_neighbors_do_not_change() -> None:
    found = neighbors([WORD, STOP, -1], [5.0, 6.0, torch.inf])
    assert guarded(found, log_probs(0.001, 0.0), EndGuard(END, 0.03)) == [0.4, 0.2, 0.1]


def test_rows_are_independent() -> None:
    found = Neighbors(torch.full((3, 1), 5.0), torch.tensor([[END], [WORD], [END]]), None, torch.full((3, 2), 7.0))
    model = torch.cat([log_probs(0.5, 0.0), log_probs(0.001, 0.0), log_probs(0.001, 0.0)])
    mass = EndGuard(END, 0.03).apply(torch.full((3, 1), 0.6), found, lambda rows: model[rows, END])
    assert mass[:, 0].tolist() == pytest.approx([0.6, 0.6, 0.0])
