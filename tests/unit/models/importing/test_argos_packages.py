"""Argos packages: the model inside is imported with its own special tokens, and no zip reaches out of its folder."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import torch
import transformers

from lacuna.errors import ModelError
from lacuna.models.importing import import_model, recognize
from lacuna.models.loading import load_model
from lacuna.records import Languages
from unit.models.importing.ct2_toy import make_spec, save_spec
from unit.models.tiny_models import LAYERS, POSITIONS, SMALL, SOURCES, TARGETS, pieces, train_sentencepiece

METADATA = {"package_version": "1.0", "argos_version": "1.5", "from_code": "de", "to_code": "en"}


@pytest.fixture(scope="module")
def network() -> transformers.MarianMTModel:
    """A post-norm network with the special tokens in OpenNMT's order, whose translations start with <s>."""
    torch.manual_seed(11)
    config = transformers.MarianConfig(
        **SMALL,
        **LAYERS,
        **POSITIONS,
        vocab_size=80,
        pad_token_id=0,
        decoder_start_token_id=1,
        eos_token_id=2,
        scale_embedding=True,
        activation_function="relu",
    )
    network = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        network.model.shared.weight[0].normal_()  # <blank> is a row like any other
    return network


def write_package(folder: Path, network: transformers.MarianMTModel, size: int, *words: str) -> list[str]:
    """Write an unpacked package; return its vocabulary.

    :param size: Number of pieces of its sentencepiece model.
    :param words: Tokens that this model lacks.
    """
    folder.mkdir()
    (folder / "metadata.json").write_text(json.dumps(METADATA))
    train_sentencepiece(folder / "sentencepiece.model", size)
    known = [piece for piece, _ in pieces(folder / "sentencepiece.model")[3:]]
    tokens = ["<blank>", "<s>", "</s>", "<unk>", *words, *known]
    tokens += [f"rare{n}" for n in range(80 - len(tokens))]
    spec = make_spec(network, keep_last_row=True)
    spec.decoder.start_from_zero_embedding = False
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = "<s>"
    save_spec(spec, folder / "model", tokens, tokens)
    return tokens


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, network: transformers.MarianMTModel) -> Path:
    """An unpacked package."""
    folder = tmp_path_factory.mktemp("argos") / "translate-de_en-1_0"
    write_package(folder, network, 76)
    return folder


def pack(folder: Path, path: Path, **extra: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name not in extra:
                archive.write(file, f"{folder.name}/{file.relative_to(folder)}")
        for name, content in extra.items():
            archive.writestr(f"{folder.name}/{name}", content)
    return path


@pytest.mark.parametrize("packed", [True, False])
def test_special_tokens_of_opennmt(
    package: Path, network: transformers.MarianMTModel, tmp_path: Path, packed: bool
) -> None:
    source = pack(package, tmp_path / "de_en.argosmodel") if packed else package
    assert recognize(source) == "argos"
    report = import_model(source, tmp_path / "back")
    model = load_model(tmp_path / "back", device="cpu")
    assert report.kind == "argos"
    assert model.languages == Languages("de", "en") == report.languages
    assert (model.pad_id, model.start_ids, model.eos_id) == (0, (1,), 2)
    assert model.tokenizer.unk_token_id == 3
    assert model.vocabulary_size == 80  # nothing had to be added
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    assert all(source[-1] == 2 for source in sources)
    got = model.project(model.teacher_force(sources, targets).keys)
    expected = [
        network(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[1, *target[:-1]]])).logits[0]
        for source, target in zip(sources, targets, strict=True)
    ]
    torch.testing.assert_close(got, torch.cat(expected).detach(), atol=1e-5, rtol=0)
    left = {path.name for path in (tmp_path / "back").iterdir()}
    assert left == {
        "config.json", "generation_config.json", "model.safetensors", "source.spm", "target.spm",
        "tokenizer_config.json", "vocab.json",
    }  # fmt: skip
    assert model.generate(["zwölf boxkämpfer"], beam=1, max_new_tokens=5) is not None


def test_a_package_without_the_target_s_sentencepiece_model(
    network: transformers.MarianMTModel, package: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "translate-de_en-1_0"
    tokens = write_package(folder, network, 40, "▁lighthouse", "▁keeper")
    report = import_model(folder, tmp_path / "back")
    assert "rebuilt from the vocabulary" in report.notes[0]
    model = load_model(tmp_path / "back", device="cpu")
    [target] = model.encode_targets(["lighthouse keeper"])
    assert [tokens[number] for number in target] == ["▁lighthouse", "▁keeper", "</s>"]
    assert (tmp_path / "back" / "source.spm").read_bytes() == (folder / "sentencepiece.model").read_bytes()
    # One model of both sides serves both.
    assert not any("rebuilt" in note for note in import_model(package, tmp_path / "both").notes)


def refused(package: Path, tmp_path: Path, message: str, languages: Languages | None = None) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ModelError, match=message) as caught:
        import_model(package, tmp_path / "back", languages=languages)
    assert "\n" not in str(caught.value)
    assert ".tmp" not in str(caught.value)  # it names the package, not where it was unpacked to
    assert sorted(tmp_path.iterdir()) == before


def test_refuses_other_packages(package: Path, tmp_path: Path) -> None:
    bpe = pack(package, tmp_path / "bpe.argosmodel", **{"bpe.model": b"#version: 0.2\n"})
    refused(bpe, tmp_path, "Moses and BPE")
    prefixed = json.dumps(METADATA | {"target_prefix": "__en__"}).encode()
    refused(pack(package, tmp_path / "m.argosmodel", **{"metadata.json": prefixed}), tmp_path, "needs __en__")
    refused(pack(package, tmp_path / "n.argosmodel", **{"metadata.json": b"{}"}), tmp_path, "no from_code")
    good = pack(package, tmp_path / "de_en.argosmodel")
    refused(good, tmp_path, "translates de-en, not en-de", Languages("en", "de"))
    cut = pack(package, tmp_path / "x.argosmodel", **{"model.bin": b"", "model/model.bin": b"\x06\0\0\0\xff\xff"})
    refused(cut, tmp_path, r"x\.argosmodel/model/model\.bin: ends in the middle")
    empty = tmp_path / "empty.argosmodel"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("a/metadata.json", "{}")
    refused(empty, tmp_path, "no model/model.bin")


@pytest.mark.parametrize("name", ["../../evil", "/evil", "a/../../evil", "a\\..\\evil"])
def test_refuses_names_that_lead_outside(package: Path, tmp_path: Path, name: str) -> None:
    path = pack(package, tmp_path / "slip.argosmodel")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"evil")
    refused(path, tmp_path, "outside of its folder")


def test_refuses_what_is_too_large_twice_or_damaged(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pack(package, tmp_path / "de_en.argosmodel")
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:cut])
        refused(path, tmp_path, "cannot be unpacked")
    middle = whole.index(b"model.bin") + 200
    path.write_bytes(whole[:middle] + bytes(40) + whole[middle + 40 :])
    refused(path, tmp_path, "cannot be unpacked")
    path.write_bytes(whole)
    monkeypatch.setattr("lacuna.models.importing.ctranslate2._MAX_BYTES", 1000)
    refused(path, tmp_path, "at most 1,000 are accepted")
    monkeypatch.undo()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other/model/model.bin", b"")
    refused(path, tmp_path, "twice")
