import io
import zipfile
from pathlib import Path

import pytest

from lacuna.corpora.fetching.registry import Package
from lacuna.corpora.fetching.wheels import read_member, read_pairs
from lacuna.errors import FetchError
from lacuna.records import Languages
from unit.corpora.mo_files import compile_mo

from .conftest import Shelf, entry, po

DE_EN = Languages("de", "en")
GLOB = "**/{locale}/LC_MESSAGES/*.*o"


def pairs(shelf: Shelf, package: Package, tmp_path: Path, languages: Languages = DE_EN) -> list[tuple[str, str]]:
    path = tmp_path / package.filename
    path.write_bytes(shelf.wheels[package.name])
    return [(pair.source, pair.target) for pair in read_pairs(package, path, languages)]


def test_po_without_fuzzy_obsolete_and_empty_ones(tmp_path: Path) -> None:
    shelf = Shelf()
    catalog = po(
        entry("Save %(n)s", "%(n)s sichern"),
        entry("Close", "Schliessen", "#, fuzzy\n"),
        entry("Nothing", ""),
        '#~ msgid "Old"\n#~ msgstr "Alt"',
        'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d Datei"\nmsgstr[1] "%d Dateien"',
    )
    package = shelf.put("a", {"a/de_DE/LC_MESSAGES/a.po": catalog}, GLOB)
    assert pairs(shelf, package, tmp_path) == [
        ("%(n)s sichern", "Save %(n)s"),
        ("%d Datei", "%d file"),
        ("%d Dateien", "%d files"),
    ]
    assert pairs(shelf, package, tmp_path, Languages("en", "de"))[0] == ("Save %(n)s", "%(n)s sichern")


def test_a_language_with_one_form_translates_the_plural(tmp_path: Path) -> None:
    shelf = Shelf()
    catalog = po('msgid "One file"\nmsgid_plural "%d files"\nmsgstr[0] "%d 个文件"')
    package = shelf.put("a", {"a/zh_Hans/LC_MESSAGES/a.po": catalog}, GLOB)
    assert pairs(shelf, package, tmp_path, Languages("zh", "en")) == [("%d 个文件", "%d files")]


def test_mo_is_read_and_po_of_the_same_stem_goes_first(tmp_path: Path) -> None:
    shelf = Shelf()
    both = {
        "a/de/LC_MESSAGES/a.po": po(entry("&Open", "Ö&ffnen")),
        "a/de/LC_MESSAGES/a.mo": compile_mo({"&Open": "Auf"}),
        "b/de/LC_MESSAGES/b.mo": compile_mo({"&Quit": "&Beenden", "Q&&A {x}": "F&&A {x}"}),
    }
    package = shelf.put("a", both, GLOB, accelerator="&")
    assert pairs(shelf, package, tmp_path) == [("Öffnen", "Open"), ("Beenden", "Quit"), ("F&A {x}", "Q&A {x}")]


def test_keys_are_replaced_by_the_default_in_the_comment(tmp_path: Path) -> None:
    shelf = Shelf()
    catalog = po(
        entry("label_next", "Weiter", '#. Default: "Go on"\n'),
        entry("label_lost", "Verloren"),
        entry("Plain English", "Deutsch"),
    )
    package = shelf.put("a", {"a/de/LC_MESSAGES/a.po": catalog}, GLOB, keyed=True)
    assert pairs(shelf, package, tmp_path) == [("Weiter", "Go on"), ("Deutsch", "Plain English")]


def test_two_spellings_of_a_language_fill_each_other_up(tmp_path: Path) -> None:
    shelf = Shelf()
    members = {
        "a/zh_CN/LC_MESSAGES/a.po": po(entry("Open", "旧"), entry("Close", "关闭")),
        "a/zh_Hans/LC_MESSAGES/a.po": po(entry("Open", "打开")),
        "a/zh_TW/LC_MESSAGES/a.po": po(entry("Save", "儲存")),
    }
    package = shelf.put("a", members, GLOB)
    assert pairs(shelf, package, tmp_path, Languages("zh", "en")) == [("打开", "Open"), ("关闭", "Close")]
    assert pairs(shelf, package, tmp_path, Languages("zh_TW", "en")) == [("儲存", "Save")]


def test_two_languages_are_joined_without_english_in_between(shelf: Shelf, tmp_path: Path) -> None:
    found = pairs(shelf, shelf.packages[0], tmp_path, Languages("de", "zh"))
    assert len(found) == 101
    assert found[-1] == ("Öffnen", "打开")


def test_json_is_joined_on_keys_and_origins_name_the_place(shelf: Shelf, tmp_path: Path) -> None:
    package = shelf.packages[1]
    path = tmp_path / package.filename
    path.write_bytes(shelf.wheels["home"])
    (pair,) = read_pairs(package, path, DE_EN)
    assert (pair.source, pair.target) == ("Die Lampe jetzt einschalten", "Switch the lamp on now")
    assert str(pair.origin) == "home==1:home/lamp/translations/de.json:config.title [home]"


def test_a_member_that_swells_is_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("bomb.po", b"0" * 1_000_000)
    with zipfile.ZipFile(out) as file, pytest.raises(FetchError, match="more than 1,000 bytes"):
        read_member(file, "bomb.po", largest=1000)


@pytest.mark.parametrize("name", ["a/de/LC_MESSAGES/a.mo", "a/de/LC_MESSAGES/a.po"])
def test_a_broken_catalog_is_an_error(name: str, tmp_path: Path) -> None:
    shelf = Shelf()
    package = shelf.put("a", {name: b'msgid "a"\nmsgstr "\xff\xfe"'}, GLOB)
    with pytest.raises(FetchError, match="cannot be read"):
        pairs(shelf, package, tmp_path)
