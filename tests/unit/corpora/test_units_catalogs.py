"""PO and MO: which messages count, which side is which, what their place is called."""

import gzip
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from lacuna.corpora import read_corpus
from lacuna.errors import CorpusError
from lacuna.records import Languages, SentencePair
from unit.corpora.mo_files import compile_mo

HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n\n'
PO = (
    HEADER
    + r"""
#, fuzzy
msgid "Print"
msgstr "Drucker"

#: main.c:3
msgctxt "menu"
msgid "Open\n"
"now"
msgstr "Jetzt\n"
"öffnen"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

msgid "untranslated"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"
#"""
)


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def texts(pairs: Iterable[SentencePair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


GOLDEN = [("Open\nnow", "Jetzt\nöffnen"), ("%d file", "%d Datei"), ("%d files", "%d Dateien")]


def test_po_yields_only_finished_messages(tmp_path: Path) -> None:
    pairs = list(read_corpus(write(tmp_path / "a.po", PO)))
    assert texts(pairs) == GOLDEN
    assert [pair.origin.place for pair in pairs] == [r"menu|Open\nnow", "%d file[0]", "%d file[1]"]


def test_msgid_is_english(tmp_path: Path) -> None:
    path = write(tmp_path / "a.po", PO)
    assert texts(read_corpus(path, languages=Languages("en", "de"))) == GOLDEN
    assert texts(read_corpus(path, languages=Languages("de", "en"))) == [(right, left) for left, right in GOLDEN]


def test_msgid_is_what_the_header_says(tmp_path: Path) -> None:
    header = HEADER.replace("Language: de", 'X-Source-Language: de\\n"\n"Language: fr')
    path = write(tmp_path / "a.po", header + 'msgid "Haus"\nmsgstr "maison"\n')
    assert texts(read_corpus(path, languages=Languages("fr", "de"))) == [("maison", "Haus")]
    assert texts(read_corpus(path, languages=Languages("de", "fr"))) == [("Haus", "maison")]


def test_other_languages_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.po", PO)
    with pytest.raises(CorpusError, match=r"msgid is en and msgstr is de, but the languages asked for are fr-en"):
        list(read_corpus(path, languages=Languages("fr", "en")))
    with pytest.raises(CorpusError, match=r"asked for are de-fr"):
        list(read_corpus(path, languages=Languages("de", "fr")))


def test_a_language_in_words_is_not_compared(tmp_path: Path) -> None:
    path = write(tmp_path / "a.po", HEADER.replace("Language: de", "Language: German") + 'msgid "a"\nmsgstr "b"\n')
    assert texts(read_corpus(path, languages=Languages("de", "en"))) == [("b", "a")]


def test_regional_catalogs_match(tmp_path: Path) -> None:
    path = write(tmp_path / "a.po", HEADER.replace("Language: de", "Language: pt_BR") + 'msgid "a"\nmsgstr "b"\n')
    assert texts(read_corpus(path, languages=Languages("pt_BR", "en"))) == [("b", "a")]


def test_one_plural_form_serves_both(tmp_path: Path) -> None:
    header = HEADER.replace("Language: de", "Language: zh_CN")
    path = write(tmp_path / "a.po", header + 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d 个文件"\n')
    assert texts(read_corpus(path)) == [("%d file", "%d 个文件"), ("%d files", "%d 个文件")]


def test_three_plural_forms_give_first_and_last(tmp_path: Path) -> None:
    header = HEADER.replace("Language: de", "Language: pl")
    forms = 'msgstr[0] "plik"\nmsgstr[1] "pliki"\nmsgstr[2] "plików"\n'
    path = write(tmp_path / "a.po", header + 'msgid "file"\nmsgid_plural "files"\n' + forms)
    pairs = list(read_corpus(path))
    assert texts(pairs) == [("file", "plik"), ("files", "plików")]
    assert [pair.origin.place for pair in pairs] == ["file[0]", "file[2]"]


def test_the_charset_of_the_header_is_used(tmp_path: Path) -> None:
    text = HEADER.replace("UTF-8", "ISO-8859-1") + 'msgid "open"\nmsgstr "öffnen"\n'
    assert texts(read_corpus(write(tmp_path / "a.po", text, "latin-1"))) == [("open", "öffnen")]


def test_windows_line_ends_and_compression(tmp_path: Path) -> None:
    path = tmp_path / "a.po.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + PO.replace("\n", "\r\n").encode()))
    assert texts(read_corpus(path)) == GOLDEN


MESSAGES = {
    "": "Content-Type: text/plain; charset=UTF-8\nLanguage: de\n",
    "menu\x04Open": "Öffnen",
    "%d file\0%d files": "%d Datei\0%d Dateien",
}


@pytest.mark.parametrize("order", ["<", ">"])
def test_mo(tmp_path: Path, order: str) -> None:
    (tmp_path / "a.mo").write_bytes(compile_mo(MESSAGES, order))
    pairs = list(read_corpus(tmp_path / "a.mo", languages=Languages("de", "en")))
    assert sorted((pair.source, pair.target, pair.origin.place) for pair in pairs) == [
        ("%d Datei", "%d file", "%d file[0]"),
        ("%d Dateien", "%d files", "%d file[1]"),
        ("Öffnen", "Open", "menu|Open"),
    ]


def test_a_truncated_mo_is_refused_at_every_length(tmp_path: Path) -> None:
    catalog = compile_mo(MESSAGES)
    for length in range(len(catalog) - 1):  # the very last byte only closes the last string
        (tmp_path / "a.mo").write_bytes(catalog[:length])
        with pytest.raises(CorpusError, match="malformed MO"):
            list(read_corpus(tmp_path / "a.mo"))


def test_an_mo_whose_strings_overlap_is_refused(tmp_path: Path) -> None:
    """A table of references to one long string would unpack a small file to any size."""
    catalog = bytearray(compile_mo({f"{number:03d}": "x" * 1000 for number in range(100)}))
    table = 28 + 8 * 100
    for number in range(100):
        catalog[table + 8 * number : table + 8 * number + 8] = struct.pack("<2I", 50_000, 2000)
    (tmp_path / "a.mo").write_bytes(catalog)
    with pytest.raises(CorpusError, match=r"malformed MO \(messages overlap: 5,000,300 bytes of text in a file of"):
        list(read_corpus(tmp_path / "a.mo"))


def test_the_charset_of_an_mo_is_that_of_its_header(tmp_path: Path) -> None:
    messages = {"": "Content-Type: text/plain; charset=UTF-8\n", "!charset=klingon": "Größe"}
    (tmp_path / "a.mo").write_bytes(compile_mo(messages))
    assert texts(read_corpus(tmp_path / "a.mo")) == [("!charset=klingon", "Größe")]


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0c", "\x1c"])
def test_only_a_newline_ends_a_line_of_a_po(tmp_path: Path, mark: str) -> None:
    path = write(tmp_path / "a.po", HEADER + f'msgid "a{mark}b"\nmsgstr "c{mark}d"\n')
    assert texts(read_corpus(path)) == [(f"a{mark}b", f"c{mark}d")]


@pytest.mark.parametrize("comment", ["#,fuzzy", "#, c-format, fuzzy", "#,  fuzzy"])
def test_every_spelling_of_fuzzy_counts(tmp_path: Path, comment: str) -> None:
    path = write(tmp_path / "a.po", HEADER + f'{comment}\nmsgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr "d"\n')
    assert texts(read_corpus(path)) == [("c", "d")]


@pytest.mark.parametrize("comment", ["#", "#:", "#,", "#.", "#~", "#comment", "#:file.c:3", '#| msgid "old"', "#~|"])
def test_comments_lose_no_message(tmp_path: Path, comment: str) -> None:
    """Comments without text or space, also as the last line of a file."""
    entry = 'msgid"a"\nmsgstr"b"\n'
    path = write(tmp_path / "a.po", f"{HEADER}{comment}\n{entry}{comment}")
    assert texts(read_corpus(path)) == [("a", "b")]


def test_escapes_are_undone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.po", HEADER + r'msgid "a\t\"b\"\\n"' + "\n" + r'msgstr "c\nd"' + "\n")
    assert texts(read_corpus(path)) == [('a\t"b"\\n', "c\nd")]


# --- what corpora and documents once read differently ----------------------------------------------------------------


def test_escapes_are_those_of_gettext(tmp_path: Path) -> None:
    path = write(tmp_path / "a.po", HEADER + r'msgid "a\101\x42\a"' + "\n" + r'msgstr "b"' + "\n")
    assert texts(read_corpus(path)) == [("aAB\a", "b")]
    path = write(tmp_path / "a.po", HEADER + r'msgid "\q"' + "\n" + r'msgstr "b"' + "\n")
    with pytest.raises(CorpusError, match=r"a\.po:6: malformed PO \(the escape \\q: write the character itself\)"):
        list(read_corpus(path))


def test_obsolete_messages_are_not_parsed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.po", HEADER + 'msgid "a"\nmsgstr "b"\n\n#~ msgid broken\n')
    assert texts(read_corpus(path)) == [("a", "b")]


def test_a_charset_in_a_comment_does_not_count(tmp_path: Path) -> None:
    path = write(tmp_path / "a.po", '# charset=klingon\nmsgid "a"\nmsgstr "ä"\n')
    assert texts(read_corpus(path)) == [("a", "ä")]


def test_a_message_without_translation_line_is_malformed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.po", HEADER + 'msgid "a"\n\nmsgid "b"\nmsgstr "c"\n')
    with pytest.raises(CorpusError, match=r"a\.po:8: malformed PO"):
        list(read_corpus(path))


def test_a_large_catalog_is_streamed(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_bytes((HEADER + 'msgid "a"\nmsgstr "b"\n\n' * 1_000 + "broken").encode())
    stream = read_corpus(tmp_path / "a.po")
    assert [next(stream).target for _ in range(1_000)] == ["b"] * 1_000
    with pytest.raises(CorpusError, match=r"a\.po:3006: malformed PO"):
        next(stream)
