"""A real Milvus server for the tests: the one of ``pip install milvus``, which can be killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class MilvusServer:
    """Runs ``milvus-server`` on this machine.

    :param folder: Its data, which survive a kill.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._options = folder, options
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, or start it again on the same port and with the same data."""
        self._folder.mkdir(parents=True, exist_ok=True)
        log = (self._folder.parent / "milvus.log").open("ab")
        binary = self._folder / "bin" / "milvus"
        if binary.exists():
            # milvus-server would move on to another port while connections of the killed one time out.
            environment = os.environ | {
                "DEPLOY_MODE": "STANDALONE",
                "METRICS_PORT": str(free_port()),
                "MILVUS_RUN_DIR": str(self._folder / "run"),
                "LD_LIBRARY_PATH": str(binary.parent),
            }
            arguments = [str(binary), "run", "standalone"]
        else:
            environment = dict(os.environ)
            program = Path(sys.executable).with_name("milvus-server")
            arguments = [str(program), "--data", str(self._folder), "--proxy-port", str(self.port), *self._options]
            # A new server waits until the session of its killed predecessor ends.
            arguments += ["--extra-config", "common.session.ttl=4"]
        self._process = subprocess.Popen(
            arguments, stdout=log, stderr=log, start_new_session=True, env=environment, cwd=self._folder
        )
        self._wait()

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _wait(self) -> None:
        from pymilvus import MilvusClient

        until = time.monotonic() + 90
        while True:
            try:
                options = {"grpc.max_reconnect_backoff_ms": 500, "grpc.use_local_subchannel_pool": 1}
                client = MilvusClient(uri=self.uri, token="root:Milvus", timeout=2, grpc_options=options)
                client.list_collections(timeout=2)
                client.close()
                return
            except Exception:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)
