"""The tokenizer of Marian models against that of transformers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, MarianTokenizer

from lacuna.models.fingerprint import _tokenizer_lines
from lacuna.models.loading import BUNDLED, load_model
from lacuna.models.tokenization import PieceTokenizer
from lacuna.models.tokenization.piece_tokenizer import read_piece_tokenizer
from unit.models.tiny_models import TEXT, Zoo

KINDS = ["marian", "marian-separate", "marian-many"]
CONTROLS = [">>fra<<", ">>", "<<", ">>eng<< ", "</s>", "<unk>", "<pad>", "▁", "  ", "\n", "“’„»…\u00a0%", "苹果", "é"]
TEXTS = st.lists(st.sampled_from([*CONTROLS, *TEXT]) | st.text(max_size=20), max_size=8).map("".join)


def finder(folder: Path) -> Callable[[str], Path | None]:
    return lambda name: folder / name if (folder / name).is_file() else None


def read(folder: Path) -> PieceTokenizer:
    tokenizer = read_piece_tokenizer(finder(folder))
    assert tokenizer is not None
    return tokenizer


def theirs_of(folder: Path) -> MarianTokenizer:
    tokenizer = AutoTokenizer.from_pretrained(folder, split_special_tokens=True)
    assert type(tokenizer) is MarianTokenizer
    return tokenizer


Pair = tuple[PieceTokenizer, MarianTokenizer]


@pytest.fixture(scope="module", params=[*KINDS, "bundled"])
def pair(request: pytest.FixtureRequest, zoo: Zoo) -> Pair:
    folder = BUNDLED if request.param == "bundled" else zoo.folder(request.param)
    return read(folder), theirs_of(folder)


def decoded(tokenizer: Any, ids: list[int], skip: bool) -> str:
    text: str = tokenizer.decode(
        ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False, use_source_tokenizer=False
    )
    return text


def assert_same(ours: PieceTokenizer, theirs: MarianTokenizer, texts: list[str]) -> None:
    ids = ours(texts)["input_ids"]
    assert ids == theirs(texts)["input_ids"]
    assert [ours.tokenize(text) for text in texts] == [theirs.tokenize(text) for text in texts]
    for each in ids:
        assert ours.convert_ids_to_tokens(each) == theirs.convert_ids_to_tokens(each)
        for skip in (False, True):
            assert decoded(ours, each, skip) == decoded(theirs, each, skip)


def assert_same_vocabulary(ours: PieceTokenizer, theirs: MarianTokenizer) -> None:
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.all_special_ids == theirs.all_special_ids
    assert ours.unk_token_id == theirs.unk_token_id
    assert ours.supported_language_codes == theirs.supported_language_codes
    assert (ours.source_lang, ours.target_lang) == (theirs.source_lang, theirs.target_lang)
    assert ours.separate_vocabs == theirs.separate_vocabs
    assert list(_tokenizer_lines(ours)) == list(_tokenizer_lines(theirs))


def test_vocabulary_and_fingerprint_are_the_same(pair: Pair) -> None:
    assert_same_vocabulary(*pair)


@given(text=TEXTS)
def test_texts_have_the_same_tokens(pair: Pair, text: str) -> None:
    assert_same(*pair, [text])


def test_long_and_empty_texts_too(pair: Pair) -> None:
    assert_same(*pair, ["", " ", "x" * 3000, " ".join(TEXT * 20), "\ud7ff\U0010ffff", "\x00a"])


@given(data=st.data(), skip=st.booleans())
def test_tokens_have_the_same_text(pair: Pair, data: st.DataObject, skip: bool) -> None:
    ours, theirs = pair
    size = len(ours.decoder)
    ids = data.draw(st.lists(st.integers(0, size - 1) | st.sampled_from([0, 1, size - 1]), max_size=12))
    assert decoded(ours, ids, skip) == decoded(theirs, ids, skip)
    assert ours.convert_ids_to_tokens(ids) == theirs.convert_ids_to_tokens(ids)


def test_an_id_beyond_the_vocabulary_is_what_sentencepiece_says(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    few = {token: number for token, number in vocabulary.items() if number not in (7, 8)}
    (folder / "vocab.json").write_text(json.dumps(few))
    ours, theirs = read(folder), theirs_of(folder)
    assert ours.convert_ids_to_tokens([7, 8]) == theirs.convert_ids_to_tokens([7, 8])
    for tokenizer in (ours, theirs):
        with pytest.raises(IndexError):
            tokenizer.convert_ids_to_tokens(10**6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_saved_by_transformers_is_the_same(zoo: Zoo, tmp_path: Path, kind: str) -> None:
    theirs_of(zoo.folder(kind)).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_bytes((zoo.folder(kind) / "config.json").read_bytes())
    ours, theirs = read(tmp_path), theirs_of(tmp_path)
    assert_same_vocabulary(ours, theirs)
    assert_same(ours, theirs, [*TEXT, *CONTROLS])


ADDED = {"content": "<more>", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
SETTINGS: list[dict[str, Any]] = [
    {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<other>"},  # without an id
    {"pad_token": {"__type": "AddedToken", **ADDED, "content": "<pad>"}},
    {"added_tokens_decoder": {"0": {**ADDED, "content": "</s>"}, "9": {**ADDED, "content": "▁the"}}},
    {"added_tokens_decoder": {"300": ADDED}, "bos_token": None, "additional_special_tokens": []},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_have_the_same_effect(zoo: Zoo, tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    before = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(before | settings))
    ours, theirs = read(folder), theirs_of(folder)
    assert_same_vocabulary(ours, theirs)
    assert_same(ours, theirs, [*TEXT, *CONTROLS, "<more> the <other>"])


def test_the_older_file_of_special_tokens_is_read(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    special = {"eos_token": {**ADDED, "content": "<unk>"}, "pad_token": "</s>"}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    assert_same_vocabulary(read(folder), theirs_of(folder))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer_config.json", {"additional_special_tokens": ["<more>"]}),
        ("tokenizer_config.json", {"bos_token": "<s>"}),
        ("tokenizer_config.json", {"sp_model_kwargs": {"enable_sampling": True}}),
        ("tokenizer_config.json", {"pad_token": None}),
        ("tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"}),
        ("tokenizer_config.json", []),
        ("config.json", {"tokenizer_class": "T5Tokenizer"}),
        ("tokenizer.json", {}),
        ("added_tokens.json", {"<more>": 300}),
    ],
)
def test_what_it_does_not_support_is_left_to_transformers(
    zoo: Zoo, tmp_path: Path, file: str, content: dict[str, Any]
) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    if file == "config.json":
        (folder / "tokenizer_config.json").write_text("{}")
    (folder / file).write_text(json.dumps(content))
    assert read_piece_tokenizer(finder(folder)) is None


@pytest.mark.parametrize("file", ["source.spm", "target.spm", "vocab.json"])
def test_missing_files_are_left_to_transformers(zoo: Zoo, tmp_path: Path, file: str) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    (folder / file).unlink()
    assert read_piece_tokenizer(finder(folder)) is None


def test_a_model_with_more_special_tokens_still_loads(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    before = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**before, "bos_token": "</s>"}))
    model = load_model(folder, device="cpu")
    assert type(model.tokenizer) is MarianTokenizer
    assert model.encode_sources(TEXT) == zoo.model("marian").encode_sources(TEXT)
    assert model.encode_targets(TEXT) == zoo.model("marian").encode_targets(TEXT)
    assert model.fingerprint == zoo.model("marian").fingerprint


@pytest.mark.shared_data
def test_real_text_has_the_same_tokens() -> None:
    folder = Path(os.environ["LACUNA_SHARED"])
    ours, theirs = read(folder / "models" / "de-en-warmstart"), theirs_of(folder / "models" / "de-en-warmstart")
    for path in sorted(folder.rglob("*.tsv"))[:5]:
        with path.open(encoding="utf-8") as lines:
            assert_same(ours, theirs, [part for line in islice(lines, 500) for part in line.split("\t")])
