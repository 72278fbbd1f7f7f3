"""Damaged files of a memory: a line that says what to do, and verify finds them."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lacuna.datastore import build_store, inspect_store, open_store, verify_store
from lacuna.datastore.log import read_log
from lacuna.datastore.segments import LOG, MEMORY
from lacuna.errors import LacunaError, LacunaWarning, StoreError
from lacuna.index import build_index, open_index
from lacuna.margin import measure_margin, read_margins
from lacuna.memory import Selection, check_receipt, compact_memory
from lacuna.memory.folder_edits import add_pairs, forget_sentences
from made_up import make_pairs
from unit.memory.rule_model import RuleModel

MODEL = RuleModel()


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory with an index, margins, two segments, a forgotten sentence and a log of two lines."""
    folder = tmp_path / "memory"
    build_index(build_store(MODEL, make_pairs(60), folder, cleaning=None), "IVF2,Flat")
    add_pairs(folder, make_pairs(3, seed=7), MODEL, cleaning=None)
    forget_sentences(folder, Selection(sentences=(1,)), receipt=tmp_path / "receipt.json")
    measure_margin(open_store(folder))
    return folder


def use(memory: Path, receipt: Path) -> list[object]:
    """Read everything that a memory has."""
    store = open_store(memory)
    inspected = inspect_store(memory).as_json()
    store.load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LacunaWarning)  # of lines of the log
        log = [entry.as_json() for entry in read_log(memory)]
        checked = check_receipt(memory, receipt)
    near = open_index(store).search(store.keys.gather(np.arange(9)).astype(np.float32), 4)
    columns = [store.values, store.predictions, store.known, store.log_p_gold, store.sentence, store.position]
    return [
        list(store.sentences),
        [column.tolist() for column in columns],
        store.mean.tolist(),
        read_margins(store).values.tolist(),
        inspected["margin_histogram"],
        near.ids.tolist(),
        log,
        checked,
    ]


def files(memory: Path) -> list[Path]:
    return sorted(path for path in memory.rglob("*") if path.is_file() and not path.name.startswith(".lock"))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "longer": lambda content: content + b"\0",
    "first": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "header": lambda content: content[:10] + bytes([content[10] ^ 1]) + content[11:],
    "shape": lambda content: content.replace(b"'shape': (", b"'shape': ((", 1)[: len(content)],
    "middle": lambda content: content[: len(content) // 2] + b"\xff" + content[len(content) // 2 + 1 :],
    "last": lambda content: content[:-2] + bytes([content[-2] ^ 2]) + content[-1:],
}
# Too large to be read whenever a store is opened.
ONLY_VERIFIED = {"keys.npy", "key_sum.npy"}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_a_line_and_verify_finds_it(memory: Path, tmp_path: Path, damage: str) -> None:
    receipt = tmp_path / "receipt.json"
    whole = use(memory, receipt)
    assert verify_store(memory).problems == ()
    for path in files(memory):
        content = path.read_bytes()
        wrong = DAMAGES[damage](content)
        if wrong == content:
            continue
        path.write_bytes(wrong)
        with contextlib.suppress(LacunaError):
            assert path.name in ONLY_VERIFIED or use(memory, receipt) == whole or path.name == LOG, path
        try:
            # The start of a line of a commit that did not happen is no damage.
            assert verify_store(memory).problems or (damage == "longer" and path.name == LOG), path
        except StoreError:
            assert path.name in {MEMORY, "manifest.json"}
        path.write_bytes(content)
    assert use(memory, receipt) == whole


def test_a_damaged_log_is_flagged_and_kept_by_the_next_edit(memory: Path) -> None:
    path = memory / LOG
    first, second = path.read_text().splitlines()
    path.write_text(f"{first.replace('add', 'zap')}\n{second}\n")
    with pytest.warns(LacunaWarning, match=r"log.jsonl:1: the line of commit 1 is missing or damaged; copy the memory"):
        assert [entry.commit for entry in read_log(memory)] == [2]
    add_pairs(memory, make_pairs(1, seed=8), MODEL, cleaning=None)
    lines = path.read_text().splitlines()
    assert (lines[:2], len(lines)) == ([first.replace("add", "zap"), second], 3)
    path.unlink()
    assert verify_store(memory).problems == (f"{path}:1: the line of commit 1 is missing or damaged",)
    compact_memory(memory)
    with pytest.warns(LacunaWarning):
        assert [entry.commit for entry in read_log(memory)] == [4]


def test_a_log_of_earlier_versions_has_no_checksums(memory: Path) -> None:
    path = memory / LOG
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line.pop("checksum") for line in lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [entry.as_json() for entry in read_log(memory)] == lines
    assert verify_store(memory).problems == ()
    lines[-1]["entries"] += 1
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert verify_store(memory).problems == (f"{path}:2: does not agree with the memory",)
