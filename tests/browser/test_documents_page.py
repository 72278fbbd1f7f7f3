"""Documents in a real browser: send a file, see how far it is, fetch it, and look at what is to be reviewed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polib
import pytest

from browser.conftest import CHINESE
from unit.models.tiny_models import SOURCES, TARGETS

pytestmark = pytest.mark.browser

KEPT = "a translation of the file"
HEAD = 'msgid ""\nmsgstr ""\n"Language: en\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'


def catalog(*messages: tuple[str, str]) -> str:
    return HEAD + "".join(f'\n#: main.c\nmsgid "{source}"\nmsgstr "{target}"\n' for source, target in messages)


def open_documents(page: Any) -> None:
    page.click("#documents-tab")
    page.wait_for_selector("#files-hint:not(:empty)")


def send(page: Any, name: str, content: str) -> None:
    page.set_input_files("#files", {"name": name, "mimeType": "text/plain", "buffer": content.encode()})


def wait_for(page: Any, status: str) -> Any:
    item = page.locator(f".document[data-status={status}]").first
    item.wait_for()
    return item


def fetch(page: Any, item: Any, into: Path) -> tuple[str, Path]:
    with page.expect_download() as found:
        item.get_by_text("Download").click()
    found.value.save_as(into)
    return found.value.suggested_filename, into


def figures(item: Any) -> dict[str, int]:
    names, counts = item.locator(".figures dt").all_inner_texts(), item.locator(".figures dd").all_inner_texts()
    return dict(zip(names, map(int, counts), strict=True))


def test_a_catalog_is_translated_and_downloaded(page: Any, tmp_path: Path) -> None:
    open_documents(page)
    send(page, "messages.po", catalog((SOURCES[2], ""), (SOURCES[3], KEPT), (f"{SOURCES[3]} {SOURCES[3]}", "")))
    item = wait_for(page, "done")
    assert figures(item) == {"Segments": 3, "Translated": 1, "Exact matches": 1, "Kept": 1, "To review": 1}
    name, file = fetch(page, item, tmp_path / "fetched.po")
    assert name == "messages.en.po"
    translated = {entry.msgid: entry.msgstr for entry in polib.pofile(str(file))}
    assert translated[SOURCES[2]] == TARGETS[2]
    assert translated[SOURCES[3]] == KEPT
    assert translated[f"{SOURCES[3]} {SOURCES[3]}"]
    assert "messages.po: done" in page.text_content("#documents-said")
    item.get_by_text("Remove").click()
    assert page.locator(".document").count() == 0


def test_options_are_followed(page: Any, tmp_path: Path) -> None:
    open_documents(page)
    page.check("#overwrite")
    page.uncheck("#exact-matches")
    page.fill("#review-below", "0")
    send(page, "messages.po", catalog((SOURCES[2], ""), (SOURCES[3], KEPT)))
    item = wait_for(page, "done")
    assert figures(item) == {"Segments": 2, "Translated": 2, "Exact matches": 0, "Kept": 0, "To review": 0}
    _, file = fetch(page, item, tmp_path / "fetched.po")
    assert [entry.msgstr for entry in polib.pofile(str(file))] == [TARGETS[2], TARGETS[3]]
    page.fill("#review-below", "101")
    send(page, "again.po", HEAD)
    assert page.locator(".document").count() == 1  # the browser says what is wrong with the number


def test_without_a_memory_there_is_no_confidence(page: Any) -> None:
    open_documents(page)
    assert page.is_enabled("#review-below")
    page.uncheck("#document-selection input[value=dogs]")
    assert page.is_disabled("#review-below")
    assert page.is_visible("#review-hint")
    send(page, "a.txt", SOURCES[2])
    assert figures(wait_for(page, "done"))["Translated"] == 1


def test_the_least_sure_is_reviewed_first(page: Any) -> None:
    sources = [f"{one} {other}" for one in SOURCES for other in SOURCES if one != other]
    open_documents(page)
    page.fill("#review-below", "100")
    send(page, "messages.po", catalog(*((source, "") for source in sources)))
    item = wait_for(page, "done")
    listed = item.locator(".reviews li:visible")
    assert listed.count() == 10
    item.get_by_text("Show all 12").click()
    assert listed.count() == len(sources) == 12
    assert sorted(item.locator(".reviews .source").all_inner_texts()) == sorted(sources)
    assert all(item.locator(".reviews .target").all_inner_texts())
    confidences = [float(text.split()[1]) for text in item.locator(".origin span:nth-child(2)").all_inner_texts()]
    assert confidences == sorted(confidences)
    assert len(set(confidences)) > 1
    assert set(item.locator(".doubt").all_inner_texts()) == {"⚠ low confidence"}
    assert item.locator(".origin >> nth=0").inner_text().split()[-2] == "line"


def test_files_can_be_dropped(page: Any) -> None:
    open_documents(page)
    files = page.evaluate_handle(
        """texts => {
          const data = new DataTransfer();
          for (const [name, text] of texts) data.items.add(new File([text], name));
          return data;
        }""",
        [["one.txt", SOURCES[2]], ["two.md", f"# {SOURCES[3]}\n"]],
    )
    page.dispatch_event("#drop", "dragover", {"dataTransfer": files})
    assert "over" in page.get_attribute("#drop", "class")
    page.dispatch_event("#drop", "drop", {"dataTransfer": files})
    page.wait_for_selector(".document[data-status=done] >> nth=1")
    assert sorted(page.locator(".document h2").all_inner_texts()) == ["one.txt", "two.md"]
    assert "over" not in page.get_attribute("#drop", "class")


def test_errors_are_shown_with_the_file(page: Any) -> None:
    open_documents(page)
    send(page, "letter.docx", "x")
    refused = wait_for(page, "failed")
    assert "cannot be translated; allowed: .txt, " in refused.locator(".error").inner_text()
    assert page.is_hidden("progress")
    refused.get_by_text("Remove").click()
    send(page, "broken.po", "msgid\n")
    failed = wait_for(page, "failed")
    assert "broken.po:1" in failed.locator(".error").inner_text()
    assert page.evaluate("document.querySelector('.document .primary').hidden")
    assert page.evaluate("document.activeElement.id") == "files"


def test_a_file_that_is_too_large_is_not_sent(page: Any) -> None:
    def shrink(route: Any) -> None:
        info = route.fetch().json()
        route.fulfill(json={**info, "limits": {**info["limits"], "max_file_bytes": 10}})

    page.route("**/api/v1/info", shrink)
    page.reload()
    open_documents(page)
    page.route("**/api/v1/documents", lambda route: route.abort())
    send(page, "long.txt", "x" * 11)
    assert "has 11 bytes; allowed are 10" in wait_for(page, "failed").locator(".error").inner_text()


def test_a_server_that_does_not_respond_is_asked_again(chromium: Any, address: str) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(address)
    page.route("**/api/v1/documents/*", lambda route: route.abort(), times=1)
    open_documents(page)
    send(page, "notes.txt", SOURCES[2])
    page.get_by_text("The server does not respond").wait_for()
    assert wait_for(page, "done").locator(".error").is_hidden()
    context.close()


def test_a_document_can_be_cancelled_and_a_button_keeps_the_focus(page: Any) -> None:
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.method)
        state = {"id": "x", "name": "a.txt", "status": "running", "sentences": len(asked)}
        if route.request.method == "GET":
            route.fulfill(json=state)
        else:
            route.fulfill(json={"deleted": True})

    page.route("**/api/v1/documents/*", answer)
    open_documents(page)
    send(page, "a.txt", SOURCES[2])
    item = wait_for(page, "running")
    assert item.locator("progress").is_visible()
    item.get_by_text("Cancel").focus()
    item.get_by_text("Translating: 2 sentences so far").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    with page.expect_request(lambda request: request.method == "DELETE"):
        page.keyboard.press("Enter")
    assert page.locator(".document").count() == 0
    page.unroute("**/api/v1/documents/*")


def test_the_list_survives_a_reload(page: Any, tmp_path: Path) -> None:
    open_documents(page)
    send(page, "notes.txt", SOURCES[2])
    wait_for(page, "done")
    page.reload()
    item = wait_for(page, "done")
    assert item.locator("h2").inner_text() == "notes.txt"
    _, file = fetch(page, item, tmp_path / "notes.txt")
    assert file.read_text() == TARGETS[2]
    item.get_by_text("Remove").click()
    page.reload()
    page.wait_for_selector("#files-hint:not(:empty)")
    assert page.locator(".document").count() == 0


def test_the_keyboard_is_enough_for_documents(page: Any) -> None:
    def tab_to(script: str) -> None:
        for _ in range(30):
            if page.evaluate(script):
                return
            page.keyboard.press("Tab")
        raise AssertionError(script)

    page.wait_for_selector("#translate-view")
    tab_to("document.activeElement.id === 'translate-tab'")
    page.keyboard.press("ArrowRight")
    tab_to("document.activeElement.id === 'overwrite'")
    page.keyboard.press("Space")
    assert page.is_checked("#overwrite")
    tab_to("document.activeElement.id === 'files'")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")  # with Enter, Chromium does not always tell Playwright
    chooser.value.set_files({"name": "notes.txt", "mimeType": "text/plain", "buffer": SOURCES[3].encode()})
    wait_for(page, "done")
    tab_to("document.activeElement.textContent === 'Download'")
    with page.expect_download() as found:
        page.keyboard.press("Enter")
    assert found.value.suggested_filename == "notes.en.txt"
    tab_to("document.activeElement.textContent === 'Remove'")
    page.keyboard.press("Enter")
    assert page.locator(".document").count() == 0


def test_the_direction_of_a_document(two_way_page: Any, tmp_path: Path) -> None:
    page = two_way_page
    open_documents(page)
    for label in ("Chinese → English", "Detect language → English"):
        page.select_option("#document-selection select", label=label)
        send(page, "weather.txt", CHINESE)
        item = wait_for(page, "done")
        _, file = fetch(page, item, tmp_path / "weather.txt")
        assert file.read_text() == TARGETS[1]
        item.get_by_text("Remove").click()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_documents_fit_on_a_phone(page: Any, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": 360, "height": 780})
    open_documents(page)
    page.fill("#review-below", "100")
    send(page, f"{'very_' * 20}long.txt", f"{SOURCES[2]} {SOURCES[3]}")
    wait_for(page, "done").locator(".reviews li").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_locked_server_gives_files_to_those_with_the_key(chromium: Any, locked_address: str, tmp_path: Path) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{locked_address}/#documents")
    page.fill("#key-value", "sesame")
    page.press("#key-value", "Enter")
    page.wait_for_selector("#files-hint:not(:empty)")
    send(page, "notes.txt", SOURCES[2])
    _, file = fetch(page, wait_for(page, "done"), tmp_path / "notes.txt")
    assert file.read_text() == TARGETS[2]
    context.close()
