"""Bad input: every message is one line and says what, where, and the way out."""

import gzip
import re
from pathlib import Path

import pytest

from lacuna.corpora import read_corpus
from lacuna.errors import CorpusError
from lacuna.records import Languages

DE_EN = Languages("de", "en")

# name of the case, files, arguments, words the message must hold
BAD = {
    "fewer target lines": (
        {"a.de": b"1\n2\n3\n", "a.en": b"1\n"},
        ("a.de", "a.en"),
        r"a\.de has 3 lines but a\.en has 1;",
    ),
    "fewer source lines": (
        {"a.de": b"1\n", "a.en": b"1\n2\n3"},
        ("a.de", "a.en"),
        r"a\.de has 1 lines but a\.en has 3;",
    ),
    "one side empty": ({"a.de": b"", "a.en": b"1\n"}, ("a.de", "a.en"), r"a\.de has 0 lines but a\.en has 1;"),
    "encoding": (
        {"a.tsv": b"a\tb\nfoo\xe4\tb\n"},
        ("a.tsv",),
        r"a\.tsv:2: not UTF-8 \(byte 0xe4 at column 4\); convert",
    ),
    "encoding of one side": ({"a.de": b"a\n", "a.en": b"\xff\n"}, ("a.de", "a.en"), r"a\.en:1: not UTF-8"),
    "one column": (
        {"a.tsv": b"a\tb\nonly\n"},
        ("a.tsv",),
        r"a\.tsv:2: got 1 column; each line is source<TAB>target",
    ),
    "four columns": ({"a.tsv": b"a\tb\tc\td\n"}, ("a.tsv",), r"a\.tsv:1: got 4 columns;"),
    "not JSON": ({"a.jsonl": b'{"source": "a", \n'}, ("a.jsonl",), r"a\.jsonl:1: not JSON \(.*\); write one object"),
    "JSON list": (
        {"a.jsonl": b'["a", "b"]\n'},
        ("a.jsonl",),
        r"a\.jsonl:1: got a JSON list; write one object per line",
    ),
    "JSON key": (
        {"a.jsonl": b'{"source": "a", "tgt": "b"}\n'},
        ("a.jsonl",),
        r"no key 'target', got 'source', 'tgt'; each",
    ),
    "JSON number": ({"a.jsonl": b'{"source": "a", "target": 3}\n'}, ("a.jsonl",), r"'target' is a int, not a string"),
    "JSON surrogate": ({"a.jsonl": b'{"source": "\\ud83d", "target": ""}\n'}, ("a.jsonl",), r"half a surrogate pair"),
    "TMX cut off": (
        {"a.tmx": b"<tmx>\n<body>\n<tu>"},
        ("a.tmx",),
        r"a\.tmx:3: malformed XML \(no element found\); check the file",
    ),
    "TMX empty file": ({"a.tmx": b""}, ("a.tmx",), r"a\.tmx:1: malformed XML \("),
    "TMX bad bytes": (
        {"a.tmx": b"<tmx>\n\xff\n</tmx>"},
        ("a.tmx",),
        r"a\.tmx:2: malformed XML \(.* 0xff is not UTF-8",
    ),
    "TMX null": (
        {"a.tmx": b"<tmx>\n<body>\0</body>\n</tmx>"},
        ("a.tmx",),
        r"a\.tmx:2: malformed XML \([^\n]*\); check the file",
    ),
    "XLIFF quoted lines": (
        {"a.xlf": b"<xliff><![CDATA[\na\nb"},
        ("a.xlf",),
        r"a\.xlf:\d: malformed XML \(unclosed CDATA section\)",
    ),
    "TMX root": (
        {"a.tmx": b"<html/>"},
        ("a.tmx",),
        r"a\.tmx:1: not TMX, the root element is <html> instead of <tmx>; check the suffix",
    ),
    "TMX no lang": (
        {"a.tmx": b"<tmx><tu>\n<tuv><seg>a</seg></tuv></tu></tmx>"},
        ("a.tmx",),
        r"a\.tmx:2: .*without xml:lang",
    ),
    "TMX no units": ({"a.tmx": b"<tmx/>"}, ("a.tmx",), r"a\.tmx: empty corpus, no sentence pair found"),
    "XLIFF mismatched": (
        {"a.xlf": b"<xliff>\n<file></xliff>"},
        ("a.xlf",),
        r"a\.xlf:2: malformed XML \(mismatched",
    ),
    "XLIFF root": ({"a.xlf": b"<tmx/>"}, ("a.xlf",), r"a\.xlf:1: not XLIFF, the root element is <tmx>"),
    "PO garbage": (
        {"a.po": b'msgid "a"\nmsgstr "b"\nfoo\n'},
        ("a.po",),
        r"a\.po:3: malformed PO \(",
    ),
    "PO open quote": ({"a.po": b'msgid "a"\nmsgstr "b\n'}, ("a.po",), r"a\.po:2: malformed PO \("),
    "PO quote inside": ({"a.po": b'msgid "a "b" c"\nmsgstr "b"\n'}, ("a.po",), r"a\.po:1: malformed PO \("),
    "PO order": ({"a.po": b'msgstr "b"\nmsgid "a"\n'}, ("a.po",), r"a\.po:1: malformed PO \("),
    "PO encoding": ({"a.po": b'msgid "a"\nmsgstr "\xe4"\n'}, ("a.po",), r"a\.po:2: not UTF-8 \(byte 0xe4"),
    "PO charset": (
        {"a.po": b'msgid ""\nmsgstr "Content-Type: text/plain; charset=KLINGON\\n"\n'},
        ("a.po",),
        r"a\.po:1: the header names the charset 'KLINGON', which is unknown",
    ),
    "MO garbage": ({"a.mo": b"not a catalog at all"}, ("a.mo",), r"a\.mo: malformed MO \(not an MO file\)"),
    "missing file": ({}, ("a.tsv",), r"a\.tsv: no such file; check the name"),
    "missing target": ({"a.de": b"1\n"}, ("a.de", "a.en"), r"a\.en: no such file"),
    "a folder as one of two": ({"a/b.tsv": b"1\t1\n", "c": b"1"}, ("a", "c"), r"a: is a folder; name a file in it"),
    "a folder without corpora": (
        {"a/b.txt": b"1", "a/.c.tsv": b"1\t1"},
        ("a",),
        r"a: no corpus in this folder; looked",
    ),
    "a folder without pairs": (
        {"a/b.tsv": b"", "a/c/d.po": b'msgid "a"\nmsgstr ""\n'},
        ("a",),
        r"a: empty corpus, none of its 2 files has a translation; name",
    ),
    "a pattern without files": ({"a.tsv": b"1\t1\n"}, ("*.po",), r"\*\.po: no file matches; check the pattern"),
    "a pattern with others": (
        {"a.tsv": b"1\t1\n", "a.txt": b""},
        ("a.*",),
        r"a\.txt: unsupported suffix \.txt; allowed",
    ),
    "two empty plain files": ({"a.de": b"", "a.en": b""}, ("a.de", "a.en"), r"a\.de: empty corpus, no sentence pair"),
    "nothing of that name": ({}, ("train",), r"train: no such file"),
    "suffix": ({"a.csv": b"1,1\n"}, ("a.csv",), r"unsupported suffix \.csv; allowed: \.tsv \.jsonl \.tmx .*\.gz \.xz"),
    "suffix within": ({"a.doc.gz": b""}, ("a.doc.gz",), r"unsupported suffix \.doc; allowed"),
    "no languages": (
        {"a.de": b"1\n", "a.en": b"1\n"},
        ("a",),
        r"languages are missing; found a\.de, a\.en: choose",
    ),
    "bilingual twice": (
        {"a.tsv": b"1\t1\n", "b": b"1\n"},
        ("a.tsv", "b"),
        r"a \.tsv file has both languages; give it alone",
    ),
    "empty TSV": ({"a.tsv": b"\n\n"}, ("a.tsv",), r"a\.tsv: empty corpus, no sentence pair found"),
    "empty plain": ({"a.de": b"", "a.en": b""}, ("a.de", "a.en"), r"a\.de: empty corpus"),
    "not gzip": ({"a.tsv.gz": b"a\tb\n"}, ("a.tsv.gz",), r"a\.tsv\.gz: damaged, or not compressed as \.gz \("),
    "cut gzip": (
        {"a.tsv.gz": gzip.compress(b"a\tb\n" * 9)[:-9]},
        ("a.tsv.gz",),
        r"a\.tsv\.gz: damaged, or not compressed",
    ),
    "not xz": ({"a.jsonl.xz": b"a\tb\n"}, ("a.jsonl.xz",), r"a\.jsonl\.xz: damaged, or not compressed as \.xz"),
    "not gzip TMX": ({"a.tmx.gz": b"<tmx/>"}, ("a.tmx.gz",), r"a\.tmx\.gz: damaged, or not compressed"),
}


def fill(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    files, arguments, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    fill(tmp_path, files)
    with pytest.raises(CorpusError) as caught:
        list(read_corpus(*arguments))
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)  # the way out comes after it


def test_half_a_prefix_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fill(tmp_path, {"a.de": b"1\n"})
    with pytest.raises(CorpusError, match=r"a: found a\.de but no a\.en; both sides are needed"):
        read_corpus("a", languages=DE_EN)


def test_a_prefix_of_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError, match=r"a: no such file"):
        read_corpus("a", languages=DE_EN)


def test_a_tmx_without_the_languages_says_which_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    unit = '<tu><tuv xml:lang="fr"><seg>a</seg></tuv><tuv xml:lang="it-CH"><seg>b</seg></tuv></tu>'
    fill(tmp_path, {"a.tmx": f"<tmx><body>{unit}</body></tmx>".encode()})
    with pytest.raises(
        CorpusError, match=r"no unit has both de and en; choose from the languages in the file: fr, it-ch"
    ):
        list(read_corpus("a.tmx", languages=DE_EN))


def test_names_are_checked_before_the_first_pair_is_asked_for() -> None:
    with pytest.raises(CorpusError, match="no such file"):
        read_corpus("nowhere.tsv")
