"""Language codes: spellings, regions, and the direction of a file."""

import pytest

from lacuna.formats.languages import base_language, is_reversed, language_matches, normalize_language
from lacuna.records import Languages


def test_spellings() -> None:
    assert {normalize_language(code) for code in ("pt_BR", "pt-BR", " PT-br ")} == {"pt-br"}
    assert [base_language(code) for code in ("pt_BR", "sr@latin", "DE")] == ["pt", "sr", "de"]
    assert language_matches("de", "de_AT")
    assert not language_matches("de_AT", "de")
    assert not language_matches("de", "den")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("en", "de", False),
        ("de-AT", "en-US", True),
        ("en", "", False),
        ("", "en", True),
        ("en", "fr", None),
        ("fr", "", None),
    ],
)
def test_the_direction_of_a_file(source: str, target: str, expected: bool | None) -> None:
    assert is_reversed(source, target, Languages("en_GB", "de")) is expected


def test_regions_tell_two_forms_of_a_language_apart() -> None:
    assert is_reversed("pt-BR", "pt-PT", Languages("pt_PT", "pt_BR")) is True
    assert is_reversed("pt-PT", "pt-BR", Languages("pt_PT", "pt_BR")) is False
