"""The compiled decoder: any sequence of steps and joins gives the keys of teacher forcing, and so does one pass."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.combiners.exact_contexts import TOLERANCE
from lacuna.decoding import BeamSettings, decode_all, search
from lacuna.errors import ModelError
from lacuna.models import compiled_decoder
from lacuna.models.adapter import Model
from lacuna.models.compiled_decoder import CompiledModel
from lacuna.models.loading import load_model
from lacuna.models.stepping import ModelScorer, ModelState
from lacuna.workers import WorkerPool
from unit.models.tiny_models import KINDS, SOURCES, TARGETS, Zoo

COMPILED = sorted(kind for kind in KINDS if "t5" not in kind)


def forced_keys(model: Model, rows: list[tuple[list[int], list[int]]]) -> torch.Tensor:
    """The keys after some tokens, by teacher forcing in transformers."""
    forced = model.teacher_force([source for source, _ in rows], [[*tokens, model.eos_id] for _, tokens in rows])
    ends = np.cumsum([len(tokens) + 1 for _, tokens in rows])
    return forced.keys[ends - 1]


Row = tuple[list[int], list[int]]


@settings(max_examples=25)
@pytest.mark.parametrize("int8", [False, True])
@given(data=st.data())
def test_any_steps_and_joins_give_the_keys_of_teacher_forcing(zoo: Zoo, int8: bool, data: st.DataObject) -> None:
    """The cache is so small that slots are freed all the time."""
    model = zoo.model("marian")
    scorer = ModelScorer(model, engine="compiled", int8=int8)
    sources = model.encode_sources(SOURCES)
    starts = st.lists(st.sampled_from(sources), min_size=1, max_size=3)
    tokens = st.integers(2, model.vocabulary_size - 2)

    def begin() -> tuple[ModelState, list[Row]]:
        chosen = data.draw(starts)
        return scorer.start(chosen), [(source, []) for source in chosen]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compiled_decoder, "_FIRST_SLOTS", 1)
        state, rows = begin()
        for _ in range(data.draw(st.integers(1, 7))):
            if data.draw(st.booleans()):
                more, others = begin()
                if data.draw(st.booleans()):
                    state, rows, more, others = more, others, state, rows
                state, rows = scorer.join(state, more), rows + others
            chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=5))
            added = data.draw(st.lists(tokens, min_size=len(chosen), max_size=len(chosen)))
            state = scorer.advance(state, torch.tensor(chosen), torch.tensor(added))
            rows = [(rows[row][0], [*rows[row][1], token]) for row, token in zip(chosen, added, strict=True)]
            expected = forced_keys(model, rows)
            if int8:
                away = (state.keys - expected).square().sum(1) / expected.square().sum(1)
                assert float(away.max()) < TOLERANCE
            else:
                torch.testing.assert_close(state.keys, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", COMPILED)
def test_one_pass_over_translations_gives_the_keys_of_teacher_forcing(zoo: Zoo, kind: str) -> None:
    model = zoo.model(kind)
    compiled = CompiledModel.prepare(model)
    assert compiled is not None
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    inputs = [[*model.start_ids, *target[:-1]] for target in targets]
    states = torch.from_numpy(compiled.force(sources, inputs)).split(list(map(len, inputs)))
    keys = torch.cat([each[len(model.start_ids) - 1 :] for each in states])
    torch.testing.assert_close(keys, model.teacher_force(sources, targets).keys, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", COMPILED)
def test_rounded_weights_change_keys_by_less_than_an_exact_context_allows(zoo: Zoo, kind: str) -> None:
    model = zoo.model(kind)
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    inputs = [[*model.start_ids, *target[:-1]] for target in targets]
    keys = []
    for precision in ("float32", "int8"):
        compiled = CompiledModel.prepare(model, precision)
        assert compiled is not None
        keys.append(compiled.force(sources, inputs).astype(np.float64))
    away = ((keys[0] - keys[1]) ** 2).sum(1) / (keys[0] ** 2).sum(1)
    assert 0 < away.max() < TOLERANCE


@pytest.mark.parametrize("kind", COMPILED)
@pytest.mark.parametrize("int8", [None, True])
def test_with_8_bits_searches_find_nearly_the_same(zoo: Zoo, kind: str, int8: bool | None) -> None:
    model = zoo.model(kind)
    sources, chosen = model.encode_sources(SOURCES), BeamSettings(3, max_new_tokens=10)
    rounded, exact = (search(ModelScorer(model, int8=each), sources, chosen) for each in (int8, False))
    scores = [[hypotheses[0].score for hypotheses in found] for found in (rounded, exact)]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)
    assert scores[0] != scores[1]


@pytest.mark.parametrize("kind", ["t5", "mt5"])
def test_a_model_that_kernels_cannot_run_keeps_its_weights(zoo: Zoo, kind: str) -> None:
    model = zoo.model(kind)
    sources, chosen = model.encode_sources(SOURCES), BeamSettings(2, max_new_tokens=6)
    by_default, exact = (search(ModelScorer(model, int8=each), sources, chosen) for each in (None, False))
    assert by_default == exact
    with pytest.raises(ModelError, match=r"^int8: .* leave int8 out$"):
        ModelScorer(model, int8=True)


@pytest.mark.parametrize("sizes", [{"encoder_ffn_dim": 25}, {"decoder_ffn_dim": 23}])
def test_layers_with_an_odd_number_of_inputs_are_not_rounded(zoo: Zoo, tmp_path: Path, sizes: dict[str, int]) -> None:
    from transformers import AutoModelForSeq2SeqLM, MarianConfig

    folder = zoo.copy("marian", tmp_path / "odd")
    config = json.loads((folder / "config.json").read_text())
    torch.manual_seed(2)
    hf = AutoModelForSeq2SeqLM.from_config(MarianConfig(**(config | sizes)))
    hf.save_pretrained(folder)
    model = load_model(folder, device="cpu")
    sources, chosen = model.encode_sources(SOURCES), BeamSettings(2, max_new_tokens=6)
    by_default, exact = (search(ModelScorer(model, int8=each), sources, chosen) for each in (None, False))
    assert by_default == exact
    with pytest.raises(ModelError, match="int8"):
        ModelScorer(model, int8=True)


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("parts", [2, 3, 50])
def test_the_projection_divided_among_threads_is_the_same(
    zoo: Zoo, monkeypatch: pytest.MonkeyPatch, int8: bool, parts: int
) -> None:
    model = zoo.model("m2m100")
    scorer = ModelScorer(model, engine="compiled", int8=int8)
    state = scorer.start(model.encode_sources(SOURCES))
    alone = scorer.score(state, 12)
    monkeypatch.setattr(compiled_decoder, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: parts)
    divided = scorer.score(state, 12)
    np.testing.assert_array_equal(divided.tokens, alone.tokens)
    np.testing.assert_allclose(divided.log_probs, alone.log_probs, atol=0.02 if int8 else 1e-6)


def test_log_probabilities_of_any_tokens_are_those_of_the_whole_distribution(zoo: Zoo) -> None:
    for kind in ("marian", "bart", "t5"):
        model = zoo.model(kind)
        for int8 in (False, None):
            scorer = ModelScorer(model, int8=int8)
            state = scorer.start(model.encode_sources(SOURCES))
            prediction = scorer.predict(state, 4)
            allowed = [token for token in range(model.vocabulary_size) if token not in model.banned_ids]
            asked = np.tile(np.array([-1, *allowed]), (len(SOURCES), 1))
            found = prediction.log_probs_of(asked)
            assert (found[:, 0] == -np.inf).all()
            expected = model.project(state.keys).double().log_softmax(-1).numpy()[:, allowed]
            np.testing.assert_allclose(found[:, 1:], expected, atol=1e-5 if int8 is False else 0.02)
            ranked = prediction.log_probs_of(prediction.best.tokens)
            np.testing.assert_allclose(prediction.best.log_probs, ranked, atol=1e-5)


GERMAN = [
    "Der Server antwortet nicht.",
    "Bitte wählen Sie einen anderen Ordner für die Sicherung aus.",
    "Ja.",
    "Am 3. Mai 2021 kostete das Gerät 1.250,75 Euro, also 12 % mehr als im Jahr davor.",
    "Obwohl es den ganzen Tag geregnet hatte, gingen wir am Abend noch einmal durch den Wald, in dem die Kinder "
    "früher so gern gespielt hatten, und fanden dort den alten Brunnen wieder.",
    "QX-7700/b: <name> --force",
    "Straßenbahnhaltestellenüberdachung",
    "nein nein nein nein nein nein nein nein nein nein nein nein",
]


def test_keys_of_the_bundled_model_stay_within_exact_contexts(bundled: Model) -> None:
    """At each step of a translation, against the keys of a memory: those of teacher forcing, in float32."""
    sources = bundled.encode_sources(GERMAN)
    scorer = ModelScorer(bundled, int8=True)
    found = search(ModelScorer(bundled, int8=False), sources, BeamSettings(2, max_new_tokens=60))
    targets = [list(hypothesis.tokens) for hypotheses in found for hypothesis in hypotheses]
    twice = [source for source in sources for _ in range(2)]
    expected = bundled.teacher_force(twice, targets).keys.split(list(map(len, targets)))
    state, alive, worst = scorer.start(twice), list(range(len(twice))), 0.0
    for length in range(max(map(len, targets))):
        rows = torch.stack([expected[number][length] for number in alive])
        away = (state.keys - rows).square().sum(1) / rows.square().sum(1)
        worst = max(worst, float(away.max()))
        staying = [row for row, number in enumerate(alive) if length + 1 < len(targets[number])]
        alive = [alive[row] for row in staying]
        if alive:
            added = torch.tensor([targets[number][length] for number in alive])
            state = scorer.advance(state, torch.tensor(staying), added)
    assert worst < TOLERANCE


@pytest.mark.parametrize("int8", [False, True])
def test_threads_with_wide_beams_do_not_disturb_each_other(bundled: Model, int8: bool) -> None:
    """A buffer that a kernel had freed too early was taken by the other thread."""
    words = ["Haus", "Baum", "Fenster", "Datei", "Speicher", "Ordner", "öffnen", "schließen", "und", "oder", "nicht"]
    texts = [
        " ".join(words[number * size % len(words)] for size in range(2 + number % 23)) + "." for number in range(60)
    ]
    sources, scorer = bundled.encode_sources(texts), ModelScorer(bundled, int8=int8)
    beam = BeamSettings(beam=20, max_new_tokens=40)
    several, alone = (decode_all(scorer, sources, beam, batch_size=8, pool=WorkerPool(count, 1)) for count in (2, 1))
    assert [each[0].tokens for each in several] == [each[0].tokens for each in alone]
