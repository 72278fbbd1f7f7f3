"""How much a server takes on, and what it answers when a request goes beyond."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lacuna.errors import LacunaError, SettingError


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds on what one request may ask for, on what may wait, and on what the model gets at once.

    :param max_characters: Of one text.
    :param max_texts: Sentences in one request: the lines of all its texts that are not blank.
    :param max_body_bytes: Of the body of a request.
    :param max_seconds: From when a request has arrived until it is answered, be it with an error.
    :param max_waiting: Sentences of all requests that may wait for the model.
    :param batch_texts: Sentences that the model gets at once.
    :param batch_characters: Characters that the model gets at once; a longer sentence goes alone.
    """

    max_characters: int = 5_000
    max_texts: int = 256
    max_body_bytes: int = 1 << 20
    max_seconds: float = 30.0
    max_waiting: int = 4_096
    batch_texts: int = 64
    batch_characters: int = 16_384

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 < value < float("inf"):
                raise SettingError(f"{one.name}: got {value}; allowed is more than 0")
        if self.max_texts > self.max_waiting:
            raise SettingError(
                f"max_texts: got {self.max_texts:,}, but no more than {self.max_waiting:,} may wait; "
                f"allowed is 1 to {self.max_waiting:,}"
            )


class RequestError(LacunaError):
    """A request that cannot be answered."""

    status = 400


class NotAllowed(RequestError):  # noqa: N818 - named for what happened
    """No API key, or a wrong one."""

    status = 401


class TooSlow(RequestError):  # noqa: N818 - named for what happened
    """A body that did not arrive in time."""

    status = 408


class TooLarge(RequestError):  # noqa: N818 - named for what happened
    """More than the limits of the server."""

    status = 413


class Overloaded(RequestError):  # noqa: N818 - named for what happened
    """Too much is waiting already, or the server is about to stop."""

    status = 503


class OutOfTime(RequestError):  # noqa: N818 - named for what happened
    """The answer was not found in time."""

    status = 504
