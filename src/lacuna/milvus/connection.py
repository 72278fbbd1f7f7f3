"""A connection to Milvus, in which every call has a deadline.

The client repeats calls with backoff until the deadline if the server cannot be reached. After a failure, calls fail at
once for a moment, so that a server that is away does not delay every request; the pause grows while it stays away.
"""

from __future__ import annotations

import logging
import re
import time
from threading import Lock
from typing import Any

from lacuna.errors import IndexingError, LacunaError, SettingError, StoreError, UnavailableError, needs_extra
from lacuna.milvus.address import TOKEN_VARIABLE, MilvusAddress

ADMIN_DEADLINE = 120.0  # seconds of creating a collection, or of writing to it
LONG_DEADLINE = 3600.0  # seconds of building or loading an index
OLDEST = (2, 3)
OLDEST_WITH_FLOAT16 = (2, 4)  # 2.3 accepts float16 vectors, but finds wrong neighbors with them

_FIRST_PAUSE, _MAX_PAUSE = 0.25, 4.0
# By default gRPC waits up to two minutes before it connects again to a server that was away.
_RECONNECTING = {"grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 1000}
_NOT_FOUND, _NOT_LOADED = 100, 101
_CONNECT_FAILED = 2


class _NotLoaded(Exception):  # noqa: N818 - not an error of the user; the collection is loaded then
    """The collection is there, but the server has not loaded it, as after a restart."""


class Connection:
    """Calls the methods of a Milvus client, by default with the deadline of the address."""

    def __init__(self, address: MilvusAddress) -> None:
        self.address, self.deadline = address, address.deadline
        self._lock = Lock()
        self._client: Any = None
        self._pause, self._down_until = 0.0, 0.0
        self.version: tuple[int, ...] = ()

    @property
    def has_float16(self) -> bool:
        """Whether the server can be trusted with float16 vectors."""
        return self.version >= OLDEST_WITH_FLOAT16 and not self.address.is_file

    def call(self, method: str, *args: Any, deadline: float | None = None, **options: Any) -> Any:  # noqa: ANN401
        """Call a method of the client.

        :raises UnavailableError: The server does not answer in time.
        :raises StoreError: There is no such collection.
        :raises SettingError: The server does not accept the token.
        """
        if time.monotonic() < self._down_until:
            raise UnavailableError(f"{self.address}: the server did not answer a moment ago; is it running?")
        try:
            result = getattr(self._connected(), method)(*args, timeout=deadline or self.deadline, **options)
        except Exception as error:
            raise self._own_error(error) from error
        self._pause = self._down_until = 0.0
        return result

    def call_loaded(self, method: str, name: str, **options: Any) -> Any:  # noqa: ANN401 - what the client returns
        """Call a method that needs a loaded collection; after a restart of the server it is loaded first."""
        try:
            return self.call(method, name, **options)
        except _NotLoaded:
            self.load(name)
            return self.call(method, name, **options)

    def load(self, name: str) -> None:
        """Load a collection, so that it can be searched."""
        self.call("load_collection", name, deadline=LONG_DEADLINE)

    def _connected(self) -> Any:  # noqa: ANN401 - pymilvus has few types
        with self._lock:
            if self._client is None:
                with needs_extra("milvus", "a memory in Milvus"):
                    import pymilvus
                # It logs each failed call with a traceback; ours are one line.
                logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
                options: dict[str, Any] = {}
                if not self.address.is_file:
                    options = {"token": self.address.token(), "timeout": self.deadline, "grpc_options": _RECONNECTING}
                client = pymilvus.MilvusClient(uri=self.address.uri, **options)
                self.version = self._checked_version(client.get_server_version(timeout=self.deadline))
                self._client = client
            return self._client

    def _checked_version(self, text: str) -> tuple[int, ...]:
        if self.address.is_file:
            return OLDEST
        match = re.search(r"(\d+)\.(\d+)", text)
        version = tuple(map(int, match.groups())) if match else ()
        if version < OLDEST:
            needed = ".".join(map(str, OLDEST))
            raise IndexingError(f"{self.address}: the server is Milvus {text}; {needed} or newer is needed: upgrade it")
        return version

    def _own_error(self, error: Exception) -> Exception:
        if isinstance(error, LacunaError):
            return error
        code, text = getattr(error, "code", None), _first_line(error)
        if code == _NOT_LOADED or "not loaded" in text:
            return _NotLoaded(text)
        if code == _NOT_FOUND:
            return StoreError(
                f"{self.address}: no such collection on the server; name another, or make it with "
                "lacuna index and `kind` milvus"
            )
        cause = error.__cause__  # pymilvus hides why a connection failed
        if "auth" in f"{text} {'' if cause is None else _first_line(cause)}".lower():
            return SettingError(
                f"{self.address}: the server does not accept the token; give the right one in `token_file` or in "
                f"the variable {TOKEN_VARIABLE}"
            )
        if code == _CONNECT_FAILED:
            text = "the server cannot be reached"
        self._pause = min(_MAX_PAUSE, 2 * self._pause or _FIRST_PAUSE)
        self._down_until = time.monotonic() + self._pause
        return UnavailableError(f"{self.address}: {text}; is the server running and the address right?")


def _first_line(error: BaseException) -> str:
    details = getattr(error, "details", None)  # of errors of gRPC
    text = str(getattr(error, "message", "") or (details() if callable(details) else error)).strip()
    return (text.splitlines() or [type(error).__name__])[0][:300]
