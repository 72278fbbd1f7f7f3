"""Amounts of money keep their digits and their currency."""

from __future__ import annotations

import pytest

from lacuna.corpora.amounts import same_amounts


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("1.234,56 €", "€1,234.56"),
        ("10 000 $ im Jahr", "$10,000 a year"),
        ("EUR 20", "20 euros"),
        ("für $99", "for 99 dollars"),
        ("20 CHF und 30 CHF", "CHF 30 and CHF 20"),
        ("5 Euro", "five euros"),  # without a sign, it is a word like any other
        ("200 ¥", "200 元"),
        ("20 Stück", "twenty"),
    ],
)
def test_the_same(source: str, target: str) -> None:
    assert same_amounts(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("1.234,56 €", "€1,234"),
        ("1.234,56 €", "$1,234.56"),
        ("10 € oder 10 €", "10 €"),
        ("für $99", "for 99"),
        ("20 CHF", "20"),
    ],
)
def test_different(source: str, target: str) -> None:
    assert not same_amounts(source, target)
