"""A server of several models: which one a request is for, and that everything else works over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from lacuna.cli.options import ModelOptions
from lacuna.cli.serve import _domain_engine, _open_domains, _open_glossaries
from lacuna.combiners import Vanilla
from lacuna.errors import SettingError
from lacuna.glossaries import Glossary, Term, write_glossary
from lacuna.memory import FolderMemory, open_memory
from lacuna.models import Model
from lacuna.serving import Access, Engine, create_app
from lacuna.translator import System
from unit.models.tiny_models import SOURCES, TARGETS
from unit.serving.conftest import PAIRS, remember

GERMAN, CHINESE = "Wir fahren morgen mit dem Zug nach Berlin.", "我们明天坐火车去北京。"


def asked(client: TestClient, **body: Any) -> Any:
    answer = client.post("/api/v1/translate", json={"texts": [GERMAN], **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("body", "source"),
    [
        ({}, "de"),
        ({"memories": []}, "de"),
        ({"memories": ["law"]}, "zh"),
        ({"memories": ["all", "half"]}, "de"),
        ({"source": "zh"}, "zh"),
        ({"source": "zh_CN", "target": "en"}, "zh"),
        ({"source": "zh-Hans", "memories": []}, "zh"),
        ({"source": "deu_Latn"}, "de"),
        ({"target": "en"}, "de"),
        ({"memories": ["law"], "source": "zh", "target": "eng"}, "zh"),
    ],
)
def test_memories_or_languages_say_the_direction(both: TestClient, body: dict[str, Any], source: str) -> None:
    answer = asked(both, **body)
    assert (answer["source"], answer["target"]) == (source, "en")
    default = ["all"] if source == "de" else ["law"]
    assert answer["memories"] == body.get("memories", default)
    assert "detected" not in answer


@pytest.mark.parametrize(("text", "source"), [(GERMAN, "de"), (CHINESE, "zh")])
def test_the_language_is_detected_among_those_of_the_server(both: TestClient, text: str, source: str) -> None:
    answer = asked(both, texts=["", text], source="auto", target="en")
    assert (answer["source"], answer["detected"]["language"]) == (source, source)
    assert answer["detected"]["confidence"] > 0.9
    named = asked(both, texts=[text], source="auto", memories=["law"])
    assert (named["source"], named["detected"]["language"]) == ("zh", "zh")


def test_what_has_no_language_goes_to_the_first_direction(both: TestClient) -> None:
    answer = asked(both, texts=["123"], source="auto")
    assert (answer["source"], answer["detected"]) == ("de", {"language": "de", "confidence": 0.0})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"memories": ["all", "law"]}, "memories: got all, law, which are of several directions; name those of one"),
        ({"memories": ["none"]}, "memories: got 'none'; available: all, half, law"),
        ({"source": "fr"}, "source: got 'fr'; this server translates de to en, zh to en"),
        ({"source": "auto", "target": "fr"}, "target: got 'fr'; this server translates de to en, zh to en"),
        ({"memories": ["law"], "source": "de"}, "source: got 'de'; these memories translate zh to en"),
        ({"memories": ["law"], "combiner": "all"}, "combiner: got 'all'; available: law"),
    ],
)
@pytest.mark.parametrize("route", ["translate", "explain"])
def test_refusals_name_all_directions(both: TestClient, route: str, body: dict[str, Any], says: str) -> None:
    text = {"texts": ["ja"]} if route == "translate" else {"text": "ja"}
    answer = both.post(f"/api/v1/{route}", json={**text, **body})
    assert (answer.status_code, answer.json()) == (400, {"error": says})


def test_explanations_and_matches_have_a_direction(both: TestClient) -> None:
    body = {"text": SOURCES[0], "memories": ["law"]}
    explained = both.post("/api/v1/explain", json=body).json()
    assert {near["memory"] for token in explained["tokens"] for near in token["neighbors"]} == {"law"}
    found = both.post("/api/v1/matches", json={"text": SOURCES[0], "source": "zh"}).json()["matches"]
    assert [(one["memory"], one["sentence"], one["text"], one["similarity"]) for one in found] == [
        ("law", 0, TARGETS[0], 1.0)
    ]


def test_info_lists_all_directions(both: TestClient) -> None:
    info = both.get("/api/v1/info").json()
    assert [(one["source"], one["target"], one["model"], one["memories"]) for one in info["directions"]] == [
        ("de", "en", "marian", ["all", "half"]),
        ("zh", "en", "m2m100", ["law"]),
    ]
    assert [one["name"] for one in info["memories"]] == ["all", "half"]
    assert [one["name"] for one in both.get("/api/v1/memories").json()] == ["all", "half", "law"]
    assert both.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "zh", "name": "Chinese", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


def test_memories_are_found_in_every_direction(both: TestClient) -> None:
    assert both.get("/api/v1/memories/law").json()["sentences"] == 4
    assert both.get("/api/v1/memories/law/sentences/1").json()["source"] == SOURCES[1]
    assert both.get("/api/v1/memories/none").json() == {"error": "memory: got 'none'; available: all, half, law"}
    assert both.get("/health").status_code == 200
    assert 'lacuna_sentences_total{kind="translated"}' in both.get("/metrics").text


def test_edits_reach_the_direction_of_their_memory(engine: Engine, chinese: Engine, tmp_path: Path) -> None:
    memory = remember(chinese.model, PAIRS, tmp_path / "own")
    own = Engine(chinese.model, [memory], {"own": Vanilla(k=1, knn_weight=1.0)})
    with TestClient(create_app([engine, own], access=Access(writable=True)), "http://127.0.0.1") as client:
        pair = {"source": "der hund steht am see", "target": "the dog stands"}
        added = client.post("/api/v1/memories/own/pairs", json={"pairs": [pair]})
        assert (added.status_code, added.json()["memory"]) == (200, "own")
        answer = asked(client, texts=[pair["source"]], memories=["own"])
        assert answer["translations"][0]["text"] == pair["target"]
        assert client.post("/api/v1/memories/none/pairs", json={"pairs": [pair]}).status_code == 404


def test_memory_names_are_unique_over_all_directions(engine: Engine, chinese: Engine) -> None:
    same = Engine(chinese.model, [FolderMemory.of(chinese.memories["law"].store, "all")])
    with pytest.raises(SettingError, match="memory 'all': given twice"):
        create_app([engine, same])


@dataclass
class FakeDomain:
    path: Path
    model: Model
    glossary: Glossary | None = None

    def open_system(self, name: str) -> System:
        return System(self.model, [open_memory(self.path, name)], Vanilla(k=1), glossary=self.glossary)


def test_domains_of_one_model_load_it_once(
    engine: Engine, chinese: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = {name: memory.store.path for one in (engine, chinese) for name, memory in one.memories.items()}
    models = {folders["all"]: engine.model, folders["half"]: engine.model, folders["law"]: chinese.model}
    loaded: list[Path] = []

    def manifest(folder: Path) -> Any:
        model = models[folder]
        return SimpleNamespace(model=SimpleNamespace(fingerprint=model.fingerprint), languages=str(model.languages))

    def load(folder: Path, device: str, model: Model | None) -> FakeDomain:
        if model is None:
            loaded.append(folder)
        return FakeDomain(folder, model or models[folder])

    monkeypatch.setattr("lacuna.domain.open_domain", load)
    monkeypatch.setattr("lacuna.domain.manifest.read_domain_manifest", manifest)
    given = [f"it={folders['all']}", f"law={folders['law']}", str(folders["half"])]
    opened = _open_domains(ModelOptions(device="cpu"), given, [], fallback=False)
    assert [list(one.memories) for one in opened] == [["it", "half"], ["law"]]
    assert [list(one.combiners) for one in opened] == [["it", "half"], ["law"]]
    assert loaded == [folders["all"], folders["law"]]
    with pytest.raises(SettingError, match="the name it twice"):
        _open_domains(ModelOptions(device="cpu"), [given[0], f"it={folders['half']}"], [], fallback=False)
    with pytest.raises(SettingError, match="--glossary: given with domains of several languages"):
        _open_domains(ModelOptions(device="cpu"), given, ["it=terms.tsv"], fallback=False)


def test_domains_are_served_with_their_glossaries(engine: Engine, tmp_path: Path) -> None:
    folders = {name: memory.store.path for name, memory in engine.memories.items()}
    own = Glossary([Term("Datei", ("file",))], "glossary.tsv", folders["all"] / "glossary.tsv")
    domains = {
        "all": FakeDomain(folders["all"], engine.model, own),
        "half": FakeDomain(folders["half"], engine.model),
    }
    glossaries = _domain_engine(domains, {}, False).glossaries  # type: ignore[arg-type]
    assert {name: (glossary.name, glossary.terms) for name, glossary in glossaries.items()} == {
        "all": ("all", own.terms),
        "half": ("half", ()),  # to be filled
    }
    assert [glossary.file for glossary in glossaries.values()] == [
        folder / "glossary.tsv" for folder in folders.values()
    ]
    write_glossary(tmp_path / "half.tsv", Glossary([Term("Ordner", ("folder",))]))
    given = _open_glossaries([str(tmp_path / "half.tsv"), f"law={tmp_path / 'half.tsv'}"], engine.model.languages)
    replaced = _domain_engine(domains, given, False)  # type: ignore[arg-type]
    assert {name: len(glossary) for name, glossary in replaced.glossaries.items()} == {"all": 1, "half": 1, "law": 1}
    assert replaced.glossaries["half"].file == tmp_path / "half.tsv"
    assert replaced.resolve_options(["half"]).glossary == Glossary([Term("Ordner", ("folder",))])
