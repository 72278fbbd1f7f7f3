"""PO: what is a segment, what is written, and that everything else stays as it is."""

import io
import shutil
import subprocess
from pathlib import Path

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.documents.base import DocumentSegment, Filled
from lacuna.documents.po import PoFormat
from lacuna.errors import DocumentError
from lacuna.formats.input_files import MAX_PART_BYTES
from lacuna.records import Languages
from unit.documents.fake_translations import GERMAN, cut, fill, messages, problem, shout

PLURALS = '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n'
HEADER = (
    'msgid ""\nmsgstr ""\n"MIME-Version: 1.0\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    '"Content-Transfer-Encoding: 8bit\\n"\n"Language: de\\n"\n' + PLURALS + "\n"
)
PO = (
    "# Kopf der Datei, von Zoë\n"
    + HEADER
    + r"""
# a note
#. extracted
#: shelf.c:3
#, c-format
msgctxt "menu"
msgid "Open the "
"%s\n"
msgstr ""

#: shelf.c:7
#, fuzzy, c-format
#| msgid "%d shelf"
msgid "%d drawer"
msgid_plural "%d drawers"
msgstr[0] "%d Regal"
msgstr[1] "%d Regale"

msgid "kept"
msgstr "behalten"

#, fuzzy
#~ msgid "old"
#~ msgstr "alt"

# the end"""
)


def po(content: str | bytes, languages: Languages = GERMAN) -> list[bytes | DocumentSegment]:
    return cut(content.encode() if isinstance(content, str) else content, PoFormat(), "a.po", languages)


def one(message: str, filled: Filled, header: str = HEADER) -> str:
    """Return how one message is written with a translation."""
    (segment,) = messages(po(header + message))
    return segment.render([filled] * len(segment.texts)).decode()


# --- segments --------------------------------------------------------------------------------------------------------


def test_each_message_is_a_segment() -> None:
    found = messages(po(PO))
    assert [segment.texts for segment in found] == [("Open the %s\n",), ("%d drawer", "%d drawers"), ("kept",)]
    assert [segment.existing for segment in found] == [("",), ("", ""), ("behalten",)]
    lines = PO.splitlines()
    assert [lines[int(segment.place) - 1] for segment in found] == [
        'msgctxt "menu"',
        'msgid "%d drawer"',
        'msgid "kept"',
    ]


def test_only_translations_and_flags_change() -> None:
    written = fill(po(PO), shout).decode()
    expected = PO.replace('"%s\\n"\nmsgstr ""', '"%s\\n"\nmsgstr "OPEN THE %s\\n"')
    expected = expected.replace('#, fuzzy, c-format\n#| msgid "%d shelf"', "#, c-format")
    expected = expected.replace("%d Regale", "%d DRAWERS").replace("%d Regal", "%d DRAWER").replace("behalten", "KEPT")
    assert written == expected


@pytest.mark.parametrize("content", [PO, PO + "\n", PO.replace("\n", "\r\n"), "\ufeff" + PO, HEADER, "", "\n\n# x"])
def test_parts_are_the_file(content: str) -> None:
    written = fill(po(content), shout)
    assert (b"\r\n" in written) == ("\r\n" in content)
    assert written.count(b"\r\n") in (0, written.count(b"\n"))
    assert written.endswith(b"\n") == content.endswith("\n")
    assert written.startswith(b"\xef\xbb\xbf") == content.startswith("\ufeff")


def test_a_last_line_without_line_end_stays_without() -> None:
    assert one('msgid "a"\nmsgstr ""', Filled("b")) == 'msgid "a"\nmsgstr "b"'


def test_messages_need_no_blank_lines_between_them_and_may_have_them_inside() -> None:
    content = HEADER + 'msgid "a"\nmsgstr ""\nmsgid "b"\n\nmsgstr ""\n\n"c"\n# of d\nmsgid "d"\nmsgstr ""\n'
    found = messages(po(content))
    assert [(segment.texts, segment.existing) for segment in found] == [
        (("a",), ("",)),
        (("b",), ("c",)),
        (("d",), ("",)),
    ]
    assert found[2].raw.startswith(b"# of d")


def test_a_context_without_text_stays() -> None:
    assert messages(po(HEADER + 'msgctxt "x"\nmsgid ""\nmsgstr ""\n')) == []


def test_private_use_characters_of_the_document_come_back() -> None:
    (segment,) = messages(po(HEADER + 'msgid "\ue001 icon \uf000"\nmsgstr "\uf000"\n'))
    assert segment.texts[0] != "\ue001 icon \uf000"
    assert 'msgstr "\ue001 ICON \uf000"' in segment.render([shout(segment.texts[0])]).decode()
    assert segment.render([Filled(segment.existing[0])]) == segment.raw


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "translation", "written"),
    [
        ("a", 'say "b\\c"\tnow', r'msgstr "say \"b\\c\"\tnow"'),
        (r"a\nb", "c\nd", 'msgstr ""\n"c\\n"\n"d"'),
        (r"a\n", "b", r'msgstr "b\n"'),
        (r"\na", "b\n", 'msgstr ""\n"\\n"\n"b"'),
        (r"\n\na\n", "\n\nb", 'msgstr ""\n"\\n"\n"\\n"\n"b\\n"'),
        ("a", "\nb\n", 'msgstr "b"'),
        (r"a\n", "", 'msgstr ""'),
        ("a", "b\u2028c", 'msgstr "b\u2028c"'),
    ],
)
def test_strings(source: str, translation: str, written: str) -> None:
    assert one(f'msgid "{source}"\nmsgstr ""\n', Filled(translation)) == f'msgid "{source}"\n{written}\n'


def test_escapes_are_read() -> None:
    (segment,) = messages(po(HEADER + r'msgid "a\"\\\t\101\x42"' + '\nmsgstr ""\n'))
    assert segment.texts == ('a"\\\tAB',)


MESSAGE = 'msgid "a"\nmsgstr "b"\n'


@pytest.mark.parametrize(
    ("before", "filled", "after"),
    [
        ("", Filled("b"), ""),
        ("", Filled("b", 0.866), "# confidence: 0.87\n"),
        ("", Filled("b", 0.1, True, "rare\nword"), "# confidence: 0.10\n# review: rare word\n#, fuzzy\n"),
        ("#: f.c:1\n#,  c-format\n", Filled("b", review=True), "#: f.c:1\n#, fuzzy, c-format\n"),
        ("#,  c-format\n", Filled("b"), "#,  c-format\n"),
        ("#, fuzzy\n", Filled("b"), ""),
        ('#, c-format, fuzzy\n#| msgid "x"\n', Filled("b"), "#, c-format\n"),
        ('#, fuzzy\n#| msgid "x"\n', Filled("b", review=True), '#, fuzzy\n#| msgid "x"\n'),
        ('#| msgid "x"\n', Filled("b", review=True), '#, fuzzy\n#| msgid "x"\n'),
        ("# mine\n# confidence: 0.12\n#. c\n", Filled("b", 0.5), "# mine\n# confidence: 0.50\n#. c\n"),
        ("# confidence: 0.12\n# review: old\n#, fuzzy\n", Filled("b", 1.0), "# confidence: 1.00\n"),
        ("# my confidence: 0.12\n", Filled("b"), "# my confidence: 0.12\n"),
    ],
)
def test_comments(before: str, filled: Filled, after: str) -> None:
    assert one(before + MESSAGE, filled) == after + MESSAGE


def test_the_least_confident_form_counts() -> None:
    (segment,) = messages(po(HEADER + 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] ""\n'))
    written = segment.render([Filled("c", 0.9), Filled("d", 0.4, True, "why")]).decode()
    assert written.startswith("# confidence: 0.40\n# review: why\n#, fuzzy\n")


# --- plural forms and the header -------------------------------------------------------------------------------------


def plural_texts(languages: Languages, header: str = "", singular: str = "%d cup", plural: str = "%d cups") -> str:
    """Return which source each form has: s for the singular, p for the plural."""
    entry = f'msgid "{singular}"\nmsgid_plural "{plural}"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    (segment,) = messages(po(header + entry, languages))
    return "".join("s" if text == singular else "p" for text in segment.texts)


def test_the_formula_of_the_target_language_counts() -> None:
    assert plural_texts(Languages("en", "ru")) == "spp"
    assert plural_texts(Languages("en", "ru"), singular="one cup") == "ppp"


def test_the_formula_of_the_header_counts() -> None:
    header = HEADER.replace("nplurals=2; plural=(n != 1)", "nplurals=3; plural=n==0 ? 2 : n==1 ? 1 : 0")
    assert plural_texts(GERMAN, header) == "psp"


@pytest.mark.parametrize("formula", ["nplurals=INTEGER; plural=EXPRESSION;", "nplurals=2; plural=n;", ""])
def test_an_invalid_formula_is_replaced(formula: str) -> None:
    header = HEADER.replace("nplurals=2; plural=(n != 1);", formula)
    assert plural_texts(GERMAN, header) == "sp"
    assert fill(po(header), shout).decode() == HEADER


def test_a_template_becomes_a_catalog() -> None:
    template = (
        '# Title\n#, fuzzy\nmsgid ""\nmsgstr ""\n"Project-Id-Version: x\\n"\n"Language: \\n"\n"MIME-Version: 1.0\\n"\n'
        '"Content-Type: text/plain; charset=CHARSET\\n"\n"Content-Transfer-Encoding: 8bit\\n"\n'
        '"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n\nmsgid "ä"\nmsgstr ""\n'
    )
    expected = template.replace("#, fuzzy\n", "").replace("Language: ", "Language: pt_BR").replace("CHARSET", "UTF-8")
    expected = expected.replace("nplurals=INTEGER; plural=EXPRESSION;", "nplurals=2; plural=(n > 1);")
    written = fill(po(template, Languages("en", "pt_BR")), shout).decode()
    assert written == expected.replace('"ä"\nmsgstr ""', '"ä"\nmsgstr "Ä"')


def test_a_complete_header_is_not_a_segment() -> None:
    assert [part for part in po(HEADER) if isinstance(part, DocumentSegment)] == []


def test_a_header_is_put_before_the_first_message() -> None:
    written = fill(po('\n# note\nmsgid "a"\nmsgstr ""\n'), shout).decode()
    assert written == "\n" + HEADER + '# note\nmsgid "a"\nmsgstr "A"\n'


def test_unknown_plural_forms_are_asked_for_only_if_needed() -> None:
    unknown = Languages("en", "xx")
    assert len(messages(po(MESSAGE, unknown))) == 1
    with pytest.raises(DocumentError, match=r"a\.po:1: the plural forms of xx are not known; add"):
        plural_texts(unknown)


@pytest.mark.parametrize("language", ["de", "de_AT", "de@euro", "DE", "German", "LANGUAGE"])
def test_regions_and_words_are_not_compared(language: str) -> None:
    assert po(HEADER.replace("Language: de", f"Language: {language}"), Languages("en", "de_DE"))


def test_other_languages_are_refused() -> None:
    with pytest.raises(DocumentError, match=r"a\.po:1: the header says Language: de, but .* asked for is fr; give"):
        po(HEADER, Languages("en", "fr"))
    with pytest.raises(DocumentError, match=r"X-Source-Language: en, but the language asked for is nl"):
        po(HEADER.replace('"Lang', '"X-Source-Language: en\\n"\n"Lang'), Languages("nl", "de"))


# --- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("charset", "text"), [("ISO-8859-2", "źle"), ("Shift_JIS", "表ソ"), ("GB18030", "好")])
def test_charsets_are_kept(charset: str, text: str) -> None:
    content = f"# {text}\n{HEADER}# {text}\nmsgid 'x'\nmsgstr '{text}'\n".replace("'", '"').replace("UTF-8", charset)
    (segment,) = messages(po(content.encode(charset)))
    assert segment.existing == (text,)
    assert segment.render([Filled(text)]) == segment.raw


def test_a_translation_that_the_charset_lacks() -> None:
    (segment,) = messages(po(HEADER.replace("UTF-8", "ISO-8859-1") + MESSAGE))
    with pytest.raises(DocumentError, match=r"a\.po:9: the translation has 'ő', which ISO-8859-1 .* msgconv -t UTF-8"):
        segment.render([Filled("nő")])


@pytest.mark.parametrize("charset", ["UTF-16", "klingon", "rot13", "utf-8-sig", "unicode_escape"])
def test_unusable_charsets(charset: str) -> None:
    with pytest.raises(DocumentError, match=rf"a\.po:1: the header names the charset '{charset}'"):
        po(HEADER.replace("UTF-8", charset))


# --- malformed and hostile files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('msgid "a"\nmsgstr "b\n', 10),
        ('msgid "a"\nmsgstr b\n', 10),
        ('msgid "a"\nmsgid "b"\nmsgstr ""\n', 10),
        ('msgid "a"\n# inside\nmsgstr ""\n', 10),
        ('msgid "a"\n', 9),
        ('msgid "a"\n#~ msgid "b"\n', 9),
        ('msgstr "a"\n', 9),
        ('# c\n"a"\n', 10),
        ("nonsense\n", 9),
        ('msgid "a"\nmsgstr[0] ""\n', 9),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr ""\n', 9),
        ('msgid "\\q"\nmsgstr ""\n', 9),
        ('msgid "\\8\\x"\nmsgstr ""\n', 9),
        ('msgid "\\303\\274"\nmsgstr ""\n', 9),
        (HEADER, 9),
    ],
)
def test_malformed(content: str, line: int) -> None:
    with pytest.raises(DocumentError) as raised:
        po(HEADER + content)
    assert str(raised.value).startswith(f"a.po:{line}: malformed PO (")
    assert "\n" not in str(raised.value)


def test_undecodable_bytes() -> None:
    with pytest.raises(DocumentError, match=r"a\.po:9: not UTF-8 \(byte 0xff at column 8\); convert the file"):
        po(HEADER.encode() + b'msgid "\xff"\nmsgstr ""\n')


class _Endless(io.RawIOBase):
    """A file that repeats a line until far more was read than may be kept."""

    def __init__(self, line: bytes) -> None:
        self.line, self.read_so_far = line, 0

    def readline(self, size: int | None = -1, /) -> bytes:
        self.read_so_far += len(self.line)
        assert self.read_so_far < 2 * MAX_PART_BYTES
        return self.line[:size]


@pytest.mark.parametrize(
    ("line", "error"),
    [(b'msgid "' + b"a" * 2**21, r"a\.po:1: the line is longer"), (b"#" + b"x" * 50_000 + b"\n", "no end of the mess")],
)
def test_endless_files(line: bytes, error: str) -> None:
    with pytest.raises(DocumentError, match=error):
        list(PoFormat().parts(_Endless(line), "a.po", GERMAN))  # type: ignore[arg-type]


def test_messages_are_streamed() -> None:
    file = io.BytesIO((HEADER + 'msgid "a"\nmsgstr ""\n\n' * 1000).encode())
    parts = PoFormat().parts(file, "a.po", GERMAN)
    assert next(part for part in parts if isinstance(part, DocumentSegment)).texts == ("a",)
    assert file.tell() < 1000


def test_too_many_private_use_characters() -> None:
    with pytest.raises(DocumentError, match=r"a\.po:9: more than .* inline codes"):
        po(HEADER + f'msgid "{chr(0xE000) * 3000}"\nmsgstr ""\n')


# --- properties ------------------------------------------------------------------------------------------------------

_LINES = st.sampled_from(
    rb"""
# n
#, fuzzy
#~ msgid "x"
msgctxt "c"
msgid "i"
msgid ""
msgid_plural "p"
msgstr "t"
msgstr ""
msgstr[0] "t"
msgstr[1] "t"
"more"
"Language: de\n"
""".split(b"\n")
)


@given(st.lists(_LINES, max_size=12), st.sampled_from([b"\n", b"\r\n"]))
def test_any_lines_give_the_file_or_one_line_of_error(lines: list[bytes], end: bytes) -> None:
    error = problem(end.join(lines), PoFormat())
    assert not error or error.startswith("file:")
    assert "\n" not in error


# polib splits lines at separators and control characters, so the texts have none of them.
_LETTERS = st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Co"]) | st.sampled_from('\n\t"\\\\')


@given(st.lists(st.tuples(st.text(_LETTERS), st.booleans()), min_size=1, max_size=5))
def test_polib_reads_what_was_written(translations: list[tuple[str, bool]]) -> None:
    """Whatever the translations are, they come back, and the rest of the catalog is the same."""
    filled = [Filled(f"<{text}>", 0.5, review) for text, review in translations]
    sources = [f"source {number}" for number in range(len(filled))]
    parts = po(HEADER + "".join(f'#: f.c:{source[-1]}\nmsgid "{source}"\nmsgstr ""\n\n' for source in sources))
    by_source = dict(zip(sources, filled, strict=True))
    catalog = polib.pofile(fill(parts, by_source.__getitem__).decode())
    assert [(entry.msgid, entry.msgstr, entry.fuzzy, entry.tcomment, entry.occurrences) for entry in catalog] == [
        (source, each.text, each.review, "confidence: 0.50", [("f.c", source[-1])])
        for source, each in by_source.items()
    ]


@pytest.mark.skipif(not shutil.which("msgfmt"), reason="needs gettext")
@pytest.mark.parametrize("target", ["de", "ja", "ru", "sl", "ar", "lv", "lt", "ro", "cs", "fa"])
def test_msgfmt_accepts_what_was_written(target: str, tmp_path: Path) -> None:
    content = r"""
msgid "\nfirst\nsecond\n"
msgstr ""

#, c-format
msgid "one tray"
msgid_plural "%d trays"
msgstr[0] ""
msgstr[1] ""
"""
    path = tmp_path / "a.po"
    path.write_bytes(fill(po(content, Languages("en", target)), shout))
    checked = subprocess.run(
        ["msgfmt", "--check-format", "--check-domain", "--statistics", "-o", tmp_path / "a.mo", path],
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin:/usr/local/bin"},
    )
    assert (checked.returncode, checked.stderr) == (0, "2 translated messages.\n")
