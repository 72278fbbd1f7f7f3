"""JSON message catalogs: which strings are texts, and that all else stays as it is."""

import io
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.documents.base import DocumentSegment, Filled
from lacuna.documents.json_messages import JsonFormat
from lacuna.errors import DocumentError
from lacuna.formats.input_files import MAX_PART_BYTES
from unit.documents.fake_translations import GERMAN, cut, fill, messages, problem, shout

PLAIN = """{
\t"$schema": "a schema",
  "menu" : {"open":"Open the lid", "count": 3, "on": true, "none": null},
  "list": [ "first one", ["second one"], {} ],
  "url": "https://example.org/a b",
  "id": "app.title_bar",
  "digits": "12:30",
  "only": "{name}",
  "": "no key"
}
"""


def parts(content: str | bytes, name: str = "a.json") -> list[bytes | DocumentSegment]:
    return cut(content.encode() if isinstance(content, str) else content, JsonFormat(), name)


def texts(content: str, name: str = "a.json") -> dict[str, tuple[str, ...]]:
    return {segment.place: segment.texts for segment in messages(parts(content, name))}


def shouted(value: str) -> str:
    """Return a message in capital letters, by way of a file."""
    return str(json.loads(fill(parts(json.dumps({"k": value})), shout))["k"])


# --- which strings ---------------------------------------------------------------------------------------------------


def test_string_values_are_texts() -> None:
    assert texts(PLAIN) == {
        "menu.open": ("Open the lid",),
        "list.0": ("first one",),
        "list.1.0": ("second one",),
        "url": ("https://example.org/a b",),
        "": ("no key",),
    }
    assert all(segment.existing == () for segment in messages(parts(PLAIN)))


def test_only_the_literals_change() -> None:
    expected = PLAIN
    for text in ("Open the lid", "first one", "second one", "no key"):
        expected = expected.replace(text, text.upper())
    assert fill(parts(PLAIN), shout).decode() == expected.replace("/a b", "/a B")


@pytest.mark.parametrize(
    ("value", "is_text"),
    [
        ("OK", True),
        ("Loading...", True),
        ("Wait: now", True),
        ("文件/目录", True),
        ("https://example.org", False),
        ("mailto://x", False),
        ("node.js", False),
        ("[%key:common::on%]", False),
        ("snake_case", False),
        ("%s / 5", True),
        ("12 %", False),
        ("\ud800 lone", False),
    ],
)
def test_names_and_numbers_are_not_texts(value: str, is_text: bool) -> None:
    assert bool(texts(json.dumps([value]))) == is_text


def test_chrome() -> None:
    chrome = '{"a": {"message": "Hi $USER$", "description": "greets", "placeholders": {"user": {"content": "$1 x"}}}'
    assert list(texts(chrome + "}")) == ["a.message"]
    assert b'"HI $USER$"' in fill(parts(chrome + "}"), shout)
    assert "a.description" in texts(chrome + ', "b": {"message": 1}}')
    assert list(texts('[{"message": "Hi", "other": "there"}]')) == ["0.message", "0.other"]


def test_arb() -> None:
    arb = '{"@@locale": "en", "hi": "Hi", "@hi": {"description": "greets", "placeholders": {"x": {"type": "String"}}}}'
    assert texts(arb) == {"hi": ("Hi",)}
    assert texts('{"@hi": {"description": "greets"}, "hi": "Hi"}', "a.ARB") == {"hi": ("Hi",)}
    assert list(texts('{"@you wrote": "@you wrote"}')) == ["@you wrote"]


def test_jed() -> None:
    jed = (
        '{"domain": "d", "locale_data": {"d": {"": {"lang": "de", "domain": "d"}, "cup": ["cup", "cups"], "x": [""]}}}'
    )
    assert texts(jed) == {"locale_data.d.cup.0": ("cup",), "locale_data.d.cup.1": ("cups",)}


def test_references_are_codes() -> None:
    for value in ("see $t(other.key) now", "see @:menu.open now", "see @.lower:menu.open.", "\ue000 icon \uf8ff"):
        assert shouted(value) == "".join(
            word if word[0] in "$@" else word.upper() for word in value.replace(" ", "\0 \0").split("\0")
        )


# --- how they are written --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "translation", "written"),
    [
        ('["a"]', 'ü "\\\n\t\x01', '["ü \\"\\\\\\n\\t\\u0001"]'),
        ('["a", "\\u00e4"]', "ü€😀", '["\\u00fc\\u20ac\\ud83d\\ude00", "\\u00fc\\u20ac\\ud83d\\ude00"]'),
        ('["a", "\\u00e4", "é"]', "ü", '["ü", "ü", "ü"]'),
        ('["a<\\/b>"]', "c</b>", '["c<\\/b>"]'),
        ('["a</b>"]', "c</b>", '["c</b>"]'),
    ],
)
def test_style(content: str, translation: str, written: str) -> None:
    assert fill(parts(content), lambda _: Filled(translation)).decode() == written


def test_an_unchanged_text_is_the_same_literal() -> None:
    content = '["\\u0061 \\/ b", "é"]'
    assert fill(parts(content), Filled).decode() == content


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_line_ends(encoding: str, end: str) -> None:
    content = PLAIN.replace("\n", end)
    written = fill(parts(content.encode(encoding)), shout)
    assert written == fill(parts(content), shout).decode().encode(encoding)


def test_an_icu_message_is_one_segment() -> None:
    (segment,) = messages(parts('{"k": "You have {n, plural, one {# \\u00dc} other {{n}}} in {place}."}'))
    assert segment.texts == ("You have \uf000 in {place}.", "\uf001 Ü")
    written = segment.render([Filled("In {place}: \uf000"), Filled('\uf001 "')])
    assert written == b'"In {place}: {n, plural, one {# \\"} other {{n}}}"'


# --- malformed and hostile files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "1: malformed JSON (expected a value, got the end of the file)"),
        ('{\n"a": "b",\n}', "3: malformed JSON (expected a key in double quotes, got '}')"),
        ('["a",\n]', "2: malformed JSON (expected a value, got ']')"),
        ('{"a" "b"}', "1: malformed JSON (expected a colon, got '\"b\"}')"),
        ('["a" "b"]', "1: malformed JSON (expected a comma or ], got '\"b\"]')"),
        ('["a"}', "1: malformed JSON (expected a comma or ], got '}')"),
        ('["a"] x', "1: malformed JSON (expected the end of the file, got 'x')"),
        ('["a"', "1: malformed JSON (expected a comma or ], got the end of the file)"),
        ('\n\n["a\nb"]', "3: malformed JSON (expected a value or ], got "),
        ('["\\x"]', "1: malformed JSON (expected a value or ], got "),
        ("[01]", "1: malformed JSON (expected a value or ], got '01]')"),
        ("[1.]", "1: malformed JSON (expected a value or ], got '1.]')"),
        ("[NaN]", "1: malformed JSON (expected a value or ], got 'NaN]')"),
        ("{'a': 1}", "1: malformed JSON (expected a key in double quotes or }, got "),
        ('// c\n["a"]', "1: malformed JSON (expected a value, got '// c"),
        ('{"a": 1,\n"\\u0061": 2}', "2: malformed JSON (the key 'a' twice in an object)"),
        ("[" * 100_001, "1: malformed JSON (more than 100,000 levels)"),
    ],
)
def test_malformed(content: str, error: str) -> None:
    with pytest.raises(DocumentError) as raised:
        parts(content)
    assert str(raised.value).startswith(f"a.json:{error}")
    assert "\n" not in str(raised.value)


def test_undecodable_bytes() -> None:
    with pytest.raises(DocumentError, match=r"a\.json:2: not UTF-8 \(byte 0xff\); convert the file"):
        parts(b'[\n"\xff"]')


def test_too_large() -> None:
    with pytest.raises(DocumentError, match=r"a\.json: larger than 16,000,000 bytes"):
        next(JsonFormat().parts(io.BytesIO(b" " * (MAX_PART_BYTES + 1)), "a.json", GERMAN))


def test_too_many_codes() -> None:
    with pytest.raises(DocumentError, match=r"a\.json:2: more than .* inline codes"):
        parts('[\n"x' + "\ue000" * 3000 + '"]')


def test_depth() -> None:
    content = "[" * 99_998 + '{"key": [0, "the end"]}' + "]" * 99_998
    (last,) = messages(parts(content))
    assert last.texts == ("the end",)
    assert last.place.endswith("key.1")
    assert len(last.place) < 100


@pytest.mark.parametrize(
    "content",
    [
        '["' + "\\n" * 50_000,
        '["' + "a.:" * 50_000 + ' "]',
        json.dumps(["''" * 50_000 + "{n, plural, other {a}}"]),
        json.dumps(["{n, plural, " * 30_000]),
        json.dumps(["{a" * 50_000 + ", plural, "]),
        '{"' + "k" * 50_000 + '":[' + '"a",' * 5_000 + "1]}",
    ],
)
def test_time_is_linear(content: str) -> None:
    start = time.process_time()
    problem(content.encode(), JsonFormat())
    assert time.process_time() - start < 2


# --- properties ------------------------------------------------------------------------------------------------------

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(_JSON, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_structure_is_kept(value: Any, is_ascii: bool, indent: int | str | None) -> None:
    content = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    found = parts(content)
    assert fill(found, Filled).decode() == content
    marked = json.loads(fill(found, lambda text: Filled(f"<{text}>")))
    assert _unmarked(marked) == _unmarked(value)


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unmarked(inner) for inner in value]
    return value.strip("<>") if isinstance(value, str) else value


@given(st.text('{}[]",:\\u0a1 \n-.etrufalsn', max_size=20))
def test_json_is_accepted_exactly_if_python_accepts_it(content: str) -> None:
    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            raise ValueError

    try:
        json.loads(content, object_pairs_hook=refuse_duplicates)
        valid = True
    except ValueError:
        valid = False
    assert bool(problem(content.encode(), JsonFormat())) != valid
