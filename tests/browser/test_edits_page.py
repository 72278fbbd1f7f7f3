"""Corrections and forgotten sentences in a real browser, each with its undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from browser.conftest import learner, running
from browser.test_page import adapted, translate
from lacuna.serving import Access, Engine, create_app
from unit.models.tiny_models import SOURCES, TARGETS

pytestmark = pytest.mark.browser

NEW = "der hund steht am see"


def correct(page: Any, text: str) -> None:
    page.click("#correct")
    page.fill("#corrected", text)
    page.press("#corrected", "Control+Enter")


def note(page: Any, text: str) -> None:
    page.locator("#note").get_by_text(text).wait_for()


def test_a_corrected_translation_is_used_at_once_and_can_be_undone(editable_page: Any) -> None:
    page = editable_page
    translate(page, NEW)
    before = adapted(page)
    page.click("#correct")
    assert page.input_value("#corrected").split() == before.split()
    page.fill("#corrected", "the dog stands by the lake")
    page.click("#correction button[type=submit]")
    note(page, "Saved to dogs as sentence 4.")
    assert adapted(page) == "the dog stands by the lake"
    assert page.is_hidden("#correction")
    page.click("#adapted button:has-text('stands')")
    assert NEW in page.inner_text(".neighbors li")
    assert "api:" in page.inner_text(".neighbors li .origin")
    page.click("#note button")
    note(page, "Undone.")
    assert adapted(page) == before
    assert page.locator("#note button").count() == 0


def test_a_sentence_with_the_same_source_is_replaced(editable_page: Any) -> None:
    page = editable_page
    translate(page, SOURCES[2])
    correct(page, "the dog")
    note(page, "Sentence 2 of dogs was replaced by sentence 4.")
    assert adapted(page) == "the dog"
    page.click("#adapted button:has-text('dog')")
    assert "sentence 4" in page.inner_text(".neighbors li")
    page.focus("#note button")
    page.keyboard.press("Enter")
    note(page, "Undone.")
    assert adapted(page) == TARGETS[2]


def test_a_sentence_of_a_paragraph_is_corrected(editable_page: Any) -> None:
    page = editable_page
    page.fill("#text", f"{SOURCES[2]}\n{NEW}")
    page.press("#text", "Control+Enter")
    page.click(".sentence >> nth=1")
    page.get_by_text("Sentence 2 of 2").wait_for()
    correct(page, "the dog stands by the lake")
    note(page, "Saved to dogs as sentence 4.")
    assert page.text_content("#whole") == f"{TARGETS[2]}\nthe dog stands by the lake"
    assert adapted(page) == "the dog stands by the lake"
    assert page.locator(".sentence[aria-pressed=true]").inner_text() == "the dog stands by the lake"


def test_the_keyboard_is_enough(editable_page: Any) -> None:
    page = editable_page
    translate(page, SOURCES[3])
    page.focus("#correct")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "corrected"
    page.keyboard.press("Escape")
    assert page.is_hidden("#correction")
    assert page.evaluate("document.activeElement.id") == "correct"
    page.keyboard.press("Enter")
    page.keyboard.press("Control+a")
    page.keyboard.type("the warm stone")
    page.keyboard.press("Control+Enter")
    note(page, "replaced")
    assert adapted(page) == "the warm stone"
    assert page.evaluate("document.activeElement.textContent") == "Undo"


def test_a_sentence_of_the_evidence_is_forgotten_and_comes_back(editable_page: Any) -> None:
    page = editable_page
    translate(page, SOURCES[2])
    page.click("#adapted button:has-text('dog')")
    page.get_by_label("Forget sentence 2 of dogs").first.click()
    note(page, "Sentence 2 of dogs was forgotten.")
    assert adapted(page) != TARGETS[2]
    page.click("nav >> text=Memory")
    page.wait_for_selector("svg.map [data-place]")
    fewer = page.locator("svg.map [data-place]").count()
    page.click("nav >> text=Translate")
    page.click("#note button")
    note(page, "Undone.")
    assert adapted(page) == TARGETS[2]
    page.click("nav >> text=Memory")
    page.get_by_text("57 keys.").wait_for()
    assert page.locator("svg.map [data-place]").count() > fewer


def test_a_server_that_takes_no_edits_offers_none(page: Any) -> None:
    translate(page, SOURCES[2])
    page.click("#adapted button:has-text('dog')")
    page.wait_for_selector(".neighbors li")
    assert page.is_hidden("#correct")
    assert page.get_by_text("Forget").count() == 0


def test_an_edit_that_is_refused_says_why(editable_page: Any) -> None:
    page = editable_page
    page.route("**/pairs", lambda route: route.fulfill(status=403, json={"error": "not here"}))
    translate(page, NEW)
    before = adapted(page)
    correct(page, "the dog")
    page.locator("#trouble").get_by_text("not here").wait_for()
    assert adapted(page) == before
    assert page.input_value("#corrected") == "the dog"  # nothing that was written is lost


def test_the_write_key_is_asked_for_once(chromium: Any, engine: Engine, tmp_path: Path) -> None:
    for address in running(create_app(learner(engine, tmp_path), access=Access(write_key="sesame"))):
        context = chromium.new_context()
        page = context.new_page()
        page.goto(address)
        translate(page, NEW)
        correct(page, "the lake")
        page.get_by_text("Write key", exact=True).wait_for()
        page.fill("#key-value", "wrong")
        page.press("#key-value", "Enter")
        page.get_by_text("Wrong write key").wait_for()
        page.fill("#key-value", "sesame")
        page.press("#key-value", "Enter")
        note(page, "Saved to dogs")
        assert adapted(page) == "the lake"
        page.click("#note button")
        note(page, "Undone.")
        assert page.evaluate("sessionStorage.getItem('write-key')") == "sesame"
        context.close()
