import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.corpora.fetching.messages import count_tokens, fault, is_sentence, tidy


@pytest.mark.parametrize(
    ("text", "mark", "clean"),
    [
        ("&Open", "&", "Open"),
        ("Sa_ve as", "_", "Save as"),
        ("打开(&O)...", "&", "打开..."),
        ("打开(_O)", "_", "打开"),
        ("打开（&O）", "&", "打开"),
        ("Search && replace", "&", "Search & replace"),
        ("%(user_name)s _opens", "_", "%(user_name)s opens"),
        ("Write the user_name in the box that is on the left side", "_", None),
        ("Caf&eacute; &menu", "&", "Caf&eacute; menu"),
        ("Q&A", "", None),
        ("a\n  b\tc ", "", "a b c"),
    ],
)
def test_shortcuts_go_and_the_rest_stays(text: str, mark: str, clean: str | None) -> None:
    assert tidy(text, mark) == (text if clean is None else clean)


@given(
    st.sampled_from(["%s", "%(name)s", "%(user_name)s", "{name}", "{}", "%1$d", "${path}", "<b>", "&amp;", "%{n}"]),
    st.sampled_from(["&", "_", ""]),
    st.sampled_from(["Open {} now", "{}", "&Open {}", "_Open {}", "打开 {}(&O)"]),
)
def test_placeholders_survive(placeholder: str, mark: str, frame: str) -> None:
    assert placeholder in tidy(frame.replace("{}", placeholder), mark)


@pytest.mark.parametrize(
    ("source", "target", "strict", "reason"),
    [
        ("%(a)s: %s", "%(a)s — %s", False, "no words beside placeholders"),
        ("variable_name", "Variablenname", False, "no words beside placeholders"),
        ("Öffnen", "Open", False, None),
        ("开", "On", False, None),
        ("Cholera: akut", "Cholera", True, "likely misplaced"),
        ("Cholera", "A very long text about something else", True, "likely misplaced"),
        ("霍乱", "Cholera due to Vibrio", True, None),
    ],
)
def test_what_can_be_no_translation(source: str, target: str, strict: bool, reason: str | None) -> None:
    assert fault(source, target, strict=strict) == reason


def test_sentences_have_four_words_or_eight_signs() -> None:
    assert is_sentence("Please open the file")
    assert not is_sentence("Open - the - file!")
    assert is_sentence("请现在打开这个文件")
    assert not is_sentence("打开文件")


@given(st.text())
def test_case_never_decides_what_a_sentence_is(text: str) -> None:
    assert is_sentence(text) == is_sentence(text.casefold())


def test_tokens_are_words_marks_and_chinese_characters() -> None:
    assert count_tokens("Open it, now!") == 5
    assert count_tokens("打开PDF。") == 4
