"""A model with the memories, combiners and glossaries that clients can select, and the options of a request.

A memory or glossary here is one state of it: when it is edited, the engine gets the next state, and requests that have
begun keep theirs. Only resolving options and replacing states are safe for several threads. Knows nothing of HTTP and
queues.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lacuna.combiners import Combiner, Gate, SavedCombiner, Vanilla
from lacuna.datastore.unsaved import make_unsaved_store
from lacuna.decoding import BeamSettings
from lacuna.documents.paragraphs import CheckTranslation, Splitter, checking, fitting, is_translatable
from lacuna.documents.sentence_splitting import Piece, split_clauses
from lacuna.errors import SettingError
from lacuna.explanation import Explanation
from lacuna.explanation.explainer import Explainer
from lacuna.glossaries import Glossary, Term
from lacuna.index import ExactIndex
from lacuna.memory import FolderMemory, Memory
from lacuna.models import Model
from lacuna.models.directions import short_code
from lacuna.records import Languages, SentencePair, Translation
from lacuna.serving.alternatives import Alternatives, find_alternatives
from lacuna.serving.limits import RequestError, TooLarge
from lacuna.serving.pairs import check_fit
from lacuna.translator import System, Translator
from lacuna.translator.calibration import Calibration
from lacuna.translator.knowledge import MAX_MARGIN

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_OWN = 4  # memories of pairs that are kept
_MAX_COMBINED = 4  # glossaries with terms of requests that are kept
NO_GLOSSARY = "none"  # asks for none; no glossary can have this name
PAIRS = "(pairs)"  # the memory of a request's own pairs in explanations; no other can have this name


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """Options of a request. Texts with equal options are translated in one batch.

    :param memories: States of memories, in the order of the server; empty for the model alone.
    :param combiner: Name of a combiner of the server, or settings of the client; ``None`` for the safe one.
    :param pairs: Pairs of the request itself, searched like a further memory.
    :param exact_contexts: Translate a sentence of a memory as there; see :class:`~lacuna.combiners.ExactContexts`.
    :param glossary: The state of a glossary.
    :param terms: Terms of the request itself, which replace those of the glossary with the same source.
    """

    memories: tuple[Memory, ...]
    combiner: str | Vanilla | None
    beam: BeamSettings
    pairs: tuple[SentencePair, ...] = ()
    exact_contexts: bool = True
    glossary: Glossary | None = None
    terms: tuple[Term, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the memories."""
        return [memory.name for memory in self.memories]


@dataclass(frozen=True, slots=True)
class Job:
    """The key of a batch: options and task.

    :param explain: Explain the translation too.
    :param without: Sentence numbers whose entries an explanation leaves out.
    :param confidence: Give translations a confidence, if the memory has a calibration.
    :param alternatives: Find the best translation and this many others, as plain texts.
    """

    options: TranslationOptions
    explain: bool = False
    without: tuple[int, ...] = ()
    confidence: bool = False
    alternatives: int = 0


Result = Translation | Explanation | Alternatives
"""The result of a job for one text: a translation, an explanation, or alternatives."""


class Engine:
    """A model with the memories, combiners and glossaries that clients can select.

    :param memories: The first is the default of clients.
    :param combiners: Combiners by name; one with the name of a memory is the default of that memory.
    :param calibrations: Sources of confidence, by the name of the memory that they are for.
    :param gates: Gates of the combiners with these names, each with the number of entries that it was made for; see
        :class:`~lacuna.translator.System`.
    :param glossaries: One with the name of a memory is the default with that memory.
    :param fallback: Translate without memory if the server of a memory does not answer, and say so in the answer.
    """

    def __init__(
        self,
        model: Model,
        memories: Sequence[Memory] = (),
        combiners: Mapping[str, Combiner] | None = None,
        calibrations: Mapping[str, Calibration] | None = None,
        *,
        gates: Mapping[str, tuple[Gate, int | None]] | None = None,
        glossaries: Sequence[Glossary] = (),
        fallback: bool = False,
    ) -> None:
        self.model, self.fallback = model, fallback
        self._gates = dict(gates or {})
        self._fits = fitting(model)
        # The texts of a request may be in many batches.
        self._own_memory = lru_cache(_MAX_OWN)(self._make_memory)
        self._with_terms = lru_cache(_MAX_COMBINED)(_combined)
        self.memories = {memory.name: memory for memory in memories}
        self.combiners = dict(combiners or {})
        self.calibrations = dict(calibrations or {})
        self.glossaries = {glossary.name: glossary for glossary in glossaries}
        names = [glossary.name for glossary in glossaries]
        _check_names(
            ("memory", [memory.name for memory in memories]), ("combiner", list(self.combiners)), ("glossary", names)
        )
        if NO_GLOSSARY in names:
            raise SettingError(f"glossary {NO_GLOSSARY!r}: asks for no glossary; choose another name, as in NAME=FILE")
        for memory in memories:
            memory.check_model(model)
        for combiner in self.combiners.values():
            if isinstance(combiner, SavedCombiner):
                combiner.check_model(model.fingerprint)
        for memory in memories:
            # An edited memory has few entries at times, and then fewer neighbors are found.
            if memory.name in self.combiners and not memory.is_edited:
                _check_k(self.combiners[memory.name].k, [memory])
            if memory.name in self.calibrations:
                self.calibrations[memory.name].check([memory], MAX_MARGIN)

    @classmethod
    def of(
        cls, systems: Mapping[str, System], *, glossaries: Sequence[Glossary] = (), fallback: bool = False
    ) -> Engine:
        """Return an engine of systems with the same model, each with one memory, by the name of that memory.

        :param glossaries: Instead of those of the systems.
        """
        combiners = {name: system.combiner for name, system in systems.items() if system.combiner is not None}
        calibrations = {name: system.calibration for name, system in systems.items() if system.calibration is not None}
        gates = {
            name: (system.gate, system.gate_entries) for name, system in systems.items() if system.gate is not None
        }
        memories = [memory for system in systems.values() for memory in system.memories]
        model = next(iter(systems.values())).model
        return cls(model, memories, combiners, calibrations, gates=gates, glossaries=glossaries, fallback=fallback)

    def splitter(self, fits: Callable[[str], bool], *, lines: bool = False) -> Splitter:
        """Return what cuts texts into sentences, in any thread; :meth:`run` cuts those that are too long for the model.

        :param fits: Whether a sentence is short enough to wait in a queue. It must not use the tokenizer.
        :param lines: Each line is one sentence.
        """
        languages = self.model.languages or Languages("en", "en")
        plain = Languages(*(short_code(code) or code for code in (languages.source, languages.target)))
        return Splitter(plain, fits, lines)

    def calibration_of(self, memories: Sequence[Memory]) -> Calibration | None:
        """Return the calibration of the first of some memories that has one."""
        return next((self.calibrations[memory.name] for memory in memories if memory.name in self.calibrations), None)

    def replace(self, memory: Memory) -> None:
        """Use a new state of a memory from now on."""
        self.memories = {**self.memories, memory.name: memory}

    def replace_glossary(self, glossary: Glossary) -> None:
        """Use a new state of a glossary from now on."""
        self.glossaries = {**self.glossaries, glossary.name: glossary}

    def resolve_options(
        self,
        memories: Sequence[str] | None = None,
        combiner: str | Vanilla | None = None,
        beam: BeamSettings | None = None,
        pairs: Sequence[SentencePair] = (),
        glossary: str | None = None,
        terms: Sequence[Term] = (),
    ) -> TranslationOptions:
        """Fill in defaults, and refuse unknown names and a k that is too large."""
        current = self.memories
        asked = list(current)[:1] if memories is None else memories
        for name in asked:
            if name not in current:
                raise RequestError(f"memories: got {name!r}; available: {_listed(current)}")
        chosen = tuple(memory for name, memory in current.items() if name in asked)
        if isinstance(combiner, Vanilla) and chosen and not pairs:
            _check_k(combiner.k, chosen)
        exact_contexts = not isinstance(combiner, Vanilla)  # settings of the client are followed to the letter
        if combiner is None and (chosen or not pairs):
            combiner = next((memory.name for memory in chosen if memory.name in self.combiners), None)
        if isinstance(combiner, str) and combiner not in self.combiners:
            raise RequestError(f"combiner: got {combiner!r}; available: {_listed(self.combiners)}")
        return TranslationOptions(
            chosen,
            combiner,
            beam or BeamSettings(),
            tuple(pairs),
            exact_contexts,
            self._glossary(chosen, glossary, terms),
            tuple(terms),
        )

    def _glossary(self, memories: Sequence[Memory], name: str | None, terms: Sequence[Term]) -> Glossary | None:
        """Return the glossary of a request: the one it asks for, or that of its first memory that has one."""
        current = self.glossaries
        if name is None:
            name = next((memory.name for memory in memories if memory.name in current), NO_GLOSSARY)
        if name != NO_GLOSSARY and name not in current:
            raise RequestError(f"glossary: got {name!r}; available: {', '.join([*current, NO_GLOSSARY])}")
        glossary = current.get(name)
        if (glossary or terms) and self.model.languages is None:
            raise RequestError("the model does not say its languages, which terms need; start the server with them")
        return glossary or None  # one without terms would do nothing

    def checking(self, options: TranslationOptions) -> CheckTranslation:
        """Return what checks translations of people against the terms of a request, in any thread."""
        return checking(self._glossary_of(options), self.model.languages, options.memories)

    def _glossary_of(self, options: TranslationOptions) -> Glossary | None:
        """Return the terms of a request and its glossary as one."""
        return self._with_terms(options.terms, options.glossary) if options.terms else options.glossary

    def run(self, job: Job, texts: list[str]) -> list[Result | Exception]:
        """Translate or explain sentences. Those that are too long are translated in clauses, but not explained."""
        if job.alternatives:
            return [*self._alternatives(job, texts)]
        cut = [
            [Piece(text, "")] if job.explain or self._fits(text) else split_clauses(text, self._fits) for text in texts
        ]
        refusals = [self._refusal(pieces) for pieces in cut]
        good = [number for number, refusal in enumerate(refusals) if refusal is None]
        kept = [texts[number] for number in good]
        done: Iterator[Result]
        if job.explain:
            done = iter(self._explain(job, kept))
        else:
            done = iter(self._translate(job, kept, [cut[number] for number in good]))
        return [next(done) if refusal is None else refusal for refusal in refusals]

    def _translate(self, job: Job, texts: Sequence[str], cut: Sequence[Sequence[Piece]]) -> list[Translation]:
        clauses = [piece.text for pieces in cut for piece in pieces if is_translatable(piece.text)]
        translations = iter(self._translator(job.options).translate(clauses, confidence=job.confidence))
        return [self._joined(text, pieces, translations) for text, pieces in zip(texts, cut, strict=True)]

    def _joined(self, text: str, pieces: Sequence[Piece], translations: Iterator[Translation]) -> Translation:
        """Put the translated clauses of a sentence together."""
        whole = self.splitter(self._fits).join(text, pieces, translations)
        if len(whole.sentences) == 1 and whole.sentences[0].translation is not None:
            return whole.sentences[0].translation
        return Translation(
            text,
            whole.text,
            whole.score,
            whole.tokens,
            without_memory=whole.without_memory,
            flag=whole.flag,
            confidence=whole.confidence,
            terms=whole.terms,
            without_glossary=whole.without_glossary,
        )

    def _alternatives(self, job: Job, texts: Sequence[str]) -> list[Alternatives]:
        """Return translations of each sentence, none for those that are too long."""
        short = [text for text in texts if self._fits(text)]
        alternatives = find_alternatives(
            self._translator(job.options), short, job.alternatives, self.checking(job.options)
        )
        done = dict(zip(short, alternatives, strict=True))
        return [done.get(text, Alternatives()) for text in texts]

    def _explain(self, job: Job, texts: Sequence[str]) -> Sequence[Explanation]:
        return Explainer(self._translator(job.options), without=job.without).explain(texts)

    def _translator(self, options: TranslationOptions) -> Translator:
        own = [self._own_memory(options.pairs)] if options.pairs else []
        memories = [*options.memories, *own]
        combiner: Combiner | None
        combiner = self.combiners[options.combiner] if isinstance(options.combiner, str) else options.combiner
        gate, entries = None, None
        if len(memories) == 1 and options.combiner == memories[0].name:
            gate, entries = self._gates.get(memories[0].name, (None, None))
        return System(
            self.model,
            memories,
            combiner,
            options.beam,
            gate=gate,
            gate_entries=entries,
            calibration=self.calibration_of(options.memories),
            exact_contexts=options.exact_contexts,
            guard_ends=options.exact_contexts,
            fallback=self.fallback,
            glossary=self._glossary_of(options),
        ).open()

    def _make_memory(self, pairs: tuple[SentencePair, ...]) -> Memory:
        """Return a memory of a request's own pairs, which are nowhere on disk."""
        check_fit(self.model, pairs)
        store = make_unsaved_store(self.model, pairs, PAIRS)
        return FolderMemory.of(store, PAIRS, ExactIndex(store))

    def _refusal(self, pieces: Sequence[Piece]) -> Exception | None:
        """Return an error for a text that the translator would truncate: HTTP clients do not see its warning."""
        long = next((piece.text for piece in pieces if not self._fits(piece.text)), None)
        if long is None:
            return None
        [tokens] = self.model.encode_sources([long])
        return TooLarge(
            f"a sentence has {len(tokens):,} tokens, the model takes {self.model.max_length:,}; send a shorter one"
        )


def _combined(terms: tuple[Term, ...], glossary: Glossary | None) -> Glossary:
    """Return a glossary with terms before its own, instead of those with the same source."""
    sources = {term.source.casefold() for term in terms}
    others = [term for term in glossary or () if term.source.casefold() not in sources]
    return Glossary([*terms, *others])


def _check_k(k: int, memories: Sequence[Memory]) -> None:
    entries = sum(memory.entries for memory in memories)
    if k > entries:
        raise RequestError(f"k: got {k:,}, but there are only {entries:,} entries; allowed is 1 to {entries:,}")


def _check_names(*kinds: tuple[str, list[str]]) -> None:
    for kind, names in kinds:
        for name in names:
            if not NAME.fullmatch(name):
                raise SettingError(f"{kind} {name!r}: a name has 1 to 64 letters, digits, dots, dashes or underscores")
            if names.count(name) > 1:
                raise SettingError(f"{kind} {name!r}: given twice; give each its own name, as in NAME=FOLDER")


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names) or "none"
