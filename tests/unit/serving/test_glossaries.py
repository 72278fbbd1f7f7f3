"""Glossaries of a server: which one a request uses, what its answer says about terms, and terms of a request itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from lacuna.combiners import Vanilla
from lacuna.datastore import build_store
from lacuna.documents.sentence_splitting import Piece
from lacuna.errors import SettingError
from lacuna.glossaries import Glossary, Term
from lacuna.index import build_index
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair, TranslatedTerm, Translation
from lacuna.serving import Engine, ServerLimits, create_app
from lacuna.serving.client_terms import check
from lacuna.serving.limits import RequestError
from lacuna.serving.served_directions import Directions
from unit.serving.test_documents import finished, send

# What the bundled model would not say by itself.
DATEI, ORDNER = Term("Datei", ("record",)), Term("Ordner", ("binder",))
PRODUCT = Term("Kiesel", translate=False)
PAIRS = [
    SentencePair("Der Ofen ist heiß.", "The kiln is hot.", Origin("made up", "1")),
    SentencePair("Die Datei ist voll.", "The file is full.", Origin("made up", "2")),
]


@pytest.fixture(scope="module")
def memory(bundled: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("memories") / "pottery"
    build_index(build_store(bundled, PAIRS, folder))
    return open_memory(folder)


@pytest.fixture(scope="module")
def client(bundled: Model, memory: Memory) -> Iterator[TestClient]:
    glossaries = [Glossary([DATEI, PRODUCT], "pottery"), Glossary([ORDNER], "office")]
    engine = Engine(bundled, [memory], {"pottery": Vanilla(k=2, knn_weight=0.1)}, glossaries=glossaries)
    with TestClient(create_app(engine), raise_server_exceptions=False) as client:
        yield client


def translated(client: TestClient, text: str, **options: Any) -> Any:
    answer = client.post("/api/v1/translate", json={"texts": [text], **options})
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"][0]


TEXT = "Die Datei und der Ordner sind leer."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, {"record"}),  # that of the first memory
        ({"memories": ["pottery"]}, {"record"}),
        ({"memories": []}, set()),
        ({"glossary": "none"}, set()),
        ({"glossary": "office"}, {"binder"}),
        ({"glossary": "office", "memories": []}, {"binder"}),
        ({"terms": [{"source": "Ordner", "targets": ["binder"]}]}, {"record", "binder"}),
        ({"glossary": "none", "terms": [{"source": "Ordner", "targets": ["binder"]}]}, {"binder"}),
        ({"terms": [{"source": "datei", "targets": ["ledger"]}]}, {"ledger"}),  # instead of the glossary's
    ],
)
def test_which_glossary_is_used(client: TestClient, options: dict[str, Any], words: set[str]) -> None:
    answer = translated(client, TEXT, **options)
    assert {word for word in ("record", "binder", "ledger") if word in answer["text"].lower()} == words
    assert {term["target"].lower() for term in answer["terms"]} == words
    assert (answer["without_glossary"] is None) == (not words)


def test_terms_have_their_places_in_the_whole_text(client: TestClient) -> None:
    text = "\n  Guten Tag.  Die Datei ist leer.\n\nDie Dateien sind alt. "
    answer = translated(client, text)
    assert len(answer["terms"]) == 2
    for term in answer["terms"]:
        assert text[term["start"] : term["end"]] in ("Datei", "Dateien")
        assert term["target"].lower().startswith("record")
        assert answer["text"][term["target_start"] :].startswith(term["target"])
        assert (term["source"], term["targets"], term["enforced"]) == ("Datei", ["record"], True)
    starts = [term["target_start"] for term in answer["terms"]]
    assert starts == sorted(set(starts))
    assert answer["text"].count("\n") == text.count("\n")
    assert "record" not in answer["without_glossary"].lower()
    assert answer["without_glossary"] == translated(client, text, glossary="none")["text"]


def test_without_terms_the_answer_is_that_without_a_glossary(client: TestClient) -> None:
    text = "Der Ofen ist kalt. Guten Tag."
    assert translated(client, text) == translated(client, text, glossary="none")
    assert (translated(client, text)["terms"], translated(client, text)["without_glossary"]) == ([], None)


def test_a_term_in_html_keeps_its_tags(client: TestClient) -> None:
    html = '<p title="Datei">Das ist eine <b>Datei</b>.</p><p>Öffnen Sie <i>Kiesel</i>.</p>'
    answer = translated(client, html, format="html")
    assert '<p title="record">' in answer["text"]
    assert "<b>record</b>.</p><p>" in answer["text"]
    assert "<i>Kiesel</i>" in answer["text"]
    assert "record" not in answer["without_glossary"].lower()
    first = html.partition("</p>")[0] + "</p>"
    assert answer["without_glossary"].startswith(translated(client, first, format="html", glossary="none")["text"])
    assert {(term["start"], term["end"], term["target_start"]) for term in answer["terms"]} == {(-1, -1, -1)}
    assert [term["target"] for term in answer["terms"]] == ["record", "record", "Kiesel"]


def test_what_a_person_has_written_is_flagged_as_well(client: TestClient) -> None:
    alone = translated(client, "Die Datei ist voll.", glossary="none", confidence=True)
    assert (alone["text"], alone["flag"]) == ("The file is full.", "")
    assert alone["sentences"][0]["match"] == "pottery"
    snowman = [{"source": "Datei", "targets": ["☃☃"]}]  # which the model cannot write
    answer = translated(client, "Die Datei ist voll.", terms=snowman, confidence=True)
    assert (answer["text"], answer["flag"]) == ("The file is full.", "term missing: Datei (☃☃)")
    [sentence] = answer["sentences"]
    assert (sentence["match"], sentence["flag"], sentence["confidence"]) == ("pottery", answer["flag"], None)
    assert [(term["target"], term["target_start"]) for term in answer["terms"]] == [("", -1)]


def test_explanations_have_terms(client: TestClient) -> None:
    told = client.post("/api/v1/explain", json={"text": "Die Datei ist leer."}).json()
    assert "".join(token["text"] for token in told["tokens"] if token["chosen_by"] == "glossary").strip() == "record"
    assert [term["source"] for term in told["terms"]] == ["Datei"]
    assert "record" not in told["without_glossary"] != ""
    plain = client.post("/api/v1/explain", json={"text": "Die Datei ist leer.", "glossary": "none"}).json()
    assert (plain["terms"], plain["without_glossary"]) == ([], "")
    assert plain["text"] == told["without_glossary"]


def test_alternatives_keep_to_the_glossary(client: TestClient) -> None:
    glossary = {"terms": [{"source": "Datei", "targets": ["file", "document"]}], "alternatives": 5}
    free = translated(client, "Die Datei ist leer.", glossary="none", alternatives=5)["alternatives"]
    kept = translated(client, "Die Datei ist leer.", **glossary)["alternatives"]
    assert kept == [text for text in free if "file" in text or "document" in text]
    assert 0 < len(kept) < len(free)
    assert translated(client, "Die Datei ist leer.", alternatives=5)["alternatives"] == []


def test_clients_of_libretranslate_get_the_default_glossary(client: TestClient) -> None:
    body = {"q": "Die Datei ist leer.", "source": "de", "target": "en"}
    assert "record" in client.post("/translate", json=body).json()["translatedText"]


def test_files_are_translated_with_a_glossary(client: TestClient) -> None:
    terms = json.dumps([{"source": "Ordner", "targets": ["binder"]}])
    for fields, words in (
        ({}, {"record"}),
        ({"glossary": "office"}, {"binder"}),
        ({"glossary": "none"}, set()),
        ({"terms": terms}, {"record", "binder"}),
    ):
        document = finished(client, send(client, "a.txt", TEXT, **fields).json()["id"])
        written = client.get(f"/api/v1/documents/{document['id']}/file").text
        assert {word for word in ("record", "binder") if word in written.lower()} == words


def test_an_exact_match_of_a_file_stays_but_is_reported(client: TestClient) -> None:
    document = finished(client, send(client, "a.txt", "Die Datei ist voll.\n\nDer Ofen ist heiß.\n").json()["id"])
    assert client.get(f"/api/v1/documents/{document['id']}/file").text == "The file is full.\n\nThe kiln is hot.\n"
    report = document["report"]
    assert (report["matched"], report["review"]) == (2, 1)
    [reviewed] = report["least_sure"]
    assert (reviewed["source"], reviewed["reason"]) == ("Die Datei ist voll.", "term missing: Datei (record)")


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        ({"glossary": "law"}, 400, "glossary: got 'law'; available: pottery, office, none"),
        ({"glossary": "x" * 65}, 422, "glossary"),
        ({"terms": [{"source": "Datei"}]}, 400, "terms.0: target: got an empty cell"),
        ({"terms": [{"source": " ", "targets": ["x"]}]}, 400, "terms.0: source: got an empty cell"),
        ({"terms": [{"source": "a b", "targets": ["x" * 201]}]}, 400, "terms.0: target: got 201 characters"),
        (
            {"terms": [{"source": "Datei", "targets": ["a", "b"], "forbidden": ["b"]}]},
            400,
            "terms.0: forbidden: got 'b'",
        ),
        ({"terms": [{"source": "Datei", "targets": ["\ue000"]}]}, 400, "U+E000"),
        ({"terms": [{"source": "Datei", "targets": ["x"], "color": "red"}]}, 422, "color"),
        ({"terms": [{"source": "Datei", "targets": ["x"] * 21}]}, 422, "targets"),
        ({"terms": [{"source": f"Wort {n}", "targets": ["x"]} for n in range(201)]}, 422, "terms"),
        (
            {
                "terms": [
                    {"source": "Datei", "targets": ["a"]},
                    {"source": "datei", "targets": ["b"], "inflected": False},
                ]
            },
            400,
            "terms.1: match: differs",
        ),
    ],
)
def test_what_is_refused(client: TestClient, options: dict[str, Any], status: int, says: str) -> None:
    for route, body in (("translate", {"texts": [TEXT]}), ("explain", {"text": TEXT})):
        answer = client.post(f"/api/v1/{route}", json={**body, **options})
        assert (answer.status_code, says in answer.json()["error"]) == (status, True), answer.text


def test_terms_with_the_same_source_are_one() -> None:
    checked = check([Term("Datei", ("file",)), Term("Ordner", ("folder",)), Term(" Datei ", ("record",))])
    assert checked.terms == (Term("Datei", ("file", "record")), Term("Ordner", ("folder",)))
    assert checked.warnings == ()
    assert check([Term("{name}", ("{name}",))]).warnings != ()


def test_a_sentence_in_clauses_has_the_terms_of_all(bundled: Model) -> None:
    def clause(source: str, text: str, start: int, place: int) -> Translation:
        term = TranslatedTerm("Datei", start, start + 5, ("record",), "record", place, True)
        return Translation(source, text, -1.0, 4, terms=(term,), without_glossary=text.replace("record", "file"))

    parts = [clause("Die Datei,", "The record,", 4, 4), clause("eine Datei.", "a record.", 5, 2)]
    whole = "Die Datei, eine Datei."
    pieces = [Piece("Die Datei,", " "), Piece("eine Datei.", "")]
    joined = Engine(bundled)._joined(whole, pieces, iter(parts))
    assert (joined.text, joined.without_glossary) == ("The record, a record.", "The file, a file.")
    assert [whole[term.start : term.end] for term in joined.terms] == ["Datei", "Datei"]
    assert [joined.text[term.target_start :][:6] for term in joined.terms] == ["record", "record"]


def test_options_with_equal_terms_share_a_batch(bundled: Model, memory: Memory) -> None:
    engine = Engine(bundled, [memory], glossaries=[Glossary([DATEI], "pottery")])
    first, same = (engine.resolve_options(terms=[Term("Ordner", ("binder",))]) for _ in range(2))
    assert (first, hash(first)) == (same, hash(same))
    assert first != engine.resolve_options()
    engine.replace_glossary(Glossary([ORDNER], "pottery"))
    assert engine.resolve_options() != first
    assert first.glossary == Glossary([DATEI])  # a request keeps the state that it began with


def test_an_empty_glossary_is_none(bundled: Model, memory: Memory) -> None:
    engine = Engine(bundled, [memory], glossaries=[Glossary([], "pottery")])
    assert engine.resolve_options() == Engine(bundled, [memory]).resolve_options()


@pytest.mark.parametrize("name", ["none", "a/b", ""])
def test_names_of_glossaries(bundled: Model, name: str) -> None:
    with pytest.raises(SettingError, match="glossary"):
        Engine(bundled, glossaries=[Glossary([DATEI], name)])


def test_a_name_is_given_once(bundled: Model) -> None:
    same = Glossary([DATEI], "it")
    with pytest.raises(SettingError, match="given twice"):
        Engine(bundled, glossaries=[same, same])
    with pytest.raises(SettingError, match="glossary 'it': given twice"):
        Directions([Engine(bundled, glossaries=[same]), Engine(bundled, glossaries=[same])], ServerLimits())


def test_a_model_of_unknown_languages_takes_no_terms(bundled: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(bundled)
    monkeypatch.setattr(type(bundled), "languages", None)
    with pytest.raises(RequestError, match="does not say its languages"):
        engine.resolve_options(terms=[DATEI])
