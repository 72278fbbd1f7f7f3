"""Who may use a server, from where, and who may change its memories. Knows nothing of routes."""

from __future__ import annotations

import hmac
import ipaddress
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from starlette.requests import Request

from lacuna.errors import SettingError
from lacuna.serving.limits import Forbidden, NotAllowed

Writing = Literal["off", "key", "open"]

ANY = "*"
_NAME = re.compile(r"[^\s:/@,\[\]]+")
_HOST = re.compile(rf"({_NAME.pattern}|\[[0-9a-fA-F:.]+\])(?::[0-9]*)?")
_ORIGIN = re.compile(rf"https?://{_HOST.pattern}")
_SHOWN = 100  # characters of a name in an error


@dataclass(frozen=True, slots=True)
class Access:
    """The keys of a server, its names, and the sites whose pages may use it.

    :param key: The key that clients must send; ``None`` if everyone may use the server.
    :param write_key: The key for edits, which is good for everything else too.
    :param writable: Edits need no key. Only for a server without keys, and for clients on the same machine.
    :param allow_host: Names that a server without a key answers to, besides ``localhost`` and all IP addresses; ``*``
        for any. A foreign site could have its own name point to this machine, and its page could then read the memories
        through the browser of someone here.
    :param allow_origin: Sites whose pages may use the server from a browser, such as ``https://example.org``; ``*`` for
        all.
    """

    key: str | None = None
    write_key: str | None = None
    writable: bool = False
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for host in self.allow_host:
            if host != ANY and not _NAME.fullmatch(host):
                raise SettingError(
                    f"allow_host: got {host!r}; allowed is a name without a port, such as example.org, or {ANY}"
                )
        for origin in self.allow_origin:
            if origin != ANY and not _ORIGIN.fullmatch(origin):
                raise SettingError(
                    f"allow_origin: got {origin!r}; allowed is a site such as https://example.org, or {ANY}"
                )
        if self.writable and (self.key or self.write_key):
            raise SettingError("writable: given although the server has a key; use `write_key` instead of it")
        if self.write_key is not None and self.write_key == self.key:
            raise SettingError("write_key: is the same as the API key; choose another")

    @property
    def writing(self) -> Writing:
        """Whether clients can edit memories: not at all, with the write key, or without a key."""
        return "key" if self.write_key is not None else "open" if self.writable else "off"

    def check_host(self, host: str | None) -> None:
        """Refuse a request to a name that is not the server's, unless clients need a key.

        :param host: The header of the request, if it has one; browsers always send it.
        """
        if self.key is not None or host is None or ANY in self.allow_host:
            return
        match = _HOST.fullmatch(host)
        name = match[1].strip("[]").rstrip(".").lower() if match else ""
        names = {allowed.rstrip(".").lower() for allowed in self.allow_host}
        # An address cannot be made to point elsewhere.
        if not (_is_address(name) or name == "localhost" or name.endswith(".localhost") or name in names):
            raise Forbidden(
                f"this server does not answer to the name {host[:_SHOWN]!r}; use its IP address, or start "
                "it with this name (allow_host), or with a key"
            )

    def check_reading(self, *given: str | None) -> None:
        """Refuse a request that does not edit anything, unless one of the given keys is right."""
        if self.key is not None and not any([_equal(self.key, given), _equal(self.write_key, given)]):
            raise NotAllowed("API key missing or wrong; send the header Authorization: Bearer KEY")

    def check_writing(self, request: Request, given: str | None) -> None:
        """Refuse an edit that is not allowed."""
        if self.writing == "off":
            raise Forbidden("this server does not take edits; start it with a write key, or as writable")
        if self.writing == "open":
            _check_origin(request)
        elif not _equal(self.write_key, (given,)):
            raise NotAllowed("write key missing or wrong; send the header Authorization: Bearer WRITE_KEY")


def _equal(wanted: str | None, given: tuple[str | None, ...]) -> bool:
    """Compare keys in constant time."""
    keys = [key.encode("utf-8", "surrogatepass") for key in given if key is not None]
    return wanted is not None and any([hmac.compare_digest(wanted.encode(), key) for key in keys])


def _check_origin(request: Request) -> None:
    """Refuse edits that a foreign web page sends through the browser of someone on this machine.

    Such a page has another origin; or the server's own, if its name was made to point to this machine.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    if (origin is not None and urlsplit(origin).netloc != host) or not _is_local(request.url.hostname or ""):
        raise Forbidden(f"edits without a key are for this machine only; open the page at 127.0.0.1, not at {host!r}")


def _is_local(name: str) -> bool:
    return ipaddress.ip_address(name).is_loopback if _is_address(name) else name == "localhost"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
