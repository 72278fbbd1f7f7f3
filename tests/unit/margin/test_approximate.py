"""The comparison with near lists, against a loop over all pairs of codes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lacuna.margin import codes
from lacuna.margin.approximate import InvertedLists, ListProbe, ProbeResult
from lacuna.margin.screening import Screening
from unit.margin.stores import InMemory, clustered, in_memory


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.margin.approximate.BLOCK", 256)


def prepared(
    keys: NDArray[np.float16], known: NDArray[np.bool_], count: int
) -> tuple[InMemory, Screening, InvertedLists]:
    entries = in_memory((keys, known))
    screening = Screening(entries.keys, entries.mean, len(keys), seed=0)
    return entries, screening, InvertedLists.train(screening.projections, count, seed=1)


def probed(
    keys: NDArray[np.float16], known: NDArray[np.bool_], count: int, nprobe: int, cap: int | None = None
) -> ProbeResult:
    entries, screening, lists = prepared(keys, known, count)
    probe, result = ListProbe(entries, lists, screening, nprobe, cap), ProbeResult.empty(len(keys))
    for number in range(len(probe.sizes)):
        result.add(*probe.run(number))
    return result


def naive(keys: NDArray[np.float16], known: NDArray[np.bool_], count: int, nprobe: int) -> list[int]:
    entries, screening, lists = prepared(keys, known, count)
    width = screening.coders[-1].width
    coded = screening.codes(len(screening.coders) - 1).right[:, :width].numpy().astype(np.int64)
    projected = (entries.keys.gather(np.arange(len(keys))) - entries.mean).astype(np.float64) @ screening.rotation[
        :, :64
    ].float().numpy()
    margins = []
    for row, code in enumerate(coded):
        far = ((lists.centroids - projected[row]) ** 2).sum(axis=1)
        near = np.isin(lists.list_of, np.argsort(far)[:nprobe])
        near[row] = False
        score = coded @ code - (coded**2).sum(axis=1) // 2
        margins.append(int(np.count_nonzero(score[near & known] > score[near & ~known].max())))
    return margins


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("nprobe", [6, 30, 50])
def test_margins_by_codes_in_near_lists(monkeypatch: pytest.MonkeyPatch, nprobe: int, fast: bool) -> None:
    monkeypatch.setattr(codes, "has_fast_int8", lambda: fast)
    keys, known = clustered(900, 16, 0.6, seed=2)
    assert probed(keys, known, 30, nprobe).known.tolist() == naive(keys, known, 30, nprobe)


@pytest.mark.parametrize("cap", [1, 5, 40])
def test_enough_known_entries_are_within_the_cap_distance(monkeypatch: pytest.MonkeyPatch, cap: int) -> None:
    monkeypatch.setattr("lacuna.margin.approximate.MAX_SCORES_AT_ONCE", 2000)
    keys, known = clustered(700, 16, 0.9, seed=3)
    found = probed(keys, known, 20, 5, cap)
    full = np.flatnonzero(found.known >= cap)
    assert np.isfinite(found.cap_distance).nonzero()[0].tolist() == full.tolist()
    assert len(full) > 50
    wide = keys.astype(np.float64)
    for row in full.tolist():
        distances = ((wide - wide[row]) ** 2).sum(axis=1)
        distances[row] = np.inf
        nearest = np.sort(distances[known])
        assert nearest[cap - 1] <= found.cap_distance[row] <= nearest[min(len(nearest) - 1, 3 * cap + 20)]


@pytest.mark.parametrize("unknown", [1, 2, 3])
def test_every_entry_finds_an_unknown_neighbor_if_there_is_one(unknown: int) -> None:
    keys, _ = clustered(500, 8, 0.9, seed=4)
    known = np.ones(500, np.bool_)
    known[np.array([7, 250, 400])[:unknown]] = False
    found = probed(keys, known, 20, 1)
    entries = np.arange(500)
    alone = found.unknown < 0
    assert entries[alone].tolist() == ([7] if unknown == 1 else [])
    assert not known[found.unknown[~alone]].any()
    assert (found.unknown != entries).all()
    assert found.known[alone].tolist() == [499] * int(alone.sum())


def test_lists_of_near_keys() -> None:
    keys, known = clustered(900, 16, 0.6, seed=2)
    entries, screening, lists = prepared(keys, known, 30)
    projected = (entries.keys.gather(np.arange(900)) - entries.mean) @ screening.rotation[:, :64].float().numpy()
    distances = ((projected[:, None] - lists.centroids) ** 2).sum(axis=2)
    assert lists.list_of.tolist() == distances.argmin(axis=1).tolist()
    assert len(np.unique(lists.list_of)) > 25
