"""Drawn figures: the SVG shows the values of the table."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import numpy as np
import pytest
from lxml import etree
from PIL import Image

from lacuna.reports.figures import PALETTE, PAPER, Figure, draw
from lacuna.reproduction.tables import Column, Plot, Table
from unit.reports.experiments import ACCURACY, CURVES, SHARES, SIZES

NAMES = {"svg": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}


@pytest.fixture(scope="module")
def accuracy() -> Figure:
    return drawn(ACCURACY)


@pytest.fixture(scope="module")
def curves() -> Figure:
    return drawn(CURVES)


@pytest.fixture(scope="module")
def sizes() -> Figure:
    return drawn(SIZES)


def drawn(table: Table) -> Figure:
    assert table.plot is not None
    figure = draw(table, table.plot)
    assert figure is not None
    return figure


def points(figure: Figure) -> dict[str, etree._Element]:
    """Return the points of an SVG by what they say."""
    found = etree.fromstring(figure.svg).xpath("//svg:g[svg:title]", namespaces=NAMES)
    return {point[0].text: point for point in found}


def test_every_bar_tells_its_value_and_is_as_high(accuracy: Figure) -> None:
    bars = points(accuracy)
    assert list(bars) == [
        "0: 41.2 %", "1 to 3: 58.6 %", "4 to 7: 70.3 %", "8 to 15: 80.1 %", "16 to 31: 87.4 %", "32 on: 93.0 %",
    ]  # fmt: skip
    corners = [np.array(re.findall(r"[\d.]+ [\d.]+", bar[1].get("d"))) for bar in bars.values()]
    heights = [np.ptp([float(corner.split()[1]) for corner in bar]) for bar in corners]
    assert np.array(heights) / heights[0] == pytest.approx(np.array(SHARES) / SHARES[0], rel=1e-4)


def test_every_point_of_a_line_tells_its_value_and_is_at_its_height(curves: Figure) -> None:
    found = points(curves)
    assert len(found) == 17  # of 18 values one is missing
    assert "Random, 70 %: 18.54*" in found
    height = {
        label: float(point.find(".//svg:use", NAMES).get("y"))
        for label, point in found.items()
        if label.startswith("PLAC")
    }
    values = np.array([float(label.rpartition(" ")[2]) for label in height])
    heights = np.array(list(height.values()))
    assert (heights - heights[0]) / (heights[-1] - heights[0]) == pytest.approx(
        (values - values[0]) / (values[-1] - values[0]), abs=1e-4
    )


def test_series_differ_in_more_than_color(curves: Figure, sizes: Figure) -> None:
    shapes = {}
    for label, point in points(curves).items():
        for path in point.iterfind(".//svg:defs/svg:path", NAMES):
            shapes[label.partition(",")[0]] = path.get("d")
    assert len(set(shapes.values())) == 3
    hatched = ["url(#" in bar[1].get("style") for bar in points(sizes).values()]
    assert hatched == [False] * 4 + [True] * 4


def test_words_are_text(sizes: Figure) -> None:
    words = etree.fromstring(sizes.svg).xpath("//svg:text/text()", namespaces=NAMES)
    assert {"batch size", "tokens per second", "Whole memory", "Pruned memory", "64", "310.25"} <= set(words)


@pytest.mark.parametrize("table", [CURVES, SIZES])
def test_same_table_same_bytes(table: Table) -> None:
    assert drawn(table) == drawn(table)


def test_ids_are_the_figures_own_and_all_references_lead_somewhere(sizes: Figure) -> None:
    root = etree.fromstring(sizes.svg)
    ids = root.xpath("//@id")
    used = re.findall(r"url\(#([^)]*)\)", etree.tostring(root, encoding="unicode"))
    used += [link.removeprefix("#") for link in root.xpath("//@xlink:href", namespaces=NAMES)]
    assert len(set(ids)) == len(ids)
    assert all(name.startswith("figure-speed-") for name in ids)
    assert used
    assert set(used) <= set(ids)


def test_nothing_but_the_drawing(accuracy: Figure) -> None:
    for unwanted in (b"metadata", b"matplotlib.org", b"DOCTYPE", b"<style", b"<!--"):
        assert unwanted not in accuracy.svg
    assert "http" not in accuracy.inline
    assert "var(--series-1, #0067a5)" in accuracy.inline
    assert b"var(" not in accuracy.svg


def test_picture_for_print(accuracy: Figure) -> None:
    with Image.open(io.BytesIO(accuracy.png)) as picture:
        assert picture.size == (960, 525)
        assert picture.info["dpi"] == pytest.approx((150, 150), abs=0.1)
        assert set(picture.info) == {"dpi"}


def test_hostile_words_stay_words() -> None:
    names = ("<script>alert(1)</script>", "_hidden", "$x^2$", 'a"b&c', "control\x07")
    table = Table(
        "hostile",
        '"><script>',
        (Column("$a_b"), Column("group"), Column("<b>y", "number")),
        tuple((f"]]>{name}", name, number) for number, name in enumerate(names)),
        plot=Plot("bars", "$a_b", ("<b>y",), "group"),
    )
    root = etree.fromstring(drawn(table).svg)
    words = root.xpath("//svg:text/text()", namespaces=NAMES)
    assert {*names[:-1], "control ", "$a_b", "<b>y"} <= set(words)
    assert not root.xpath("//*[local-name() = 'script']")


@pytest.mark.parametrize("kind", ["bars", "lines"])
def test_many_places_with_long_names_do_not_run_into_each_other(kind: str) -> None:
    rows = tuple((f"a rather long name of place {number}", number) for number in range(12))
    table = Table(
        "long",
        "Long",
        (Column("x"), Column("y", "number")),
        rows,
        plot=Plot(kind, "x", ("y",)),  # type: ignore[arg-type]
    )
    labels = etree.fromstring(drawn(table).svg).xpath("//svg:text[contains(., 'rather')]", namespaces=NAMES)
    assert len(labels) == 12
    assert all("rotate(-35" in label.get("transform") for label in labels)


def test_no_value_no_figure() -> None:
    plot = Plot("bars", "x", ("y",))
    for rows in ((), (("a", None),), ((None, 1),)):
        assert draw(Table("empty", "Empty", (Column("x"), Column("y", "number")), rows, plot=plot), plot) is None


def test_negative_and_equal_values_can_be_drawn() -> None:
    plot = Plot("bars", "x", ("y",))
    table = Table("change", "Change", (Column("x"), Column("y", "score")), (("a", -1.5), ("b", 0.0)), plot=plot)
    assert list(points(drawn(table))) == ["a: -1.50", "b: 0.00"]


def test_colors_stand_out_from_the_paper() -> None:
    def light(color: str) -> float:
        parts = np.array([int(color[at:end], 16) / 255 for at, end in pairwise((1, 3, 5, 7))])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    # Web Content Accessibility Guidelines, 1.4.11: parts of graphics need 3 to 1.
    assert min((light(PAPER) + 0.05) / (light(color) + 0.05) for color in PALETTE) >= 3
