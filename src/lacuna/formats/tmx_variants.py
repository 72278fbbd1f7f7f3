"""TMX 1.1 to 1.4b: the units of a translation memory, and their variants by language."""

from __future__ import annotations

from dataclasses import dataclass

from lacuna.errors import FormatError
from lacuna.formats.inline_elements import InlineElements
from lacuna.formats.languages import language_matches, normalize_language
from lacuna.formats.xml_units import Node
from lacuna.records import Languages

ROOT = "tmx"
UNITS = frozenset({"tu"})
INLINE = InlineElements(spans=frozenset({"hi"}), pairs={"bpt": "ept"}, codes=frozenset({"it", "ph", "ut"}))
#: Properties of a variant that Lacuna has translated.
CONFIDENCE, REVIEW = "x-lacuna-confidence", "x-lacuna-review"
#: Languages of a file that an error lists; a file with more is unlikely to have a use for the rest.
MAX_NAMED_LANGUAGES = 20


@dataclass(slots=True)  # frozen ones take four times as long to make
class TmxUnit:
    """A ``<tu>``.

    :param variants: Each language, normalized, and its ``<tuv>``: the first that has a segment, or else the first.
    """

    node: Node
    variants: dict[str, Node]

    @classmethod
    def parse(cls, node: Node, name: str) -> TmxUnit:
        """Find the variants of a unit.

        :param name: The name of the file, for errors.
        :raises FormatError: A variant does not name its language.
        """
        variants: dict[str, Node] = {}
        for variant in node.children("tuv"):
            written = _language_attribute(variant)
            if not written:
                raise FormatError(
                    f"{name}:{variant.line}: malformed TMX (a <tuv> without xml:lang); name the language of each <tuv>"
                )
            language = normalize_language(written)
            if language not in variants or not (variants[language].child("seg") or variant.child("seg") is None):
                variants[language] = variant
        return cls(node, variants)

    def variant(self, language: str) -> Node | None:
        """Return the variant in a language, or else the first in a regional form of it (``de`` takes ``de-AT``)."""
        exact = self.variants.get(normalize_language(language))
        if exact is not None:
            return exact
        return next((variant for code, variant in self.variants.items() if language_matches(language, code)), None)

    def sides(self, languages: Languages) -> tuple[Node | None, Node | None]:
        """Return the variants in both languages; a variant that matches both is the source."""
        source, target = self.variant(languages.source), self.variant(languages.target)
        return source, target if target is not source else None


def language_of(variant: Node) -> str:
    """Return the language of a ``<tuv>`` as the file writes it."""
    return " ".join(_language_attribute(variant).split())


def _language_attribute(variant: Node) -> str:
    return variant.attributes.get("xml:lang") or variant.attributes.get("lang", "")  # the latter before TMX 1.4


def needs_review(variant: Node) -> bool:
    """Tell whether a person still has to look at a machine translation."""
    return variant.child("prop") is not None and any(
        prop.attributes.get("type") == REVIEW for prop in variant.children("prop")
    )
