"""Markdown: which text is a segment, how translations are escaped, and that the structure stays the same."""

import io
import re
import time
from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from lacuna.documents import DocumentTranslator, Splitter
from lacuna.documents.base import Filled
from lacuna.documents.markdown import MarkdownFormat
from lacuna.records import Languages, Translation
from unit.documents.fake_translations import cut, fill, messages, problem, shout

MARKDOWN = MarkdownFormat()
README = r"""---
title: Not this
---

# Making *tea* #

Boil **fresh** water in the `kettle`, see [the manual](https://tea.example/a_b "Manual"),
and wait. It costs \*nothing\*, see https://tea.example/x_y_z.

- Pour it
  over the leaves.\
  Then wait.
- [ ] Clean the pot

> Quoted words
> on two lines\
> and [manual] three.

| Cup   | Size **of** it |
|-------|:--------------:|
| Small | `10` cl        |
| a \| b | kept |

    indented code

```
fenced code
```

<div>
html block
</div>

$$
x^2 + y
$$

Underlined
==========

![An image](a.png) ~~Old~~ text with <b>tags</b>, $a_1 * b$ and a note.[^1]

[^1]: The note itself.

[manual]: https://tea.example "Manual"
"""


def texts(content: str) -> list[str]:
    return [segment.texts[0] for segment in messages(cut(content.encode(), MARKDOWN))]


def written(content: str, **translations: str) -> str:
    """Return a document in which the text of one segment, with a word that is the key, is replaced by the value."""

    def translate(text: str) -> Filled:
        return Filled(next((value for key, value in translations.items() if key in text), text))

    return fill(cut(content.encode(), MARKDOWN), translate).decode()


def structure(content: str) -> list[tuple[object, ...]]:
    """Return the tokens of markdown-it as it comes; neighboring text and line wraps are one token without content."""
    found: list[tuple[object, ...]] = []
    for token in _flat(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(content)):
        is_text = token.type in ("text", "softbreak")
        entry = ("text",) if is_text else (token.type, token.tag, token.attrs, token.content, token.markup)
        if not is_text or found[-1:] != [entry]:
            found.append(entry)
    return found


def plain(content: str) -> str:
    """Return the text that a reader sees."""
    tokens = _flat(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(content))
    return "".join(token.content for token in tokens if token.type == "text")


def _flat(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        if token.type == "inline":
            yield from token.children or []
        else:
            yield token


def test_the_text_of_a_document() -> None:
    assert texts(README) == [
        "Making \ue000tea\ue800",
        "Boil \ue000fresh\ue800 water in the \uf000, see \ue001the manual\ue801, "
        "and wait. It costs *nothing*, see \uf001.",
        "Pour it over the leaves.\uf000Then wait.",
        "Clean the pot",
        "Quoted words on two lines\uf000and \ue000manual\ue800 three.",
        "Cup",
        "Size \ue000of\ue800 it",
        "Small",
        "\uf000 cl",
        "Underlined",
        "\ue000Old\ue800 text with \uf000tags\uf001, \uf002 and a note.",
        "The note itself.",
    ]


def test_a_translated_document() -> None:
    result = fill(cut(README.encode(), MARKDOWN), shout).decode()
    body = README.index("# Making")
    assert structure(result[body:]) == structure(README[body:])
    assert 'BOIL **FRESH** WATER IN THE `kettle`, SEE [THE MANUAL](https://tea.example/a_b "Manual"), AND' in result
    assert "- POUR IT OVER THE LEAVES.\\\n  THEN WAIT.\n- [ ] CLEAN THE POT" in result
    assert "> QUOTED WORDS ON TWO LINES\\\n> AND [MANUAL][manual] THREE." in result
    assert "| SMALL | `10` CL        |\n| a \\| b | kept |" in result
    assert result.endswith('[^1]: THE NOTE ITSELF.\n\n[manual]: https://tea.example "Manual"\n')
    for kept in ("title: Not this", "    indented code", "fenced code", "html block", "x^2 + y", "$a_1 * b$"):
        assert kept in result


def test_an_unchanged_document_keeps_its_bytes() -> None:
    assert fill(cut(README.encode(), MARKDOWN), Filled) == README.encode()


def test_line_ends_and_encoding_are_kept() -> None:
    content = b"\xff\xfe" + "> One  \r\n> two\r\n\r\nGröße\r\nhier\r\n".encode("utf-16-le")
    expected = b"\xff\xfe" + "> ONE  \r\n> TWO\r\n\r\nGRÖSSE HIER\r\n".encode("utf-16-le")
    assert fill(cut(content, MARKDOWN), shout) == expected


TRICKY = """1. Eins
- Eins
# Eins
+ Eins
> Eins
* Eins
=== Eins
Eins #
Eins ##
<b>Eins
`Eins`
*Eins*
__Eins__
[Eins](b)
[x]: b
a | b
&amp;
~~Eins~~
\\*
![a](b)
<http://a.b>
http://a.b
<div> a
$a$
[^1]
{{ a }}
[ ] a
```
a\\
2 * 3
a_b_c
1986. Ein Jahr
!!! note
[ref]""".splitlines()


@pytest.mark.parametrize("translation", TRICKY)
@pytest.mark.parametrize(
    "frame", ["{}", "# {}", "{}\n---", "- {}", "> 1. {}", "|{}|\n|---|", "*{}*", "**b** {} [ref]", "*a* {}, `b`"]
)
def test_the_text_of_a_translation_is_never_markup(frame: str, translation: str) -> None:
    source = frame.format("Source") + "\n\n[ref]: /x\n"
    result = fill(cut(source.encode(), MARKDOWN), lambda text: Filled(text.replace("Source", translation))).decode()
    assert structure(result) == structure(source)
    assert plain(result) == plain(source).replace("Source", translation)


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("2 * 3 sind 6_000", "2 * 3 sind 6_000\n"),
        ("siehe http://a.b/c_d_e.", "siehe http://a.b/c_d_e.\n"),
        ("1. Mai, a_b", "1\\. Mai, a_b\n"),
        ("ein *Wort*", "ein \\*Wort\\*\n"),
        ("zwei\nZeilen", "zwei Zeilen\n"),
        (" ", "Source\n"),
        ("", "Source\n"),
    ],
)
def test_escapes_are_few(translation: str, expected: str) -> None:
    assert written("Source\n", Source=translation) == expected


def test_emphasis_next_to_letters() -> None:
    result = written("Das ist **gut** so.", Das="好\ue000（很好）\ue800的")
    assert structure(result)[1:4] == [("text",), ("strong_open", "strong", {}, "", "**"), ("text",)]
    assert texts(result) == ["好\ue000（很好）\ue800的"]


def test_what_follows_a_definition_is_not_its_title() -> None:
    assert written("[x]: /x\nSource", Source="(Ziel)") == "[x]: /x\n\\(Ziel)"
    assert written("[x]: /x\n\nSource", Source="(Ziel)") == "[x]: /x\n\n(Ziel)"


def test_a_heading_does_not_become_a_table() -> None:
    assert "<table>" not in MarkdownIt("gfm-like", {"linkify": False}).render(written("Source\n---\n", Source="a|b"))


def test_markup_on_several_lines_keeps_its_prefixes() -> None:
    content = "> - See `a\n>   b` and <i\n>    title='x'>it</i>"
    assert fill(cut(content.encode(), MARKDOWN), shout).decode() == "> - SEE `a\n>   b` AND <i\n>    title='x'>IT</i>"


def test_codes_may_change_places() -> None:
    assert written("A *b* and `c`", A="\uf000 und \ue000b\ue800") == "`c` und *b*"


def test_a_translation_that_would_break_the_structure_is_not_written() -> None:
    assert written("A *b* c `d`", A="A \ue000\ue800 c \uf000") == "A *b* c `d`"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Text ~~odd~~~ tildes", []),
        ("***both*** here", ["\ue000\ue001both\ue801\ue800 here"]),
        ("**whole *thing***", ["whole \ue000thing\ue800"]),
        ("`only code`", []),
        ("<http://a.b> 12", []),
        ("&uuml;ber \\& so", ["über & so"]),
        ("a <!-- c --> b", ["a \uf000 b"]),
        ("> [!NOTE]\n> Some words", ["Some words"]),
        ("+++\na = 1\n+++\nText", ["Text"]),
        ("---\n\nText", ["Text"]),
        ("!!! note\n", []),
        ("::: box\n", []),
        ("\\[ x \\]", []),
        ("- a\n\n  b\n  1. c", ["a", "b", "c"]),
        ("a\n    b", ["a b"]),
        ("> a\nb", ["a b"]),
        ("a | b\n--|--\nc | d", ["a", "b", "c", "d"]),
        ("> | a | b |\n> |--|--|\n> | | d |", ["a", "b", "d"]),
        ("- \ta", ["a"]),
        ("[a]: /b", []),
        ("", []),
    ],
)
def test_segments(content: str, expected: list[str]) -> None:
    assert texts(content) == expected
    assert structure(fill(cut(content.encode(), MARKDOWN), shout).decode()) == structure(content)


def test_errors_are_one_line() -> None:
    assert problem(b"fine\n\n\xe4", MARKDOWN).startswith("file:3: not UTF-8 (byte 0xe4); convert")
    assert problem(b"fine\n\n\0", MARKDOWN).startswith("file:3: a NUL character")


@pytest.mark.parametrize(
    "content",
    [
        ">" * 100_000,
        "[" * 10_000,
        "*" * 100_000,
        "`" * 100_000,
        "- " * 20_000,
        "*a " * 5_000,
        "a**" * 5_000,
        "[a](" * 5_000,
        "![" * 5_000,
        "<a" * 20_000,
        "[^" * 10_000,
        "$a " * 10_000,
        "\\(" * 10_000,
        "word\n" * 5_000,
        "|" * 10_000 + "\n" + "|-" * 10_000,
        "---\n" + "a\n" * 10_000,
        "[a]" * 5_000 + "\n\n[a]: b",
        "".join(" " * depth + "- a\n" for depth in range(300)),
    ],
    ids=lambda content: content[:6],
)
def test_hostile_documents_take_linear_time(content: str) -> None:
    started = time.process_time()
    fill(cut(content.encode(), MARKDOWN), lambda text: Filled(text + "!"))
    assert time.process_time() - started < 5


PIECES = [
    *"*_`[]|\\!x\tß# ",
    "**",
    "(u)",
    "<b>",
    "- ",
    "> ",
    "1. ",
    "|--|",
    "~~",
    "&amp;",
    "\n",
    "\n\n",
    "\r\n",
    "  \n",
]
PIECES += ["    ", "word", "===", "[x]: /u\n", "<http://a.b>", "```"]


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["X", "* y", "(z) ", "#", "|"]))
def test_any_document_keeps_its_structure(pieces: list[str], word: str) -> None:
    content = "".join(pieces)
    parts = cut(content.encode(), MARKDOWN)
    assert fill(parts, Filled) == content.encode()
    translated = fill(parts, lambda text: Filled(re.sub("x|word", lambda _: word, text))).decode()
    assert structure(translated) == structure(content)


def test_sentences_around_a_line_break_are_joined_without_escapes() -> None:
    out = io.BytesIO()
    splitter = Splitter(Languages("de", "en"), lambda text: True)

    def shouted(groups: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
        return ([Translation(text, text.upper(), 0.0, 1) for text in group] for group in groups)

    made = DocumentTranslator(shouted, splitter)
    content = b"> Ein *fettes* Wort.  \n> Zwei ![x](y) Worte.\\\n> Drei\n"
    made.translate_stream(io.BytesIO(content), out, MarkdownFormat(), "a.md")
    assert out.getvalue() == b"> EIN *FETTES* WORT.  \n> ZWEI ![x](y) WORTE.\\\n> DREI\n"
