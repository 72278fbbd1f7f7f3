"""Glossaries in a real browser: terms in a translation and in its evidence, and the terms of a glossary with edits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import CHINESE, remember, running, watched
from lacuna.combiners import Vanilla
from lacuna.glossaries import Glossary, Term
from lacuna.glossaries.glossary_edits import add_terms
from lacuna.glossaries.glossary_files import read_glossary
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.serving import Access, Engine, create_app

pytestmark = pytest.mark.browser

PAIRS = [("Der Ofen ist heiß.", "The kiln is hot."), ("Die Datei ist voll.", "The file is full.")]
# The bundled model would not say record or binder by itself, but door.
TERMS = [
    Term("Datei", ("record", "log")),
    Term("Tür", ("door",), forbidden=("gate",)),
    Term("Kiesel", translate=False, note="a product"),
]
OFFICE = [Term("Ordner", ("binder",))]
MANY = [Term(f"Wort {number}", (f"word {number}",)) for number in range(1, 251)]

TEXT = "Die Datei ist leer."
TEXTS = f"  Die Tür ist offen. 😀 {TEXT}"


@pytest.fixture(scope="module")
def memory(bundled: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return remember(bundled, PAIRS, tmp_path_factory.mktemp("memories") / "pottery")


def served(model: Model, memory: Memory, folder: Path, terms: list[Term] = TERMS) -> Engine:
    """A memory with a glossary in a file, and another glossary that is in none."""
    file = folder / "pottery.tsv"
    add_terms(file, terms)
    glossaries = [Glossary(read_glossary(file).glossary.terms, "pottery", file), Glossary(OFFICE, "office")]
    return Engine(model, [memory], {"pottery": Vanilla(k=2, knn_weight=0.1)}, glossaries=glossaries)


@pytest.fixture(scope="module")
def closed_address(bundled: Model, memory: Memory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    engine = served(bundled, memory, tmp_path_factory.mktemp("glossaries"), [*TERMS, *MANY])
    yield from running(create_app(engine))


@pytest.fixture
def closed(chromium: Any, closed_address: str) -> Iterator[Any]:
    """The page of a server that takes no edits, with more terms than fit on a page."""
    yield from watched(chromium, closed_address)


@pytest.fixture
def editable(chromium: Any, bundled: Model, memory: Memory, tmp_path: Path) -> Iterator[Any]:
    """The page of a server that takes edits; its glossary is in `tmp_path`."""
    for address in running(create_app(served(bundled, memory, tmp_path), access=Access(writable=True))):
        yield from watched(chromium, address)


def translate(page: Any, text: str, shown: str = "#adapted button") -> None:
    page.fill("#text", text)
    page.press("#text", "Control+Enter")
    page.wait_for_selector(shown)


def open_terms(page: Any) -> None:
    page.click("#terms-tab")
    page.wait_for_selector("#terms li")


def add(page: Any, source: str, *targets: str) -> None:
    page.fill("#term-text", source)
    page.fill("#term-targets", "\n".join(targets))
    page.click("#term button[type=submit]")


def said(page: Any, text: str) -> None:
    page.locator("#term-said").get_by_text(text).wait_for()


def listed(page: Any) -> list[str]:
    return [str(text) for text in page.locator("#terms .pair").all_inner_texts()]


def in_file(folder: Path) -> list[Term]:
    return list(read_glossary(folder / "pottery.tsv").glossary)


def picked(page: Any, place: str) -> list[str]:
    return [str(text).lower() for text in page.locator(f"{place} .picked").all_inner_texts()]


def test_terms_of_several_sentences_are_marked_on_both_sides(closed: Any) -> None:
    translate(closed, TEXTS, ".sentence")
    assert closed.text_content("#term-source") == TEXTS
    assert closed.locator("#term-source button").all_inner_texts() == ["Tür", "Datei"]
    assert [text.lower() for text in closed.locator("#whole mark").all_inner_texts()] == ["door", "record"]
    about = [closed.get_attribute(f"#whole mark >> nth={number}", "title") for number in range(2)]
    assert about == [
        "term: Tür → door; the model had it by itself",
        "term: Datei → record, log; the glossary asked for it",
    ]
    assert closed.get_attribute("#term-source button >> nth=1", "aria-label") == f"Datei, {about[1]}"
    lines = closed.evaluate(
        "[...document.querySelectorAll('#whole mark')].map(one => getComputedStyle(one).textDecoration)"
    )
    assert "dotted" in lines[0]
    assert "underline" in lines[1]
    assert "dotted" not in lines[1]
    without = closed.text_content("#whole-without-text")
    assert "😀" in without
    assert "record" not in without.lower()


def test_a_selected_term_is_marked_on_the_other_side(closed: Any) -> None:
    translate(closed, TEXTS, ".sentence")
    closed.focus("#term-source button >> nth=0")
    closed.keyboard.press("ArrowRight")
    closed.keyboard.press("Enter")
    assert picked(closed, "#term-source") == ["datei"]
    assert closed.locator("#term-source button[aria-pressed=true]").all_inner_texts() == ["Datei"]
    assert picked(closed, "#whole") == ["record"]
    closed.click("#whole mark >> nth=0")
    assert picked(closed, "#term-source") == ["tür"]
    closed.get_by_text("Sentence 1 of ").wait_for()  # a term is also a part of a sentence to select
    closed.wait_for_selector("#adapted button")
    assert picked(closed, "#adapted") == ["door"]
    closed.click(".sentence >> nth=-1")
    closed.locator("#adapted .term", has_text="record").click()
    assert picked(closed, "#term-source") == ["datei"]
    assert picked(closed, "#whole") == ["record"]
    closed.click("#adapted button:not(.term)")
    assert picked(closed, "#result") == []


def test_the_evidence_says_who_chose_a_word(closed: Any) -> None:
    translate(closed, TEXT)
    assert closed.is_hidden("#paragraph")
    word = closed.locator("#adapted .term")
    assert word.inner_text() == "record"
    assert "term: Datei → record, log; the glossary asked for it" in word.get_attribute("aria-label")
    assert "changed by the memory" not in word.get_attribute("aria-label")
    word.click()
    closed.locator("#why").get_by_text("Chosen by the glossary").wait_for()
    assert picked(closed, "#term-source") == ["datei"]
    without = closed.inner_text("#without-text")
    assert "record" not in without
    closed.click("#adapted button >> nth=0")
    closed.locator("#why").get_by_text("Chosen by the model.").wait_for()
    closed.select_option("#selection select >> nth=-1", "none")
    closed.wait_for_selector("#term-card", state="hidden")
    assert closed.is_hidden("#without")
    assert closed.locator("#adapted").inner_text().replace(" ", "").rstrip("¶") == without.replace(" ", "")


def test_a_missing_term_is_marked_and_listed(closed: Any) -> None:
    flag = "term missing: Datei (record, log)"
    sentences = [
        {"source": "", "text": "", "gap": "  ", "confidence": None, "flag": "", "match": ""},
        {"source": "Die Datei.", "text": "The record.", "gap": " ", "confidence": None, "flag": "", "match": ""},
        {
            "source": "Datei? Eine Dateiliste.",
            "text": "This?",
            "gap": "",
            "confidence": None,
            "flag": flag,
            "match": "",
        },
    ]
    found = {"source": "Datei", "targets": ["record", "log"], "target": "", "target_start": -1, "enforced": False}
    terms = [
        {**found, "start": 6, "end": 11, "target": "record", "target_start": 6, "enforced": True},
        {**found, "start": 14, "end": 19},
    ]
    whole = {"text": "  The record. This?", "flag": flag, "sentences": sentences, "terms": terms}
    answer: dict[str, Any] = {"memories": [], "source": "de", "target": "en", "combiner": None}
    answer["translations"] = [{**whole, "without_glossary": None}]
    closed.route("**/api/v1/translate", lambda route: route.fulfill(json=answer))
    translate(closed, "  Die Datei.  Datei? Eine Dateiliste.", ".sentence")
    classes = closed.locator("#term-source button").evaluate_all("all => all.map(one => one.className)")
    assert classes == ["term enforced", "term missing"]
    assert "missing in the translation" in closed.get_attribute("#term-source .missing", "title")
    assert closed.locator("#whole mark").all_inner_texts() == ["record"]
    assert closed.inner_text("#doubts") == f"⚠ Sentence 2: {flag}"
    assert closed.is_hidden("#whole-without")


def test_the_glossary_is_chosen(closed: Any) -> None:
    closed.wait_for_selector("#selection .chip")
    choice = closed.locator("#selection select >> nth=-1")
    assert choice.locator("option").all_inner_texts() == ["pottery (253 terms)", "office (1 term)", "none"]
    assert choice.input_value() == "pottery"
    assert closed.locator("#document-selection select >> nth=-1").input_value() == "pottery"
    closed.uncheck("#selection input[value=pottery]")
    assert choice.input_value() == "none"  # as the server does without a memory
    closed.check("#selection input[value=pottery]")
    assert choice.input_value() == "pottery"
    translate(closed, "Der Ordner und die Datei.")
    assert closed.locator("#term-source button").all_inner_texts() == ["Datei"]
    choice.select_option("office")
    closed.locator("#term-source").get_by_text("Ordner", exact=True).wait_for()
    closed.uncheck("#selection input[value=pottery]")
    closed.get_by_text("No memory chosen", exact=True).wait_for()
    assert choice.input_value() == "office"  # what was chosen stays
    assert closed.locator("#term-source button").all_inner_texts() == ["Ordner"]


def test_the_glossary_of_a_detected_direction(
    chromium: Any, bundled: Model, memory: Memory, chinese: Engine, tmp_path: Path
) -> None:
    for address in running(create_app([served(bundled, memory, tmp_path), chinese])):
        for page in watched(chromium, address):
            choice = page.locator("#selection select >> nth=-1")
            assert choice.input_value() == "pottery"
            page.select_option("#selection select >> nth=0", label="Chinese → English")
            assert choice.is_hidden()
            translate(page, CHINESE)
            page.select_option("#selection select >> nth=0", label="Detect language → English")
            assert choice.locator("option").all_inner_texts() == ["that of the detected direction", "none"]
            translate(page, TEXT, "#adapted .term")
            choice.select_option("none")
            page.wait_for_selector("#term-card", state="hidden")


def test_a_server_without_a_glossary(page: Any) -> None:
    page.wait_for_selector("#selection .chip")
    assert not page.get_by_text("Glossary", exact=True).locator("visible=true").count()
    page.click("#terms-tab")
    page.get_by_text("lacuna serve --glossary NAME=FILE").wait_for()
    assert page.is_hidden("#term")
    assert page.is_hidden("#term-browser")


def test_terms_are_listed_page_by_page_and_searched(closed: Any) -> None:
    open_terms(closed)
    assert listed(closed)[:3] == ["Datei → record, log", "Tür → door, not gate", "Kiesel → not translated"]
    assert "a product" in closed.inner_text("#terms li >> nth=2")
    assert closed.inner_text("#term-count") == "1–100 of 253 terms"
    closed.click("#term-next")
    closed.get_by_text("101–200 of 253 terms").wait_for()
    closed.click("#term-next")
    closed.get_by_text("201–253 of 253 terms").wait_for()
    assert listed(closed)[-1] == "Wort 250 → word 250"
    assert closed.evaluate("document.activeElement.id") == "term-next"
    closed.fill("#term-search", "WORD 25")
    closed.get_by_text("2 terms", exact=True).wait_for()
    assert listed(closed) == ["Wort 25 → word 25", "Wort 250 → word 250"]
    assert closed.is_hidden("#term-next")
    closed.fill("#term-search", "nothing like this")
    closed.get_by_text("Nothing found.").wait_for()
    closed.fill("#term-search", "")
    closed.get_by_text("1–100 of 253 terms").wait_for()
    closed.select_option("#which-glossary", "office")
    closed.get_by_text("1 term", exact=True).wait_for()
    assert listed(closed) == ["Ordner → binder"]


def test_a_server_that_takes_no_edits_says_why(closed: Any, closed_address: str) -> None:
    open_terms(closed)
    answer = closed.request.post(f"{closed_address}/api/v1/glossaries/pottery/terms", data={"terms": []})
    assert answer.status == 403
    assert closed.inner_text("#terms-closed").lower().rstrip(".") == answer.json()["error"]
    assert closed.is_hidden("#term")
    assert closed.get_by_role("button", name="Remove").count() == 0


def test_a_glossary_that_cannot_be_edited_says_why(editable: Any) -> None:
    open_terms(editable)
    assert editable.is_visible("#term")
    editable.select_option("#which-glossary", "office")
    editable.get_by_text("Glossary office: only a .tsv file can be edited; start the server with one.").wait_for()
    assert editable.is_hidden("#term")
    editable.get_by_text("Ordner → binder").wait_for()
    assert editable.get_by_role("button", name="Remove").count() == 0
    editable.select_option("#which-glossary", "pottery")
    editable.get_by_role("button", name="Remove Datei").wait_for()


def test_the_glossary_of_the_translation_is_shown_first(editable: Any) -> None:
    editable.locator("#selection select >> nth=-1").select_option("office")
    open_terms(editable)
    assert listed(editable) == ["Ordner → binder"]


def test_a_term_is_added_with_options_and_can_be_undone(editable: Any, tmp_path: Path) -> None:
    open_terms(editable)
    editable.click("#term-options summary")
    editable.check("#term-case")
    editable.uncheck("#term-inflected")
    editable.fill("#term-forbidden", "gas\nfume")
    editable.fill("#term-note", "in the lab")
    add(editable, "Dampf", "steam", " ", " vapor ")
    said(editable, "Added Dampf to the glossary pottery.")
    editable.get_by_text("4 terms", exact=True).wait_for()
    new = Term("Dampf", ("steam", "vapor"), ("gas", "fume"), case_sensitive=True, inflected=False, note="in the lab")
    assert in_file(tmp_path) == [*TERMS, new]
    assert listed(editable)[-1] == "Dampf → steam, vapor, not gas, fume"
    for text in ("same capitals", "not inflected", "in the lab"):
        assert text in editable.inner_text("#terms li >> nth=-1")
    assert editable.input_value("#term-text") == editable.input_value("#term-note") == ""
    assert editable.is_checked("#term-inflected")
    assert editable.evaluate("document.activeElement.id") == "term-text"
    editable.check("#term-fixed")
    add(editable, "Granit")
    said(editable, "Added Granit")
    editable.get_by_text("5 terms", exact=True).wait_for()
    assert in_file(tmp_path)[-1] == Term("Granit", translate=False)
    editable.click("#term-said button")
    said(editable, "Undone.")
    editable.locator("#which-glossary option", has_text="pottery (4 terms)").wait_for(state="attached")
    editable.get_by_text("Dampf → steam").wait_for()
    assert in_file(tmp_path) == [*TERMS, new]
    assert editable.locator("#term-said button").count() == 0


def test_a_term_is_changed(editable: Any, tmp_path: Path) -> None:
    add_terms(tmp_path / "pottery.tsv", [Term("Ofen", ("kiln",), tag="studio", note="not in kitchens")])
    editable.wait_for_timeout(1100)  # the server looks for edits of others at most once a second
    editable.click("#terms-tab")
    for _ in range(20):
        if "Ofen → kiln" in listed(editable):
            break
        editable.reload()
        editable.wait_for_selector("#terms li")
    editable.get_by_role("button", name="Change Ofen").click()
    assert editable.input_value("#term-text") == "Ofen"
    assert editable.input_value("#term-note") == "not in kitchens"
    assert editable.evaluate("document.activeElement.id") == "term-targets"
    editable.fill("#term-targets", "kiln\nfurnace")
    editable.keyboard.press("Control+Enter")
    said(editable, "Changed Ofen in the glossary pottery.")
    assert in_file(tmp_path)[-1] == Term("Ofen", ("kiln", "furnace"), tag="studio", note="not in kitchens")
    editable.click("#term-said button")
    said(editable, "Undone.")
    assert in_file(tmp_path)[-1].targets == ("kiln",)


def test_a_term_is_removed_and_comes_back(editable: Any, tmp_path: Path) -> None:
    open_terms(editable)
    editable.get_by_role("button", name="Remove Tür").click()
    said(editable, "Removed Tür from the glossary pottery.")
    editable.get_by_text("2 terms", exact=True).wait_for()
    assert [term.source for term in in_file(tmp_path)] == ["Datei", "Kiesel"]
    assert editable.evaluate("document.activeElement.textContent") == "Undo"
    editable.keyboard.press("Enter")
    said(editable, "Undone.")
    editable.get_by_text("3 terms", exact=True).wait_for()
    assert set(in_file(tmp_path)) == set(TERMS)


def test_an_edit_makes_the_translation_outdated_and_one_key_translates_again(editable: Any) -> None:
    translate(editable, TEXT)
    assert editable.locator("#adapted .term").inner_text() == "record"
    assert editable.is_hidden("#outdated")
    open_terms(editable)
    add(editable, "Datei", "ledger")
    said(editable, "Changed Datei")
    said(editable, "The translation is outdated.")
    editable.click("#translate-tab")
    editable.get_by_text("The glossary pottery was edited: this translation is outdated.").wait_for()
    editable.click("#terms-tab")
    editable.keyboard.press("Control+Enter")
    editable.locator("#adapted .term").get_by_text("ledger").wait_for()
    assert editable.is_hidden("#outdated")
    assert editable.is_hidden("#terms-view")
    assert editable.evaluate("document.activeElement.id") == "text"
    # A translation with another glossary is not outdated.
    editable.locator("#selection select >> nth=-1").select_option("none")
    editable.wait_for_selector("#term-card", state="hidden")
    open_terms(editable)
    editable.click("#term-said button")
    said(editable, "Undone.")
    assert "outdated" not in editable.inner_text("#term-said")
    editable.click("#translate-tab")
    assert editable.is_hidden("#outdated")


def test_a_button_translates_again(editable: Any) -> None:
    translate(editable, TEXT)
    open_terms(editable)
    editable.get_by_role("button", name="Remove Datei").click()
    said(editable, "Removed Datei")
    editable.click("#translate-tab")
    editable.click("#again")
    editable.wait_for_selector("#term-card", state="hidden")
    assert "record" not in editable.inner_text("#adapted")
    assert editable.is_hidden("#outdated")


def test_what_the_server_refuses_is_one_line_and_nothing_is_lost(editable: Any, tmp_path: Path) -> None:
    open_terms(editable)
    add(editable, "Krug")
    editable.wait_for_selector("#term-trouble:not([hidden])")
    trouble = editable.inner_text("#term-trouble")
    assert "target" in trouble
    assert "\n" not in trouble
    assert not trouble.startswith("terms.")
    assert editable.input_value("#term-text") == "Krug"
    assert in_file(tmp_path) == TERMS
    editable.fill("#term-targets", "jug")
    editable.keyboard.press("Control+Enter")
    said(editable, "Added Krug")
    assert editable.is_hidden("#term-trouble")


def test_a_list_that_does_not_arrive_can_be_asked_for_again(closed: Any) -> None:
    refusal = {"status": 403, "json": {"error": "not now"}}
    closed.route("**/api/v1/glossaries/pottery?*", lambda route: route.fulfill(**refusal), times=1)
    open_terms(closed)
    assert "not now" in closed.inner_text("#terms")
    closed.click("#terms button")
    closed.get_by_text("Datei → record, log").wait_for()


def test_the_keyboard_is_enough_for_terms(editable: Any, tmp_path: Path) -> None:
    def tab_to(script: str) -> None:
        for _ in range(40):
            if editable.evaluate(script):
                return
            editable.keyboard.press("Tab")
        raise AssertionError(script)

    editable.wait_for_selector("#translate-view")
    tab_to("document.activeElement.id === 'translate-tab'")
    editable.keyboard.press("ArrowRight")
    editable.keyboard.press("ArrowRight")
    editable.wait_for_selector("#terms li")
    tab_to("document.activeElement.id === 'term-text'")
    editable.keyboard.type("Krug")
    editable.keyboard.press("Tab")
    editable.keyboard.type("jug")
    editable.keyboard.press("Enter")
    editable.keyboard.type("pitcher")
    editable.keyboard.press("Tab")
    editable.keyboard.press("Enter")  # opens the options
    tab_to("document.activeElement.id === 'term-case'")
    editable.keyboard.press("Space")
    editable.keyboard.press("Control+Enter")
    said(editable, "Added Krug")
    assert in_file(tmp_path)[-1] == Term("Krug", ("jug", "pitcher"), case_sensitive=True)
    tab_to("document.activeElement.getAttribute('aria-label') === 'Remove Datei'")
    editable.keyboard.press("Enter")
    said(editable, "Removed Datei")
    editable.keyboard.press("Enter")
    said(editable, "Undone.")


def test_the_write_key_is_asked_for(chromium: Any, bundled: Model, memory: Memory, tmp_path: Path) -> None:
    engine = served(bundled, memory, tmp_path)
    for address in running(create_app(engine, access=Access(write_key="sesame"))):
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{address}/#terms/pottery")
        page.wait_for_selector("#terms li")
        add(page, "Krug", "jug")
        page.fill("#key-value", "sesame")
        page.press("#key-value", "Enter")
        said(page, "Added Krug")
        context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_terms_fit_on_a_phone(editable: Any, theme: str) -> None:
    def width() -> int:
        return int(editable.evaluate("document.documentElement.scrollWidth"))

    editable.emulate_media(color_scheme=theme)
    editable.set_viewport_size({"width": 360, "height": 780})
    translate(editable, TEXTS, ".sentence")
    editable.click(".sentence >> nth=-1")
    editable.wait_for_selector("#adapted .term")
    assert width() <= 360
    open_terms(editable)
    editable.click("#term-options summary")
    add(editable, "Donau" + "dampf" * 20, "steam" * 30)
    said(editable, "Added")
    editable.get_by_text("4 terms", exact=True).wait_for()
    assert width() <= 360
    lowest = editable.evaluate("document.querySelector('#term-said').getBoundingClientRect().bottom")
    assert lowest <= 780  # what was done is in sight, wherever the page is scrolled to


def test_the_colors_of_terms_have_enough_contrast(closed: Any) -> None:
    """At least 4.5 for text, 3 for lines, in both themes."""
    translate(closed, TEXTS, ".sentence")
    closed.click("#whole mark >> nth=1")
    for theme in ("light", "dark"):
        closed.emulate_media(color_scheme=theme)
        text, back, line = closed.evaluate(
            """() => {
              const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
              const style = getComputedStyle(document.querySelector("#whole .picked"));
              return [style.color, style.backgroundColor, style.textDecorationColor].map((color) => {
                canvas.fillStyle = color;
                canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
              });
            }"""
        )
        assert contrast(text, back) >= 4.5
        assert contrast(line, back) >= 3


def contrast(one: list[int], other: list[int]) -> float:
    """The contrast ratio of WCAG."""

    def luminance(color: list[int]) -> float:
        shares = [value / 255 for value in color]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
