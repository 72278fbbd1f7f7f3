"""The web page in a real browser: translate, select a word, see its neighbors, switch the memory."""

from __future__ import annotations

from typing import Any

import pytest

from browser.conftest import CHINESE
from unit.models.tiny_models import SOURCES, TARGETS

pytestmark = pytest.mark.browser


def translate(page: Any, text: str) -> None:
    page.fill("#text", text)
    page.press("#text", "Control+Enter")
    page.wait_for_selector("#adapted button")


def adapted(page: Any) -> str:
    words = page.locator("#adapted").inner_text()
    return str(words.removesuffix("¶")).strip()


def test_translate_choose_a_word_see_its_neighbors_switch_the_memory(page: Any) -> None:
    translate(page, SOURCES[2])
    assert adapted(page) == TARGETS[2]
    assert page.inner_text("#base") != TARGETS[2]
    assert page.inner_text("#adapted-title") == "Model with memory: dogs"
    page.click("#adapted button:has-text('dog')")
    page.wait_for_selector(".neighbors li")
    assert "dog" in page.inner_text("#why-title")
    assert SOURCES[2] in page.inner_text(".neighbors li")
    assert "tiny:3" in page.inner_text(".neighbors li .origin")
    assert page.locator("#adapted button[aria-pressed=true]").count() == 1

    page.uncheck("input[value=dogs]")
    page.check("input[value=houses]")
    page.get_by_text("Model with memory: houses", exact=True).wait_for()
    assert adapted(page) == TARGETS[0]
    assert page.is_hidden("#why")
    page.uncheck("input[value=houses]")
    page.get_by_text("No memory chosen", exact=True).wait_for()
    assert adapted(page) == page.inner_text("#base")


def test_the_sentence_of_a_neighbor_opens_and_escape_closes_it(page: Any) -> None:
    translate(page, SOURCES[2])
    page.click("#adapted button:has-text('sleeps')")
    page.click(".neighbors .link")
    page.wait_for_selector("#sentence table")
    assert TARGETS[2] in page.inner_text("#sentence")
    page.keyboard.press("Escape")
    assert not page.is_visible("#sentence")


def test_words_are_walked_with_arrow_keys(page: Any) -> None:
    translate(page, SOURCES[2])
    page.focus("#adapted button >> nth=0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".neighbors li")
    assert page.locator("#adapted button[aria-pressed=true]").inner_text() == "dog"


def test_the_view_of_a_memory(page: Any) -> None:
    page.click("nav >> text=Memory")
    page.wait_for_selector("svg.map [data-place]")
    assert "57" in page.inner_text("#overview .figures")
    assert page.locator("svg.map [data-place]").count() == 57
    assert page.locator(".words tbody tr").count() > 0
    page.select_option("#which", "houses")
    page.get_by_text("21 keys.").wait_for()
    page.fill("#look", "0")
    page.click("text=Show entries")
    page.wait_for_selector("#sentence table")
    assert SOURCES[2] in page.inner_text("#sentence")


def test_errors_are_shown_and_go_away(page: Any) -> None:
    too_much_to_explain = "ja " * 100
    page.fill("#text", too_much_to_explain)
    page.click("#go")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "the model takes 64" in page.inner_text("#trouble")
    assert page.inner_text("#whole")  # translated in clauses
    assert page.is_hidden("#evidence")
    translate(page, SOURCES[3])
    assert page.is_hidden("#trouble")
    assert page.is_hidden("#paragraph")


def test_colors_follow_the_switch_and_stay(page: Any) -> None:
    def paper() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = paper()
    page.click("#theme")
    assert paper() == light  # from auto to light, which it was
    page.click("#theme")
    dark = paper()
    assert dark != light
    page.reload()
    page.wait_for_selector(".chip")
    assert paper() == dark


@pytest.mark.parametrize("view", ["#translate", "#memory"])
def test_nothing_is_wider_than_a_phone(page: Any, view: str) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    translate(page, SOURCES[0])
    page.click("#adapted button >> nth=1")
    page.evaluate(f"location.hash = '{view}'")
    if view == "#memory":
        page.wait_for_selector("svg.map")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


PARAGRAPH = f"  {SOURCES[2]}\n\n\t{SOURCES[3]}"


def write_paragraph(page: Any) -> None:
    page.fill("#text", PARAGRAPH)
    page.press("#text", "Control+Enter")
    page.wait_for_selector(".sentence")


def test_a_paragraph_keeps_its_white_space_and_every_sentence_has_its_evidence(page: Any) -> None:
    write_paragraph(page)
    assert page.text_content("#whole") == f"  {TARGETS[2]}\n\n\t{TARGETS[3]}"
    assert page.evaluate("getComputedStyle(document.querySelector('#whole')).whiteSpaceCollapse") == "preserve"
    assert page.is_hidden("#evidence")
    page.click(".sentence >> nth=1")
    page.get_by_text("Sentence 2 of 2: ja").wait_for()
    assert adapted(page) == "yes"
    page.click("#adapted button >> nth=0")
    page.wait_for_selector(".neighbors li")
    assert page.inner_text(".neighbors li .source >> nth=0") == SOURCES[3]
    page.click(".sentence >> nth=0")
    page.get_by_text("Sentence 1 of 2").wait_for()
    assert adapted(page) == TARGETS[2]
    assert page.locator(".sentence[aria-pressed=true]").inner_text() == TARGETS[2]
    assert page.is_hidden("#why")


def test_sentences_are_chosen_with_the_keyboard(page: Any) -> None:
    write_paragraph(page)
    page.keyboard.press("Tab")  # from the text to the memories
    for _ in range(10):
        if page.evaluate("document.activeElement.className").startswith("sentence"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.get_by_text("Sentence 2 of 2").wait_for()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.get_by_text("Sentence 1 of 2").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.parentElement.id") == "adapted"


def test_a_sentence_to_check_says_why(page: Any) -> None:
    answer = {"memories": ["dogs"], "source": "de", "target": "en", "combiner": "dogs"}
    parts = [
        {"source": "ja", "text": "yes", "gap": " ", "confidence": 0.59, "flag": "", "match": ""},
        {"source": "ja", "text": "yes", "gap": " ", "confidence": 0.61, "flag": "", "match": ""},
        {"source": "ja", "text": "yes", "gap": "", "confidence": 0.9, "flag": "placeholders lost", "match": ""},
    ]
    whole = {
        "text": "yes yes yes",
        "flag": "placeholders lost",
        "sentences": parts,
        "terms": [],
        "without_glossary": None,
    }
    page.route("**/api/v1/translate", lambda route: route.fulfill(json={**answer, "translations": [whole]}))
    write_paragraph(page)
    doubts = page.locator("#doubts li").all_inner_texts()
    assert doubts == ["⚠ Sentence 1: low confidence, 59 %", "⚠ Sentence 3: placeholders lost"]
    assert page.locator(".sentence.doubtful").count() == 2
    sign = "getComputedStyle(document.querySelectorAll('.sentence')[{}], '::before').content"
    assert "⚠" in page.evaluate(sign.format(0))
    assert "⚠" not in page.evaluate(sign.format(1))
    described = page.get_attribute(".sentence >> nth=2", "aria-describedby")
    assert page.inner_text(f"#{described}") == doubts[1]
    page.click(".sentence >> nth=2")
    page.locator("#doubt").get_by_text("placeholders lost").wait_for()


def test_a_translation_by_a_person_is_not_doubted(page: Any) -> None:
    translate(page, SOURCES[0])
    page.get_by_text("Exact match: this is the translation of the same sentence in the memory dogs").wait_for()
    assert page.is_hidden("#doubt")
    assert "Confidence" not in page.inner_text("#score")
    translate(page, "ein see")
    page.locator("#doubt").get_by_text("low confidence").wait_for()
    assert "Exact match" not in page.inner_text("#score")


def test_near_matches_show_the_difference(page: Any) -> None:
    translate(page, "wir lesen ein altes buch")
    page.wait_for_selector("#matches li")
    assert page.locator("#matches li").count() == 1
    assert page.inner_text("#matches .target") == TARGETS[1]
    assert page.inner_text("#matches del >> nth=0") == "gutes"
    assert page.inner_text("#matches ins >> nth=0") == "altes"
    assert "91 % similar" in page.inner_text("#matches li")
    page.click("#matches .link")
    page.wait_for_selector("#sentence table")
    assert SOURCES[1] in page.inner_text("#sentence")
    page.keyboard.press("Escape")
    translate(page, SOURCES[1])
    page.get_by_text("exact match", exact=True).wait_for()
    assert page.locator("#matches .source del, #matches .source ins").count() == 0
    translate(page, SOURCES[3])
    page.get_by_text("exact match", exact=True).wait_for()
    page.uncheck("input[value=dogs]")
    page.get_by_text("No memory chosen", exact=True).wait_for()
    assert page.is_hidden("#matches")


def test_the_direction_is_chosen_or_detected(two_way_page: Any) -> None:
    page = two_way_page
    page.wait_for_selector("#selection .chip")
    assert page.locator("#selection option").all_inner_texts() == [
        "German → English",
        "Chinese → English",
        "Detect language → English",
    ]
    translate(page, SOURCES[2])
    assert adapted(page) == TARGETS[2]
    page.fill("#text", CHINESE)
    page.select_option("#selection select", label="Chinese → English")
    page.get_by_text("Model with memory: weather", exact=True).wait_for()
    assert adapted(page) == TARGETS[1]
    assert page.inner_text("#text-label") == "Chinese text"
    assert page.locator("#selection .chip").all_inner_texts() == ["weather"]
    page.fill("#text", SOURCES[0])
    page.select_option("#selection select", label="Detect language → English")
    page.get_by_text("Model with memory: dogs", exact=True).wait_for()
    assert adapted(page) == TARGETS[0]
    assert "Detected language: German" in page.inner_text("#detected")
    assert page.locator("#which option").count() == 3


def test_a_server_with_one_direction_offers_no_choice(page: Any) -> None:
    page.wait_for_selector("#selection .chip")
    assert page.is_hidden("#selection select")


def test_tabs_are_walked_with_arrow_keys(page: Any) -> None:
    def selected() -> list[str]:
        return [str(text) for text in page.locator("[role=tab][aria-selected=true]").all_inner_texts()]

    page.wait_for_selector("#translate-view")
    assert selected() == ["Translate"]
    page.focus("#translate-tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#documents-view")
    assert selected() == ["Documents"]
    assert page.evaluate("document.activeElement.id") == "documents-tab"
    page.keyboard.press("End")
    page.wait_for_selector("#memory-view")
    assert page.is_hidden("#documents-view")
    page.keyboard.press("Home")
    page.wait_for_selector("#translate-view")
    assert page.locator("[role=tab][tabindex='0']").all_inner_texts() == selected() == ["Translate"]


def test_the_page_about_the_api(page: Any, address: str) -> None:
    page.goto(f"{address}/docs")
    page.wait_for_selector(".route")
    assert page.locator(".route").count() == 30
    calls = page.locator(".route pre").all_inner_texts()
    assert any(call.endswith("/api/v1/documents \\\n  -F file=@messages.po") for call in calls)
    assert any(call.endswith("/api/v1/documents/{id} -X DELETE") for call in calls)


def test_a_locked_server_asks_for_its_key(chromium: Any, locked_address: str) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(locked_address)
    page.fill("#key-value", "wrong")
    page.press("#key-value", "Enter")
    page.get_by_text("Wrong API key").wait_for()
    page.fill("#key-value", "sesame")
    page.press("#key-value", "Enter")
    translate(page, SOURCES[3])
    assert adapted(page) == "yes"
    context.close()
