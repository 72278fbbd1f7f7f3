"""Receipts: proof that sentences were forgotten, without their text.

A receipt has salted hashes of the forgotten pairs. Who has a pair can check that the receipt covers it; who has the
memory can check that none of the pairs is in it. It is written before the commit, so that it cannot be lost after it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from lacuna.artifacts.files import sync_entry, writing
from lacuna.artifacts.manifests import Record, read_manifest, write_sealed
from lacuna.datastore import Store, open_store
from lacuna.datastore.columns import line_to_pair
from lacuna.datastore.log import read_log, utc_now
from lacuna.datastore.store import Segment
from lacuna.errors import StoreError
from lacuna.memory.writer import committed
from lacuna.records import SentencePair


class Receipt(Record):
    """Forgotten sentences of a memory.

    :param commit: The commit that forgot them.
    :param time: UTC, in ISO 8601.
    :param entries: Number of their entries.
    :param before: Fingerprint of the memory before the commit.
    :param after: Fingerprint of the memory after it.
    :param salt: Random; without it, short texts could be guessed from their hashes.
    :param hashes: SHA-256 of the salt, source and target of each pair.
    """

    format: int = 1
    kind: Literal["receipt"] = "receipt"
    commit: int
    time: str
    sentences: int
    entries: int
    before: str
    after: str
    salt: str
    hashes: tuple[str, ...]

    @classmethod
    def of(cls, commit: int, before: Store, after: Store, pairs: Sequence[SentencePair]) -> Receipt:
        """Return the receipt of a commit.

        :param pairs: The forgotten pairs; only their hashes are kept.
        """
        salt = secrets.token_hex(16)
        return cls(
            commit=commit,
            time=utc_now(),
            sentences=len(pairs),
            entries=before.entries - after.entries,
            before=before.fingerprint,
            after=after.fingerprint,
            salt=salt,
            hashes=tuple(sorted(_hash(salt, pair) for pair in pairs)),
        )


@contextmanager
def receipt_file(path: Path, receipt: Receipt) -> Iterator[None]:
    """Write a receipt under a temporary name; it gets its own name after the block, which does the commit.

    The temporary name has the number of the commit. If the block fails, there is no receipt; after a kill, the one with
    a number in the log is valid.
    """
    draft = path.with_name(f"{path.name}.commit-{receipt.commit}.tmp")
    with writing(path.parent):
        write_sealed(draft, receipt)
    try:
        yield
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    with committed(path.parent, f"its receipt is still named {draft.name}; rename it to {path.name}"):
        draft.replace(path)
        sync_entry(path)


@dataclass(frozen=True, slots=True)
class ReceiptCheck:
    """Whether a memory agrees with a receipt.

    :param listed: Forgotten pairs that a search or a listing would find.
    :param on_disk: Forgotten pairs whose text is still in a file; compacting removes them.
    :param checked: Number of texts that were compared.
    """

    sentences: int
    listed: int
    on_disk: int
    checked: int

    def as_json(self) -> dict[str, Any]:
        """Return the check as JSON."""
        return asdict(self)


def check_receipt(memory: str | Path, receipt: str | Path) -> ReceiptCheck:
    """Compare all texts of a memory with a receipt.

    :raises StoreError: The receipt cannot be read, or is of another memory.
    """
    missing = f"{receipt}: no such receipt; name a receipt that lacuna forget has written"
    read = read_manifest(Path(receipt), Receipt, StoreError, missing=missing, again="use the original file")
    commits = {entry.commit: entry.action for entry in read_log(memory)}
    if commits.get(read.commit) not in ("forget", "replace"):
        raise StoreError(f"{receipt}: of another memory, commit {read.commit} of {memory} forgot nothing; name its own")
    store, wanted = open_store(memory), set(read.hashes)
    listed = {_hash(read.salt, pair) for pair in store.sentences} & wanted
    texts = list(_pairs_on_disk(store.segments or ()))
    on_disk = {_hash(read.salt, pair) for pair in texts} & wanted
    return ReceiptCheck(read.sentences, len(listed), len(on_disk), len(texts))


def _pairs_on_disk(segments: Iterable[Segment]) -> Iterable[SentencePair]:
    for segment in segments:
        table = segment.store.sentences
        yield from (line_to_pair(line) for line in table.lines(0, len(table)) if line)


def _hash(salt: str, pair: SentencePair) -> str:
    content = "\0".join((salt, pair.source, pair.target)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()
