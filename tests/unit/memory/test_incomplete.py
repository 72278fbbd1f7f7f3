"""Edits that cannot be done in full: pairs that are too long, memories that are not whole, disks that are full."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lacuna.artifacts.files import sync
from lacuna.artifacts.locks import LOCK_FILES
from lacuna.datastore import build_store, inspect_store, open_store, verify_store
from lacuna.datastore.log import append_log, read_log
from lacuna.datastore.segments import LOG, MEMORY
from lacuna.errors import LacunaWarning, StoreError, UnavailableError
from lacuna.index import build_index
from lacuna.margin import measure_margin
from lacuna.margin.storage import read_margins
from lacuna.memory import Selection, check_receipt, compact_memory
from lacuna.memory.folder_edits import add_pairs, forget_sentences, replace_sentence
from lacuna.records import Origin, SentencePair
from unit.memory.rule_model import RuleModel

MODEL = RuleModel()
LONG = " ".join(["very"] * 50)


def one(source: str, target: str, own: str | None = None) -> SentencePair:
    return SentencePair(source, target, Origin("made.tsv", "1", "tag"), own)


PAIRS = [one("rot", "red", "r"), one("blau", "blue", "b"), one("grün", "green", "g")]


def texts(memory: Path) -> list[str]:
    return [pair.target for pair in open_store(memory).sentences]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that was never edited."""
    build_index(build_store(MODEL, PAIRS, tmp_path / "store", cleaning=None))
    return tmp_path / "store"


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory of two segments, with a forgotten sentence."""
    folder = tmp_path / "memory"
    build_index(build_store(MODEL, PAIRS, folder, cleaning=None))
    add_pairs(folder, [one("gelb", "yellow", "y")], MODEL, cleaning=None)
    forget_sentences(folder, Selection(sentences=(1,)))
    return folder


# --- Pairs that are too long


def test_a_pair_that_is_too_long_does_not_remove_the_one_with_its_id(memory: Path) -> None:
    new = [one("rot", LONG, "r"), one("weiß", "white", "w")]
    with pytest.warns(LacunaWarning, match="1 of 2 pairs are too long for the model and were skipped"):
        report = add_pairs(memory, new, MODEL, cleaning=None)
    assert texts(memory) == ["red", "green", "yellow", "white"]
    assert (report.forgotten, report.skipped, report.kept) == ((), 1, 1)
    again = add_pairs(memory, new, MODEL, cleaning=None)  # the same call again finds that nothing is to be done
    assert (again.commit, again.repeated, again.skipped, again.kept) == (None, 1, 1, 1)


def test_of_two_pairs_with_an_id_the_one_that_fits_is_added(memory: Path) -> None:
    with pytest.warns(LacunaWarning, match="too long"):
        add_pairs(memory, [one("rot", "crimson", "r"), one("rot", LONG, "r")], MODEL, cleaning=None)
    assert texts(memory) == ["green", "yellow", "crimson"]


def test_pairs_that_are_all_too_long_are_refused_and_nothing_is_written(memory: Path, tmp_path: Path) -> None:
    for folder in (memory, tmp_path / "new"):
        before = sorted(map(str, folder.rglob("*")))
        with pytest.raises(StoreError, match="nothing to add, all 1 pairs are too long for the model"):
            add_pairs(folder, [one("rot", LONG, "r")], MODEL, cleaning=None)
        assert sorted(map(str, folder.rglob("*"))) == before


def test_a_correction_that_is_too_long_leaves_the_sentence(memory: Path) -> None:
    before = (memory / MEMORY).read_bytes()
    with pytest.raises(StoreError, match="the corrected pair is too long for the model; shorten it"):
        replace_sentence(memory, 0, LONG, MODEL)
    assert (memory / MEMORY).read_bytes() == before


# --- Memories that are not whole


ACTS: dict[str, Callable[[Path], object]] = {
    "open": open_store,
    "verify": verify_store,
    "inspect": inspect_store,
    "log": read_log,
    "add": lambda folder: add_pairs(folder, [one("weiß", "white")], MODEL, cleaning=None),
    "forget": lambda folder: forget_sentences(folder, Selection(sentences=(0,))),
    "replace": lambda folder: replace_sentence(folder, 0, "scarlet", MODEL),
    "compact": compact_memory,
    "build": lambda folder: build_store(MODEL, PAIRS, folder, cleaning=None),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kept", ["segments", "forgotten", LOG])
def test_a_memory_without_its_manifest_is_refused(memory: Path, act: str, kept: str) -> None:
    (memory / MEMORY).unlink()
    for name in {"segments", "forgotten", LOG} - {kept}:
        path = memory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = sorted(map(str, memory.rglob("*")))
    with pytest.raises(
        StoreError, match=f"has {kept} but no memory.json, .*copy the memory again with all of its files"
    ):
        ACTS[act](memory)
    assert sorted(map(str, memory.rglob("*"))) == before


@pytest.mark.parametrize("act", ACTS)
def test_a_compacted_memory_without_its_manifest_is_refused(memory: Path, act: str) -> None:
    compact_memory(memory)
    (memory / MEMORY).unlink()
    with pytest.raises(StoreError):
        ACTS[act](memory)


def test_a_store_that_was_never_edited_needs_no_manifest_of_a_memory(store: Path) -> None:
    assert texts(store) == ["red", "blue", "green"]
    assert verify_store(store).sound
    assert read_log(store) == []


# --- First edits that were killed


class Killed(BaseException):
    """Ends an edit where a kill would: nothing is cleaned up."""


def kill_at(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    def kill(*arguments: Any, **settings: object) -> None:
        if moment == "commit":
            append_log(*arguments)  # the line is there, its commit is not
        raise Killed

    monkeypatch.setattr(MOMENTS[moment], kill)


MOMENTS = {
    "lock": "lacuna.memory.writer._read_or_start",
    "manifest": "lacuna.artifacts.files.sync",
    "build": "lacuna.memory.folder_edits.build_store",
    "index": "lacuna.memory.folder_edits.build_index",
    "log": "lacuna.memory.writer.append_log",
    "commit": "lacuna.memory.writer.append_log",
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("pairs", [PAIRS, PAIRS[1:]], ids=["same", "others"])
def test_the_first_add_can_be_repeated_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, pairs: list[SentencePair]
) -> None:
    memory = tmp_path / "memory"
    with monkeypatch.context() as patch:
        kill_at(patch, moment)
        with pytest.raises(Killed):
            add_pairs(memory, PAIRS, MODEL, cleaning=None)
    (memory / ".memory.json.0123.tmp").write_text("{")  # a kill leaves it where an exception does not
    add_pairs(memory, pairs, MODEL, cleaning=None)
    assert texts(memory) == [pair.target for pair in pairs]
    assert verify_store(memory).problems == ()
    assert [entry.commit for entry in read_log(memory)] == [1]
    assert {path.name for path in memory.glob(".*")} <= LOCK_FILES


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_store_is_unchanged_after_a_killed_first_edit(
    store: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    measure_margin(open_store(store))
    with monkeypatch.context() as patch:
        kill_at(patch, moment)
        with pytest.raises(Killed):
            add_pairs(store, [one("weiß", "white")], MODEL, cleaning=None)
    opened = open_store(store)
    assert (opened.segments, texts(store)) == (None, ["red", "blue", "green"])
    assert verify_store(store).problems == ()
    assert len(read_margins(opened).values) == opened.entries
    assert add_pairs(store, [one("weiß", "white")], MODEL, cleaning=None).commit == 1
    assert texts(store) == ["red", "blue", "green", "white"]


def test_the_first_add_can_be_repeated_after_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = tmp_path / "memory"
    for name in MOMENTS.values():
        with monkeypatch.context() as patch:
            patch.setattr(name, full_disk)
            with pytest.raises((StoreError, OSError)):
                add_pairs(memory, PAIRS, MODEL, cleaning=None)
    assert add_pairs(memory, PAIRS, MODEL, cleaning=None).commit == 1


def test_a_folder_with_other_files_is_not_a_new_memory(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="not empty and not a memory"):
        add_pairs(tmp_path, PAIRS, MODEL, cleaning=None)


# --- What fails after the commit


def full_disk(*arguments: object, **settings: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_receipt_is_written_before_the_commit(memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receipt, before = tmp_path / "out" / "receipt.json", (memory / MEMORY).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("lacuna.memory.receipts.write_sealed", full_disk)
        with pytest.raises(StoreError, match="No space left"):
            forget_sentences(memory, Selection(sentences=(0,)), receipt=receipt)
    assert (memory / MEMORY).read_bytes() == before
    with monkeypatch.context() as patch:
        patch.setattr("lacuna.memory.writer.write_memory_manifest", full_disk)
        with pytest.raises(StoreError, match="No space left"):
            forget_sentences(memory, Selection(sentences=(0,)), receipt=receipt)
    assert list(receipt.parent.iterdir()) == []  # no receipt for what was not forgotten
    forget_sentences(memory, Selection(sentences=(0,)), receipt=receipt)
    assert [path.name for path in receipt.parent.iterdir()] == ["receipt.json"]
    check = check_receipt(memory, receipt)
    assert (check.sentences, check.listed, check.on_disk) == (1, 0, 1)
    content = json.loads(receipt.read_text(encoding="utf-8"))
    assert (content["commit"], content["entries"]) == (3, 2)
    assert content["after"] == open_store(memory).fingerprint


def test_a_receipt_that_cannot_be_renamed_is_kept_and_milvus_is_brought_up_to_date(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = tmp_path / "receipt.json"
    receipt.mkdir()
    synced: list[Path] = []
    monkeypatch.setattr("lacuna.memory.folder_edits.sync_folder", synced.append)
    with pytest.warns(
        LacunaWarning, match="the edit is committed, but its receipt is still named receipt.json.commit-3"
    ):
        report = forget_sentences(memory, Selection(sentences=(0,)), receipt=receipt)
    assert (report.commit, synced) == (3, [memory])
    assert check_receipt(memory, tmp_path / "receipt.json.commit-3.tmp").listed == 0


def unavailable(*arguments: object) -> None:
    raise UnavailableError("the server does not answer; start it")


AFTER = {
    "removing old files": ("lacuna.memory.writer.MemoryWriter.clean", full_disk),
    "flushing the folder": ("lacuna.artifacts.files.sync", None),
    "bringing Milvus up to date": ("lacuna.memory.folder_edits.sync_folder", unavailable),
}


@pytest.mark.parametrize("step", AFTER)
@pytest.mark.parametrize("act", ["add", "forget", "replace", "compact"])
def test_a_committed_edit_is_not_reported_as_failed(
    memory: Path, monkeypatch: pytest.MonkeyPatch, act: str, step: str
) -> None:
    name, failing = AFTER[step]

    def sync_but_the_last(path: Path) -> None:
        if path == memory and json.loads((memory / MEMORY).read_text(encoding="utf-8"))["commit"] == 3:
            full_disk()
        sync(path)

    calls: list[int] = []

    def not_the_first(*arguments: object) -> None:
        calls.append(0)
        if len(calls) > 1 and failing is not None:  # the first is before the commit
            failing()

    first = step == "removing old files"
    monkeypatch.setattr(name, not_the_first if first else failing or sync_but_the_last)
    with pytest.warns(LacunaWarning, match="the edit is committed, but .*; do not repeat the command|is written, but"):
        report = ACTS[act](memory)
    assert report.commit == 3  # type: ignore[attr-defined]
    assert len(read_log(memory)) == 3
    assert verify_store(memory).problems == ()


def test_an_addition_whose_merge_fails_is_committed(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.memory.folder_edits.MERGED_AT_ONCE", 2)
    monkeypatch.setattr("lacuna.memory.folder_edits.copy_store", full_disk)
    with pytest.warns(LacunaWarning, match="the edit is committed, but its small segments were not merged"):
        add_pairs(memory, [replace(PAIRS[0], id=None)], MODEL, cleaning=None)
    assert texts(memory) == ["red", "green", "yellow", "red"]


def test_a_full_disk_while_sentences_are_forgotten_is_a_line(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.datastore.segments.write_bytes", full_disk)
    with pytest.raises(StoreError, match="cannot be written \\(No space left"):
        forget_sentences(memory, Selection(sentences=(0,)))
    assert texts(memory) == ["red", "green", "yellow"]
