"""The web page in a real browser: translate, select a word, see its neighbors, switch the memory."""

from __future__ import annotations

from typing import Any

import pytest

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
    translate_too_much = "ja " * 100
    page.fill("#text", translate_too_much)
    page.click("#go")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "the model takes 64" in page.inner_text("#trouble")
    translate(page, SOURCES[3])
    assert page.is_hidden("#trouble")


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
    page.set_viewport_size({"width": 390, "height": 844})
    translate(page, SOURCES[0])
    page.click("#adapted button >> nth=1")
    page.evaluate(f"location.hash = '{view}'")
    if view == "#memory":
        page.wait_for_selector("svg.map")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_page_about_the_api(page: Any, address: str) -> None:
    page.goto(f"{address}/docs")
    page.wait_for_selector(".route")
    assert page.locator(".route").count() == 14


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
