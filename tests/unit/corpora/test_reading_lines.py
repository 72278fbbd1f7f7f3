"""Plain pairs, TSV, JSON lines and prefixes: what is read, and where it says it comes from."""

import gzip
import lzma
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from lacuna.corpora import read_corpus
from lacuna.records import Languages, Origin, SentencePair

DE_EN = Languages("de", "en")


def texts(pairs: Iterable[SentencePair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


def test_two_plain_files_are_read_line_by_line(tmp_path: Path) -> None:
    source, target = tmp_path / "a.de", tmp_path / "a.en"
    source.write_bytes("Öffnen\nSchließen\n".encode())
    target.write_bytes(b"Open\nClose\n")
    assert list(read_corpus(source, target, tag="menu")) == [
        SentencePair("Öffnen", "Open", Origin(str(source), "1", "menu")),
        SentencePair("Schließen", "Close", Origin(str(source), "2", "menu")),
    ]


def test_a_last_line_without_newline_counts(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_bytes(b"eins\nzwei")
    (tmp_path / "a.en").write_bytes(b"one\ntwo\n")
    assert texts(read_corpus(tmp_path / "a.de", tmp_path / "a.en")) == [("eins", "one"), ("zwei", "two")]


def test_blank_lines_keep_the_alignment(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_bytes(b"eins\n\ndrei\n")
    (tmp_path / "a.en").write_bytes(b"one\n\nthree\n")
    assert texts(read_corpus(tmp_path / "a.de", tmp_path / "a.en")) == [("eins", "one"), ("", ""), ("drei", "three")]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0c", "\x0b", "\x1c"])
def test_only_a_newline_ends_a_line(tmp_path: Path, mark: str) -> None:
    (tmp_path / "a.tsv").write_bytes(f"eins{mark}zwei\tone{mark}two\n".encode())
    assert texts(read_corpus(tmp_path / "a.tsv")) == [(f"eins{mark}zwei", f"one{mark}two")]


def test_byte_order_mark_and_crlf_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"\xef\xbb\xbfeins\tone\r\nzwei\ttwo\r\n")
    assert texts(read_corpus(tmp_path / "a.tsv")) == [("eins", "one"), ("zwei", "two")]


def test_tsv_tag_goes_before_the_tag_given(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"eins\tone\tclient A\nzwei\ttwo\ndrei\tthree\t\n\n")
    assert [pair.origin.tag for pair in read_corpus(tmp_path / "a.tsv", tag="all")] == ["client A", "all", "all"]


def test_empty_tsv_lines_still_count_as_places(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"eins\tone\n\nzwei\ttwo\n")
    assert [pair.origin.place for pair in read_corpus(tmp_path / "a.tsv")] == ["1", "3"]


def test_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"source": "a\\tb", "target": "\\u00fc", "tag": "x", "other": 7}\n\n{"source":"c","target":"d","tag":null}'
    )
    assert list(read_corpus(path)) == [
        SentencePair("a\tb", "ü", Origin(str(path), "1", "x")),
        SentencePair("c", "d", Origin(str(path), "3")),
    ]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".GZ", gzip.compress)])
def test_compressed_files_are_unpacked(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"a.tsv{suffix}"
    path.write_bytes(pack(b"eins\tone\n"))
    assert texts(read_corpus(path)) == [("eins", "one")]


def test_a_prefix_names_two_files(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_bytes(b"eins\n")
    (tmp_path / "train.en.gz").write_bytes(gzip.compress(b"one\n"))
    assert list(read_corpus(tmp_path / "train", languages=DE_EN)) == [
        SentencePair("eins", "one", Origin(str(tmp_path / "train.de"), "1"))
    ]
    assert texts(read_corpus(tmp_path / "train", languages=Languages("en", "de"))) == [("one", "eins")]


def test_a_prefix_may_hold_dots(tmp_path: Path) -> None:
    (tmp_path / "news.2019.de").write_bytes(b"eins\n")
    (tmp_path / "news.2019.en").write_bytes(b"one\n")
    assert texts(read_corpus(tmp_path / "news.2019", languages=DE_EN)) == [("eins", "one")]


def test_the_origin_is_named_as_the_user_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").write_bytes(b"eins\tone\n")
    assert next(read_corpus("./a.tsv")).origin == Origin("./a.tsv", "1")


def test_reading_is_a_stream(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"eins\tone\nbroken\n")
    stream = read_corpus(tmp_path / "a.tsv")
    assert next(stream).source == "eins"
    with pytest.raises(ValueError, match="1 column"):
        next(stream)
