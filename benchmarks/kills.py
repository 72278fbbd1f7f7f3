"""Kill a process again and again while it edits a memory, and check the memory after every kill.

A forked process adds, forgets, replaces and compacts at random, and reports each edit that has returned. It gets
SIGKILL after a random time. Then the memory must verify, and hold exactly what the reported edits made of it, or that
and the one edit that was under way. A rule takes the place of the model.

    python benchmarks/kills.py [--kills 1000] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from lacuna.datastore import open_store, verify_store
from lacuna.memory import Selection, compact_memory
from lacuna.memory.folder_edits import add_pairs, forget_sentences, replace_sentence
from lacuna.records import Languages, Origin, SentencePair

VOCABULARY, EOS, DIMENSION = 300, 1, 8
Pairs = dict[int, tuple[str, str]]  # source and target by sentence id


@dataclass(frozen=True)
class Rows:
    """Output of the rule for some tokens."""

    keys: NDArray[np.float32]
    predictions: NDArray[np.int64]
    log_p_gold: NDArray[np.float32]
    entropy: NDArray[np.float32]


@dataclass(frozen=True)
class Rule:
    """Keys are hashes of source and prefix."""

    name: str = "rule"
    fingerprint: str = "0" * 64
    languages: Languages | None = None
    dimension: int = DIMENSION
    vocabulary_size: int = VOCABULARY
    eos_id: int = EOS
    mask_placeholders: bool = False
    precision: str = "float32"

    def is_direction(self, languages: Languages) -> bool:
        """Accept any direction."""
        return True

    def fits(self, source: Sequence[int], target: Sequence[int]) -> bool:
        """Accept any length."""
        return True

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Use bytes as tokens."""
        return [[2 + byte for byte in text.encode()] + [EOS] for text in texts]

    encode_targets = encode_sources

    def teacher_force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Rows:
        """Hash the prefixes."""
        keys, gold = [], []
        for source, target in zip(sources, targets, strict=True):
            for place, token in enumerate(target):
                digest = xxhash.xxh3_64(repr((source, target[:place])).encode()).digest()
                keys.append(np.frombuffer(digest, np.uint8))
                gold.append(token)
        ones = np.ones(len(gold), np.float32)
        values = np.array(gold)
        predictions = np.where(values % 2, values, 0)
        return Rows(np.array(keys, dtype=np.float32), predictions, -ones, ones)


@dataclass(frozen=True)
class Edit:
    """One edit, and the number that it draws its sentences with."""

    action: str
    number: int

    def expected(self, before: Pairs, ids: int) -> tuple[Pairs, int]:
        """Return the pairs and the number of sentence ids after the edit."""
        after, chosen = dict(before), self._sentence(before)
        if self.action == "add":
            for pair in self.pairs():
                after[ids] = (pair.source, pair.target)
                ids += 1
        elif self.action == "forget" and chosen is not None:
            del after[chosen]
        elif self.action == "replace" and chosen is not None:
            after[ids] = (after.pop(chosen)[0], self._target())
            ids += 1
        return after, ids

    def run(self, memory: Path, before: Pairs) -> None:
        """Do it."""
        chosen = self._sentence(before)
        if self.action == "add":
            add_pairs(memory, self.pairs(), Rule(), cleaning=None)
        elif self.action == "forget" and chosen is not None:
            forget_sentences(memory, Selection(sentences=(chosen,)))
        elif self.action == "replace" and chosen is not None:
            replace_sentence(memory, chosen, self._target(), Rule())
        elif self.action == "compact":
            compact_memory(memory)

    def pairs(self) -> list[SentencePair]:
        """Return the pairs of an addition."""
        count = 1 + self.number % 3
        origins = [Origin("kills", f"{self.number}.{place}") for place in range(count)]
        return [SentencePair(f"source {origin.place}", f"target {origin.place}", origin) for origin in origins]

    def _target(self) -> str:
        return f"corrected {self.number}"

    def _sentence(self, before: Pairs) -> int | None:
        return sorted(before)[self.number % len(before)] if before else None


def draw_edits(rng: np.random.Generator, first: int, count: int) -> list[Edit]:
    """Draw a sequence of edits."""
    actions = rng.choice(["add", "add", "add", "forget", "replace", "compact"], count)
    return [Edit(str(action), first + number) for number, action in enumerate(actions)]


def run_until_killed(memory: Path, edits: list[Edit], before: Pairs, ids: int, seconds: float) -> int:
    """Fork a process that does the edits; kill it after some seconds; return the number of edits that it reported."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        for edit in edits:
            edit.run(memory, before)
            os.write(write, b".")
            before, ids = edit.expected(before, ids)
        os._exit(0)
    os.close(write)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    reported = 0
    while block := os.read(read, 4096):
        reported += len(block)
    os.close(read)
    return reported


def main() -> None:
    """Print the counts of kills, edits and failures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=0.25, help="longest time until a kill, in seconds")
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        memory = Path(folder) / "memory"
        first = Edit("add", 0)
        first.run(memory, {})
        pairs, ids = first.expected({}, 0)
        for kill in range(given.kills):
            edits = draw_edits(rng, 1 + 1000 * kill, 200)
            reported = run_until_killed(memory, edits, pairs, ids, float(rng.random()) * given.longest)
            for edit in edits[:reported]:
                pairs, ids = edit.expected(pairs, ids)
                counts[edit.action] += 1
            under_way = edits[reported].expected(pairs, ids) if reported < len(edits) else (pairs, ids)
            store = open_store(memory)
            found = {number: (pair.source, pair.target) for number, pair in store.sentences.present()}
            counts["lost or half done"] += found not in (pairs, under_way[0])
            counts["not sound"] += not verify_store(memory).sound
            if found == under_way[0] and found != pairs:
                counts["finished but not reported"] += 1
                pairs, ids = under_way
    edits_done = sum(counts[action] for action in ("add", "forget", "replace", "compact"))
    print(json.dumps({"kills": given.kills, "edits": edits_done, "sentences": len(pairs), **counts}))


if __name__ == "__main__":
    main()
