"""Laws of the fingerprint, over every supported kind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from lacuna.models.adapter import Model
from lacuna.models.fingerprint import fingerprint_of
from lacuna.models.loading import load_model
from lacuna.records import Languages
from unit.models.tiny_models import KINDS, SOURCES, Zoo


def reload(folder: Path, kind: str) -> Model:
    return load_model(folder, languages=KINDS[kind].languages, device="cpu")


def test_the_same_folder_gives_the_same_fingerprint(zoo: Zoo, kind: str) -> None:
    model = zoo.model(kind)
    assert len(model.fingerprint) == 64
    assert reload(zoo.folder(kind), kind).fingerprint == model.fingerprint


def test_saving_and_loading_keeps_it(zoo: Zoo, kind: str, tmp_path: Path) -> None:
    model = reload(zoo.folder(kind), kind)
    model.hf.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(zoo.folder(kind)).save_pretrained(tmp_path)
    assert reload(tmp_path, kind).fingerprint == model.fingerprint


def test_torch_weights_give_it_too(zoo: Zoo, kind: str, tmp_path: Path) -> None:
    folder = zoo.copy(kind, tmp_path / "copy")
    (folder / "model.safetensors").unlink()
    torch.save(zoo.model(kind).hf.state_dict(), folder / "pytorch_model.bin")
    assert reload(folder, kind).fingerprint == zoo.model(kind).fingerprint


@pytest.mark.parametrize("kind", ["marian", "fsmt", "m2m100"])
def test_sinusoids_need_not_be_in_the_file(zoo: Zoo, kind: str, tmp_path: Path) -> None:
    folder = zoo.copy(kind, tmp_path / "copy")
    (folder / "model.safetensors").unlink()
    state = {name: weight for name, weight in zoo.model(kind).hf.state_dict().items() if "embed_positions" not in name}
    torch.save(state, folder / "pytorch_model.bin")
    model = reload(folder, kind)
    assert model.fingerprint == zoo.model(kind).fingerprint
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(SOURCES)
    assert torch.equal(model.teacher_force(sources, targets).keys, zoo.model(kind).teacher_force(sources, targets).keys)


def test_use_does_not_change_it(zoo: Zoo, kind: str) -> None:
    model = reload(zoo.folder(kind), kind)
    model.generate(SOURCES, max_new_tokens=3)
    model.teacher_force([[5] * model.max_length], [[5] * (model.max_length - len(model.start_ids) + 1)])
    assert model.fingerprint == zoo.model(kind).fingerprint


def test_one_changed_weight_changes_it(zoo: Zoo, kind: str) -> None:
    model = reload(zoo.folder(kind), kind)
    name, weight = next((n, w) for n, w in model.hf.named_parameters() if n.endswith("v_proj.bias") or ".v.weight" in n)
    weight.view(-1)[0] += 1e-3
    assert fingerprint_of(model.hf, model.tokenizer) != zoo.model(kind).fingerprint, name


def test_another_vocabulary_changes_it(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    tokens = sorted(vocabulary, key=vocabulary.get)
    tokens[5], tokens[6] = tokens[6], tokens[5]
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(tokens)}))
    assert load_model(folder).fingerprint != zoo.model("marian").fingerprint


@pytest.mark.parametrize(("field", "value"), [("activation_function", "relu"), ("scale_embedding", False)])
def test_a_setting_that_changes_the_computation_changes_it(zoo: Zoo, tmp_path: Path, field: str, value: object) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, field: value}))
    assert load_model(folder).fingerprint != zoo.model("marian").fingerprint


def test_a_setting_of_training_does_not_change_it(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dropout": 0.3, "transformers_version": "9"}))
    assert load_model(folder).fingerprint == zoo.model("marian").fingerprint


def test_the_direction_does_not_change_it(zoo: Zoo) -> None:
    other = load_model(zoo.folder("m2m100"), languages=Languages("fr", "es"))
    assert other.fingerprint == zoo.model("m2m100").fingerprint


def test_one_taken_before_is_kept(zoo: Zoo) -> None:
    model = zoo.model("marian")
    assert model.fingerprint == fingerprint_of(model.hf, model.tokenizer)
    assert replace(model, known_fingerprint="known").fingerprint == "known"
