"""Check that names, defaults and words agree between code and documentation.

``python tests/consistency.py`` prints every finding and exits with 1 if there is one. The checks read files as text;
only the comparison of defaults imports the package.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE, DOCS = ROOT / "src" / "lacuna", ROOT / "docs"
GLOSSARY = DOCS / "glossary.md"

# Modules of one base name play the same part in their packages.
SHARED_NAMES = {
    "__init__",
    "base",  # the protocol of a family of strategies
    "building",  # how an artifact is made
    "manifest",  # what a folder records about itself
    "storage",  # how an artifact is written and read
    *("vanilla", "adaptive", "kster", "gate", "calibration"),  # the thing, and in lacuna.fitting how it is fitted
    "exact",  # the exact method of a family
}
DEFAULTS = re.compile(r"<!-- defaults: (?P<name>[\w.]+) -->\n+(?P<table>(?:\|.*\n)+)")
COMMENT = re.compile(r"\n[ \t]*(?:#:?|//|\*)? ?")  # what stands at the beginning of a line of a comment
TEXTS = {".py", ".pyi", ".html", ".js", ".css", ".j2"}
WORDS = {True: {"on", "yes", "true"}, False: {"off", "no", "false"}, None: {"none", "", "-", "–", "unset"}}


def double_classes() -> Iterator[str]:
    """Find class names that are defined more than once."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"class {name} is defined {len(found)} times: {', '.join(found)}"


def double_modules() -> Iterator[str]:
    """Find modules of the same base name, outside of the command line, whose modules are named after verbs."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name != "cli" and path.stem not in SHARED_NAMES:
            places[path.stem].append(str(path.relative_to(ROOT)))
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"module {name} is defined {len(found)} times: {', '.join(found)}"


def wrong_defaults() -> Iterator[str]:
    """Compare the tables of settings in the docs with the fields they document."""
    for page in sorted(DOCS.glob("*.md")):
        for found in DEFAULTS.finditer(page.read_text(encoding="utf-8")):
            where = f"docs/{page.name}, {found['name']}"
            defaults = _defaults_of(found["name"])
            if defaults is None:
                yield f"{where}: no such class with fields"
                continue
            for row in found["table"].splitlines()[2:]:
                name, shown, *_ = (cell.strip().strip("`") for cell in row.strip("|").split("|"))
                if name not in defaults:
                    yield f"{where}: {name} is not a field; fields: {', '.join(defaults)}"
                elif not _same(shown, defaults[name]):
                    yield f"{where}: {name} is {defaults[name]!r} in the code and {shown!r} on the page"


def forbidden_words() -> Iterator[str]:
    """Find the words that the glossary rules out, in code and docs, also where a phrase goes over a line break."""
    words = [re.escape(word).replace(r"\ ", r"\s+") for row in _forbidden_rows() for word in row.split(", ")]
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])", re.IGNORECASE)
    pages = [path for path in sorted(DOCS.glob("*.md")) if path != GLOSSARY]
    files = [path for path in sorted(SOURCE.rglob("*")) if path.suffix in TEXTS]
    for path in [*pages, ROOT / "README.md", *files]:
        text = COMMENT.sub(lambda mark: "\n" + " " * (len(mark[0]) - 1), path.read_text(encoding="utf-8"))
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}: {' '.join(found[0].split())!r} is ruled out by the glossary"


CHECKS = (double_classes, double_modules, wrong_defaults, forbidden_words)


def _forbidden_rows() -> list[str]:
    table = GLOSSARY.read_text(encoding="utf-8").partition("## Words we do not use")[2]
    rows = [line.strip("|").split("|")[0].strip() for line in table.splitlines() if line.startswith("|")]
    return rows[2:]


def _defaults_of(name: str) -> dict[str, object] | None:
    module, _, class_name = name.rpartition(".")
    cls = getattr(import_module(module), class_name, None)
    if dataclasses.is_dataclass(cls):
        return {field.name: _default(field) for field in dataclasses.fields(cls)}
    fields = getattr(cls, "model_fields", None)
    return (
        None if fields is None else {key: field.get_default(call_default_factory=True) for key, field in fields.items()}
    )


def _default(field: dataclasses.Field[object]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _same(shown: str, value: object) -> bool:
    if value is dataclasses.MISSING or "PydanticUndefined" in repr(value):
        return shown in {"", "required"}
    if isinstance(value, bool) or value is None:
        return shown.lower() in WORDS[value]
    if isinstance(value, (int, float)):
        number = shown.replace(",", "").removesuffix("%")
        try:
            return float(number) * (0.01 if shown.endswith("%") else 1) == float(value)
        except ValueError:
            return False
    if isinstance(value, (list, tuple)):
        return [part.strip() for part in shown.split(",") if part.strip()] == [str(part) for part in value]
    if dataclasses.is_dataclass(value) or hasattr(type(value), "model_fields"):
        return "below" in shown or "above" in shown or shown == repr(value)
    return shown == str(value)


def main() -> int:
    """Print all findings."""
    findings = [finding for check in CHECKS for finding in check()]
    for finding in findings:
        print(finding)
    names = ", ".join(check.__name__ for check in CHECKS)
    print(f"{len(findings)} findings ({names})")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
