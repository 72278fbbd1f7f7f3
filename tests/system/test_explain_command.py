"""``lacuna explain``, ``calibrate`` and ``gaps`` from the command line: what they print, write, and refuse."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import pytest

from commands import Refuse, Run
from lacuna.corpora import read_corpus
from lacuna.datastore import build_store
from lacuna.index import build_index
from lacuna.models import load_model
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

SENTENCE = "Wir sehen drei Hunde."
MEMORY = ["--model", "model", "--memory", "store"]
EXPLAIN = ["explain", SENTENCE, *MEMORY, "--beam", "2"]
CALIBRATE = ["calibrate", *MEMORY, "--dev", "dev.tsv"]
GAPS = ["gaps", "in.txt", *MEMORY, "--beam", "2"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a model, a store with an index, dev pairs, a calibration, and text to rank."""
    world = tmp_path_factory.mktemp("world")
    with chdir(world):
        make_marian(Path("model"))
        write_pairs(Path("corpus.tsv"), make_pairs(20))
        write_pairs(Path("dev.tsv"), make_pairs(6, seed=1))
        Path("in.txt").write_text("Wir sehen.\n\nDrei Hunde.\nWir sehen.\n")
        Path("blank.txt").write_text("\n \n")
        Path("blank.po").write_text('msgid ""\nmsgstr ""\n')
        Path("blank.tsv").write_text("\n")
        build_index(build_store(load_model("model", device="cpu"), read_corpus("corpus.tsv"), "store"))
    return world


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every token a line of its own."""
    monkeypatch.setenv("COLUMNS", "160")


def test_explains_as_json_as_text_and_as_a_page(world: Path, tmp_path: Path, run: Run) -> None:
    calibration = str(tmp_path / "calibration")
    made = json.loads(run([*CALIBRATE, "--into", calibration, "--json"], world))
    assert [one["name"] for one in made["measured"]][-1] == "both"
    page = tmp_path / "why.html"
    options = ["--calibration", calibration, "--html", str(page)]
    told = json.loads(run([*EXPLAIN, *options, "--json"], world))
    assert told["source"] == SENTENCE
    assert "".join(token["text"] for token in told["tokens"]) == told["text"]
    assert 0 <= told["confidence"] <= 1
    assert "text_with" not in told
    first = told["tokens"][0]
    assert first["p"] == pytest.approx(
        first["knn_weight"] * first["p_knn"] + (1 - first["knn_weight"]) * first["p_model"]
    )
    assert page.read_text(encoding="utf-8").count("<details") == len(told["tokens"])
    text = run([*EXPLAIN, "--calibration", calibration, "--neighbors", "1"], world)
    assert "Token by token" in text
    assert text.count("distance ") == len(told["tokens"])
    nearest = [token["neighbors"][0] for token in told["tokens"]]
    assert all(f"{near['before']}[{near['word']}]{near['after']}" in text for near in nearest if near["word"])


def test_without_a_sentence_shows_what_would_be_and_what_is(world: Path, run: Run) -> None:
    target = ["--target", "We see three dogs."]
    told = json.loads(run([*EXPLAIN, *target, "--json"], world))
    assert told["text"] == "We see three dogs."
    blamed = str(told["tokens"][0]["neighbors"][0]["sentence"])
    other = json.loads(run([*EXPLAIN, *target, "--without", blamed, "--json"], world))
    found = {near["sentence"] for token in other["tokens"] for near in token["neighbors"]}
    assert int(blamed) not in found
    assert other["without"] == [int(blamed)]
    free = json.loads(run([*EXPLAIN, "--without", blamed, "--json"], world))
    assert free["text_with"] == json.loads(run([*EXPLAIN, "--json"], world))["text"]
    assert "with them" in run([*EXPLAIN, "--without", blamed], world)


def test_gaps_as_table_json_and_tsv(world: Path, tmp_path: Path, run: Run) -> None:
    table = tmp_path / "next.tsv"
    found = json.loads(run([*GAPS, "--json", "--into", str(table)], world))
    assert found["sentences"] == 2
    assert sorted(gap["line"] for gap in found["gaps"]) == [1, 3]
    rows = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]
    assert [[int(row[1]), row[2]] for row in rows] == [[gap["line"], gap["source"]] for gap in found["gaps"]]
    assert [float(row[0]) for row in rows] == pytest.approx([gap["gap"] for gap in found["gaps"]], abs=1e-6)
    text = run([*GAPS, "--top", "1"], world)
    assert "The 1 least known of 2 sentences" in text
    assert text.count("│") == 7


CATALOG = """
msgid "Wir sehen. <b>Drei</b> Hunde."
msgstr "We see. Three dogs."

#, fuzzy
msgctxt "menu"
msgid "Ein Haus %s"
msgstr "A home"

msgid "%s"
msgstr ""
"""


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("in.po", CATALOG, [("2", "Wir sehen."), ("2", "<b>Drei</b> Hunde."), ("6", "Ein Haus %s")]),
        ("in.tsv", "Wir sehen.\tWe see.\n\nDrei Hunde.\tThree dogs.\n", [("1", "Wir sehen."), ("3", "Drei Hunde.")]),
        ("in.html", "<ul><li>Wir <i>sehen</i>.</li><li>Ja</li></ul>", [("1", "Wir sehen."), ("1", "Ja")]),
        ("in.json", '{"menu": {"open": "Ein Haus"}}', [("menu.open", "Ein Haus")]),
        ("in.de", "Wir sehen.\n", [("1", "Wir sehen.")]),
    ],
)
def test_gaps_of_documents_and_corpora(
    name: str, content: str, expected: list[tuple[str, str]], world: Path, run: Run
) -> None:
    (world / name).write_text(content, encoding="utf-8")
    command = ["gaps", name, *MEMORY, "--beam", "2", "--languages", "de-en"]
    found = json.loads(run([*command, "--json"], world))["gaps"]
    assert sorted((gap["place"], gap["source"]) for gap in found) == sorted(expected)
    assert ("place" in run(command, world)) == (name == "in.json")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([*EXPLAIN[:1], " ", *MEMORY], "got a blank one"),
        ([*EXPLAIN, "--without", "99"], "got sentence 99"),
        ([*EXPLAIN, "--html", "store"], "--html: got store"),
        ([*EXPLAIN, "--html", "in.txt/why.html"], "--html: got in.txt/why.html"),
        ([*EXPLAIN, "--calibration", "store"], "not 'calibration'"),
        ([*EXPLAIN, "--k", "1000000"], "allowed is 1 to"),
        ([*EXPLAIN, "--combiner", "c", "--k", "4"], "--k: given with --combiner"),
        (["explain", SENTENCE, "--model", "model"], "give --memory STORE or --domain DOMAIN"),
        ([*CALIBRATE, "--into", "store"], "already there and not empty"),
        ([*CALIBRATE[:-1], "one.tsv", "--into", "new"], "one.tsv: no such file"),
        ([*CALIBRATE, "--into", "new", "--pairs", "1"], "needs 2 or more"),
        (["gaps", "none.txt", *MEMORY], "none.txt: cannot be read"),
        (["gaps", "none.po", *MEMORY], "none.po: cannot be read"),
        (["gaps", "blank.po", *MEMORY], "blank.po: no sentence in it"),
        (["gaps", "blank.tsv", *MEMORY], "blank.tsv: empty corpus"),
        (["gaps", "none.txt", *MEMORY, "--into", "in.txt"], "none.txt: cannot be read"),
        (["gaps", "blank.txt", *MEMORY], "no sentence in it"),
        ([*GAPS, "--into", "in.txt"], "the file that is read"),
    ],
)
def test_bad_input_is_refused_in_one_line(command: list[str], says: str, world: Path, refuse: Refuse) -> None:
    assert says in refuse(command, world).line
