"""ICU MessageFormat: how messages are cut into texts, and put together again."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.documents.icu_messages import parse_message
from unit.documents.fake_translations import shout


def shouted(value: str) -> str:
    """Return a message in capital letters."""
    message = parse_message(value)
    return message.fill([shout(text).text for text in message.texts])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{n, plural, one {# cup} other {# cups}}", "{n, plural, one {# CUP} other {# CUPS}}"),
        ("We {n,plural,=0{none}\n other {{n} cups}} of {x}", "WE {n,plural,=0{NONE}\n other {{n} CUPS}} OF {x}"),
        ("{g, select, f {she} other {they}} #1", "{g, select, f {SHE} other {THEY}} #1"),
        (
            "{n, plural, offset:1 one {{g, select, f {her # cup} other {{d, date, short} it}}} other {x}}",
            "{n, plural, offset:1 one {{g, select, f {HER # CUP} other {{d, date, short} IT}}} other {X}}",
        ),
        ("{n, selectordinal, two {#nd} other {#th}}", "{n, selectordinal, two {#ND} other {#TH}}"),
        ("{n, number, ::a/B} or {n, plural, other {a}}", "{n, number, ::a/B} OR {n, plural, other {A}}"),
        ("it''s {n, plural, other {a '{b}' ''c''}}", "IT''S {n, plural, other {A '{b}' ''C''}}"),
        ("don't {n, plural, other {a'#'b}}", "DON'T {n, plural, other {A'#'B}}"),
        ("{n, plural, other {a '{it''s}' b}}", "{n, plural, other {A '{it''s}' B}}"),
    ],
)  # fmt: skip
def test_branches_are_translated(value: str, expected: str) -> None:
    assert shouted(value) == expected


def test_branches_with_words_are_texts() -> None:
    message = parse_message("You have {n, plural, =0 {nothing} one {# cup} other {{n}}} in {place}.")
    assert message.texts == ("You have \uf000 in {place}.", "nothing", "\uf001 cup")


@pytest.mark.parametrize(
    "value",
    [
        "{n, plural, one {a} other {b}",
        "{n, plural, one {a}} }",
        "a {n, plural, }",
        "a {n, plural, one a}",
        "{n, plural, one {a '{ b}}",
        "{n, plural, other {a { b}}",
        "a\0000\0 {n, plural, other {a}}",
        "{n, plural, other {" * 11 + "a" + "}}" * 11,
    ],
)
def test_what_is_not_icu_is_plain_text(value: str) -> None:
    message = parse_message(value)
    assert message.texts == (value,)
    assert message.fill([value + "!"]) == value + "!"


@pytest.mark.parametrize(
    ("translation", "written"),
    [
        ("l'eau", "l'eau"),
        ("l'{x}", "l''{x}"),
        ("l'", "l''"),
        ("a { b", "a '{' b"),
        ("a }{x}", "a '}'{x}"),
        ("{{", "'{{'"),
        ("{'s", "'{'''s"),
        ("#{x}", "'#'{x}"),
    ],
)
def test_special_characters_in_a_translation_are_quoted(translation: str, written: str) -> None:
    result = parse_message("{n, plural, other {a}}").fill([translation])
    assert result == f"{{n, plural, other {{{written}}}}}"
    assert parse_message(result).texts != (result,)  # still ICU


def test_a_hash_is_special_in_plurals_only() -> None:
    assert parse_message("{g, select, other {a}}").fill(["#1"]) == "{g, select, other {#1}}"


def test_apostrophes_are_doubled_where_the_source_does_so() -> None:
    message = parse_message("it''s {n, plural, other {a}}")
    assert message.texts == ("it's \uf000", "a")
    assert message.fill(["c'est \uf000", "d'a"]) == "c''est {n, plural, other {d''a}}"


_LEAF = st.text(string.ascii_letters + " .'{}#", max_size=8)


@given(st.text("{}'# abn,", max_size=12), _LEAF, _LEAF)
def test_any_message_comes_back(around: str, first: str, second: str) -> None:
    """A message is the same after rendering its own texts, up to apostrophes that need not be written twice."""
    value = f"{around}{{n, plural, one {{{first}}} other {{{second}}}}}{around}"
    message = parse_message(value)
    rendered = message.fill(message.texts)
    assert rendered.replace("''", "'") == value.replace("''", "'")
    assert parse_message(rendered).texts == message.texts
