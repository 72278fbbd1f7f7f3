"""Experiment files: those in the repository, and the errors of bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.errors import SettingError
from lacuna.reproduction.experiment import read_experiment
from lacuna.reproduction.paper import paper_of

FILES = sorted((Path(__file__).parents[3] / "experiments").glob("*.yaml"))
GOOD = "title: T\nlanguages: de-en\ncorpus: {train: a, dev: b, test: c}\n"


def test_every_domain_of_the_paper_has_a_file_with_its_settings() -> None:
    found = {experiment.title: experiment for experiment in map(read_experiment, FILES)}
    for name in ("opus-medical", "opus-law", "opus-it", "opus-koran", "um-law", "um-thesis"):
        paper = paper_of(name)
        assert paper is not None
        experiment = found[paper.title]
        assert experiment.paper == name
        assert experiment.languages == paper.languages
        assert (experiment.pruning.min_margin, experiment.pruning.ratio) == (paper.min_margin, paper.ratio)
        assert (experiment.adaptive.k, experiment.adaptive.temperature) == (paper.k, paper.temperature)
        assert experiment.margin.max_margin == 2048


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("title: [", "not YAML"),
        ("- a\n", "got list"),
        ("title: T\n", "languages: Field required"),
        (GOOD + "ratio: 0.2\n", "ratio: Extra inputs are not permitted"),
        (GOOD + "pruning: {ratio: 1.5}\n", "pruning.ratio: Input should be less than 1 (got 1.5)"),
        (GOOD + "pruning: {min_margin: 0}\n", "pruning.min_margin"),
        (GOOD + "paper: opus-sports\n", "opus-sports"),
        (GOOD.replace("de-en", "german"), "german"),
        (GOOD.replace(", test: c", ""), "give train, dev and test, or fetch"),
        (GOOD.replace("test: c", "test: c, fetch: it"), "give train, dev and test, or fetch"),
        (GOOD + "seeds: []\n", "seeds: give at least one"),
        (GOOD + "seeds: one\n", "seeds"),
        (GOOD + "finetune: {methods: [half]}\n", "finetune.methods.0"),
        ("!!python/object/apply:os.system ['touch here']\n", "not YAML"),
    ],
)
def test_bad_files_get_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(text)
    with pytest.raises(SettingError) as caught:
        read_experiment(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        read_experiment(tmp_path / "none.yaml")
