"""Post-processing of matplotlib's SVG: titles on points, prefixed ids, no external references.

Knows nothing of tables.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

from lxml import etree

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True)
class FinishedSvg:
    """An SVG for a file or for an HTML page."""

    root: etree._Element

    def as_file(self) -> bytes:
        """Return the content of an SVG file."""
        return etree.tostring(self.root, xml_declaration=True, encoding="utf-8") + b"\n"

    def inline(self, theme: Mapping[str, str]) -> str:
        """Return markup for an HTML page: without XML namespaces, as wide as its container.

        :param theme: CSS variables by the color that they replace.
        """
        root = copy.deepcopy(self.root)
        for name in ("width", "height"):
            del root.attrib[name]
        for element in root.iter():
            element.tag = etree.QName(element).localname
            if target := element.get(_HREF):
                del element.attrib[_HREF]
                element.set("href", target)
            _move_colors(element, theme)
        etree.cleanup_namespaces(root)
        return etree.tostring(root, encoding="unicode")


def finish(svg: bytes, prefix: str, titles: Mapping[str, str], label: str) -> FinishedSvg:
    """Post-process an SVG of matplotlib.

    :param prefix: Prefix of every id, so that one page can hold several figures.
    :param titles: Tooltips by the id of the element.
    :param label: Accessible name of the figure.
    """
    root = etree.fromstring(svg, etree.XMLParser(remove_comments=True, resolve_entities=False))
    for unwanted in [*root.iter(f"{_SVG}metadata"), *root.iter(f"{_SVG}style")]:
        parent = unwanted.getparent()
        if parent is not None:
            parent.remove(unwanted)
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")  # the content of the removed style element
    root.set("role", "img")
    root.set("aria-label", label)
    for element in list(root.iter()):
        name = element.get("id")
        if name in titles:
            element.set("class", "point")
            title = etree.Element(f"{_SVG}title")
            title.text = titles[name]
            element.insert(0, title)
        _rename(element, prefix)
    return FinishedSvg(root)


def _rename(element: etree._Element, prefix: str) -> None:
    for name in list(element.keys()):
        value = element.get(name, "")
        if name == "id":
            element.set(name, prefix + value)
        elif name == _HREF and value.startswith("#"):
            element.set(name, f"#{prefix}{value[1:]}")
        elif "url(#" in value:
            element.set(name, value.replace("url(#", f"url(#{prefix}"))


def _move_colors(element: etree._Element, theme: Mapping[str, str]) -> None:
    """Replace colors by CSS variables, which work in style attributes only."""
    style = element.get("style", "")
    for name in ("fill", "stroke"):
        color = element.get(name, "")
        if color in theme:
            del element.attrib[name]
            style = f"{name}: {color}; {style}"
    for color, variable in theme.items():
        style = style.replace(color, f"var(--{variable}, {color})")
    if style:
        element.set("style", style)
