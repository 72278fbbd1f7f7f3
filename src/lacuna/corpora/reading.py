"""Read a corpus: find its files and their format, then stream sentence pairs.

Knows no details of any format. Changes and drops nothing; cleaning does that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from lacuna.corpora.base import COMPRESSIONS, Unit, content_suffix
from lacuna.corpora.catalogs import read_mo, read_po
from lacuna.corpora.markup import read_tmx, read_xliff
from lacuna.corpora.text import read_jsonl, read_plain, read_tsv
from lacuna.errors import CorpusError
from lacuna.records import Languages, Origin, SentencePair

READERS: dict[str, Callable[[Path, Languages | None], Iterator[Unit]]] = {
    ".tsv": lambda path, _: read_tsv(path),
    ".jsonl": lambda path, _: read_jsonl(path),
    ".tmx": read_tmx,
    ".po": read_po,
    ".mo": read_mo,
    ".xlf": read_xliff,
    ".xliff": read_xliff,
}
BILINGUAL_SUFFIXES = tuple(READERS)

_ALLOWED = f"{' '.join(BILINGUAL_SUFFIXES)} (each also {' '.join(COMPRESSIONS)})"


def read_corpus(
    source: str | Path,
    target: str | Path | None = None,
    *,
    languages: Languages | None = None,
    tag: str | None = None,
) -> Iterator[SentencePair]:
    """Stream the sentence pairs of a corpus.

    A corpus is two plain files aligned by line, one bilingual file, or a prefix ``P`` for which ``P.de`` and ``P.en``
    exist (``languages`` is then required). Wrong names raise at once, errors inside a file when the stream reaches
    them. A corpus without any pair raises at the end of the stream.

    :param source: The source side, the bilingual file, or the prefix.
    :param target: The target side, if ``source`` is one of two plain files.
    :param languages: The direction. TMX needs it unless the file has exactly two languages. PO, MO and XLIFF files of
        the opposite direction are swapped; files of other languages are an error.
    :param tag: A label for all pairs; a tag in the file takes precedence.
    :raises CorpusError: The files are not parallel text as described.
    """
    named = os.fspath(source)
    if target is not None:
        pair = (_plain(Path(source)), _plain(Path(target)))
        return _pairs(read_plain(*pair), named, tag)
    path = Path(source)
    reader = READERS.get(content_suffix(path))
    if reader is not None:
        return _pairs(reader(_existing(path), languages), named, tag)
    left, right = _prefixed(path, languages)
    return _pairs(read_plain(left, right), str(left), tag)


def _pairs(units: Iterator[Unit], file: str, tag: str | None) -> Iterator[SentencePair]:
    empty = True
    for unit in units:
        empty = False
        yield SentencePair(unit.source, unit.target, Origin(file, unit.place, unit.tag or tag), unit.id)
    if empty:
        raise CorpusError(f"{file}: empty corpus, no sentence pair found; name a file with at least one translation")


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
