"""Placeholders before and after masking: how many segments keep theirs, and BLEU.

``python benchmarks/placeholders.py CORPUS [--model MODEL --languages fr-en] [--segments 5000]`` draws segments with
placeholders from a corpus and translates them as they are, and then masked and split into sentences as
``lacuna translate`` does. ``--domain FOLDER`` also translates them with a domain, whose memory must not have been built
from these segments.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

from sacrebleu import corpus_bleu

from lacuna.corpora import read_corpus
from lacuna.corpora.placeholders import find_placeholders, same_placeholders
from lacuna.corpora.splitting import draw_pairs
from lacuna.documents import translate_texts
from lacuna.domain import open_domain
from lacuna.models import load_model
from lacuna.records import Languages, SentencePair
from lacuna.translator import System, Translator
from lacuna.workers import use_threads


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("--model")
    parser.add_argument("--languages", type=Languages.parse, default=Languages("de", "en"))
    parser.add_argument("--domain")
    parser.add_argument("--segments", type=int, default=5000)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        use_threads(options.threads)
    warnings.simplefilter("ignore")
    pairs = list(read_corpus(options.corpus, languages=options.languages))
    pairs = draw_pairs([pair for pair in pairs if find_placeholders(pair.source)], options.segments, seed=0)
    report: dict[str, Any] = {"segments": len(pairs), "model": options.model or "bundled"}
    raw = System(load_model(options.model, languages=options.languages, mask_placeholders=False)).open()
    report["before"] = measure(pairs, raw, lines=True)
    masked = System(load_model(options.model, languages=options.languages)).open()
    report["after"] = measure(pairs, masked)
    if options.domain:
        report["after, with the domain"] = measure(pairs, open_domain(options.domain).translator)
    print(json.dumps(report, indent=1))


def measure(pairs: list[SentencePair], translator: Translator, *, lines: bool = False) -> dict[str, Any]:
    """Translate the sources, and compare placeholders and BLEU."""
    started = time.perf_counter()
    found = list(translate_texts(translator, [pair.source for pair in pairs], lines=lines))
    seconds = time.perf_counter() - started
    same = [same_placeholders(pair.source, one.text) for pair, one in zip(pairs, found, strict=True)]
    flagged = [bool(one.flag) for one in found]
    references = [pair.target for pair in pairs]
    return {
        "the same placeholders": sum(same),
        "the same, not flagged": sum(right and not flag for right, flag in zip(same, flagged, strict=True)),
        "flagged": sum(flagged),
        "neither": sum(not right and not flag for right, flag in zip(same, flagged, strict=True)),
        "BLEU": round(corpus_bleu([one.text for one in found], [references]).score, 2),
        "seconds": round(seconds),
    }


if __name__ == "__main__":
    main()
