"""Personal and secret texts: what is found, and what only looks like it."""

import pytest

from lacuna.errors import SettingError
from lacuna.memory import scan_sentences
from lacuna.records import Origin, SentencePair

# Invented, with valid checksums where a checksum counts; the card number is the usual one of test payments.
FOUND = [
    ("email", "Write to jane.doe+news@mail.example.co.uk today.", "jane.doe+news@mail.example.co.uk"),
    ("phone", "Call +49 30 901820-0 now", "+49 30 901820-0"),
    ("phone", "Tel. 0800 1234567.", "0800 1234567"),
    ("iban", "IBAN: GB82 WEST 1234 5698 7654 32", "GB82 WEST 1234 5698 7654 32"),
    ("iban", "DE89370400440532013000", "DE89370400440532013000"),
    ("card", "Card 4111 1111 1111 1111, please", "4111 1111 1111 1111"),
    ("key", "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----"),
    ("key", "use AKIAIOSFODNN7EXAMPLE here", "AKIAIOSFODNN7EXAMPLE"),
    ("token", "password: hunter2Hunter3x", "password: hunter2Hunter3x"),
]
NOT_FOUND = [
    "An @mention and user@host are no addresses.",
    "Version 2.10.3 of 2024-01-31, 1,000,000 entries",
    "GB82 WEST 1234 5698 7654 33 has a wrong checksum.",
    "4111 1111 1111 1112 has a wrong checksum.",
    "0000 0000 0000 0000",
    "Enter your password: ********",
    "The token = identifier",
    "ISBN 978-3-16-148410-0",
]


def pairs(*texts: str) -> list[tuple[int, SentencePair]]:
    return [(number, SentencePair("x", text, Origin("f", "1"))) for number, text in enumerate(texts, start=5)]


@pytest.mark.parametrize(("kind", "text", "part"), FOUND)
def test_found(kind: str, text: str, part: str) -> None:
    [finding] = scan_sentences(pairs(text))
    assert (finding.sentence, finding.kind, finding.side, finding.text) == (5, kind, "target", part)
    assert "text" not in finding.as_json(show=False)


@pytest.mark.parametrize("text", NOT_FOUND)
def test_not_found(text: str) -> None:
    assert list(scan_sentences(pairs(text))) == []


def test_kinds() -> None:
    texts = pairs(*(text for _, text, _ in FOUND))
    assert {finding.kind for finding in scan_sentences(texts, ["iban", "card"])} == {"iban", "card"}
    with pytest.raises(SettingError, match="allowed: email"):
        list(scan_sentences(texts, ["name"]))
