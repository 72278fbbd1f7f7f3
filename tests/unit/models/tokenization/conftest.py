"""Fixtures: word splitters, and a small tokenization of each kind learned from made-up sentences."""

from __future__ import annotations

import pytest

from lacuna.models.tokenization.splitters import JiebaSplitter, jieba_dictionary
from lacuna.models.tokenization.tokenizer import DICTIONARY_FILE, WordBpe, learn_tokenization
from lacuna.records import Languages
from made_up import make_pairs
from unit.models.tokenization.sentences import SMALL_DICTIONARY, chinese_pairs


@pytest.fixture(scope="session")
def jieba_words() -> JiebaSplitter:
    return JiebaSplitter(jieba_dictionary())


@pytest.fixture(scope="session")
def joint() -> WordBpe:
    return WordBpe(learn_tokenization(make_pairs(200), 400, Languages("de", "en"), "joint"))


@pytest.fixture(scope="session")
def separate() -> WordBpe:
    files = learn_tokenization(chinese_pairs(200), 400, Languages("zh", "en"), "separate")
    return WordBpe(files | {DICTIONARY_FILE: SMALL_DICTIONARY})  # jieba's own takes a second to read
