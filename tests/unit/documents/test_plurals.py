"""Plural forms: which formulas are valid, and which text is the source of each form."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lacuna.documents.plurals import Plurals, plural_forms_of


def sources(language: str, singular: str = "%d cup", plural: str = "%d cups") -> str:
    """Return which source each form of a language has: s for the singular, p for the plural."""
    plurals = Plurals.parse(plural_forms_of(language) or "")
    assert plurals is not None
    return "".join("s" if text == singular else "p" for text in plurals.sources(singular, plural))


@pytest.mark.parametrize(
    ("language", "forms"),
    [("de", "sp"), ("fr", "sp"), ("pt_BR", "sp"), ("ja", "p"), ("ru", "spp"), ("pl", "spp"), ("ar", "pspppp")],
)
def test_forms(language: str, forms: str) -> None:
    assert sources(language) == forms


@pytest.mark.parametrize(("language", "forms"), [("ru", "ppp"), ("sl", "pppp"), ("fr", "sp"), ("pl", "spp")])
def test_a_singular_without_number_is_not_for_other_numbers(language: str, forms: str) -> None:
    assert sources(language, singular="one cup") == forms  # in Russian the form of 1 is also that of 21


def test_regions_have_the_formula_of_the_language_unless_they_have_their_own() -> None:
    assert plural_forms_of("de_AT") == plural_forms_of("de@euro") == plural_forms_of("de")
    assert plural_forms_of("sr@latin") == plural_forms_of("ru")
    assert plural_forms_of("pt_BR") != plural_forms_of("pt")
    assert plural_forms_of("xx") is None


def test_any_valid_formula_counts() -> None:
    assert Plurals.parse("nplurals=3; plural=n==0 ? 2 : n==1 ? 1 : 0") == Plurals(3, 1, True)
    assert Plurals.parse("nplurals = 2 ; plural = n%10 != 1;") == Plurals(2, 0, False)


@pytest.mark.parametrize(
    "formula",
    [
        "nplurals=INTEGER; plural=EXPRESSION;",
        "nplurals=2; plural=n;",
        "nplurals=0; plural=0;",
        "nplurals=99; plural=0;",
        "nplurals=2; plural=n%0;",
        "nplurals=2; plural=__import__('os');",
        f"nplurals=2; plural={'(' * 400}n{')' * 400};",
        "",
    ],
)
def test_invalid_formulas(formula: str) -> None:
    assert Plurals.parse(formula) is None


@pytest.mark.skipif(not shutil.which("msgfmt"), reason="needs gettext")
def test_msgfmt_accepts_the_formula_of_each_language(tmp_path: Path) -> None:
    for language in ("de", "fa", "ru", "cs", "pl", "ro", "lt", "lv", "sl", "ar", "zh"):
        field = plural_forms_of(language) or ""
        plurals = Plurals.parse(field)
        assert plurals is not None
        forms = "".join(f'msgstr[{form}] "x"\n' for form in range(plurals.forms))
        content = f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: {field}\\n"\n\n'
        catalog = tmp_path / f"{language}.po"
        catalog.write_text(f'{content}msgid "a"\nmsgid_plural "b"\n{forms}', encoding="utf-8")
        subprocess.run(["msgfmt", "--check-format", "--output-file=/dev/null", catalog], check=True)
