"""Bad input at the command line: one line with the way out, exit code 2, and nothing changed on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command

from commands import Refuse
from lacuna.cli.commands import commands_of
from lacuna.cli.main import VERBS, app, main
from lacuna.cli.render import BarProgress
from lacuna.errors import SettingError
from made_up import make_pairs, write_pairs

Prepare = Callable[[Path], list[str]]
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def train(*corpora: object, budget: tuple[str, ...] = ("--steps", "1"), languages: str = "de-en") -> list[str]:
    return ["train", *map(str, corpora), "--languages", languages, "--into", "made/new", *budget]


def made(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def differing_counts(folder: Path) -> list[str]:
    made(folder, "c.de", b"eins\nzwei\n")
    made(folder, "c.en", b"one\n")
    return train(folder / "c")


def unknown_setting(folder: Path) -> list[str]:
    return [
        *train(write_pairs(folder / "c.tsv", make_pairs(9))),
        "--settings",
        str(made(folder, "s.json", b'{"step": 1}')),
    ]


def foreign_folder(folder: Path) -> list[str]:
    made(folder, "precious.txt", b"mine")
    return ["fetch", "it", "--languages", "de-en", "--into", str(folder)]


CASES: dict[str, tuple[Prepare, str]] = {
    "missing corpus": (lambda f: train(f / "none.tsv"), "none.tsv"),
    "suffix nobody reads": (lambda f: train(made(f, "c.docx", b"x")), ".tsv"),
    "differing line counts": (differing_counts, "2"),
    "broken encoding": (lambda f: train(made(f, "c.tsv", b"gut\tgood\nsch\xf6n\tnice\n")), "c.tsv:2"),
    "wrong columns": (lambda f: train(made(f, "c.tsv", b"gut\tgood\nnur eins\n")), "c.tsv:2"),
    "malformed TMX": (lambda f: train(made(f, "c.tmx", b"<tmx><body><tu></body></tmx>")), "c.tmx"),
    "malformed JSONL": (lambda f: train(made(f, "c.jsonl", b'{"source": "a"\n')), "c.jsonl:1"),
    "empty corpus": (lambda f: train(made(f, "c.tsv", b"")), "c.tsv"),
    "weight that is no number": (lambda f: train(str(f / "c.tsv") + "@often"), "@2"),
    "no budget": (lambda f: train(f / "c.tsv", budget=()), "exactly one: --hours or --steps"),
    "two budgets": (lambda f: train(f / "c.tsv", budget=("--steps", "1", "--hours", "1")), "exactly one"),
    "no languages": (lambda f: ["train", "c.tsv", "--into", "new"], "--languages"),
    "unknown verb": (lambda f: ["trian"], "Did you mean 'train'? (see lacuna --help)"),
    "malformed languages": (lambda f: train(f / "c.tsv", languages="german"), "two different codes"),
    "threads of nothing": (lambda f: [*train(f / "c.tsv"), "--threads", "0"], "1 or more"),
    "unknown setting": (unknown_setting, "did you mean steps"),
    "nothing to continue": (lambda f: [*train(write_pairs(f / "c.tsv", make_pairs(9))), "--continue"], "no finished"),
    "unknown domain": (lambda f: ["fetch", "itt", "--languages", "de-en", "--into", str(f / "new")], "it"),
    "domain without the language": (lambda f: ["fetch", "it", "--languages", "xx-en", "--into", str(f / "new")], "xx"),
    "folder with other files": (foreign_folder, "precious.txt"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_line_and_exit_code_2(name: str, tmp_path: Path, refuse: Refuse) -> None:
    prepare, says = CASES[name]
    refused = refuse(prepare(tmp_path), tmp_path)
    assert says in refused.line
    assert refused.out == ""


def test_a_bar_that_was_broken_off_leaves_the_terminal_in_order(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        BarProgress().start("work", 9)
        raise SettingError("no good")

    monkeypatch.setattr("lacuna.cli.main.app", lambda **_: fail())
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with pytest.raises(SystemExit):
        main()
    drawn, complaint = capfd.readouterr().err.split(SHOW_CURSOR)
    assert drawn.startswith(HIDE_CURSOR)
    assert complaint == "lacuna: no good\n"


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lacuna.cli.evaluate.evaluate_files", interrupt)
    monkeypatch.setattr("sys.argv", ["lacuna", "evaluate", "reference.txt", "system.txt"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capfd.readouterr().err.startswith("lacuna: interrupted; ")


def options_with_a_value() -> list[tuple[str, str]]:
    """Return each verb with each name of its options that take a value."""
    commands = commands_of(get_command(app))
    return [
        (verb, name)
        for verb in VERBS
        for one in commands[verb].params
        if one.param_type_name == "option" and not one.is_flag and not one.count
        for name in one.opts
    ]


@pytest.mark.parametrize(("verb", "option"), options_with_a_value())
def test_an_option_at_the_end_of_the_line_needs_its_value(
    verb: str, option: str, tmp_path: Path, refuse: Refuse
) -> None:
    refused = refuse([*verb.split(), option], tmp_path)
    assert refused.line == f"lacuna: Option '{option}' requires an argument (see lacuna {verb} --help)"


@pytest.mark.parametrize("arguments", [["--no-such"], ["--version=3"], ["train", "--no-such"], ["verify", "--json=3"]])
def test_a_misused_option_refers_to_the_help_of_its_command(
    arguments: list[str], tmp_path: Path, refuse: Refuse
) -> None:
    command = " ".join(["lacuna", *arguments[:-1]])
    assert refuse(arguments, tmp_path).line.endswith(f"(see {command} --help)")
