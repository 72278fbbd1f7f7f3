"""Accuracy and speed of sentence splitters on paragraphs whose sentence borders are known.

A paragraph is five consecutive lines of a file with one sentence per line, joined by a space (Chinese: by nothing).
Two kinds of lines are left out, and their shares are printed: those that do not end with sentence-final punctuation,
such as headlines, and those that are obviously several sentences, because their inner borders are unknown. A line is
obviously several sentences if ``!``, ``?`` or a period after at least four lower-case letters is followed by a space
and a capital (Chinese: if ``。！？`` is followed by anything but a closing quote or bracket). Abbreviations, initials,
ordinals and ellipses stay. Longer abbreviations at such places are lost, so the precision of all candidates is a little
too high. The sentences of some files are in random order, which makes no difference to rules that look at a few words.

A border is the number of characters before it other than white space, so splitters that change white space are
compared as well. Candidates that are not installed or do not know the language are reported as such.

Usage: python benchmarks/splitting.py FILE.tsv[.xz] --language de [--column 0] [--paragraphs 1000]
"""

from __future__ import annotations

import argparse
import lzma
import re
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import islice, pairwise
from pathlib import Path

from lacuna.documents.sentence_splitting import split_sentences

SENTENCES = 5
ENDS = re.compile(r"""[.!?…。！？]["'”“’»›」』）)\]\s]*$""")
SEVERAL = re.compile(r"""(?:[a-zà-öø-ÿ]{4}\.|[!?])["'”“’»›)\]]*\s+["'„“‘«‹(\[\s]*[A-ZÀ-ÖØ-Þ]""")
SEVERAL_ZH = re.compile(r"[。！？](?![。！？”’」』》）)…]|\s*$)")

Split = Callable[[str], Iterable[str]]


def lacuna(language: str) -> Split:
    """Return the splitter of this package: sentencex, with placeholders kept whole."""
    return lambda text: [piece.text for piece in split_sentences(text, language)]


def sentencex(language: str) -> Split:
    """Return the splitter of Wikimedia: rules and abbreviations for many languages, in Rust."""
    library = import_module("sentencex")
    return lambda text: library.segment(language, text)


def blingfire(_language: str) -> Split:
    """Return the splitter of Microsoft: a finite-state machine, the same for all languages."""
    library = import_module("blingfire")
    return lambda text: library.text_to_sentences(text).split("\n")


def pysbd(language: str) -> Split:
    """Return a port of Pragmatic Segmenter: rules for 22 languages, in Python."""
    segmenter = import_module("pysbd").Segmenter(language=language, clean=False)
    return lambda text: segmenter.segment(text)


def syntok(language: str) -> Split:
    """Return a splitter with rules for German, English and Spanish, in Python."""
    library = import_module("syntok.segmenter")
    if language not in ("de", "en", "es"):
        raise ValueError(f"no rules for {language}")

    def split(text: str) -> list[str]:
        starts = [sentence[0].offset for paragraph in library.process(text) for sentence in paragraph]
        return [text[start:end] for start, end in pairwise([*starts, len(text)])]

    return split


def regex(_language: str) -> Split:
    """Return the baseline: every final punctuation mark ends a sentence."""
    return re.compile(r"(?<=[.!?。！？])\s*").split


CANDIDATES: tuple[Callable[[str], Split], ...] = (lacuna, sentencex, blingfire, pysbd, syntok, regex)


def read_paragraphs(path: Path, column: int, language: str) -> Iterator[list[str]]:
    """Yield lists of consecutive sentences, and print the shares of lines that are left out."""
    several = SEVERAL_ZH if language == "zh" else SEVERAL
    count = open_ended = multiple = 0
    kept: list[str] = []
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            count += 1
            sentence = "".join(line.split("\t")[column : column + 1]).strip()
            if not ENDS.search(sentence):
                open_ended += 1
            elif several.search(sentence):
                multiple += 1
            else:
                kept.append(sentence)
    print(
        f"{path.name}, {language}: {count:,} lines; left out {open_ended / count:.1%} without final punctuation, "
        f"{multiple / count:.1%} obviously several sentences"
    )
    for start in range(0, len(kept) - SENTENCES + 1, SENTENCES):
        yield kept[start : start + SENTENCES]


def borders(sentences: Iterable[str]) -> set[int]:
    """Return the positions between sentences, in characters other than white space."""
    ends, position = [], 0
    for sentence in sentences:
        position += len("".join(sentence.split()))
        ends.append(position)
    return {end for end in ends if 0 < end < position}


def measure(split: Split, paragraphs: list[list[str]], joiner: str) -> tuple[float, float, float, float]:
    """Return precision, recall and F1 of the borders, and the characters split per second."""
    texts = [joiner.join(sentences) for sentences in paragraphs]
    list(split(texts[0]))  # what is loaded at the first call is not measured
    started = time.perf_counter()
    found = [list(split(text)) for text in texts]
    seconds = time.perf_counter() - started
    right = guessed = true = 0
    for sentences, gold in zip(found, paragraphs, strict=True):
        guess, known = borders(sentences), borders(gold)
        right, guessed, true = right + len(guess & known), guessed + len(guess), true + len(known)
    precision, recall = right / max(guessed, 1), right / true
    return precision, recall, 2 * right / (guessed + true), sum(map(len, texts)) / seconds


def main() -> None:
    """Print a table with one row for each candidate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--language", required=True)
    parser.add_argument("--column", type=int, default=0)
    parser.add_argument("--paragraphs", type=int, default=1000)
    options = parser.parse_args()
    paragraphs = list(islice(read_paragraphs(options.file, options.column, options.language), options.paragraphs))
    if not paragraphs:
        parser.error(f"{options.file} has no {SENTENCES} sentences in column {options.column}")
    print(f"{len(paragraphs):,} paragraphs of {SENTENCES} sentences\n")
    print("| splitter | precision | recall | F1 | characters/s |\n|---|---|---|---|---|")
    for candidate in CANDIDATES:
        try:
            split = candidate(options.language)
        except ModuleNotFoundError:
            print(f"| {candidate.__name__} | not installed | | | |")
            continue
        except ValueError:
            print(f"| {candidate.__name__} | does not know {options.language} | | | |")
            continue
        precision, recall, f1, speed = measure(split, paragraphs, "" if options.language == "zh" else " ")
        print(f"| {candidate.__name__} | {precision:.2%} | {recall:.2%} | {f1:.2%} | {speed:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
