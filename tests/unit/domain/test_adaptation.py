"""Adaptations with a tiny model and made-up sentences: what the folder has, what a second call does, small inputs."""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
import torch

from lacuna.artifacts.files import sha256_of
from lacuna.combiners import Gate, Proximity, SavedCombiner, Vanilla
from lacuna.corpora import read_corpus
from lacuna.datastore import build_store, open_store
from lacuna.domain import Domain, adapt, open_domain, work_plan
from lacuna.errors import CorpusError, DomainError, SettingError
from lacuna.evaluation import evaluate_systems
from lacuna.evaluation.noninferiority import NonInferiority
from lacuna.fitting import PruningLoss, gate
from lacuna.fitting.pruning_choice import PruningChoice, PruningTrial
from lacuna.index import build_index
from lacuna.margin import read_margins
from lacuna.memory import open_memory
from lacuna.progress import Silent
from lacuna.pruning import Plac
from lacuna.steps import cached_steps, combiner_choice
from made_up import make_pairs, write_pairs
from plain_systems import open_plain

TEXTS = ["Wir sehen drei Hunde.", "Wir sehen neun Fenster und zwei Äpfel."]


class StoppedError(Exception):
    """Stands for a kill."""


class StopAt(Silent):
    """Stops the work at one of its reports."""

    def __init__(self, report: int) -> None:
        self._left = report

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        self._left -= 1
        if not self._left:
            raise StoppedError


class Count(Silent):
    """Counts reports."""

    count = 0

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        self.count += 1


def combiner_of(domain: Domain) -> SavedCombiner:
    combiner = domain.system.combiner
    assert isinstance(combiner, SavedCombiner)
    return combiner


def gate_of(domain: Domain) -> Gate | None:
    retriever = domain.translator.retriever
    assert retriever is not None
    return retriever.gate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("adapt")
    write_pairs(folder / "large.tsv", make_pairs(760))
    write_pairs(folder / "small.tsv", make_pairs(30))
    write_pairs(folder / "other.tsv", make_pairs(9, seed=9))
    return folder


@pytest.fixture(scope="module")
def large(folder: Path, model_folder: Path) -> Domain:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work_plan, "_MIN_PRUNED", 0)
        patch.setattr(work_plan, "_MIN_GATED", 0)
        return adapt(folder / "large.tsv", folder / "large", model=model_folder, device="cpu")


@pytest.fixture(scope="module")
def small(folder: Path, model_folder: Path) -> Domain:
    return adapt(folder / "small.tsv", folder / "small", model=model_folder, device="cpu")


def hashes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): sha256_of(path) for path in folder.rglob("*") if path.is_file()}


def test_a_domain_has_everything_that_a_translator_needs(large: Domain) -> None:
    names = {path.name for path in large.path.iterdir()}
    assert names >= {"memory", "combiner", "dev.tsv", "test.tsv", "report.html", "domain.json"}
    assert "unfinished" not in names
    assert large.memory == large.path / "memory"
    store = open_store(large.memory)
    assert len(read_margins(store).values) == store.entries == large.manifest.memory.entries
    assert large.translator.memories[0].name == large.name == "large"
    assert [one.text for one in large.translate(TEXTS)] == [one.text for one in large.translator.translate(TEXTS)]


def test_a_domain_says_what_decides_its_translations(large: Domain, small: Domain, tmp_path: Path) -> None:
    for domain in (large, small):
        assert domain.record == domain.system.record(domain.path)
        assert domain.record == open_domain(domain.path).record
    assert (large.record.memories, large.record.calibration is not None) == (("memory",), large.manifest.calibrated)
    shutil.copytree(large.path, tmp_path / "large")
    (tmp_path / "large" / "system.json").unlink()  # as versions before 0.3 wrote it
    assert large.record.int8 is None
    # Such a domain goes on without rounded weights.
    assert open_domain(tmp_path / "large").record == large.record.model_copy(update={"int8": False})
    file = tmp_path / "large" / "system.json"
    file.write_text((large.path / "system.json").read_text().replace('"guard_ends": true', '"guard_ends": false'))
    with pytest.raises(DomainError, match="edited or damaged"):
        open_domain(tmp_path / "large")


def test_the_better_combiner_on_held_out_pairs_is_taken(large: Domain) -> None:
    alone, *candidates = large.manifest.combiner.candidates
    assert (alone.name, alone.chrf) == ("model alone", None)
    assert {one.name for one in candidates} == {"vanilla", "adaptive"}
    assert large.manifest.combiner.kind == max(candidates, key=lambda one: one.chrf or 0.0).name
    assert all(one.perplexity < alone.perplexity for one in candidates)
    assert combiner_of(large).manifest.combiner == large.manifest.combiner.kind


def test_scores_are_those_of_the_test_part(large: Domain) -> None:
    test = list(read_corpus(large.path / "test.tsv"))
    sources = [pair.source for pair in test]
    texts = {
        "model alone": [one.text for one in open_plain(large.model).translate(sources)],
        "large": [one.text for one in large.translate(sources)],
    }
    expected = [score.bleu.value for score in evaluate_systems([pair.target for pair in test], texts)]
    assert [score.bleu for score in large.manifest.scores] == pytest.approx(expected)
    assert [score.name for score in large.manifest.scores] == list(texts)


def test_the_memory_has_no_sentence_of_dev_and_test(large: Domain) -> None:
    table = open_store(large.memory).sentences
    stored = {table[number].source for number in range(len(table))}
    held_out = {pair.source for part in ("dev", "test") for pair in read_corpus(large.path / f"{part}.tsv")}
    assert not stored & held_out


def test_the_report_names_every_decision(large: Domain) -> None:
    page = (large.path / "report.html").read_text()
    assert large.manifest.notes
    assert all(note.partition(":")[0] in page for note in large.manifest.notes)
    assert f"{large.manifest.scores[1].bleu:.2f}" in page


def test_the_same_call_opens_the_finished_domain(large: Domain, folder: Path, model_folder: Path) -> None:
    before = hashes(large.path)
    again = adapt(folder / "large.tsv", large.path, model=model_folder, device="cpu", progress=StopAt(1))
    assert again.manifest == large.manifest
    assert hashes(large.path) == before


def test_the_same_call_with_a_copy_of_the_model(folder: Path, model_folder: Path, tmp_path: Path) -> None:
    first, copy = (shutil.copytree(model_folder, tmp_path / name) for name in ("first", "copy"))
    adapt(folder / "small.tsv", tmp_path / "new", model=first, device="cpu")
    again = adapt(folder / "small.tsv", tmp_path / "new", model=copy, device="cpu")
    assert again.model.name == str(first)
    shutil.rmtree(first)
    with pytest.raises(DomainError, match="its model cannot be opened"):
        adapt(folder / "small.tsv", tmp_path / "new", model=copy, device="cpu")


@pytest.mark.parametrize("changed", [{"seed": 2}, {"budget": 5.0}, {"corpora": "other.tsv"}, {"test": "other.tsv"}])
def test_other_inputs_are_refused_and_nothing_changes(
    changed: dict[str, object], small: Domain, folder: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = hashes(small.path)
    arguments = {"corpora": folder / "small.tsv", "model": model_folder} | changed
    with pytest.raises(DomainError, match="already a domain, made from another corpus"):
        adapt(into=small.path, device="cpu", **arguments)  # type: ignore[arg-type]
    assert hashes(small.path) == before


def test_thirty_pairs_get_safe_settings(small: Domain) -> None:
    found = small.manifest
    assert (found.pairs.train, found.pairs.dev, found.pairs.test) == (30, 0, 0)
    assert combiner_of(small).combiner == Proximity.suited_to(open_store(small.memory))
    assert combiner_of(small).manifest.dev_loss is None
    assert (found.scores, found.combiner.candidates, found.calibrated) == ((), (), False)
    assert any("Nothing is fitted" in note for note in found.notes)
    assert any("safe" in note for note in found.notes)
    assert len(small.translate(TEXTS)) == 2


def test_safe_settings_follow_the_scale_of_the_keys(small: Domain) -> None:
    store = open_store(small.memory)
    keys = store.keys.gather(np.arange(store.entries)).astype(np.float64)
    variance = float(keys.var(axis=0).sum())
    assert Proximity.suited_to(store).temperature == pytest.approx(0.05 * variance, rel=1e-3)
    assert Proximity.suited_to(store).model_distance == pytest.approx(0.2 * variance, rel=1e-3)


def test_a_single_pair_is_enough(folder: Path, model_folder: Path, tmp_path: Path) -> None:
    one = adapt(write_pairs(tmp_path / "one.tsv", make_pairs(1)), tmp_path / "one", model=model_folder, device="cpu")
    assert combiner_of(one).k <= one.manifest.memory.entries
    assert one.translate(TEXTS[:1])[0].text


def test_a_few_dev_pairs_fit_nothing_but_a_test_set_is_scored(folder: Path, model_folder: Path, tmp_path: Path) -> None:
    dev, test = (write_pairs(tmp_path / f"{seed}.tsv", make_pairs(9, seed=seed)) for seed in (5, 6))
    domain = adapt(folder / "small.tsv", tmp_path / "new", dev=dev, test=test, model=model_folder, device="cpu")
    assert combiner_of(domain).combiner == Proximity.suited_to(open_store(domain.memory))
    assert any("9 dev pairs are too few" in note for note in domain.manifest.notes)
    assert len(domain.manifest.scores) == 2


def test_stopped_anywhere_it_resumes_and_ends_the_same(large: Domain, folder: Path, model_folder: Path) -> None:
    """The same files, but for times: figures do not depend on how often the work was stopped."""
    into, again = folder / "stopped" / "large", 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work_plan, "_MIN_PRUNED", 0)
        patch.setattr(work_plan, "_MIN_GATED", 0)
        for report in (2, 7, 20, 60, 150):
            try:
                adapt(folder / "large.tsv", into, model=model_folder, device="cpu", progress=StopAt(report))
            except StoppedError:
                again += 1
                assert not (into / "domain.json").exists()
                with pytest.raises(DomainError, match="no domain there"):
                    open_domain(into)
        counted = Count()
        domain = adapt(folder / "large.tsv", into, model=model_folder, device="cpu", progress=counted)
    assert again >= 3
    left_out = {"report.html", "domain.json"}
    assert {name: hashed for name, hashed in hashes(into).items() if name not in left_out} == {
        name: hashed for name, hashed in hashes(large.path).items() if name not in left_out
    }
    ignored = {"seconds"}
    assert domain.manifest.model_dump(exclude=ignored) == large.manifest.model_dump(exclude=ignored)


def test_a_stop_while_the_domain_is_published(
    small: Domain, folder: Path, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def stop(path: Path, target: Path) -> Path:
        if path.name == "combiner" and path.parent.name == "ready":
            raise StoppedError
        return rename(path, target)

    into = tmp_path / "small"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stop)
        with pytest.raises(StoppedError):
            adapt(folder / "small.tsv", into, model=model_folder, device="cpu")
    assert (into / "memory").exists()
    adapt(folder / "small.tsv", into, model=model_folder, device="cpu")
    assert hashes(into / "memory") == hashes(small.memory)
    assert not (into / "unfinished").exists()


@pytest.mark.parametrize("step", ["shutil.copytree", "write_tsv", "_publish"])
def test_a_full_disk_is_one_line(
    folder: Path, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*arguments: object, **settings: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    test = write_pairs(tmp_path / "test.tsv", make_pairs(2, seed=6))
    with monkeypatch.context() as patch:
        patch.setattr(f"lacuna.domain.adaptation.{step}", full)
        with pytest.raises(DomainError, match=r"new: cannot be written \(No space left on device\); .* same command"):
            adapt(folder / "small.tsv", tmp_path / "new", test=test, model=model_folder, device="cpu")
    adapt(folder / "small.tsv", tmp_path / "new", test=test, model=model_folder, device="cpu")


def test_an_unfinished_domain_does_not_reuse_results_of_other_inputs(
    folder: Path, model_folder: Path, tmp_path: Path
) -> None:
    corpus = write_pairs(tmp_path / "c.tsv", make_pairs(30, seed=8))
    with pytest.raises(StoppedError):
        adapt(folder / "small.tsv", tmp_path / "new", model=model_folder, device="cpu", progress=StopAt(4))
    domain = adapt(corpus, tmp_path / "new", model=model_folder, device="cpu")
    assert open_store(domain.memory).sentences[0].origin.file == str(corpus)


def test_a_budget_leaves_out_and_says_so(folder: Path, model_folder: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work_plan, "_MIN_PRUNED", 0)
        patch.setattr(work_plan, "_MIN_GATED", 0)
        domain = adapt(folder / "large.tsv", tmp_path / "new", model=model_folder, budget=0.05, device="cpu")
    found = domain.manifest
    assert found.budget == 0.05
    assert found.combiner.searched is None
    assert found.memory.pruned == 0
    assert any("The time limit leaves out the gate" in note for note in found.notes)


def test_entries_can_be_added_to_the_memory(large: Domain, folder: Path, model_folder: Path, tmp_path: Path) -> None:
    path = shutil.copytree(large.path, tmp_path / "large")
    shutil.rmtree(path / "memory")
    build_index(build_store(large.model, make_pairs(900, seed=3), path / "memory"))
    changed = open_domain(path, device="cpu")
    assert gate_of(changed) is None
    assert changed.translate(TEXTS)[0].text
    assert adapt(folder / "large.tsv", path, model=model_folder, device="cpu").memory == path / "memory"


def test_the_gate_is_used_as_long_as_the_memory_is_the_same(large: Domain) -> None:
    assert (gate_of(large) is not None) == (large.manifest.combiner.searched is not None)


def changed_model(domain: Domain, into: Path, **fields: str) -> Path:
    """Copy a domain, and change what it says of its model."""
    path = shutil.copytree(domain.path, into / "small")
    for file in (path / "domain.json", path / "system.json"):
        content = json.loads(file.read_text())
        content["model"] |= fields
        del content["checksum"]
        file.write_text(json.dumps(content))
    return path


def test_a_changed_model_is_refused(small: Domain, tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="made with another model"):
        open_domain(changed_model(small, tmp_path, fingerprint="0" * 64))


def test_a_missing_model_is_one_line(small: Domain, tmp_path: Path) -> None:
    path = changed_model(small, tmp_path, name=str(tmp_path / "gone"))
    with pytest.raises(DomainError, match="its model cannot be opened") as caught:
        open_domain(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["device", "devices"])
def test_a_missing_model_is_told_from_an_unknown_device(small: Domain, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    path = changed_model(small, tmp_path, name=name)
    with chdir(tmp_path), pytest.raises(DomainError, match=f"its model cannot be opened \\({name} is not a model"):
        open_domain(path)
    with pytest.raises(SettingError, match=r"^device: got 'gpu'; available"):
        open_domain(small.path, device="gpu")


def test_an_edited_manifest_is_noticed(small: Domain, tmp_path: Path) -> None:
    path = shutil.copytree(small.path, tmp_path / "small")
    text = (path / "domain.json").read_text()
    (path / "domain.json").write_text(text.replace('"seed": 1', '"seed": 2'))
    with pytest.raises(DomainError, match="edited or damaged"):
        open_domain(path)


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
def test_budgets_that_are_refused(budget: float, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="minutes above 0"):
        adapt(folder / "small.tsv", tmp_path / "new", budget=budget)
    assert not (tmp_path / "new").exists()


def test_a_folder_with_other_files_is_refused(folder: Path, model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DomainError, match="already there and not empty"):
        adapt(folder / "small.tsv", tmp_path, model=model_folder, device="cpu")


def test_a_corpus_that_is_missing_leaves_no_folder(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file"):
        adapt(tmp_path / "none.tsv", tmp_path / "new", model=model_folder, device="cpu")
    assert not (tmp_path / "new").exists()


def test_the_memory_is_an_ordinary_store(small: Domain) -> None:
    assert open_memory(small.memory).store.entries == small.manifest.memory.entries


def test_a_memory_that_can_be_pruned_and_gated(
    folder: Path, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiny model knows nothing, so dev would never allow either: the decisions are made here."""
    loss = PruningLoss(gain=0.5, loss=0.005, share=0.01, low=0.005, high=0.018, bound=0.017)
    drops = NonInferiority("BLEU", 1.1, 1.0, -0.4, 1.0), NonInferiority("chrF2", 9.0, 9.0, -0.2, 1.0)
    trial = PruningTrial(min_margin=1, ratio=0.3, log_p=-1.0, loss=loss, drops=drops)
    choice = PruningChoice(Plac(1), 0.3, 0.02, 1.0, 0.5, True, Vanilla(), -1.0, 1.1, 200, (trial,), 0)
    monkeypatch.setattr(work_plan, "_MIN_PRUNED", 0)
    monkeypatch.setattr(work_plan, "_MIN_GATED", 0)
    monkeypatch.setattr(cached_steps, "choose_pruning", lambda *_, **__: choice)
    monkeypatch.setattr(combiner_choice, "_MIN_SAVING", -1.0)
    monkeypatch.setattr(gate, "_MIN_P", 0.0)
    domain = adapt(folder / "large.tsv", tmp_path / "new", model=model_folder, device="cpu")
    store, found = open_store(domain.memory), domain.manifest
    assert store.manifest.parent is not None
    assert store.manifest.parent.entries > store.entries == found.memory.entries
    assert found.memory.pruned == pytest.approx(1 - store.entries / store.manifest.parent.entries, abs=1e-4)
    assert len(read_margins(store).values) == store.entries
    [promise] = [note for note in found.notes if note.startswith("PLAC dropped")]
    assert "no more than 2.0% of what the memory adds to the log-probability: it loses 1.0% on dev" in promise
    assert "BLEU 1.00 instead of 1.10 and chrF2 9.00 instead of 9.00" in promise
    assert any(note.startswith("On test, ") and "promise" in note for note in found.notes)
    assert found.combiner.searched is not None
    assert gate_of(domain) is not None
    assert [score.name for score in found.scores] == ["model alone", "new"]
