"""Mutate files of every format, read and translate them, and look for tracebacks, broken output and lost text.

Small files of all corpora and documents are changed at random: flipped bits, truncation, chunks that are deleted,
repeated or swapped, other encodings, tags, entities, control characters, huge numbers, deep nesting. Each result must
be read, or refused with one line. A document is translated by a rule that needs no model; what is written must be a
file of its format with the same texts, and bytes that are not translated must stay.

    python benchmarks/attack_readers.py [--seconds 120] [--cases 1000000] [--seed 1] [--keep FOLDER] [--only SUFFIX]
"""

from __future__ import annotations

import argparse
import gzip
import html
import io
import json
import lzma
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path
from types import FrameType

import polib
from lxml import etree
from markdown_it import MarkdownIt

from lacuna.corpora import read_corpus, write_tsv
from lacuna.corpora.placeholders import find_placeholders
from lacuna.documents import DocumentSettings, DocumentTranslator, Splitter, format_of
from lacuna.documents.base import DocumentSegment
from lacuna.errors import LacunaError
from lacuna.records import Languages, Translation

LANGUAGES = Languages("de", "en")
SLOWEST = 20  # seconds for one file of a few kilobytes

# --- files -----------------------------------------------------------------------------------------------------------

_PO = """\
# Translators
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: en\\n"
"X-Source-Language: de\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: a.c:1
#, c-format
msgid "Datei %s öffnen"
msgstr ""

#, fuzzy
#| msgid "Alt"
msgctxt "menu"
msgid "&Beenden\\n"
"und \\"gehen\\""
msgstr "Quit"

msgid "%d Datei"
msgid_plural "%d Dateien"
msgstr[0] "%d file"
msgstr[1] "%d files"

#~ msgid "weg"
#~ msgstr "gone"
"""
_XLIFF_1 = """\
<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="f" datatype="x" source-language="de" target-language="en"><body>
<trans-unit id="a"><source>Datei <g id="1">öffnen</g></source></trans-unit>
<trans-unit id="b" approved="yes"><source>Ja</source><target state="final">Yes</target><note>n</note></trans-unit>
<trans-unit id="c"><source>Eins. Zwei.</source><seg-source><mrk mtype="seg" mid="1">Eins.</mrk> <mrk mtype="seg"
 mid="2">Zwei.</mrk></seg-source><target state="new"><mrk mtype="seg" mid="1">One.</mrk></target></trans-unit>
<!-- x --><trans-unit id="d" translate="no"><source>Nein</source></trans-unit>
<trans-unit id="e"><source><bpt id="1">&lt;b&gt;</bpt>Fett<ept id="1">&lt;/b&gt;</ept> <x id="2"/></source></trans-unit>
</body></file></xliff>
"""
_XLIFF_2 = """\
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="de" trgLang="en"><file id="f">
<unit id="u"><notes><note>x</note></notes><segment id="s"><source>Datei <pc id="1">öffnen</pc></source></segment>
<ignorable><source> </source></ignorable>
<segment state="initial"><source>Ja</source><target>Yes</target></segment></unit>
<unit id="v"><segment state="final"><source>Nein<ph id="1"/></source><target>No<ph id="1"/></target></segment></unit>
</file></xliff>
"""
_TMX = """\
<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="de" adminlang="en" datatype="x" segtype="sentence" o-tmf="x" creationtool="x"/>
<body>
<tu tuid="1"><tuv xml:lang="de"><seg>Datei <bpt i="1">&lt;b></bpt>öffnen<ept i="1">&lt;/b></ept></seg></tuv></tu>
<tu tuid="2"><tuv xml:lang="de-AT"><seg>Ja</seg></tuv>
<tuv xml:lang="en"><prop type="x">1</prop><seg>Yes</seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>Oui</seg></tuv><tuv xml:lang="de"><seg>Ja, <hi>gut</hi></seg></tuv></tu>
</body></tmx>
"""
_HTML = """\
<!DOCTYPE html><html lang="de"><head><title>Ein Titel</title><meta name="description" content="Worum es geht">
<style>p { color: red }</style></head><body><!-- Kommentar --><h1>Über &amp; &uuml;ber</h1>
<p>Klicken Sie <a href="x.html" title="Hier">hier</a>, <br>dann <b>auf <i>OK</i></b>.<p>Ohne Ende
<ul><li>Eins<li>Zwei</ul>
<pre>nicht</pre><script>var a = "<p>nicht</p>";</script><table><tr><td>Zelle<td><img alt="Bild" src=x></table>
<span translate="no">nie</span></body></html>
"""
_MARKDOWN = """\
---
titel: x
---
# Überschrift *eins*

Ein Absatz mit `code`, **fett**, [Link](https://example.org "Titel") und ![Bild](b.png).
Zweite Zeile.  \nDritte.

- Punkt eins
  1. Punkt _zwei_

> Zitat

| a | b |
|---|---|
| Zelle | zwei |

```
nicht
```
<div>nicht</div>
"""
_JSON = """\
{"titel": "Datei öffnen", "n": 1, "liste": ["eins", "zwei {name}", null, true],
 "plural": "{n, plural, one {# Datei} other {# Dateien}}", "tief": {"a\\u00e4": "mit \\"Anführung\\" und \\n Zeile"}}
"""
_TEXT = "Ein Absatz. Noch ein Satz.\n\n\tZwei %s und {name}.\r\nDrei\u2028vier"


def _mo() -> bytes:
    messages = sorted(
        {"": "Content-Type: text/plain; charset=UTF-8\nLanguage: en\n", "Ja": "Yes", "m\4%d A\0%d B": "x\0y"}.items()
    )
    pairs = [(source.encode(), target.encode()) for source, target in messages]
    tables, texts, offset = [b"", b""], b"", 28 + 16 * len(pairs)
    for side in (0, 1):
        for pair in pairs:
            tables[side] += struct.pack("<2I", len(pair[side]), offset + len(texts))
            texts += pair[side] + b"\0"
    return struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, offset) + b"".join(tables) + texts


_TSV = "Datei öffnen\tOpen the file\nJa\tYes\ttag\n\nNein\tNo\n"
_JSONL = '{"source": "Datei", "target": "File", "tag": "t", "id": 3}\n{"source": "Ja", "target": "Yes", "id": "x"}\n'

CORPORA: dict[str, bytes] = {
    "a.tsv": _TSV.encode(),
    "a.jsonl": _JSONL.encode(),
    "a.tmx": _TMX.encode(),
    "a.po": _PO.encode(),
    "a.mo": _mo(),
    "a.xlf": _XLIFF_1.encode(),
    "a.xliff": _XLIFF_2.encode(),
    "a.tsv.gz": gzip.compress(_TSV.encode(), mtime=0),
    "a.tmx.xz": lzma.compress(_TMX.encode()),
    "a.mo.gz": gzip.compress(_mo(), mtime=0),
    "a.de": b"Ja\nNein\n",
}
DOCUMENTS: dict[str, bytes] = {
    "a.txt": _TEXT.encode(),
    "b.txt": _TEXT.encode("utf-16"),
    "a.md": _MARKDOWN.encode(),
    "a.html": _HTML.encode(),
    "a.xhtml": b"<?xml version='1.0'?><html xmlns='x'><body><p>Ein <b>Wort</b><br/></p></body></html>",
    "a.po": _PO.encode(),
    "a.pot": _PO.replace("Language: en", "Language: ").replace("UTF-8", "CHARSET").replace("ö", "oe").encode(),
    "a.xlf": _XLIFF_1.encode(),
    "b.xlf": _XLIFF_2.encode(),
    "a.tmx": _TMX.encode(),
    "a.json": _JSON.encode(),
    "a.arb": b'{"@@locale": "de", "hallo": "Hallo {name}", "@hallo": {"description": "nicht"}}',
}

# --- mutations -------------------------------------------------------------------------------------------------------

_SNIPPETS = rb"""
< > & " ' \ { } [ ] | * ``` --- #~ %s %( {{ '{ {0} $t(x) @:x -0 NaN 1e999 \u \ud83d \x \777 \xff
<b> </b> &amp; &x; &#0; &#x110000; &#xD800; ]]> <![CDATA[ --> <!-- <a:b> xmlns:a='b' <x_id='1'/> <g_id='9'>
<?xml_version='1.0'_encoding='x'?> <!DOCTYPE_x_[<!ENTITY_a_'b'>]> <seg> </tuv> <tuv_xml:lang='de'>
xml:lang='' state='new' mid='1' translate='no' version='9' msgid_" msgstr[9]_"x"~ msgid_plural_"x"~
msgctxt_"a"~msgid_""~msgstr_""~
#,_fuzzy~
charset=utf-16\n charset=\n Language:_xx\n nplurals=99 {n,_plural,_other_{ [x]( ![ ](< <div> <pre>
<script> </script <td> [^1]:_ *_ ____ ---~
""".split()
_SNIPPETS = [
    one.replace(b"_", b" ").replace(b"msgid plural", b"msgid_plural").replace(b"~", b"\n") for one in _SNIPPETS
]
_SNIPPETS += [bytes([byte]) for byte in b"\0\x1b\x7f\xff\xc3\r\n\t\x85\x0b"] + [
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"9" * 400,
]
_SNIPPETS += [letter.encode() for letter in "\u2028\u0085\u200f\ufeff\ue000\ue800\uf8ff\ufffe\U0001f389"]
_DEEP = [(b"<b>", b"</b>"), (b"{", b"}"), (b"[", b"]"), (b"> ", b""), (b"- ", b""), (b"*", b"*")]
_DEEP += [(b"<g id='1'>", b"</g>"), (b"{a, select, x {", b"}}")]
_ENCODINGS = ("utf-16", "utf-16-le", "utf-8-sig", "latin-1", "cp1252", "utf-32", "utf-7", "cp037")


def _place(content: bytes, draw: random.Random) -> int:
    return draw.randrange(len(content) + 1)


def _chunk(content: bytes, draw: random.Random) -> tuple[int, int]:
    start = _place(content, draw)
    return start, min(len(content), start + draw.choice([1, 2, 5, 20, 100]))


def flip(content: bytes, draw: random.Random) -> bytes:
    """Change some bits."""
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8]) if content else 0):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def truncate(content: bytes, draw: random.Random) -> bytes:
    """Cut off the end, or the start."""
    place = _place(content, draw)
    return content[:place] if draw.random() < 0.8 else content[place:]


def delete(content: bytes, draw: random.Random) -> bytes:
    """Leave out a chunk."""
    start, end = _chunk(content, draw)
    return content[:start] + content[end:]


def repeat(content: bytes, draw: random.Random) -> bytes:
    """Write a chunk again, once or often, here or elsewhere."""
    start, end = _chunk(content, draw)
    place = draw.choice([end, _place(content, draw)])
    return content[:place] + content[start:end] * draw.choice([1, 1, 2, 50]) + content[place:]


def insert(content: bytes, draw: random.Random) -> bytes:
    """Insert something special."""
    place = _place(content, draw)
    return content[:place] + draw.choice(_SNIPPETS) + content[place:]


def nest(content: bytes, draw: random.Random) -> bytes:
    """Insert something deeply nested."""
    place, (opening, closing) = _place(content, draw), draw.choice(_DEEP)
    depth = draw.choice([3, 30, 300, 3000])
    return content[:place] + opening * depth + b"x" + closing * draw.choice([depth, depth, 0, 1]) + content[place:]


def encode(content: bytes, draw: random.Random) -> bytes:
    """Write the text in another encoding."""
    return content.decode("utf-8", "replace").encode(draw.choice(_ENCODINGS), "replace")


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    flip,
    truncate,
    delete,
    repeat,
    insert,
    insert,
    insert,
    nest,
]


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Return a file with one to four changes; a compressed one is changed inside or outside."""
    packed = next(
        (one for one in (gzip, lzma) if content[:2] in (b"\x1f\x8b", b"\xfd7") and _unpacks(one, content)), None
    )
    if packed is not None and draw.random() < 0.7:
        inner = mutate(packed.decompress(content), draw)
        return gzip.compress(inner, mtime=0) if packed is gzip else lzma.compress(inner)
    for _ in range(draw.choice([1, 1, 2, 3, 4])):
        content = draw.choice(MUTATIONS)(content, draw)
    return encode(content, draw) if draw.random() < 0.03 else content


def _unpacks(packed: object, content: bytes) -> bool:
    try:
        packed.decompress(content)  # type: ignore[attr-defined]
    except (OSError, EOFError, lzma.LZMAError):
        return False
    return True


# --- one case --------------------------------------------------------------------------------------------------------


class Finding(Exception):  # noqa: N818 - no error of the program
    """What must not happen; its first argument is the kind."""


@contextmanager
def bounded(seconds: int) -> Iterator[None]:
    """Raise if the block takes too long."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise Finding("slow", f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def shout(groups: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
    """Translate into capital letters, except for placeholders, which take the place of the model."""
    for group in groups:
        yield [Translation(text, _shouted(text), 0.0, 1, confidence=0.3) for text in group]


def _shouted(text: str) -> str:
    parts, last = [], 0
    for placeholder in find_placeholders(text):
        start = text.index(placeholder, last)
        parts += [text[last:start].upper(), placeholder]
        last = start + len(placeholder)
    return "".join([*parts, text[last:].upper()])


def read(path: Path, languages: Languages | None) -> None:
    """Read a corpus; what it holds must be text that can be written again."""
    if path.suffix == ".de":
        path.with_suffix(".en").write_bytes(b"Yes\nNo\n")
        pairs = list(read_corpus(path, path.with_suffix(".en")))
    else:
        pairs = list(read_corpus(path, languages=languages))
    write_tsv(path.with_name("out.tsv"), pairs)
    for pair in pairs:
        if not all(isinstance(text, str) for text in (pair.source, pair.target, pair.origin.place)):
            raise Finding("wrong types", repr(pair))


def translate(name: str, content: bytes) -> None:
    """Translate a document, and check what is written."""
    form = format_of(name)
    parts = list(form.parts(io.BytesIO(content), name, LANGUAGES))
    if b"".join(part if isinstance(part, bytes) else part.raw for part in parts) != content:
        raise Finding("parts are not the file")
    splitter = Splitter(LANGUAGES, lambda text: len(text) < 400)
    documents = DocumentTranslator(shout, splitter, None, DocumentSettings(overwrite=True))
    out = io.BytesIO()
    report = documents.translate_stream(io.BytesIO(content), out, form, name)
    json.dumps(report.as_json()).encode()
    written = out.getvalue()
    try:
        again = list(form.parts(io.BytesIO(written), name, LANGUAGES))
    except LacunaError as error:
        raise Finding("output is not readable", str(error)) from error
    if form.name in ("PO", "XLIFF", "TMX") and _texts(again) != _texts(parts):
        raise Finding("other sources in the output", f"{_texts(parts)}\n{_texts(again)}")
    _compare(form.name, content, written)


def _texts(parts: Iterable[bytes | DocumentSegment]) -> list[tuple[str, ...]]:
    return [part.texts for part in parts if isinstance(part, DocumentSegment) and part.texts]


_NOT_PARSED = (etree.XMLSyntaxError, ValueError, OSError, RecursionError, AssertionError)


def _compare(form: str, content: bytes, written: bytes) -> None:
    """Compare what must not change, as a parser of its own sees it, if it can parse the file."""
    try:
        before = _essence(form, content)
    except _NOT_PARSED:
        return
    try:
        after = _essence(form, written)
    except _NOT_PARSED as error:
        raise Finding("output does not parse", repr(error)) from error
    if before != after:
        raise Finding("the output differs in more than case", _first_difference(before, after))


def _first_difference(before: object, after: object) -> str:
    if isinstance(before, list) and isinstance(after, list):
        different = (f"{one!r} {other!r}" for one, other in zip_longest(before, after) if one != other)
        return next(different, "")[:300]
    return f"{before!r} {after!r}"[:300]


def _essence(form: str, content: bytes) -> object:
    """Return what a translation by capital letters must leave as it is."""
    if form in ("XLIFF", "TMX"):
        safe = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=True)
        root = etree.fromstring(content, safe)
        return [_canonical(element) for element in root.iter("{*}source", "{*}seg-source", "{*}tuv") if _stays(element)]
    if form == "PO":
        entries = polib.pofile(content.decode("utf-8-sig"))
        return [(one.msgctxt, one.msgid, one.msgid_plural, one.obsolete, one.occurrences) for one in entries]
    if form.startswith("JSON"):
        return _folded_json(json.loads(content, object_pairs_hook=list))
    encoding = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}.get(content[:2], "utf-8-sig")
    text = content.decode(encoding)
    if form == "HTML" and "<![" in text:
        raise ValueError("browsers and Python's parser disagree about such sections")
    if form == "Markdown":
        text = _MARKDOWN_PARSER.render(text)
    return _folded(text) if form == "text" else _Events(text).found


_MARKDOWN_PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _stays(element: etree._Element) -> bool:
    if next(element.iterancestors("{*}seg", "{*}target"), None) is not None:  # a copy of an inline code
        return False
    language = element.get("{http://www.w3.org/XML/1998/namespace}lang") or element.get("lang") or ""
    return not language.strip().lower().startswith("en")


def _canonical(element: etree._Element) -> bytes:
    return etree.tostring(element, method="c14n", with_tail=False)


def _folded(text: str) -> str:
    """Return a text without white space and case."""
    return "".join(text.casefold().split())


def _folded_json(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_folded_json(one) for one in value]
    return _folded(value) if isinstance(value, str) else repr(value)


class _Events(HTMLParser):
    """The tags, their attributes, and the text of a page, without case and white space."""

    CDATA_CONTENT_ELEMENTS = ("script", "style", "title", "textarea")  # the latter two as browsers read them

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(f"{name}={_folded(value or '')}" for name, value in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        text = _folded(html.unescape(data))
        if text and self.found and self.found[-1][0] == "":
            self.found[-1] = ("", self.found[-1][1] + text)
        elif text:
            self.found.append(("", text))


@dataclass
class Tally:
    """Outcomes of one kind of file."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[str, str, bytes]] = field(default_factory=list)

    def run(self, case: Callable[[], None], content: bytes) -> None:
        """Run a case and count its outcome."""
        try:
            with bounded(SLOWEST), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case()
            self.outcomes["ok"] += 1
        except LacunaError as error:
            if "\n" in str(error) or not str(error).strip():
                self._found("an error of several lines", repr(str(error)), content)
            else:
                self.outcomes["refused"] += 1
        except Finding as finding:
            self._found(str(finding.args[0]), str(finding.args[1:]), content)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            known = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
            self._found("traceback", f"{known}: {error}"[:300], content)

    def _found(self, kind: str, detail: str, content: bytes) -> None:
        self.outcomes[kind] += 1
        self.findings.append((kind, detail, content))


def attack(seconds: float, most: int, seed: int, only: str = "") -> dict[str, Tally]:
    """Try mutated files of all formats in turn, until the time is over or the number of cases is reached."""
    draw = random.Random(seed)
    tallies: dict[str, Tally] = {}
    end, cases = time.monotonic() + seconds, 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end and cases < most:
            for kind, files in (("corpus", CORPORA), ("document", DOCUMENTS)):
                for name, original in files.items():
                    if only and not name.endswith(only):
                        continue
                    content = mutate(original, draw)
                    tally = tallies.setdefault(f"{kind} {name}", Tally())
                    if kind == "corpus":
                        path, languages = Path(folder, name), draw.choice([None, LANGUAGES, Languages("en", "de")])
                        path.write_bytes(content)
                        tally.run(partial(read, path, languages), content)
                    else:
                        tally.run(partial(translate, name, content), content)
                    cases += 1
    return tallies


def main() -> None:
    """Attack, and print the outcomes by file, and the findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the files of findings")
    parser.add_argument("--only", default="", help="only files with this suffix")
    options = parser.parse_args()
    tallies = attack(options.seconds, options.cases, options.seed, options.only)
    total: Counter[str] = Counter()
    for name, tally in tallies.items():
        total += tally.outcomes
        print(f"{name:20} " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.outcomes.items())))
    print(f"{sum(total.values()):,} cases: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(total.items())))
    seen: set[str] = set()
    for name, tally in tallies.items():
        for number, (kind, detail, content) in enumerate(tally.findings):
            if (short := f"{name} {kind} {detail[:60]}") in seen:
                continue
            seen.add(short)
            print(f"- {name}: {kind}: {detail}")
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{number}-{name.split()[-1]}").write_bytes(content)
    sys.exit(bool(seen))


if __name__ == "__main__":
    main()
