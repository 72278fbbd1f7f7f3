"""A gate in a translator: what it must not change, and what evidence says of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from lacuna.combiners import Gate, Vanilla, load_gate
from lacuna.datastore import build_store
from lacuna.decoding import BeamSettings
from lacuna.errors import CombinerError
from lacuna.fitting import DevSet, FitVanilla, add_gate, fit_combiner
from lacuna.fitting.gate import collect_gate_tokens, find_regions
from lacuna.index import build_index
from lacuna.likely_tokens import NextTokens
from lacuna.margin import measure_margin, read_margins
from lacuna.memory import Memory, open_memory
from lacuna.models.adapter import Model
from lacuna.models.stepping import ModelScorer
from lacuna.records import Origin, SentencePair
from lacuna.translator.knn_scorer import KnnScorer
from lacuna.translator.retriever import Retriever
from plain_systems import open_plain
from unit.models.tiny_models import SOURCES, TARGETS

PAIRS = [SentencePair(s, t, Origin("tiny", str(n))) for n, (s, t) in enumerate(zip(SOURCES, TARGETS, strict=True))]
SHORT = BeamSettings(beam=3, max_new_tokens=12)
INFINITE = float("inf")
COMBINER = Vanilla(k=4, knn_weight=0.7, temperature=10.0)


@pytest.fixture(scope="module")
def memory(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    path = tmp_path_factory.mktemp("memory") / "store"
    store = build_store(model, PAIRS, path)
    build_index(store)
    measure_margin(store)
    return open_memory(path)


@pytest.fixture(scope="module")
def gate(model: Model, memory: Memory, tmp_path_factory: pytest.TempPathFactory) -> Gate:
    folder = tmp_path_factory.mktemp("fit") / "vanilla"
    combiner = fit_combiner(FitVanilla(k=4), model, [memory], PAIRS, folder).combiner
    add_gate(model, [memory], combiner, PAIRS)
    with pytest.raises(CombinerError, match="gate"):  # before any work, not after it
        add_gate(model, [memory], combiner, PAIRS)
    return load_gate(folder)[0]


def test_an_open_gate_changes_nothing_and_a_shut_one_leaves_the_model(model: Model, memory: Memory, gate: Gate) -> None:
    always = open_plain(model, [memory], COMBINER, SHORT).translate(SOURCES)
    opened = open_plain(
        model, [memory], COMBINER, SHORT, gate=replace(gate, threshold=-INFINITE, beam_threshold=INFINITE)
    )
    shut = open_plain(model, [memory], COMBINER, SHORT, gate=replace(gate, threshold=INFINITE))
    assert opened.translate(SOURCES) == always
    assert shut.translate(SOURCES) == open_plain(model, beam=SHORT).translate(SOURCES)
    assert opened.search_count.searched == opened.search_count.rows > 0
    assert shut.search_count.searched == 0


@dataclass(frozen=True)
class Chosen:
    """A gate that wants the rows it is told to."""

    rows: tuple[int, ...]

    def wants(self, keys: torch.Tensor, log_p_best: torch.Tensor, score_gap: torch.Tensor | None) -> torch.Tensor:
        return torch.isin(torch.arange(len(keys)), torch.tensor(self.rows, dtype=torch.long))


def assert_row(found: NextTokens, expected: NextTokens, row: int, missing: int = 2) -> None:
    """A row has the same tokens, with the same bits."""
    np.testing.assert_array_equal(found.log_probs[row], expected.log_probs[row])
    real = expected.log_probs[row] > -np.inf  # a banned token is none
    assert real.sum() >= len(real) - missing
    np.testing.assert_array_equal(found.tokens[row][real], expected.tokens[row][real])


@pytest.mark.parametrize("rows", [(), (2,), (1, 2), (0, 1, 3), (0, 1, 2, 3)])
def test_only_rows_that_are_wanted_are_changed(model: Model, memory: Memory, rows: tuple[int, ...]) -> None:
    plain = ModelScorer(model)
    gated = KnnScorer(plain, Retriever([memory], COMBINER, Chosen(rows)))  # type: ignore[arg-type]
    sources = model.encode_sources(SOURCES[:4])
    every = model.vocabulary_size
    without, always, found = (
        one.score(one.start(sources), every) for one in (plain, KnnScorer(plain, Retriever([memory], COMBINER)), gated)
    )
    for row in range(4):
        assert_row(found, always if row in rows else without, row)
    assert (gated.count.rows, gated.count.searched) == (4, len(rows))


@pytest.mark.parametrize("rows", [(), (2,), (0, 1, 2, 3)])
def test_other_tokens_are_mixed_in_the_rows_that_are_wanted(
    model: Model, memory: Memory, rows: tuple[int, ...]
) -> None:
    plain = ModelScorer(model)
    gated = KnnScorer(plain, Retriever([memory], COMBINER, Chosen(rows)))  # type: ignore[arg-type]
    always = KnnScorer(plain, Retriever([memory], COMBINER))
    sources = model.encode_sources(SOURCES[:4])
    also = np.tile(np.arange(model.vocabulary_size), (4, 1))
    without, mixed, found = (one.score(one.start(sources), 2, None, also) for one in (plain, always, gated))
    for row in range(4):
        assert_row(found, mixed if row in rows else without, row, missing=4)  # the best ones are no others
    assert not np.array_equal(without.log_probs, mixed.log_probs)


def test_no_search_changes_rows_above_the_beam_threshold(model: Model, memory: Memory, gate: Gate) -> None:
    plain = ModelScorer(model)
    gated = KnnScorer(plain, Retriever([memory], COMBINER, replace(gate, threshold=-INFINITE, beam_threshold=1.0)))
    sources = model.encode_sources(SOURCES[:3])
    every = model.vocabulary_size
    found = gated.score(gated.start(sources), every, torch.tensor([0.5, 1.5, 1.0]))
    without, always = (
        one.score(one.start(sources), every) for one in (plain, KnnScorer(plain, Retriever([memory], COMBINER)))
    )
    assert_row(found, without, 1)
    assert_row(found, always, 0)
    assert_row(found, always, 2)


def test_a_beam_threshold_above_every_score_gap_changes_nothing(model: Model, memory: Memory, gate: Gate) -> None:
    always = open_plain(model, [memory], COMBINER, SHORT).translate(SOURCES)
    far, near = (replace(gate, threshold=-INFINITE, beam_threshold=threshold) for threshold in (1e9, 0.0))
    assert open_plain(model, [memory], COMBINER, SHORT, gate=far).translate(SOURCES) == always
    best_only = open_plain(model, [memory], COMBINER, SHORT, gate=near)
    best_only.translate(SOURCES)
    assert 0 < best_only.search_count.searched < best_only.search_count.rows / 2  # of a beam of 3


def test_evidence_says_what_the_search_for_the_best_translation_said(model: Model, memory: Memory, gate: Gate) -> None:
    near = replace(gate, threshold=-INFINITE, beam_threshold=0.3)
    translator = open_plain(model, [memory], COMBINER, SHORT, gate=near)
    for result in translator.translate(SOURCES, evidence=True):
        assert sum(math.log(step.p) for step in result.steps) / len(result.steps) == pytest.approx(
            result.score, abs=1e-3
        )


def test_evidence_tells_where_nothing_was_searched(model: Model, memory: Memory, gate: Gate) -> None:
    half = open_plain(model, [memory], COMBINER, SHORT, gate=gate)
    features = []
    for result in half.translate(SOURCES, evidence=True):
        for step in result.steps:
            features.append(step.knn_weight)
            assert step.p == pytest.approx(step.knn_weight * step.p_knn + (1 - step.knn_weight) * step.p_model)
    assert set(np.round(features, 6)) <= {0.0, 0.7}


def test_a_batch_decides_as_single_sentences_do(model: Model, memory: Memory, gate: Gate) -> None:
    translator = open_plain(model, [memory], COMBINER, SHORT, gate=gate)
    together = [result.text for result in translator.translate(SOURCES)]
    assert together == [translator.translate([source])[0].text for source in SOURCES]


def test_regions_are_described_as_a_loop_would(memory: Memory) -> None:
    regions = find_regions([memory], seed=1)
    store = memory.store
    margins, known = read_margins(store).values, store.known
    keys = store.keys.gather(np.arange(store.entries)).astype(np.float64)
    centers = regions.centers.double().numpy()
    owners = [int(((centers - key) ** 2).sum(1).argmin()) for key in keys]
    for region in range(len(centers)):
        own = [entry for entry, owner in enumerate(owners) if owner == region]
        if own:
            expected = (np.mean([np.log1p(float(margins[n])) for n in own]), np.mean([not known[n] for n in own]))
            assert regions.traits[region].tolist() == pytest.approx(expected, abs=1e-5)


def test_dev_tokens_have_the_model_s_own_probability(model: Model, memory: Memory) -> None:
    regions = find_regions([memory], seed=1)
    tokens = collect_gate_tokens(model, [memory], COMBINER, regions, DevSet(PAIRS))
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    forced = model.teacher_force(sources, targets)
    best = model.project(forced.keys).log_softmax(-1).amax(1)
    assert sorted(tokens.features[:, 0].tolist()) == pytest.approx(sorted(best.tolist()), abs=1e-4)
    assert len(tokens.gains) == sum(map(len, targets))
