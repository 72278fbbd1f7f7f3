"""CTranslate2 folders become Marian folders that compute the same, as far as quantization lets them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from ctranslate2.converters import TransformersConverter
from ctranslate2.specs import TransformerSpec, common_spec
from safetensors.numpy import load_file

from lacuna.errors import ModelError
from lacuna.models.adapter import Model
from lacuna.models.importing import import_model, recognize
from lacuna.models.loading import load_model
from lacuna.records import Languages
from unit.models.importing.ct2_toy import arrays_of, load_hf, make_spec, save_spec, tokens_in, write_model_bin
from unit.models.tiny_models import SOURCES, TARGETS, make_marian

ERRORS = {None: 1e-5, "float16": 0.01, "bfloat16": 0.05, "int16": 0.03, "int8": 0.2, "int8_float16": 0.2}


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "marian"
    make_marian(folder)
    return folder


@pytest.fixture(scope="module")
def original(marian: Path) -> Model:
    return load_model(marian, device="cpu")


@pytest.fixture
def spec(marian: Path) -> TransformerSpec:
    return make_spec(load_hf(marian))


@pytest.fixture
def tokens(marian: Path) -> list[str]:
    return tokens_in(marian / "vocab.json")[:-1]  # CTranslate2 has no <pad>


def convert(marian: Path, into: Path, quantization: str | None = None) -> Path:
    converter = TransformersConverter(str(marian), copy_files=["source.spm", "target.spm"])
    converter.convert(str(into), quantization=quantization)
    return into


def logits_of(model: Model, sources: list[list[int]], targets: list[list[int]]) -> torch.Tensor:
    return model.project(model.teacher_force(sources, targets).keys)


@pytest.mark.parametrize("quantization", ERRORS)
def test_round_trip(marian: Path, original: Model, tmp_path: Path, quantization: str | None) -> None:
    folder = convert(marian, tmp_path / "ct2", quantization)
    assert recognize(folder) == "ctranslate2"
    report = import_model(folder, tmp_path / "back", languages=Languages("de", "en"))
    model = load_model(tmp_path / "back", device="cpu")
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    assert (sources, targets) == (original.encode_sources(SOURCES), original.encode_targets(TARGETS))
    got, expected = logits_of(model, sources, targets), logits_of(original, sources, targets)
    # The toy's filler has a random bias; CTranslate2 drops it, and OPUS-MT models have 0.
    torch.testing.assert_close(got[:, :-1], expected[:, :-1], atol=ERRORS[quantization], rtol=0)
    assert not got[:, -1].any()
    assert (model.start_ids, model.eos_id, model.pad_id) == (original.start_ids, original.eos_id, original.pad_id)
    assert model.banned_ids == original.banned_ids
    assert model.languages == Languages("de", "en")
    assert model.max_length == original.max_length
    assert bool(report.notes) == (quantization is not None)
    if quantization is None:
        assert model.generate(SOURCES) == original.generate(SOURCES)


@pytest.mark.parametrize("quantization", ["int8", "int16"])
def test_quantized_weights_are_the_naive_ones(marian: Path, tmp_path: Path, quantization: str) -> None:
    import_model(convert(marian, tmp_path / "ct2", quantization), tmp_path / "back")
    imported, exact = load_file(tmp_path / "back" / "model.safetensors"), load_file(marian / "model.safetensors")
    fused = [f"model.encoder.layers.0.self_attn.{part}_proj.weight" for part in "qkv"]
    whole = np.concatenate([exact[name] for name in fused])
    if quantization == "int8":  # each row has its own scale
        scale = 127 / np.abs(whole).max(axis=1, keepdims=True)
    else:  # one for all three
        scale = np.float32(2**10 / np.abs(whole).max())
    expected = np.rint(whole * scale) / scale
    np.testing.assert_array_equal(np.concatenate([imported[name] for name in fused]), expected)


def test_agrees_with_ctranslate2_itself(marian: Path, tmp_path: Path) -> None:
    """Its scores are log-probabilities without the filler, which it does not have."""
    folder = convert(marian, tmp_path / "ct2")
    import_model(folder, tmp_path / "back")
    model = load_model(tmp_path / "back", device="cpu")
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    spelled = [
        [[model.token_text(token) for token in ids] for ids in side] for side in (sources, [t[:-1] for t in targets])
    ]
    scores = [score for result in translator.score_batch(*spelled) for score in result.log_probs]
    probabilities = torch.log_softmax(logits_of(model, sources, targets)[:, :-1], -1)
    gold = torch.tensor([token for target in targets for token in target])
    got = probabilities.gather(1, gold[:, None])[:, 0]
    torch.testing.assert_close(got, torch.tensor(scores), atol=1e-4, rtol=0)
    results = translator.translate_batch(spelled[0], beam_size=1, max_decoding_length=20)
    pieces = [[model.token_number(token) for token in result.hypotheses[0]] for result in results]
    assert model.generate(SOURCES, beam=1, max_new_tokens=20) == [model.decode(ids) for ids in pieces]


@pytest.mark.parametrize("tied", [True, False])
def test_separate_vocabularies(tmp_path: Path, tied: bool) -> None:
    make_marian(tmp_path / "marian", separate=True)
    own = load_model(tmp_path / "marian", device="cpu")
    hf = load_hf(tmp_path / "marian")
    if not tied:
        torch.manual_seed(3)
        hf.lm_head.weight = torch.nn.Parameter(torch.randn_like(hf.lm_head.weight))
    source = tokens_in(tmp_path / "marian" / "vocab.json")[:-1]
    target = tokens_in(tmp_path / "marian" / "target_vocab.json")[:-1]
    # A row less on the source side, so that sides differ in size.
    made = make_spec(hf)
    made.encoder.embeddings[0].weight = made.encoder.embeddings[0].weight[:-1]
    folder = save_spec(made, tmp_path / "ct2", source[:-1], target, pieces=tmp_path / "marian")
    report = import_model(folder, tmp_path / "back")
    model = load_model(tmp_path / "back", device="cpu")
    sources, targets = own.encode_sources(SOURCES), own.encode_targets(TARGETS)
    assert (model.encode_sources(SOURCES), model.encode_targets(TARGETS)) == (sources, targets)
    got = logits_of(model, sources, targets)
    keys = own.teacher_force(sources, targets).keys
    expected = keys @ hf.lm_head.weight.detach().T + hf.final_logits_bias
    torch.testing.assert_close(got[:, : len(target)], expected[:, : len(target)], atol=1e-5, rtol=0)
    assert report.source_vocabulary == report.target_vocabulary == len(target) + 1
    assert model.hf.config.tie_word_embeddings is tied


def test_fillers_are_never_predicted(tmp_path: Path, spec: TransformerSpec, tokens: list[str], marian: Path) -> None:
    """Where the target side is the shorter, it is filled up with rows that stand for nothing."""
    for part in (spec.decoder.embeddings, spec.decoder.projection):
        part.weight = part.weight[:-2]
    spec.decoder.projection.bias = spec.decoder.projection.bias[:-2]
    import_model(save_spec(spec, tmp_path / "ct2", tokens, tokens[:-2], pieces=marian), tmp_path / "back")
    model = load_model(tmp_path / "back", device="cpu")
    logits = logits_of(model, model.encode_sources(SOURCES[:1]), [[3, 4, 0]])
    assert model.vocabulary_size == len(tokens) + 1
    assert (logits[:, len(tokens) - 2 : len(tokens)] < -1000).all()
    assert not logits[:, -1].any()


def test_models_of_before_version_3(marian: Path, original: Model, tmp_path: Path, spec: TransformerSpec) -> None:
    """No config.json, vocabularies as lines, settings shared by both sides, another name for source embeddings."""
    folder = convert(marian, tmp_path / "ct2")
    tokens = json.loads((folder / "shared_vocabulary.json").read_text())
    (folder / "shared_vocabulary.txt").write_text("".join(f"{token}\n" for token in tokens))
    (folder / "shared_vocabulary.json").unlink()
    (folder / "config.json").unlink()
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    arrays = {name.replace("embeddings_0", "embeddings"): array for name, array in arrays_of(spec).items()}
    for what in ("num_heads", "pre_norm", "activation"):
        arrays[what] = arrays.pop(f"encoder/{what}")
        del arrays[f"decoder/{what}"]
    write_model_bin(folder / "model.bin", arrays, version=5, revision=4)
    import_model(folder, tmp_path / "back")
    model = load_model(tmp_path / "back", device="cpu")
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    got, expected = logits_of(model, sources, targets), logits_of(original, sources, targets)
    torch.testing.assert_close(got[:, :-1], expected[:, :-1], atol=1e-5, rtol=0)


def test_activations_and_scales(marian: Path, tmp_path: Path, spec: TransformerSpec, tokens: list[str]) -> None:
    for side in (spec.encoder, spec.decoder):
        side.activation = np.int8(common_spec.Activation.RELU)
        side.scale_embeddings = False
    import_model(save_spec(spec, tmp_path / "ct2", tokens, tokens, pieces=marian), tmp_path / "back")
    config = load_model(tmp_path / "back", device="cpu").hf.config
    assert (config.activation_function, config.scale_embedding) == ("relu", False)


def norm() -> common_spec.LayerNormSpec:
    made = common_spec.LayerNormSpec()
    made.gamma, made.beta = np.ones(16, np.float32), np.zeros(16, np.float32)
    return made


def gate() -> common_spec.LinearSpec:
    made = common_spec.LinearSpec()
    made.weight = np.ones((24, 16), np.float32)
    return made


def add(part: Any, name: str, value: object) -> None:
    """Put something into a frozen specification."""
    part.__dict__[name] = value


REFUSED: dict[str, tuple[Callable[[TransformerSpec], object], str]] = {
    "pre-norm": (lambda spec: setattr(spec.encoder, "pre_norm", True), "pre-norm"),
    "normalized embeddings": (lambda spec: add(spec.decoder, "layernorm_embedding", norm()), "of the embeddings"),
    "GLU": (lambda spec: add(spec.encoder.layer[1].ffn, "linear_0_noact", gate()), "GLU"),
    "rotary": (
        lambda spec: add(spec.encoder.layer[0].self_attention, "rotary_dim", np.int32(8)),
        "rotary positions",
    ),
    "relative": (
        lambda spec: add(spec.encoder.layer[0].self_attention, "relative_position_keys", np.ones((3, 8), np.float32)),
        "relative positions",
    ),
    "ALiBi": (lambda spec: setattr(spec.decoder, "alibi", True), "ALiBi"),
    "softcapping": (lambda spec: setattr(spec.decoder, "final_logit_softcapping", 30.0), "final_logit_softcapping"),
    "learned positions": (
        lambda spec: setattr(spec.encoder.position_encodings, "encodings", np.ones((64, 16), np.float32)),
        "encoder positions are learned",
    ),
    "positions of another formula": (
        lambda spec: setattr(spec.decoder.position_encodings, "encodings", "__optional"),
        "no decoder/position_encodings",
    ),
    "odd scale": (lambda spec: setattr(spec.encoder, "scale_embeddings", 2.5), "by 2.5"),
    "activation": (lambda spec: setattr(spec.encoder, "activation", np.int8(5)), "activations"),
    "named start without source end": (
        lambda spec: setattr(spec.decoder, "start_from_zero_embedding", False),
        "without an end token",
    ),
    "source start": (lambda spec: setattr(spec.config, "add_source_bos", True), "with a start token"),
    "epsilon": (lambda spec: setattr(spec.config, "layer_norm_epsilon", 1e-6), "layer_norm_epsilon 1e-06"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refuses_what_marian_cannot_express(
    marian: Path, tmp_path: Path, spec: TransformerSpec, tokens: list[str], what: str
) -> None:
    change, message = REFUSED[what]
    change(spec)
    folder = save_spec(spec, tmp_path / "ct2", tokens, tokens, pieces=marian)
    with pytest.raises(ModelError, match=message) as caught:
        import_model(folder, tmp_path / "back")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["ct2"]


def test_refuses_files_that_do_not_fit(marian: Path, tmp_path: Path) -> None:
    folder = convert(marian, tmp_path / "ct2")

    def refused(message: str, **files: bytes | None) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        for name, content in files.items():
            path = copy / name.replace("__", ".")
            path.unlink()
            if content is not None:
                path.write_bytes(content)
        with pytest.raises(ModelError, match=message) as caught:
            import_model(copy, tmp_path / "back")
        assert "\n" not in str(caught.value)
        shutil.rmtree(copy)
        assert [path.name for path in tmp_path.iterdir()] == ["ct2"]

    refused("cannot be imported; allowed are", shared_vocabulary__json=None)
    refused("is not a list of tokens", shared_vocabulary__json=b'{"a": 1}')
    refused("has a token twice", shared_vocabulary__json=b'["a", "a"]')
    refused("has no <unk>", shared_vocabulary__json=b'["a", "</s>"]')
    refused("68 source embeddings for 2 tokens", shared_vocabulary__json=b'["<unk>", "</s>"]')
    refused("cannot be read", config__json=b"{")
    refused("copy source.spm and target.spm", source__spm=None)
    refused("is not a sentencepiece model", target__spm=b"junk")
    refused("ends in the middle", model__bin=(folder / "model.bin").read_bytes()[:-9])
    with pytest.raises(ModelError, match="no checkpoints"):
        import_model(folder, tmp_path / "back", checkpoint="model.pt")


def test_refuses_the_pieces_of_another_model(marian: Path, tmp_path: Path) -> None:
    folder = convert(marian, tmp_path / "ct2")
    tokens = json.loads((folder / "shared_vocabulary.json").read_text())
    foreign = [token if token.startswith("<") else f"{token}x" for token in tokens]
    (folder / "shared_vocabulary.json").write_text(json.dumps(foreign))
    with pytest.raises(ModelError, match="it is another model's"):
        import_model(folder, tmp_path / "back")
