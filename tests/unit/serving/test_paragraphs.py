"""Texts of several sentences, HTML, confidence, flags and alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from lacuna.combiners import Vanilla
from lacuna.errors import CalibrationError
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.serving import Engine, create_app
from lacuna.translator import System
from lacuna.translator.calibration import Calibration
from unit.models.tiny_models import SOURCES, TARGETS

CALIBRATION = Calibration((1.0, 0.5), (-5.0, 5.0), (0.1, 0.9), 8)


def translate(client: TestClient, *texts: str, **body: Any) -> list[Any]:
    answer = client.post("/api/v1/translate", json={"texts": texts, **body})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["translations"])


def whole(one: Any) -> str:
    return "".join(part["text"] + part["gap"] for part in one["sentences"])


def test_a_paragraph_is_translated_sentence_by_sentence(client: TestClient) -> None:
    text = "  Das kleine haus steht am see. Der hund schläft!\n\n12:30\tJa"
    [one] = translate(client, text)
    parts = [(part["source"], part["gap"]) for part in one["sentences"]]
    assert parts == [
        ("", "  "),
        ("Das kleine haus steht am see.", " "),
        ("Der hund schläft!", "\n\n"),
        ("12:30\tJa", ""),
    ]
    alone = translate(client, *(source for source, _ in parts[1:]))
    assert [part["text"] for part in one["sentences"]] == ["", *(other["text"] for other in alone)]
    assert one["text"] == whole(one)
    assert one["tokens"] == sum(other["tokens"] for other in alone)


def test_what_has_no_letters_stays(client: TestClient) -> None:
    texts = ["", " \n ", "12,5 %", "{name}", "…\n--"]
    assert [one["text"] for one in translate(client, *texts)] == texts


@settings(max_examples=15, deadline=None)
@given(text=st.text("aJ.? \n\t1", max_size=30))
def test_the_parts_are_the_translation_and_white_space_stays(client: TestClient, text: str) -> None:
    [one] = translate(client, text, combiner={"k": 1, "knn_weight": 1.0}, beam=1)
    assert one["text"] == whole(one)
    assert "".join(part["source"] + part["gap"] for part in one["sentences"]).split() == text.split()
    assert one["text"][: len(one["text"]) - len(one["text"].lstrip())] == text[: len(text) - len(text.lstrip())]


def test_with_lines_a_line_is_a_sentence(client: TestClient) -> None:
    text = "Ja. Ja.\n\nja\n"
    [one] = translate(client, text, lines=True)
    assert [(part["source"], part["gap"]) for part in one["sentences"]] == [("Ja. Ja.", "\n"), ("", "\n"), ("ja", "\n")]
    assert len(translate(client, text)[0]["sentences"]) == 3
    assert translate(client, text)[0]["sentences"][0]["source"] == "Ja."


def test_a_sentence_that_is_too_long_is_translated_in_clauses(client: TestClient, model: Model) -> None:
    long = ", ".join(SOURCES[:3] * 4)
    assert len(model.encode_sources([long])[0]) > model.max_length
    [one] = translate(client, long, alternatives=2)
    assert one["alternatives"] == []
    assert [part["source"] for part in one["sentences"]] == [long]
    assert one["tokens"] > model.max_length  # more than one piece
    assert one["flag"] == ""


def test_html_keeps_its_tags(client: TestClient) -> None:
    page = f'<div class="a"><p>{SOURCES[0]}</p>\n<!-- ja --><ul><li>{SOURCES[1]}<li>1 &lt; 2</ul><img alt="ja"></div>'
    [one, other] = translate(client, page, "ja", format="html")
    assert one["text"] == (
        f'<div class="a"><p>{TARGETS[0]}</p>\n<!-- ja --><ul><li>{TARGETS[1]}<li>1 &lt; 2</ul><img alt="yes"></div>'
    )
    assert "sentences" not in one
    assert other["text"] == "yes"


def test_placeholders_stay_and_trouble_is_flagged(client: TestClient) -> None:
    [one] = translate(client, "das %s haus {name} steht am see")
    assert "%s" in one["text"]
    assert "{name}" in one["text"]
    assert one["flag"] == one["sentences"][0]["flag"] == "placeholders lost; translated in parts"
    assert translate(client, SOURCES[0])[0]["flag"] == ""


@pytest.fixture(scope="module")
def calibrated(model: Model, memories: list[Memory]) -> Iterator[TestClient]:
    engine = Engine(model, memories, {"all": Vanilla(k=1, knn_weight=1.0)}, {"all": CALIBRATION})
    with TestClient(create_app(engine)) as client:
        yield client


def test_a_confidence_if_asked_for(calibrated: TestClient, model: Model, memories: list[Memory]) -> None:
    texts = [f"{text} und" for text in SOURCES]
    assert translate(calibrated, texts[0])[0]["confidence"] is None
    system = System(model, memories[:1], Vanilla(k=1, knn_weight=1.0), calibration=CALIBRATION)
    expected = [one.confidence for one in system.open().translate(texts, confidence=True)]
    found = translate(calibrated, *texts, confidence=True)
    assert [one["confidence"] for one in found] == pytest.approx(expected)
    [both] = translate(calibrated, f"{texts[1]}\n{texts[3]}", confidence=True)
    parts = [part["confidence"] for part in both["sentences"]]
    assert parts == pytest.approx([expected[1], expected[3]])
    assert min(parts) < both["confidence"] < max(parts)


def test_a_translation_by_a_person_needs_no_confidence(calibrated: TestClient) -> None:
    [exact, other, both] = translate(calibrated, SOURCES[0], "ein see", f"{SOURCES[0]}\nein see", confidence=True)
    assert (exact["text"], exact["confidence"], exact["flag"]) == (TARGETS[0], None, "")
    assert [(one["match"], one["confidence"]) for one in exact["sentences"]] == [("all", None)]
    assert [one["match"] for one in both["sentences"]] == ["all", ""]
    assert both["confidence"] == pytest.approx(other["confidence"])
    # Settings of the client, by which the memory has no say: the model's own translation is not a person's.
    [own] = translate(calibrated, SOURCES[0], confidence=True, combiner={"knn_weight": 0})
    assert own["sentences"][0]["match"] == ""
    assert own["confidence"] is not None
    [html] = translate(calibrated, f"<p>{SOURCES[0]}</p>", confidence=True, format="html")
    assert (html["confidence"], html["flag"]) == (None, "")


def test_a_confidence_belongs_to_a_memory(calibrated: TestClient, client: TestClient) -> None:
    assert calibrated.get("/api/v1/info").json()["calibrated"] is True
    for memories in (["half"], []):
        assert translate(calibrated, "ja", confidence=True, memories=memories)[0]["confidence"] is None
        body = {"text": "ja", "memories": memories}
        assert calibrated.post("/api/v1/explain", json=body).json()["confidence"] is None
    assert translate(calibrated, "ein see", confidence=True, memories=["half", "all"])[0]["confidence"] is not None
    assert calibrated.post("/api/v1/explain", json={"text": "ja"}).json()["confidence"] is not None
    assert translate(client, "ja", confidence=True)[0]["confidence"] is None


def test_a_calibration_of_another_model_is_refused(model: Model, memories: list[Memory]) -> None:
    other = Calibration((1.0, 0.5), (-5.0, 5.0), (0.1, 0.9), 8, "0" * 64)
    with pytest.raises(CalibrationError, match="another model"):
        Engine(model, memories, {}, {"all": other})


def test_alternatives_differ_from_the_translation(client: TestClient) -> None:
    [one, two, none] = translate(client, " ja\n", "Ja. Ja.", "12", alternatives=5, combiner={"knn_weight": 0.2})
    assert 0 < len(one["alternatives"]) <= 5
    assert len({one["text"], *one["alternatives"]}) == len(one["alternatives"]) + 1
    assert all(text.startswith(" ") and text.endswith("\n") for text in one["alternatives"])
    assert two["alternatives"] == none["alternatives"] == []
    assert "alternatives" not in translate(client, "ja")[0]


def test_matches(client: TestClient) -> None:
    def found(text: str, **body: Any) -> list[tuple[str, int, float]]:
        answer = client.post("/api/v1/matches", json={"text": text, **body}).json()["matches"]
        return [(one["memory"], one["sentence"], round(one["similarity"], 2)) for one in answer]

    assert found(f" {SOURCES[0]}") == [("all", 0, 1.0)]
    assert found("das kleine haus steht am meer") == [("all", 0, 0.93)]
    assert found("das kleine haus steht am meer", memories=["half"]) == [("half", 0, 0.93)]
    assert found("etwas ganz anderes") == found(SOURCES[0], memories=[]) == []


@pytest.mark.parametrize(
    ("text", "language"), [("Wo ist der Bahnhof?", "de"), ("Where is the station?", "en"), ("12 + 3", None)]
)
def test_detect(client: TestClient, text: str, language: str | None) -> None:
    found = client.post("/api/v1/detect", json={"text": text}).json()["languages"]
    assert (found[0]["language"] if found else None) == language
    assert all(0 < one["confidence"] <= 1 for one in found)
