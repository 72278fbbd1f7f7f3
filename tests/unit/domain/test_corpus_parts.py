"""The parts of a domain's text: sizes, no shared source sentences, and what is given by the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.corpora import source_keys
from lacuna.domain.corpus_parts import MAX_DEV, MAX_TEST, MIN_PART, SHARE, CorpusParts, part_size, read_parts
from lacuna.errors import CorpusError
from made_up import make_pairs, write_pairs

ENOUGH = int(MIN_PART / SHARE)


def sources(parts: CorpusParts) -> list[set[bytes]]:
    return [set(source_keys(part)) for part in (parts.train, parts.dev, parts.test)]


@pytest.mark.parametrize(
    ("sentences", "dev", "test"),
    [(30, 0, 0), (ENOUGH - 1, 0, 0), (ENOUGH, MIN_PART, MIN_PART), (3000, 300, 300), (10**6, MAX_DEV, MAX_TEST)],
)
def test_sizes_grow_with_the_corpus_up_to_a_bound(sentences: int, dev: int, test: int) -> None:
    assert part_size(sentences, MAX_DEV) == dev
    assert part_size(sentences, MAX_TEST) == test


def test_parts_share_no_source_sentence(tmp_path: Path) -> None:
    parts = read_parts([write_pairs(tmp_path / "c.tsv", make_pairs(900))])
    train, dev, test = sources(parts)
    assert not train & dev
    assert not train & test
    assert not dev & test
    assert min(len(parts.dev), len(parts.test)) >= MIN_PART
    assert len(parts.train) + len(parts.dev) + len(parts.test) + parts.shared == parts.cleaning.kept
    assert parts.notes == ()


def test_a_small_corpus_goes_into_the_memory_as_a_whole(tmp_path: Path) -> None:
    parts = read_parts([write_pairs(tmp_path / "c.tsv", make_pairs(30))])
    assert (len(parts.train), parts.dev, parts.test) == (30, [], [])
    assert [note.partition(":")[0] for note in parts.notes] == ["Nothing is fitted", "Nothing is scored"]


def test_the_memory_loses_the_sentences_of_a_given_dev_and_test_set(tmp_path: Path) -> None:
    pairs = make_pairs(40)
    corpora = [write_pairs(tmp_path / f"{n}.tsv", some) for n, some in enumerate((pairs, pairs[:4], pairs[4:7]))]
    parts = read_parts(corpora[:1], dev=corpora[1], test=corpora[2])
    train, dev, test = sources(parts)
    assert (len(parts.dev), len(parts.test)) == (4, 3)
    assert not train & (dev | test)
    assert parts.shared == 40 - len(parts.train) - (40 - parts.cleaning.kept)
    assert parts.notes == ()


def test_several_corpora_are_one(tmp_path: Path) -> None:
    one, other = (write_pairs(tmp_path / f"{seed}.tsv", make_pairs(20, seed=seed)) for seed in (1, 2))
    both = read_parts([one, other])
    assert {pair.origin.file for pair in both.train} == {str(one), str(other)}


def test_nothing_for_the_memory(tmp_path: Path) -> None:
    corpus = write_pairs(tmp_path / "c.tsv", make_pairs(9))
    with pytest.raises(CorpusError, match="nothing for the memory"):
        read_parts([corpus], dev=corpus)


def test_hashes_tell_texts_apart(tmp_path: Path) -> None:
    one, other = (read_parts([write_pairs(tmp_path / "c.tsv", make_pairs(20, seed=seed))]) for seed in (1, 2))
    assert one.hashes()["train"] != other.hashes()["train"]
    assert one.hashes()["dev"] == other.hashes()["dev"]


def test_files_without_translations_are_skipped_and_noted(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    write_pairs(tmp_path / "p/full.tsv", make_pairs(30))
    empty = tmp_path / "p/empty.po"
    empty.write_text('msgid "a"\nmsgstr ""\n', encoding="utf-8")
    for corpora in ([tmp_path / "p"], [empty, tmp_path / "p/full.tsv"]):
        parts = read_parts(corpora)
        assert parts.notes[0] == f"1 of 2 files has no translation and was skipped: {empty}."
    with pytest.raises(CorpusError, match="empty corpus"):
        read_parts([empty])
