"""Sentences and clauses: nothing is lost, borders are right, codes and placeholders stay whole, time is linear."""

import re
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from lacuna.corpora.placeholders import find_placeholders, is_nested
from lacuna.documents.sentence_splitting import Piece, split_clauses, split_sentences

# Two pairs of codes and one that stands alone.
B, B_END, I, I_END, IMAGE = "\ue000", "\ue800", "\ue001", "\ue801", "\uf000"  # noqa: E741 - <b>, <i>, <img>

WORDS = [
    "Das ist gut.",
    "Wirklich?",
    "z. B.",
    "Dr.",
    "am 3. Oktober",
    "你好。",
    "谁？",
    "“好。”",
    "，",
    "; ",
    ", ",
    " – ",
]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2028", "\x85", "\x1c", "\u3000"]
SYMBOLS = ['"', "«", "»", "\ufeff", "😀", "👩\u200d👧", "\u0301", "\ud800", "<", "{"]
MARKS = ["<b>", "</b>", '<a title="x. Y">', "{a. b}", "%s", "https://a.b/c?d=E. ", "&amp;"]
CODES = [B, B_END, I, I_END, IMAGE]
UNCLOSED = ['"', "<a ", "{", "%(", "&", "</b>", f"{B}Gut. ", f"Gut. {B}{B_END}"]
FRAGMENTS = [*WORDS, *SPACES, *SYMBOLS, *MARKS, *CODES]
TEXTS = st.one_of(
    st.text(),
    st.text(alphabet=st.characters(codec=None), max_size=30),
    st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join),
)
LANGUAGES = st.sampled_from(["de", "en", "fr", "zh", "ja", "pt-BR", "de_DE", "xx", ""])


def joined(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text + piece.gap for piece in pieces)


def sentences(text: str, language: str = "en") -> list[str]:
    return [piece.text for piece in split_sentences(text, language)]


def clauses(text: str, fits: Callable[[str], bool]) -> list[str]:
    return [piece.text for piece in split_clauses(text, fits)]


def at_most(size: int) -> Callable[[str], bool]:
    return lambda text: len(text) <= size


def check_pieces(pieces: Sequence[Piece], text: str) -> None:
    """Nothing is lost, white space is in the gaps, and only the first piece may be empty."""
    assert joined(pieces) == text
    assert all(piece.text == piece.text.strip() and not piece.gap.strip() for piece in pieces)
    assert all(piece.text for piece in pieces[1:])
    assert all(piece.text or piece.gap for piece in pieces)


@settings(max_examples=200)
@given(TEXTS, LANGUAGES)
@example(" \n ", "en")
@example("", "en")
def test_nothing_of_a_text_is_lost(text: str, language: str) -> None:
    check_pieces(split_sentences(text, language), text)


@settings(max_examples=200)
@given(TEXTS, st.integers(0, 20))
def test_nothing_of_a_sentence_is_lost(text: str, size: int) -> None:
    check_pieces(split_clauses(text, at_most(size)), text)


@given(st.lists(st.sampled_from([*WORDS, *SPACES, *MARKS]), max_size=25), LANGUAGES)
def test_placeholders_stay_whole(fragments: list[str], language: str) -> None:
    text = "".join(fragments)
    parts = [mark for piece in split_sentences(text, language) for mark in find_placeholders(piece.text)]
    assert parts == find_placeholders(text)


@given(st.lists(st.sampled_from(["Gut. ", "Ja? ", "\n", "好。", *CODES]), max_size=15))
def test_a_nested_text_has_nested_sentences(fragments: list[str]) -> None:
    text = "".join(fragments)
    assume(is_nested(text) and max(map(text.count, CODES[:-1])) <= 1)
    assert all(is_nested(piece.text) for piece in split_sentences(text, "de"))


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["Dr. Jones arrived at 5 p.m. on Monday.", "Nobody was there!", "Why?"]),
        ("de", ["Am 3. Oktober kam z. B. Dr. Braun.", "Alle waren da.", "Wirklich?"]),
        ("de_AT", ["Am 3. Oktober kam z. B. Dr. Braun.", "Alle waren da."]),
        ("DE-ch", ["Am 3. Oktober kam z. B. Dr. Braun.", "Alle waren da."]),
        ("fr", ["M. Petit habite ici.", "Où est-il ?", "Je ne sais pas."]),
        ("tlh", ["One here.", "Two there."]),
        ("en", ["He asked “Who is it?” and left.", "“It is late.”", "“Then go!”", "She went."]),
        ("en", ['"I know the place.', 'It is near," she said.', '"Come with me."']),
        ("en", ["Use Node.JS or example.Com here.", "Then stop."]),
        ("en", ["It ends here (I think).", "It goes on."]),
        ("fr", ["Il dit : « Viens ! »", "Puis il part.", "« Non. »", "« Oui ! »"]),
        ("en", ["1. The first one.", "2. The second one."]),
        (
            "de",
            [
                "Die 2. Liga entstand im 19. Jahrhundert.",
                "Sie blieb erhalten.",
                "63 Vereine kamen.",
                "Es war 2015.",
                "Ja.",
            ],
        ),
        ("de", ['"Was?!", fragte sie.', "Er ging."]),
        ("de", ["Er sagte: „Komm.“", "„Nein.“", "»Doch!«", "Sie ging."]),
    ],
)
def test_sentences_with_spaces_between(language: str, expected: list[str]) -> None:
    assert sentences(" ".join(expected), language) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["今天天气很好。", "我们去公园吧！", "你来吗？"],
        ["他来了。", "2018年他走了。", "app很好用。"],
        ["“你好。”", "“再见。”", "他走了。"],
    ],
)
def test_chinese_sentences(expected: list[str]) -> None:
    assert sentences("".join(expected), "zh") == expected
    assert sentences("".join(expected), "zh-Hans") == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "\u2028", "\n\n \n"])
def test_a_newline_ends_a_sentence(newline: str) -> None:
    pieces = split_sentences(f"  no period{newline}and lower case \t{newline}", "en")
    assert pieces == [Piece("", "  "), Piece("no period", newline), Piece("and lower case", f" \t{newline}")]


def test_a_gap_keeps_its_white_space() -> None:
    assert split_sentences("One.\u00a0 Two.\t", "en") == [Piece("One.", "\u00a0 "), Piece("Two.", "\t")]


@pytest.mark.parametrize(
    "expected",
    [
        [f"{B}One goes.{B_END}", "Two goes."],
        ["One goes.", f"{B}Two goes.{B_END}"],
        [f"{B}One goes.{B_END}", f"{I}Two goes.{I_END}"],
        [f"{I}{B}One goes.{B_END}{I_END}", f"{I}Two{I_END} goes."],
        [f"He said {B}One goes. Two goes.{B_END} to her.", "She left."],
        ["One goes.", f"{IMAGE} Two goes."],
        [f"One goes.{IMAGE}", "Two goes."],
        ["<b>One goes.</b>", "<i>Two goes.</i>"],
        [f"One goes.{B}{B_END}", "Two goes."],
    ],
)
def test_codes_stay_with_their_sentence(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected


@pytest.mark.parametrize(
    "expected",
    [
        [f"{B}一来了。{B_END}", "二来了。"],
        ["一来了。", f"{B}二来了。{B_END}"],
        [f"{B}一来了。{B_END}", f"{I}“二来了。”{I_END}"],
        [f"“一来了。”{IMAGE}", "2来了。"],
        [f"{B}一来了。二来了。{B_END}", "三来了。"],
    ],
)
def test_codes_stay_with_their_sentence_without_spaces(expected: list[str]) -> None:
    assert sentences("".join(expected), "zh") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{B}One goes. {B_END}Two goes.", [f"{B}One goes. {B_END}", "Two goes."]),
        (f"One goes.{B} Two goes.{B_END}", ["One goes.", f"{B} Two goes.{B_END}"]),
        (f"{B}One goes.\nTwo goes.{B_END}\nMore.", [f"{B}One goes.\nTwo goes.{B_END}", "More."]),
        (f"{B}One goes.\n{B_END}Two goes.", [f"{B}One goes.\n{B_END}", "Two goes."]),
        (f"{B}One goes. Two goes.", [f"{B}One goes.", "Two goes."]),
        (f"One goes. Two goes.{B_END}", ["One goes.", f"Two goes.{B_END}"]),
    ],
)
def test_codes_at_odd_places(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    "placeholder",
    [
        "https://example.org/?Q.A!B?C",
        '<a title="Go. Now! Or?">',
        "{a. B}",
        "${a. B}",
        "{{ a. B? C }}",
        "%(a.B)s",
        "%s",
        "%%",
    ],
)
def test_placeholders_are_words(placeholder: str) -> None:
    expected = [f"See {placeholder} there.", f"{placeholder} Number 5 is here."]
    assert sentences(" ".join(expected)) == expected


def test_a_newline_in_a_tag_does_not_count() -> None:
    assert sentences('Go <a\nhref="x.\nY">here</a> now.') == ['Go <a\nhref="x.\nY">here</a> now.']


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("one, two; three, four", 12, ["one, two;", "three, four"]),
        ("one two three, four five six", 14, ["one two three,", "four five six"]),
        ("eins zwei – drei vier", 11, ["eins zwei –", "drei vier"]),
        ("one two three four", 9, ["one two", "three", "four"]),
        ("一二三四，五六七八。", 5, ["一二三四，", "五六七八。"]),
        ("一二三四五六七八", 4, ["一二三四", "五六七八"]),
        ("一二三四五六七。", 4, ["一二三四", "五六七。"]),
        ("short", 10, ["short"]),
        ("a " + "x" * 30 + " b", 5, ["a", "x" * 30, "b"]),
        (f"{B}One goes. Two, three, four, five.{B_END}", 25, [f"{B}One goes.", f"Two, three, four, five.{B_END}"]),
        (f"one two {B}three four{B_END} five six seven", 24, [f"one two {B}three four{B_END}", "five six seven"]),
        ("12:30 and 1,000.5", 9, ["12:30 and", "1,000.5"]),
        ("PHP是一种语言", 3, ["PHP", "是", "一种", "语言"]),
    ],
)
def test_clauses(text: str, size: int, expected: list[str]) -> None:
    assert clauses(text, at_most(size)) == expected


def test_placeholders_stay_whole_in_clauses() -> None:
    text = 'one two <a title="a, b; c d"> three {a, b, c} four'
    assert clauses(text, at_most(3)) == ["one", "two", '<a title="a, b; c d">', "three", "{a, b, c}", "four"]


def test_a_placeholder_at_the_end_of_a_window_stays_whole() -> None:
    tag = f'<a title="{"one two " * 100}">'
    assert clauses("x" * 3900 + tag + " y" * 500, at_most(3))[0] == "x" * 3900 + tag


@given(st.lists(st.sampled_from(["word", "long-word", "好", "，", ", ", " ", "; "]), max_size=40), st.integers(1, 30))
def test_every_clause_fits_or_has_no_border(fragments: list[str], size: int) -> None:
    for text in clauses("".join(fragments), at_most(size)):
        assert len(text) <= size or not re.search(r"\s|，.|\w好|好\w", text)


def test_clauses_are_balanced() -> None:
    sizes = [len(text) for text in clauses("word " * 1000, at_most(400))]
    assert max(sizes) <= 2 * min(sizes)


@pytest.mark.parametrize(
    "unit", ["Das ist gut. ", "你好，谢谢。", "你", "word ", "word", "Dr. ", "\n", "“好。”", *UNCLOSED]
)
def test_hostile_texts_take_no_time_and_only_short_texts_are_tokenized(unit: str) -> None:
    text = (unit * (50_000 // len(unit) + 1))[:50_000]
    longest = 0

    def fits(part: str) -> bool:
        nonlocal longest
        longest = max(longest, len(part))
        return len(part) <= 500

    started = time.process_time()
    check_pieces(split_sentences(text, "zh"), text)
    check_pieces(split_clauses(text, fits), text)
    assert time.process_time() - started < 5  # a tenth of it as a rule
    assert longest <= 4_000


def test_time_is_linear() -> None:
    text = "你好。" * 70_000
    started = time.process_time()
    assert len(split_sentences(text, "zh")) == 70_000
    assert time.process_time() - started < 8  # sentencex takes 15 seconds for it at once, and in windows one


def test_windows_do_not_cut_sentences() -> None:
    expected = [f"Satz Nummer {number} ist hier zu Ende." for number in range(1000)]
    assert sentences(" ".join(expected), "de") == expected
    long = "Wort " * 5000 + "Ende."
    assert sentences(f"{long} Gut.", "de") == [long, "Gut."]
