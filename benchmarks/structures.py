"""What must stay the same in a translated file, by format, as parsers see it that are not ours.

Each function takes the bytes before and after, and returns what differs, in a line each. It compares everything but
translated text and what a format says about translations: their state, notes and comments of Lacuna, and languages that
were added. Inline markup of HTML, Markdown and targets may change its order, because translations do.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path

import polib
from lxml import etree, html
from lxml.etree import _Element
from markdown_it import MarkdownIt

try:
    import html5lib
except ImportError:
    html5lib = None

Compare = Callable[[bytes, bytes], list[str]]

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_STATES = frozenset({"target-language", "trgLang", "approved", "state", "subState"})
_TRANSLATED_ATTRIBUTES = frozenset({"alt", "aria-label", "placeholder", "title"})
_TRANSLATED_META = frozenset(
    {"description", "keywords", "og:description", "og:title", "twitter:description", "twitter:title"}
)
_INLINE = frozenset(
    {"a", "abbr", "b", "br", "cite", "code", "em", "i", "img", "kbd", "small", "span", "strong", "sub", "sup", "tt"}
)
_KEPT_TEXT = frozenset({"script", "style", "pre", "code", "textarea"})
_OWN_COMMENT = re.compile(r"^(?:confidence|review): .*\n?", re.MULTILINE)


def different(before: Iterable[Hashable], after: Iterable[Hashable]) -> list[str]:
    """Return what only one of the two has, whatever the order."""
    old, new = Counter(before), Counter(after)
    return [f"lost: {item}" for item in old - new] + [f"new: {item}" for item in new - old]


def changed(before: Iterable[Hashable], after: Iterable[Hashable]) -> list[str]:
    """Return what only one of the two has, or that the order is another."""
    old, new = list(before), list(after)
    return different(old, new) or ([] if old == new else ["another order"])


def compare_text(before: bytes, after: bytes) -> list[str]:
    """Compare the white space around every line."""
    return changed(*(map(_around, each.decode().split("\n")) for each in (before, after)))


def _around(line: str) -> tuple[str, str, bool]:
    return line[: len(line) - len(line.lstrip())], line[len(line.rstrip()) :], bool(line.strip())


def compare_markdown(before: bytes, after: bytes) -> list[str]:
    """Compare the tokens of markdown-it, and the content of code and HTML."""
    return different(_markdown(before.decode()), _markdown(after.decode()))


def _markdown(text: str) -> Iterator[Hashable]:
    for block, token in enumerate(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)):
        for part in token.children or [] if token.type == "inline" else [token]:
            if part.type not in ("text", "softbreak"):
                yield block, part.type, part.tag, tuple(part.attrs.items()), part.content, part.markup


def compare_html(before: bytes, after: bytes) -> list[str]:
    """Compare elements, attributes and their values, comments, and the content of code."""
    old, new = list(_html(before)), list(_html(after))
    blocks = ([element for element in each if element[0] not in _INLINE] for each in (old, new))
    return different(old, new) or changed(*blocks)


def _html(content: bytes) -> Iterator[tuple[Hashable, ...]]:
    if html5lib is None:
        root = html.document_fromstring(content)
    else:
        root = html5lib.parse(content, treebuilder="lxml", namespaceHTMLElements=False).getroot()
    for element in root.iter():
        is_text = _TRANSLATED_META & {element.get("name"), element.get("property")}
        translated = _TRANSLATED_ATTRIBUTES | {"content"} if is_text else _TRANSLATED_ATTRIBUTES
        attributes = sorted((name, "" if name in translated else value) for name, value in element.attrib.items())
        around = element.getparent()
        name, parent = _name(element), "" if around is None else _name(around)
        text = "".join(map(str, element.itertext())) if name in _KEPT_TEXT else ""
        yield name, parent, tuple(attributes), element.text if name == "(comment)" else text


def compare_json(before: bytes, after: bytes) -> list[str]:
    """Compare keys, their order, and all values that are not strings."""
    return changed(*(_json(json.loads(each)) for each in (before, after)))


def _json(value: object) -> Iterator[Hashable]:
    left: list[tuple[str, object]] = [("", value)]
    while left:
        place, value = left.pop()
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        left += [(f"{place}/{key}", each) for key, each in inside]
        yield place, type(value).__name__, None if isinstance(value, str | dict | list) else value


# --- PO --------------------------------------------------------------------------------------------------------------


def compare_po(before: bytes, after: bytes) -> list[str]:
    """Compare messages, comments, flags, places and the header with polib, and see whether msgfmt finds new errors."""
    old, new = (polib.pofile(each.decode()) for each in (before, after))
    lost = [f"lost from the header: {key}" for key in old.metadata if key not in new.metadata]
    found = changed(map(_message, old), map(_message, new)) + lost
    return found + [f"msgfmt: {line}" for line in _msgfmt(after) - _msgfmt(before)]


def _message(entry: polib.POEntry) -> Hashable:
    flags = tuple(flag for flag in entry.flags if flag != "fuzzy")
    comments = (entry.comment, _OWN_COMMENT.sub("", entry.tcomment + "\n").strip())
    ids = (entry.msgctxt, entry.msgid, entry.msgid_plural, entry.obsolete, len(entry.msgstr_plural))
    return (*ids, *comments, tuple(entry.occurrences), flags)


def _msgfmt(content: bytes) -> Counter[str]:
    """Return the errors of ``msgfmt --check``, without line numbers."""
    if not shutil.which("msgfmt"):
        return Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.po"
        path.write_bytes(content)
        command = ["msgfmt", "--check", f"--output-file={folder}/a.mo", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"^.*/a\.po:\d+:(?! warning)(.*)", done.stderr, re.MULTILINE)
    return Counter(line.strip() for line in found)


# --- XML -------------------------------------------------------------------------------------------------------------


# A source and its translation, and whether that is marked for review.
_Pair = tuple[_Element | None, _Element | None, bool]


def compare_xliff(before: bytes, after: bytes) -> list[str]:
    """Compare everything but targets, states and our notes, and the inline elements of new targets with the source."""
    old, new = etree.fromstring(before), etree.fromstring(after)
    found = changed(_outline(old, _is_ours_in_xliff), _outline(new, _is_ours_in_xliff))
    return found + _inline_differences(_xliff_pairs(old), _xliff_pairs(new))


def compare_tmx(source: str, target: str) -> Compare:
    """Compare everything but the variants in the target language, and their inline elements with the source."""

    def is_ours(element: _Element) -> bool:
        return _name(element) == "tuv" and _language(element).startswith(target)

    def pairs(root: _Element) -> Iterator[_Pair]:
        for unit in root.iter("tu"):
            variants = {_language(variant)[:2]: variant for variant in unit.iter("tuv")}
            if source in variants and target in variants:
                is_review = variants[target].find("prop[@type='x-lacuna-review']") is not None
                yield variants[source].find("seg"), variants[target].find("seg"), is_review

    def compare(before: bytes, after: bytes) -> list[str]:
        old, new = etree.fromstring(before), etree.fromstring(after)
        found = changed(_outline(old, is_ours), _outline(new, is_ours))
        return found + _inline_differences(pairs(old), pairs(new))

    return compare


def new_schema_errors(before: bytes, after: bytes, schemas: Path | None) -> list[str]:
    """Return the errors that a file did not have before, if there is a schema for its namespace."""
    namespace = etree.QName(etree.fromstring(after)).namespace
    for path in sorted(schemas.glob("*.xsd")) if schemas else ():
        document = etree.parse(str(path))
        if document.getroot().get("targetNamespace") == namespace:
            schema = etree.XMLSchema(document)
            return [f"schema: {message}" for message in _errors(schema, after) - _errors(schema, before)]
    return []


def _errors(schema: etree.XMLSchema, content: bytes) -> set[str]:
    schema.validate(etree.fromstring(content))
    return {str(error.message) for error in schema.error_log}


def _is_ours_in_xliff(element: _Element) -> bool:
    name, said = _name(element), {element.get("from"), element.get("category")}
    is_only_ours = name == "notes" and all(note.get("category") == "lacuna" for note in element)
    return name == "target" or is_only_ours or (name == "note" and "lacuna" in said)


def _outline(root: _Element, is_skipped: Callable[[_Element], bool]) -> Iterator[Hashable]:
    """Yield elements with their place, attributes and text, but not white space between them."""
    walk, places = etree.iterwalk(root, events=("start", "end")), [""]
    for event, element in walk:
        if event == "end":
            places.pop()
            continue
        places.append(f"{places[-1]}/{_name(element)}:{element.get('id') or ''}")
        if is_skipped(element):
            walk.skip_subtree()
            continue
        attributes = tuple((name, value) for name, value in sorted(element.attrib.items()) if name not in _STATES)
        yield places[-1], attributes, (element.text or "").strip(), (element.tail or "").strip()


def _xliff_pairs(root: _Element) -> Iterator[_Pair]:
    for target in root.iter("{*}target"):
        around = target.getparent()
        if around is not None:
            segmented = around.find("{*}seg-source")
            is_review = target.get("state", "").startswith("needs-review") or bool(around.get("subState"))
            yield around.find("{*}source") if segmented is None else segmented, target, is_review


def _inline_differences(before: Iterable[_Pair], after: Iterable[_Pair]) -> list[str]:
    """Return where new translations have other inline elements than their source, unless they are to be reviewed."""
    known = {_written(target) for _, target, _ in before}
    new = [(source, target) for source, target, is_review in after if not is_review and _written(target) not in known]
    return [line for source, target in new for line in different(_inline(source), _inline(target))]


def _written(element: _Element | None) -> bytes:
    return b"" if element is None else etree.tostring(element, with_tail=False)


def _inline(element: _Element | None) -> Iterator[Hashable]:
    for each in [] if element is None else element.iterdescendants():
        yield _name(each), tuple(sorted(each.attrib.items()))


def _name(element: _Element) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else "(comment)"


def _language(element: _Element) -> str:
    return str(element.get(_LANGUAGE) or element.get("lang") or "").lower()
