"""The sentence pairs of an experiment: how files are found, cleaned and sampled."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import CorpusError
from lacuna.records import Origin, SentencePair
from lacuna.reproduction.experiment import Experiment, as_sentences, draw, read_sentences
from made_up import make_pairs, write_pairs


def experiment(**changed: object) -> Experiment:
    content = {"title": "T", "languages": "de-en", "corpus": {"train": "d/train", "dev": "d/dev", "test": "d/test"}}
    return Experiment.model_validate(content | changed)


def test_files_are_found_in_every_shape(tmp_path: Path) -> None:
    train, dev, test = (make_pairs(4, seed=seed) for seed in range(3))
    (tmp_path / "d").mkdir()
    for side in ("source", "target"):
        lines = "".join(f"{getattr(pair, side)}\n" for pair in train)
        (tmp_path / "d" / f"train.{'de' if side == 'source' else 'en'}").write_text(lines)
    write_pairs(tmp_path / "d" / "dev.tsv", dev)
    packed = write_pairs(tmp_path / "plain.tsv", test).read_bytes()
    (tmp_path / "d" / "test.tsv.gz").write_bytes(gzip.compress(packed))
    found = read_sentences(experiment(), tmp_path, tmp_path / "corpus")
    for part, pairs in (("train", train), ("dev", dev), ("test", test)):
        assert found[part].sources == [pair.source for pair in pairs]
        assert found[part].references == [pair.target for pair in pairs]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"d/train: no corpus .* train\.de and train\.en.* `data`"):
        read_sentences(experiment(), tmp_path, tmp_path / "corpus")


def test_only_training_pairs_are_cleaned(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    pairs = [*make_pairs(5), *make_pairs(5)]
    for part in ("train", "dev", "test"):
        write_pairs(tmp_path / "d" / f"{part}.tsv", pairs)
    cleaned = read_sentences(experiment(), tmp_path, tmp_path / "corpus")
    assert [len(cleaned[part]) for part in ("train", "dev", "test")] == [5, 10, 10]
    assert cleaned["train"].total == 10
    corpus = {"train": "d/train", "dev": "d/dev", "test": "d/test", "clean": False}
    kept = read_sentences(experiment(corpus=corpus), tmp_path, tmp_path / "corpus")
    assert len(kept["train"]) == 10


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=12, unique=True), st.integers(1, 12))
def test_draws_are_some_pairs_in_their_order(texts: list[tuple[str, str]], most: int) -> None:
    sentences = as_sentences([SentencePair(*text, Origin("made up", "1")) for text in texts])
    drawn = draw(sentences, most)
    assert len(drawn) == min(most, len(texts))
    places = [sentences.pairs.index(pair) for pair in drawn.pairs]
    assert places == sorted(places)
    assert draw(sentences, most) == drawn
    assert draw(sentences, None) is sentences
    assert (drawn.key == sentences.key) == (len(drawn) == len(sentences))
