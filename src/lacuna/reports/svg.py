"""Finishing an SVG that matplotlib wrote: points that tell their value, ids of its own, nothing from outside.

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
    """An SVG to be written to a file, or into HTML."""

    root: etree._Element

    def as_file(self) -> bytes:
        """Return the content of an SVG file."""
        return etree.tostring(self.root, xml_declaration=True, encoding="utf-8") + b"\n"

    def inline(self, theme: Mapping[str, str]) -> str:
        """Return markup for inside an HTML page, without XML's namespaces and as wide as its place.

        :param theme: By color, the CSS variable that stands for it where the page sets it.
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
    """Read what matplotlib wrote and make it ours.

    :param prefix: Goes before every id, so that figures can share a page.
    :param titles: By the id of an element, what is shown over it.
    :param label: What the whole figure is called.
    """
    root = etree.fromstring(svg, etree.XMLParser(remove_comments=True, resolve_entities=False))
    for unwanted in [*root.iter(f"{_SVG}metadata"), *root.iter(f"{_SVG}style")]:
        parent = unwanted.getparent()
        if parent is not None:
            parent.remove(unwanted)
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")  # all that the style element said
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
    """Write colors as CSS variables; these work in the style of an element only, not in its attributes."""
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
