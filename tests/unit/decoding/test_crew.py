"""Workers side by side: everything is done once, nothing is left changed."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna.decoding import BeamSettings, Crew, decode_all, muster
from lacuna.decoding.batches import deal
from unit.decoding.scripted import Scripted


@given(lengths=st.lists(st.integers(1, 200), max_size=100), workers=st.integers(1, 8))
def test_all_workers_have_equally_much_to_do(lengths: list[int], workers: int) -> None:
    shares = deal(lengths, workers)
    assert sorted(number for share in shares for number in share) == list(range(len(lengths)))
    assert len(shares) == min(workers, len(lengths))
    amounts = [sum(lengths[number] for number in share) for share in shares]
    assert max(amounts, default=0) - min(amounts, default=0) <= max(lengths, default=0)


def test_no_share_is_so_large_that_its_books_fill_the_memory() -> None:
    shares = deal([3] * 5000, 2)
    assert {len(share) for share in shares[:-2]} == {1024}
    assert sum(map(len, shares)) == 5000


def test_everything_is_done_once_by_several_threads() -> None:
    both, prepared = threading.Barrier(2), list[tuple[str, int, int]]()

    def prepare(threads: int) -> None:
        prepared.append((threading.current_thread().name, threads, torch.get_num_threads()))

    def work(item: int) -> int:
        if item < 2:
            both.wait(20)  # nobody comes past it alone
        return item * item

    before = torch.get_num_threads()
    found = dict(Crew(2, 1, prepare).each(work, range(9)))
    assert found == {item: item * item for item in range(9)}
    assert len({name for name, _, _ in prepared}) == 2
    assert {(given, seen) for _, given, seen in prepared} == {(1, 1)}
    assert torch.get_num_threads() == before


def test_one_worker_is_the_calling_thread() -> None:
    names = [result for _, result in Crew().each(lambda item: threading.current_thread().name, [1, 2, 3])]
    assert names == [threading.current_thread().name] * 3


def test_what_goes_wrong_in_a_worker_is_seen() -> None:
    before = torch.get_num_threads()

    def work(item: int) -> int:
        if item == 3:
            raise ValueError("the third")
        return item

    with pytest.raises(ValueError, match="the third"):
        list(Crew(2).each(work, range(20)))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("threads", "sentences", "batch_size", "workers", "each"),
    [
        (2, 100, 32, 2, 1),
        (2, 15, 32, 1, 2),
        (2, 16, 32, 2, 1),
        (2, 100, 8, 1, 2),
        (16, 999, 32, 4, 4),
        (1, 99, 32, 1, 1),
    ],
)
def test_no_more_workers_than_have_enough_to_do(
    threads: int, sentences: int, batch_size: int, workers: int, each: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        crew = muster(sentences, batch_size)
    finally:
        torch.set_num_threads(before)
    assert (crew.workers, crew.threads) == (workers, each)


def test_decoding_with_a_crew_keeps_the_order() -> None:
    sources = [[seed] * (1 + seed % 7) for seed in range(40)]
    scorer, chosen = Scripted(20), BeamSettings(3, max_new_tokens=10)
    alone, together = (decode_all(scorer, sources, chosen, batch_size=8, crew=crew) for crew in (None, Crew(3)))
    assert [each[0].tokens for each in together] == [each[0].tokens for each in alone]
