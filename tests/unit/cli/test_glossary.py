"""``lacuna glossary check``: what it prints, its exit code, and the model whose vocabulary it asks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from commands import Attempt, Refuse, Run
from lacuna.cli.commands import commands_of
from lacuna.cli.error_text import name_options
from lacuna.cli.main import VERBS, app
from unit.models.tiny_models import Zoo

SOUND = "source\ttarget\tforbidden\nDatei\tfile\t\nChef\tboss\tchef\n"
WRONG = "source\ttarget\nDatei\tfile\n\tfolder\nDatei\tfile\nA\tto [b]\n"
UNWRITABLE = "Datei\tfile\nMarke\tbrand™\n"


def made(folder: Path, content: str, name: str = "terms.tsv") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_a_sound_glossary(tmp_path: Path, run: Run) -> None:
    made(tmp_path, SOUND)
    out = run("glossary check terms.tsv", tmp_path)
    assert out == "terms.tsv: 2 rows, 2 terms without errors; 0 errors, 0 warnings\n"


def test_errors_are_listed_and_the_exit_code_is_2(
    tmp_path: Path, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    made(tmp_path, WRONG)
    refused = refuse("glossary check terms.tsv", tmp_path)
    assert refused.line == "lacuna: terms.tsv: 1 error; correct the lines above, then check it again"
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in refused.out.splitlines() if "│" in line]
    assert rows == [
        ["3", "error", "", "source: got an empty cell; write the term"],
        ["4", "warning", "Datei", "the same as line 2; remove one of them"],
        [
            "5",
            "warning",
            "A",
            "source: got a single letter, which is a term wherever it is a word; write a longer term",
        ],
    ]
    assert refused.out.splitlines()[-1] == "terms.tsv: 4 rows, 2 terms without errors; 1 error, 2 warnings"


def test_json_has_the_same(tmp_path: Path, attempt: Attempt) -> None:
    made(tmp_path, WRONG)
    ended = attempt("glossary check terms.tsv --json", tmp_path)
    assert ended.code == 2
    shown = json.loads(ended.out)
    problems = shown.pop("problems")
    assert shown == {"file": "terms.tsv", "rows": 4, "terms": 2, "model": None, "errors": 1, "warnings": 2}
    assert [(each["line"], each["severity"], each["source"]) for each in problems] == [
        (3, "error", ""),
        (4, "warning", "Datei"),
        (5, "warning", "A"),
    ]


def test_markup_of_the_terminal_is_shown_as_it_is(tmp_path: Path, run: Run) -> None:
    made(tmp_path, "[bold]\t[bold]\n")
    assert "[bold]" in run("glossary check terms.tsv", tmp_path)


def test_only_the_first_problems_are_printed(tmp_path: Path, run: Run) -> None:
    made(tmp_path, "".join(f"Wort{n}\tWort{n}\n" for n in range(120)))
    lines = run("glossary check terms.tsv", tmp_path).splitlines()
    assert lines[-2:] == [
        "100 of 120 problems; --json has all",
        "terms.tsv: 120 rows, 120 terms without errors; 0 errors, 120 warnings",
    ]


def vocabulary_problems(out: str) -> tuple[str | None, list[int]]:
    shown = json.loads(out)
    return shown["model"], [each["line"] for each in shown["problems"] if "cannot write" in each["message"]]


def test_the_vocabulary_is_that_of_the_model(tmp_path: Path, run: Run, zoo: Zoo) -> None:
    made(tmp_path, UNWRITABLE)
    folder = str(zoo.folder("marian"))
    assert vocabulary_problems(run(f"glossary check terms.tsv --json --model {folder}", tmp_path)) == (folder, [2])
    assert vocabulary_problems(run("glossary check terms.tsv --json --languages de-en", tmp_path)) == ("de-en", [2])
    assert vocabulary_problems(run("glossary check terms.tsv --json", tmp_path)) == (None, [])


def test_languages_that_the_bundled_model_does_not_have_are_noted(tmp_path: Path, attempt: Attempt) -> None:
    made(tmp_path, UNWRITABLE)
    ended = attempt("glossary check terms.tsv --languages fr-en", tmp_path)
    assert ended.code == 0
    assert ended.err == (
        "lacuna: note: no vocabulary was checked: the bundled model is not for fr-en; give --model or --domain\n"
    )


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("glossary check none.tsv", "lacuna: none.tsv: cannot be read (No such file or directory); check the name"),
        ("glossary check a.xlsx", "lacuna: a.xlsx: spreadsheets are not read; save it as CSV (UTF-8)"),
        ("glossary check terms.tsv --model none/such/model", "lacuna: model folder none/such/model does not exist"),
        ("glossary check terms.tsv --domain it --model m", "lacuna: --model: given with --domain, which has its own"),
        ("glossary check terms.tsv --languages german", "lacuna: Invalid value for '--languages'"),
        ("glossary check", "lacuna: Missing argument 'FILE' (see lacuna glossary check --help)"),
        ("glossary chekc", "lacuna: No such command 'chekc'. Did you mean 'check'? (see lacuna glossary --help)"),
        ("glossary check --no-such", "lacuna: No such option: --no-such"),
    ],
)
def test_bad_input_is_one_line(command: str, says: str, tmp_path: Path, refuse: Refuse) -> None:
    made(tmp_path, SOUND)
    assert refuse(command, tmp_path).line.startswith(says)


def test_the_verbs_of_a_group_are_listed(run: Run) -> None:
    assert "check" in run("glossary --help")
    assert "glossary" in run("--help")


def blocks_of_the_docs() -> list[str]:
    """Return the examples of files, checking and editing."""
    page = (Path(__file__).parents[3] / "docs" / "glossaries.md").read_text(encoding="utf-8")
    return re.findall(r"^```\w*\n(.*?)^```$", page.partition("## Finding terms")[0], re.MULTILINE | re.DOTALL)


def test_the_docs_show_what_is_printed(
    tmp_path: Path, refuse: Refuse, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, _, wrong, command, printed, _ = blocks_of_the_docs()
    made(tmp_path, sound, "terms.csv")
    made(tmp_path, wrong, "wrong.csv")
    monkeypatch.setenv("COLUMNS", "112")
    assert run("glossary check terms.csv", tmp_path).startswith("terms.csv: 6 rows, 5 terms without errors; 0 errors")
    out = refuse(command.removeprefix("lacuna "), tmp_path).out
    assert [line.rstrip() for line in out.splitlines()] == printed.splitlines()


def test_the_python_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound, reading, _, _, _, editing = blocks_of_the_docs()
    monkeypatch.chdir(tmp_path)
    made(tmp_path, sound, "terms.csv")
    names: dict[str, Any] = {}
    exec(reading, names)
    expected = "Term(source='Ordner', targets=('folder', 'binder'), forbidden=('directory',), "
    assert expected in reading
    assert str(names["glossary"].terms[1]).startswith(expected)
    exec(editing, names)
    done = [(edit.commit, edit.action) for edit in names["read_edits"]("terms.tsv")]
    assert f"# {done}\n" in editing


def test_the_commands_of_all_verbs_have_the_names_of_the_verbs() -> None:
    assert set(commands_of(get_command(app))) == set(VERBS)


def test_an_error_may_name_options_of_a_verb_of_two_words() -> None:
    commands = commands_of(get_command(app))
    message = "give `json` to lacuna glossary check FILE"
    assert name_options(message, "log", {"glossary check": commands["glossary check"]}) == message.replace(
        "`json`", "--json"
    )
    message = "give `pairs` to lacuna tune dev.tsv"
    assert name_options(message, "log", {"tune": commands["tune"]}) == message.replace("`pairs`", "--pairs")
