"""Wheels: take them from the cache or download them with pip, and read pairs from their catalogs.

pip is used so that the user's index, proxy and certificates apply. Nothing is installed or run. Knows nothing of
domains.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol

from lacuna.artifacts.files import sha256_of
from lacuna.artifacts.user_cache import user_cache
from lacuna.corpora.fetching.messages import LocalizedMessage, read_catalog, tidy
from lacuna.corpora.fetching.registry import LOCALE, CatalogKind, Package, best_first, canonical
from lacuna.errors import FetchError
from lacuna.formats.mo import MAX_CATALOG_BYTES
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, Origin, SentencePair

_OFFLINE = (
    "NewConnectionError",
    "NameResolutionError",
    "connection error",
    "Failed to establish",
    "name resolution",
    "ConnectTimeout",
)

# Downloads at a time: most of a small one is spent on starting pip and on waiting for the index.
_AT_ONCE = 4
# Seconds between two looks at how much has arrived.
_PROGRESS_SECONDS = 0.5

Located = tuple[LocalizedMessage, str]  # a message and the member of the wheel that has it
Spellings = dict[str, str]  # locale as spelled in the package -> member
Slots = dict[str, dict[str, Spellings]]  # catalog without its locale -> language -> spellings


class Downloader(Protocol):
    """Downloads the file of a package into a folder; called from several threads at once."""

    def __call__(self, package: Package, folder: Path) -> None:
        """Put ``package.filename`` into ``folder``, or raise ``FetchError``."""


def default_cache() -> Path:
    """Return the folder for wheels: ``lacuna/packages`` in the user's cache folder."""
    return user_cache() / "packages"


def gather_wheels(
    packages: Sequence[Package], cache: Path, download: Downloader, progress: Progress = SILENT
) -> dict[str, Path]:
    """Download the wheels that are not in the cache, some at a time, and return the paths of all by package name.

    After an error or an interruption, no further download is started. Those in progress end, and are used next time.

    :param packages: The packages.
    :param cache: The folder for wheels. Complete files with the right hash are not downloaded again.
    :param download: Downloads one file.
    :param progress: Counts megabytes, of unfinished files as well.
    """
    missing = [package for package in packages if not _is_cached(package, cache)]
    progress.start("packages", total=sum(package.size for package in packages) / 1e6, unit="MB")
    progress.advance(sum(package.size for package in packages if package not in missing) / 1e6)
    if missing:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            # Inside the cache folder, because the rename must not cross file systems.
            with tempfile.TemporaryDirectory(dir=cache, prefix=".download-", ignore_cleanup_errors=True) as name:
                _download_all(missing, Path(name), cache, download, progress)
        except OSError as error:
            raise FetchError(f"cache: cannot write {cache} ({error.strerror}); name another folder") from error
    progress.finish()
    return {package.name: cache / package.filename for package in packages}


def _is_cached(package: Package, cache: Path) -> bool:
    path = cache / package.filename
    return path.is_file() and sha256_of(path) == package.sha256


def _download_all(
    packages: Sequence[Package], arriving: Path, cache: Path, download: Downloader, progress: Progress
) -> None:
    """Download packages into folders of their own below ``arriving``; what is complete moves to the cache."""

    def run(package: Package) -> None:
        folder = arriving / package.name
        folder.mkdir()
        download(package, folder)
        fresh = folder / package.filename
        _check(package, fresh)
        fresh.replace(cache / package.filename)

    total = sum(package.size for package in packages)
    shown = 0
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="download")
    try:
        # The largest first: none of them is left to be downloaded alone at the end.
        ordered = sorted(packages, key=lambda package: -package.size)
        running = {pool.submit(run, package): package for package in ordered}
        waiting = set(running)
        while waiting:
            done, waiting = wait(waiting, _PROGRESS_SECONDS, FIRST_EXCEPTION)
            for future in done:
                future.result()
            arrived = total - sum(running[future].size for future in waiting)
            arrived += sum(_arrived(running[future], arriving / running[future].name) for future in waiting)
            names = ", ".join(sorted(running[future].name for future in waiting if future.running()))
            progress.advance(max(0, arrived - shown) / 1e6, note=names)
            shown = max(shown, arrived)
    finally:
        pool.shutdown(cancel_futures=True)


def _arrived(package: Package, folder: Path) -> int:
    """Return the bytes of an unfinished download; pip has its temporary files in the same folder."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size if path.is_file() else 0
        except OSError:  # it has just been moved
            continue
    return min(size, package.size)


def _check(package: Package, path: Path) -> None:
    if not path.is_file():
        raise FetchError(f"{package.pin}: the download did not give {package.filename}; try again later")
    sha256 = sha256_of(path)
    if sha256 != package.sha256:
        raise FetchError(
            f"{package.pin}: sha256 is {sha256[:12]}..., expected {package.sha256[:12]}...; "
            "the file differs from the one in the registry: check your package index or proxy"
        )


def pip_download(package: Package, folder: Path) -> None:
    """Download a wheel with pip, which checks the hash as well."""
    implementation, abi, platform = package.tags
    with tempfile.TemporaryDirectory() as name:
        requirements = Path(name) / "requirements.txt"
        requirements.write_text(f"{package.pin} --hash=sha256:{package.sha256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
        command += ["--progress-bar", "off", "--no-cache-dir", "--no-deps", "--only-binary", ":all:"]
        # The target is explicit because the file is only read: it need not match the running Python and platform.
        command += ["--python-version", package.python, "--implementation", implementation, "--abi", abi]
        command += ["--platform", platform, "--require-hashes", "--requirement", str(requirements)]
        command += ["--dest", str(folder)]
        # pip's temporary files are below the folder, where the file is moved from, and where its progress is seen.
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=os.environ | {"TMPDIR": str(folder)},
        )
    if done.returncode:
        raise FetchError(f"{package.pin}: {_explain(done.stdout + done.stderr)}")


def _explain(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    if "No module named pip" in output:
        return "this Python has no pip; run python -m ensurepip, or install pip next to Lacuna"
    if "DO NOT MATCH THE HASHES" in output:
        return "the index has a file with another sha256 than the pinned one; check your package index or proxy"
    if any(sign in output for sign in _OFFLINE):
        return f"no connection to the package index; check network and proxy, then run the same command again ({last})"
    if "from versions: none" in output:
        # pip prints only this, too, if the index cannot be reached and retries are turned off.
        return "the package index has no version of it or cannot be reached; check network, proxy and index settings"
    errors = [line for line in lines if line.startswith("ERROR:")]
    return f"pip download failed: {errors[-1] if errors else last}"


def read_pairs(package: Package, path: Path, languages: Languages) -> Iterator[SentencePair]:
    """Yield all translated messages of a wheel as pairs, in an order that depends on the wheel only.

    :param package: The package.
    :param path: Its wheel.
    :param languages: The direction; if neither side is English, two catalogs are joined by their message ids.
    """
    with zipfile.ZipFile(path) as wheel:
        slots = find_catalogs(package, wheel.namelist())
        for slot in sorted(slots):
            sides = [_side(wheel, package, slots[slot], code) for code in (languages.source, languages.target)]
            for source, target, place, member in _join(*sides):
                yield SentencePair(
                    tidy(source, package.accelerator),
                    tidy(target, package.accelerator),
                    Origin(f"{package.pin}:{member}", place, package.name),
                )


def find_catalogs(package: Package, names: list[str]) -> Slots:
    """Group the catalogs of a wheel by what they translate, then by language.

    :param package: Has the globs of the catalogs.
    :param names: The members of the wheel.
    """
    slots: Slots = defaultdict(lambda: defaultdict(dict))
    patterns = [_pattern(glob) for glob in package.catalogs]
    # .po replaces .mo: they are the same catalog, and only .po has fuzzy flags and comments.
    for name in sorted(names, key=lambda name: (name.endswith(".po"), name)):
        match = next(filter(None, (pattern.fullmatch(name) for pattern in patterns)), None)
        if match is None:
            continue
        locale = match["locale"]
        slot = (name[: match.start("locale")] + "{locale}" + name[match.end("locale") :]).rpartition(".")[0]
        slots[slot][canonical(locale)][locale] = name
    return slots


def _pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*|\{locale\})", glob)
    meanings = {"**/": "(?:.+/)?", "*": "[^/]*", "{locale}": f"(?P<locale>{LOCALE})"}
    return re.compile("".join(meanings.get(part, re.escape(part)) for part in parts))


def _side(
    wheel: zipfile.ZipFile, package: Package, by_language: dict[str, Spellings], language: str
) -> dict[str, Located] | None:
    """Return the messages of one side by key; None for English if every translation already comes with it."""
    wanted = canonical(language)
    if wanted == "en" and package.kind is CatalogKind.GETTEXT:
        return None
    messages: dict[str, Located] = {}
    spellings = by_language.get(wanted, {})
    for locale in sorted(spellings, key=best_first):
        member = spellings[locale]
        for message in read_catalog(read_member(wheel, member), member, keyed=package.keyed):
            messages.setdefault(message.key, (message, member))
    return messages


def _join(source: dict[str, Located] | None, target: dict[str, Located] | None) -> Iterator[tuple[str, str, str, str]]:
    """Yield source text, target text, place and member of each message that both sides have."""
    if source is None and target is not None:
        for message, member in target.values():
            yield message.english or "", message.text, message.place, member
    elif source is not None and target is None:
        for message, member in source.values():
            yield message.text, message.english or "", message.place, member
    elif source is not None and target is not None:
        for key, (message, member) in source.items():
            if key in target:
                yield message.text, target[key][0].text, message.place, member


def read_member(wheel: zipfile.ZipFile, name: str, largest: int = MAX_CATALOG_BYTES) -> bytes:
    """Read a member of at most ``largest`` bytes, whatever size the zip file claims."""
    try:
        with wheel.open(name) as member:
            data = member.read(largest + 1)
    except (zipfile.BadZipFile, EOFError) as error:
        raise FetchError(f"{name}: the wheel is damaged here ({error}); delete it from the cache and retry") from error
    if len(data) > largest:
        raise FetchError(f"{name}: the catalog unpacks to more than {largest:,} bytes, which is refused as unsafe")
    return data
