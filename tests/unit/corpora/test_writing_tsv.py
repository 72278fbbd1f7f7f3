"""Writing TSV: reading gives back what was written, and a failure leaves no file."""

import gzip
import lzma
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lacuna.corpora import read_corpus, write_tsv
from lacuna.errors import CorpusError
from lacuna.records import Origin, SentencePair


def pair(source: str, target: str, tag: str | None = None) -> SentencePair:
    return SentencePair(source, target, Origin("a.tmx", "u1", tag))


CLEAN = st.text(st.characters(exclude_characters="\t\n\r\ufeff", exclude_categories=["Cs"]), max_size=8)
RAW = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\t\n\r\ufeff\u2028 "), max_size=8)


@given(
    st.lists(st.builds(pair, CLEAN, CLEAN, st.none() | CLEAN.filter(bool)), min_size=1, max_size=6),
    st.sampled_from(["", ".gz", ".xz"]),
)
def test_reading_gives_back_what_was_written(pairs: list[SentencePair], compression: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.tsv{compression}"
        assert write_tsv(path, pairs) == len(pairs)
        back = list(read_corpus(path))
    assert [(p.source, p.target, p.origin.tag) for p in back] == [(p.source, p.target, p.origin.tag) for p in pairs]
    assert [p.origin.place for p in back] == [str(number) for number in range(1, len(pairs) + 1)]


@example([pair("", "", "\ufeff")])
@given(st.lists(st.builds(pair, RAW, RAW, st.none() | RAW), min_size=1, max_size=6))
def test_any_text_makes_lines_that_read_and_write_the_same(pairs: list[SentencePair]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder) / "one.tsv", Path(folder) / "two.tsv"
        write_tsv(one, pairs)
        assert write_tsv(two, read_corpus(one)) == len(pairs)
        assert one.read_bytes() == two.read_bytes()


def test_what_the_format_cannot_hold_becomes_a_space(tmp_path: Path) -> None:
    write_tsv(tmp_path / "a.tsv", [pair("\ufeffa\tb\r\nc", "d\re\nf", "g\th"), pair("i", "j")])
    assert (tmp_path / "a.tsv").read_bytes() == b"a b c\td e f\tg h\ni\tj\n"


@pytest.mark.parametrize(("compression", "unpack"), [(".gz", gzip.decompress), (".xz", lzma.decompress)])
def test_equal_pairs_make_equal_bytes(tmp_path: Path, compression: str, unpack: object) -> None:
    one, two = tmp_path / f"one.tsv{compression}", tmp_path / f"two.tsv{compression}"
    write_tsv(one, [pair("ä", "b")] * 1000)
    write_tsv(two, iter([pair("ä", "b")] * 1000))
    assert one.read_bytes() == two.read_bytes()
    assert callable(unpack)
    assert unpack(one.read_bytes()) == "ä\tb\n".encode() * 1000


@pytest.mark.parametrize("compression", ["", ".gz", ".xz"])
def test_a_failure_leaves_what_was_there(tmp_path: Path, compression: str) -> None:
    def failing() -> Iterator[SentencePair]:
        yield pair("a", "b")
        raise CorpusError("line 2 is broken")

    path = tmp_path / f"a.tsv{compression}"
    write_tsv(path, [pair("old", "alt")])
    before = path.read_bytes()
    with pytest.raises(CorpusError, match="line 2 is broken"):
        write_tsv(path, failing())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_may_be_rewritten_from_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    write_tsv(path, [pair("a", "b")])
    write_tsv(path, read_corpus(path, tag="x"))
    assert path.read_bytes() == b"a\tb\tx\n"


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"the pair from a\.tmx:u1 has half a surrogate pair"):
        write_tsv(tmp_path / "a.tsv", [pair("\ud83d", "b")])
    assert not list(tmp_path.iterdir())


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"a\.csv: write_tsv writes \.tsv, \.tsv\.gz or \.tsv\.xz"):
        write_tsv(tmp_path / "a.csv", [pair("a", "b")])
