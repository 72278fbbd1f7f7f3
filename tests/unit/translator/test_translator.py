"""The translator over tiny models: its laws, and its arithmetic against naive computations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from queue import Queue

import numpy as np
import pytest
import torch

from lacuna.combiners import Vanilla
from lacuna.datastore import build_store
from lacuna.decoding import BeamSettings
from lacuna.errors import CorpusError, LacunaWarning, SettingError, StoreError
from lacuna.fitting import DevSet, collect_retrievals
from lacuna.index import build_index
from lacuna.likely_tokens import NextTokens
from lacuna.memory import Memory, open_memory
from lacuna.models.adapter import Model
from lacuna.models.stepping import ModelScorer
from lacuna.records import Origin, SentencePair
from lacuna.translator.knn_scorer import KnnScorer
from lacuna.translator.retrieval import find_neighbors
from lacuna.translator.retriever import Retriever
from lacuna.translator.translator import BLOCKS
from plain_systems import open_plain
from unit.models.tiny_models import SOURCES, TARGETS, Zoo

MODEL_KINDS = ["marian", "t5", "nllb"]
PAIRS = [SentencePair(s, t, Origin("tiny", str(n))) for n, (s, t) in enumerate(zip(SOURCES, TARGETS, strict=True))]
SHORT = BeamSettings(beam=3, max_new_tokens=12)


def remember(model: Model, pairs: list[SentencePair], into: Path) -> Memory:
    build_index(build_store(model, pairs, into))
    return open_memory(into)


@pytest.fixture
def memory(model: Model, tmp_path: Path) -> Memory:
    return remember(model, PAIRS, tmp_path / "all")


def test_weight_zero_is_the_plain_model(model: Model, memory: Memory) -> None:
    plain = open_plain(model, beam=SHORT).translate(SOURCES)
    with_memory = open_plain(model, [memory], Vanilla(k=4, knn_weight=0.0), SHORT).translate(SOURCES)
    assert with_memory == plain


def test_two_workers_translate_as_one_does(model: Model, memory: Memory) -> None:
    texts = SOURCES * 6  # enough for two workers, but not for three
    translator = open_plain(model, [memory], Vanilla(k=4, knn_weight=0.4), SHORT)
    alone = translator.translate(texts)
    rows = translator.search_count.rows
    torch.set_num_threads(2)
    try:
        together = translator.translate(texts)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert [result.text for result in together] == [result.text for result in alone]
    assert [result.score for result in together] == pytest.approx([result.score for result in alone], abs=1e-5)
    assert translator.search_count.rows == translator.search_count.searched == 2 * rows


def test_memory_alone_says_what_it_remembers(model: Model, memory: Memory) -> None:
    by_heart = open_plain(model, [memory], Vanilla(k=1, knn_weight=1.0), BeamSettings(beam=1))
    assert [result.text for result in by_heart.translate(SOURCES)] == TARGETS


def test_batch_equals_single(model: Model, memory: Memory) -> None:
    translator = open_plain(model, [memory], Vanilla(k=4, knn_weight=0.6), SHORT)
    together = translator.translate(SOURCES)
    assert [result.text for result in together] == [translator.translate([text])[0].text for text in SOURCES]


def dense(found: NextTokens) -> np.ndarray:
    """Write the probabilities of all tokens to their columns."""
    p = np.zeros(found.tokens.shape)
    for row, (tokens, log_probs) in enumerate(zip(*found, strict=True)):
        real = log_probs > -np.inf
        assert len(set(tokens[real])) == real.sum()
        p[row, tokens[real]] = np.exp(log_probs[real].astype(np.float64))
    return p


def test_scores_equal_a_dense_mixture(model: Model, memory: Memory) -> None:
    combiner = Vanilla(k=5, knn_weight=0.4, temperature=2.0)
    scorer = KnnScorer(ModelScorer(model), Retriever([memory], combiner))
    state = scorer.start(model.encode_sources(SOURCES))
    got = dense(scorer.score(state, model.vocabulary_size))
    keys = np.concatenate([block for _, block in memory.store.keys.blocks(1000)]).astype(np.float64)
    expected = model.project(state.keys).double().softmax(-1).numpy() * 0.6
    for row, query in enumerate(state.keys.double().numpy()):
        distances = ((keys - query) ** 2).sum(1)
        nearest = np.argsort(distances, kind="stable")[:5]
        weights = np.exp(-(distances[nearest] - distances[nearest].min()) / 2.0)
        np.add.at(expected[row], memory.store.values[nearest], 0.4 * weights / weights.sum())
    np.testing.assert_allclose(expected.sum(1), 1.0, atol=1e-5)
    expected[:, list(model.banned_ids)] = 0.0
    np.testing.assert_allclose(got, expected, atol=2e-5)


@pytest.mark.parametrize("knn_weight", [0.4, 1.0])
def test_other_tokens_have_their_probability_in_the_dense_mixture(
    model: Model, memory: Memory, knn_weight: float
) -> None:
    scorer = KnnScorer(ModelScorer(model), Retriever([memory], Vanilla(k=5, knn_weight=knn_weight, temperature=2.0)))
    state = scorer.start(model.encode_sources(SOURCES))
    truth = dense(scorer.score(state, model.vocabulary_size))
    alone = scorer.score(state, 3)
    also = np.random.default_rng(1).permuted(np.tile(np.arange(-1, model.vocabulary_size), (len(SOURCES), 1)), axis=1)
    also = also[:, : model.vocabulary_size // 2]
    tokens, log_probs = scorer.score(state, 3, None, also)
    np.testing.assert_array_equal(tokens[:, :3], alone.tokens)
    np.testing.assert_array_equal(log_probs[:, :3], alone.log_probs)
    for row, others in enumerate(also.tolist()):
        best = {token for token, value in zip(alone.tokens[row], alone.log_probs[row], strict=True) if value > -np.inf}
        expected = [truth[row, token] if token >= 0 and token not in best else 0.0 for token in others]
        np.testing.assert_allclose(np.exp(log_probs[row, 3:]), expected, atol=1e-6)
    assert (np.exp(log_probs[:, 3:]) > 0).any()


def test_evidence_adds_up(model: Model, memory: Memory) -> None:
    translator = open_plain(model, [memory], Vanilla(k=4, knn_weight=0.7, temperature=5.0), SHORT)
    for result in translator.translate(SOURCES, evidence=True):
        assert len(result.steps) == result.tokens
        for step in result.steps:
            assert step.knn_weight == pytest.approx(0.7)
            assert step.p == pytest.approx(step.knn_weight * step.p_knn + (1 - step.knn_weight) * step.p_model)
            assert sum(near.weight for near in step.neighbors) == pytest.approx(1.0)
            voted = sum(near.weight for near in step.neighbors if near.token == step.token)
            assert step.p_knn == pytest.approx(voted)


def test_evidence_explains_the_score(model: Model, memory: Memory) -> None:
    translator = open_plain(model, [memory], Vanilla(k=4, knn_weight=0.5, temperature=5.0), SHORT)
    for result in translator.translate(SOURCES, evidence=True):
        total = sum(np.log(step.p) for step in result.steps)
        assert result.score * result.tokens == pytest.approx(total, rel=1e-3)


def test_neighbors_name_the_sentence_they_come_from(model: Model, memory: Memory) -> None:
    [steps] = open_plain(model, [memory], Vanilla(k=1, knn_weight=0.5)).explain(SOURCES[:1], TARGETS[:1])
    for place, step in enumerate(steps):
        [near] = step.neighbors
        assert (near.sentence, near.position, near.token) == (0, place, step.token)
        assert near.distance < 1e-3


def test_two_memories_are_one_large_memory(model: Model, memory: Memory, tmp_path: Path) -> None:
    parts = [remember(model, PAIRS[:2], tmp_path / "a"), remember(model, PAIRS[2:], tmp_path / "b")]
    keys = model.teacher_force(model.encode_sources(SOURCES), model.encode_targets(TARGETS)).keys
    whole, merged = find_neighbors([memory], keys, 6), find_neighbors(parts, keys, 6)
    torch.testing.assert_close(merged.neighbors.distances, whole.neighbors.distances, atol=1e-3, rtol=1e-3)
    offset = parts[0].store.entries
    rows = merged.entries + offset * merged.memories
    assert (rows == whole.entries).mean() > 0.95  # batches differ, so the last bit of a key may, and ties turn


def test_fewer_entries_than_neighbors_asked_for(model: Model, tmp_path: Path) -> None:
    tiny = remember(model, PAIRS[3:], tmp_path / "tiny")
    translator = open_plain(model, [tiny], Vanilla(k=64, knn_weight=0.5), SHORT)
    [result] = translator.translate(SOURCES[:1], evidence=True)
    assert all(len(step.neighbors) == tiny.store.entries for step in result.steps)


def test_blank_lines_stay_blank_and_in_place(model: Model) -> None:
    results = open_plain(model, beam=SHORT).translate(["", SOURCES[0], "  "])
    assert [bool(result.text) or result.tokens > 0 for result in results] == [False, True, False]
    assert open_plain(model).translate([]) == []


@pytest.mark.parametrize("evidence", [False, True])
def test_a_stream_gives_what_translating_all_at_once_gives(model: Model, memory: Memory, evidence: bool) -> None:
    texts = ["", *SOURCES * 20, "  ", *SOURCES]  # more than the first block of a window holds
    translator = open_plain(model, [memory], Vanilla(k=4, knn_weight=0.4), SHORT)
    streamed, whole = list(translator.stream(iter(texts), evidence=evidence)), translator.translate(texts)
    assert [(one.source, one.text, one.ids) for one in streamed] == [(one.source, one.text, one.ids) for one in whole]
    assert [one.score for one in streamed] == pytest.approx([one.score for one in whole], abs=1e-5)
    assert all(len(one.steps) == (one.tokens if evidence else 0) for one in streamed)


def test_each_translation_is_there_before_the_next_line_is_written(zoo: Zoo) -> None:
    written: Queue[str | None] = Queue()
    translations = open_plain(zoo.model("marian"), beam=SHORT).stream(iter(written.get, None))
    for text in SOURCES:
        written.put(text)
        assert next(translations).source == text
    written.put(None)
    assert list(translations) == []


def test_an_endless_stream_is_read_only_a_little_ahead(zoo: Zoo) -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "ja"

    translations = open_plain(zoo.model("marian"), beam=BeamSettings(beam=1, max_new_tokens=2)).stream(endless())
    for number in range(1, 130):
        next(translations)
        assert read <= number + 3 * sum(BLOCKS)
    translations.close()


def test_lines_of_a_stream_are_counted_from_its_start(zoo: Zoo) -> None:
    model = zoo.model("marian")
    texts = ["ja"] * sum(BLOCKS) + [" ".join(["hund"] * (model.max_length + 50))]
    translator = open_plain(model, beam=BeamSettings(beam=1, max_new_tokens=2))
    with pytest.warns(LacunaWarning, match=f": {len(texts)}"):
        assert len(list(translator.stream(texts))) == len(texts)


def test_an_error_of_the_input_is_raised_after_the_windows_before_it(zoo: Zoo) -> None:
    def failing() -> Iterator[str]:
        yield from ["ja"] * sum(BLOCKS)
        raise CorpusError("a bad line")

    translations = open_plain(zoo.model("marian"), beam=BeamSettings(beam=1, max_new_tokens=2)).stream(failing())
    assert len(list(islice(translations, sum(BLOCKS)))) == sum(BLOCKS)
    with pytest.raises(CorpusError, match="a bad line"):
        next(translations)


def test_other_memories_keep_all_other_settings(zoo: Zoo, tmp_path: Path) -> None:
    model = zoo.model("marian")
    parts = [remember(model, PAIRS[:2], tmp_path / "a"), remember(model, PAIRS[2:], tmp_path / "b")]
    translator = open_plain(model, parts[:1], Vanilla(k=2), SHORT, int8=True)
    other = translator.with_memories(parts[1:])
    expected = open_plain(model, parts[1:], Vanilla(k=2), SHORT, int8=True)
    assert other.translate(SOURCES) == expected.translate(SOURCES)
    assert translator.memories == tuple(parts[:1])


def test_store_of_another_model_is_refused(zoo: Zoo, tmp_path: Path) -> None:
    memory = remember(zoo.model("marian"), PAIRS, tmp_path / "store")
    with pytest.raises(StoreError, match="built with another model"):
        open_plain(zoo.model("t5"), [memory])


def test_no_memory_cannot_be_searched() -> None:
    with pytest.raises(SettingError, match="no memory"):
        find_neighbors([], torch.zeros(1, 4), 1)


def test_retrievals_for_tuning_equal_single_lookups(model: Model, memory: Memory) -> None:
    dev = collect_retrievals(model, [memory], DevSet(PAIRS, batch_size=2), k=3)
    assert dev.distances.shape == (memory.store.entries, 3)
    assert dev.says_gold[:, 0].mean() > 0.9  # the dev set is the memory itself
    assert dev.distances[:, 0].max() < 1e-3


def test_a_sentence_too_long_is_cut_with_a_warning(model: Model) -> None:
    long = " ".join(["hund"] * (model.max_length + 50))
    with pytest.warns(LacunaWarning, match=f"1 sentences .* {model.max_length} tokens and were cut: 2"):
        short, cut = open_plain(model, beam=SHORT).translate(["hund", long])
    assert short.text == open_plain(model, beam=SHORT).translate(["hund"])[0].text
    assert cut.source == long
    assert cut.tokens > 0
