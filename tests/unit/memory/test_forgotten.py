"""Really forgotten: no bytes in the folder after compaction, and receipts that say so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lacuna.datastore import build_store, open_store
from lacuna.errors import StoreError
from lacuna.index import build_index
from lacuna.memory import Selection, check_receipt, compact_memory
from lacuna.memory.folder_edits import add_pairs, forget_sentences
from lacuna.records import Origin, SentencePair
from unit.datastore.numpy_model import Rows
from unit.memory.rule_model import RuleModel, pair

SECRET = SentencePair("Frau Müller wohnt hier.", "Ms Müller lives here.", Origin("müller.tsv", "1", "client müller"))


class WideModel(RuleModel):
    """Keys that no other sentence has, so that their bytes can be searched for."""

    def __init__(self) -> None:
        super().__init__(dimension=32)

    def teacher_force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Rows:
        rows = super().teacher_force(sources, targets)
        prefixes = [
            (*source, -1, *target[:place])
            for source, target in zip(sources, targets, strict=True)
            for place in range(len(target))
        ]
        seeds = [hash(prefix) % 2**32 for prefix in prefixes]
        keys = np.array([np.random.default_rng(seed).normal(size=32) for seed in seeds], dtype=np.float32)
        return Rows(keys, rows.predictions, rows.log_p_gold, rows.entropy)


MODEL = WideModel()


@pytest.fixture(params=["exact", "IVF4,Flat"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    others = [pair(rng) for _ in range(60)]
    store = build_store(MODEL, [*others[:30], SECRET, *others[30:]], tmp_path / "memory", cleaning=None)
    build_index(store, request.param)
    return tmp_path / "memory"


def files_with(folder: Path, content: bytes) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


def test_no_bytes_are_left_after_compaction(memory: Path, tmp_path: Path) -> None:
    store = open_store(memory)
    [secret] = [number for number, each in store.sentences.present() if each == SECRET]
    rows = np.flatnonzero(store.sentence == secret)
    keys = [key.tobytes() for key in store.keys.gather(rows)]
    texts = [text.encode() for text in (SECRET.source, SECRET.target, "müller.tsv", "client müller")]
    assert all(files_with(memory, content) for content in [*texts, *keys])
    receipt = tmp_path / "receipt.json"
    forget_sentences(memory, Selection(tag="client müller"), receipt=receipt)
    assert secret not in open_store(memory).sentences
    check = check_receipt(memory, receipt)
    assert (check.sentences, check.listed, check.on_disk) == (1, 0, 1)
    compact_memory(memory)
    for content in [*texts, *keys, *(np.frombuffer(key, np.float16).astype(np.float32).tobytes() for key in keys)]:
        assert files_with(memory, content) == []
    check = check_receipt(memory, receipt)
    assert (check.sentences, check.listed, check.on_disk, check.checked) == (1, 0, 0, 60)
    assert not any(text in receipt.read_bytes() for text in texts)
    add_pairs(memory, [SECRET], MODEL)
    assert check_receipt(memory, receipt).listed == 1


def test_receipts_of_others_are_refused(memory: Path, tmp_path: Path) -> None:
    receipt = tmp_path / "receipt.json"
    forget_sentences(memory, Selection(sentences=(0,)), receipt=receipt)
    other = tmp_path / "other"
    add_pairs(other, [pair(np.random.default_rng(3))], MODEL)
    with pytest.raises(StoreError, match="of another memory"):
        check_receipt(other, receipt)
    with pytest.raises(StoreError, match="no such receipt"):
        check_receipt(memory, tmp_path / "none.json")
    content = json.loads(receipt.read_text())
    receipt.write_text(json.dumps(content | {"sentences": 0}))
    with pytest.raises(StoreError, match="does not match its checksum"):
        check_receipt(memory, receipt)
