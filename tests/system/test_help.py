"""Help texts: every default that they name comes from the code, and aliases of options work."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from lacuna.cli.commands import commands_of
from lacuna.cli.main import VERBS, app
from lacuna.combiners import Vanilla
from lacuna.decoding import BeamSettings

PLACEHOLDER = re.compile(r"\{([\w.]+):(\w+)\.?(\w*)\}")
# A number in a help text that is no default: an example, a bound, or part of a name.
HARMLESS = re.compile(
    r"cuda:1|IVF4096,PQ64|CORPUS@2|has twice|8-bit|0 to 1|0: never|0 for|0 is|0\.0\.0\.0|wmt22|bf(?:loat)?16"
)


def helps() -> list[tuple[str, str]]:
    commands = commands_of(get_command(app))
    return [
        (verb, text)
        for verb in VERBS
        for parameter in commands[verb].params
        if (text := getattr(parameter, "help", None))
    ]


def test_every_default_that_a_help_text_names_exists() -> None:
    found = [match for _, text in helps() for match in PLACEHOLDER.findall(text)]
    assert len(found) > 20
    for module, name, field in found:
        value = getattr(import_module(module), name)
        if field:
            [default] = [one.default for one in dataclasses.fields(value) if one.name == field]
            assert default is not dataclasses.MISSING


def test_no_help_text_has_a_default_written_by_hand() -> None:
    wrong = [(verb, text) for verb, text in helps() if re.search(r"\d", HARMLESS.sub("", PLACEHOLDER.sub("", text)))]
    assert wrong == []


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("translate", f"Neighbors per token (default {Vanilla().k})"),
        ("explain", f"Beam width (default {BeamSettings().beam})"),
    ],
)
def test_the_help_shows_the_default_of_the_dataclass(verb: str, expected: str) -> None:
    shown = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"})
    assert expected in " ".join(shown.output.split())
    assert "{lacuna" not in shown.output


@pytest.mark.parametrize(("option", "alias"), [("--probes", "--nprobe"), ("--ef", "--ef-search")])
def test_both_spellings_of_an_option_work(option: str, alias: str, tmp_path: Path) -> None:
    results = [CliRunner().invoke(app, ["index", str(tmp_path), spelling, "4"]) for spelling in (option, alias)]
    assert [str(result.exception) for result in results] == [str(results[0].exception)] * 2
    assert "not a store" in str(results[0].exception)


def test_int8_promises_speed_only_where_the_table_shows_it() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "decoding.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| Lacuna")]
    speeds = {name: [int(cell.replace(",", "")) for cell in cells] for name, *cells in rows}
    faster = [int8 > plain for int8, plain in zip(speeds["Lacuna, int8"], speeds["Lacuna"], strict=True)]
    [text] = [text for verb, text in helps() if verb == "translate" and text.startswith("8-bit weights")]
    assert text.startswith("8-bit weights: faster, and nearly the same translations")
    assert faster == [True] * 6  # the bundled model and OPUS-MT, with batches of 1, 8 and 32
