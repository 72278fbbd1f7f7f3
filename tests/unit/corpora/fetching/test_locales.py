import re

import pytest

from lacuna.corpora.fetching.registry import LOCALE, best_first, canonical


@pytest.mark.parametrize(
    ("locale", "language"),
    [
        ("de", "de"),
        ("de_DE", "de"),
        ("fr-FR", "fr"),
        ("fr_CA", "fr_CA"),
        ("zh", "zh"),
        ("zh_CN", "zh"),
        ("zh-Hans", "zh"),
        ("zh_Hans_CN", "zh"),
        ("zh_TW", "zh_Hant"),
        ("zh-Hant", "zh_Hant"),
        ("pt-BR", "pt_BR"),
        ("sv_SE", "sv"),
        ("sr@latin", "sr_Latn"),
        ("de_Informal", "de_Informal"),
    ],
)
def test_one_spelling(locale: str, language: str) -> None:
    assert re.fullmatch(LOCALE, locale)
    assert canonical(locale) == language


def test_scripts_stand_before_regions_and_short_before_long() -> None:
    assert sorted(["zh_CN", "zh", "zh_Hans"], key=best_first) == ["zh_Hans", "zh", "zh_CN"]
    assert sorted(["fr_FR", "fr"], key=best_first) == ["fr", "fr_FR"]
