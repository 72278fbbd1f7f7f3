"""``lacuna serve`` as a process: clean shutdown, and errors before it starts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from commands import Refuse
from lacuna.errors import LacunaWarning, SettingError
from lacuna.memory import Memory
from lacuna.serving import Access, Engine
from lacuna.serving.app import listen, serve
from unit.models.tiny_models import SOURCES, TARGETS


def start(arguments: list[str]) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "lacuna", "serve", "--port", "0", "--json", "--threads", "1", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = ""
    while not said.endswith("}\n"):
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        said += line
    return process, urlsplit(json.loads(said)["url"]).netloc


@pytest.mark.posix
def test_sigterm_finishes_what_has_arrived(engine: Engine, memories: list[Memory]) -> None:
    process, address = start(["--model", engine.model.name, "--memory", f"mine={memories[0].store.path}"])
    body = json.dumps(
        {"texts": SOURCES * 40, "combiner": {"k": 1, "knn_weight": 1.0}}  # enough for several batches
    )
    connection = HTTPConnection(address, timeout=300)
    connection.request("POST", "/api/v1/translate", body, {"Content-Type": "application/json"})
    other = HTTPConnection(address, timeout=300)
    other.request("GET", "/health")  # answered, so the first has arrived
    assert other.getresponse().read() == b'{"status":"ok"}'
    process.send_signal(signal.SIGTERM)
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert response.status == 200, answer
    assert [one["text"] for one in answer["translations"]] == TARGETS * 40
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (0, "", "")


def test_loopback_unless_told_otherwise(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: ran.append(sockets[0].getsockname()[0]))
    serve(engine, port=0)
    serve(engine, host="0.0.0.0", port=0, access=Access("k"))
    with pytest.warns(LacunaWarning, match="set an API key"):
        serve(engine, host="0.0.0.0", port=0)
    assert ran == ["127.0.0.1", "0.0.0.0", "0.0.0.0"]


def test_a_port_that_is_taken() -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, pytest.raises(SettingError, match="name another `host` or `port`"):
        listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(SettingError, match="cannot be bound"):
        listen("127.0.0.1", 70_000)


def key_file(content: bytes) -> Callable[[Path], list[str]]:
    def prepare(folder: Path) -> list[str]:
        (folder / "key").write_bytes(content)
        return ["--api-key-file", "key"]

    return prepare


def terms_file(content: str, name: str = "terms") -> Callable[[Path], list[str]]:
    def prepare(folder: Path) -> list[str]:
        (folder / "terms.tsv").write_text(content, encoding="utf-8")
        return ["--glossary", f"{name}=terms.tsv"]

    return prepare


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda _: ["--memory", "it="], "NAME=FOLDER"),
        (lambda _: ["--memory", "it=nowhere"], "nowhere"),
        (lambda _: ["--combiner", "it=nowhere"], "nowhere"),
        (lambda _: ["--glossary", "it="], "--glossary: got 'it='; write NAME=FILE"),
        (lambda _: ["--glossary", "it=nowhere.tsv"], "nowhere.tsv: cannot be read"),
        (terms_file("source\ttarget\nDatei\t\n"), "terms.tsv:2: target: got an empty cell"),
        (lambda folder: [*terms_file("Datei\tfile\n")(folder), "--glossary", "terms.tsv"], "give each its own"),
        (lambda folder: [*terms_file("Datei\tfile\n", "none")(folder)], "glossary 'none': asks for no glossary"),
        (lambda _: ["--max-texts", "0"], "--max-texts: got 0"),
        (
            lambda _: ["--allow-host", "https://example.org"],
            "--allow-host: got 'https://example.org'; allowed is a name",
        ),
        (lambda _: ["--allow-origin", "example.org"], "--allow-origin: got 'example.org'; allowed is a site"),
        (lambda _: ["--api-key-file", "nowhere"], "nowhere"),
        (key_file(b" \n"), "--api-key-file: got no key"),
        (key_file(b"two words"), "blanks"),
        (key_file("schlüssel".encode()), "cannot be read"),
        (lambda _: ["--write-key-file", "nowhere"], "--write-key-file: nowhere cannot be read"),
        (lambda folder: [*key_file(b"k")(folder), "--writable"], "--write-key-file instead"),
        (lambda folder: [*key_file(b"k")(folder), "--write-key-file", "key"], "same as the API key"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    prepare: Callable[[Path], list[str]], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: Refuse
) -> None:
    monkeypatch.delenv("LACUNA_API_KEY", raising=False)
    monkeypatch.delenv("LACUNA_WRITE_KEY", raising=False)
    assert says in refuse(["serve", *prepare(tmp_path)], tmp_path).line


def test_one_place_for_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: Refuse) -> None:
    monkeypatch.setitem(os.environ, "LACUNA_API_KEY", "one")
    arguments = ["serve", *key_file(b"other")(tmp_path)]
    assert "leave one of them out" in refuse(arguments, tmp_path).line
