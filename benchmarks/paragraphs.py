"""Paragraphs beside single sentences: BLEU of the same text given in both ways.

``python benchmarks/paragraphs.py CORPUS [--model MODEL --languages de-en] [--sentences 1000]`` joins every five
consecutive sentences of a corpus into a paragraph (lines without a period, such as headlines, are left out), translates
the paragraphs and the single sentences, and compares both with the joined references.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from sacrebleu import corpus_bleu

from lacuna.corpora import read_corpus
from lacuna.documents import translate_texts
from lacuna.models import load_model
from lacuna.records import Languages
from lacuna.translator import System
from lacuna.workers import use_threads

_SENTENCES = 5


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("--model")
    parser.add_argument("--languages", type=Languages.parse, default=Languages("de", "en"))
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        use_threads(options.threads)
    pairs = [pair for pair in read_corpus(options.corpus, languages=options.languages) if _is_sentence(pair.source)]
    pairs = pairs[: options.sentences]
    sources, targets = [pair.source.strip() for pair in pairs], [pair.target.strip() for pair in pairs]
    translator = System(load_model(options.model, languages=options.languages)).open()
    space = "" if options.languages.source.startswith("zh") else " "
    paragraphs = list(translate_texts(translator, _joined(sources, space)))
    lines = [one.text for one in translate_texts(translator, sources, lines=True)]
    references = _joined(targets, " ")
    found = sum(1 for paragraph in paragraphs for sentence in paragraph.sentences if sentence.scored)
    report: dict[str, Any] = {"sentences": len(pairs), "sentences found in paragraphs": found}
    for name, texts in (("paragraphs", [one.text for one in paragraphs]), ("lines", _joined(lines, " "))):
        report[f"BLEU of {name}"] = round(corpus_bleu(texts, [references]).score, 2)
    print(json.dumps(report, indent=1))


def _is_sentence(text: str) -> bool:
    return text.rstrip().rstrip("\"'”“»)」』").endswith((".", "!", "?", "…", "。", "！", "？"))


def _joined(texts: list[str], space: str) -> list[str]:
    return [space.join(texts[start : start + _SENTENCES]) for start in range(0, len(texts), _SENTENCES)]


if __name__ == "__main__":
    main()
