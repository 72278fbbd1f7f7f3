"""Language detection: the right language, also among a few, never more than is known, and from several threads."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.documents import language_detection
from lacuna.documents.language_detection import Detected, detect
from lacuna.errors import MissingExtra

EXAMPLES = {
    "de": "Der Drucker im Erdgeschoss ist seit gestern außer Betrieb.",
    "en": "The printer on the ground floor has been out of order since yesterday.",
    "fr": "L'imprimante du rez-de-chaussée est en panne depuis hier.",
    "zh": "一楼的打印机从昨天起就坏了。",
    "ru": "Принтер на первом этаже не работает со вчерашнего дня.",
    "ja": "一階のプリンターは昨日から故障しています。",
}


def best(text: str, *among: str) -> str:
    return detect(text, among or None)[0].language


@pytest.mark.parametrize("language", EXAMPLES)
def test_a_sentence_is_enough(language: str) -> None:
    assert best(EXAMPLES[language]) == language
    assert best(EXAMPLES[language].upper()) == language
    assert best(EXAMPLES[language], *EXAMPLES) == language


@pytest.mark.parametrize(
    "text", ["我哋今日去邊度食飯呀？佢哋話唔知喎。", "臺灣的夏天又濕又熱，大家都喜歡吃冰。", "侬今朝到啥地方去啊？"]
)
def test_variants_of_chinese_are_chinese(text: str) -> None:
    assert best(text) == "zh"
    assert best(text, "zh-TW", "ja") == "zh"


@pytest.mark.parametrize("text", ["", " \n", "123", "?!", "3.14 + 2", "😀", "\uf000"])
def test_without_letters_there_is_no_language(text: str) -> None:
    assert detect(text) == []
    assert detect(text, ["de"]) == []


@pytest.mark.parametrize("among", [None, ["de", "en"], ["zh", "en"]])
def test_letters_that_say_nothing(among: list[str] | None) -> None:
    assert detect("q", among) == []


def test_only_the_allowed_languages_are_found() -> None:
    assert best(EXAMPLES["de"], "en", "fr") in ("en", "fr")
    assert best("Guten Morgen", "en", "de_DE", "xx") == "de"
    assert detect(EXAMPLES["de"] * 50, ["pt-BR"]) == [Detected("pt", 1.0)]
    assert detect(EXAMPLES["de"], ["xx"]) == []
    assert detect(EXAMPLES["de"], []) == []


@given(st.text(), st.none() | st.lists(st.sampled_from(["de", "en", "zh", "sr", "pt-BR", "xx"])))
def test_confidences(text: str, among: list[str] | None) -> None:
    found = detect(text, among)
    confidences = [confidence for _, confidence in found]
    assert confidences == sorted(confidences, reverse=True)
    assert all(0 < confidence <= 1 for confidence in confidences)
    assert sum(confidences) < 1.001
    assert len({language for language, _ in found}) == len(found)
    assert among is None or {language for language, _ in found} <= {code[:2] for code in among}


def test_a_long_text_takes_no_longer() -> None:
    assert best(EXAMPLES["fr"] * 1_000_000) == "fr"


def test_threads_share_the_model() -> None:
    language_detection._identifier.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            (language, among, pool.submit(detect, text, among))
            for _ in range(25)
            for language, text in EXAMPLES.items()
            for among in (None, list(EXAMPLES), [language, "en"])
        ]
    assert all(job.result() == detect(EXAMPLES[language], among) for language, among, job in jobs)
    assert all(job.result()[0].language == language for language, _, job in jobs)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    language_detection._identifier.cache_clear()
    language_detection._model.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    assert detect("123") == []
    with pytest.raises(MissingExtra, match=r"py3langid.*lacuna-mt\[serve\]"):
        detect("Guten Morgen")
