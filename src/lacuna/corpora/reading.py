"""Read a corpus: find its files and their format, then stream sentence pairs.

Knows no details of any format. Changes and drops nothing; cleaning does that.
"""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lacuna.corpora.text import read_jsonl, read_plain, read_tsv
from lacuna.corpora.units import Unit, mo_units, po_units, tmx_units, xliff_units
from lacuna.errors import CorpusError, LacunaWarning
from lacuna.formats.input_files import COMPRESSIONS, content_suffix
from lacuna.records import Languages, Origin, SentencePair

READERS: dict[str, Callable[[Path, Languages | None], Iterator[Unit]]] = {
    ".tsv": lambda path, _: read_tsv(path),
    ".jsonl": lambda path, _: read_jsonl(path),
    ".tmx": tmx_units,
    ".po": po_units,
    ".mo": mo_units,
    ".xlf": xliff_units,
    ".xliff": xliff_units,
}
BILINGUAL_SUFFIXES = tuple(READERS)

_ALLOWED = f"{' '.join(BILINGUAL_SUFFIXES)} (each also {' '.join(COMPRESSIONS)})"


# Files that a report names; the number of the others is enough.
_MAX_NAMED = 5


@dataclass(slots=True)
class ReadingReport:
    """What was found while reading several files.

    :param files: Number of files that were read.
    :param empty: Those without any sentence pair, which were skipped.
    """

    files: int = 0
    empty: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Return one sentence about the files that were skipped; an empty string without any."""
        if not self.empty:
            return ""
        named = ", ".join(self.empty[:_MAX_NAMED]) + (" ..." if len(self.empty) > _MAX_NAMED else "")
        what = "has no translation and was" if len(self.empty) == 1 else "have no translation and were"
        return f"{len(self.empty):,} of {self.files:,} files {what} skipped: {named}"


def read_corpus(
    source: str | Path,
    target: str | Path | None = None,
    *,
    languages: Languages | None = None,
    tag: str | None = None,
) -> Iterator[SentencePair]:
    """Stream the sentence pairs of a corpus.

    A corpus is two plain files aligned by line, one bilingual file, a prefix ``P`` for which ``P.de`` and ``P.en``
    exist (``languages`` is then required), a folder with bilingual files at any depth, or a pattern such as
    ``locale/**/*.po``. Wrong names raise at once, errors inside a file when the stream reaches them. A corpus without
    any pair raises at the end of the stream. Files of a folder or pattern that have none are skipped, with a warning
    that counts them.

    :param source: The source side, the bilingual file, the prefix, the folder or the pattern.
    :param target: The target side, if ``source`` is one of two plain files.
    :param languages: The direction. TMX needs it unless the file has exactly two languages. PO, MO and XLIFF files of
        the opposite direction are swapped; files of other languages are an error.
    :param tag: A label for all pairs; a tag in the file takes precedence.
    :raises CorpusError: The files are not parallel text as described.
    """
    if target is not None:
        pair = (_plain(Path(source)), _plain(Path(target)))
        return _all_pairs([source], [_CorpusFile(os.fspath(source), lambda: read_plain(*pair))], tag, None)
    return read_corpora([source], languages=languages, tag=tag)


def read_corpora(
    sources: Sequence[str | Path],
    *,
    languages: Languages | None = None,
    tag: str | None = None,
    report: ReadingReport | None = None,
) -> Iterator[SentencePair]:
    """Stream the sentence pairs of several corpora, as :func:`read_corpus` takes them.

    Files without any pair are skipped, unless all files are.

    :param report: Counts the files that were read and skipped; without one, a warning does.
    """
    files = [file for source in sources for file in _files(source, languages)]
    return _all_pairs(sources, files, tag, report)


@dataclass(frozen=True, slots=True)
class _CorpusFile:
    """A file, or two plain ones.

    :param name: The file as the user would name it.
    :param read: Streams its units.
    """

    name: str
    read: Callable[[], Iterator[Unit]]


def _all_pairs(
    sources: Sequence[str | Path], files: Sequence[_CorpusFile], tag: str | None, report: ReadingReport | None
) -> Iterator[SentencePair]:
    counts = ReadingReport() if report is None else report
    for file in files:
        counts.files += 1
        empty = True
        for pair in _pairs(file.read, file.name, tag):
            empty = False
            yield pair
        if empty:
            counts.empty.append(file.name)
    if len(counts.empty) == len(files):
        names = ", ".join(map(str, sources[:_MAX_NAMED])) + (" ..." if len(sources) > _MAX_NAMED else "")
        which = "no sentence pair found" if len(files) == 1 else f"none of its {len(files):,} files has a translation"
        raise CorpusError(f"{names}: empty corpus, {which}; name a file with at least one translation")
    if report is None and counts.empty:
        warnings.warn(counts.summary(), LacunaWarning, stacklevel=2)


def _pairs(read: Callable[[], Iterator[Unit]], file: str, tag: str | None) -> Iterator[SentencePair]:
    for unit in read():
        yield SentencePair(unit.source, unit.target, Origin(file, unit.place, unit.tag or tag), unit.id)


def _files(source: str | Path, languages: Languages | None) -> list[_CorpusFile]:
    """Find the files of a corpus."""
    path = Path(source)
    if path.is_dir() and not (languages and _side(path, languages.source) and _side(path, languages.target)):
        return _in_folder(path, languages)
    if glob.has_magic(os.fspath(source)) and not path.exists():
        return _matching(os.fspath(source), languages)
    if content_suffix(path) in READERS:
        return [_bilingual(_existing(path), os.fspath(source), languages)]
    left, right = _prefixed(path, languages)
    return [_CorpusFile(str(left), lambda: read_plain(left, right))]


def _bilingual(path: Path, name: str, languages: Languages | None) -> _CorpusFile:
    reader = READERS[content_suffix(path)]
    return _CorpusFile(name, lambda: reader(path, languages))


def _in_folder(folder: Path, languages: Languages | None) -> list[_CorpusFile]:
    """Find bilingual files at any depth, in the order of their names, without hidden files and folders."""
    paths: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [Path(parent, name) for name in names if not name.startswith(".")]
    files = sorted(path for path in paths if content_suffix(path) in READERS)
    if not files:
        raise CorpusError(f"{folder}: no corpus in this folder; looked for {_ALLOWED}")
    return [_bilingual(path, str(path), languages) for path in files]


def _matching(pattern: str, languages: Languages | None) -> list[_CorpusFile]:
    """Find the files that a pattern names, in the order of their names."""
    names = glob.glob(pattern, recursive=True)  # noqa: PTH207 - the pattern may be absolute
    paths = [Path(name) for name in sorted(names)]
    if not paths:
        raise CorpusError(f"{pattern}: no file matches; check the pattern and the current folder")
    for path in paths:
        if path.is_file() and content_suffix(path) not in READERS:
            raise CorpusError(f"{path}: unsupported suffix {content_suffix(path) or 'none'}; allowed: {_ALLOWED}")
    return [_bilingual(path, str(path), languages) for path in paths if path.is_file()]


def _existing(path: Path) -> Path:
    if not path.exists():
        raise CorpusError(f"{path}: no such file; check the name and the current folder")
    if path.is_dir():
        raise CorpusError(f"{path}: is a folder; name a file in it")
    return path


def _plain(path: Path) -> Path:
    if content_suffix(path) in READERS:
        raise CorpusError(f"{path}: a {content_suffix(path)} file has both languages; give it alone, not as one of two")
    return _existing(path)


def _prefixed(prefix: Path, languages: Languages | None) -> tuple[Path, Path]:
    """Find the two files of the Moses convention, or raise an error that explains why ``prefix`` is not a corpus."""
    siblings = _siblings(prefix)
    if languages is not None:
        left, right = _side(prefix, languages.source), _side(prefix, languages.target)
        if left and right:
            return left, right
        if left or right:
            missing = languages.target if left else languages.source
            raise CorpusError(f"{prefix}: found {left or right} but no {prefix}.{missing}; both sides are needed")
        if siblings and not prefix.exists():
            raise CorpusError(
                f"{prefix}: no files for {languages}; found {', '.join(siblings)}: give the languages of two of these"
            )
    elif siblings and not prefix.is_file():
        raise CorpusError(f"{prefix}: languages are missing; found {', '.join(siblings)}: choose two, as in de-en")
    if prefix.is_file():
        suffix = content_suffix(prefix) or "none"
        raise CorpusError(f"{prefix}: unsupported suffix {suffix}; allowed: {_ALLOWED}, or two plain files")
    _existing(prefix)
    raise AssertionError("an existing path is a file or a folder")


def _side(prefix: Path, language: str) -> Path | None:
    for compression in ("", *COMPRESSIONS):
        path = prefix.with_name(f"{prefix.name}.{language}{compression}")
        if path.is_file():
            return path
    return None


def _siblings(prefix: Path) -> list[str]:
    if not prefix.parent.is_dir():
        return []
    return sorted(str(path) for path in prefix.parent.iterdir() if path.name.startswith(f"{prefix.name}."))
