"""Replicas of ``lacuna serve`` on one Milvus server that is killed and comes back, and servers that refuse us."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster.milvus_server import MilvusServer, free_port
from commands import Refuse
from lacuna.combiners import Vanilla
from lacuna.datastore import Store, build_store
from lacuna.errors import IndexingError, SettingError, UnavailableError
from lacuna.index import build_index
from lacuna.memory import open_memory
from lacuna.memory.publication import publish_store
from lacuna.milvus import Collection, CollectionKind, MilvusAddress
from lacuna.milvus.connection import Connection
from lacuna.models import Model, load_model
from lacuna.records import Languages, Origin, SentencePair
from plain_systems import open_plain

pytestmark = pytest.mark.cluster

FLAT = CollectionKind.parse("milvus:FLAT")
TEXTS = [
    ("Klicken Sie auf OK.", "Click OK."),
    ("Die Datei wurde gespeichert.", "The file was saved."),
    ("Das Fenster ist offen.", "The window is open."),
]


@pytest.fixture(scope="module")
def store(bundled: Model, tmp_path_factory: pytest.TempPathFactory) -> Store:
    pairs = [SentencePair(*texts, Origin("first.tsv", str(number))) for number, texts in enumerate(TEXTS, start=1)]
    made = build_store(bundled, pairs, tmp_path_factory.mktemp("real") / "store")
    build_index(made)
    return made


class Replica:
    """A ``lacuna serve`` process."""

    def __init__(self, address: MilvusAddress, *options: str) -> None:
        memory = f"it={address}?deadline=10"
        arguments = [
            "serve",
            "--memory",
            memory,
            "--languages",
            "de-en",
            "--port",
            "0",
            "--threads",
            "1",
            *options,
        ]
        code = "from lacuna.cli.main import main; main()"
        self._process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def translate(self, text: str) -> dict[str, Any]:
        status, answer = self.call("POST", "/translate", {"texts": [text]})
        assert status == 200, answer
        found: dict[str, Any] = answer["translations"][0]
        return found

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def wait_until(condition: Any, seconds: float) -> float:
    """Wait until a condition holds, and return how long it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, "it never did"
        time.sleep(0.05)
    return time.monotonic() - started


@pytest.fixture
def replicas(server: MilvusServer, store: Store) -> Iterator[tuple[Replica, Replica]]:
    address = MilvusAddress.of(server.uri, "replicas")
    publish_store(store, address, FLAT)
    build_index(store)  # local again
    options = ("--writable", "--without-memory-on-failure")
    two = Replica(address, *options), Replica(address, *options)
    yield two
    for replica in two:
        replica.stop()


def test_replicas_share_what_they_learn_and_survive_a_crash(
    server: MilvusServer, replicas: tuple[Replica, Replica]
) -> None:
    one, other = replicas
    source, target = "Der Frosch quakt um Mitternacht.", "At midnight the frog is heard."
    assert one.translate(source)["text"] != target
    status, edit = one.call("POST", "/memories/it/pairs", {"pairs": [{"source": source, "target": target}]})
    assert status == 200, edit
    assert one.translate(source)["text"] == target
    wait_until(lambda: other.translate(source)["text"] == target, 30)
    # Both learn the same pair: it is there once.
    again = other.call("POST", "/memories/it/pairs", {"pairs": [{"source": source, "target": target}]})[1]
    assert (again["sentences"], again["added"]) == (edit["sentences"], [])
    explained = other.call("POST", "/explain", {"text": source})[1]
    assert explained["tokens"][0]["neighbors"][0]["sentence"] == edit["sentences"][0]
    assert other.call("GET", f"/memories/it/sentences/{edit['sentences'][0]}")[1]["target"] == target
    assert other.call("GET", "/memories/it")[1]["sentences"] == len(TEXTS) + 1
    assert len(other.call("GET", "/memories/it/map")[1]["x"]) > len(TEXTS)

    server.kill()
    for replica in replicas:
        answer = replica.translate(source)
        assert answer["without_memory"]
        assert answer["text"] != target
        assert replica.call("POST", "/explain", {"text": source})[1]["without_memory"]
        assert replica.call("POST", "/memories/it/pairs", {"pairs": [{"source": "x", "target": "y"}]})[0] == 503
    server.start()
    for replica in replicas:  # by themselves, and with everything that was acknowledged
        wait_until(lambda replica=replica: not replica.translate(source)["without_memory"], 60)
        assert replica.translate(source)["text"] == target

    corrected = "The frog croaks at midnight."
    status, edit = other.call("PUT", f"/memories/it/sentences/{edit['sentences'][0]}", {"target": corrected})
    assert status == 200, edit
    wait_until(lambda: one.translate(source)["text"] == corrected, 30)
    assert one.call("DELETE", f"/memories/it/sentences/{edit['sentences'][0]}")[0] == 200
    wait_until(lambda: other.translate(source)["text"] not in (target, corrected), 30)
    assert one.call("GET", f"/memories/it/sentences/{edit['sentences'][0]}")[0] == 404


def test_translations_are_those_of_the_local_memory(server: MilvusServer, store: Store, bundled: Model) -> None:
    address = MilvusAddress.of(server.uri, "same")
    texts = [source for source, _ in TEXTS] + ["Das Fenster wurde gespeichert.", "Klicken Sie auf die Datei."]
    combiner = Vanilla(k=4, knn_weight=0.7)
    local = open_plain(bundled, [open_memory(store.path)], combiner).translate(texts, evidence=True)
    publish_store(store, address, FLAT)
    linked = open_plain(bundled, [open_memory(store.path)], combiner).translate(texts, evidence=True)
    alone = open_plain(bundled, [open_memory(str(address))], combiner).translate(texts, evidence=True)
    build_index(store)  # local again
    assert [one.text for one in local] == [one.text for one in linked] == [one.text for one in alone]
    assert linked == local
    for one, other in zip(local, alone, strict=True):
        assert np.isclose(one.score, other.score, rtol=1e-3)
        for step, same in zip(one.steps, other.steps, strict=True):
            assert [near.sentence for near in step.neighbors] == [near.sentence for near in same.neighbors]


def test_a_server_that_is_away(server: MilvusServer, store: Store, bundled: Model) -> None:
    address = MilvusAddress.of(server.uri, "away")
    publish_store(store, address, FLAT)
    build_index(store)
    memory = open_memory(f"{address}?deadline=1")
    with_error, with_fallback = (open_plain(bundled, [memory], fallback=fallback) for fallback in (False, True))
    plain = open_plain(bundled).translate([TEXTS[0][0]])[0].text
    server.kill()
    try:
        with pytest.raises(UnavailableError, match="is the server running"):
            with_error.translate([TEXTS[0][0]])
        [found] = with_fallback.translate([TEXTS[0][0]], evidence=True)
        assert (found.text, found.without_memory) == (plain, True)
        assert not found.steps[0].neighbors
        started = time.monotonic()
        with_fallback.translate([text for text, _ in TEXTS])
        assert memory.entries == store.entries  # as it was known last
        assert time.monotonic() - started < 30
    finally:
        server.start()
    wait_until(lambda: not with_fallback.translate([TEXTS[0][0]])[0].without_memory, 60)


@pytest.fixture
def folder(store: Store, tmp_path: Path, server: MilvusServer) -> Path:
    made = load_model(languages=Languages("de", "en"))
    pairs = [SentencePair(*texts, Origin("first.tsv", "1")) for texts in TEXTS[:1]]
    build_index(build_store(made, pairs, tmp_path / "store"))
    (tmp_path / "in.txt").write_text("Hallo\n")
    (tmp_path / "in.tsv").write_text("Hallo\tHello\n")
    return tmp_path


BAD = {
    "wrong uri": (["index", "store", "--kind", "milvus", "--uri", "localhost:19530"], "uri: got 'localhost:19530'"),
    "no uri": (["index", "store", "--kind", "milvus"], "--uri: missing"),
    "no milvus": (["index", "store", "--uri", "http://localhost"], "given without --kind milvus"),
    "wrong kind": (["index", "store", "--kind", "milvus:PQ", "--uri", "http://localhost"], "allowed: milvus"),
    "server away": (["index", "store", "--kind", "milvus", "--uri", "http://127.0.0.1:{away}"], "cannot be reached"),
    "memory away": (["translate", "in.txt", "--memory", "milvus://127.0.0.1:{away}/it"], "cannot be reached"),
    "no collection": (["translate", "in.txt", "--memory", "milvus://127.0.0.1:{port}/nothing"], "no such memory"),
    "no such tag": (["translate", "in.txt", "--memory", "store", "--k", "1", "--tag", "nobody"], "tag: got 'nobody'"),
    "no address": (["add", "milvus://127.0.0.1", "in.tsv"], "write milvus://HOST"),
    "no such file": (
        ["index", "store", "--kind", "milvus", "--uri", "http://127.0.0.1:{port}", "--token-file", "gone"],
        "--token-file",
    ),
    "other model": (["add", "milvus://127.0.0.1:{port}/replicas_bad", "in.tsv", "--languages", "en-de"], "direction"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str, folder: Path, server: MilvusServer, store: Store, refuse: Refuse) -> None:
    if case == "other model":
        publish_store(store, MilvusAddress.of(server.uri, "replicas_bad"), FLAT)
        build_index(store)
    arguments, message = BAD[case]
    ports = {"port": server.port, "away": free_port()}
    assert message in refuse([one.format(**ports) for one in arguments], folder).line


def test_an_old_server_is_refused(server: MilvusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymilvus.MilvusClient.get_server_version", lambda self, **options: "v2.2.16")
    with pytest.raises(IndexingError, match=r"Milvus v2\.2\.16; 2\.3 or newer is needed"):
        Collection.open(MilvusAddress.of(server.uri, "any"))


def test_a_wrong_token_is_refused(server: MilvusServer, tmp_path: Path) -> None:
    server.kill()  # two of them do not run on one machine
    locked = MilvusServer(tmp_path / "data", "--authorization-enabled", "true")
    try:
        locked.start()
        wrong, right = tmp_path / "wrong", tmp_path / "right"
        wrong.write_text("root:guess")
        right.write_text("root:Milvus\n")
        for file in (wrong, None):
            with pytest.raises(SettingError, match="does not accept the token"):
                Connection(MilvusAddress.of(locked.uri, "it", file)).call("list_collections")
        assert Connection(MilvusAddress.of(locked.uri, "it", right)).call("list_collections") == []
    finally:
        locked.kill()
        server.start()
