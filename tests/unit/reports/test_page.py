"""The page: complete, self-contained, accessible, and safe against markup in the data."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import lxml.html
import pytest

from lacuna.reports import write_report
from lacuna.reports.page import duration, flat
from lacuna.reproduction.tables import Column, Plot, Table
from unit.reports.experiments import CASES, CURVES, QUALITY, STATISTICS, TABLES, record, write_experiment

VOID = {"meta", "br", "hr", "img", "input", "link"}
EVIL = '"><img src="http://evil.example/x" onerror="alert(1)"><script>alert(2)</script>'


class Nesting(HTMLParser):
    """Refuses a page whose tags are not closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(write_experiment(tmp_path_factory.mktemp("experiment")))


@pytest.fixture(scope="module")
def page(text: str) -> lxml.html.HtmlElement:
    return lxml.html.document_fromstring(text)


def write(folder: Path) -> str:
    return write_report(folder).page.read_text(encoding="utf-8")


def words(element: lxml.html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


def test_tags_are_nested(text: str) -> None:
    parser = Nesting()
    parser.feed(text)
    assert not parser.open
    assert text.startswith("<!DOCTYPE html>")


def test_asks_for_nothing_from_outside(page: lxml.html.HtmlElement, text: str) -> None:
    for name in ("src", "srcset", "href", "action", "poster", "data"):
        assert all(value.startswith("#") for value in page.xpath(f"//@{name}"))
    assert "http" not in text.replace('http-equiv="', "")
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) == {"#"}


def test_browsers_are_told_to_allow_nothing_but_our_own_script(page: lxml.html.HtmlElement) -> None:
    [policy] = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    [script] = page.xpath("//script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_outline(page: lxml.html.HtmlElement) -> None:
    assert page.get("lang") == "en"
    assert [words(heading) for heading in page.xpath("//h1")] == ["OPUS-Koran"]
    assert [words(line) for line in page.xpath("//p[@class='subtitle']")] == [record()["title"]]
    titles = [table.title for table in TABLES]
    assert [words(heading) for heading in page.xpath("//main//h2")] == ["Claims", *titles, "Reproducibility"]
    assert [words(heading) for heading in page.xpath("//h3")] == ["Settings", "Versions", "Hashes", "Steps"]
    assert [words(link) for link in page.xpath("//nav//a")] == ["Claims", *titles, "Reproducibility"]


def test_links_lead_somewhere_and_ids_are_unique(page: lxml.html.HtmlElement) -> None:
    ids = page.xpath("//@id")
    assert len(set(ids)) == len(ids)
    assert {link.removeprefix("#") for link in page.xpath("//@href")} <= set(ids)
    assert page.xpath("//body/*")[0].get("href") == "#content"


def test_findings(page: lxml.html.HtmlElement) -> None:
    assert [words(finding) for finding in page.xpath("//ul[@class='findings']/li")] == [
        "✓ holds Accuracy rises with the margin 41.2 % at 0, 93.0 % from 32 on",
        "✗ does not hold PLAC drops 90 % at no cost 19.69 BLEU, 20.50 with all",
        "– not measured The same holds for Chinese",
    ]


def test_every_table_has_a_caption_and_scopes(page: lxml.html.HtmlElement) -> None:
    tables = page.xpath("//table")
    assert len(tables) == len(TABLES) + 4
    for table in tables:
        assert words(table.find("caption"))
        assert {cell.get("scope") for cell in table.xpath("./thead//th")} == {"col"}
        assert {cell.get("scope") for cell in table.xpath("./tbody//th")} == {"row"}
        assert all(len(row.xpath("./th")) == 1 for row in table.xpath("./tbody/tr"))
        assert not table.xpath("./thead//td")


def test_cells(page: lxml.html.HtmlElement) -> None:
    [table] = page.xpath("//section[@aria-labelledby='table-statistics']//table")
    assert [[words(cell) for cell in row] for row in table.xpath("./tbody/tr")] == [
        ["OPUS-Koran", "17,982", "524,771", "56.1 %"],
        ["OPUS-IT", "222,927", "3,608,731", "–"],
    ]
    [missing] = table.xpath(".//span[@role='img']")
    assert (missing.text, missing.get("aria-label")) == ("–", "no value")
    assert [cell.get("class") for cell in table.xpath("./thead//th")] == ["text", "number", "number", "number"]
    assert words(table.find("caption")) == f"Table 1: {STATISTICS.title} compare Table 1 of the PLAC paper"


def test_marks_are_shown_and_explained(page: lxml.html.HtmlElement) -> None:
    [section] = page.xpath("//section[@aria-labelledby='table-main']")
    marked = {words(cell) for cell in section.xpath(".//td[sup]")}
    assert marked == {"20.02*", "20.13*", "0.012*"}
    notes = [words(note) for note in section.xpath(".//*[contains(@class, 'note')]")]
    assert notes == [QUALITY.note, "BLEUOf sacreBLEU, detokenized. *significant decline"]
    [other] = page.xpath("//section[@aria-labelledby='table-statistics']//dl")
    assert "decline" not in words(other)


def test_a_mark_that_the_note_explains_needs_no_second_word(tmp_path: Path) -> None:
    text = write(write_experiment(tmp_path, replace(QUALITY, note="*: worse than the whole memory")))
    assert "significant decline" not in text


def test_cases_are_underlined(page: lxml.html.HtmlElement) -> None:
    [section] = page.xpath("//section[@aria-labelledby='table-cases']")
    assert [stretch.text for stretch in section.xpath(".//u")] == ["Schlüssel", "keys", "locks", "keys"]
    assert "⟦" not in words(section)


def test_figures_stand_with_their_numbers(page: lxml.html.HtmlElement) -> None:
    figures = page.xpath("//figure")
    assert [words(figure.find("figcaption")) for figure in figures] == [
        "Figure 1: Translation accuracy by knowledge margin compare Figure 2 of the PLAC paper",
        "Figure 2: Quality by share of entries dropped compare Figure 4 of the PLAC paper",
        "Figure 3: Size and speed",
    ]
    for figure in figures:
        [svg] = figure.xpath(".//svg")
        assert svg.get("role") == "img"
        assert svg.get("aria-label")
        assert figure.getnext().xpath("descendant-or-self::div/table")
    # Of the three, only the curves have more than a dozen rows.
    assert [figure.getnext().tag for figure in figures] == ["div", "details", "div"]


def test_titles_are_the_values_of_the_table(page: lxml.html.HtmlElement) -> None:
    [section] = page.xpath("//section[@aria-labelledby='table-ratio']")
    values = [[words(cell) for cell in row] for row in section.xpath(".//tbody/tr")]
    expected = [f"{method}, {ratio}: {bleu}" for method, ratio, bleu in values if bleu != "–"]
    assert len(expected) == len(CURVES.rows) - 1
    assert [title.text for title in section.xpath(".//svg//g[@class='point']/title")] == expected


def test_all_is_open_without_a_script(page: lxml.html.HtmlElement) -> None:
    folded = page.xpath("//details")
    assert len(folded) == 5
    assert all("open" in part.attrib for part in folded)


def test_how_it_was_made(page: lxml.html.HtmlElement) -> None:
    rows = [[words(cell) for cell in row] for row in page.xpath("//section[@aria-labelledby='making']//tr")]
    for row in (
        ["prune.ratios", "0.1, 0.45"],
        ["prune.clamp", "no"],
        ["prune.order", "none"],
        ["systems.2.k", "16"],
        ["torch", "2.4.0"],
        ["train", "60303ae22b998861bce3b28f33eec1be"],
        ["margin", "4,000.2", "77aa"],
        ["all", "4,711.0", ""],
    ):
        assert row in rows
    assert "Lacuna computed all numbers in 1 h 19 min" in words(page)


def test_hostile_words_stay_words(tmp_path: Path) -> None:
    table = Table(
        name="evil",
        title=EVIL,
        columns=(Column(EVIL, help=EVIL), Column("text"), Column("y", "number")),
        rows=((EVIL, f"⟦{EVIL}⟧ {{{{ 7 * 7 }}}}", 1), ("⟦", "⟧ ⟦⟦</table>", 2)),
        note=EVIL,
        marks={(0, 1): EVIL},
        plot=Plot("bars", EVIL, ("y",), None, EVIL, EVIL),
        paper=EVIL,
    )
    evil = {
        key: EVIL if isinstance(value, str) and key != "kind" else value for key, value in record("evil").items()
    } | {
        "findings": [{"claim": EVIL, "verdict": "within noise", "figures": EVIL}],
        "settings": {EVIL: [EVIL]},
        "versions": {EVIL: EVIL},
        "hashes": {EVIL: EVIL},
        "steps": [{"name": EVIL, "seconds": 1, "key": EVIL}],
    }
    page = lxml.html.document_fromstring(write(write_experiment(tmp_path, table, **evil)))
    assert not page.xpath("//img")
    assert len(page.xpath("//script")) == 1
    assert not page.xpath("//@onerror")
    assert len(page.xpath("//table")) == 5
    assert page.xpath("//title")[0].text == f"{EVIL}: Lacuna experiment report"
    assert page.xpath("//td/u")[0].text == EVIL
    assert words(page).count(EVIL) > 15
    assert "{{ 7 * 7 }}" in words(page)


def test_what_html_cannot_hold_is_replaced(tmp_path: Path) -> None:
    assert "nul \ufffd bell \ufffd" in write(write_experiment(tmp_path, CASES, title="nul \x00 bell \x07"))


def test_nothing_to_say_is_left_out(tmp_path: Path) -> None:
    bare = {"title": "", "findings": [], "settings": {}, "versions": {}, "hashes": {}, "steps": []}
    page = lxml.html.document_fromstring(
        write(write_experiment(tmp_path, replace(STATISTICS, note="", paper="", rows=()), **bare))
    )
    assert [words(link) for link in page.xpath("//nav//a")] == [STATISTICS.title, "Reproducibility"]
    assert not page.xpath("//details | //figure | //p[@class='note'] | //p[@class='subtitle']")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (3599.6, "1 h 0 min"),
        (4711, "1 h 19 min"),
        (725, "12 min 5 s"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_flat_settings() -> None:
    settings = {"a": {"b": [1, 2.5, None], "c": {}}, "d": [[1], {"e": True}], "f": []}
    assert list(flat(settings)) == [("a.b", "1, 2.5, none"), ("a.c", "none"), ("d.1", "1"), ("d.2.e", "yes"), ("f", "")]
