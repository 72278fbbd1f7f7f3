"""Addresses of collections, kinds of index, and numbers of entries; nothing here connects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import IndexingError, SettingError, StoreError
from lacuna.milvus import CollectionKind, MilvusAddress
from lacuna.milvus.address import TOKEN_VARIABLE, collection_name, is_address
from lacuna.milvus.schema import (
    MAX_TEXT_BYTES,
    check_tag,
    line_of,
    own_entries,
    own_sentence,
    sentence_row,
    tag_filter,
    text_hash,
)
from lacuna.records import Origin, SentencePair


@pytest.mark.parametrize(
    ("text", "uri", "collection", "deadline"),
    [
        ("milvus://localhost/it", "http://localhost:19530", "it", 10.0),
        ("milvus://host.example:1234/it_2", "http://host.example:1234", "it_2", 10.0),
        ("milvus+https://host/it", "https://host:19530", "it", 10.0),
        ("milvus://[::1]:99/it?deadline=0.5", "http://[::1]:99", "it", 0.5),
    ],
)
def test_an_address_is_read(text: str, uri: str, collection: str, deadline: float) -> None:
    assert is_address(text)
    assert MilvusAddress.parse(text) == MilvusAddress(uri, collection, None, deadline)


def test_an_address_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = MilvusAddress(str(tmp_path / "memory.db"), "it")
    assert MilvusAddress.parse("milvus:memory.db/it") == expected
    assert MilvusAddress.parse(f"milvus://{tmp_path}/memory.db/it") == expected
    assert MilvusAddress.parse(str(expected)) == expected
    assert expected.is_file


@pytest.mark.parametrize("text", ["milvus://localhost:19530/it", "milvus+https://h:1/a_b"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(MilvusAddress.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "milvus:",
        "milvus://",
        "milvus:///it",
        "milvus://host",
        "milvus://host/",
        "milvus://host/a-b",
        "milvus://host/1a",
        "milvus://host:port/it",
        "milvus://user:secret@host/it",
        "milvus://host/x/it",
        "milvus://host/it?timeout=1",
        "milvus://host/it?deadline=0",
        "milvus://host/it?deadline=x",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingError):
        MilvusAddress.parse(text)


@pytest.mark.parametrize(
    "uri", ["", "host", "ftp://host", "tcp://host:1", "http://", "http://host/path", "http://h:99999"]
)
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(SettingError, match="uri: got"):
        MilvusAddress.of(uri, "it")


@pytest.mark.parametrize("text", ["it/store", "milvus", "C:/x", "http://host/it"])
def test_a_folder_is_no_address(text: str) -> None:
    assert not is_address(text)


@pytest.mark.parametrize(("folder", "name"), [("a/it-store", "it_store"), ("2026", "_2026"), ("wörter", "w_rter")])
def test_the_name_of_a_collection(folder: str, name: str) -> None:
    assert collection_name(Path(folder)) == name


def test_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert MilvusAddress.of("http://h", "it").token() == ""
    monkeypatch.setenv(TOKEN_VARIABLE, "from:variable")
    assert MilvusAddress.of("http://h", "it").token() == "from:variable"
    file = tmp_path / "token"
    file.write_text("root:secret\n")
    address = MilvusAddress.of("http://h", "it", file)
    assert address.token() == "root:secret"
    assert "secret" not in str(address)
    file.unlink()
    with pytest.raises(SettingError, match=r"^token_file: "):
        address.token()


def test_settings_of_a_kind() -> None:
    assert CollectionKind.parse("milvus") == CollectionKind("HNSW", ef=64)
    assert CollectionKind.parse("milvus:hnsw", ef=9).search_params(12) == {"metric_type": "L2", "params": {"ef": 12}}
    assert CollectionKind.parse("milvus:IVF_SQ8") == CollectionKind("IVF_SQ8", nprobe=32, rerank=4)
    assert CollectionKind.parse("milvus:IVF_FLAT").build_params(10_000, 256) == {"nlist": 100}
    assert CollectionKind.parse("milvus:IVF_FLAT").build_params(10**9, 512) == {"nlist": 512}
    assert CollectionKind.parse("milvus:FLAT").name == "milvus:FLAT"


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("milvus:PQ", {}, "allowed: milvus, milvus:HNSW"),
        ("milvus:FLAT", {"ef": 3}, "ef: got 3"),
        ("milvus", {"nprobe": 3}, "nprobe: got 3"),
        ("milvus", {"ef": 0}, "allowed: 1 to"),
        ("milvus", {"rerank": 0}, "rerank: got 0"),
    ],
)
def test_a_kind_that_is_not_possible(kind: str, settings: dict[str, int], message: str) -> None:
    with pytest.raises(IndexingError, match=message):
        CollectionKind.parse(kind, **settings)


def _pair(source: str = "ja", target: str = "yes", tag: str | None = None, own: str | None = None) -> SentencePair:
    return SentencePair(source, target, Origin("file", "1", tag), own)


def test_numbers_depend_on_the_pair_alone() -> None:
    one, other = own_sentence(_pair()), own_sentence(_pair(target="yeah"))
    assert one == own_sentence(_pair()) != other
    assert one != own_sentence(_pair(), attempt=1)
    entries = own_entries(one, 5)
    assert len(set(entries.tolist()) | set(own_entries(other, 5).tolist())) == 10
    assert (entries > np.int64(1) << 61).all()  # not those of a published store


@given(st.text(), st.text(), st.integers(1, 2048))
def test_numbers_fit(source: str, target: str, count: int) -> None:
    sentence = own_sentence(_pair(source, target))
    assert 1 << 51 <= sentence < 1 << 52  # exact in float64, as JavaScript reads them
    entries = own_entries(sentence, count)
    assert (np.diff(entries) == 1).all()
    assert entries[0] > 0
    assert entries[0] >> 11 == sentence == entries[-1] >> 11


def test_more_positions_than_there_are_numbers() -> None:
    with pytest.raises(StoreError, match="2,049 target tokens"):
        own_entries(own_sentence(_pair()), 2049)


@given(st.text(st.characters(codec=None)))
def test_any_text_becomes_utf8(text: str) -> None:
    line_of(_pair(text)).encode("utf-8")
    assert 0 <= text_hash((text,)) < 1 << 63


def test_long_texts_are_refused() -> None:
    sentence_row(1, 2, "", "x" * MAX_TEXT_BYTES)
    with pytest.raises(StoreError, match="65,536 bytes"):
        sentence_row(1, 2, "", "x" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(StoreError, match="tag: got 'xxx"):
        check_tag("x" * 1025)


def test_a_filter_cannot_be_left_by_a_tag() -> None:
    assert tag_filter('a" or id > 0 or tag == "') == 'tag == "a\\" or id > 0 or tag == \\""'
