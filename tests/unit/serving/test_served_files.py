"""The server as a process: a real client of LibreTranslate, large uploads in little memory, nothing left on disk."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

import pytest
from libretranslatepy import LibreTranslateAPI

from lacuna.memory import Memory
from lacuna.serving import Engine
from unit.models.tiny_models import SOURCES, TARGETS
from unit.serving.test_serve_verb import start

pytestmark = pytest.mark.posix

LARGEST = 64 << 20
CHUNK = (b"1234567890" * 100 + b"\n\n") * 60


class Served(NamedTuple):
    address: str
    process: int
    disk: Path


@pytest.fixture(scope="module")
def served(engine: Engine, memories: list[Memory], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    disk = tmp_path_factory.mktemp("disk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(disk))
        arguments = ["--model", engine.model.name, "--memory", f"mine={memories[0].store.path}"]
        process, address = start([*arguments, "--max-file-bytes", str(LARGEST)])
    try:
        yield Served(address, process.pid, disk)
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert [path for path in disk.rglob("*") if "documents" in str(path)] == []


def form(name: str, content: bytes, **fields: str) -> bytes:
    parts = [f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return "".join([*parts, head]).encode() + content + b"\r\n--x--\r\n"


def test_the_client_of_libretranslate(served: Served) -> None:
    client = LibreTranslateAPI(f"http://{served.address}")
    assert client.translate(SOURCES[0], "de", "en") == TARGETS[0]
    assert client.translate(f"{SOURCES[0]}\n\n{SOURCES[3]}", "auto", "en") == f"{TARGETS[0]}\n\n{TARGETS[3]}"
    [first, *_] = client.detect("Wo geht es hier zum Bahnhof?")
    assert first["language"] == "de"
    assert 50 < first["confidence"] <= 100
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


def test_a_file_as_clients_of_libretranslate_send_it(served: Served) -> None:
    body = form("brief.txt", f"{SOURCES[1]}\n".encode(), source="de", target="en")
    asked = Request(f"http://{served.address}/translate_file", body)
    asked.add_header("Content-Type", "multipart/form-data; boundary=x")
    with urlopen(asked) as answer:
        place = json.load(answer)["translatedFileUrl"]
    assert re.fullmatch(rf"http://{served.address}/download_file/[\w-]{{22}}\.brief\.en\.txt", place)
    with urlopen(place) as file:
        assert file.read().decode() == f"{TARGETS[1]}\n"
        assert 'filename="brief.en.txt"' in file.headers["Content-Disposition"]


def peak(process: int) -> int:
    """Return the largest memory that a process has had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_large_file_is_not_held_in_memory(served: Served) -> None:
    def upload(size: int) -> tuple[int, bytes]:
        def chunks() -> Iterator[bytes]:
            whole = form("numbers.txt", b"", source="de", target="en")
            head, _, tail = whole.partition(b"\r\n\r\n\r\n--x--")
            yield head + b"\r\n\r\n"
            yield from (CHUNK for _ in range(size // len(CHUNK)))
            yield b"\r\n--x--" + tail

        connection = HTTPConnection(served.address, timeout=120)
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        connection.request("POST", "/translate_file", chunks(), kind, encode_chunked=True)
        answer = connection.getresponse()
        return answer.status, answer.read()

    assert upload(1 << 20)[0] == 200
    before = peak(served.process)
    status, body = upload(LARGEST - (1 << 20))
    assert status == 200, body
    assert peak(served.process) - before < LARGEST // 3
    assert list(served.disk.iterdir())


def test_a_file_that_is_too_large_is_cut_off(served: Served) -> None:
    connection = HTTPConnection(served.address, timeout=120)
    headers = {"Content-Type": "multipart/form-data; boundary=x", "Content-Length": str(LARGEST * 100)}
    connection.putrequest("POST", "/api/v1/documents")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(b"--x\r\n")
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read()) == {"error": f"the file has more than {LARGEST:,} bytes; send a smaller one"}
