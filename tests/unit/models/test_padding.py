import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna.models.padding import bucket_by_length, pad, run_bucketed

CPU = torch.device("cpu")


@given(st.lists(st.integers(1, 300), max_size=80))
def test_groups_hold_everything_once_and_fill_up_little(lengths: list[int]) -> None:
    groups = bucket_by_length(lengths)
    assert sorted(number for group in groups for number in group) == list(range(len(lengths)))
    for group in groups:
        longest = lengths[group[0]]
        assert longest == max(lengths[number] for number in group)
        assert sum(longest - lengths[number] for number in group) <= 32


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=120), min_size=1, max_size=12))
def test_running_alike_gives_what_running_each_alone_gives(sequences: list[list[int]]) -> None:
    calls = []

    def run(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        calls.append(ids.numel())
        means = (ids * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)  # what one position sees of the others
        return torch.stack([ids * 2.0, ids + means], dim=-1)

    ids, mask = pad(sequences, 0, CPU)
    found = run_bucketed(run, ids, mask)
    assert found.shape == (*ids.shape, 2)
    assert sum(calls) <= sum(map(len, sequences)) + 32 * len(calls)
    for row, sequence in zip(found, sequences, strict=True):
        alone = run(torch.tensor([sequence]), torch.ones(1, len(sequence), dtype=torch.long))[0]
        torch.testing.assert_close(row[: len(sequence)], alone)


def test_filled_up_on_the_right() -> None:
    ids, mask = pad([[4, 5], [6]], 9, CPU)
    assert ids.tolist() == [[4, 5], [6, 9]]
    assert mask.tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("lengths", [[], [7], [7, 7, 7]])
def test_nothing_to_gain_is_one_call_or_none(lengths: list[int]) -> None:
    assert len(bucket_by_length(lengths)) == min(1, len(lengths))
