"""The tokenizer in a whole model: joint and separate vocabularies, moved folders, hostile files."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lacuna.errors import ModelError
from lacuna.models.adapter import Model
from lacuna.models.loading import load_model
from lacuna.models.tokenization import WordBpe
from lacuna.models.tokenization.word_tokenizer import WordTokenizer
from lacuna.models.training.network import make_network
from lacuna.models.training.settings import Shape
from lacuna.records import Languages
from made_up import make_pairs

TARGETS = ["We see three apples.", "we (see) 'two' dogs, and/or {0} - \"keys\"!", "</s> <pad> ￭"]


def save(pieces: WordBpe, folder: Path) -> Path:
    torch.manual_seed(3)
    shape = Shape(1, 1, 32, 64, 2, max_positions=64)
    joint = pieces.vocabularies == "joint"
    make_network(shape, pieces.size, pieces.end_id, pieces.pad_id, 0.0, joint=joint).save_pretrained(folder)
    WordTokenizer(pieces).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(joint: WordBpe, separate: WordBpe, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {"joint": joint, "separate": separate}
    return {name: save(pieces, tmp_path_factory.mktemp(name)) for name, pieces in made.items()}


@pytest.fixture(scope="module", params=["joint", "separate"])
def word_model(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Model:
    return load_model(folders[request.param], device="cpu", mask_placeholders=False)


def test_the_direction_is_known(word_model: Model) -> None:
    assert str(word_model.languages) in ("de-en", "zh-en")
    assert word_model.start_ids == (word_model.pad_id,)
    with pytest.raises(ModelError, match="not fr"):
        load_model(word_model.name, languages=Languages("fr", "en"))


def test_decoding_undoes_encoding(word_model: Model) -> None:
    assert [word_model.decode(ids) for ids in word_model.encode_targets(TARGETS)] == TARGETS


def test_targets_are_what_transformers_would_train_on(word_model: Model) -> None:
    assert word_model.encode_targets(TARGETS) == [
        word_model.tokenizer(text_target=text)["input_ids"] for text in TARGETS
    ]
    assert word_model.encode_targets([""]) == [[word_model.eos_id]]


def test_sides_use_their_own_vocabulary(word_model: Model) -> None:
    pieces = word_model.tokenizer.word_bpe
    sources = ["我们看到三个苹果。", "Wir sehen drei Äpfel."]
    assert word_model.encode_sources(sources) == pieces.encode_sources(sources)
    assert (word_model.encode_sources(["We"]) == word_model.encode_targets(["We"])) == (pieces.vocabularies == "joint")


def test_the_name_of_a_special_token_is_only_text(word_model: Model) -> None:
    for ids in (*word_model.encode_targets(["a </s> <pad> <unk>"]), *word_model.encode_sources(["a </s> <pad> <unk>"])):
        assert {word_model.eos_id, word_model.pad_id, 1}.isdisjoint(ids[:-1])


def test_tokens_have_texts_and_texts_have_tokens(word_model: Model) -> None:
    texts = [word_model.token_text(token) for token in range(word_model.vocabulary_size)]
    assert all(texts)
    [ids] = word_model.encode_targets(["apples"])
    assert [word_model.token_number(word_model.token_text(token)) for token in ids] == ids
    with pytest.raises(ModelError, match="does not have"):
        word_model.token_number("苹果@@苹果")


def test_it_translates(word_model: Model) -> None:
    assert len(word_model.generate(["Wir sehen"], beam=2, max_new_tokens=5)) == 1
    forced = word_model.teacher_force(word_model.encode_sources(TARGETS), word_model.encode_targets(TARGETS))
    assert forced.keys.shape[1] == word_model.dimension


def test_a_number_without_a_piece_is_left_out(separate: WordBpe) -> None:
    tokenizer = WordTokenizer(separate)
    [unused, *_] = sorted(set(range(separate.size)) - set(separate.target.ids.values()))
    assert tokenizer.convert_ids_to_tokens(unused) is None
    assert tokenizer.decode([*separate.target.encode("We see"), unused]) == "We see"


def test_a_moved_folder_gives_the_same_model(word_model: Model, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(word_model.name, tmp_path / "elsewhere"))
    again = load_model(moved, device="cpu", mask_placeholders=False)
    assert again.fingerprint == word_model.fingerprint
    assert again.generate(["Wir sehen"], max_new_tokens=5) == word_model.generate(["Wir sehen"], max_new_tokens=5)


def test_saving_model_and_tokenizer_again_keeps_everything(word_model: Model, tmp_path: Path) -> None:
    word_model.hf.save_pretrained(tmp_path)
    word_model.tokenizer.save_pretrained(tmp_path)
    assert load_model(tmp_path, device="cpu", mask_placeholders=False).fingerprint == word_model.fingerprint


def test_it_can_be_sent_to_another_process(word_model: Model) -> None:
    again = pickle.loads(pickle.dumps(word_model.tokenizer))
    assert again(TARGETS)["input_ids"] == word_model.tokenizer(TARGETS)["input_ids"]


def test_with_separate_vocabularies_the_projection_is_the_embedding_of_the_target(folders: dict[str, Path]) -> None:
    hf = load_model(folders["separate"], device="cpu", mask_placeholders=False).hf
    assert hf.lm_head.weight.data_ptr() == hf.model.decoder.embed_tokens.weight.data_ptr()
    assert hf.lm_head.weight.data_ptr() != hf.model.encoder.embed_tokens.weight.data_ptr()
    assert not torch.equal(hf.model.encoder.embed_tokens.weight, hf.model.decoder.embed_tokens.weight)


def _swap_ids(text: str) -> str:
    ids = json.loads(text)
    ids["e"], ids["n"] = ids["n"], ids["e"]
    return json.dumps(ids)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("source.codes", lambda text: text.rpartition("\n")[0].rpartition("\n")[0] + "\n"),
        ("target.codes", lambda text: text + "q q\n"),
        ("jieba.txt", lambda text: text + "看到三 9999\n"),
        ("source.vocab.json", _swap_ids),
        ("target.vocab.json", _swap_ids),
    ],
)
def test_the_fingerprint_covers_every_file(
    folders: dict[str, Path], tmp_path: Path, name: str, change: Callable[[str], str]
) -> None:
    folder = Path(shutil.copytree(folders["separate"], tmp_path / "copy"))
    before = load_model(folder, device="cpu", mask_placeholders=False).fingerprint
    (folder / name).write_text(change((folder / name).read_text(encoding="utf-8")), encoding="utf-8")
    assert load_model(folder, device="cpu", mask_placeholders=False).fingerprint != before


VOCABULARY = '{"</s>": 0, "<unk>": 1, "<pad>": %s}'


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("words.json", None, None),
        ("words.json", "{", "words.json: cannot be read as JSON"),
        ("words.json", "[" * 100_000, "words.json: cannot be read as JSON"),
        ("words.json", "[]", "got list where an object is needed"),
        ("words.json", '{"format": 2}', "got format 2"),
        ("words.json", '{"format": 1, "languages": ["de", 5], "vocabularies": "joint"}', "does not name two languages"),
        ("words.json", '{"format": 1, "languages": ["ja", "en"], "vocabularies": "joint"}', "got bpe for ja"),
        (
            "words.json",
            '{"format": 1, "languages": ["de", "en"], "splitters": ["magic", "moses"], "vocabularies": "joint"}',
            "got splitters",
        ),
        ("bpe.codes", None, "bpe.codes is missing"),
        ("bpe.codes", "a b c\n", "BPE codes"),
        ("bpe.codes", b"\xff\xfe", "bpe.codes: is not UTF-8"),
        ("vocab.json", None, "vocab.json is missing"),
        ("vocab.json", '{"a": 0}', "vocab.json: not a vocabulary"),
        ("vocab.json", VOCABULARY % '"2"', "vocab.json: not a vocabulary"),
        ("vocab.json", VOCABULARY % "1", "vocab.json: not a vocabulary"),
        ("vocab.json", VOCABULARY % "999999999", "do not match"),
    ],
)
def test_bad_files_are_one_line(
    folders: dict[str, Path], tmp_path: Path, name: str, content: str | bytes | None, says: str | None
) -> None:
    folder = Path(shutil.copytree(folders["joint"], tmp_path / "copy"))
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelError, match=says) as caught:
        load_model(folder, device="cpu", mask_placeholders=False)
    assert "\n" not in str(caught.value)


def test_a_chinese_model_needs_its_dictionary(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["separate"], tmp_path / "copy"))
    (folder / "jieba.txt").write_text("我们\n", encoding="utf-8")
    with pytest.raises(ModelError, match="jieba's dictionary"):
        load_model(folder, device="cpu", mask_placeholders=False)
    (folder / "jieba.txt").unlink()
    with pytest.raises(ModelError, match=r"jieba\.txt is missing"):
        load_model(folder, device="cpu", mask_placeholders=False)


def test_vocabularies_that_do_not_belong_together_are_refused(separate: WordBpe) -> None:
    ids = {piece: number for piece, number in separate.source.ids.items() if piece != "<pad>"}
    files = separate.files | {"source.vocab.json": json.dumps(ids | {"<pad>": 5000}).encode()}
    with pytest.raises(ModelError, match="different id on each side"):
        WordBpe(files)


def test_ordinary_sentences_hold_no_mark(joint: WordBpe) -> None:
    for pair in make_pairs(20):
        assert {"￭", "␣"}.isdisjoint({*joint.source.pieces(pair.source), *joint.target.pieces(pair.target)})
