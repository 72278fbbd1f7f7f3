"""Checkpoints of fairseq become FSMT folders that compute the same and number tokens the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lacuna.errors import ModelError
from lacuna.models.adapter import Model
from lacuna.models.importing import import_model, recognize
from lacuna.models.loading import load_model
from lacuna.records import Languages
from unit.models.importing.fairseq_toy import (
    CODES,
    SOURCE_PIECES,
    TARGET_PIECES,
    WIDTH,
    make_weights,
    reference_logits,
    settings,
    write_folder,
)

SOURCE_SIZE, TARGET_SIZE = len(SOURCE_PIECES) + 4, len(TARGET_PIECES) + 4
SOURCES = [[4, 5, 6, 2], [7, 8, 9, 10, 3, 2], [2]]
TARGETS = [[4, 5, 6, 7, 2], [2], [10, 11, 12, 2]]


def imported(folder: Path, **options: Any) -> Model:
    import_model(folder, folder.with_name("imported"), **options)
    return load_model(folder.with_name("imported"), device="cpu")


def check_logits(model: Model, weights: dict[str, torch.Tensor]) -> None:
    """Compare a batch with fairseq's own sums, sentence by sentence, without any filling up."""
    got = model.project(model.teacher_force(SOURCES, TARGETS).keys)
    expected = [
        reference_logits(weights, source, [2, *target[:-1]]) for source, target in zip(SOURCES, TARGETS, strict=True)
    ]
    torch.testing.assert_close(got, torch.cat(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("sharing", ["none", "output", "all"])
@pytest.mark.parametrize("legacy", [False, True])
def test_computes_the_same(tmp_path: Path, sharing: str, legacy: bool) -> None:
    same = sharing == "all"  # one dictionary for both sides
    weights = make_weights(SOURCE_SIZE, TARGET_SIZE, sharing=sharing)
    source = TARGET_PIECES if same else SOURCE_PIECES
    folder = write_folder(tmp_path / "fairseq", {"args": settings(), "model": weights}, source=source, legacy=legacy)
    model = imported(folder)
    check_logits(model, weights)
    assert model.languages == Languages("de", "en")
    assert model.max_length == 30
    assert model.hf.config.tie_word_embeddings is same


def test_settings_of_newer_checkpoints(tmp_path: Path) -> None:
    """There ``args`` is None, and ``cfg`` has a part for each thing."""
    weights = make_weights(SOURCE_SIZE, TARGET_SIZE)
    own = vars(settings())
    task = {"_name": "translation", "source_lang": own.pop("source_lang"), "target_lang": own.pop("target_lang")}
    content = {"args": None, "cfg": {"_name": None, "task": task, "model": settings(**own)}, "model": weights}
    model = imported(write_folder(tmp_path / "fairseq", content))
    check_logits(model, weights)
    assert model.languages == Languages("de", "en")


def test_names_of_older_checkpoints(tmp_path: Path) -> None:
    """There query, key and value are one matrix, norms are numbered, and a tied output is not stored."""
    weights = make_weights(SOURCE_SIZE, TARGET_SIZE, sharing="output")
    old = {name: tensor for name, tensor in weights.items() if "output_projection" not in name}
    for name in [name for name in old if "q_proj" in name]:
        old[name.replace("q_proj.", "in_proj_")] = torch.cat([old.pop(name.replace("q_", f"{p}_")) for p in "qkv"])
    for side, norms in (("encoder", ["self_attn", "final"]), ("decoder", ["self_attn", "encoder_attn", "final"])):
        for number, norm in enumerate(norms):
            for name in [name for name in old if name.startswith(side) and f".{norm}_layer_norm." in name]:
                old[name.replace(f"{norm}_layer_norm", f"layer_norms.{number}")] = old.pop(name)
    content = {"args": settings(share_decoder_input_output_embed=True), "model": old}
    check_logits(imported(write_folder(tmp_path / "fairseq", content)), weights)


def test_half_precision_and_unscaled_embeddings(tmp_path: Path) -> None:
    weights = {name: tensor.half() for name, tensor in make_weights(SOURCE_SIZE, TARGET_SIZE).items()}
    content = {"args": settings(no_scale_embedding=True), "model": weights}
    model = imported(write_folder(tmp_path / "fairseq", content))
    # Unscaled embeddings are scaled ones of a model whose embeddings are smaller.
    exact = {name: tensor.float() for name, tensor in weights.items()}
    for side in ("encoder", "decoder"):
        exact[f"{side}.embed_tokens.weight"] = exact[f"{side}.embed_tokens.weight"] / WIDTH**0.5
    check_logits(model, exact)


def test_numbers_of_tokens(tmp_path: Path) -> None:
    """Worked by hand: dictionaries count from 4, and 'haus' is cut into 'hau@@ s'."""
    weights = make_weights(SOURCE_SIZE, TARGET_SIZE)
    model = imported(write_folder(tmp_path / "fairseq", {"args": settings(), "model": weights}))
    assert model.encode_sources(["das haus", "haut", "zhau", "huat"]) == [
        [4, 5, 6, 2],
        [5, 10, 2],
        [3, 3, 3, 2],  # z@@ ha@@ u, none of which the dictionary has
        [7, 9, 8, 10, 2],  # h@@ u@@ a@@ t
    ]
    assert model.encode_targets(["the house", "a"]) == [[4, 5, 6, 7, 2], [9, 2]]
    assert model.decode([4, 5, 6, 7, 2]) == "the house"
    folder = tmp_path / "imported"
    vocabulary = json.loads((folder / "vocab-src.json").read_text())
    assert {vocabulary[token] for token in ("<s>", "<pad>", "</s>", "<unk>")} == {0, 1, 2, 3}
    assert (vocabulary["hau"], vocabulary["s</w>"], vocabulary["madeupword0000</w>"]) == (5, 6, 11)


def test_codes_of_subword_nmt(tmp_path: Path) -> None:
    lines = ["#version: 0.2", *(line.rpartition(" ")[0] for line in CODES.splitlines()), "d a"]
    content = {"args": settings(), "model": make_weights(SOURCE_SIZE, TARGET_SIZE)}
    model = imported(write_folder(tmp_path / "fairseq", content, codes="\n".join(lines) + "\n"))
    assert model.encode_sources(["das haus"]) == [[4, 5, 6, 2]]
    merges = (tmp_path / "imported" / "merges.txt").read_text().splitlines()
    assert merges == lines[1:-1]  # a merge that is there twice counts where it is first


def test_report_and_choice_of_checkpoint(tmp_path: Path) -> None:
    content = {"args": settings(source_lang=None), "model": make_weights(SOURCE_SIZE, TARGET_SIZE)}
    folder = write_folder(tmp_path / "fairseq", content, name="model1.pt")
    (folder / "model2.pt").write_bytes(b"damaged")
    assert recognize(folder) == recognize(folder / "model1.pt") == "fairseq"
    with pytest.raises(ModelError, match=r"has model1\.pt, model2\.pt; name the one"):
        import_model(folder, tmp_path / "out")
    with pytest.raises(ModelError, match="does not name its languages"):
        import_model(folder / "model1.pt", tmp_path / "out")
    german = Languages("de", "en")
    report = import_model(folder, tmp_path / "out", checkpoint="model1.pt", languages=german).as_json()
    stored = 3 * TARGET_SIZE * WIDTH - (TARGET_SIZE - SOURCE_SIZE) * WIDTH
    layers = sum(tensor.numel() for name, tensor in content["model"].items() if ".layers." in name)
    assert report == {
        "kind": "fairseq",
        "into": str(tmp_path / "out"),
        "parameters": stored + layers,
        "source_vocabulary": SOURCE_SIZE,
        "target_vocabulary": TARGET_SIZE,
        "languages": "de-en",
        "tensors_ignored": (
            "decoder.embed_positions._float_tensor", "decoder.version",
            "encoder.embed_positions._float_tensor", "encoder.version",
        ),
        "notes": (),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("encoder_normalize_before", True),
        ("decoder_learned_pos", True),
        ("adaptive_softmax_cutoff", "1000,2000"),
        ("layernorm_embedding", True),
        ("no_token_positional_embeddings", True),
    ],
)
def test_refuses_what_fsmt_cannot_express(tmp_path: Path, setting: str, value: object) -> None:
    content = {"args": settings(**{setting: value}), "model": make_weights(SOURCE_SIZE, TARGET_SIZE)}
    folder = write_folder(tmp_path / "fairseq", content)
    with pytest.raises(ModelError, match=f"{setting}.*FSMT cannot"):
        import_model(folder, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fairseq"]


def change(name: str, tensor: torch.Tensor | None) -> dict[str, torch.Tensor]:
    weights = make_weights(SOURCE_SIZE, TARGET_SIZE)
    if tensor is None:
        del weights[name]
    else:
        weights[name] = tensor
    return weights


@pytest.mark.parametrize(
    ("weights", "other", "message"),
    [
        (change("decoder.layers.1.fc1.bias", None), {}, r"no tensor for model\.decoder\.layers\.1\.fc1\.bias"),
        (change("decoder.layers.0.fc1.weight", torch.ones(3, WIDTH)), {}, "needs"),
        (change("encoder.layer_norm.weight", torch.ones(WIDTH)), {}, r"model\.encoder\.layer_norm\.weight"),
        (change("encoder.layers.0.fc1.weight", None), {}, r"encoder layers \[1\]"),
        (change("decoder.output_projection.weight", None), {}, "no decoder.output_projection.weight"),
        (make_weights(SOURCE_SIZE + 1, TARGET_SIZE), {}, "13 tokens but dict.de.txt 12"),
        (make_weights(SOURCE_SIZE, TARGET_SIZE), {"encoder_attention_heads": None}, "encoder_attention_heads None"),
        (make_weights(SOURCE_SIZE, TARGET_SIZE), {"encoder_attention_heads": 3}, "do not form a valid model"),
        (make_weights(SOURCE_SIZE, TARGET_SIZE), {"activation_fn": "maxout"}, "activation_fn maxout"),
        (make_weights(SOURCE_SIZE, TARGET_SIZE), {"arch": "lightconv"}, "lightconv"),
        (make_weights(SOURCE_SIZE, TARGET_SIZE), {"target_lang": "fr"}, "translates de-fr, not de-en"),
    ],
)
def test_refuses_in_one_line(
    tmp_path: Path, weights: dict[str, torch.Tensor], other: dict[str, Any], message: str
) -> None:
    folder = write_folder(tmp_path / "fairseq", {"args": settings(**other), "model": weights})
    with pytest.raises(ModelError, match=message) as caught:
        import_model(folder, tmp_path / "out", languages=Languages("de", "en"))
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fairseq"]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("dict.de.txt", "das\n", r"dict\.de\.txt:1: got 'das'"),
        ("dict.de.txt", "das 3\ndas 2\n", "twice"),
        ("bpecodes", "a b\n", r"bpecodes:1: got 'a b'"),
        ("bpecodes", "#version: 0.1\na b\n", "version 0.1"),
    ],
)
def test_refuses_damaged_text_files(tmp_path: Path, file: str, text: str, message: str) -> None:
    folder = write_folder(tmp_path / "fairseq", {"args": settings(), "model": make_weights(SOURCE_SIZE, TARGET_SIZE)})
    (folder / file).write_text(text)
    with pytest.raises(ModelError, match=message):
        import_model(folder, tmp_path / "out")


def test_refuses_a_folder_in_use_and_unknown_sources(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "fairseq", {"args": settings(), "model": make_weights(SOURCE_SIZE, TARGET_SIZE)})
    with pytest.raises(ModelError, match="already there"):
        import_model(folder, folder)
    (folder / "bpecodes").unlink()
    with pytest.raises(ModelError, match="no BPE codes"):
        import_model(folder, tmp_path / "out")
    assert recognize(tmp_path) is None
    with pytest.raises(ModelError, match="cannot be imported; allowed are"):
        import_model(tmp_path, tmp_path / "out")
