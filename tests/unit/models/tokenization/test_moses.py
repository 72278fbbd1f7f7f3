"""Moses's words: exactly its tokens, and exactly the text again."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from lacuna.models.tokenization.splitters import JOIN, SPACE, MosesSplitter
from unit.models.tokenization.sentences import texts

GERMAN = [
    "Das ist ein Haus.",
    "Herr Dr. Müller wohnt seit 1995 in Köln, z.B. in der Südstadt.",
    'Er sagte: "Ich komme um 12:30 Uhr", und ging (wie immer) zu Fuß.',
    "Die „grüne“ Nord-Süd-Achse kostet 5,3 Millionen Euro.",
    "Am 3. Oktober ist Feiertag; am 4. nicht!",
    "Ein- und Ausgänge, und/oder Türen...",
]
ENGLISH = [
    "This is a house.",
    "Mr. Smith doesn't live in St. Louis; he's from the U.S., isn't he?",
    'She said, "It\'s a well-known fact" (and left).',
    "The Jones' house costs $5,300 at 12:30.",
    "No. 5 is alive. No one knows why.",
    "I 'm here",
]
HARD = [
    "%s kann %1$d nicht öffnen: {0}, {name}!",
    "<b>Fett</b> und &amp; &lt;code&gt; $var ${HOME}/bin",
    "Siehe http://www.example.org/a_b?c=d&e=f#g, (www.example.org) oder me@example.org.",
    "Geht's so? Hans' Auto … ‚einfach‘ ’n’ »so« «da»",
    "5 % oder 5%, 20 °C, § 3, 3-5, 3 - 5, -5, foo_bar, a+b=c, C:\\x\\y",
    "Ein \"offenes Zitat, ein ' Apostroph ', don’t",
    "a ￭ b␣c ￭￭ @-@ d@@ e",
    "Windows 使用 中文，mixed日本",
    "DOTMULTI THISISPROTECTED000 \x01x ...!",
]


tokenizer_of = cache(MosesTokenizer)
splitter_name = cache(MosesSplitter)


def moses(text: str, language: str) -> list[str]:
    words: list[str] = tokenizer_of(language).tokenize(text, aggressive_dash_splits=True, escape=False)
    return words


@pytest.mark.parametrize(
    ("language", "text"), [*(("de", text) for text in GERMAN), *(("en", text) for text in ENGLISH[:-1])]
)
def test_ordinary_sentences_are_exactly_as_moses_makes_them(language: str, text: str) -> None:
    assert splitter_name(language).split(text) == moses(text, language)


@given(
    st.lists(st.sampled_from([*GERMAN, *ENGLISH]), min_size=1, max_size=3).map(" ".join),
    st.sampled_from(["de", "en", "fr"]),
)
def test_without_its_marks_any_such_text_is_as_moses_makes_it(text: str, language: str) -> None:
    words = [word for word in splitter_name(language).split(text) if word not in (JOIN, SPACE)]
    assert words == moses(text, language)


@pytest.mark.parametrize("language", ["de", "en", "fr", "ko", "xx"])
@pytest.mark.parametrize("text", [*GERMAN, *ENGLISH, *HARD])
def test_texts_come_back_exactly(language: str, text: str) -> None:
    words = splitter_name(language)
    assert words.join(words.split(text)) == text


@given(texts, st.sampled_from(["de", "en", "fr", "it", "cs"]))
@example("1' '2", "en")
@example("a - -b", "de")
def test_any_text_comes_back_exactly(text: str, language: str) -> None:
    words = splitter_name(language)
    assert words.join(words.split(text)) == text


@given(st.lists(st.sampled_from([JOIN, SPACE, "@-@", "a", "'", '"', ".", "￭￭", "中", "€", ":", "5"])))
def test_any_words_of_a_model_can_be_joined(generated: list[str]) -> None:
    text = splitter_name("en").join(generated)
    assert text == " ".join(text.split())


def test_only_what_would_come_back_wrong_is_marked() -> None:
    assert splitter_name("de").split("Geht's (gut) ?") == ["Geht", JOIN, "'", "s", "(", "gut", ")", SPACE, "?"]


@pytest.mark.parametrize(
    "whole",
    ["%s", "%1$d", "%(name)s", "%-5.2f", "%lu", "%1", "{0}", "{name}", "{}", "<b>", "</b>", "<br/>", "&amp;", "&#160;",
     "$var", "${HOME}", "https://example.org/a-b_c?d=1&e=2", "www.example.org", "first.last@mail.example.org"],
)  # fmt: skip
def test_addresses_and_placeholders_stay_whole(whole: str) -> None:
    assert whole in splitter_name("de").split(f"Die Datei {whole} und „{whole}“, ({whole}).")


@pytest.mark.parametrize("text", ["50%ige", "100%", "$5", "5%d"])
def test_what_only_looks_like_a_placeholder_is_split(text: str) -> None:
    assert len(splitter_name("de").split(text)) > 1


def test_white_space_becomes_single_spaces() -> None:
    words = splitter_name("en")
    assert words.join(words.split(" a\t b \u3000c.\n")) == "a b c."
    assert words.split("  ") == []
    assert words.join([]) == ""
