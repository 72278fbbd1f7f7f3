"""The page of an explanation: whole, closed to the outside, and nothing in it can act."""

from __future__ import annotations

from html.parser import HTMLParser

import lxml.html

from lacuna.explanation import ExplainedNeighbor, ExplainedToken, Explanation, render_page

EVIL = '"><img src="http://evil.example/x" onerror="alert(1)"><script>alert(2)</script>\x00'
VOID = {"meta"}


class Nesting(HTMLParser):
    """Refuses a page whose tags are not closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def explanation(text: str = "word") -> Explanation:
    near = ExplainedNeighbor(text, 1, 2, 3, text, 4.5, 0.75, True, text, text, text, text, text)
    end = ExplainedNeighbor(text, 9, 7, 3, "</s>", 6.5, 0.25, False, text, text, "", "", text)
    changed = ExplainedToken(text, text, 0.5, 0.25, 0.75, 0.5, "other", True, 64, 64, 0.5, (near, end), "memory")
    same = ExplainedToken(text, "", 0.5, 0.25, 0.75, 0.5, text, False, 3, 64, None, (near,), "model")
    return Explanation(text, text, text, -0.5, (changed, same), 0.5, (2,))


def words(element: lxml.html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


def test_nothing_in_it_can_act_and_nothing_comes_from_elsewhere() -> None:
    text = render_page(explanation(EVIL), text_with=EVIL)
    parser = Nesting()
    parser.feed(text)
    assert not parser.open
    page = lxml.html.document_fromstring(text)
    assert not page.xpath("//script | //img | //link | //*[@onerror]")
    assert all(value.startswith("#") for name in ("src", "href", "action") for value in page.xpath(f"//@{name}"))
    [policy] = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "\x00" not in text
    assert "url(" not in text
    assert words(page.xpath("//h1")[0]).startswith('"><img src="http')


def test_says_what_the_explanation_says() -> None:
    page = lxml.html.document_fromstring(render_page(explanation(), text_with="with it"))
    assert "with it" in words(page.xpath("//dl")[0])
    assert "sentence 2" in words(page.xpath("//dl")[0])
    first, second = page.xpath("//section[1]//tbody/tr")
    assert [words(cell) for cell in first] == [
        "word",
        "0.500",
        "0.250",
        "0.750",
        "0.500",
        "64 or more",
        "0.500",
        "memory",
        "other",
    ]
    assert [words(cell) for cell in second][5:] == ["3", "–", "model", "the same"]
    assert [len(part.xpath(".//tbody/tr")) for part in page.xpath("//details")] == [2, 1]
    assert [part.get("open") is not None for part in page.xpath("//details")] == [True, False]
    assert [mark.text for mark in page.xpath("//details[1]//mark")] == ["word", "⏎"]


def test_links_lead_somewhere_and_it_is_light_and_dark() -> None:
    text = render_page(explanation())
    page = lxml.html.document_fromstring(text)
    ids = page.xpath("//@id")
    assert len(set(ids)) == len(ids)
    assert {link.removeprefix("#") for link in page.xpath("//@href")} <= set(ids)
    assert "prefers-color-scheme: dark" in text
