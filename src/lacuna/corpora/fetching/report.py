"""What a fetch did, as a record. Knows nothing of how it was done or how it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class FetchedPackage:
    """One package's share.

    :param size: Bytes of the wheel.
    :param license: As the package's own metadata states it.
    :param pairs: Pairs first found here, after cleaning; what an earlier package has too is counted there.
    """

    name: str
    version: str
    sha256: str
    size: int
    license: str
    pairs: int


@dataclass(frozen=True, slots=True)
class FetchReport:
    """The outcome of a fetch.

    :param into: The folder written.
    :param packages: Each package's share.
    :param pairs: Pairs in ``train``, ``dev`` and ``test``.
    :param tokens: Words and punctuation marks (Chinese: characters) on the ``source`` and ``target`` side.
    :param dropped: Pairs that cleaning dropped, by reason.
    :param seed: The seed of the split.
    :param seconds: How long it took.
    :param already_there: The folder held just this already, so nothing was written.
    """

    domain: str
    languages: str
    into: Path
    packages: tuple[FetchedPackage, ...]
    pairs: dict[str, int]
    tokens: dict[str, int]
    dropped: dict[str, int]
    seed: int
    seconds: float
    already_there: bool

    @classmethod
    def of(cls, into: Path, manifest: Mapping[str, Any], seconds: float, *, already_there: bool) -> FetchReport:
        """Read the report off a folder's manifest."""
        return cls(
            domain=manifest["asked"]["domain"],
            languages=manifest["asked"]["languages"],
            into=into,
            packages=tuple(FetchedPackage(**package) for package in manifest["packages"]),
            pairs={part: manifest["files"][f"{part}.tsv"]["pairs"] for part in ("train", "dev", "test")},
            tokens=dict(manifest["tokens"]),
            dropped=dict(manifest["cleaning"]["dropped"]),
            seed=manifest["asked"]["seed"],
            seconds=round(seconds, 1),
            already_there=already_there,
        )

    @property
    def total(self) -> int:
        """Pairs in all three files."""
        return sum(self.pairs.values())

    def as_json(self) -> dict[str, Any]:
        """Give everything as plain data."""
        return {**asdict(self), "into": str(self.into), "total": self.total}

    def sample(self, count: int) -> list[tuple[str, str]]:
        """Draw some pairs of ``train.tsv`` to look at; the report's seed decides which."""
        lines = (self.into / "train.tsv").read_text(encoding="utf-8").split("\n")[:-1]
        rng = np.random.default_rng(self.seed)
        drawn = rng.choice(len(lines), size=min(count, len(lines)), replace=False)
        return [(fields[0], fields[1]) for fields in (lines[index].split("\t") for index in drawn)]
