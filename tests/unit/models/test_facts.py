"""Facts of models of every kind, against what transformers says."""

from __future__ import annotations

import pytest
from transformers import AutoModelForSeq2SeqLM

from lacuna.errors import ModelError
from lacuna.models.facts import facts_of
from lacuna.models.families import FAMILIES
from unit.models.tiny_models import Zoo


def test_facts_are_those_of_the_loaded_model(zoo: Zoo, kind: str) -> None:
    model = zoo.model(kind)
    hf = AutoModelForSeq2SeqLM.from_pretrained(zoo.folder(kind))
    assert model.facts == facts_of(hf, FAMILIES[hf.config.model_type].projection(hf).weight.shape)
    logits = hf.get_output_embeddings().weight
    assert (model.vocabulary_size, model.dimension) == tuple(logits.shape)
    assert (model.eos_id, model.pad_id) == (hf.config.eos_token_id, hf.config.pad_token_id)
    assert model.max_length == getattr(hf.config, "max_position_embeddings", 512)
    assert model.pad_id in model.banned_ids


@pytest.mark.parametrize("name", ["eos_token_id", "pad_token_id"])
def test_a_missing_token_is_an_error_that_names_it(zoo: Zoo, name: str) -> None:
    hf = AutoModelForSeq2SeqLM.from_pretrained(zoo.folder("marian"))
    setattr(hf.config, name, None)
    with pytest.raises(ModelError, match=f"config.json has no {name}"):
        facts_of(hf, FAMILIES["marian"].projection(hf).weight.shape)


def test_single_bad_words_are_never_generated(zoo: Zoo) -> None:
    hf = AutoModelForSeq2SeqLM.from_pretrained(zoo.folder("marian"))
    hf.generation_config.bad_words_ids = [[7], [5, 6], [3]]
    facts = facts_of(hf, FAMILIES["marian"].projection(hf).weight.shape)
    assert facts.banned_ids == tuple(sorted([3, 7, facts.pad_id]))
