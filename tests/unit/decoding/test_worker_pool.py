"""Workers side by side: everything is done once, nothing is left changed."""

from __future__ import annotations

import signal
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna.decoding import BatchCapacity, BeamSettings, decode_all, decode_blocks, pool_for, search
from lacuna.decoding.worker_pool import partition
from lacuna.workers import WorkerPool
from unit.decoding.scripted import Scripted


@given(
    lengths=st.lists(st.integers(1, 200), max_size=100),
    workers=st.integers(1, 8),
    blocks=st.lists(st.integers(1, 50), max_size=5),
)
def test_parts_hold_every_sentence_once_and_block_by_block(lengths: list[int], workers: int, blocks: list[int]) -> None:
    sizes = [*blocks, len(lengths)]
    parts = partition(lengths, sizes, workers)
    assert sorted(number for part in parts for block in part for number in block) == list(range(len(lengths)))
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    for part in parts:
        for block in part:
            assert len({sum(number >= end for end in ends) for number in block}) == 1
            assert [lengths[number] for number in block] == sorted((lengths[n] for n in block), reverse=True)
        firsts = [block[0] for block in part]
        assert [sum(number >= end for end in ends) for number in firsts] == sorted(
            sum(number >= end for end in ends) for number in firsts
        )


@given(lengths=st.lists(st.integers(1, 200), max_size=100), workers=st.integers(1, 8))
def test_all_workers_have_equally_much_to_do(lengths: list[int], workers: int) -> None:
    shares = [block for part in partition(lengths, [len(lengths)], workers) for block in part]
    assert len(shares) == min(workers, len(lengths))
    amounts = [sum(lengths[number] for number in share) for share in shares]
    assert max(amounts, default=0) - min(amounts, default=0) <= max(lengths, default=0)


def test_no_part_is_so_large_that_its_backpointers_fill_the_memory() -> None:
    sizes = [sum(map(len, part)) for part in partition([3] * 5000, [5000], 2)]
    assert set(sizes[:-2]) == {1024}
    assert sum(sizes) == 5000
    assert [sum(map(len, part)) for part in partition([3] * 3000, [1000, 2000], 2)] == [500, 500, 1000, 1000]


@pytest.mark.parametrize(
    ("threads", "sentences", "batch_size", "workers", "each"),
    [
        (2, 100, 32, 2, 1),
        (2, 15, 32, 1, 2),
        (2, 16, 32, 2, 1),
        (2, 100, 8, 2, 1),
        (2, 1, 1, 1, 2),
        (2, 2, 1, 2, 1),
        (16, 999, 32, 16, 1),
        (1, 99, 32, 1, 1),
    ],
)
def test_no_more_workers_than_have_enough_to_do(
    threads: int, sentences: int, batch_size: int, workers: int, each: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        pool = pool_for(sentences, batch_size)
        one_each = pool_for(sentences, batch_size, min_sentences=1)
    finally:
        torch.set_num_threads(before)
    assert (pool.workers, pool.threads) == (workers, each)
    assert one_each.workers == max(1, min(threads, sentences))


def test_decoding_with_a_pool_keeps_the_order() -> None:
    sources = [[seed] * (1 + seed % 7) for seed in range(40)]
    scorer, chosen = Scripted(20), BeamSettings(3, max_new_tokens=10)
    alone, together = (decode_all(scorer, sources, chosen, batch_size=8, pool=pool) for pool in (None, WorkerPool(3)))
    assert [each[0].tokens for each in together] == [each[0].tokens for each in alone]


@pytest.mark.parametrize("pool", [None, WorkerPool(3)])
def test_decoding_block_by_block_finds_what_single_sentences_find(pool: WorkerPool | None) -> None:
    sources = [[seed] * (1 + seed % 7) for seed in range(60)]
    scorer, chosen = Scripted(20, eos_bonus=1.0), BeamSettings(3, max_new_tokens=10)
    groups = list(decode_blocks(scorer, sources, chosen, [5, 12, 100], BatchCapacity(8), pool=pool))
    alone = [search(scorer, [source], chosen)[0] for source in sources]
    assert [hypotheses for group in groups for hypotheses in group] == alone


@pytest.mark.parametrize("pool", [None, WorkerPool(2)])
def test_the_first_results_come_while_the_search_is_running(pool: WorkerPool | None) -> None:
    arrived, ended = threading.Event(), list[int]()

    def wait_for_the_first_result(count: int) -> None:
        ended.append(count)
        assert sum(ended) < 200 or arrived.wait(60), "200 of 400 sentences have ended, and no result has come"

    scorer, sources = Scripted(20, eos_bonus=1.0), [[seed] for seed in range(400)]
    settings, capacity = BeamSettings(2, max_new_tokens=10), BatchCapacity(8)
    found = decode_blocks(
        scorer, sources, settings, [8, 392], capacity, pool=pool, on_finished=wait_for_the_first_result
    )
    first = next(found)
    arrived.set()
    assert len(first) + sum(map(len, found)) == 400


def test_a_search_ends_soon_after_its_consumer_is_gone() -> None:
    ended: list[int] = []
    scorer, sources = Scripted(20, eos_bonus=1.0), [[seed] for seed in range(8000)]
    settings, capacity = BeamSettings(2, max_new_tokens=10), BatchCapacity(8)
    found = decode_blocks(scorer, sources, settings, [8, 7992], capacity, pool=WorkerPool(2), on_finished=ended.append)
    next(found)
    found.close()
    assert sum(ended) < 4000
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lacuna-worker")]


def test_a_search_ends_soon_after_an_interruption() -> None:
    """The interruption reaches the calling thread while it waits for results."""
    ended: list[int] = []

    def interrupt(count: int) -> None:
        ended.append(count)
        if sum(ended) >= 100 > sum(ended[:-1]):
            signal.raise_signal(signal.SIGINT)

    scorer, sources = Scripted(20, eos_bonus=1.0), [[seed] for seed in range(8000)]
    settings, capacity = BeamSettings(2, max_new_tokens=10), BatchCapacity(8)
    with pytest.raises(KeyboardInterrupt):
        list(decode_blocks(scorer, sources, settings, [8000], capacity, pool=WorkerPool(2), on_finished=interrupt))
    assert sum(ended) < 1000  # each worker has 1,024 at a time
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lacuna-worker")]
