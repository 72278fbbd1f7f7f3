"""Building: order, windows, skipped pairs, resuming. With a model that needs no torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lacuna.datastore import build_store, open_store, verify_store
from lacuna.datastore.manifest import UNFINISHED
from lacuna.datastore.windows import TokenizedPair, make_batches
from lacuna.errors import CorpusError, LacunaWarning, SettingError, StoreError
from lacuna.records import SentencePair
from made_up import make_pairs
from unit.datastore.disk import contents
from unit.datastore.numpy_model import EOS, NumpyModel, Rows, pairs_of

SIZES: dict[str, Any] = {"cleaning": None, "batch_tokens": 64, "shard_rows": 300}


def test_worked_example(tmp_path: Path) -> None:
    store = build_store(NumpyModel(), pairs_of(("a b", "c"), ("d", "e f")), tmp_path / "store")
    # "c" is byte 99: 2 + 99 % 48 = 5; "e" 101: 7; "f" 102: 8. A sentence of its own batch has 2 companions.
    assert store.values.tolist() == [5, EOS, 7, 8, EOS]
    assert store.sentence.tolist() == [0, 0, 1, 1, 1]
    assert store.position.tolist() == [0, 1, 0, 1, 2]
    assert store.predictions.tolist() == [6, 2, 8, 9, 2]
    assert store.known.tolist() == [False] * 5
    keys = [[3, 0, 5, 2], [3, 1, 1, 2], [2, 0, 7, 2], [2, 1, 8, 2], [2, 2, 1, 2]]
    assert store.keys.gather(np.arange(5)).tolist() == keys
    assert store.mean.tolist() == pytest.approx(np.mean(keys, axis=0).tolist())
    assert str(store.sentences[1].origin) == "some.tsv:2 [tag]"


def test_batches_are_of_similar_length_and_within_the_budget() -> None:
    rng = np.random.default_rng(3)
    sentences = [TokenizedPair(b"", [0] * int(rng.integers(1, 30)), [0] * int(rng.integers(1, 30))) for _ in range(200)]
    batches = list(make_batches(sentences, 100))
    assert sorted(n for batch in batches for n in batch) == list(range(200))
    longest = [max(max(len(sentences[n].source), len(sentences[n].target)) for n in batch) for batch in batches]
    assert all(size * len(batch) <= 100 for size, batch in zip(longest, batches, strict=True))
    assert longest == sorted(longest)


def test_a_sentence_longer_than_the_budget_goes_alone() -> None:
    sentences = [TokenizedPair(b"", [0] * 3, [0] * size) for size in (50, 2, 60)]
    assert list(make_batches(sentences, 10)) == [[1], [0], [2]]


def test_shards_end_with_a_sentence_and_hold_no_more_than_asked(tmp_path: Path) -> None:
    store = build_store(NumpyModel(), make_pairs(100), tmp_path / "store", **SIZES)
    ends = np.cumsum([shard.rows for shard in store.manifest.shards])
    assert len(ends) > 2
    assert all(shard.rows <= 300 for shard in store.manifest.shards)
    assert (store.values[ends - 1] == EOS).all()


def test_pairs_too_long_are_left_out_counted_and_warned_of(tmp_path: Path) -> None:
    long = "w " * 60
    pairs = pairs_of(("a", "b"), (long, "c"), ("d", long), ("e", "f"))
    with pytest.warns(LacunaWarning, match="2 of 4 pairs"):
        store = build_store(NumpyModel(), pairs, tmp_path / "store", cleaning=None)
    assert (store.manifest.skipped, store.manifest.sentences, store.manifest.corpus.pairs) == (2, 2, 4)
    assert [pair.source for pair in store.sentences] == ["a", "e"]


def test_the_start_of_a_translation_counts_in_its_length(tmp_path: Path) -> None:
    model = NumpyModel(start_ids=(0, 3), max_length=4)
    with pytest.warns(LacunaWarning, match="1 of 2 pairs"):
        store = build_store(model, pairs_of(("a", "b c"), ("a", "b c d")), tmp_path / "store")
    assert store.entries == 3


def test_nothing_to_store_leaves_nothing_behind(tmp_path: Path) -> None:
    for pairs in ([], pairs_of(("w " * 60, "x"))):
        with pytest.raises(StoreError, match="nothing to store"):
            build_store(NumpyModel(), pairs, tmp_path / "store", cleaning=None)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("sizes", [{"batch_tokens": 0}, {"shard_rows": 0}, {"shard_rows": 1.5}])
def test_sizes_must_be_whole_and_positive(sizes: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="1 or more"):
        build_store(NumpyModel(), make_pairs(2), tmp_path / "store", **sizes)


def test_keys_too_large_for_half_precision_are_refused(tmp_path: Path) -> None:
    class Large(NumpyModel):
        def teacher_force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Rows:
            rows = super().teacher_force(sources, targets)
            rows.keys[0] = 1e6
            return rows

    with pytest.raises(StoreError, match="65504"):
        build_store(Large(), make_pairs(2), tmp_path / "store")


@pytest.mark.parametrize("fail_at", [0, 1, 5, 17, 40])
def test_an_interrupted_build_resumes_to_the_same_bytes(fail_at: int, tmp_path: Path) -> None:
    pairs = make_pairs(400)
    build_store(NumpyModel(), pairs, tmp_path / "whole", **SIZES)
    with pytest.raises(KeyboardInterrupt):
        build_store(NumpyModel(fail_at=fail_at), iter(pairs), tmp_path / "broken", **SIZES)
    with pytest.raises(StoreError, match="not finished"):
        open_store(tmp_path / "broken")
    build_store(NumpyModel(), iter(pairs), tmp_path / "broken", **SIZES)
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_resuming_does_not_decode_stored_pairs_again(tmp_path: Path) -> None:
    pairs = make_pairs(400)
    whole, first, second = NumpyModel(), NumpyModel(fail_at=30), NumpyModel()
    build_store(whole, pairs, tmp_path / "whole", **SIZES)
    with pytest.raises(KeyboardInterrupt):
        build_store(first, pairs, tmp_path / "broken", **SIZES)
    build_store(second, pairs, tmp_path / "broken", **SIZES)
    assert len(second.batches) < len(whole.batches)
    assert whole.batches[-len(second.batches) :] == second.batches


def test_a_fault_in_the_corpus_can_be_fixed_and_the_build_resumes(tmp_path: Path) -> None:
    # Tokens are made for hundreds of pairs at a time, so the fault must lie beyond the first hundreds.
    pairs = make_pairs(700)

    def faulty() -> Iterator[SentencePair]:
        yield from pairs[:600]
        raise CorpusError("line 601")

    build_store(NumpyModel(), pairs, tmp_path / "whole", cleaning=None, shard_rows=500)
    with pytest.raises(CorpusError):
        build_store(NumpyModel(), faulty(), tmp_path / "store", cleaning=None, shard_rows=500)
    assert (tmp_path / "store" / UNFINISHED).exists()
    build_store(NumpyModel(), pairs, tmp_path / "store", cleaning=None, shard_rows=500)
    assert contents(tmp_path / "store") == contents(tmp_path / "whole")


def test_a_kill_between_manifest_and_clean_up(tmp_path: Path) -> None:
    pairs = make_pairs(50)
    folder = build_store(NumpyModel(), pairs, tmp_path / "store").path
    before = contents(folder)
    (folder / UNFINISHED).write_text("{}")
    assert open_store(folder).entries
    build_store(NumpyModel(), pairs, folder)
    assert contents(folder) == before


def test_the_same_build_again_returns_without_work(tmp_path: Path) -> None:
    pairs = make_pairs(50)
    first = build_store(NumpyModel(), pairs, tmp_path / "store")
    before, model = contents(first.path), NumpyModel()
    assert build_store(model, pairs, first.path).fingerprint == first.fingerprint
    assert model.batches == []
    assert contents(first.path) == before
    assert verify_store(first.path).sound


def test_progress_counts_pairs_and_continues_after_an_interruption(tmp_path: Path) -> None:
    class Listener:
        def __init__(self) -> None:
            self.total: float | None = None
            self.done, self.notes = 0.0, [""]

        def start(self, what: str, total: float | None = None, unit: str = "") -> None:
            self.total = total

        def advance(self, amount: float = 1.0, note: str = "") -> None:
            self.done += amount
            self.notes.append(note)

        def finish(self, note: str = "") -> None:
            self.notes.append(note)

    pairs: list[SentencePair] = make_pairs(400)
    with pytest.raises(KeyboardInterrupt):
        build_store(NumpyModel(fail_at=30), pairs, tmp_path / "store", **SIZES)
    listener = Listener()
    build_store(NumpyModel(), pairs, tmp_path / "store", **SIZES, total=400, progress=listener)
    assert (listener.total, listener.done) == (400, 400)
    assert "tokens/s" in listener.notes[-2]


@pytest.fixture
def use_threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_the_bytes_do_not_depend_on_the_number_of_threads(
    threads: int, use_threads: Callable[[int], None], tmp_path: Path
) -> None:
    for count, name in ((1, "one"), (threads, "several")):
        use_threads(count)
        build_store(NumpyModel(), make_pairs(200), tmp_path / name, **SIZES)
    assert contents(tmp_path / "several") == contents(tmp_path / "one")


@pytest.mark.parametrize("fail_at", [0, 5, 40])
def test_a_build_by_several_workers_is_interrupted_and_resumes(
    fail_at: int, use_threads: Callable[[int], None], tmp_path: Path
) -> None:
    use_threads(3)
    pairs = make_pairs(400)
    build_store(NumpyModel(), pairs, tmp_path / "whole", **SIZES)
    with pytest.raises(KeyboardInterrupt):
        build_store(NumpyModel(fail_at=fail_at), iter(pairs), tmp_path / "broken", **SIZES)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("lacuna-worker")]
    build_store(NumpyModel(), iter(pairs), tmp_path / "broken", **SIZES)
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_the_corpus_is_read_only_a_few_windows_ahead(use_threads: Callable[[int], None], tmp_path: Path) -> None:
    use_threads(2)
    model, read, ahead = NumpyModel(), 0, list[int]()

    def pairs() -> Iterator[SentencePair]:
        nonlocal read
        for pair in make_pairs(4000):
            read += 1
            ahead.append(read - sum(model.batches))
            yield pair

    build_store(model, pairs(), tmp_path / "store", **SIZES)
    assert max(ahead) < 1500  # pairs are tokenized 512 at a time, and a few windows wait
