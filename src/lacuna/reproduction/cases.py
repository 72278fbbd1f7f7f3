"""Example sentences for reports, as tables: where a memory corrects the model, and which tokens have a small margin.

Tokens are shown inside normal text. A tokenizer decodes whole sequences only, so the end of a token in the text is
found by decoding the tokens up to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.errors import SettingError
from lacuna.fitting.dev_pass import DevBatch, DevSet
from lacuna.margin import Margins, margin_of
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.reproduction.knowledge_tables import SMALL
from lacuna.reproduction.tables import CLOSE, OPEN, Cell, Column, Table

# Tokens of an easily read sentence, and the share of letters that distinguishes text from code.
_MIN_LENGTH, _MAX_LENGTH = 6, 30
_LETTERS = 0.8
# Candidates whose sentences are compared; the others are sorted out by numbers alone.
_FINALISTS = 64
# Range of the share of tokens with a small margin: a useful example has some, but not all.
_MIN_SHARE, _MAX_SHARE = 0.2, 0.7
_PART = "-"  # marks a split word


@dataclass(frozen=True, eq=False, slots=True)
class _Position:
    """A position in a dev sentence where the model is wrong and the memory right.

    :param query: The query vector.
    :param entries: Retrieved entries, nearest first.
    :param rank: Sort key; higher is better, the first number matters most.
    """

    sentence: int
    place: int
    gold: int
    prediction: int
    query: NDArray[np.float32]
    entries: NDArray[np.int64]
    distances: NDArray[np.float32]
    rank: tuple[int, ...]


def neighbor_case(
    model: Model, memory: Memory, dev_pairs: Sequence[SentencePair], k: int = 8, *, progress: Progress = SILENT
) -> Table | None:
    """Find a dev position where the model is wrong, the margin is 0, and all neighbors have the right token.

    The best example is shown: its neighbors are unknown, come from different sentences, and are easy to read.

    :return: ``None`` if there is no such position.
    """
    best: list[_Position] = []
    dev = DevSet.of(dev_pairs)

    def positions_of(batch: DevBatch) -> list[_Position]:
        return list(_positions(model, memory.store, batch))

    for positions in dev.retrieve(model, [memory], k, positions_of, progress=progress):
        best = _ranked([*best, *positions])[:_FINALISTS]
    if not best:
        return None
    # The index may have missed a nearer, known entry, so the exact margin is computed.
    margins = margin_of(memory.store, np.stack([position.query for position in best]), max_margin=1)
    sure = [position for position, margin in zip(best, margins, strict=True) if margin == 0]
    read = _ranked([_read(model, memory.store, dev_pairs, position) for position in sure])
    return _case_table(model, memory.store, dev_pairs[read[0].sentence], read[0]) if read else None


def corpus_cases(model: Model, store: Store, margins: Margins, count: int = 5, below: int = SMALL) -> Table:
    """Show sentences of the store, with the target tokens underlined whose entries have a small margin.

    The sentences are of readable length, partly underlined, and spread over the corpus.

    :param count: Number of sentences; there may be fewer.
    :param below: Margins below this are small.
    """
    if count < 1:
        raise SettingError(f"count: got {count}; allowed is 1 or more")
    store.check_model(model)
    small = margins.capped(below) < below
    words = store.values != model.eos_id
    tokens, underlined = (
        np.bincount(store.sentence[entries], minlength=len(store.sentences)) for entries in (words, words & small)
    )
    share = underlined / np.maximum(1, tokens)
    fitting = (tokens >= _MIN_LENGTH) & (tokens <= _MAX_LENGTH) & (share >= _MIN_SHARE) & (share <= _MAX_SHARE)
    rows = tuple(
        (readable(pair.source), _underlined(model, store, pair, sentence, small), float(share[sentence]))
        for sentence, pair in _spread(store, np.flatnonzero(fitting), count)
    )
    columns = (
        Column("source"),
        Column("target"),
        Column("small margin", "share", 0, help=f"Share of the target's tokens with a margin below {below}."),
    )
    note = f"Underlined: tokens whose entries have a knowledge margin below {below}, where the model needs the memory."
    return Table("corpus-cases", "Tokens with a small margin", columns, rows, note, paper="Table 8")


def _positions(model: Model, store: Store, batch: DevBatch) -> Iterator[_Position]:
    """Yield the candidate positions of a batch."""
    gold, said = batch.gold.numpy(), batch.outputs.predictions.numpy()
    entries, near = batch.retrieval.entries, batch.retrieval.neighbors
    places = np.concatenate([np.arange(length) for length in batch.outputs.lengths])
    wrong = (said != gold) & (gold != model.eos_id)
    agreed = (near.values.cpu().numpy() == gold[:, None]).all(axis=1)  # a missing neighbor has the value -1
    rows = np.flatnonzero(wrong & agreed)
    unknown = ~store.known[entries[rows]]
    homes = np.sort(store.sentence[entries[rows]], axis=1)
    different = 1 + np.count_nonzero(np.diff(homes, axis=1), axis=1)
    for row, is_unknown, sentences in zip(rows.tolist(), unknown, different.tolist(), strict=True):
        if is_unknown[0] and any(letter.isalpha() for letter in model.decode([gold[row]])):
            yield _Position(
                sentence=int(batch.sentences[row]),
                place=int(places[row]),
                gold=int(gold[row]),
                prediction=int(said[row]),
                query=batch.outputs.keys[row].numpy(),
                entries=entries[row],
                distances=near.distances[row].cpu().numpy(),
                rank=(int(is_unknown.sum()), int(places[row] > 0), sentences),
            )


def _ranked(positions: list[_Position]) -> list[_Position]:
    """Sort by rank; ties keep the order of the dev set."""
    return sorted(
        positions, key=lambda position: (*(-number for number in position.rank), position.sentence, position.place)
    )


def _read(model: Model, store: Store, dev_pairs: Sequence[SentencePair], position: _Position) -> _Position:
    """Rank again by the sentences: how many are different, and how many are easy to read."""
    sources = [dev_pairs[position.sentence].source]
    sources += [store.sentences[sentence].source for sentence in store.sentence[position.entries]]
    lengths = [len(ids) for ids in model.encode_sources(sources)]
    easy = sum(
        _MIN_LENGTH <= length <= _MAX_LENGTH and _is_words(source)
        for source, length in zip(sources, lengths, strict=True)
    )
    return replace(position, rank=(*position.rank[:2], len(set(sources)) + easy))


def _case_table(model: Model, store: Store, pair: SentencePair, position: _Position) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for number, (entry, distance) in enumerate(zip(position.entries, position.distances, strict=True), 1):
        neighbor = store.sentences[int(store.sentence[entry])]
        before = model.encode_targets([neighbor.target])[0][: store.position[entry]]
        kind = "known" if store.known[entry] else "unknown"
        words = before_and_token(model, before, int(store.values[entry]))
        rows.append((number, kind, readable(neighbor.source), *words, float(distance)))
    before = model.encode_targets([pair.target])[0][: position.place]
    so_far, right = before_and_token(model, before, position.gold)
    said = before_and_token(model, before, position.prediction)[1]
    note = (
        f"Source: “{readable(pair.source)}” Translation so far: “{so_far}” The model alone predicts “{said}”; "
        f"the reference has “{right}”. The knowledge margin is 0. A hyphen marks a split word."
    )
    columns = (
        Column("no.", "count"),
        Column("type", help="Whether the model knows the entry."),
        Column("retrieved source"),
        Column("retrieved target so far"),
        Column("value", help="The next token in the retrieved sentence."),
        Column("distance", "number", 1, help="Squared L2."),
    )
    return Table("neighbor-case", "Neighbors that correct the model", columns, tuple(rows), note, paper="Table 3")


def _spread(store: Store, sentences: NDArray[np.int64], count: int) -> Iterator[tuple[int, SentencePair]]:
    """Yield sentences spread evenly over the corpus, without duplicates and without code."""
    seen: set[str] = set()
    for part in np.array_split(sentences, count):
        middle = len(part) // 2
        for sentence in [*part[middle:].tolist(), *part[:middle].tolist()]:
            pair = store.sentences[sentence]
            if pair.target not in seen and _is_words(pair.target):
                seen.add(pair.target)
                yield sentence, pair
                break


def _is_words(text: str) -> bool:
    shown = "".join(text.split())
    return sum(map(str.isalpha, shown)) >= _LETTERS * len(shown)


def _underlined(model: Model, store: Store, pair: SentencePair, sentence: int, small: NDArray[np.bool_]) -> str:
    ids = model.encode_targets([pair.target])[0]
    chosen = np.zeros(len(ids), np.bool_)  # a token whose entry was pruned is not underlined
    rows = np.flatnonzero(store.sentence == sentence)
    chosen[store.position[rows]] = small[rows]
    return underline(model, ids, chosen.tolist())


def underline(model: Model, ids: Sequence[int], chosen: Sequence[bool]) -> str:
    """Decode a translation with some tokens underlined; adjacent ones share one underline."""
    text, ends = _token_ends(model, ids)
    shown = [piece for piece in zip([0, *ends], ends, chosen, strict=False) if piece[0] < piece[1]]
    written = ""
    for marked, run in groupby(shown, key=lambda piece: piece[2]):
        pieces = list(run)
        part = readable(text[pieces[0][0] : pieces[-1][1]])
        space = part[: len(part) - len(part.lstrip())]
        written += f"{space}{OPEN}{part[len(space) :]}{CLOSE}" if marked else part
    return written


def before_and_token(model: Model, before: Sequence[int], token: int) -> tuple[str, str]:
    """Return the text before a token and the token; a hyphen marks a split word."""
    text = model.decode(before)
    whole = model.decode([*before, token])
    if token == model.eos_id:
        return readable(text), "(end of sentence)"
    rest = whole[len(text) :]
    if not whole.startswith(text) or not rest.strip():
        return readable(text), readable(model.token_text(token))
    part = _PART if _inside_word(text[-1:]) and _inside_word(rest[0]) else ""
    return readable(text + part), readable(part + rest.strip())


def readable(text: str) -> str:
    """Replace what a table cannot contain: its own markup, and lone surrogates."""
    return text.replace(OPEN, "[[").replace(CLOSE, "]]").encode("utf-8", "replace").decode("utf-8")


def _token_ends(model: Model, ids: Sequence[int]) -> tuple[str, list[int]]:
    """Return the text, and the end offset of each token in it."""
    text = model.decode(ids)
    shared = [_shared_start(text, model.decode(ids[:count])) for count in range(1, len(ids))]
    return text, list(accumulate([*shared, len(text)], max))


def _shared_start(text: str, other: str) -> int:
    letters = zip(text, other, strict=False)
    return next((index for index, (a, b) in enumerate(letters) if a != b), min(len(text), len(other)))


def _inside_word(character: str) -> bool:
    """Return whether a character is a digit or a letter with case, unlike Chinese characters."""
    return character.isdigit() or character.lower() != character.upper()
