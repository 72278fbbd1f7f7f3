"""``report.html`` of a domain: what was made, what it scores, and examples. Does not compute any figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lacuna.artifacts.pages import fit_for_html, own_file, page_environment
from lacuna.domain.manifest import DomainManifest
from lacuna.evaluation import sentence_gains
from lacuna.progress import duration
from lacuna.records import SentencePair

PAGE = "report.html"
# Examples of each kind, and the longest reference of an example in words.
_EXAMPLES, _MAX_WORDS = 4, 25


@dataclass(frozen=True, slots=True)
class DomainExample:
    """A test sentence that the memory changed.

    :param gain: Difference in chrF.
    """

    source: str
    reference: str
    without: str
    adapted: str
    gain: float


@dataclass(frozen=True, slots=True)
class DomainExamples:
    """The test sentences with the largest gains, and those with the largest losses."""

    better: tuple[DomainExample, ...] = ()
    worse: tuple[DomainExample, ...] = ()


def find_examples(test: Sequence[SentencePair], without: Sequence[str], adapted: Sequence[str]) -> DomainExamples:
    """Find short sentences with the largest gains and losses.

    :param without: Translations of the model alone.
    """
    gains = sentence_gains([pair.target for pair in test], without, adapted)
    changed = [
        DomainExample(pair.source, pair.target, old, new, gain)
        for pair, old, new, gain in zip(test, without, adapted, gains, strict=True)
        if gain and len(pair.target.split()) <= _MAX_WORDS
    ]
    ordered = sorted(changed, key=lambda example: example.gain)
    return DomainExamples(
        better=tuple(example for example in ordered[::-1][:_EXAMPLES] if example.gain > 0),
        worse=tuple(example for example in ordered[:_EXAMPLES] if example.gain < 0),
    )


def render_domain(name: str, manifest: DomainManifest, examples: DomainExamples) -> str:
    """Render the page.

    :param name: Name of the domain.
    """
    environment = page_environment("lacuna.domain")
    environment.filters["duration"] = duration
    page = environment.get_template("domain.html").render(
        name=name,
        manifest=manifest,
        sections=[("What the memory improved most", examples.better), ("What became worse", examples.worse)],
        style=own_file(environment, "style.css"),
    )
    return fit_for_html(page)
