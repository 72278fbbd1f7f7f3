"""Learning a tokenization from sentence pairs: counted words, merges, and a vocabulary of all they can give.

The vocabulary holds every known character, alone and at the start of a piece, and what each merge makes: so whatever
subword-nmt cuts is in it, and only unknown characters are unknown. Knows nothing of networks.
"""

from __future__ import annotations

import json
import string
from collections import Counter
from collections.abc import Iterable, Mapping

from lacuna.models.tokenization.bpe import CONTINUED, learn_codes, merged_pieces
from lacuna.models.tokenization.chinese import jieba_dictionary
from lacuna.models.tokenization.spacing import HYPHEN, JOIN, SPACE
from lacuna.models.tokenization.tokenizer import (
    DICTIONARY_FILE,
    END,
    JOINT,
    PAD,
    UNKNOWN,
    WORDS_FILE,
    describe,
    make_words,
    side_files,
    splitter_of,
)
from lacuna.records import Languages, SentencePair

_CHARACTER_COVERAGE = 0.9995  # as in the sentencepiece vocabulary
_CHARACTER_SHARE = 0.75  # of the vocabulary at most; Chinese text has thousands
_ALWAYS_KNOWN = string.printable.strip() + JOIN + SPACE  # placeholders and paths of a domain, rare in general text


def learn_files(pairs: Iterable[SentencePair], size: int, languages: Languages, vocabularies: str) -> dict[str, bytes]:
    """Learn from pairs the files of a tokenization.

    :param size: The most pieces of each vocabulary, the filler not counted.
    """
    dictionary = jieba_dictionary() if "jieba" in map(splitter_of, (languages.source, languages.target)) else None
    source, target = _count_words(pairs, languages, dictionary)
    counts = [source + target] if vocabularies == JOINT else [source, target]
    learned = [_learn(each, size) for each in counts]
    # One filler serves both sides, so that it needs one number; the smaller vocabulary leaves some unused before it.
    pad_id = max(len(pieces) for _, pieces in learned)
    files = {WORDS_FILE: _as_json(describe(languages, vocabularies))}
    for (codes_file, ids_file), (codes, pieces) in zip(side_files(vocabularies), learned, strict=False):
        files[codes_file] = codes.encode()
        files[ids_file] = _as_json({piece: number for number, piece in enumerate(pieces)} | {PAD: pad_id})
    return files if dictionary is None else files | {DICTIONARY_FILE: dictionary}


def _count_words(
    pairs: Iterable[SentencePair], languages: Languages, dictionary: bytes | None
) -> tuple[Counter[str], Counter[str]]:
    source, target = (make_words(language, dictionary) for language in (languages.source, languages.target))
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for pair in pairs:
        counts[0].update(source.split(pair.source))
        counts[1].update(target.split(pair.target))
    return counts


def _learn(counts: Mapping[str, int], size: int) -> tuple[str, list[str]]:
    """Return BPE codes and all pieces in the order of their ids, without the filler."""
    fixed = [END, UNKNOWN, HYPHEN]
    for character in known_characters(counts, int(size * _CHARACTER_SHARE) // 2):
        fixed += [character, character + CONTINUED]
    codes = learn_codes(counts, size - len(fixed))
    return codes, list(dict.fromkeys([*fixed, *merged_pieces(codes)]))


def known_characters(counts: Mapping[str, int], most: int) -> list[str]:
    """Choose the most frequent characters that together cover the text, after those that are always known."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    wanted = _CHARACTER_COVERAGE * characters.total()
    known = dict.fromkeys(_ALWAYS_KNOWN)
    covered = sum(characters.pop(character, 0) for character in known)
    for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        if covered >= wanted or len(known) >= most:
            break
        known[character] = None
        covered += count
    return list(known)


def _as_json(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
