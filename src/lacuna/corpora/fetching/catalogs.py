"""Reading message catalogs from bytes: gettext ``.po`` and ``.mo``, and JSON trees with a key per message.

Knows neither packages nor languages; a message is what a translator wrote for a key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lacuna.errors import FetchError

_DEFAULT = re.compile(r'Default: "(.*)"', re.DOTALL)
_BARE_KEY = re.compile(r"[A-Za-z0-9]+(?:[_.:-][A-Za-z0-9]+)+")


@dataclass(frozen=True, slots=True)
class Message:
    """One translated message.

    :param key: What the same message has in every language's catalog.
    :param place: Where in the catalog it stands, for a person to find it.
    :param english: The English it was translated from; None where only the English catalog has it.
    :param text: The translation.
    """

    key: str
    place: str
    english: str | None
    text: str


def read_catalog(data: bytes, name: str, *, keyed: bool = False) -> Iterator[Message]:
    """Read the translated messages of one catalog.

    :param data: The catalog file.
    :param name: Its name; the ending (``.po .mo .json``) says how to read it.
    :param keyed: Message ids may be mere keys, with the English in a comment (``.po`` only).
    """
    from translate.storage import mo, pypo  # only here: the toolkit takes a while to import

    # One of the two is typed in part only; both are taken as they come.
    compiled: Any = mo.mofile
    plain: Any = pypo.pofile
    try:
        if name.endswith(".json"):
            yield from _flatten(json.loads(data), "")
        elif name.endswith(".mo"):
            yield from _gettext(compiled.parsestring(data).units, keyed=False)
        else:
            # The toolkit reads bytes it cannot decode as Latin-1 without a word.
            yield from _gettext(plain.parsestring(data.decode().encode()).units, keyed)
    # Both readers of the toolkit raise whatever their innards raise; here every one of them means the same.
    except Exception as error:
        raise FetchError(f"{name}: this catalog cannot be read ({error}); please report it") from error


def _flatten(node: Any, path: str) -> Iterator[Message]:  # noqa: ANN401 - JSON is any
    if isinstance(node, dict):
        for key, child in node.items():
            yield from _flatten(child, f"{path}.{key}" if path else key)
    elif isinstance(node, str) and node:
        yield Message(path, path, None, node)


def _gettext(units: list[Any], keyed: bool) -> Iterator[Message]:
    for ordinal, unit in enumerate(units, start=1):
        if unit.isheader() or unit.isobsolete() or unit.isfuzzy():
            continue
        context = unit.getcontext() or ""
        place = f"{ordinal} ({context})" if context else str(ordinal)
        sources, targets = _forms(unit.source), _forms(unit.target)
        if keyed:
            sources = _english(sources[0], unit.getnotes("developer"))
        for source, target in _by_number(sources, targets):
            if source and target:
                yield Message(f"{context}\x04{unit.source}\x04{source}", place, source, target)


def _forms(text: Any) -> list[str]:  # noqa: ANN401 - a str, or the toolkit's str with several forms
    return [str.__str__(form) for form in getattr(text, "strings", [text]) if form is not None]


def _english(message_id: str, comment: str) -> list[str]:
    found = _DEFAULT.search(comment)
    if found:
        return [found[1].replace('\\"', '"').replace("\\n", "\n")]
    return [] if _BARE_KEY.fullmatch(message_id) else [message_id]


def _by_number(sources: list[str], targets: list[str]) -> Iterator[tuple[str, str]]:
    """Pair English singular and plural with the first and the last form of the other language."""
    if not sources or not targets:
        return
    # A language with one form for all numbers writes it for the plural: "One file" would be a wrong partner.
    if len(sources) == 1 or len(targets) > 1:
        yield sources[0], targets[0]
    if len(sources) > 1:
        yield sources[-1], targets[-1]
