"""Search with models of every kind, against transformers' own ``generate``: all hypotheses and their scores."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lacuna.decoding import BatchCapacity, BeamSettings, Hypothesis, Scorer, decode_all, search
from lacuna.errors import ModelError
from lacuna.likely_tokens import NextTokens
from lacuna.models.adapter import Model
from lacuna.models.compiled_decoder import CompiledModel
from lacuna.models.fast_decoder import LAYOUTS, FastDecoder
from lacuna.models.loading import load_model
from lacuna.models.stepping import ModelScorer, ModelState
from unit.models.tiny_models import KINDS, SOURCES, Zoo

MODEL_KINDS = sorted(KINDS)
SEARCHES = [(1, 1.0, 12), (2, 0.6, 1), (2, 1.4, 20), (5, 0.6, 7), (5, 1.0, 20), (5, 1.4, 20)]
Found = list[tuple[tuple[int, ...], float]]


@pytest.fixture
def sources(model: Model) -> list[list[int]]:
    return model.encode_sources(SOURCES)


@pytest.fixture(params=["as made", "often ending"])
def ending_model(model: Model, request: pytest.FixtureRequest) -> Model:
    """Random weights hardly ever say the end token, so let a token they do say end the sentence."""
    if request.param == "as made":
        return model
    model = load_model(model.name, languages=model.languages, device="cpu")
    found = search(ModelScorer(model), model.encode_sources(SOURCES), BeamSettings(5, max_new_tokens=8))
    counts = Counter(token for hypotheses in found for h in hypotheses for token in h.tokens[1:])
    return replace(model, facts=model.facts.model_copy(update={"eos_id": counts.most_common(2)[-1][0]}))


def engines_of(model: Model) -> list[str]:
    ours = model.facts.model_type in LAYOUTS
    return ["compiled", "torch", "transformers"] if ours else ["transformers"]


def generate(model: Model, sources: list[list[int]], beam: int, penalty: float, limit: int) -> list[Found]:
    """All hypotheses of transformers and their scores; greedy search has none."""
    generation = model._generation(beam, penalty, limit)
    generation.num_return_sequences = beam
    generation.return_dict_in_generate = generation.output_scores = True
    ids, mask = model._padded(sources)
    prefix = torch.tensor([model.start_ids] * len(sources))
    with torch.inference_mode():
        output = model.plain_hf.generate(
            input_ids=ids, attention_mask=mask, decoder_input_ids=prefix, generation_config=generation
        )
    scores = [0.0] * len(sources) if beam == 1 else output.sequences_scores.tolist()
    rows = [cut(model, row[len(model.start_ids) :]) for row in output.sequences.tolist()]
    pairs = list(zip(rows, scores, strict=True))
    return [pairs[start : start + beam] for start in range(0, len(pairs), beam)]


def cut(model: Model, tokens: list[int]) -> tuple[int, ...]:
    if model.eos_id in tokens:
        return tuple(tokens[: tokens.index(model.eos_id) + 1])
    return tuple(token for token in tokens if token != model.pad_id)


@pytest.mark.parametrize(("beam", "penalty", "limit"), SEARCHES)
def test_search_finds_what_transformers_finds(ending_model: Model, beam: int, penalty: float, limit: int) -> None:
    sources = ending_model.encode_sources(SOURCES)
    expected = generate(ending_model, sources, beam, penalty, limit)
    for engine in engines_of(ending_model):
        scorer = ModelScorer(ending_model, engine=engine)
        found = search(scorer, sources, BeamSettings(beam, penalty, max_new_tokens=limit))
        assert [[h.tokens for h in each] for each in found] == [[tokens for tokens, _ in each] for each in expected]
        if beam > 1:
            scores = [h.score for each in found for h in each]
            assert scores == pytest.approx([score for each in expected for _, score in each], abs=1e-4)


def test_a_batch_finds_what_single_sentences_find(ending_model: Model) -> None:
    scorer, chosen = ModelScorer(ending_model), BeamSettings(3, max_new_tokens=15)
    sources = ending_model.encode_sources(SOURCES)
    together = search(scorer, sources, chosen)
    alone = [search(scorer, [source], chosen)[0] for source in sources]
    assert [[h.tokens for h in each] for each in together] == [[h.tokens for h in each] for each in alone]


class Recording(ModelScorer):
    """Keeps the keys of every step."""

    def score(
        self,
        state: ModelState,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        self.keys = [*getattr(self, "keys", []), state.keys]
        return super().score(state, count, score_gap, also)


def test_keys_are_those_of_teacher_forcing(model: Model, sources: list[list[int]]) -> None:
    scorer = Recording(model)
    found = [search(scorer, [source], BeamSettings(1, max_new_tokens=6))[0] for source in sources]
    forced = model.teacher_force(sources, [list(hypotheses[0].tokens) for hypotheses in found])
    torch.testing.assert_close(torch.cat(scorer.keys), forced.keys, atol=1e-4, rtol=1e-4)
    log_probs = torch.tensor([value for each in found for value in each[0].log_probs])
    torch.testing.assert_close(log_probs, forced.log_p_gold, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("engine", ["compiled", "torch"])
def test_what_is_joined_goes_on_as_it_would_alone(model: Model, sources: list[list[int]], engine: str) -> None:
    scorer = ModelScorer(model, engine=engine if engine in engines_of(model) else None)
    if not scorer.joins:
        with pytest.raises(ModelError, match="only states of our own decoders"):
            scorer.join(scorer.start(sources[:1]), scorer.start(sources[1:]))
        return
    ways = [  # rows and tokens of each step, of the two and then of both; at last the first two sentences have ended
        [([0, 0, 1, 1], [4, 5, 6, 7]), ([1, 0, 2, 2], [5, 5, 9, 4]), ([0, 0, 3, 2], [8, 4, 5, 6]), ([2, 3], [4, 4])],
        [([0, 0, 1, 1], [5, 4, 7, 7]), ([0, 1, 3, 3], [9, 8, 4, 6]), ([1, 1, 2, 3], [7, 5, 5, 4])],
    ]

    def walk(which: int, steps: slice) -> ModelState:
        state = scorer.start([sources[:2], sources[2:4]][which])
        for rows, tokens in ways[which][steps]:
            state = scorer.advance(state, torch.tensor(rows), torch.tensor(tokens))
        return state

    both = scorer.join(walk(0, slice(2)), walk(1, slice(1)))
    torch.testing.assert_close(both.keys, torch.cat([walk(0, slice(2)).keys, walk(1, slice(1)).keys]))
    for first, second in ((2, 1), (3, 2)):
        rows = ways[0][first][0] + [4 + row for row in ways[1][second][0]]
        tokens = ways[0][first][1] + ways[1][second][1]
        before = len(both.keys)
        assert before == 8
        both = scorer.advance(both, torch.tensor(rows), torch.tensor(tokens))
        alone = torch.cat([walk(0, slice(first + 1)).keys, walk(1, slice(second + 1)).keys])
        torch.testing.assert_close(both.keys, alone, atol=1e-5, rtol=1e-4)
    # The first group has ended: only rows of the second are taken.
    last = scorer.advance(both, torch.tensor([2, 5]), torch.tensor([6, 6]))
    assert len(last.keys) == 2


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_sentences_that_begin_later_find_what_they_find_alone(ending_model: Model, capacity: int) -> None:
    chosen, sources = BeamSettings(3, max_new_tokens=15), ending_model.encode_sources(SOURCES)
    for engine in engines_of(ending_model):
        scorer = ModelScorer(ending_model, engine=engine)
        found = search(scorer, sources, chosen, capacity=BatchCapacity(capacity))
        alone = [search(scorer, [source], chosen)[0] for source in sources]
        assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in alone]


@pytest.mark.parametrize("engine", ["compiled", "torch", "transformers"])
def test_searches_may_be_interleaved_and_rows_chosen_freely(
    model: Model, sources: list[list[int]], engine: str
) -> None:
    if engine not in engines_of(model):
        with pytest.raises(ModelError, match=f"engine: got {engine}, which cannot run"):
            ModelScorer(model, engine=engine)
        return
    scorer = ModelScorer(model, engine=engine)
    # Sentence 1 has ended, sentence 0 has two rows and sentence 3 one, out of order: no search would ask for it.
    rows, tokens = torch.tensor([3, 0, 0]), torch.tensor([5, 6, 7])
    second = torch.tensor([1, 0, 2, 2])

    def run(count: int) -> list[torch.Tensor]:
        states = [scorer.start(sources) for _ in range(count)]
        states = [scorer.advance(state, rows, tokens) for state in states]
        states = [scorer.advance(state, second, torch.tensor([8, 9, 8, 4])) for state in states]
        return [state.keys for state in states]

    [alone], [one, other] = run(1), run(2)
    assert torch.equal(one, alone)
    assert torch.equal(other, alone)
    expected = model.teacher_force(
        [sources[n] for n in (0, 3, 0, 0)], [[6, 8, 4], [5, 9, 4], [7, 8, 4], [7, 4, 4]]
    ).keys[2::3]
    torch.testing.assert_close(alone, expected, atol=1e-4, rtol=1e-4)


def test_a_state_can_be_scored_again_but_not_advanced_again(zoo: Zoo) -> None:
    model = zoo.model("marian")
    scorer: Scorer[ModelState] = ModelScorer(model)
    state = scorer.start(model.encode_sources(SOURCES))
    first, again = scorer.score(state, model.vocabulary_size), scorer.score(state, model.vocabulary_size)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    expected = model.project(state.keys).double().log_softmax(-1)
    expected[:, list(model.banned_ids)] = -torch.inf
    values, tokens = expected.sort(descending=True, stable=True)
    np.testing.assert_allclose(first.log_probs, values.numpy(), atol=1e-5)
    real = first.log_probs > -np.inf
    np.testing.assert_array_equal(first.tokens[real], tokens.numpy()[real])
    every = torch.arange(len(SOURCES))
    scorer.advance(state, every, every)
    with pytest.raises(ModelError, match="advanced before"):
        scorer.advance(state, every, every)


def test_a_source_too_long_is_an_error(zoo: Zoo) -> None:
    model = zoo.model("marian")
    with pytest.raises(ModelError, match="source 0 has 65 tokens"):
        search(ModelScorer(model), [[3], [3] * 65], BeamSettings())


def test_translations_end_where_the_model_has_no_more_positions(zoo: Zoo) -> None:
    for kind in ("marian", "m2m100", "fsmt", "bart"):
        model = zoo.model(kind)
        [[found, *_]] = search(ModelScorer(model), model.encode_sources(["ja"]), BeamSettings(1, max_new_tokens=1000))
        assert len(found.tokens) <= model.max_length - len(model.start_ids)


def test_families_built_like_bart_have_decoders_of_our_own(model: Model) -> None:
    like_bart = model.facts.model_type in LAYOUTS
    assert (FastDecoder.prepare(model.hf) is not None) == like_bart
    assert (CompiledModel.prepare(model) is not None) == like_bart


@pytest.mark.parametrize("activation", ["relu", "silu", "swish", "gelu"])
def test_every_activation_gives_the_keys_of_transformers(zoo: Zoo, tmp_path: Path, activation: str) -> None:
    folder = zoo.copy("marian", tmp_path / activation)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"activation_function": activation}))
    model = load_model(folder, device="cpu")
    sources = model.encode_sources(SOURCES)
    [compiled, generic] = [
        search(ModelScorer(model, engine=engine), sources, BeamSettings(3, max_new_tokens=9))
        for engine in ("compiled", "transformers")
    ]
    assert [h.tokens for each in compiled for h in each] == [h.tokens for each in generic for h in each]
    scores = [[h.score for each in found for h in each] for found in (compiled, generic)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_a_model_with_an_unknown_activation_is_run_by_torch(zoo: Zoo) -> None:
    model = zoo.load("marian")
    model.hf.config.activation_function = "gelu_new"
    assert CompiledModel.prepare(model) is None


def test_a_model_with_other_layers_goes_the_general_way(zoo: Zoo, tmp_path: Path) -> None:
    class Odd(torch.nn.Linear):
        """Stands for an adapter or a quantized layer."""

    model = load_model(zoo.copy("marian", tmp_path / "odd"), device="cpu")
    before = search(ModelScorer(model), model.encode_sources(SOURCES), BeamSettings(2, max_new_tokens=5))
    first = model.hf.model.decoder.layers[0]
    odd = Odd(first.fc1.in_features, first.fc1.out_features)
    odd.load_state_dict(first.fc1.state_dict())
    first.fc1 = odd
    assert FastDecoder.prepare(model.hf) is None
    assert CompiledModel.prepare(model) is None
    model.forms.clear()
    after = search(ModelScorer(model), model.encode_sources(SOURCES), BeamSettings(2, max_new_tokens=5))
    assert [[h.tokens for h in each] for each in after] == [[h.tokens for h in each] for each in before]


@pytest.mark.shared_data
def test_a_real_model_translates_as_transformers_does() -> None:
    model = load_model(Path(os.environ["LACUNA_SHARED"]) / "models" / "de-en-warmstart", device="cpu")
    nouns, verbs = (
        ("Der Hund", "Die alte Frau", "Ein Bericht", "Das Haus am See"),
        ("schläft", "ist neu", "kommt", "fehlt"),
    )
    texts = [f"{noun} {verb}{end}" for noun in nouns for verb in verbs for end in (".", " heute wieder nicht.")][:20]
    found: list[list[Hypothesis]] = decode_all(ModelScorer(model), model.encode_sources(texts), BeamSettings())
    assert [model.decode(hypotheses[0].tokens) for hypotheses in found] == model.generate(texts)


@pytest.mark.parametrize("kind", ["marian", "bart", "t5"])
@pytest.mark.parametrize("int8", [False, None])
def test_other_tokens_have_their_probability_in_the_whole_distribution(zoo: Zoo, kind: str, int8: bool | None) -> None:
    model = zoo.model(kind)
    scorer = ModelScorer(model, int8=int8)
    state = scorer.start(model.encode_sources(SOURCES))
    also = np.tile(np.arange(-1, model.vocabulary_size), (len(SOURCES), 1))
    alone, found = scorer.score(state, 4), scorer.score(state, 4, None, also)
    np.testing.assert_array_equal(found.tokens[:, :4], alone.tokens)
    np.testing.assert_array_equal(found.log_probs[:, :4], alone.log_probs)
    expected = model.project(state.keys).log_softmax(-1).numpy()
    expected[:, list(model.banned_ids)] = -np.inf
    for row, tokens in enumerate(alone.tokens):
        expected[row, tokens] = -np.inf
    assert (found.log_probs[:, 4] == -np.inf).all()
    np.testing.assert_allclose(found.log_probs[:, 5:], expected, atol=1e-4 if int8 is False else 0.02)
