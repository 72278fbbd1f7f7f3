"""Placeholders come back, whatever the model does to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lacuna.corpora.placeholders import same_placeholders
from lacuna.decoding import Hypothesis
from lacuna.translator.restoring import AMOUNTS, DIFFERENT, IN_PARTS, MOVED, UNCLEAR, Restorer, check_translation


class Letters:
    """A model whose tokens are letters."""

    mask_placeholders = True
    max_length = 200

    def decode(self, ids: tuple[int, ...]) -> str:
        return "".join(map(chr, ids))

    def encode_targets(self, texts: list[str]) -> list[list[int]]:
        return [[*map(ord, text)] for text in texts]


def hypotheses(*texts: str) -> list[Hypothesis]:
    return [Hypothesis(tuple(map(ord, text)), -float(place), (), ()) for place, text in enumerate(texts)]


def restorer(search: Callable[[list[str]], list[list[Hypothesis]]]) -> Restorer:
    return Restorer(Letters(), search)  # type: ignore[arg-type] - only what it uses


def never(texts: list[str]) -> list[list[Hypothesis]]:
    pytest.fail(f"translated again: {texts}")


def test_the_best_hypothesis_with_all_placeholders_is_taken() -> None:
    [result] = restorer(never).restore(["Datei %s"], [hypotheses("File", "File 71 71", "The file 71", "File 71")])
    assert (result.text, result.flag) == ("The file %s", "")
    assert result.hypothesis.score == -2.0


def test_a_sentence_is_translated_again_with_other_stand_ins() -> None:
    asked: list[list[str]] = []

    def search(texts: list[str]) -> list[list[Hypothesis]]:
        asked.append(texts)
        return [hypotheses("File X71") for _ in texts]

    results = restorer(search).restore(["Ja", "Datei %s"], [hypotheses("Yes"), hypotheses("File")])
    assert [one.text for one in results] == ["Yes", "File %s"]
    assert [one.flag for one in results] == ["", ""]
    assert asked == [["Datei 71"], ["Datei X71"]]
    # The tokens are those that an explanation expects, not those of the second attempt.
    assert Letters().decode(results[1].hypothesis.tokens) == "File %s"


def test_at_last_the_parts_around_placeholders_are_translated() -> None:
    def search(texts: list[str]) -> list[list[Hypothesis]]:
        return [hypotheses(text.upper() if "71" not in text else "lost") for text in texts]

    [result] = restorer(search).restore(["Datei %s in {x}, bitte."], [hypotheses("lost")])
    assert result.text == "DATEI %s IN {x}, BITTE."
    assert result.flag == IN_PARTS
    assert same_placeholders("Datei %s in {x}, bitte.", result.text)


def test_a_made_up_placeholder_is_flagged() -> None:
    [result] = restorer(never).restore(["Datei"], [hypotheses("File %s", "The %s")])
    assert (result.text, result.flag) == ("File %s", DIFFERENT)
    [result] = restorer(never).restore(["Datei"], [hypotheses("File %s", "The file")])
    assert (result.text, result.flag) == ("The file", "")


@pytest.mark.parametrize(
    ("source", "found", "text", "flag"),
    [
        ("&Datei öffnen", "Open file", "&Open file", ""),
        ("Speichern &unter...", "Save as...", "&Save as...", MOVED),
        ("Be_enden", "Exit", "_Exit", ""),  # the same letter
        ("Datei ö_ffnen", "Open file", "_Open file", MOVED),
        ("Datei be_enden", "71 File", "be_enden File", UNCLEAR),
        ("Die Funktion array_map wird hier immer aufgerufen.", "71 is called.", "array_map is called.", ""),
    ],
)
def test_accelerators(source: str, found: str, text: str, flag: str) -> None:
    [result] = restorer(never).restore([source], [hypotheses(found)])
    assert (result.text, result.flag) == (text, flag)


def test_parts_of_a_label_keep_its_accelerator() -> None:
    def search(texts: list[str]) -> list[list[Hypothesis]]:
        return [hypotheses(text.upper() if "71" not in text else "lost") for text in texts]

    [result] = restorer(search).restore(["_Datei %s laden"], [hypotheses("lost")])
    assert (result.text, result.flag) == ("_DATEI %s LADEN", IN_PARTS)


def test_a_hypothesis_with_the_amounts_is_preferred() -> None:
    source = "Das kostet 1.234,56 € im Jahr."
    [result] = restorer(never).restore([source], [hypotheses("It costs a lot.", "It costs €1,234.56 a year.")])
    assert (result.text, result.flag) == ("It costs €1,234.56 a year.", "")
    [result] = restorer(never).restore([source], [hypotheses("It costs a lot.", "It costs €1,234 a year.")])
    assert (result.text, result.flag) == ("It costs a lot.", AMOUNTS)


def test_what_a_whole_text_has_lost() -> None:
    assert check_translation("Siehe %s.", "See.") == DIFFERENT
    assert check_translation("Nur 5 € mehr.", "Only 5 more.") == AMOUNTS
    assert check_translation("Nur 5 € mehr.", "Only five euros more.") == AMOUNTS
    assert check_translation("Nur 5 € mehr.", "Only 5 euros more.") == ""
