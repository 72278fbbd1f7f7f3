"""Wheels made on the spot, and a downloader that counts instead of asking a network."""

import hashlib
import io
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lacuna.corpora.fetching.registry import CatalogKind, Package, Registry

WORDS = ["file", "folder", "window", "server", "network", "printer", "account", "message", "picture", "language"]
WOERTER = ["Datei", "Ordner", "Fenster", "Server", "Netz", "Drucker", "Konto", "Nachricht", "Bild", "Sprache"]
HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def po(*entries: str) -> bytes:
    return (HEADER + "\n\n".join(entries) + "\n").encode()


def entry(english: str, text: str, before: str = "") -> str:
    return f'{before}msgid "{english}"\nmsgstr "{text}"'


def sentences(language: str) -> list[str]:
    """A hundred different messages, most of them sentences, every one with a placeholder."""
    translated = {
        "de": [f"{first} %s öffnet jetzt {second} {{name}}" for first in WOERTER for second in WOERTER],
        "zh_Hans": [f"{first}%s正在打开{second}窗口{{name}}" for first in WOERTER for second in WOERTER],
    }[language]
    english = [f"The {first} %s now opens the {second} {{name}}" for first in WORDS for second in WORDS]
    return [entry(*pair) for pair in zip(english, translated, strict=True)]


def wheel(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


@dataclass
class Shelf:
    """Packages and a downloader for them; ``asked`` is the list of names it was asked for."""

    wheels: dict[str, bytes] = field(default_factory=dict)
    packages: list[Package] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    fails_at: str = ""

    def put(self, name: str, members: dict[str, bytes], *catalogs: str, **more: object) -> Package:
        data = wheel(members)
        fields = {
            "kind": CatalogKind.GETTEXT,
            "domains": ("toy",),
            "languages": frozenset({"de", "zh"}),
            "license": "MIT",
            "size": len(data),
            **more,
        }
        sha = hashlib.sha256(data).hexdigest()
        package = Package(
            name=name, version="1", filename=f"{name}-1-py3-none-any.whl", sha256=sha, catalogs=catalogs, **fields
        )  # type: ignore[arg-type]
        self.wheels[name] = data
        self.packages.append(package)
        return package

    @property
    def registry(self) -> Registry:
        return Registry({"toy": "a toy"}, tuple(self.packages))

    def download(self, package: Package, folder: Path) -> None:
        self.asked.append(package.name)
        if package.name == self.fails_at:
            raise KeyboardInterrupt
        (folder / package.filename).write_bytes(self.wheels[package.name])


@pytest.fixture
def shelf() -> Shelf:
    """Two packages: one with .po files, one with JSON."""
    shelf = Shelf()
    glob = "app/locale/{locale}/LC_MESSAGES/*.po"
    members = {
        "app/locale/de/LC_MESSAGES/app.po": po(*sentences("de"), entry("Open", "Öffnen")),
        "app/locale/zh_CN/LC_MESSAGES/app.po": po(*sentences("zh_Hans"), entry("Open", "打开")),
    }
    shelf.put("app", members, glob)
    home = {
        "home/lamp/translations/en.json": b'{"config": {"title": "Switch the lamp on now", "only": "English only"}}',
        "home/lamp/translations/de.json": b'{"config": {"title": "Die Lampe jetzt einschalten"}}',
    }
    shelf.put("home", home, "home/*/translations/{locale}.json", kind=CatalogKind.JSON)
    return shelf
