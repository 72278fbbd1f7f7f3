"""Errors that users can fix: what they name, and how the command line shows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

import lacuna
from lacuna.cli.error_text import name_options
from lacuna.cli.main import app
from lacuna.errors import MissingExtra, needs_extra


def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(MissingExtra) as refused, needs_extra("reports", "drawing figures"):
        import no_such_package  # noqa: F401
    assert str(refused.value) == 'drawing figures needs the package no_such_package; pip install "lacuna-mt[reports]"'


def test_a_missing_module_of_lacuna_is_not_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as missing, needs_extra("reports", "drawing figures"):
        import lacuna.no_such_module  # noqa: F401
    assert not isinstance(missing.value, MissingExtra)


OWN_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the string literals of a module and their lines; not docstrings, which no user of a verb gets to see."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def test_no_literal_of_the_library_names_an_option_of_a_verb() -> None:
    """Errors of the library name parameters; options of other programs, such as pip and msgfmt, are none of ours."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    own = {name for command in commands.values() for one in command.params for name in (*one.opts, *one.secondary_opts)}
    assert "--into" in own
    library = Path(lacuna.__file__).parent
    named = [
        f"{path.relative_to(library)}:{line}: {option}"
        for path in library.rglob("*.py")
        if "cli" not in path.relative_to(library).parts
        for line, text in literals(ast.parse(path.read_text(encoding="utf-8")))
        for option in OWN_OPTION.findall(text)
        if option in own
    ]
    assert named == []


@pytest.mark.parametrize(
    ("verb", "message", "shown"),
    [
        ("adapt", "budget: got 0; allowed is more", "--budget: got 0; allowed is more"),
        ("inspect", "sentence, token: got neither", "--sentence, --token: got neither"),
        ("build", "scheduler and workers: exactly one", "--scheduler and --workers: exactly one"),
        ("index", "nprobe: got 0; allowed: 1", "--probes: got 0; allowed: 1"),  # another name of the same option
        ("translate", "nprobe: got 0; allowed: 1", "nprobe: got 0; allowed: 1"),  # the verb has no option for it
        ("fit", "combiner: got 'x'; allowed", "combiner: got 'x'; allowed"),  # an argument
        ("adapt", "x.tsv: in `dev` or `test` too", "x.tsv: in --dev or --test too"),
        ("prune", "again with lacuna margin and `max_margin` 8", "again with lacuna margin and --max-margin 8"),
        ("prune", "again with `max_margin` 8", "again with max_margin 8"),
        ("serve", "writable: use a `write_key`", "--writable: use a --write-key-file"),
        ("evaluate", "references: give `target_language` zh", "references: give --target zh"),
        ("evaluate", "run `make comet`, or name one by `python`", "run `make comet`, or name one by --comet-python"),
        ("", "budget: got 0", "budget: got 0"),
    ],
)
def test_parameters_are_shown_as_options(verb: str, message: str, shown: str) -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert name_options(message, verb, commands) == shown


def test_a_file_with_the_name_of_a_parameter_is_no_option() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    message = "test: no such file"
    assert name_options(message, "adapt", commands, ["lacuna", "adapt", "test"]) == message
    assert name_options(message, "adapt", commands, ["lacuna", "adapt", "x.tsv"]) == f"--{message}"
