"""A whole experiment on a tiny model: tables, claims, cached steps, and the steps that a change repeats."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import typer
import yaml
from numpy.typing import NDArray
from typer.testing import CliRunner

from commands import path_of
from lacuna.cli.commands import add_verb
from lacuna.cli.reproduce import reproduce as verb
from lacuna.corpora import read_corpus
from lacuna.datastore import Store, open_store
from lacuna.errors import CorpusError, SettingError
from lacuna.fitting import FitVanilla
from lacuna.index.manifest import read_manifest
from lacuna.margin import read_margins
from lacuna.margin.reference import reference_margins
from lacuna.models import Model, load_model
from lacuna.pruning import PRUNERS, Plac, make_pruner
from lacuna.records import Languages, SentencePair
from lacuna.reports import write_report
from lacuna.reproduction import Experiment, Reproduction, reproduce
from lacuna.reproduction.comparison import PARTS, Part
from lacuna.reproduction.experiment import read_sentences
from lacuna.reproduction.systems import ExperimentSystems, PlannedSystem
from lacuna.reproduction.tables import Table, read_table
from lacuna.steps import StepCache, cached_steps
from lacuna.workers import WorkerPool
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import Zoo

NAMES = [
    "data",
    "statistics",
    "margins",
    "accuracy",
    "corpus-cases",
    "settings",
    "main",
    "seeds",
    "safe",
    "curve",
    "reverse",
    "variants",
]
NAMES += ["k", "index-sizes", "times"]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The smallest possible experiment, over made-up sentences."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("experiment")
    model = Zoo(folder).model("marian")
    (folder / "data").mkdir()
    for seed, (part, count) in enumerate({"train": 40, "dev": 8, "test": 4}.items()):
        write_pairs(folder / "data" / f"{part}.tsv", make_pairs(count, seed=seed))
    return {
        "folder": folder,
        "title": "Made up",
        "languages": "de-en",
        "model": model.name,
        "paper": "opus-law",
        "corpus": {"train": "train", "dev": "dev", "test": "test.tsv", "clean": False},
        "limits": {"curve": 4},
        "margin": {"max_margin": 8},
        "pruning": {"min_margin": 1, "ratio": 0.2, "min_margins": [1], "ratios": [0.1]},
        "adaptive": {"k": 2, "temperature": 10, "ks": [2, 4]},
        "finetune": {"methods": []},
        "seeds": [1, 2],
    }


def run(settings: dict[str, object], **changed: object) -> Reproduction:
    content = {name: value for name, value in settings.items() if name != "folder"} | changed
    folder = Path(str(settings["folder"]))
    return reproduce(Experiment.model_validate(content), folder / "out", data=folder / "data")


def make_systems(settings: dict[str, object], into: Path, **changed: object) -> ExperimentSystems:
    content = {name: value for name, value in settings.items() if name != "folder"} | changed
    experiment = Experiment.model_validate(content)
    sentences = read_sentences(experiment, Path(str(settings["folder"])) / "data", into)
    model = load_model(experiment.model, languages=Languages.parse("de-en"))
    return ExperimentSystems(experiment, model, sentences, StepCache(into / "steps"))


@pytest.fixture(scope="module")
def outcome(settings: dict[str, object]) -> Reproduction:
    return run(settings)


class NotingPool(WorkerPool):
    """Notes the functions of its tasks."""

    noted: ClassVar[set[str]] = set()

    def map(
        self, task: Callable[[Any], Any], items: Iterable[Any], *, files: Path | None = None
    ) -> Generator[Any, None, None]:
        self.noted.add(getattr(task, "func", task).__name__)
        return super().map(task, items, files=files)


def test_a_pool_builds_measures_prunes_and_translates(
    settings: dict[str, object], outcome: Reproduction, tmp_path: Path
) -> None:
    content = {name: value for name, value in settings.items() if name != "folder"}
    data = Path(str(settings["folder"])) / "data"
    found = reproduce(Experiment.model_validate(content), tmp_path, data=data, pool=NotingPool())
    assert NotingPool.noted == {"decode_and_write", "run", "find", "copy_group", "translate_window"}
    assert untimed(found) == untimed(outcome)


def untimed(outcome: Reproduction) -> list[object]:
    return [each.as_json() for each in outcome.tables if each.name != "times"]


def table(outcome: Reproduction, name: str) -> Table:
    return next(each for each in outcome.tables if each.name == name)


def test_all_tables_are_written(outcome: Reproduction) -> None:
    assert [each.name for each in outcome.tables if each.name != "neighbor-case"] == NAMES
    for each in outcome.tables:
        for suffix in ("csv", "tex"):
            assert (outcome.into / "tables" / f"{each.name}.{suffix}").stat().st_size > 0
        assert read_table(outcome.into / "tables" / f"{each.name}.json") == each
    content = json.loads((outcome.into / "experiment.json").read_text())
    assert content["tables"] == [each.name for each in outcome.tables]
    assert content["seconds"] == outcome.seconds > 0
    assert len(content["hashes"]["model"]) == 64


def test_the_report_takes_it(outcome: Reproduction) -> None:
    report = write_report(outcome.into)
    page = report.page.read_text(encoding="utf-8")
    for each in outcome.tables:
        assert each.title in page
    assert len(report.figures) == 2 * sum(each.plot is not None for each in outcome.tables)


def test_all_methods_drop_the_same_share(outcome: Reproduction, settings: dict[str, object]) -> None:
    [path] = outcome.into.glob("steps/store-*/store")
    store = open_store(path)
    margins = read_margins(store).values
    possible = int((store.known & (margins >= 1)).sum())
    wanted = min(round(0.2 * store.entries), possible)
    entries = {row[0]: row[2] for row in table(outcome, "main").rows}
    for name in ("Random", "Known", "PLAC", "Reverse"):
        assert entries[name] == store.entries - wanted
    assert entries["All known"] == store.entries - int(store.known.sum())
    assert entries["Adaptive, whole memory"] == store.entries
    assert entries["Base"] is None


def test_one_system_has_one_score_everywhere(outcome: Reproduction) -> None:
    main = {row[0]: row[3] for row in table(outcome, "main").rows}
    seeds = {row[0]: row[1:3] for row in table(outcome, "seeds").rows}
    assert {name: seeds[name][0] for name in seeds} == {name: main[name] for name in seeds}
    adaptive = table(outcome, "variants").rows[-1]
    by_k = {row[0]: row[1:3] for row in table(outcome, "k").rows}
    assert adaptive[1:3] == by_k[2] == (main["Adaptive, whole memory"], main["PLAC"])
    assert adaptive[3:] == (63.53, 63.22)


def test_verdicts_agree_with_the_tables(outcome: Reproduction) -> None:
    means = {row[0]: row[3] for row in table(outcome, "seeds").rows}
    for claim in outcome.claims:
        for name in ("Random", "Cluster", "Merge", "Known"):
            if claim.claim == f"PLAC beats {name.lower()} pruning at equal ratio":
                if claim.verdict == "holds":
                    assert means["PLAC"] > means[name]
                if claim.verdict == "does not hold":
                    assert means["PLAC"] < means[name]
    assert len(outcome.claims) == 8
    if outcome.claims[-1].verdict == "holds":
        assert min(means, key=lambda name: means[name]) == "Reverse"


def test_again_does_nothing_and_a_change_repeats_a_part(outcome: Reproduction, settings: dict[str, object]) -> None:
    assert run(settings).made == []
    again = run(settings, adaptive={"k": 2, "temperature": 10, "ks": [2]})
    assert again.made == []  # the table by k is left out
    few = run(settings, variants=[])
    assert few.made == []
    assert {"variants"} == {each.name for each in outcome.tables} - {each.name for each in few.tables}
    assert {"k"} == {each.name for each in outcome.tables} - {each.name for each in again.tables}
    other = run(settings, seeds=[1, 3])
    assert set(other.made) <= {
        "run",
        "translate",
        "fit-adaptive",
        *(step.name for step in other.steps if step.name.startswith("mask-")),
    }
    assert other.made


def test_the_memories_come_opened(outcome: Reproduction) -> None:
    entries = {row[0]: row[2] for row in table(outcome, "main").rows}
    whole, plac = (outcome.memories[name].opened for name in ("whole", "plac"))
    assert whole.entries == entries["Adaptive, whole memory"]
    assert outcome.memories["plac"].entries == entries["PLAC"]
    found = plac.search(whole.keys(np.arange(5)).astype(np.float32), whole.entries).ids
    assert set(found[0]) - {-1} == set(np.flatnonzero(outcome.memories["plac"].keep))


def test_the_verb(outcome: Reproduction, settings: dict[str, object], tmp_path: Path) -> None:
    folder = Path(str(settings["folder"]))
    path = tmp_path / "made-up.yaml"
    path.write_text(yaml.safe_dump({name: value for name, value in settings.items() if name != "folder"}))
    app = typer.Typer()
    add_verb(app, path_of(verb))
    words = [str(path), "--into", str(folder / "out"), "--data", str(folder / "data")]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "0 of" in shown.stdout
    content = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert content["made"] == 0
    assert len(content["findings"]) == 8
    merged = json.loads(CliRunner().invoke(app, [*words, "--merge", "--json"]).stdout)
    assert merged | {"missing": {}} == content  # all results are in the folder
    elsewhere = [*words[:2], str(tmp_path / "other"), *words[3:]]
    for more, error in (
        (["--merge"], "has no results of this experiment"),
        (["--part", "size"], "got 'size'; allowed: main"),
    ):
        failed = CliRunner().invoke(app, [*elsewhere, *more])
        assert isinstance(failed.exception, SettingError)
        assert error in str(failed.exception)
    both = CliRunner().invoke(app, [*elsewhere, "--merge", "--part", "main"])
    assert "--merge computes nothing" in str(both.exception)


# A short experiment, with samples of the memory.
SHORT: dict[str, object] = {
    "pruning": {"min_margin": 1, "ratio": 0.2, "min_margins": [1], "ratios": [0.1], "curve_methods": []},
    "adaptive": {"k": 2, "temperature": 10, "ks": [2]},
    "variants": [],
    "sizes": {"entries": [60, 120], "ratios": [0.1, 0.9], "methods": ["plac", "random"]},
}


def in_parts(settings: dict[str, object], into: Path, *parts: Part, results: Path | None) -> Reproduction:
    """Run some parts on a machine of their own, with the results of the machines before."""
    content = {name: value for name, value in settings.items() if name != "folder"} | SHORT
    data = Path(str(settings["folder"])) / "data"
    return reproduce(Experiment.model_validate(content), into, data=data, parts=parts, results=results)


def test_parts_of_several_machines_are_the_whole_experiment(settings: dict[str, object], tmp_path: Path) -> None:
    results = tmp_path / "results"
    with pytest.raises(SettingError, match=r"parts: got none, and .* has no results"):
        in_parts(settings, tmp_path / "none", results=results)
    first = in_parts(settings, tmp_path / "first", "main", results=results)
    sizes = {f"sizes, {entries} entries": "sizes" for entries in (60, 120)}
    assert {"seed 2": "seeds", **sizes}.items() <= first.missing.items()
    assert {part for part in first.missing.values()} == {"safe", "analysis", "seeds", "sizes"}
    safe = in_parts(settings, tmp_path / "safe", "safe", results=results)
    assert "safe" in safe.made
    assert "safe" not in {*first.made, *safe.missing.values()}
    assert "curve" in {each.name for each in in_parts(settings, tmp_path / "more", "analysis", results=results).tables}
    second = in_parts(settings, tmp_path / "second", "seeds", results=results)
    assert {"examples": "analysis", **sizes}.items() <= second.missing.items()
    assert "seeds" not in second.missing.values()
    third = in_parts(settings, tmp_path / "third", "sizes", results=results)
    assert {"store", "sample", "run"} <= set(third.made)
    merged = in_parts(settings, tmp_path / "merged", results=results)
    assert merged.made == []
    assert not (tmp_path / "merged" / "steps").exists()
    assert merged.missing == {"examples": "analysis"}
    alone = in_parts(settings, tmp_path / "alone", *PARTS, results=None)
    assert alone.missing == {}
    sentences = {"neighbor-case", "corpus-cases"}
    expected = {each.name: each for each in alone.tables if each.name not in sentences | {"times"}}
    assert {each.name: each for each in merged.tables if each.name != "times"} == expected
    assert merged.claims == alone.claims
    assert len(table(first, "seeds").columns) == len(expected["seeds"].columns) - 1
    assert {row[0] for row in expected["sizes"].rows} == {f"{row[0]:,}" for row in expected["size-margins"].rows}
    assert "missing" in write_report(merged.into).page.read_text(encoding="utf-8")
    texts = [pair.source for part in ("train", "dev", "test") for pair in sentences_of(settings, part)]
    for file in results.iterdir():
        assert not any(text in file.read_text(encoding="utf-8") for text in texts)


def sentences_of(settings: dict[str, object], part: str) -> list[SentencePair]:
    return list(read_corpus(Path(str(settings["folder"])) / "data" / f"{part}.tsv", languages=Languages("de", "en")))


def all_keys(store: Store) -> NDArray[np.float16]:
    return store.keys.gather(np.arange(store.entries))


def test_samples_are_nested_sentences(settings: dict[str, object], tmp_path: Path) -> None:
    steps = make_systems(settings, tmp_path).steps
    whole = steps.build()
    small, large = (steps.sample(whole, entries).store for entries in (60, 120))
    longest = np.bincount(whole.store.sentence).max()
    assert 60 <= small.entries < 60 + longest
    assert 120 <= large.entries < 120 + longest
    kept = [set(store.sentence.tolist()) for store in (small, large)]
    assert kept[0] < kept[1]
    for sentences, store in zip(kept, (small, large), strict=True):
        rows = np.isin(whole.store.sentence, list(sentences))
        assert np.array_equal(all_keys(store), all_keys(whole.store)[rows])
        assert np.array_equal(read_margins(store).values, reference_margins(all_keys(store), store.known, 8))


def test_a_mask_gives_the_translations_of_a_pruned_copy(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = make_systems(settings, tmp_path)
    whole, test = systems.steps.build(), systems.sentences["test"]
    fitter = FitVanilla(k=2, temperature=10)
    mask = systems.steps.prune(whole, Plac(1), 0.2, 1)
    found = systems.run(PlannedSystem(mask, fitter), test)
    monkeypatch.setattr(Plac, "changes_keys", True)
    copy = systems.steps.prune(whole, Plac(1), 0.2, 1)
    assert copy.key != mask.key
    expected = systems.run(PlannedSystem(copy, fitter), test)
    assert found == expected
    assert found.entries == copy.opened.entries < whole.entries


def test_an_unknown_part(settings: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="parts: got 'size'; allowed: main, safe, analysis, seeds, sizes"):
        in_parts(settings, tmp_path / "out", "size", results=tmp_path)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_data_that_is_not_there(settings: dict[str, object], tmp_path: Path) -> None:
    content = {name: value for name, value in settings.items() if name != "folder"}
    with pytest.raises(CorpusError, match="`data`"):
        reproduce(Experiment.model_validate(content), tmp_path / "out", data=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_memory_has_the_index_that_is_asked_for(settings: dict[str, object], tmp_path: Path) -> None:
    keys = []
    for kind in ("auto", "Flat", "auto"):
        steps = make_systems(settings, tmp_path, index=kind).steps
        memory = steps.build()
        assert read_manifest(memory.store).asked == kind
        keys.append(memory.key)
    assert steps.cache.made == []
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("method", PRUNERS)
def test_changed_margin_settings_prune_again_where_margins_decide(
    method: str, settings: dict[str, object], tmp_path: Path
) -> None:
    keys = {}
    for name, margin in (
        ("exact", {"max_margin": 8}),
        ("approximate", {"max_margin": 8, "approximate": True}),
        ("capped", {"max_margin": 4}),
        ("again", {"max_margin": 8}),
    ):
        steps = make_systems(settings, tmp_path, margin=margin).steps
        whole = steps.build()
        pruner = make_pruner(method, **({"min_margin": 1} if method in ("plac", "reverse") else {}))
        keys[name] = steps.prune(whole, pruner, None if method == "all_known" else 0.1, 1).key
    assert keys["exact"] == keys["again"]
    changed = {keys["approximate"] != keys["exact"], keys["capped"] != keys["exact"]}
    assert changed == {method in ("plac", "reverse")}  # the two methods of the paper that look at margins


def test_a_fine_tuned_model_is_loaded_on_the_device_of_the_model(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = make_systems(settings, tmp_path)
    loaded: list[tuple[Path, str]] = []

    def fake_load(path: Path, *, device: str, languages: Languages | None, mask_placeholders: bool) -> Model:
        loaded.append((path, device))
        return load_model(systems.experiment.model, languages=languages, mask_placeholders=mask_placeholders)

    class NoReport:
        def as_json(self) -> dict[str, object]:
            return {}

    monkeypatch.setattr(cached_steps, "load_model", fake_load)
    monkeypatch.setattr(cached_steps, "finetune_model", lambda *arguments, **rest: NoReport())
    finetuned = systems.finetune("full")
    object.__setattr__(systems.steps.model, "device", torch.device("meta"))  # no machine has two devices for certain
    texts = systems.translate(PlannedSystem(model=finetuned), systems.sentences["test"])
    assert len(texts) == 4
    assert loaded == [(finetuned.path, "meta")]
