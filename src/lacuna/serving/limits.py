"""Limits of a server, and the errors of requests, each with its HTTP status."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, fields

from lacuna.errors import LacunaError, SettingError


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of requests, of the queue and of batches.

    :param max_characters: Characters of a text.
    :param max_texts: Sentences in a request.
    :param max_body_bytes: Bytes of a request body.
    :param max_file_bytes: Bytes of a file to translate.
    :param max_seconds: Seconds from the arrival of a request to its answer.
    :param max_connections: Connections at a time. One more ends the oldest that waits for a request; if there is none,
        it is refused.
    :param header_seconds: Seconds from the opening of a connection, or from the first byte of a further request, to the
        end of the headers.
    :param max_waiting: Sentences of all requests in the queue of a model.
    :param batch_texts: Sentences in a batch.
    :param batch_bytes: Bytes of the sentences in a batch. No tokenizer makes more tokens than there are bytes, so this
        bounds the time that others wait for a batch. Longer sentences are cut before they wait.
    """

    max_characters: int = 5_000
    max_texts: int = 256
    max_body_bytes: int = 1 << 20
    max_file_bytes: int = 16 << 20
    max_seconds: float = 30.0
    max_connections: int = 512
    header_seconds: float = 10.0
    max_waiting: int = 4_096
    batch_texts: int = 64
    batch_bytes: int = 4_096

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < float("inf"):
                raise SettingError(f"{field.name}: got {value}; allowed is more than 0")
        if self.max_texts > self.max_waiting:
            raise SettingError(
                f"max_texts: got {self.max_texts:,}, but at most {self.max_waiting:,} may wait; "
                f"allowed is 1 to {self.max_waiting:,}"
            )


def byte_size(text: str) -> int:
    """Return the bytes of a text as tokenizers read it: in UTF-8, and with ligatures taken apart."""
    return len(unicodedata.normalize("NFKC", text).encode("utf-8", "surrogatepass"))


class RequestError(LacunaError):
    """A request that cannot be answered."""

    status = 400


class NotAllowed(RequestError):  # noqa: N818 - names the reason
    """No API key, or a wrong one."""

    status = 401


class Forbidden(RequestError):  # noqa: N818 - names the reason
    """The server does not take edits, or not from this client."""

    status = 403


class TooSlow(RequestError):  # noqa: N818 - names the reason
    """The request body did not arrive in time."""

    status = 408


class TooLarge(RequestError):  # noqa: N818 - names the reason
    """The request exceeds a limit of the server."""

    status = 413


class NotSaved(RequestError):  # noqa: N818 - names the reason
    """An edit failed on the side of the server."""

    status = 500


class Overloaded(RequestError):  # noqa: N818 - names the reason
    """The queue is full, a memory is being edited by another process, or the server is stopping."""

    status = 503


class OutOfTime(RequestError):  # noqa: N818 - names the reason
    """The request was not answered in time."""

    status = 504
