"""HTML: which text is a segment, what stays, how translations are written, and hostile pages."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html

from lacuna.documents.base import DocumentSegment, Filled
from lacuna.documents.html_pages import HtmlFormat, html_fragment_parts
from unit.documents.fake_translations import cut, fill, messages, problem, shout

HTML = HtmlFormat()
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Tea &amp; more</title>
<meta name="description" content="All about tea"><meta name="robots" content="noindex, follow">
<style>p { color: red }</style><script>if (a < b) { document.write("<p>No</p>") }</script></head>
<body><h1 title='A "short" note'>How to   make
  <em>good</em> tea</h1>
<!-- A comment <p>here</p> -->
<p><b>Boil the water.</b></p>
<ul><li>Use <code>kettle --on</code> first<li>Wait for <a href="/x?a=1&amp;b=2" title="why">four</a> minutes</ul>
<pre>keep   this</pre><textarea placeholder="Your tea">keep that</textarea>
<p>One line<br>two lines<br><br>Another &lt; line&nbsp;here
<img src="a.png" alt="A cup"><input type="submit" value="Send it"><input type="text" value="as is">
</body></html>
"""


def texts(content: str) -> list[str]:
    return [segment.texts[0] for segment in messages(list(html_fragment_parts(content)))]


def shouted(content: str) -> str:
    """Return a snippet in capital letters, after a check that it is the same if it is not changed."""
    parts: list[bytes | DocumentSegment] = list(html_fragment_parts(content))
    assert fill(parts, Filled) == content.encode()
    return fill(parts, shout).decode()


def tree(content: bytes) -> list[Any]:
    """Return elements and attributes as libxml2 sees them; text is not compared, nor attributes that have some."""
    translated = {"title", "alt", "placeholder", "aria-label", "content", "value"}
    return [
        (element.tag, [item for item in element.items() if item[0] not in translated])
        for element in lxml_html.document_fromstring(content).iter()
    ]


def test_the_text_of_a_page() -> None:
    assert texts(PAGE) == [
        "Tea & more",
        "All about tea",
        'A "short" note',
        "How to make \ue000good\ue800 tea",
        "Boil the water.",
        "Use \uf000 first",
        "Wait for \ue000four\ue800 minutes",
        "Your tea",
        "One line\uf000two lines",
        "Another < line\u00a0here",
        "A cup",
        "Send it",
    ]


def test_a_translated_page() -> None:
    written = shouted(PAGE)
    assert tree(written.encode()) == tree(PAGE.encode())
    assert "<title>TEA &amp; MORE</title>" in written
    assert "<h1 title='A &quot;SHORT&quot; NOTE'>HOW TO MAKE <em>GOOD</em> TEA</h1>" in written
    assert '<li>USE <code>kettle --on</code> FIRST<li>WAIT FOR <a href="/x?a=1&amp;b=2" title="why">FOUR</a>' in written
    assert '<br><br>ANOTHER &lt; LINE\u00a0HERE\n<img src="a.png" alt="A CUP">' in written
    for kept in ("<p>here</p>", "keep   this", "keep that", 'value="as is"', "noindex, follow", '("<p>No</p>")'):
        assert kept in written


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<p>a <span translate='no'>b <i>c</i></span> d", ["a \uf000 d"]),
        ("<div class='x notranslate'>a<div>b</div>c</div>d", ["d"]),
        ("a <svg><title>b</title></svg> c", ["a \uf000 c"]),
        ("a <svg/> b <math/> c", ["a \uf000 b \uf001 c"]),
        ("a <!-- b --> c", ["a \uf000 c"]),
        ("a<br>\n<BR/>b", ["a", "b"]),
        ("a <b>c</i> d</b> e", ["a \ue000c\uf000 d\ue800 e"]),
        ("a <b>b <i>c</b> d</i> e", ["a \ue000b \uf000c\ue800 d\uf001 e"]),
        ("{{ name }} said {% if x %}yes{% endif %}", ["\uf000 said \uf001yes\uf002"]),
        ("<p>{{ only }}</p>", []),
        ("<p>12 &mdash; <code>abc</code> &nbsp;</p>", []),
        ("<option>One<option>Two", ["One", "Two"]),
        ("&#x41;&#66; &copy &unknown; &", ["AB © &unknown; &"]),
        ("<title>a <b> c</title>d", ["a <b> c", "d"]),
        ("<p title=bare>x", ["bare", "x"]),
        ("<p title='a &copy=b'>", ["a &copy=b"]),
        ("<i title='not this'>a</i> <b title='but this'>", ["not this", "a", "but this"]),
        ("<p title='' alt>\ue123 a", ["\uf000 a"]),
    ],
)
def test_segments(content: str, expected: list[str]) -> None:
    assert texts(content) == expected
    shouted(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<!-->a", ["a"]),
        ("<!--->a", ["a"]),
        ("<!-- a --!>b", ["b"]),
        ("<!-- a", []),
        ("<? a > b", ["b"]),
        ("<! a > b", ["b"]),
        ("</ a > b", ["b"]),
        ("</>a", ["a"]),
        ("a < b", ["a < b"]),
        ("a </", ["a </"]),
        ("a <b", ["a"]),
        ("a <b c='>d", ["a"]),
        ('<a b="c>d">e', ["e"]),
        ("<a b=c>d", ["d"]),
        ("<a =b>c", ["c"]),
        ("<a b= >c", ["c"]),
        ("<script>a</scripty></SCRIPT >b", ["b"]),
        ("<script/>a</script>b", ["b"]),
        ("<?xml version='1.0'?><script/>a", ["a"]),
        ("<textarea><p>a</textarea>b", ["b"]),
        ("<style>a", []),
        ("a <code>b", ["a"]),
    ],
)
def test_markup_is_tokenized_as_in_browsers(content: str, expected: list[str]) -> None:
    assert texts(content) == expected
    shouted(content)


def test_attributes_without_quotes_get_some() -> None:
    assert fill(list(html_fragment_parts("<p title=One>")), lambda _: Filled('"Eins" & zwei')) == (
        b'<p title="&quot;Eins&quot; &amp; zwei">'
    )


def test_an_icon_in_an_attribute_without_quotes() -> None:
    assert shouted("<p title=\ue123'a>") == '<p title="\ue123&#x27;A">'


def test_a_run_with_more_tags_than_codes_is_cut() -> None:
    content = "<b>x</b> <i>y" * 3000
    assert len(texts(content)) > 1
    assert shouted(content) == content.replace("x", "X").replace("y", "Y")


def test_places_are_lines() -> None:
    assert [segment.place for segment in messages(list(html_fragment_parts("a\n<p>b\nb\n\n<p>c")))] == ["1", "2", "5"]


# --- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ("<META http-equiv=Content-Type content='text/html; charset=Windows-1251'>", "cp1251"),
        ('<?xml version="1.0" encoding="ISO-8859-15"?>', "iso8859-15"),
        ('<meta charset="gb2312">', "gb18030"),
        ('<meta charset="Shift_JIS">', "cp932"),
        ('<meta charset="utf-16">', "utf-8"),
        ("", "utf-8"),
    ],
)
def test_the_declared_encoding_is_kept(head: str, encoding: str) -> None:
    sample = {"cp1251": "Чай", "gb18030": "茶", "cp932": "お茶"}.get(encoding, "Größe €")
    content = f"{head}<p>{sample}".encode(encoding)
    assert [segment.texts[0] for segment in messages(cut(content, HTML))] == [sample]
    expected = "Ж<茶".replace("<", "&lt;").encode(encoding, "xmlcharrefreplace")
    assert fill(cut(content, HTML), lambda _: Filled("Ж<茶")) == head.encode() + b"<p>" + expected


def test_a_page_that_declares_no_encoding_stays_ascii() -> None:
    assert fill(cut(b"<html><p>Tea", HTML), lambda _: Filled("Grün")) == b"<html><p>Gr&#252;n"
    assert fill(cut(b"<p>Tea", HTML), lambda _: Filled("Grün")) == "<p>Grün".encode()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_byte_order_mark_is_stronger(encoding: str) -> None:
    bom = "\ufeff".encode(encoding)
    content = bom + '<meta charset="iso-8859-1"><p>Größe</p>'.encode(encoding)
    assert fill(cut(content, HTML), shout) == bom + '<meta charset="iso-8859-1"><p>GRÖSSE</p>'.encode(encoding)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<p>\n<p>\xe4", "file:2: not UTF-8 (byte 0xe4); convert"),
        (b'<meta charset="windows-1252">\r\n\r\n\x81', "file:3: not CP1252 (byte 0x81)"),
        (b'<meta charset="iso-2022-jp">', "file: charset 'iso-2022-jp' is unknown or not allowed"),
        (b'<meta charset="klingon">', "file: charset 'klingon' is unknown or not allowed"),
        (b'<meta charset="shift_jis">\x87\x90', "file: characters that CP932 can write in several ways"),
        (b"<p>a\0", "file:1: a NUL character"),
    ],
)
def test_errors_are_one_line(content: bytes, expected: str) -> None:
    found = problem(content, HTML)
    assert found.startswith(expected)
    assert "\n" not in found


def test_the_largest_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.documents.plain_text.MAX_FILE_BYTES", 10)
    assert problem(b"<p>1234567", HTML) == ""
    assert problem(b"<p>12345678", HTML).startswith("file: larger than 10 bytes")


# --- hostile pages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "<" * 1_000_000,
        "<a" * 1_000_000,
        "<!--" * 1_000_000,
        "</" * 1_000_000,
        "&#" * 1_000_000,
        "{%" * 1_000_000,
        "&#" + "9" * 1_000_000 + ";",
        "word " * 100_000,
        "x" * 5_000_000,
        "<b>" * 100_000 + "x" + "</b>" * 100_000,
        "<b>x" * 10_000,
        "<div>" * 30_000 + "x",
        "<code>" * 30_000,
        "<br>" * 30_000,
        "<b><i>x</b></i>" * 10_000,
        "<p " + "a=1 " * 100_000 + ">x",
        '<a b="' * 100_000,
        "<title>" * 100_000,
    ],
    ids=lambda content: content[:8],
)
def test_hostile_pages_take_linear_time(content: str) -> None:
    started = time.process_time()
    parts = list(html_fragment_parts(content))
    assert b"".join(part if isinstance(part, bytes) else part.raw for part in parts) == content.encode()
    fill(parts, lambda text: Filled(text + "!"))
    assert time.process_time() - started < 5


PIECES = [*"<>&'\" ü", "<b>", "</b>", "<p>", "</p>", "<br>", "<code>", "</code>", "<!--", "-->", "<svg/>", "<title>"]
PIECES += ["</title>", "<script>", "</script>", "<pre>", "</pre>", "<img alt=a>", "<p title='a b'>", "<a ", "</", "<?"]
PIECES += ["&lt", "&uuml;", "&#65;", "{{x}}", "{%y%}", "word"]


@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_page_keeps_its_bytes(pieces: list[str]) -> None:
    shouted("".join(pieces))


INLINE = ["some words", "A &amp; B", "x &lt; y", "<br>", "<code>f()</code>", "<img src='i'>", " ", "<!--c-->"]
INLINE += [f"<b>{first}<i>{second}</i></b>" for first in ("", "bold ") for second in ("", " italic", "<br>")]
BLOCKS = st.tuples(st.sampled_from(["p", "li", "h2", "pre"]), st.lists(st.sampled_from(INLINE), max_size=6))


@given(st.lists(BLOCKS.map(lambda block: f"<{block[0]} class='k'>{''.join(block[1])}</{block[0]}>\n"), max_size=4))
def test_elements_and_attributes_stay(blocks: list[str]) -> None:
    content = f"<html><body>{''.join(blocks)}</body></html>"
    assert tree(shouted(content).encode()) == tree(content.encode())
