"""Where PLAC at its largest ratio loses, on dev: by token, by what the memory still says, and in free translation.

The memory without the dropped entries is compared with the whole one, for PLAC with several shares of its candidates,
and for ``known`` and ``random`` with as many entries as PLAC drops at most. For each mask, adaptive kNN-MT is fitted to
one half of the dev pairs and measured on the other half, and the other way round. Changes are of the log-probability of
the right token under teacher forcing, in nats per dev token, so the groups of one kind add up to the change of all.
With ``--translated``, the last dev pairs are translated, with a combiner that was fitted to the others.

    python benchmarks/plac_failures.py STORE DEV [--model MODEL] --languages de-en [--pairs 600] [--translated 200]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners.interpolation import Weighing
from lacuna.corpora import read_corpus
from lacuna.datastore import Store
from lacuna.evaluation import evaluate_systems
from lacuna.evaluation.significance import resample_sums
from lacuna.fitting import DevSet
from lacuna.fitting.adaptive import fit_adaptive
from lacuna.fitting.objective import losses
from lacuna.fitting.token_cache import TokenCache, collect_dev
from lacuna.margin import read_margins
from lacuna.memory import Memory, open_memory
from lacuna.models import Model, load_model
from lacuna.progress import SILENT
from lacuna.pruning import make_pruner
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import Languages, SentencePair
from lacuna.translator import System

Mask = NDArray[np.bool_]
K = 8
# Of the candidates of PLAC.
SHARES = (0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """Dev tokens with one mask.

    :param log_p: Log-probability of the right token with the memory.
    """

    cache: TokenCache
    log_p: NDArray[np.float64]


def make_masks(store: Store, min_margin: int, seed: int) -> dict[str, Mask]:
    """Return masks of the entries that are kept."""
    table = StoreEntries(store, SILENT)

    def keep(method: str, ratio: float, **settings: int) -> Mask:
        return make_pruner(method, **settings).prune(table, ratio=ratio, seed=seed, clamp=True).keep

    most = float((store.known & (table.margin >= min_margin)).mean())
    plac = {f"plac {share:.0%}": keep("plac", most * share, min_margin=min_margin) for share in SHARES}
    return plac | {"known": keep("known", most), "random": keep("random", most)}


def measure(model: Model, memory: Memory, dev: DevSet, temperature: float | None) -> Measured:
    """Fit adaptive kNN-MT to each half of the dev sentences and measure the other half."""
    cache = collect_dev(model, [memory], dev, K)
    log_p = np.zeros(cache.tokens)
    half = cache.sentences % 2
    for fold in (0, 1):
        seen, unseen = (half != fold).nonzero()[:, 0], (half == fold).nonzero()[:, 0]
        combiner = fit_adaptive(part(cache, seen), temperature=temperature).combiner
        with torch.no_grad():
            weighing = Weighing.of(combiner.mass(cache.neighbors(unseen)))
            log_p[unseen.numpy()] = -losses(cache, unseen, weighing).double().numpy()
    return Measured(cache, log_p)


def part(cache: TokenCache, rows: torch.Tensor) -> TokenCache:
    """Return some tokens."""
    return replace(
        cache,
        distances=cache.distances[rows],
        values=cache.values[rows],
        log_weights=None if cache.log_weights is None else cache.log_weights[rows],
        gold=cache.gold[rows],
        log_p_gold=cache.log_p_gold[rows],
        log_p_values=cache.log_p_values[rows],
        log_p_sum=cache.log_p_sum[rows],
        sentences=cache.sentences[rows],
    )


def token_classes(model: Model, store: Store, gold: NDArray[np.int64]) -> dict[str, Mask]:
    """Return groups of tokens; each token is in one of them."""
    frequency = np.bincount(store.values, minlength=model.vocabulary_size)
    order = np.argsort(-frequency)
    often = np.zeros(model.vocabulary_size, np.bool_)
    often[order[: np.searchsorted(np.cumsum(frequency[order]), frequency.sum() / 2) + 1]] = True
    kinds = [_kind(model, int(token), bool(often[token])) for token in gold]
    return {kind: np.array([each == kind for each in kinds]) for kind in sorted(set(kinds))}


def _kind(model: Model, token: int, often: bool) -> str:
    if token == model.eos_id:
        return "end of sentence"
    text = model.token_text(token)
    letters = text.strip("▁ ")
    if not any(letter.isalnum() for letter in letters):
        return "punctuation"
    if any(letter.isdigit() for letter in letters):
        return "digits"
    place = "first piece" if text[:1] in ("▁", " ") else "later piece"
    return f"{place}, {'frequent' if often else 'rare'}"


def neighborhoods(whole: TokenCache, pruned: TokenCache) -> dict[str, Mask]:
    """Return groups of tokens by what pruning does to their neighbors; each token is in one of them."""
    before, after = whole.says_gold.any(1).numpy(), pruned.says_gold.any(1).numpy()
    emptied = (pruned.distances[:, 0] > whole.distances[:, -1]).numpy()
    same = (whole.values == pruned.values).all(1).numpy() & (whole.distances == pruned.distances).all(1).numpy()
    rest = ~emptied & ~same
    return {
        "all neighbors dropped": emptied,
        "some dropped, right token left": rest & after,
        "some dropped, right token lost": rest & before & ~after,
        "some dropped, right token never there": rest & ~before & ~after,
        "none dropped": same,
    }


def confidences(cache: TokenCache) -> dict[str, Mask]:
    """Return groups of tokens by the model's own probability of the right token."""
    p = cache.log_p_gold.exp().numpy()
    bounds = (0.0, 0.1, 0.5, 0.9, 1.01)
    return {f"p {low:g} to {min(high, 1):g}": (p >= low) & (p < high) for low, high in pairwise(bounds)}


def table(groups: dict[str, Mask], changes: dict[str, NDArray[np.float64]]) -> list[dict[str, object]]:
    """Return the share of each group, and its part of the change of the mean, by mask."""
    count = len(next(iter(changes.values())))
    return [
        {"group": name, "tokens": round(float(rows.mean()), 3)}
        | {mask: round(float(change[rows].sum() / count), 4) for mask, change in changes.items()}
        for name, rows in groups.items()
    ]


def interval(change: NDArray[np.float64], sentences: NDArray[np.int64]) -> list[float]:
    """Return the mean change with its 95 % interval, by bootstrap resampling of sentences."""
    count = int(sentences.max()) + 1
    sums = np.stack(
        [np.bincount(sentences, weights=change, minlength=count), np.bincount(sentences, minlength=count)], 1
    )
    drawn = resample_sums(sums)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    return [round(float(each), 4) for each in (change.mean(), low, high)]


def facts_of(store: Store, min_margin: int, eos: int) -> dict[str, object]:
    """Return what is known of a memory without a dev set."""
    margin, known = read_margins(store).values, store.known
    candidates = known & (margin >= min_margin)
    p = np.exp(store.log_p_gold.astype(np.float64))
    return {
        "entries": store.entries,
        "known": round(float(known.mean()), 4),
        "largest ratio": round(float(candidates.mean()), 4),
        "candidates of the known": round(float(candidates.sum() / known.sum()), 4),
        "mean p of candidates": round(float(p[candidates].mean()), 4),
        "candidates with p below 0.5": round(float((p[candidates] < 0.5).mean()), 4),
        "nats of candidates": round(float(-store.log_p_gold[candidates].astype(np.float64).mean()), 4),
        "candidates among end tokens": round(float(candidates[store.values == eos].mean()), 4),
    }


def repeats(text: str) -> bool:
    """Return whether a word or a character is repeated more than four times in a row."""
    words = text.split()
    runs = any(len(set(words[first : first + 5])) == 1 for first in range(len(words) - 4))
    return runs or any(letter * 6 in text for letter in set(text) if not letter.isspace())


def translate(
    model: Model, memories: dict[str, Memory], fitted: Sequence[SentencePair], pairs: Sequence[SentencePair]
) -> None:
    """Print scores, lengths and repetitions of free translations."""
    dev, references = DevSet(fitted), [pair.target for pair in pairs]
    words = sum(len(text.split()) for text in references)
    for name, memory in memories.items():
        combiner = fit_adaptive(collect_dev(model, [memory], dev, K)).combiner
        results = System(model, [memory], combiner).open().translate([pair.source for pair in pairs])
        texts = [result.text for result in results]
        score = evaluate_systems(references, {name: texts}, samples=1)[0].as_json()
        row = {"mask": name, "bleu": round(score["bleu"], 2), "chrf": round(score["chrf"], 2)}
        row["length ratio"] = round(sum(len(text.split()) for text in texts) / words, 3)
        row["repeating"] = sum(map(repeats, texts))
        print(json.dumps(row), flush=True)


def main() -> None:
    """Print one JSON object per row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--pairs", type=int, default=600)
    parser.add_argument("--translated", type=int, default=0)
    parser.add_argument("--min-margin", type=int, default=4)
    parser.add_argument("--temperature", type=float, help="of adaptive kNN-MT; default: the best")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    languages = Languages.parse(given.languages)
    model = load_model(given.model, languages=languages, mask_placeholders=False)
    memory = open_memory(given.store)
    store = memory.store
    print(json.dumps(facts_of(store, given.min_margin, model.eos_id)), flush=True)
    pairs = list(read_corpus(given.dev, languages=languages))[: given.pairs]
    masks = make_masks(store, given.min_margin, given.seed)
    memories = {"whole": memory} | {name: memory.keeping(keep) for name, keep in masks.items()}
    dev = DevSet(pairs)
    whole, *others = [measure(model, each, dev, given.temperature) for each in memories.values()]
    measured = dict(zip(masks, others, strict=True))
    changes = {name: each.log_p - whole.log_p for name, each in measured.items()}
    sentences = whole.cache.sentences.numpy()
    alone, gain = float(whole.cache.log_p_gold.mean()), float((whole.log_p - whole.cache.log_p_gold.numpy()).mean())
    print(json.dumps({"tokens": len(sentences), "model alone": round(alone, 4), "gain": round(gain, 4)}), flush=True)
    near = {name: neighborhoods(whole.cache, each.cache) for name, each in measured.items()}
    for name, change in changes.items():
        row = {"mask": name, "dropped": round(float((~masks[name]).mean()), 4), "change": interval(change, sentences)}
        row["of the gain"] = round(float(change.mean()) / gain, 4)
        emptied = near[name]["all neighbors dropped"]
        row["all neighbors dropped"] = round(float(emptied.mean()), 4)
        print(json.dumps(row), flush=True)
    shown = {name: changes[name] for name in ("plac 50%", "plac 100%", "known", "random")}
    for title, groups in (
        ("token", token_classes(model, store, whole.cache.gold.numpy())),
        ("model's p of the right token", confidences(whole.cache)),
    ):
        for row in table(groups, shown):
            print(json.dumps({"by": title} | row), flush=True)
    for name in shown:
        for row in table(near[name], {name: changes[name]}):
            print(json.dumps({"by": "neighbors"} | row), flush=True)
    if given.translated:
        translate(model, memories, pairs[: -given.translated], pairs[-given.translated :])


if __name__ == "__main__":
    main()
