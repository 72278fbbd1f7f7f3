"""``evaluate_files`` and ``lacuna evaluate``: input files, output, and errors."""

import gzip
import json
import lzma
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from commands import path_of
from lacuna.cli.commands import add_verb
from lacuna.cli.evaluate import evaluate
from lacuna.errors import CorpusError, EvaluationError, LacunaError, SettingError
from lacuna.evaluation import evaluate_files
from lacuna.records import Languages
from made_up import make_pairs, write_pairs

LINES = ["We see two dogs and one key.", "We see nine books.", "We see four windows and six apples."]
WORSE = ["We see dogs and one key.", "He sees nine books.", "We see four windows."]

app = typer.Typer()
add_verb(app, path_of(evaluate))
runner = CliRunner()


def written(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    return [written(tmp_path / name, lines) for name, lines in (("ref", LINES), ("a", LINES), ("b", WORSE))]


def test_json_has_the_promised_keys(words: list[str]) -> None:
    content = json.loads(runner.invoke(app, [*words, "--samples", "50", "--seed", "7", "--json"]).stdout)
    first, second = content["systems"]
    assert {"name", "bleu", "chrf", "ter", "signature", "p_value", "p_decline"} <= first.keys()
    assert (first["name"], second["name"]) == (words[1], words[2])
    assert first["bleu"] == pytest.approx(100)
    assert first["p_value"] is None
    assert 0 < second["p_value"] <= 1
    assert "bs:50|seed:7" in second["signature"]


def test_people_get_a_table_and_a_legend(words: list[str]) -> None:
    shown = runner.invoke(app, words).stdout
    assert "100.00" in shown
    assert "lower is better" in shown
    assert "1,000 samples, seed 12345" in shown
    assert "BLEU: nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp" in shown
    alone = runner.invoke(app, words[:2]).stdout
    assert "decline" not in alone
    assert "BLEU: nrefs:1|case:mixed" in alone


def test_the_help_shows_an_example() -> None:
    shown = runner.invoke(app, ["--help"]).stdout
    assert "lacuna evaluate it/test.tsv plain.txt memory.txt" in " ".join(shown.split())


def test_compressed_files_are_read(tmp_path: Path) -> None:
    text = "".join(f"{line}\r\n" for line in LINES).encode()
    (tmp_path / "ref.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(text))
    (score,) = evaluate_files(tmp_path / "ref.gz", [tmp_path / "a.txt.xz"])
    assert score.bleu.value == pytest.approx(100)


def test_of_a_bilingual_corpus_the_target_side_counts(tmp_path: Path) -> None:
    pairs = make_pairs(6)
    corpus = write_pairs(tmp_path / "test.tsv", pairs)
    system = written(tmp_path / "test.en", [pair.target for pair in pairs])
    written(tmp_path / "test.de", [pair.source for pair in pairs])
    (score,) = evaluate_files(corpus, [system])
    assert score.bleu.value == pytest.approx(100)
    (score,) = evaluate_files(tmp_path / "test", [system], languages=Languages("de", "en"))
    assert score.bleu.value == pytest.approx(100)


def test_the_direction_names_the_target_language(tmp_path: Path) -> None:
    path = written(tmp_path / "zh.txt", ["我们看见三个苹果。"])
    result = json.loads(runner.invoke(app, [path, path, "--languages", "en-zh", "--json"]).stdout)
    assert "tok:zh" in result["systems"][0]["signature"]


def test_a_file_named_twice_keeps_both_rows(words: list[str]) -> None:
    first, second = evaluate_files(words[0], [words[1], words[1]], samples=20)
    assert second.name == f"{first.name} (2)"
    assert second.p_value == 1.0


def test_differing_languages_are_refused(words: list[str]) -> None:
    result = runner.invoke(app, [*words, "--languages", "de-en", "--target", "fr"])
    assert isinstance(result.exception, SettingError)
    assert "give one of them" in str(result.exception)


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (None, CorpusError, "no such file"),
        (b"", EvaluationError, "empty file"),
        (b"one line\n", EvaluationError, "got 1 lines for 3 references"),
        (b"We see\nsch\xf6n\nWe see\n", CorpusError, ":2: not UTF-8"),
    ],
)
def test_bad_systems_are_refused_by_name(
    content: bytes | None, error: type[LacunaError], says: str, words: list[str], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.txt"
    if content is not None:
        bad.write_bytes(content)
    result = runner.invoke(app, [*words, str(bad)])
    assert isinstance(result.exception, error)
    assert "bad.txt" in str(result.exception)
    assert says in str(result.exception)
    assert result.stdout == ""
