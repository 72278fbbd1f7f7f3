"""The dev pass: which pairs it keeps, what it remembers, and how it reports pairs that are too long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lacuna.datastore import build_store
from lacuna.errors import CorpusError, LacunaWarning
from lacuna.fitting import DevSet, FitAdaptive, FitKster, FitVanilla, calibrate, choose_pruning, fit_combiner, tune
from lacuna.fitting.dev_pass import DevBatch
from lacuna.fitting.token_cache import TokenCache, collect_dev
from lacuna.index import build_index
from lacuna.margin import measure_margin
from lacuna.memory import Memory, open_memory
from lacuna.models import Model, load_model
from lacuna.records import Languages, Origin, SentencePair
from lacuna.reproduction.knowledge_tables import accuracy_by_margin
from made_up import make_pairs
from unit.models.tiny_models import Zoo

TRAIN, DEV = make_pairs(20, seed=1), make_pairs(12, seed=2)
COLUMNS = ("distances", "values", "gold", "log_p_gold", "log_p_values", "log_p_sum", "sentences")


@pytest.fixture(scope="module")
def memory(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    store = build_store(model, TRAIN, tmp_path_factory.mktemp("memory") / "store")
    build_index(store)
    measure_margin(store)
    return open_memory(store.path)


def text_of(model: Model, tokens: int) -> str:
    """Return a text that has this many tokens as a source and as a target, with the end token."""
    for words in range(1, tokens):
        text = " ".join(["hund"] * words) + " "
        for letters in range(10):
            longer = text + "z" * letters
            if {len(model.encode_sources([longer])[0]), len(model.encode_targets([longer])[0])} == {tokens}:
                return longer
    raise AssertionError(f"no text of {tokens} tokens")


def pair_of(model: Model, tokens: int) -> SentencePair:
    return SentencePair(text_of(model, tokens), text_of(model, tokens), Origin("long", str(tokens)))


def test_a_pair_that_fills_all_positions_is_in_the_dev_pass_and_in_the_store(model: Model, tmp_path: Path) -> None:
    longest = pair_of(model, model.max_length)
    [batch] = DevSet([longest]).teacher_force(model)
    assert batch.outputs.lengths == (model.max_length,)
    assert build_store(model, [longest], tmp_path / "store").entries == model.max_length


def test_a_pair_that_fills_all_positions_is_in_the_accuracy_by_margin(model: Model, memory: Memory) -> None:
    longest = pair_of(model, model.max_length)
    table = accuracy_by_margin(model, memory.store, [longest], max_margin=4)
    tokens = [column.name for column in table.columns].index("tokens")
    assert sum(int(row[tokens]) for row in table.rows) == model.max_length  # type: ignore[arg-type]


@pytest.mark.parametrize("fitter", [FitVanilla(k=2), FitAdaptive(k=2, temperature=10.0), FitKster(k=2, entries=50)])
def test_fitting_reports_dev_pairs_that_are_too_long(
    fitter: FitVanilla | FitAdaptive | FitKster, model: Model, memory: Memory, tmp_path: Path
) -> None:
    long = pair_of(model, model.max_length + 1)
    with pytest.warns(LacunaWarning, match="dev set: 2 of 14 pairs are too long") as caught:
        report = fit_combiner(fitter, model, [memory], [long, *DEV, long], tmp_path / "with")
    assert len(caught) == 1
    assert report.fitted.skipped == report.as_json()["skipped"] == 2
    if not isinstance(fitter, FitAdaptive):  # which holds out other sentences
        without = fit_combiner(fitter, model, [memory], DEV, tmp_path / "without")
        assert without.fitted.skipped == 0
        assert without.fitted.perplexity == pytest.approx(report.fitted.perplexity, rel=1e-5)


def test_calibrating_and_choosing_report_dev_pairs_that_are_too_long(
    model: Model, memory: Memory, tmp_path: Path
) -> None:
    long = pair_of(model, model.max_length + 1)
    with pytest.warns(LacunaWarning, match="1 of 13 pairs"):
        assert calibrate(model, [memory], [*DEV, long], tmp_path / "calibration").as_json()["skipped"] == 1
    long_target = replace(long, source=DEV[0].source)  # a long source would be cut, with a warning, for BLEU
    with pytest.warns(LacunaWarning, match="1 of 5 pairs are too long for the model and were left out"):
        assert choose_pruning(model, memory, [*DEV[:4], long_target], ratios=[0.01]).skipped == 1


def test_a_dev_set_without_a_pair_that_fits_is_refused(model: Model, memory: Memory) -> None:
    for pairs in ([], [pair_of(model, model.max_length + 1)]):
        with pytest.raises(CorpusError, match=f"{len(pairs)} pairs, none of which fits"):
            tune(model, [memory], pairs)


def count_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of sentences of every batch that goes through a model."""
    plain, batches = Model.teacher_force, list[int]()

    def counted(self: Model, sources: list[list[int]], targets: list[list[int]]) -> object:
        batches.append(len(sources))
        return plain(self, sources, targets)

    monkeypatch.setattr(Model, "teacher_force", counted)
    return batches


def test_a_dev_set_goes_through_a_model_once(
    model: Model, memory: Memory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = collect_dev(model, [memory], DevSet(DEV, batch_size=5), 3)
    batches = count_passes(monkeypatch)
    dev = DevSet(DEV, batch_size=5)
    for _ in range(2):
        got = collect_dev(model, [memory], dev, 3)
        for name in COLUMNS:
            assert torch.equal(getattr(got, name), getattr(expected, name))
    tune(model, [memory], dev)
    assert batches == [5, 5, 2]
    for name in ("one", "two"):
        fit_combiner(FitKster(k=2, entries=20), model, [memory], dev, tmp_path / name)
    assert batches == [5, 5, 2] * 2  # the drawn pairs, batches of their own, once


def test_plain_pairs_are_not_remembered(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = count_passes(monkeypatch)
    dev = DevSet.of(DEV)
    assert DevSet.of(dev) is dev
    for _ in range(2):
        for batch in dev.teacher_force(model):
            assert len(batch.gold) == sum(batch.outputs.lengths)
    assert sum(batches) == 2 * len(DEV)


def test_another_direction_of_a_model_is_another_pass(zoo: Zoo) -> None:
    one = zoo.model("m2m100")
    other = load_model(zoo.folder("m2m100"), languages=Languages("en", "de"), device="cpu")
    assert one.fingerprint == other.fingerprint
    assert one.start_ids != other.start_ids
    dev = DevSet(DEV[:3])
    [first], [second] = dev.teacher_force(one), dev.teacher_force(other)
    assert not np.allclose(first.outputs.keys, second.outputs.keys)
    [again] = dev.teacher_force(one)
    assert again is first


def test_pairs_are_drawn_in_their_order_and_once() -> None:
    dev = DevSet(DEV)
    drawn = dev.draw(5, seed=3)
    assert len(drawn) == 5
    assert [pair for pair in DEV if pair in drawn.pairs] == list(drawn.pairs)
    assert dev.draw(5, seed=3) is drawn
    assert dev.draw(5, seed=4).pairs != drawn.pairs
    assert dev.draw(100, seed=1).pairs == tuple(DEV)


def test_the_dev_pass_does_not_depend_on_the_number_of_threads(model: Model, memory: Memory) -> None:
    before, found = torch.get_num_threads(), list[TokenCache]()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for remember in (False, True):
                dev = DevSet(DEV, batch_size=2, remember=remember)
                found.append(collect_dev(model, [memory], dev, 3, keep_queries=True))
    finally:
        torch.set_num_threads(before)
    for one in found[1:]:
        for name in COLUMNS:
            assert torch.equal(getattr(one, name), getattr(found[0], name))


def test_an_error_in_a_worker_ends_the_dev_pass(model: Model, memory: Memory) -> None:
    def fail(batch: DevBatch) -> None:
        raise ValueError("in a worker")

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ValueError, match="in a worker"):
            list(DevSet(DEV, batch_size=2).retrieve(model, [memory], 3, fail))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
