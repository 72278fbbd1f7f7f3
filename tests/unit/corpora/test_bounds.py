"""Bounds on lines, texts and files: what a reader may take into memory, whatever a small file unpacks to."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from lacuna.corpora import read_corpus
from lacuna.errors import CorpusError
from lacuna.formats.input_files import MAX_LINE_BYTES
from lacuna.formats.mo import MAX_CATALOG_BYTES
from unit.corpora.mo_files import compile_mo

LONG = "x" * (MAX_LINE_BYTES + 1)
TMX = '<tmx version="1.4"><header srclang="en"/><body>\n<tu><tuv xml:lang="en"><seg>{}</seg></tuv>'
TMX += '<tuv xml:lang="de"><seg>b</seg></tuv></tu></body></tmx>'
XLIFF = '<xliff version="1.2"><file source-language="en" target-language="de"><body>\n'
XLIFF += "<trans-unit><source>{}</source><target>b</target></trans-unit></body></file></xliff>"

# The files of a corpus with a text of that length, and the place that the error names.
TOO_LONG = {
    "plain": ({"a.de": f"a\n{LONG}\n", "a.en": "a\nb\n"}, "a.de:2"),
    "TSV": ({"a.tsv": f"a\tb\n{LONG}\tb\n"}, "a.tsv:2"),
    "JSONL": ({"a.jsonl": '{"source": "a", "target": "b"}\n{"source": "' + LONG + '", "target": "b"}\n'}, "a.jsonl:2"),
    "PO line": ({"a.po": f'msgid "a"\nmsgstr "{LONG}"\n'}, "a.po:2"),
    "PO comment": ({"a.po": f'# {LONG}\nmsgid "a"\nmsgstr "b"\n'}, "a.po:1"),
    "PO continuation lines": ({"a.po": 'msgid "a"\nmsgstr ""\n' + f'"{LONG[:999]}"\n' * 1100}, "a.po:1052"),
    "TMX": ({"a.tmx": TMX.format(LONG)}, "a.tmx:2"),
    "XLIFF": ({"a.xlf": XLIFF.format(LONG)}, "a.xlf:2"),
}


@pytest.mark.parametrize("compression", ["", ".gz", ".xz"])
@pytest.mark.parametrize("case", TOO_LONG)
def test_a_text_beyond_the_bound_is_refused_with_its_place(case: str, compression: str, tmp_path: Path) -> None:
    files, place = TOO_LONG[case]
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[compression]
    for name, text in files.items():
        (tmp_path / f"{name}{compression}").write_bytes(pack(text.encode()))
    with pytest.raises(CorpusError) as caught:
        list(read_corpus(*(tmp_path / f"{name}{compression}" for name in files)))
    name, _, line = place.partition(":")
    assert f"{name}{compression}:{line}: " in str(caught.value)
    assert "longer than 1,048,576 bytes, the longest allowed" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_message_of_an_mo_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.mo").write_bytes(compile_mo({"": "", "a": LONG}))
    with pytest.raises(CorpusError, match=r"a\.mo: message 1: the message is longer than 1,048,576 bytes"):
        list(read_corpus(tmp_path / "a.mo"))


def test_a_line_as_long_as_the_bound_is_read(tmp_path: Path) -> None:
    source = "x" * (MAX_LINE_BYTES - len("\tb\n"))
    (tmp_path / "a.tsv").write_bytes(f"{source}\tb\n".encode())
    assert [pair.source for pair in read_corpus(tmp_path / "a.tsv")] == [source]


def test_a_compiled_catalog_that_unpacks_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    blocks = MAX_CATALOG_BYTES // 2**20 + 1
    (tmp_path / "a.mo.gz").write_bytes(gzip.compress(b"\n" * 2**20) * blocks)
    with pytest.raises(CorpusError, match=r"larger than 64,000,000 bytes, the largest catalog allowed; split"):
        list(read_corpus(tmp_path / "a.mo.gz"))


ENDLESS = {
    "a unit": ("a.tmx.gz", b"<tmx><tu>", b"a\n" * 2**19, r"a\.tmx\.gz:1: <tu> has more than 16,000,000 bytes; split"),
    "elements": (
        "a.tmx.gz",
        b"<tmx><tu>",
        b"<x/>" * 2**18,
        r"a\.tmx\.gz:1: <tu> has more than 100,000 elements",
    ),
    "a comment": ("a.xlf.gz", b"<xliff><!--", b"a" * 2**20, r"a\.xlf\.gz:1: the text, tag or comment has more than 16"),
    "a message": ("a.po.gz", b"", b"# a\n" * 2**18, r"a\.po\.gz:1: no end of the message within 16,000,000 bytes"),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_what_never_ends_is_refused(case: str, tmp_path: Path) -> None:
    name, start, filler, error = ENDLESS[case]
    (tmp_path / name).write_bytes(gzip.compress(start) + gzip.compress(filler) * 64)
    with pytest.raises(CorpusError, match=error):
        list(read_corpus(tmp_path / name))


def test_xml_outside_of_units_takes_no_memory(tmp_path: Path) -> None:
    """Such as the original file, which some tools embed in XLIFF: 32 megabytes of it."""
    filler = gzip.compress(b"<x/>some text\n" * 2**16) * 36
    unit = b'<trans-unit id="u"><source>yes</source><target>ja</target></trans-unit></xliff>'
    (tmp_path / "a.xlf.gz").write_bytes(gzip.compress(b"<xliff>") + filler + gzip.compress(unit))
    tracemalloc.start()
    try:
        pairs = [(pair.source, pair.target) for pair in read_corpus(tmp_path / "a.xlf.gz")]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert pairs == [("yes", "ja")]
    assert peak < 4_000_000


BUILD = """
import resource, sys
from lacuna.cli.main import main

resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))  # so that a failing test cannot exhaust the machine
sys.argv = ["lacuna", "build", sys.argv[1], "--into", sys.argv[2]]
try:
    code = main()
except SystemExit as end:
    code = end.code
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(code, peak.split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_an_endless_compressed_line_is_refused_within_700_megabytes(tmp_path: Path) -> None:
    """One megabyte of gzip members that unpack to a line of 1 GiB."""
    (tmp_path / "endless.tsv.gz").write_bytes(gzip.compress(b"a" * 2**20) * 1024)
    command = [sys.executable, "-c", BUILD, str(tmp_path / "endless.tsv.gz"), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    code, kilobytes = done.stdout.split()
    assert code == "2", done.stderr
    assert "endless.tsv.gz:1: the line is longer than 1,048,576 bytes" in done.stderr
    assert int(kilobytes) < 700_000
