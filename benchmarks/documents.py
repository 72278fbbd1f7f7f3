"""Files: messages per second of a catalog, and the memory of a large text.

``python benchmarks/documents.py CORPUS [--domain DOMAIN | --model MODEL --languages de-en]`` writes a PO catalog with
5,000 sources of a corpus and translates it: with the model alone and, if a domain is given, with it.

``... --gigabytes 1`` repeats the sources in a text file of this size and translates it with upper case in place of the
model, which would take days, so that reading, splitting, masking, writing and memory are measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polib

from lacuna.corpora import read_corpus
from lacuna.corpora.placeholders import mask
from lacuna.documents import DocumentTranslator, Splitter, translate_file
from lacuna.domain import open_domain
from lacuna.models import load_model
from lacuna.records import Languages, Translation
from lacuna.translator import System, Translator


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("--domain")
    parser.add_argument("--model")
    parser.add_argument("--languages", type=Languages.parse, default=Languages("de", "en"))
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--gigabytes", type=float)
    options = parser.parse_args()
    pairs = read_corpus(options.corpus, languages=options.languages)
    sources = list(dict.fromkeys(pair.source for pair in pairs))
    with tempfile.TemporaryDirectory() as folder:
        if options.gigabytes:
            print(json.dumps(large_text(Path(folder), sources, options), indent=1))
        else:
            print(json.dumps(catalog(Path(folder), sources[: options.messages], options), indent=1))


def catalog(folder: Path, sources: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Translate a catalog."""
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Language": options.languages.target}
    made += [polib.POEntry(msgid=source) for source in sources]
    made.save(str(folder / "a.po"))
    report: dict[str, Any] = {"messages": len(sources)}
    model = load_model(options.model, languages=options.languages)
    report["model alone"] = _timed(System(model).open(), folder)
    if options.domain:
        system = open_domain(options.domain).system
        report["domain"] = _timed(replace(system, calibration=None).open(), folder)
        if system.calibration is not None:
            report["domain, with confidence"] = _timed(system.open(), folder)
    return report


def _timed(translator: Translator, folder: Path) -> dict[str, Any]:
    translator.translate(["Ja."])  # prepares the weights
    started = time.perf_counter()
    done = translate_file(translator, folder / "a.po", folder / "b.po")
    seconds = time.perf_counter() - started
    counts = {name: value for name, value in done.as_json().items() if name != "least_sure"}
    return {"messages per second": round(done.segments / seconds, 1), "peak MiB": _peak(), **counts}


def large_text(folder: Path, sources: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Translate a large text by upper case."""
    size = int(options.gigabytes * 1e9)
    path, written = folder / "a.txt", 0
    with path.open("wb") as file:
        while written < size:
            for start in range(0, len(sources), 4):
                written += file.write(" ".join(sources[start : start + 4]).replace("\n", " ").encode() + b"\n")

    def shout(groups: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
        for group in groups:
            masked = [mask(text) for text in group]
            yield [
                Translation(text, one.restore(one.text.upper()) or text, 0.0, 1)
                for text, one in zip(group, masked, strict=True)
            ]

    documents = DocumentTranslator(shout, Splitter(options.languages, lambda text: len(text) < 1000))
    before, started = _peak(), time.perf_counter()
    report = documents.translate_file(path, folder / "b.txt")
    seconds = time.perf_counter() - started
    return {
        "bytes": written,
        "segments": report.segments,
        "MB per second": round(written / 1e6 / seconds, 2),
        "peak MiB before": before,
        "peak MiB": _peak(),
        "bytes written": (folder / "b.txt").stat().st_size,
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
