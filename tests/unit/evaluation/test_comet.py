"""COMET in an evaluation, with a fake scorer: means, p-values compared with slow loops, keys, errors."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from commands import path_of
from lacuna.cli import evaluate as verb
from lacuna.cli.commands import add_verb
from lacuna.errors import EvaluationError, MissingExtra, SettingError
from lacuna.evaluation import SegmentScores, evaluate_files, evaluate_systems, resample_means, resample_sums
from lacuna.progress import SILENT, Progress

SOURCES = ["Wir sehen drei Hunde.", "Er hat ein Buch.", "Sie kommt.", "Wir gehen."]
REFERENCES = ["We see three dogs.", "He has a book.", "She comes.", "We go."]
WORSE = ["We see dogs.", "He has.", "She comes.", "We"]
KEYS = {"comet", "comet_model", "comet_p_value", "comet_p_decline"}

app = typer.Typer()
add_verb(app, path_of(verb.evaluate))
runner = CliRunner()


class Lengths:
    """Scores a segment by the length of its translation less those of source and reference."""

    model = "lengths"

    def score(
        self,
        sources: Sequence[str],
        references: Sequence[str],
        systems: Sequence[Sequence[str]],
        *,
        progress: Progress = SILENT,
    ) -> SegmentScores:
        values = [
            [
                len(line) - len(source) / 7 - len(reference)
                for source, line, reference in zip(sources, lines, references, strict=True)
            ]
            for lines in systems
        ]
        return SegmentScores(np.array(values), "nrefs:1|model:lengths")


class Given:
    """Gives the scores it was made with."""

    model = "given"

    def __init__(self, values: list[list[float]]) -> None:
        self._values = np.array(values)

    def score(
        self,
        sources: Sequence[str],
        references: Sequence[str],
        systems: Sequence[Sequence[str]],
        *,
        progress: Progress = SILENT,
    ) -> SegmentScores:
        return SegmentScores(self._values, "nrefs:1|model:given")


def looped_p_values(first: list[float], second: list[float], samples: int, seed: int) -> tuple[float, float]:
    """Draw, average and count in plain Python: the two-sided p of sacreBLEU's test and the one-sided of Koehn's."""
    rng, count = np.random.default_rng(seed), len(first)
    gains = []
    for _ in range(samples):
        drawn = [int(number) for number in rng.choice(count, size=count, replace=True)]
        gains.append(sum(second[number] - first[number] for number in drawn) / count)
    real = abs(sum(second) / count - sum(first) / count)
    mean = sum(abs(gain) for gain in gains) / samples
    beyond = sum(abs(gain) - mean > real for gain in gains)
    two_sided = (beyond + 1) / (samples + 1) if any(gains) else 1.0
    return two_sided, sum(gain >= 0 for gain in gains) / samples


def written(path: Path, lines: Sequence[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write a bilingual test set, a good system and a worse one."""
    pairs = [f"{source}\t{reference}" for source, reference in zip(SOURCES, REFERENCES, strict=True)]
    return [written(tmp_path / n, lines) for n, lines in (("t.tsv", pairs), ("a.txt", REFERENCES), ("b.txt", WORSE))]


def test_means_worked_by_hand() -> None:
    first, second = evaluate_systems(
        REFERENCES[:2],
        {"one": REFERENCES[:2], "two": WORSE[:2]},
        comet=Given([[0.5, 0.25], [0.5, -0.5]]),
        sources=SOURCES[:2],
        samples=30,
    )
    assert first.comet is not None
    assert second.comet is not None
    assert (first.comet.value, second.comet.value) == (0.375, 0.0)
    assert str(second.comet) == "COMET|nrefs:1|bs:30|seed:12345|model:given = 0.0000"
    assert (first.comet_model, first.comet_p_value, first.comet_p_decline) == ("given", None, None)


# Eighths add up without rounding, and their means are exact where there are 1, 2, 4, 8 or 16 of them, so that the loop
# and the matrix product must agree to the last tie.
eighths = st.integers(-8, 8).map(lambda number: number / 8)
scored = st.sampled_from([1, 2, 4, 8, 16]).flatmap(
    lambda count: st.lists(st.tuples(eighths, eighths), min_size=count, max_size=count)
)


@settings(max_examples=40)
@given(scored, st.integers(0, 10_000))
def test_p_values_are_those_of_the_loop(pairs: list[tuple[float, float]], seed: int) -> None:
    columns = [list(column) for column in zip(*pairs, strict=True)]
    lines = ["We see."] * len(pairs)
    _, second = evaluate_systems(
        lines, {"one": lines, "two": lines}, comet=Given(columns), sources=lines, samples=16, seed=seed
    )
    two_sided, decline = looped_p_values(*columns, samples=16, seed=seed)
    assert second.comet_p_value == pytest.approx(two_sided)
    assert second.comet_p_decline == decline


def test_comet_draws_the_segments_that_bleu_draws() -> None:
    lengths = np.arange(1, 8)
    sums = resample_sums(lengths[:, None], samples=9, seed=4)
    assert resample_means(lengths[:, None], samples=9, seed=4) * 7 == pytest.approx(sums)


def test_a_system_equals_itself_and_differs_from_a_worse_one() -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(0.8, 0.1, 100).tolist()
    worse = [score - abs(float(rng.normal(0.1, 0.1))) for score in scores]
    lines = ["We see."] * 100
    _, same, bad = evaluate_systems(
        lines, {"a": lines, "b": lines, "c": lines}, comet=Given([scores, scores, worse]), sources=lines
    )
    assert (same.comet_p_value, same.comet_p_decline) == (1.0, 1.0)
    assert bad.comet_p_decline == 0.0
    assert bad.comet_p_value is not None
    assert bad.comet_p_value < 0.05
    assert bad.declined is False  # BLEU sees no difference


def test_json_has_the_keys_only_where_comet_was_asked_for() -> None:
    plain = evaluate_systems(REFERENCES, {"one": WORSE})[0].as_json()
    asked = evaluate_systems(REFERENCES, {"one": WORSE}, comet=Lengths(), sources=SOURCES)[0].as_json()
    assert asked.keys() - plain.keys() == KEYS
    assert asked["signatures"]["comet"] == "nrefs:1|model:lengths"
    assert {name: value for name, value in asked.items() if name not in KEYS | {"signatures"}} == {
        name: value for name, value in plain.items() if name != "signatures"
    }


def test_sources_must_be_as_many_as_references() -> None:
    with pytest.raises(EvaluationError, match="got 3 sources for 4 references"):
        evaluate_systems(REFERENCES, {"one": WORSE}, comet=Lengths(), sources=SOURCES[:3])


def test_files_give_sources_lines_and_references_in_their_places(files: list[str]) -> None:
    first, second = evaluate_files(files[0], files[1:], comet=Lengths())
    assert first.comet is not None
    assert second.comet is not None
    source = np.mean([len(line) / 7 for line in SOURCES])
    assert first.comet.value == pytest.approx(-source)
    short = np.mean([len(line) - len(reference) for line, reference in zip(WORSE, REFERENCES, strict=True)])
    assert second.comet.value == pytest.approx(short - source)


def test_a_file_of_references_alone_is_refused(tmp_path: Path, files: list[str]) -> None:
    plain = written(tmp_path / "plain.txt", REFERENCES)
    with pytest.raises(EvaluationError, match=r"plain\.txt: has references only, but COMET needs the sources"):
        evaluate_files(plain, files[1:], comet=Lengths())


def test_the_verb_shows_a_column_and_the_keys(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "CometScorer", lambda model, **settings: Lengths())
    shown = runner.invoke(app, [*files, "--comet", "any"]).stdout
    assert "COMET: nrefs:1|bs:1000|seed:12345|model:lengths" in shown
    assert "-2.0357" in shown  # the sources have 57 characters: 57 / 7 / 4
    assert "-6.2857" in shown  # and the worse system 17 less than the references
    alone = json.loads(runner.invoke(app, [*files[:2], "--comet", "any", "--json"]).stdout)["systems"][0]
    assert alone.keys() >= KEYS
    assert alone["comet_model"] == "lengths"
    assert "COMET" not in runner.invoke(app, files).stdout


def test_the_verb_without_an_environment_says_the_command(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LACUNA_COMET_PYTHON", raising=False)
    refused = runner.invoke(app, [*files, "--comet", "wmt22-comet-da"])
    assert isinstance(refused.exception, MissingExtra)
    assert "make comet" in str(refused.exception)


def test_a_python_for_nothing_is_refused(files: list[str]) -> None:
    refused = runner.invoke(app, [*files, "--comet-python", "python3"])
    assert isinstance(refused.exception, SettingError)
    assert "without --comet" in str(refused.exception)
