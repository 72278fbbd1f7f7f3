"""Glossaries: how often terms are translated as they should be, what that does to quality, and what it costs.

Terms are short entries of corpora (menu items, labels) that occur elsewhere. Sentences of TEST are taken whose source
has terms, if the reference translates each of them as the glossary says. Systems: the model alone and, with
``--domain``, the domain; each without a glossary, with a bonus (soft), and with strict terms.

    python benchmarks/glossary.py TEST --terms-from TRAIN [TRAIN ...] --languages fr-en --model MODEL [--domain DOMAIN]

``--random`` is a control: each term gets the translation of another one, which only enforcement can produce.
``--bonus`` tries another bonus, on a dev set. ``--speed`` measures the cost in turns, on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from lacuna.corpora import read_corpus
from lacuna.corpora.placeholders import find_placeholders
from lacuna.domain import open_domain
from lacuna.glossaries import AcceptedForms, Glossary, Term, TermFinder, split_words
from lacuna.models import Model, load_model
from lacuna.records import Languages, SentencePair, Translation
from lacuna.translator import System, term_keeper

# Fewest words of a sentence; most words of a term, fewest letters of one that is a single word, and the share of
# sentences above which a word is no term.
_LEAST_WORDS, _MOST_WORDS, _LEAST_LETTERS, _COMMON = 3, 3, 4, 0.01
# A source with several translations is a term if this share of them is the same.
_CONSISTENT = 0.5
# A term is left out if fewer of the sentences with it have its translation; so many are looked at.
_CONFIRMED, _READ = 0.7, 100_000


def main() -> None:
    """Print one JSON object per system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test")
    parser.add_argument("--terms-from", nargs="+", required=True)
    parser.add_argument("--languages", required=True, type=Languages.parse)
    parser.add_argument("--model")
    parser.add_argument("--domain", type=Path)
    parser.add_argument("--terms", type=int, default=5000)
    parser.add_argument("--sentences", type=int, help="at most so many sentences with terms")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--bonus", type=float, default=term_keeper.BONUS, help="in nats")
    parser.add_argument("--speed", type=int, metavar="ROUNDS", help="measure speed as well, in so many rounds")
    parser.add_argument("--show", type=int, default=0, help="print so many translations that lack a term")
    given = parser.parse_args()
    term_keeper.BONUS = given.bonus
    domain = None if given.domain is None else open_domain(given.domain)
    model = load_model(given.model, languages=given.languages) if domain is None else domain.model
    trained = [pair for corpus in given.terms_from for pair in read_corpus(corpus, languages=given.languages)]
    test = list(read_corpus(given.test, languages=given.languages))
    glossary, pairs = choose(trained, test, given.languages, given.terms)
    if given.sentences:
        pairs = pairs[: given.sentences]
    if given.random:
        glossary = shuffled(glossary)
    finder = TermFinder(glossary, given.languages.source)
    occurrences = sum(len(_terms_of(finder, pair.source)) for pair in pairs)
    show({"terms": len(glossary), "sentences": len(pairs), "occurrences": occurrences, "random": given.random})
    for name, system in systems(model, None if domain is None else domain.system):
        for mode, own in (
            ("", system),
            ("soft", replace(system, glossary=glossary)),
            ("strict", replace(system, glossary=glossary, strict_terms=True)),
        ):
            translations, seconds = translated(own, [pair.source for pair in pairs])
            score = scores(translations, pairs, finder, AcceptedForms(given.languages.target))
            speed = sum(translation.tokens for translation in translations) / seconds
            show({"system": name, "glossary": mode or "none", **score, "tokens_per_second": round(speed)})
            if mode:
                for translation in [each for each in translations if "term" in each.flag][: given.show]:
                    show({"flag": translation.flag, "source": translation.source, "text": translation.text})
        if given.speed:
            free = [pair.source for pair in test if not finder.find(pair.source)]
            kinds = {"with terms": [pair.source for pair in pairs], "without terms": free[: len(pairs)]}
            for kind, sources in kinds.items():
                show({"system": name, "sentences": kind, **time_ratios(system, glossary, sources, given.speed)})


def choose(
    trained: Sequence[SentencePair], test: Sequence[SentencePair], languages: Languages, most: int
) -> tuple[Glossary, list[SentencePair]]:
    """Choose terms, and the test sentences whose references translate all terms as the glossary says."""
    accepted = AcceptedForms(languages.target)
    candidates = _confirmed(list(_candidates(trained)), trained, languages, accepted)
    finder = TermFinder(Glossary(candidates), languages.source)
    kept: dict[Term, None] = {}
    for pair in test:  # of all test sentences: only the choice of sentences depends on references
        kept |= dict.fromkeys(_terms_of(finder, pair.source))
    glossary = Glossary(list(dict.fromkeys([*kept, *candidates]))[:most])
    finder = TermFinder(glossary, languages.source)
    chosen = []
    for pair in test:
        terms = _terms_of(finder, pair.source)
        if (
            terms
            and all(accepted.find(term, pair.target) for term in terms)
            and len(split_words(pair.source)) >= _LEAST_WORDS
        ):
            chosen.append(pair)
    return glossary, chosen


def _candidates(pairs: Iterable[SentencePair]) -> Iterable[Term]:
    """Yield short entries with one usual translation, the most frequent first."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    frequency: Counter[str] = Counter()
    count = 0
    for pair in pairs:
        words = [word.text.casefold() for word in split_words(pair.source)]
        count += 1
        frequency.update(set(words))
        if _is_short(pair.source) and _is_short(pair.target):
            votes[" ".join(pair.source.casefold().split())][" ".join(pair.target.casefold().split())] += 1
    for source, targets in sorted(votes.items(), key=lambda item: -item[1].total()):
        [(target, votes_of_best)] = targets.most_common(1)
        words = source.split()
        is_common = all(frequency[word] > _COMMON * count for word in words)
        is_tiny = len(words) == 1 and len(source) < _LEAST_LETTERS
        if votes_of_best >= _CONSISTENT * targets.total() and not is_common and not is_tiny and source != target:
            yield Term(source, (target,))


def _confirmed(
    candidates: Sequence[Term], trained: Sequence[SentencePair], languages: Languages, accepted: AcceptedForms
) -> list[Term]:
    """Return the terms that sentences of the corpora translate as the short entries do, as a terminologist would."""
    finder = TermFinder(Glossary(candidates), languages.source)
    found: Counter[Term] = Counter()
    right: Counter[Term] = Counter()
    for pair in trained[:_READ]:
        if not _is_short(pair.source):
            for term in _terms_of(finder, pair.source):
                found[term] += 1
                right[term] += accepted.find(term, pair.target) is not None
    return [term for term in candidates if right[term] >= _CONFIRMED * found[term]]


def _is_short(text: str) -> bool:
    words = text.split()
    plain = all(word.replace("-", "").isalpha() for word in words)
    return 1 <= len(words) <= _MOST_WORDS and plain and not find_placeholders(text)


def shuffled(glossary: Glossary) -> Glossary:
    """Give each term the translation of another one with as many words."""
    groups: dict[int, list[Term]] = defaultdict(list)
    for term in glossary:
        groups[len(term.targets[0].split())].append(term)
    mixed = []
    for terms in groups.values():
        targets = [term.targets for term in terms]
        random.Random(1).shuffle(targets)
        mixed += [replace(term, targets=own) for term, own in zip(terms, targets, strict=True) if own != term.targets]
    return Glossary(mixed)


def _terms_of(finder: TermFinder, source: str) -> list[Term]:
    """Return the terms of a source, each once, without those that are a part of a compound."""
    return list(dict.fromkeys(found.term for found in finder.find(source) if not found.in_compound))


def systems(model: Model, domain: System | None) -> list[tuple[str, System]]:
    """Return the systems without a glossary."""
    alone = [("model alone", System(model))]
    return alone if domain is None else [*alone, ("domain", replace(domain, glossary=None))]


def translated(system: System, sources: Sequence[str]) -> tuple[list[Translation], float]:
    """Return the translations and the seconds they took."""
    translator = system.open()
    translator.translate(sources[:8])
    start = time.perf_counter()
    return translator.translate(sources), time.perf_counter() - start


def scores(
    translations: Sequence[Translation], pairs: Sequence[SentencePair], finder: TermFinder, accepted: AcceptedForms
) -> dict[str, Any]:
    """Return term success, the share of sentences with every term right, consistency, BLEU and chrF."""
    right, whole = [], []
    forms: dict[Term, list[bool]] = defaultdict(list)
    for translation, pair in zip(translations, pairs, strict=True):
        terms = _terms_of(finder, pair.source)
        own = [accepted.find(term, translation.text) is not None for term in terms]
        right += own
        whole.append(all(own))
        for term, has in zip(terms, own, strict=True):
            forms[term].append(has)
    texts, references = [each.text for each in translations], [pair.target for pair in pairs]
    repeated = [each for each in forms.values() if len(each) > 1]
    return {
        "success": round(statistics.mean(right), 4),
        "sentences_right": round(statistics.mean(whole), 4),
        "consistent_terms": round(statistics.mean(all(each) for each in repeated), 4) if repeated else None,
        "bleu": round(BLEU().corpus_score(texts, [references]).score, 2),
        "chrf": round(CHRF().corpus_score(texts, [references]).score, 2),
        "left_alone": round(statistics.mean(not each.without_glossary for each in translations), 4),
        "flagged": sum("term" in translation.flag for translation in translations),
    }


def time_ratios(system: System, glossary: Glossary, sources: Sequence[str], rounds: int) -> dict[str, float]:
    """Return the time with a glossary divided by the time without, soft and strict: medians of turns."""
    opened = {
        "none": system.open(),
        "soft": replace(system, glossary=glossary).open(),
        "strict": replace(system, glossary=glossary, strict_terms=True).open(),
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds + 1):
        for name, translator in opened.items():
            took = _timed(lambda own=translator: own.translate(sources))
            if turn:  # the first warms up
                seconds[name].append(took)
    return {
        name: round(statistics.median(a / b for a, b in zip(seconds[name], seconds["none"], strict=True)), 3)
        for name in ("soft", "strict")
    }


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def show(content: dict[str, Any]) -> None:
    """Print a JSON object."""
    print(json.dumps(content, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
