"""Edits of a memory against an oracle: a list of the pairs that must be there, and a store built from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lacuna.datastore import Store, build_store, open_store, verify_store
from lacuna.datastore.log import read_log
from lacuna.errors import SettingError, StoreError
from lacuna.index import ExactIndex, build_index, open_index
from lacuna.margin.reference import reference_margins
from lacuna.memory import Selection, compact_memory, open_memory
from lacuna.memory.folder_edits import add_pairs, forget_sentences, replace_sentence
from lacuna.memory.writer import edit_memory
from lacuna.records import Origin, SentencePair
from unit.memory.rule_model import RuleModel, pair

MODEL = RuleModel()


class Oracle:
    """What a memory must have: a pair for each sentence id, or nothing where it was forgotten."""

    def __init__(self, pairs: list[SentencePair]) -> None:
        self.pairs: list[SentencePair | None] = list(pairs)

    def present(self) -> list[tuple[int, SentencePair]]:
        return [(number, each) for number, each in enumerate(self.pairs) if each is not None]

    def add(self, new: list[SentencePair]) -> None:
        last = {each.id: each for each in new if each.id is not None}
        for each in new:
            if each.id is not None and last[each.id] is not each:
                continue
            same = [number for number, old in self.present() if _same(old, each)]
            if same and each.id is None:
                continue
            for number in same:
                old = self.pairs[number]
                assert old is not None
                if (old.source, old.target, old.origin.tag) == (each.source, each.target, each.origin.tag):
                    break
                self.pairs[number] = None
            else:
                self.pairs.append(each)


def _same(old: SentencePair, new: SentencePair) -> bool:
    if old.id is not None or new.id is not None:
        return old.id == new.id
    return (old.source, old.target, old.origin.tag) == (new.source, new.target, new.origin.tag)


def check(memory: Path, oracle: Oracle, folder: Path) -> None:
    """Compare a memory with a store that is built from the pairs that must be there."""
    found = open_store(memory)
    assert list(found.sentences.present()) == oracle.present()
    report = verify_store(memory)
    assert report.sound, report.problems
    if not oracle.present():
        assert found.entries == 0
        return
    fresh = build_store(MODEL, [each for _, each in oracle.present()], folder, cleaning=None)
    ids = np.array([number for number, _ in oracle.present()])
    assert (found.sentence == ids[fresh.sentence]).all()
    for name in ("values", "predictions", "known", "log_p_gold", "entropy", "position"):
        assert (getattr(found, name) == getattr(fresh, name)).all(), name
    everything = np.arange(fresh.entries)
    assert (found.keys.gather(everything) == fresh.keys.gather(everything)).all()
    queries = fresh.keys.gather(everything).astype(np.float32) + np.float32(0.25)
    build_index(fresh, "exact")
    wanted, got = ExactIndex(fresh).search(queries, 7), open_index(found).search(queries, 7)
    assert (wanted.distances == got.distances).all()
    assert (wanted.ids == got.ids).all()
    margins = [reference_margins(each.keys.gather(everything), each.known, 64) for each in (found, fresh)]
    assert (margins[0] == margins[1]).all()


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_edits_equals_a_store_of_the_final_pairs(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    memory = tmp_path / "memory"
    start = [replace(pair(rng), id=f"start {number}") for number in range(6)]
    oracle = Oracle(start if seed % 2 else [])
    if seed % 2:
        build_index(build_store(MODEL, start, memory, cleaning=None), "exact")
    for number in range(34):
        present = [each for each, _ in oracle.present()]
        action = rng.choice(["add", "add", "add", "forget", "replace", "compact"])
        if action == "add":
            new = [_random_pair(rng) for _ in range(int(rng.integers(1, 4)))]
            add_pairs(memory, new, MODEL, cleaning=None)
            oracle.add(new)
        elif action == "forget" and present:
            gone = rng.choice(present, size=min(len(present), int(rng.integers(1, 3))), replace=False).tolist()
            report = forget_sentences(memory, Selection(sentences=tuple(gone)))
            assert sorted(report.forgotten) == sorted(gone)
            for each in gone:
                oracle.pairs[each] = None
        elif action == "replace" and present:
            each = int(rng.choice(present))
            old = oracle.pairs[each]
            assert old is not None
            target = pair(rng).target
            assert replace_sentence(memory, each, target, MODEL).added == (len(oracle.pairs),)
            oracle.pairs[each] = None
            oracle.pairs.append(replace(old, target=target))
        elif action == "compact" and memory.exists():
            compact_memory(memory)
        if number % 11 == 10 and memory.exists():
            check(memory, oracle, tmp_path / f"fresh {number}")
    compact_memory(memory)
    check(memory, oracle, tmp_path / "fresh")
    assert len(open_store(memory).segments or ()) == 1


def _random_pair(rng: np.random.Generator) -> SentencePair:
    own = f"id {rng.integers(6)}" if rng.random() < 0.3 else None
    return pair(rng, rng.choice(["a", "b"]) if rng.random() < 0.5 else None, own)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    texts = [("rot", "red", "a"), ("grün", "green", "b"), ("blau", "blue", "a")]
    pairs = [SentencePair(source, target, Origin(f"{tag}.tsv", "1", tag)) for source, target, tag in texts]
    build_index(build_store(MODEL, pairs, tmp_path / "memory"))
    return tmp_path / "memory"


@pytest.mark.parametrize(
    ("selection", "gone"),
    [
        (Selection(sentences=(2, 0, 2)), (0, 2)),
        (Selection(tag="a"), (0, 2)),
        (Selection(origin="b.tsv"), (1,)),
        (Selection(matching="^(rot|green)$"), (0, 1)),
        (Selection(tag="a", matching="bl"), (2,)),
        (
            Selection(
                pairs=(SentencePair("rot", "red", Origin("x", "1")), SentencePair("rot", "rot", Origin("x", "2")))
            ),
            (0,),
        ),
        (Selection(tag="c"), ()),
    ],
)
def test_selections(selection: Selection, gone: tuple[int, ...], memory: Path) -> None:
    before = open_store(memory)
    assert forget_sentences(memory, selection, dry_run=True).forgotten == gone
    assert open_store(memory).entries == before.entries
    assert forget_sentences(memory, selection).forgotten == gone
    after = open_store(memory)
    assert [number for number, _ in after.sentences.present()] == [each for each in range(3) if each not in gone]
    assert not np.isin(after.sentence, gone).any()
    assert before.entries == 6  # a reader keeps the state that it opened
    with pytest.raises(SettingError, match="nothing selected"):
        Selection().find(after.sentences, "it")


def test_bad_edits_change_nothing(memory: Path, tmp_path: Path) -> None:
    forget_sentences(memory, Selection(sentences=(1,)))
    before = _contents(memory)
    for selection, says in [
        (Selection(sentences=(3,)), "are 0 to 2"),
        (Selection(sentences=(-1,)), "are 0 to 2"),
        (Selection(sentences=(1,)), "forgotten before"),
        (Selection(matching="("), "not a regular expression"),
    ]:
        with pytest.raises(SettingError, match=says):
            forget_sentences(memory, selection)
    with pytest.raises(SettingError, match="forgotten before"):
        replace_sentence(memory, 1, "gold", MODEL)
    with pytest.raises(SettingError, match="empty text"):
        replace_sentence(memory, 0, " ", MODEL)
    with pytest.raises(StoreError, match="nothing to add"):
        add_pairs(memory, [], MODEL)
    with pytest.raises(StoreError, match="another model"):
        add_pairs(memory, [pair(np.random.default_rng(1))], RuleModel(fingerprint="0" * 64))
    with pytest.raises(StoreError, match="no such store"):
        compact_memory(tmp_path / "none")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(StoreError, match="not a memory"):
        add_pairs(tmp_path / "other", [pair(np.random.default_rng(1))], MODEL)
    assert _contents(memory) == before
    assert compact_memory(memory).commit == 2
    assert compact_memory(memory).commit is None


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_log_says_what_happened_without_text(memory: Path) -> None:
    assert read_log(memory) == []
    add_pairs(memory, [SentencePair("secret", "geheim", Origin("private.tsv", "1", "client"))], MODEL)
    replace_sentence(memory, 3, "hidden", MODEL)
    forget_sentences(memory, Selection(tag="client"))
    compact_memory(memory)
    log = read_log(memory)
    assert [(each.commit, each.action, each.added, each.forgotten) for each in log] == [
        (1, "add", 1, 0),
        (2, "replace", 1, 1),
        (3, "forget", 0, 1),
        (4, "compact", 0, 0),
    ]
    assert log[-1].entries == 6
    for content in _contents(memory).values():
        for text in (b"secret", b"geheim", b"hidden", b"private", b"client"):
            assert text not in content


def test_many_small_additions_are_merged(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    pairs = [replace(pair(rng), id=str(number)) for number in range(40)]
    for each in pairs:
        report = add_pairs(tmp_path / "memory", [each], MODEL, cleaning=None)
        assert report.segments < 8
    assert [each for _, each in open_store(tmp_path / "memory").sentences.present()] == pairs


def test_equal_pairs_are_not_added_twice(memory: Path) -> None:
    again = SentencePair("rot", "red", Origin("other.tsv", "7", "a"))
    report = add_pairs(memory, [again], MODEL)
    assert (report.commit, report.repeated, report.added) == (None, 1, ())
    assert add_pairs(memory, [replace(again, origin=Origin("other.tsv", "7", "z"))], MODEL).added == (3,)


def test_opened_stores_of_one_state_have_one_fingerprint(memory: Path) -> None:
    def fingerprint() -> str:
        store: Store = open_store(memory)
        return store.fingerprint

    seen = [fingerprint()]
    forget_sentences(memory, Selection(sentences=(0,)))
    seen.append(fingerprint())
    add_pairs(memory, [pair(np.random.default_rng(5))], MODEL)
    seen.append(fingerprint())
    assert seen[-1] == fingerprint()
    assert len(set(seen)) == 3


def test_a_second_writer_gets_the_owner(memory: Path) -> None:
    with edit_memory(memory), pytest.raises(StoreError, match=rf"pid {os.getpid()}"):
        forget_sentences(memory, Selection(sentences=(0,)))
    assert forget_sentences(memory, Selection(sentences=(0,))).commit == 1
    assert open_store(memory).entries == 4


def test_a_process_that_is_killed_again_and_again_loses_nothing() -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "kills.py"
    done = subprocess.run(
        [sys.executable, str(script), "--kills", "12", "--longest", "0.5"], capture_output=True, text=True, check=True
    )
    counts = json.loads(done.stdout)
    assert counts["edits"] > 0
    assert (counts["lost or half done"], counts["not sound"]) == (0, 0)


def test_opening_again_reads_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, hashed = np.random.default_rng(0), []
    folder = tmp_path / "memory"
    build_index(build_store(MODEL, [pair(rng) for _ in range(200)], folder, cleaning=None), "IVF4,Flat")
    before = open_memory(folder)
    monkeypatch.setattr("lacuna.index.building.checked_data", lambda store, _: hashed.append(store.path))
    for edit in range(3):
        report = add_pairs(folder, [pair(rng, tag=str(edit))], MODEL, before=before.store)
        forget_sentences(folder, Selection(sentences=(edit, report.added[0])), before=before.store)
        add_pairs(folder, [pair(rng, tag="kept")], MODEL, before=before.store)
        after = before.latest()
        assert after.store.segments is not None
        assert after.store.segments[0].store is (before.store.segments or [before])[0].store
        before = after
    assert hashed == []
    monkeypatch.undo()
    fresh = open_memory(folder)
    assert fresh.store.fingerprint == before.store.fingerprint
    assert list(fresh.store.sentences.present()) == list(before.store.sentences.present())
    assert (fresh.store.values == before.store.values).all()
    queries = rng.random((20, 4), np.float32) * 4
    for one, other in zip(fresh.index.search(queries, 9), before.index.search(queries, 9), strict=True):
        assert (one == other).all()
    compact_memory(folder)
    after = before.latest()
    assert after.store.segments is not None
    assert len(after.store.segments) == 1
    assert list(after.store.sentences.present()) == list(before.store.sentences.present())


def test_a_state_that_was_loaded_outlives_its_files(tmp_path: Path) -> None:
    rng, folder = np.random.default_rng(1), tmp_path / "memory"
    add_pairs(folder, [pair(rng) for _ in range(20)], MODEL)
    add_pairs(folder, [pair(rng) for _ in range(20)], MODEL)
    state = open_memory(folder)
    state.store.load()
    compact_memory(folder)
    now = open_store(folder)
    assert not state.store.shards[0].folder.exists()
    assert (state.store.values == now.values).all()
    assert list(state.store.sentences) == list(now.sentences)
    queries = now.keys.gather(np.arange(now.entries)).astype(np.float32)
    assert (state.index.search(queries, 3).ids == open_index(now).search(queries, 3).ids).all()


def test_large_exact_segments_are_searched_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, folder = np.random.default_rng(2), tmp_path / "memory"
    for size in (30, 3, 40, 2):
        add_pairs(folder, [pair(rng) for _ in range(size)], MODEL)
    forget_sentences(folder, Selection(sentences=(1, 31)))
    store = open_store(folder)
    queries = rng.random((20, 4), np.float32) * 4
    together = open_index(store).search(queries, 7)
    monkeypatch.setattr("lacuna.index.segmented.EXACT_BELOW", 100)
    apart = open_index(store)
    assert apart.kind == "exact"
    assert (apart.search(queries, 7).ids == together.ids).all()
    assert (apart.search(queries, 7).distances == together.distances).all()
