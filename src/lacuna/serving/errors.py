"""What can go wrong with a request although it is well formed, each with the HTTP status that says so."""

from __future__ import annotations

from lacuna.errors import LacunaError


class RequestError(LacunaError):
    """A request that cannot be answered."""

    status = 400


class NotAllowed(RequestError):  # noqa: N818 - named for what happened
    """No API key, or a wrong one."""

    status = 401


class NotFound(RequestError):  # noqa: N818 - named for what happened
    """A memory or a sentence that is not here."""

    status = 404


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
