"""The explainer over tiny models: its laws, and its numbers against naive computations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from lacuna.combiners import Gate, Vanilla
from lacuna.datastore import build_store
from lacuna.decoding import BeamSettings
from lacuna.errors import CalibrationError, SettingError
from lacuna.explanation import Explainer, explain, find_gaps
from lacuna.fitting import DevSet, calibrate
from lacuna.fitting.calibration import collect_tokens
from lacuna.index import build_index
from lacuna.margin import margin_of
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair
from lacuna.translator import Calibration, Translator, load_calibration
from plain_systems import open_plain
from unit.models.tiny_models import SOURCES, TARGETS, Zoo

PAIRS = [SentencePair(s, t, Origin("tiny", str(n))) for n, (s, t) in enumerate(zip(SOURCES, TARGETS, strict=True), 1)]
MODEL_KINDS = ["marian", "t5", "nllb"]
SHORT = BeamSettings(beam=2, max_new_tokens=8)
SETTINGS = Vanilla(k=4, knn_weight=0.7, temperature=5.0)
CALIBRATION = Calibration((1.0, 0.5), (-2.0, 4.0), (0.1, 0.9), 64)


def calibrated(translator: Translator, calibration: Calibration | None = CALIBRATION) -> Translator:
    return replace(translator.system, calibration=calibration).open()


def remember(model: Model, pairs: list[SentencePair], into: Path) -> Memory:
    build_index(build_store(model, pairs, into))
    return open_memory(into)


@pytest.fixture(scope="module")
def memory(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return remember(model, PAIRS, tmp_path_factory.mktemp("memory") / "all")


@pytest.fixture(scope="module")
def translator(model: Model, memory: Memory) -> Translator:
    return open_plain(model, [memory], SETTINGS, SHORT)


def test_probabilities_add_up_and_texts_make_the_translation(translator: Translator) -> None:
    plain = open_plain(translator.model, beam=SHORT).translate(SOURCES)
    own = translator.translate(SOURCES)
    for told, base, usual in zip(Explainer(translator).explain(SOURCES), plain, own, strict=True):
        assert (told.text, told.score, told.base_text) == (usual.text, pytest.approx(usual.score), base.text)
        assert "".join(token.text for token in told.tokens) == told.text
        for token in told.tokens:
            assert token.p == pytest.approx(token.knn_weight * token.p_knn + (1 - token.knn_weight) * token.p_model)
            voted = sum(near.weight for near in token.neighbors if near.token == token.token)
            assert token.p_knn == pytest.approx(voted)
            assert sum(near.weight for near in token.neighbors) == pytest.approx(1.0)
            assert token.changed == (token.model_token != token.token)
            assert token.confidence is None


def test_margins_and_confidence_are_what_a_scan_of_the_store_gives(translator: Translator, memory: Memory) -> None:
    explanations = Explainer(calibrated(translator)).explain(SOURCES[:3], TARGETS[:3])
    model = translator.model
    for source, target, told in zip(SOURCES, TARGETS, explanations, strict=False):
        forced = model.teacher_force(model.encode_sources([source]), model.encode_targets([target]))
        margins = margin_of(memory.store, forced.keys.numpy(), 64)
        largest = model.project(forced.keys).softmax(-1).max(-1).values.double().numpy()
        assert [token.margin for token in told.tokens] == margins.tolist()
        score = np.log(largest / (1 - largest)) + 0.5 * np.log2(1 + margins.astype(float))
        expected = 0.1 + 0.8 * (np.clip(score, -2, 4) + 2) / 6
        np.testing.assert_allclose([token.confidence for token in told.tokens], expected, atol=1e-4)
        assert told.confidence == pytest.approx(expected.mean(), abs=1e-4)


def test_a_given_translation_is_explained_as_it_stands(translator: Translator, model: Model) -> None:
    told = Explainer(translator).explain(SOURCES[:2], TARGETS[:2])
    for number, one in enumerate(told):
        assert one.text == TARGETS[number]
        assert one.score == pytest.approx(np.mean(np.log([token.p for token in one.tokens])))
        for token, id_ in zip(one.tokens, model.encode_targets([TARGETS[number]])[0], strict=True):
            assert token.token == model.token_text(id_)
            nearest = token.neighbors[0]
            assert (nearest.sentence, nearest.source, nearest.origin) == (number, SOURCES[number], f"tiny:{number + 1}")
            assert nearest.before + nearest.word + nearest.after == TARGETS[number]
            assert nearest.word == token.text.strip()


def test_neighbors_are_marked_where_they_stand(translator: Translator, model: Model) -> None:
    for told in Explainer(translator).explain(SOURCES):
        for near in (near for token in told.tokens for near in token.neighbors):
            target = TARGETS[near.sentence]
            assert near.before + near.word + near.after == target
            ids = model.encode_targets([target])[0]
            assert model.decode(ids[: near.position]) == near.before.rstrip()
            assert model.decode(ids[: near.position + 1]) == (near.before + near.word).rstrip()


def test_without_a_sentence_is_a_memory_that_never_had_it(translator: Translator, model: Model, tmp_path: Path) -> None:
    smaller = remember(model, PAIRS[1:], tmp_path / "all")
    expected = Explainer(open_plain(model, [smaller], SETTINGS, SHORT)).explain(SOURCES)
    found = Explainer(translator, without=[0]).explain(SOURCES)
    for one, other in zip(found, expected, strict=True):
        assert one.without == (0,)
        assert (one.text, one.base_text) == (other.text, other.base_text)
        for token, same in zip(one.tokens, other.tokens, strict=True):
            assert (token.margin, token.token) == (same.margin, same.token)
            assert token.p == pytest.approx(same.p, abs=1e-3)
            assert all(near.sentence != 0 for near in token.neighbors)


def test_margins_count_over_all_memories_together(model: Model, translator: Translator, tmp_path: Path) -> None:
    parts = [remember(model, PAIRS[:2], tmp_path / "a"), remember(model, PAIRS[2:], tmp_path / "b")]
    together = Explainer(open_plain(model, parts, SETTINGS, SHORT)).explain(SOURCES, TARGETS)
    for one, other in zip(together, Explainer(translator).explain(SOURCES, TARGETS), strict=True):
        assert [token.margin for token in one.tokens] == [token.margin for token in other.tokens]
        assert {near.memory for token in one.tokens for near in token.neighbors} == {"a", "b"}


def test_a_model_alone_has_no_margin_and_a_blank_sentence_no_token(model: Model, translator: Translator) -> None:
    [told] = Explainer(open_plain(model, beam=SHORT)).explain(SOURCES[:1])
    assert told.text == told.base_text
    assert {token.margin for token in told.tokens} == {None}
    blank, _ = Explainer(calibrated(translator)).explain(["", SOURCES[0]])
    assert (blank.text, blank.tokens, blank.confidence) == ("", (), None)


def test_a_margin_stops_at_the_cap(translator: Translator) -> None:
    wide, capped = (Explainer(translator, most_margin=most).explain(SOURCES, TARGETS) for most in (64, 1))
    pairs = [
        (a.margin, b.margin) for x, y in zip(wide, capped, strict=True) for a, b in zip(x.tokens, y.tokens, strict=True)
    ]
    assert all(b == min(a, 1) for a, b in pairs if a is not None)
    assert {token.margin_cap for told in capped for token in told.tokens} == {1}


class ShutGate:
    """Lets no step search."""

    def wants(self, keys: torch.Tensor, log_p_best: torch.Tensor, gaps: torch.Tensor | None = None) -> torch.Tensor:
        return torch.zeros(len(keys), dtype=torch.bool)


@pytest.mark.parametrize("without", [(), (0,)])
def test_the_gate_of_the_translator_applies_to_its_explanations(
    model: Model, memory: Memory, without: tuple[int, ...]
) -> None:
    translator = open_plain(model, [memory], SETTINGS, SHORT, gate=cast("Gate", ShutGate()))
    plain = open_plain(model, beam=SHORT).translate(SOURCES)
    for told, one in zip(Explainer(translator, without=without).explain(SOURCES), plain, strict=True):
        assert (told.text, told.score) == (one.text, pytest.approx(one.score))
        assert {token.knn_weight for token in told.tokens} == {0.0}


@pytest.mark.parametrize("without", [(), (0,)])
def test_a_translation_with_8_bit_weights_is_explained_with_8_bit_weights(
    zoo: Zoo, tmp_path: Path, without: tuple[int, ...]
) -> None:
    model = zoo.model("marian")
    rounded = open_plain(model, [remember(model, PAIRS, tmp_path / "all")], SETTINGS, SHORT, int8=True)
    explained = Explainer(rounded, without=without)
    base = open_plain(model, beam=SHORT, int8=True).translate(SOURCES)
    assert [told.base_text for told in explained.explain(SOURCES)] == [one.text for one in base]
    exact = open_plain(model, explained.translator.memories, SETTINGS, SHORT, int8=False).translate(SOURCES)
    scores = [one.score for one in explained.translator.translate(SOURCES)]
    assert [told.score for told in explained.explain(SOURCES)] == scores
    assert scores != [one.score for one in exact]  # otherwise the model would not tell the two apart


def test_one_sentence_is_explained_as_among_others(translator: Translator) -> None:
    told = explain(calibrated(translator), SOURCES[1], target=TARGETS[1], without=[0])
    [other] = Explainer(calibrated(translator), without=[0]).explain([SOURCES[1]], [TARGETS[1]])
    assert told == other
    assert explain(translator, SOURCES[0]).text == translator.translate(SOURCES[:1])[0].text


def test_what_cannot_be_explained_is_refused(translator: Translator, model: Model) -> None:
    with pytest.raises(SettingError, match="got sentence 99; allowed is 0 to 3"):
        Explainer(translator, without=[99])
    with pytest.raises(SettingError, match="most_margin: got 0"):
        Explainer(translator, most_margin=0)
    with pytest.raises(SettingError, match="needs 64 or more"):
        Explainer(calibrated(translator), most_margin=8)
    with pytest.raises(SettingError, match="without a memory"):
        open_plain(model, calibration=CALIBRATION)
    with pytest.raises(CalibrationError, match="another model"):
        calibrated(translator, Calibration((1.0, 1.0), (0.0,), (0.5,), 64, "f" * 64))
    with pytest.raises(SettingError, match="two memories are named 'all'"):
        Explainer(open_plain(model, [*translator.memories, *translator.memories]))
    with pytest.raises(SettingError, match="2 sentences but 1 translations"):
        Explainer(translator).explain(SOURCES[:2], TARGETS[:1])


def test_dev_tokens_are_what_single_sentences_give(translator: Translator, memory: Memory) -> None:
    model = translator.model
    tokens = collect_tokens(model, [memory], DevSet(PAIRS), 64)
    for number, told in enumerate(Explainer(translator).explain(SOURCES, TARGETS)):
        own = tokens.sentences == number
        assert tokens.margins[own].tolist() == [token.margin for token in told.tokens]
        assert tokens.right[own].tolist() == [not token.changed for token in told.tokens]


def test_calibrating_saves_what_explaining_uses(translator: Translator, memory: Memory, tmp_path: Path) -> None:
    report = calibrate(translator.model, [memory], PAIRS, tmp_path / "one")
    assert report.manifest.tokens == memory.store.entries
    assert report.manifest.right == pytest.approx(memory.store.known.mean(), abs=0.05)
    assert set(report.as_json()) == {"into", "skipped", "sentences", "tokens", "right", "seed", "measured"}
    assert report.calibration == load_calibration(tmp_path / "one")
    [told] = Explainer(calibrated(translator, report.calibration)).explain(SOURCES[:1])
    assert told.confidence is not None
    assert 0 <= told.confidence <= 1


@pytest.mark.parametrize("calibration", [None, CALIBRATION])
def test_gaps_are_what_the_explanations_say(translator: Translator, calibration: Calibration | None) -> None:
    texts = ["", *SOURCES, "  ", SOURCES[1]]
    gaps = find_gaps(calibrated(translator, calibration), texts)
    assert sorted(gap.line for gap in gaps) == [2, 3, 4, 5]
    assert [gap.gap for gap in gaps] == sorted((gap.gap for gap in gaps), reverse=True)
    told = {one.source: one for one in Explainer(calibrated(translator, calibration)).explain(SOURCES)}
    for gap in gaps:
        one = told[gap.source]
        assert texts[gap.line - 1] == gap.source
        assert (gap.translation, gap.confidence) == (one.text, pytest.approx(one.confidence))
        assert gap.p == pytest.approx(np.mean([token.p for token in one.tokens]))
        assert gap.margin == pytest.approx(np.mean([token.margin or 0 for token in one.tokens]))
        assert gap.distance == pytest.approx(np.mean([token.neighbors[0].distance for token in one.tokens]), abs=1e-3)
        if one.confidence is not None:
            assert gap.gap == pytest.approx((1 - gap.p) / 2 + (1 - one.confidence) / 2)


def test_without_a_calibration_the_model_tells_how_sure_it_is(translator: Translator) -> None:
    model = translator.model
    for gap in find_gaps(translator, SOURCES):
        [ids] = [one.ids for one in translator.translate([gap.source])]
        keys = model.teacher_force(model.encode_sources([gap.source]), [ids]).keys
        largest = model.project(keys).softmax(-1).max(-1).values.mean()
        assert gap.confidence is None
        assert gap.gap == pytest.approx(1 - (gap.p + float(largest)) / 2, abs=1e-3)
