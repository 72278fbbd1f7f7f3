"""A corpus may be a folder or a pattern; files without translations are skipped and counted."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import pytest

from lacuna.corpora import ReadingReport, read_corpora, read_corpus
from lacuna.errors import CorpusError, LacunaWarning
from lacuna.records import Languages

FULL = 'msgid "{0}"\nmsgstr "{0} auf Deutsch"\n'
EMPTY = 'msgid "{0}"\nmsgstr ""\n'


def catalog(path: Path, form: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(form.format(path.stem), encoding="utf-8")
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    catalog(tmp_path / "p/z/b.po", FULL)
    catalog(tmp_path / "p/a.po", FULL)
    catalog(tmp_path / "p/.git/hidden.po", FULL)
    catalog(tmp_path / "p/.hidden.po", FULL)
    catalog(tmp_path / "p/readme.txt", FULL)
    (tmp_path / "p/c.tsv.gz").write_bytes(gzip.compress(b"c\tc auf Deutsch\n"))
    return tmp_path / "p"


def test_a_folder_is_searched_at_any_depth(project: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = list(read_corpus(project, tag="all"))
    assert [pair.source for pair in pairs] == ["a", "c", "b"]
    assert [pair.origin.file for pair in pairs] == [str(project / name) for name in ("a.po", "c.tsv.gz", "z/b.po")]
    assert {pair.origin.tag for pair in pairs} == {"all"}


def test_a_pattern(project: Path) -> None:
    assert [pair.source for pair in read_corpus(f"{project}/**/*.po")] == ["a", "b"]
    assert [pair.source for pair in read_corpus(f"{project}/[ab].po")] == ["a"]


def test_a_file_with_the_letters_of_a_pattern(tmp_path: Path) -> None:
    assert [pair.source for pair in read_corpus(catalog(tmp_path / "a[1].po", FULL))] == ["a[1]"]


def test_a_prefix_is_preferred_to_a_folder_of_the_same_name(project: Path) -> None:
    for language in ("de", "en"):
        project.with_name(f"p.{language}").write_text(f"{language}\n", encoding="utf-8")
    [pair] = read_corpus(project, languages=Languages("de", "en"))
    assert (pair.source, pair.target) == ("de", "en")


def test_files_without_translations_are_skipped_and_counted(project: Path) -> None:
    empty = [catalog(project / f"empty{number}.po", EMPTY) for number in range(7)]
    with pytest.warns(
        LacunaWarning, match=r"^7 of 10 files have no translation and were skipped: .*empty4\.po \.\.\.$"
    ):
        assert len(list(read_corpus(project))) == 3
    report = ReadingReport()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = list(read_corpora([*empty, project / "a.po"], report=report))
    assert ([pair.source for pair in pairs], report.files, report.empty) == (["a"], 8, [str(path) for path in empty])


def test_a_single_file_without_translation_is_an_error(project: Path) -> None:
    with pytest.raises(CorpusError, match=r"x\.po: empty corpus, no sentence pair found; name a file"):
        list(read_corpus(catalog(project / "x.po", EMPTY)))


def test_a_broken_file_of_a_folder_is_an_error(project: Path) -> None:
    catalog(project / "x.po", "msgid broken\n")
    with pytest.raises(CorpusError, match=r"x\.po:1: malformed PO"):
        list(read_corpus(project))
