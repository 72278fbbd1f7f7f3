"""Chinese words: as jieba splits them, and exactly the text again."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import jieba
import pytest
from hypothesis import given

from lacuna.errors import ModelError
from lacuna.models.tokenization.splitters import JOIN, SPACE, JiebaSplitter
from unit.models.tokenization.sentences import texts

CHINESE = [
    "我们在北京的图书馆里看书。",
    "他说：“今天天气很好！”（真的吗？）",
    "这台电脑的价格是5300元，比去年低3.5%。",
    "请安装Windows 10和Office 2019。",
]
HARD = [
    "文件%s中有%1$d个错误：{0}，{name}……",
    "访问http://example.org/a?b=c查看<b>详情</b>&amp;更多，或写信给me@example.org。",
    "在 Linux 系统 上，运行 GPL-2.0 的 C++ 程序 foo_bar 。",
    "Hello, world! It's a café — déjà vu.",
    "￭中文␣文字￭￭",
]


@pytest.mark.parametrize("text", CHINESE)
def test_ordinary_sentences_are_exactly_as_jieba_makes_them(jieba_words: JiebaSplitter, text: str) -> None:
    theirs = jieba.Tokenizer()
    theirs.FREQ, theirs.total, theirs.initialized = jieba_words._jieba.FREQ, jieba_words._jieba.total, True
    assert jieba_words.split(text) == [word for word in theirs.cut(text) if word != " "]


def test_known_words_stay_together(jieba_words: JiebaSplitter) -> None:
    assert jieba_words.split("我们在北京的图书馆里看书。") == ["我们", "在", "北京", "的", "图书馆", "里", "看书", "。"]


@pytest.mark.parametrize("text", [*CHINESE, *HARD])
def test_texts_come_back_exactly(jieba_words: JiebaSplitter, text: str) -> None:
    assert jieba_words.join(jieba_words.split(text)) == text


@given(texts)
def test_any_text_comes_back_exactly(jieba_words: JiebaSplitter, text: str) -> None:
    assert jieba_words.join(jieba_words.split(text)) == text


def test_only_unusual_gaps_are_marked(jieba_words: JiebaSplitter) -> None:
    assert jieba_words.split("用 Windows 10") == ["用", SPACE, "Windows", "10"]
    assert jieba_words.split("用 a{b}") == ["用", SPACE, "a", "{b}"]
    assert jieba_words.split("éa") == ["é", JOIN, "a"]


def test_placeholders_stay_whole(jieba_words: JiebaSplitter) -> None:
    for whole in ("%s", "%1$d", "{0}", "<b>", "&amp;", "http://example.org/a"):
        assert whole in jieba_words.split(f"打开{whole}文件")


def test_the_shared_tokenizer_and_the_folder_of_temporary_files_stay_untouched(
    jieba_words: JiebaSplitter, caplog: pytest.LogCaptureFixture
) -> None:
    before = set(Path(tempfile.gettempdir()).glob("jieba*"))
    with caplog.at_level(logging.DEBUG):
        JiebaSplitter("北京 5\n".encode()).split("北京")
    assert not jieba.dt.initialized
    assert not caplog.records
    assert set(Path(tempfile.gettempdir()).glob("jieba*")) == before


def test_the_given_dictionary_decides() -> None:
    assert JiebaSplitter("北京图 90\n书馆 90\n".encode()).split("北京图书馆") == ["北京图", "书馆"]
    assert JiebaSplitter("北京 90\n图书馆 90\n".encode()).split("北京图书馆") == ["北京", "图书馆"]


@pytest.mark.parametrize("dictionary", [b"", b"word\n", "北京 -5\n图 9\n".encode(), b"\xff\xfe 3\n"])
def test_a_bad_dictionary_is_refused(dictionary: bytes) -> None:
    with pytest.raises(ModelError, match="jieba's dictionary"):
        JiebaSplitter(dictionary)
