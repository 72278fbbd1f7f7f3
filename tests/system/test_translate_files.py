"""``lacuna translate --into``: files keep their format, and bad or hostile ones change nothing."""

from __future__ import annotations

import json
from pathlib import Path

import polib
import pytest

from commands import Refuse
from lacuna.cli.main import main

CATALOG = """\
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: en\\nPlural-Forms: nplurals=2; plural=(n != 1);\\n"

msgid "der hund"
msgstr "the dog"

msgid "das {art} haus von %s"
msgstr ""
"""
BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><xliff version="1.2">&b;</xliff>'


def command(model: Path, *arguments: str) -> list[str]:
    system = ["--model", str(model), "--languages", "de-en", "--device", "cpu", "--threads", "1", "--beam", "2"]
    return ["translate", *arguments, *system]


def test_a_catalog(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.po").write_text(CATALOG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["lacuna", *command(model_folder, "a.po", "--into", "b.po", "--json")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["segments"], report["translated"], report["kept"], report["into"]) == (2, 1, 1, "b.po")
    old, new = polib.pofile(CATALOG)[1], polib.pofile(str(tmp_path / "b.po"))[1]
    # A model without training loses placeholders, so this was translated in parts and is marked.
    assert new.msgstr.count("{art}") == new.msgstr.count("%s") == 1
    assert new.fuzzy == (report["review"] == 1)
    assert new.msgid == old.msgid
    assert (tmp_path / "b.po").read_text().startswith(CATALOG.split('msgid "das')[0])


REFUSED: dict[str, tuple[str, bytes, list[str], str]] = {
    "unknown suffix": ("a.docx", b"x", ["--into", "../out/b.docx"], ".txt, .text"),
    "other suffix": ("a.po", b"", ["--into", "../out/b.html"], "same suffix"),
    "the file itself": ("a.txt", b"x", ["--into", "a.txt"], "the file itself"),
    "no folder": ("a.txt", b"x", ["--into", "a.txt/b.txt"], "cannot be a file"),
    "no --into": ("a.po", b"", [], "--into OUT"),
    "a corpus": ("a.tsv", b"a\tb\n", [], "a.tsv: is a corpus with both languages; give a text file"),
    "a compiled catalog": ("a.mo", b"", [], "a.mo: is a corpus with both languages; give a text file"),
    "lines of a file": ("a.txt", b"x", ["--into", "../out/b.txt", "--lines"], "--lines"),
    "review of text": ("a.txt", b"x", ["--review-below", "0.5"], "--into OUT"),
    "review without calibration": ("a.txt", b"x", ["--into", "../out/b.txt", "--review-below", "0.5"], "--calibration"),
    "review above 1": ("a.txt", b"x", ["--into", "../out/b.txt", "--review-below", "5"], "0 to 1"),
    "invalid UTF-8": ("a.txt", b"gut\nsch\xf6n\n", ["--into", "../out/b.txt"], "a.txt:2"),
    "broken catalog": ("a.po", b'msgid "a\nmsgstr ""\n', ["--into", "../out/b.po"], "a.po:1"),
    "broken JSON": ("a.json", b'{"a": "b",}', ["--into", "../out/b.json"], "a.json:1"),
    "entities": ("a.xlf", BOMB, ["--into", "../out/b.xlf"], "a.xlf"),
    "broken XML": ("a.tmx", b"<tmx><body></tmx>", ["--into", "../out/b.tmx"], "a.tmx:1"),
    "a long line": ("a.txt", b"a " * 9_000_000, ["--into", "../out/b.txt"], "a.txt:1"),
    "invalid bytes in HTML": ("a.html", b"<p>sch\xf6n</p>", ["--into", "../out/b.html"], "a.html"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input(case: str, model_folder: Path, tmp_path: Path, refuse: Refuse) -> None:
    name, content, options, hint = REFUSED[case]
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    (folder / name).write_bytes(content)
    assert hint in refuse(command(model_folder, name, *options), folder).line
    assert list(out.iterdir()) == []
