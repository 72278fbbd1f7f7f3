"""``domain.json``: what a domain was made from, and the figures of its report.

The fingerprint of the model is part of it. Nothing identifies the entries of the memory, which may change later. Knows
nothing of adaptation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from lacuna.artifacts.manifests import Record, read_manifest, write_sealed
from lacuna.datastore.manifest import ModelIdentity
from lacuna.errors import DomainError
from lacuna.version import __version__

FORMAT = 1
MANIFEST = "domain.json"


class DomainPairs(Record):
    """Numbers of sentence pairs.

    :param read: Pairs in the corpora.
    :param kept: Pairs after cleaning.
    :param shared: Pairs left out because dev or test has their source sentence.
    :param train: Pairs in the memory.
    """

    read: int
    kept: int
    shared: int
    train: int
    dev: int
    test: int


class DomainMemory(Record):
    """The memory at the time of the adaptation.

    :param entries: Number of entries, after pruning.
    :param known: Share of the entries that the model knows, before pruning.
    :param pruned: Share of the entries that PLAC dropped; 0 for a memory that was not pruned.
    """

    entries: int
    known: float
    pruned: float


class DomainCandidate(Record):
    """The model alone or a candidate for the combiner, on held-out dev pairs.

    :param bleu: Of the translations, as ``chrf``; ``None`` for the model alone.
    """

    name: str
    perplexity: float
    bleu: float | None
    chrf: float | None


class DomainCombiner(Record):
    """The combiner.

    :param kind: ``vanilla`` or ``adaptive``.
    :param settings: Its settings.
    :param candidates: What was compared; empty if nothing could be fitted.
    :param searched: Share of the decoding steps at which the gate searches; ``None`` without a gate.
    """

    kind: str
    settings: dict[str, JsonValue]
    candidates: tuple[DomainCandidate, ...]
    searched: float | None = None


class DomainScore(Record):
    """Scores of a system on test.

    :param p_value: Two-sided p-value of the difference in BLEU from the model alone; ``None`` for that itself.
    :param p_decline: One-sided p-value of a BLEU below that of the model alone.
    """

    name: str
    bleu: float
    chrf: float
    p_value: float | None
    p_decline: float | None
    signature: str

    @classmethod
    def of(cls, score: Mapping[str, Any]) -> DomainScore:
        """Return the record of a score in the JSON form of ``lacuna evaluate --json``."""
        return cls(**{name: score[name] for name in cls.model_fields})


class DomainManifest(Record):
    """Content of ``domain.json``.

    :param inputs: Hash of everything that the domain was made from.
    :param languages: The direction; ``None`` if the model does not say.
    :param budget: Time limit in minutes, if there was one.
    :param calibrated: Whether there is a calibration.
    :param scores: The model alone and the domain on test; empty without a test set.
    :param notes: What was left out or decided, and why: one sentence each.
    :param seconds: Time of each step, in whichever run it was done.
    """

    format: int = FORMAT
    kind: Literal["domain"] = "domain"
    lacuna: str = __version__
    inputs: str
    corpora: tuple[str, ...]
    model: ModelIdentity
    languages: str | None
    seed: int
    budget: float | None
    pairs: DomainPairs
    memory: DomainMemory
    combiner: DomainCombiner
    calibrated: bool
    scores: tuple[DomainScore, ...]
    notes: tuple[str, ...]
    seconds: dict[str, float]


def write_domain_manifest(folder: Path, manifest: DomainManifest) -> None:
    """Write ``domain.json``, which makes a folder a domain."""
    write_sealed(folder / MANIFEST, manifest)


def read_domain_manifest(folder: Path) -> DomainManifest:
    """Read ``domain.json``.

    :raises DomainError: There is no domain, or the file is damaged or of another format.
    """
    return read_manifest(
        folder / MANIFEST,
        DomainManifest,
        DomainError,
        missing=f"{folder}: no domain there, {MANIFEST} is missing; make one with lacuna adapt",
        again="copy or adapt it again",
    )
