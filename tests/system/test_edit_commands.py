"""The editing verbs at the command line: what they print, and ten kinds of bad input."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from commands import Refuse, Run
from lacuna.datastore import build_store
from lacuna.index import build_index
from lacuna.models import load_model
from lacuna.records import Languages, Origin, SentencePair

TEXTS = [("Klicken Sie auf OK.", "Click OK."), ("Schreiben Sie an a.b@example.org.", "Write to a.b@example.org.")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edited")
    pairs = [SentencePair(*texts, Origin("first.tsv", str(number))) for number, texts in enumerate(TEXTS, start=1)]
    build_index(build_store(load_model(languages=Languages("de", "en")), pairs, folder / "memory"))
    (folder / "memory.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in TEXTS))
    (folder / "more.tsv").write_text("Speichern\tSave\n")
    (folder / "more.jsonl").write_text('{"source": "Speichern", "target": "Store", "id": 7}\n')
    (folder / "empty.tsv").write_text("")
    (folder / "numbers.txt").write_text("0\nx\n")
    (folder / "other").mkdir()
    (folder / "other" / "file").touch()
    return folder


def test_a_session(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)

    def verb(*arguments: str) -> str:
        return run(arguments)

    new = str(built / "more.jsonl")
    assert "added 1 (number 0)" in verb("add", "memory", new, "--languages", "de-en")
    assert "nothing to do" not in verb("add", "memory", new)
    report = json.loads(verb("replace", "memory", "--sentence", "0", "--target", "Save", "--json"))
    assert (report["added"], report["forgotten"], report["commit"]) == ([1], [0], 2)
    (tmp_path / "mail.tsv").write_text("Schreiben an x@y.org\tWrite to x@y.org\n")
    verb("add", "memory", "mail.tsv", "--tag", "t")
    assert verb("scan", "memory", "--numbers") == "2\n"
    long = {"source": "Speichern", "target": "word " * 600, "id": "7"}
    (tmp_path / "long.jsonl").write_text(json.dumps(long) + '\n{"source": "Datei", "target": "File"}\n')
    added = verb("add", "memory", "long.jsonl", "--no-clean")
    assert "added 1 (number 3), 1 are too long for the model, so 1 earlier pairs with the same id stay;" in added
    verb("forget", "memory", "--sentence", "3")
    assert "x@y.org" not in verb("scan", "memory")
    assert "x@y.org" in verb("scan", "memory", "--show")
    assert "would forget 1" in verb("forget", "memory", "--matching", "x@y", "--dry-run")
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n"))
    assert "forgot 1" in verb("forget", "memory", "--sentences", "-", "--receipt", "receipt.json")
    assert "1 still have bytes" in verb("verify", "memory", "--receipt", "receipt.json")
    assert "compacted" in verb("compact", "memory")
    assert "no bytes" in verb("verify", "memory", "--receipt", "receipt.json")
    assert json.loads(verb("inspect", "memory", "--json"))["segments"] == 1
    commits = json.loads(verb("log", "memory", "--json"))["commits"]
    assert [commit["action"] for commit in commits] == ["add", "replace", "add", "add", "forget", "forget", "compact"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "other", "more.tsv"], "not a memory"),
        (["add", "memory", "empty.tsv"], "empty corpus"),
        (["add", "memory", "none.tsv"], "no such file"),
        (["forget", "memory"], "nothing selected"),
        (["forget", "memory", "--sentence", "2"], "0 to 1"),
        (["forget", "memory", "--matching", "("], "not a regular expression"),
        (["forget", "memory", "--sentences", "numbers.txt"], "no number"),
        (["forget", "none", "--tag", "x"], "no such store"),
        (["replace", "memory", "--sentence", "9", "--target", "x"], "0 to 1"),
        (["replace", "memory", "--sentence", "0", "--target", " "], "empty text"),
        (["compact", "memory", "--kind", "nonsense"], "kind: got"),
        (["scan", "memory", "--kind", "name"], "allowed: email"),
        (["verify", "memory", "--receipt", "none.json"], "no such receipt"),
        (["log", "none"], "no such memory"),
    ],
)
def test_bad_input(arguments: list[str], says: str, built: Path, refuse: Refuse) -> None:
    assert says in refuse(arguments, built).line


def test_a_domain_takes_edits(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)

    def verb(*arguments: str) -> str:
        return run(arguments)

    verb("adapt", str(built / "memory.tsv"), "--into", "domain", "--languages", "de-en")
    assert json.loads(verb("index", "domain", "--json"))["into"] == "domain/memory/index"
    assert "added 1" in verb("add", "domain", str(built / "more.tsv"), "--languages", "de-en")
    assert "added 1" in verb("replace", "domain", "--sentence", "0", "--target", "Click the button.")
    assert "forgot 1" in verb("forget", "domain", "--matching", "^Save$")
    assert [each["action"] for each in json.loads(verb("log", "domain", "--json"))["commits"]] == [
        "add",
        "replace",
        "forget",
    ]
    assert "compacted" in verb("compact", "domain")
    shown = json.loads(verb("inspect", "domain", "--json"))
    assert (shown["store"], shown["sentences"]) == ("domain/memory", 4)
    assert "Click the button." in verb("inspect", "domain", "--sentence", "3")
    assert "domain/memory: sound" in verb("verify", "domain", "--keys")
    assert json.loads(verb("margin", "domain", "--json"))["into"] == "domain/memory/margin"
    assert "dropped" in verb("prune", "domain", "--method", "random", "--ratio", "0.1", "--into", "small")
    (tmp_path / "text").write_text("Klicken Sie auf OK.\n")
    assert verb("translate", "text", "--domain", "domain").strip()
