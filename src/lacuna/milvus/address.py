"""Where a collection is: a Milvus server or cluster, or a file of Milvus Lite. Does not connect."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from lacuna.errors import SettingError

PORT = 19530
DEADLINE = 10.0  # seconds
TOKEN_VARIABLE = "LACUNA_MILVUS_TOKEN"  # noqa: S105 - the name of a variable
MEMORY_FORMS = "milvus://HOST[:PORT]/COLLECTION, milvus+https://HOST[:PORT]/COLLECTION or milvus:FILE.db/COLLECTION"
URI_FORMS = "http://HOST[:PORT], https://HOST[:PORT] or FILE.db"

_SCHEMES = {"milvus": "http", "milvus+https": "https"}
_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


@dataclass(frozen=True, slots=True)
class MilvusAddress:
    """The place of a collection.

    :param uri: ``http://host:port``, ``https://host:port``, or the path of a ``.db`` file for Milvus Lite.
    :param collection: Name of the collection of entries.
    :param deadline: Seconds that a search may take, all attempts included.
    :param token_file: File with the token (``user:password`` or an API key); by default the variable
        ``LACUNA_MILVUS_TOKEN`` has it, if the server wants one.
    """

    uri: str
    collection: str
    token_file: str | None = None
    deadline: float = DEADLINE

    def __post_init__(self) -> None:
        if not self.deadline > 0:
            raise SettingError(f"deadline: got {self.deadline:g}; allowed: more than 0 seconds")
        if not _COLLECTION.fullmatch(self.collection):
            raise SettingError(
                f"collection: got {self.collection!r}; a name has letters, digits and underscores, no digit first"
            )

    def __str__(self) -> str:
        if self.is_file:
            return f"milvus:{self.uri}/{self.collection}"
        parts = urlsplit(self.uri)
        scheme = next(own for own, other in _SCHEMES.items() if other == parts.scheme)
        return f"{scheme}://{parts.netloc}/{self.collection}"

    @property
    def is_file(self) -> bool:
        """Whether the collection is in a file of this machine."""
        return self.uri.endswith(".db")

    @classmethod
    def of(cls, uri: str, collection: str, token_file: Path | None = None) -> MilvusAddress:
        """Check a URI of a server or a file.

        :raises SettingError: The URI or the name of the collection is not valid.
        """
        return cls(_checked_uri(uri), collection, None if token_file is None else str(token_file.resolve()))

    @classmethod
    def parse(cls, text: str) -> MilvusAddress:
        """Read the address of a memory such as ``milvus://host:19530/it`` or ``milvus://host/it?deadline=2``.

        :raises SettingError: It is not an address.
        """
        scheme, _, rest = text.partition(":")
        rest, _, setting = rest.partition("?")
        uri, slash, collection = rest.rpartition("/")
        try:
            name, _, seconds = setting.partition("=") if setting else ("deadline", "=", str(DEADLINE))
            if name != "deadline":
                raise ValueError
            deadline = float(seconds)
            if not slash or scheme not in _SCHEMES or (uri.startswith("//") and uri == "//"):
                raise ValueError
            if uri.startswith("//") and not uri.endswith(".db"):
                uri = f"{_SCHEMES[scheme]}:{uri}"
            return replace(cls.of(uri, collection), deadline=deadline)
        except ValueError as error:
            raise SettingError(f"memory: got {text!r}; write {MEMORY_FORMS}") from error

    def token(self) -> str:
        """Return the token; empty if there is none.

        :raises SettingError: The file of the token cannot be read.
        """
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE, "")
        try:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise SettingError(f"token_file: {self.token_file} cannot be read ({reason}); name another") from error


def is_address(text: str) -> bool:
    """Tell whether the name of a memory is an address in Milvus rather than a folder."""
    scheme, colon, _ = text.partition(":")
    return bool(colon) and scheme in _SCHEMES


def collection_name(folder: Path) -> str:
    """Return a name for the collection of a store, made of the name of its folder."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", folder.resolve().name) or "_"
    return name if _COLLECTION.fullmatch(name) else f"_{name}"[:200]


def _checked_uri(uri: str) -> str:
    if uri.endswith(".db"):
        return str(Path(uri.removeprefix("//")).resolve())
    try:
        parts = urlsplit(uri)
        if parts.scheme not in _SCHEMES.values() or not parts.hostname or parts.path.strip("/") or parts.username:
            raise ValueError
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return f"{parts.scheme}://{host}:{parts.port or PORT}"
    except ValueError as error:
        raise SettingError(f"uri: got {uri!r}; write {URI_FORMS}; a token goes into `token_file`") from error
