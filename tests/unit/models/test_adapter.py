"""The contract of a model, run over every supported kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from lacuna.errors import ModelError, SettingError
from lacuna.models import teacher_forcing
from lacuna.models.adapter import Model
from lacuna.models.loading import load_model
from unit.models.tiny_models import KINDS, SOURCES, TARGETS, Zoo

MODEL_KINDS = sorted(KINDS)


@pytest.fixture
def tokens(model: Model) -> tuple[list[list[int]], list[list[int]]]:
    return model.encode_sources(SOURCES), model.encode_targets(TARGETS)


def reference_logits(model: Model, source: list[int], target: list[int]) -> torch.Tensor:
    """What transformers itself computes for one sentence, without batch or filler."""
    inputs = torch.tensor([[*model.start_ids, *target[:-1]]])
    with torch.no_grad():
        # FSMT forgets its causal mask when caching, hence use_cache.
        output = model.hf(input_ids=torch.tensor([source]), decoder_input_ids=inputs, use_cache=False)
    return output.logits[0, len(model.start_ids) - 1 :]


def test_projecting_a_key_gives_the_logits_of_transformers(model: Model, tokens: Any) -> None:
    sources, targets = tokens
    result = model.teacher_force(sources, targets)
    expected = torch.cat([reference_logits(model, s, t) for s, t in zip(sources, targets, strict=True)])
    torch.testing.assert_close(model.project(result.keys), expected, atol=1e-4, rtol=1e-5)


def test_predictions_survive_storing_keys_in_half_precision(model: Model, tokens: Any) -> None:
    result = model.teacher_force(*tokens)
    assert torch.equal(model.project(result.keys).argmax(-1), result.predictions)
    moved = (model.project(result.keys.half().float()).argmax(-1) != result.predictions).sum()
    assert moved <= 1  # random weights make near ties; trained ones hardly ever do


def test_probability_and_entropy_equal_the_plain_computation(model: Model, tokens: Any) -> None:
    result = model.teacher_force(*tokens)
    log_p = model.project(result.keys).double().log_softmax(-1)
    gold = torch.tensor([token for target in tokens[1] for token in target])
    torch.testing.assert_close(result.log_p_gold.double(), log_p.gather(1, gold[:, None])[:, 0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(result.entropy.double(), -(log_p.exp() * log_p).sum(-1), atol=1e-5, rtol=1e-5)


def test_small_chunks_change_nothing(model: Model, tokens: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model.teacher_force(*tokens)
    monkeypatch.setattr(teacher_forcing, "_LOGITS_AT_ONCE", 3 * model.vocabulary_size)
    chunked = model.teacher_force(*tokens)
    assert torch.equal(whole.predictions, chunked.predictions)
    torch.testing.assert_close(whole.log_p_gold, chunked.log_p_gold, atol=1e-5, rtol=1e-5)


def test_a_batch_equals_its_sentences_one_by_one(model: Model, tokens: Any) -> None:
    sources, targets = tokens
    batch = model.teacher_force(sources, targets)
    singles = [model.teacher_force([s], [t]) for s, t in zip(sources, targets, strict=True)]
    assert batch.lengths == tuple(map(len, targets))
    for field in ("keys", "log_p_gold", "entropy"):
        together = torch.cat([getattr(single, field) for single in singles])
        torch.testing.assert_close(getattr(batch, field), together, atol=1e-5, rtol=1e-5)


def test_in_double_precision_a_batch_equals_its_sentences_to_the_last_digits(model: Model, tokens: Any) -> None:
    """A leak through filler or masks would show here, where rounding no longer hides it."""
    model = load_model(model.name, languages=model.languages, device="cpu")
    model.hf.double()
    with torch.inference_mode():
        batch = model._keys(*tokens)
        singles = torch.cat([model._keys([source], [target]) for source, target in zip(*tokens, strict=True)])
    torch.testing.assert_close(batch, singles, atol=1e-12, rtol=0)


def test_only_true_positions_come_back_as_float32_on_the_cpu(model: Model, tokens: Any) -> None:
    result = model.teacher_force(*tokens)
    rows = sum(map(len, tokens[1]))
    assert result.keys.shape == (rows, model.dimension)
    assert result.keys.dtype == torch.float32
    assert result.predictions.shape == result.log_p_gold.shape == result.entropy.shape == (rows,)
    assert not result.keys.requires_grad


def test_a_position_does_not_see_what_follows(model: Model, tokens: Any) -> None:
    sources, targets = tokens
    changed = [*targets[0][:3], *reversed(targets[0][3:])]
    first, second = (model.teacher_force(sources[:1], [target]) for target in (targets[0], changed))
    torch.testing.assert_close(first.keys[:4], second.keys[:4], atol=1e-5, rtol=1e-5)


def test_the_source_matters(model: Model, tokens: Any) -> None:
    sources, targets = tokens
    first, second = (model.teacher_force([source], targets[:1]) for source in sources[:2])
    assert not torch.allclose(first.keys, second.keys, atol=1e-3)


def test_the_side_a_tokenizer_would_pad_on_does_not_matter(model: Model, tokens: Any) -> None:
    if not hasattr(model.tokenizer, "padding_side"):
        pytest.skip("our own tokenizer never pads")
    expected = model.teacher_force(*tokens)
    side = model.tokenizer.padding_side
    try:
        model.tokenizer.padding_side = "left" if side == "right" else "right"
        sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
        assert torch.equal(model.teacher_force(sources, targets).keys, expected.keys)
    finally:
        model.tokenizer.padding_side = side


def test_greedy_search_equals_following_the_predictions(model: Model) -> None:
    """Generation by transformers and our teacher forcing agree on start tokens, causality and the projection."""
    source = model.encode_sources(SOURCES[:1])
    target: list[int] = []
    while len(target) < 6 and model.eos_id not in target:
        key = model.teacher_force(source, [[*target, model.eos_id]]).keys[-1:]
        logits = model.project(key)
        logits[:, list(model.banned_ids)] = float("-inf")
        target.append(int(logits.argmax()))
    assert model.generate(SOURCES[:1], beam=1, max_new_tokens=6) == [model.decode(target)]


def test_generation_keeps_the_order_and_the_empty_lines(model: Model) -> None:
    texts = [SOURCES[1], "", SOURCES[3], SOURCES[0], "  "]
    together = model.generate(texts, max_new_tokens=4, beam=2, batch_size=2)
    assert together == [model.generate([text], max_new_tokens=4, beam=2)[0] for text in texts]
    assert (together[1], together[4]) == ("", "")


def test_targets_end_with_one_end_token_and_have_no_start(model: Model) -> None:
    for ids in model.encode_targets([*TARGETS, ""]):
        assert ids.count(model.eos_id) == 1
        assert ids[-1] == model.eos_id
        assert len(ids) == 1 or ids[: len(model.start_ids)] != list(model.start_ids)
    assert model.encode_targets([""]) == [[model.eos_id]]


def test_targets_have_the_subwords_transformers_would_train_on(zoo: Zoo, kind: str) -> None:
    if kind == "fsmt":
        pytest.skip("its tokenizer encodes targets with the vocabulary of the source")
    model, tokenizer = zoo.load(kind), AutoTokenizer.from_pretrained(zoo.folder(kind), split_special_tokens=True)
    tokenizer.tgt_lang = getattr(model.tokenizer, "src_lang", None)
    expected = [tokenizer(text_target=text, add_special_tokens=False)["input_ids"] for text in TARGETS]
    assert model.encode_targets(TARGETS) == [[*ids, model.eos_id] for ids in expected]


def test_sources_are_what_the_tokenizer_makes_of_them(model: Model) -> None:
    prefix = model.direction.source_prefix
    assert model.encode_sources(SOURCES) == [
        ids for text in SOURCES for ids in model.tokenizer([prefix + text])["input_ids"]
    ]


def test_decoding_undoes_encoding(model: Model) -> None:
    assert [model.decode(ids) for ids in model.encode_targets(TARGETS)] == TARGETS
    assert model.decode([*model.start_ids, *model.encode_targets(TARGETS[:1])[0], model.pad_id]) == TARGETS[0]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from(" ".join(TARGETS).split()), min_size=1, max_size=8))
def test_decoding_undoes_encoding_for_any_known_words(model: Model, words: list[str]) -> None:
    text = " ".join(words)
    assert model.decode(model.encode_targets([text])[0]) == text


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=20))
def test_any_text_encodes_to_tokens_the_model_has(model: Model, text: str) -> None:
    (target,) = model.encode_targets([text])
    assert target[-1] == model.eos_id
    assert model.eos_id not in target[:-1]
    assert all(0 <= token < model.vocabulary_size for token in target)


@pytest.mark.parametrize("literal", ["</s>", "<pad>", "<s>", "<unk>"])
def test_the_name_of_a_special_token_in_a_text_is_only_text(model: Model, literal: str) -> None:
    (target,) = model.encode_targets([f"the {literal} house"])
    assert {model.eos_id, model.pad_id}.isdisjoint(target[:-1])


@pytest.mark.parametrize("literal", ["</s>", "<pad>"])
@pytest.mark.parametrize("kind", ["marian", "fsmt", "m2m100", "nllb", "bart"])
def test_it_is_only_text_in_a_source_too(zoo: Zoo, kind: str, literal: str) -> None:
    """Not for T5 and mBART, whose subwords include these names: there it is as transformers has it."""
    model = zoo.model(kind)
    named, plain = model.encode_sources([f"das {literal} haus", "das haus"])
    for token in (model.eos_id, model.pad_id):
        assert named.count(token) == plain.count(token)


def test_what_decoding_does_not_give_again_cannot_be_written(model: Model) -> None:
    assert model.can_write("the small house")
    assert model.can_write("")
    has_bytes = model.facts.model_type == "bart"
    assert model.can_write("the small ｈouse") == has_bytes  # a full-width letter is unknown, or replaced by h


def test_every_token_has_a_text(model: Model) -> None:
    assert all(model.token_text(token) for token in range(model.vocabulary_size))
    with pytest.raises(ModelError, match="tokens 0 to"):
        model.token_text(model.vocabulary_size)


def test_nothing_in_gives_nothing(model: Model) -> None:
    result = model.teacher_force([], [])
    assert result.keys.shape == (0, model.dimension)
    assert result.lengths == ()
    assert model.encode_sources([]) == model.encode_targets([]) == model.generate([]) == []


def test_bad_input_is_refused(model: Model, tokens: Any) -> None:
    sources, targets = tokens
    with pytest.raises(ModelError, match="4 sources but 3 targets"):
        model.teacher_force(sources, targets[:3])
    with pytest.raises(ModelError, match="source 0 has 0 tokens"):
        model.teacher_force([[]], targets[:1])
    with pytest.raises(ModelError, match=f"allowed are 1 to {model.max_length}"):
        model.teacher_force([[model.eos_id] * (model.max_length + 1)], targets[:1])
    with pytest.raises(ModelError, match="target 0 has"):
        model.teacher_force(sources[:1], [[model.eos_id] * (model.max_length + 1)])
    with pytest.raises(ModelError, match="only"):
        model.teacher_force(sources[:1], [[model.vocabulary_size]])
    with pytest.raises(ModelError, match=r"write \[text\]"):
        model.encode_targets("one text")
    with pytest.raises(SettingError, match="beam 0"):
        model.generate(SOURCES, beam=0)


def test_a_target_of_the_greatest_length_is_taken(model: Model) -> None:
    longest = model.max_length - len(model.start_ids) + 1
    result = model.teacher_force(model.encode_sources(SOURCES[:1]), [[*model.encode_targets(TARGETS)[0][:1] * longest]])
    assert result.lengths == (longest,)


def test_what_fits_is_what_teacher_forcing_takes(model: Model) -> None:
    """Longest source and target by hand: every position is used, and the last target token is not read."""
    longest, most = model.max_length, model.max_length - len(model.start_ids) + 1
    for source, target, fits in [
        (1, 1, True),
        (longest, most, True),
        (0, 1, False),
        (longest + 1, 1, False),
        (1, most + 1, False),
    ]:
        pair = [model.eos_id] * source, [model.eos_id] * target
        assert model.fits(*pair) == fits
        if fits:
            assert model.teacher_force([pair[0]], [pair[1]]).lengths == (target,)
        else:
            with pytest.raises(ModelError, match="allowed are"):
                model.teacher_force([pair[0]], [pair[1]])


@pytest.mark.parametrize("kind", ["marian", "bart", "mbart"])
def test_one_token_more_than_fits_is_beyond_the_position_embeddings(kind: str, zoo: Zoo) -> None:
    model = zoo.model(kind)
    most = model.max_length - len(model.start_ids) + 1
    model._keys([[model.eos_id]], [[model.eos_id] * most])
    with pytest.raises(IndexError):
        model._keys([[model.eos_id]], [[model.eos_id] * (most + 1)])


def test_of_equal_predictions_the_lowest_id_wins(zoo: Zoo) -> None:
    model = load_model(zoo.folder("marian"))
    model.projection.weight.zero_()
    assert model.projection.bias is not None
    model.projection.bias.fill_(1.0)
    result = model.teacher_force(model.encode_sources(SOURCES), model.encode_targets(TARGETS))
    assert set(result.predictions.tolist()) == {0}


def test_a_token_the_bias_shuts_out_leaves_the_entropy_finite(zoo: Zoo) -> None:
    model = load_model(zoo.folder("marian"))
    assert model.projection.bias is not None
    model.projection.bias[model.pad_id] = float("-inf")
    result = model.teacher_force(model.encode_sources(SOURCES), model.encode_targets(TARGETS))
    assert torch.isfinite(result.entropy).all()


def test_two_models_live_side_by_side(zoo: Zoo) -> None:
    first, second = zoo.model("nllb"), load_model(zoo.folder("nllb"), languages=KINDS["nllb"].languages)
    other = load_model(zoo.folder("nllb"), languages=type(KINDS["nllb"].languages)("fr", "es"))  # type: ignore[misc]
    assert first.encode_sources(SOURCES) == second.encode_sources(SOURCES) != other.encode_sources(SOURCES)


def test_placeholders_are_masked_on_both_sides_unless_turned_off(zoo: Zoo) -> None:
    masking = zoo.load("marian")
    plain = load_model(zoo.folder("marian"), device="cpu", mask_placeholders=False)
    assert masking.encode_sources(["haus %s von {n}"]) == plain.encode_sources(["haus 71 von 72"])
    assert masking.encode_targets(["{n} and %s"]) == plain.encode_targets(["72 and 71"])
    assert masking.generate(["haus %s"]) == plain.generate(["haus %s"])
    assert masking.fingerprint == plain.fingerprint
