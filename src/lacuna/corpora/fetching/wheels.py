"""From a wheel to sentence pairs: finds the catalogs of two languages and joins them message by message.

A wheel is only read as a zip file; none of its code is run. Knows nothing of downloading, cleaning or splitting.
"""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from lacuna.corpora.fetching.catalogs import Message, read_catalog
from lacuna.corpora.fetching.locales import LOCALE, best_first, canonical
from lacuna.corpora.fetching.messages import tidy
from lacuna.corpora.fetching.registry import Kind, Package
from lacuna.errors import FetchError
from lacuna.records import Languages, Origin, SentencePair

#: No honest catalog is larger; a zip member that claims or turns out to be is refused.
LARGEST_CATALOG = 64_000_000

Located = tuple[Message, str]  # a message and the member of the wheel it stands in
Spellings = dict[str, str]  # locale as the package spells it -> member
Slots = dict[str, dict[str, Spellings]]  # catalog without its locale -> language -> spellings


def find_catalogs(package: Package, names: list[str]) -> Slots:
    """Group a wheel's catalogs by what they translate, then by language.

    :param package: Says where catalogs stand.
    :param names: The members of the wheel.
    """
    slots: Slots = defaultdict(lambda: defaultdict(dict))
    patterns = [_pattern(glob) for glob in package.catalogs]
    # .po after .mo: they are the same catalog, and only .po tells unsure translations and comments.
    for name in sorted(names, key=lambda name: (name.endswith(".po"), name)):
        found = next(filter(None, (pattern.fullmatch(name) for pattern in patterns)), None)
        if found is None:
            continue
        locale = found["locale"]
        slot = (name[: found.start("locale")] + "{locale}" + name[found.end("locale") :]).rpartition(".")[0]
        slots[slot][canonical(locale)][locale] = name
    return slots


def read_pairs(package: Package, path: Path, languages: Languages) -> Iterator[SentencePair]:
    """Give every translated message of a wheel as a pair, in an order that depends on the wheel alone.

    :param package: What the wheel is.
    :param path: The wheel.
    :param languages: The direction; without English in it, two catalogs are joined on their message ids.
    """
    with zipfile.ZipFile(path) as wheel:
        slots = find_catalogs(package, wheel.namelist())
        for slot in sorted(slots):
            sides = [_side(wheel, package, slots[slot], code) for code in (languages.source, languages.target)]
            for source, target, place, member in _join(*sides):
                yield SentencePair(
                    tidy(source, package.accelerator),
                    tidy(target, package.accelerator),
                    Origin(f"{package.pin}:{member}", place, package.name),
                )


def _side(
    wheel: zipfile.ZipFile, package: Package, by_language: dict[str, Spellings], language: str
) -> dict[str, Located] | None:
    """Give one side's messages by key; None for English where it stands beside every translation already."""
    wanted = canonical(language)
    if wanted == "en" and package.kind is Kind.GETTEXT:
        return None
    messages: dict[str, Located] = {}
    spellings = by_language.get(wanted, {})
    for locale in sorted(spellings, key=best_first):
        member = spellings[locale]
        for message in read_catalog(read_member(wheel, member), member, keyed=package.keyed):
            messages.setdefault(message.key, (message, member))
    return messages


def _join(source: dict[str, Located] | None, target: dict[str, Located] | None) -> Iterator[tuple[str, str, str, str]]:
    """Give source text, target text, place and member of each message both sides have."""
    if source is None and target is not None:
        for message, member in target.values():
            yield message.english or "", message.text, message.place, member
    elif source is not None and target is None:
        for message, member in source.values():
            yield message.text, message.english or "", message.place, member
    elif source is not None and target is not None:
        for key, (message, member) in source.items():
            if key in target:
                yield message.text, target[key][0].text, message.place, member


def read_member(wheel: zipfile.ZipFile, name: str, largest: int = LARGEST_CATALOG) -> bytes:
    """Read one member, but never more than ``largest`` bytes whatever the zip says."""
    try:
        with wheel.open(name) as member:
            data = member.read(largest + 1)
    except (zipfile.BadZipFile, EOFError) as error:
        raise FetchError(f"{name}: the wheel is damaged here ({error}); delete it from the cache and retry") from error
    if len(data) > largest:
        raise FetchError(f"{name}: the catalog unpacks to more than {largest:,} bytes, which is refused as unsafe")
    return data


def _pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*|\{locale\})", glob)
    meanings = {"**/": "(?:.+/)?", "*": "[^/]*", "{locale}": f"(?P<locale>{LOCALE})"}
    return re.compile("".join(meanings.get(part, re.escape(part)) for part in parts))
