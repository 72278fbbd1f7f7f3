"""What the tests of clusters share: one real Milvus server, and a new file of Milvus Lite for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.milvus_server import MilvusServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    running = MilvusServer(tmp_path_factory.mktemp("milvus") / "data")
    running.start()
    yield running
    running.kill()
