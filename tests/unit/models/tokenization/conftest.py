"""Fixtures: word splitters, and a small tokenization of each kind learned from made-up sentences."""

from __future__ import annotations

import pytest

from lacuna.models.tokenization.chinese import JiebaWords, jieba_dictionary
from lacuna.models.tokenization.learning import learn_files
from lacuna.models.tokenization.tokenizer import DICTIONARY_FILE, WordPieces
from lacuna.records import Languages
from made_up import make_pairs
from unit.models.tokenization.sentences import SMALL_DICTIONARY, chinese_pairs


@pytest.fixture(scope="session")
def jieba_words() -> JiebaWords:
    return JiebaWords(jieba_dictionary())


@pytest.fixture(scope="session")
def joint() -> WordPieces:
    return WordPieces(learn_files(make_pairs(200), 400, Languages("de", "en"), "joint"))


@pytest.fixture(scope="session")
def separate() -> WordPieces:
    files = learn_files(chinese_pairs(200), 400, Languages("zh", "en"), "separate")
    return WordPieces(files | {DICTIONARY_FILE: SMALL_DICTIONARY})  # jieba's own takes a second to read
