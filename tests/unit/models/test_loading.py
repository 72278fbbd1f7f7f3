"""Loading: what is refused, and with which words; what is settled for each kind."""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
import transformers

from lacuna.errors import ModelError, SettingError
from lacuna.models import loading
from lacuna.models.loading import load_model
from lacuna.records import Languages
from unit.models.tiny_models import DE_EN, KINDS, SOURCES, Zoo, make_marian

MULTILINGUAL = sorted(kind for kind in KINDS if KINDS[kind].languages is not None)


def test_a_model_is_frozen_and_in_eval_mode(zoo: Zoo, kind: str) -> None:
    model = zoo.model(kind)
    assert not model.hf.training
    assert not any(parameter.requires_grad for parameter in model.hf.parameters())
    assert {parameter.dtype for parameter in model.hf.parameters()} == {torch.float32}
    assert repr(model).startswith("Model(")


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("marian", ["<pad>"]),
        ("fsmt", ["</s>"]),
        ("m2m100", ["</s>", "__en__"]),
        ("nllb", ["</s>", "eng_Latn"]),
        ("mbart", ["en_XX"]),
        ("mbart50", ["</s>", "en_XX"]),
        ("bart", ["</s>", "<s>"]),
        ("t5", ["<pad>"]),
        ("mt5", ["<pad>"]),
    ],
)
def test_translations_start_as_the_family_does(zoo: Zoo, kind: str, start: list[str]) -> None:
    model = zoo.model(kind)
    assert [model.token_text(token) for token in model.start_ids] == start


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("marian", "▁ja", "</s>"),
        ("marian-many", ">>eng<<", "</s>"),
        ("m2m100", "__de__", "</s>"),
        ("nllb", "deu_Latn", "</s>"),
        ("mbart", "▁ja", "de_DE"),
        ("mbart50", "de_DE", "</s>"),
        ("bart", "<s>", "</s>"),
    ],
)
def test_sources_carry_the_tags_of_the_family(zoo: Zoo, kind: str, first: str, last: str) -> None:
    model = zoo.model(kind)
    pieces = model.tokenizer.convert_ids_to_tokens(model.encode_sources(["ja"])[0])
    assert (pieces[0], pieces[-1]) == (first, last)


def test_t5_gets_its_task_prefix(zoo: Zoo) -> None:
    assert zoo.model("t5").direction.source_prefix == "translate German to English: "
    listed = load_model(zoo.folder("t5"), languages=Languages("en", "de"))
    assert listed.direction.source_prefix == "translate English to German: "
    assert zoo.model("mt5").direction.source_prefix == ""


@pytest.mark.parametrize(("kind", "said"), [("marian", DE_EN), ("fsmt", DE_EN), ("bart", None), ("mt5", None)])
def test_a_model_says_its_own_direction_where_it_can(zoo: Zoo, kind: str, said: Languages | None) -> None:
    assert load_model(zoo.folder(kind)).languages == said


def test_generation_settings_of_the_folder_do_not_reach_our_generate(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("fsmt", tmp_path / "other")
    limits = {"min_new_tokens": 9, "repetition_penalty": 3.0, "no_repeat_ngram_size": 1, "bad_words_ids": [[5, 6]]}
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(settings | limits))
    other = load_model(folder, device="cpu")
    assert other.hf.generation_config.repetition_penalty == 3.0
    assert other.generate(SOURCES, max_new_tokens=12) == zoo.model("fsmt").generate(SOURCES, max_new_tokens=12)
    assert zoo.model("marian").banned_ids == (zoo.model("marian").pad_id,)


def test_transformers_own_generate_gives_the_same_translations(zoo: Zoo, kind: str) -> None:
    """Forced tokens count in the lengths of transformers, so there is no length penalty and a higher limit."""
    model = zoo.model(kind)
    sources = model.encode_sources(SOURCES)
    longest = max(map(len, sources))
    outputs = model.hf.generate(
        input_ids=torch.tensor([[*ids, *[model.pad_id] * (longest - len(ids))] for ids in sources]),
        attention_mask=torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in sources]),
        num_beams=5,
        max_new_tokens=12 + len(model.start_ids) - 1,
        length_penalty=0.0,
        early_stopping=False,
        forced_eos_token_id=None,
        suppress_tokens=list(model.banned_ids),
    )
    assert [tuple(row[: len(model.start_ids)]) for row in outputs.tolist()] == [model.start_ids] * len(SOURCES)
    translations = [model.decode(row) for row in outputs.tolist()]
    assert translations == model.generate(SOURCES, beam=5, length_penalty=0.0, max_new_tokens=12)


@pytest.mark.parametrize("kind", ["marian", "fsmt", "bart", "t5", "mt5"])
def test_a_loaded_model_keeps_the_generation_settings_of_its_folder(zoo: Zoo, kind: str) -> None:
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(zoo.folder(kind)).generation_config.to_dict()
    ours = zoo.model(kind).hf.generation_config.to_dict()
    changed = {name for name in theirs | ours if theirs.get(name) != ours.get(name)}
    assert changed <= {"forced_bos_token_id"}


@pytest.mark.parametrize("kind", MULTILINGUAL)
def test_a_multilingual_model_wants_languages(zoo: Zoo, kind: str) -> None:
    with pytest.raises(ModelError, match=r"say which, as in languages de-en"):
        load_model(zoo.folder(kind))


@pytest.mark.parametrize("kind", MULTILINGUAL)
def test_unknown_languages_are_refused(zoo: Zoo, kind: str) -> None:
    with pytest.raises(ModelError, match="tlh"):
        load_model(zoo.folder(kind), languages=Languages("de", "tlh"))


@pytest.mark.parametrize("kind", ["marian", "fsmt"])
def test_a_bilingual_model_is_not_turned_round(zoo: Zoo, kind: str) -> None:
    with pytest.raises(ModelError, match="translates from de, not en; its direction is de-en"):
        load_model(zoo.folder(kind), languages=Languages("en", "de"))
    assert load_model(zoo.folder(kind), languages=Languages("deu", "eng")).languages == Languages("deu", "eng")


def test_half_precision_files_are_loaded_as_float32(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "half")
    hf = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float16)
    hf.save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"
    assert {p.dtype for p in load_model(folder).hf.parameters()} == {torch.float32}


def test_nothing_reaches_stderr(
    zoo: Zoo, kind: str, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    zoo.folder(kind)
    capfd.readouterr()
    model = load_model(zoo.folder(kind), languages=KINDS[kind].languages)
    model.generate([SOURCES[0] * 2, SOURCES[1]], max_new_tokens=3)
    model.encode_targets(["word " * 300])
    assert capfd.readouterr() == ("", "")
    assert [str(warning.message) for warning in recwarn] == []


def test_loading_leaves_logging_as_it_was(zoo: Zoo) -> None:
    logger = logging.getLogger("transformers")
    before = logger.level
    try:
        logger.setLevel(logging.INFO)
        load_model(zoo.folder("marian"))
        assert logger.level == logging.INFO
        with pytest.raises(ModelError):
            load_model(zoo.folder("nllb"))
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before)


# --- what is refused -----------------------------------------------------------------------------------------------


def refusal(path: str | Path | None, **options: str) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    assert "it has no config.json" in refusal(tmp_path)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none")
    assert "does not exist" in refusal(str(tmp_path / "none"))
    assert "does not exist" in refusal("./none")
    (tmp_path / "file").write_text("")
    assert "is a file" in refusal(tmp_path / "file")


def test_no_bundled_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loading, "BUNDLED", tmp_path / "none")
    assert "no model is bundled" in refusal(None)


def test_the_bundled_model_is_the_default(monkeypatch: pytest.MonkeyPatch, zoo: Zoo) -> None:
    monkeypatch.setattr(loading, "BUNDLED", zoo.folder("marian"))
    assert load_model().languages == DE_EN


def test_a_hub_name_without_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    message = refusal("someone/no-such-model")
    assert message.startswith("model 'someone/no-such-model': no such folder, and it cannot be read from the hub")
    assert message.endswith("check the name and the network, or give a folder")


def test_a_decoder_only_model(tmp_path: Path) -> None:
    transformers.GPT2Config(n_layer=1, n_embd=8, n_head=1).save_pretrained(tmp_path)
    message = refusal(tmp_path)
    assert "is a gpt2 model" in message
    for name in ("Marian", "FSMT", "M2M100", "NLLB", "mBART", "BART", "T5", "mT5"):
        assert name in message


@pytest.mark.parametrize("content", ["{", "{}", '{"model_type": "no-such-type"}', "[]"])
def test_a_config_that_cannot_be_used(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert "config.json cannot be" in refusal(tmp_path)


def test_code_in_a_folder_is_not_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w')")
    remote = {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForSeq2SeqLM": "evil.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(remote))
    refusal(tmp_path)
    assert not ran.exists()


def test_a_damaged_safetensors_file(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"\xff" * 100):
        weights.write_bytes(damaged)
        assert "weights cannot be loaded" in refusal(folder)
    weights.unlink()
    assert "weights cannot be loaded" in refusal(folder)


def test_a_pickle_that_runs_code_is_refused(zoo: Zoo, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f'{sys.executable} -c \'open("{tmp_path}/ran", "w")\'',)

    folder = zoo.copy("marian", tmp_path / "copy")
    (folder / "model.safetensors").unlink()
    for save in (lambda path: torch.save({"x": Evil()}, path), lambda path: path.write_bytes(pickle.dumps(Evil()))):
        save(folder / "pytorch_model.bin")
        assert "weights cannot be loaded" in refusal(folder)
        assert not (tmp_path / "ran").exists()


def test_missing_weights_are_not_made_up(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("bart", tmp_path / "copy")
    state = {n: w for n, w in zoo.model("bart").hf.state_dict().items() if "fc1" not in n}
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    assert "weights are missing or have another shape: model.decoder.layers.0.fc1.bias" in refusal(folder)


def test_weights_of_another_shape(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("bart", tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "decoder_ffn_dim": 32}))
    assert "weights" in refusal(folder)


def test_a_missing_tokenizer(zoo: Zoo, kind: str, tmp_path: Path) -> None:
    folder = zoo.copy(kind, tmp_path / "copy")
    for file in folder.iterdir():
        if file.name not in ("config.json", "model.safetensors", "generation_config.json"):
            file.unlink()
    message = refusal(folder)
    assert "tokenizer" in message
    assert message.endswith("save the tokenizer into the same folder as the model")


def test_the_tokenizer_of_another_model(zoo: Zoo, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    make_marian(folder)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({**vocabulary, "more": len(vocabulary)}))
    assert "they do not match" in refusal(folder)


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "", "xpu"])
def test_an_unknown_device(zoo: Zoo, device: str) -> None:
    with pytest.raises(SettingError, match="available: auto, "):
        load_model(zoo.folder("marian"), device=device)


def test_precision_is_checked(zoo: Zoo) -> None:
    with pytest.raises(SettingError, match="allowed are float32, float16, bfloat16"):
        load_model(zoo.folder("marian"), precision="int8")
    with pytest.raises(SettingError, match="float16 is for GPUs"):
        load_model(zoo.folder("marian"), device="cpu", precision="float16")


@pytest.mark.shared_data
def test_a_real_model() -> None:
    model = load_model(Path(os.environ["LACUNA_SHARED"]) / "models" / "de-en-warmstart", device="cpu")
    sources = model.encode_sources(["Ich danke Ihnen für Ihren Bericht.", "Das Haus ist sehr alt."])
    result = model.teacher_force(
        sources, model.encode_targets(["I thank you for your report.", "The house is very old."])
    )
    assert model.languages == DE_EN
    assert (model.project(result.keys.half().float()).argmax(-1) != result.predictions).sum() == 0
    assert result.log_p_gold.mean() > -6
