"""Training from scratch: from corpora to vocabulary, token arrays, and a Marian model folder.

The run is kept in ``INTO/training``. Each stage writes a file that is complete or absent, so the same command resumes
after any interruption.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import MarianMTModel

from lacuna.artifacts.files import write_json
from lacuna.artifacts.locks import alone
from lacuna.errors import TrainingError
from lacuna.models.training.data import PairSet, encode_pairs, join_pairs, load_tokens, save_tokens, split_pairs
from lacuna.models.training.loop import AverageLast, TrainingLoop, TrainingRecipe
from lacuna.models.training.loss import marian_forward
from lacuna.models.training.network import copy_weights, count_parameters, load_network, make_network, make_optimizer
from lacuna.models.training.publishing import publish_network, read_runs
from lacuna.models.training.settings import TrainSettings
from lacuna.models.training.vocabulary import Vocabulary, check_tokenization, open_vocabulary, prepare_vocabulary
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair


@dataclass(frozen=True, slots=True)
class WeightedCorpus:
    """A training corpus and its weight.

    :param name: Name in the log and the model card.
    :param read: Returns a new stream of the pairs at each call.
    :param weight: How often each pair is seen per epoch; 0.5 samples half of the pairs in every epoch.
    """

    name: str
    read: Callable[[], Iterable[SentencePair]]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """Result of training.

    :param into: Folder of the model.
    :param epochs: Target tokens seen, in epochs.
    :param hours: Time spent in training steps.
    :param stopped: Why the run ended.
    :param pairs: Training pairs of each corpus.
    :param too_long: Pairs of corpora and dev set that were skipped because they are too long for the model.
    """

    into: Path
    steps: int
    epochs: float
    tokens: int
    hours: float
    dev_perplexity: float
    stopped: str
    parameters: int
    pairs: dict[str, int]
    too_long: int

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return asdict(self) | {"into": str(self.into)}


@alone("into")
def train_model(
    corpora: Sequence[WeightedCorpus],
    languages: Languages,
    settings: TrainSettings,
    into: Path,
    *,
    dev: Callable[[], Iterable[SentencePair]] | None = None,
    go_on: bool = False,
    start_from: Path | None = None,
    progress: Progress = SILENT,
) -> TrainingReport:
    """Train a Transformer from scratch, or train one further, and save it as a Hugging Face Marian folder.

    :param dev: Returns the pairs for dev perplexity; without it, some training pairs are held out.
    :param go_on: Start from the finished model in ``into``, with its vocabulary and a new budget.
    :param start_from: Start from the weights of another model, but with a new vocabulary. Tokens in both vocabularies
        keep their embeddings.
    """
    folder = into / "training"
    plan = _plan(corpora, languages, settings, go_on, start_from)
    _check_folder(folder, into, plan)
    check_tokenization(languages, settings, into)
    vocabulary = _prepare(corpora, languages, settings, into, plan, progress)
    train = _encode_all(corpora, vocabulary, settings, folder, progress)
    if dev is None:
        train, held = _hold_out(train, settings)
    else:
        held = _encode(dev(), vocabulary, settings, "dev", progress)
    torch.manual_seed(settings.seed)
    network = _start_network(into, vocabulary, settings, go_on, start_from)
    # Further training with the same seed would otherwise see the pairs of the run before, in the same order.
    run = TrainingLoop(_recipe(network, train, held, settings), folder, len(read_runs(into)) if go_on else 0)
    perplexity = run.train(progress)
    counters = run.counters
    report = TrainingReport(
        into=into,
        steps=counters.step,
        epochs=round(counters.tokens / max(1.0, train.epoch_tokens), 3),
        tokens=counters.tokens,
        hours=round(counters.seconds / 3600, 3),
        dev_perplexity=round(perplexity, 4),
        stopped=counters.stopped,
        parameters=count_parameters(network),
        pairs=dict(zip(_short_names(corpora), map(len, train.parts), strict=True)),
        too_long=train.too_long + held.too_long,
    )
    outcome = {name: value for name, value in report.as_json().items() if name != "into"}
    publish_network(network, outcome | {"settings": settings.as_json()}, languages, into)
    return report


def _short_names(corpora: Sequence[WeightedCorpus]) -> list[str]:
    """Return file names without folders, unless two are equal: a model card should not reveal folders."""
    names = [Path(corpus.name).name for corpus in corpora]
    return names if len(set(names)) == len(names) else [corpus.name for corpus in corpora]


def _plan(
    corpora: Sequence[WeightedCorpus],
    languages: Languages,
    settings: TrainSettings,
    go_on: bool,
    start_from: Path | None,
) -> Any:  # noqa: ANN401 - JSON is any
    content = {
        "languages": str(languages),
        "corpora": [[corpus.name, corpus.weight] for corpus in corpora],
        "settings": settings.as_json(),
        "go_on": go_on,
        "start_from": str(start_from) if start_from else None,
    }
    return json.loads(json.dumps(content))


def _check_folder(folder: Path, into: Path, plan: dict[str, Any]) -> None:
    """Refuse folders where work would be lost: a finished model, a run with other settings, or unrelated files."""
    if not plan["corpora"]:
        raise TrainingError("no corpus to train on; name at least one")
    plan_file, go_on, finished = folder / "plan.json", plan["go_on"], (into / "config.json").exists()
    if plan_file.exists():
        if _fill_settings(json.loads(plan_file.read_text(encoding="utf-8"))) != plan:
            raise TrainingError(
                f"{into}: holds an unfinished run with other settings (see {plan_file}); "
                "repeat its command to resume it, or train into another folder"
            )
    elif finished and not go_on:
        raise TrainingError(f"{into}: holds a finished model; add `go_on` to train it further, or name another folder")
    elif go_on and not finished:
        raise TrainingError(f"{into}: there is no finished model to continue; leave `go_on` out to start one")
    elif not go_on and into.exists() and any(into.iterdir()):
        raise TrainingError(f"{into}: is not empty and not a training run; name a new folder")


def _fill_settings(plan: dict[str, Any]) -> dict[str, Any]:
    """Add settings that an earlier version did not have; it behaved as their present default."""
    return plan | {"settings": TrainSettings(steps=1).as_json() | plan["settings"]}


def _prepare(
    corpora: Sequence[WeightedCorpus],
    languages: Languages,
    settings: TrainSettings,
    into: Path,
    plan: dict[str, Any],
    progress: Progress,
) -> Vocabulary:
    """Return the vocabulary. Reads all corpora before writing anything, so that a faulty corpus leaves no files."""
    vocabulary = open_vocabulary(into)
    progress.start("vocabulary" if vocabulary is None else "checking the corpora")
    begun = any((into / "training").glob("tokens-*/done.json"))
    everything = chain.from_iterable(corpus.read() for corpus in ([] if begun else corpora))
    learn = prepare_vocabulary(everything, languages, settings)
    write_json(into / "training" / "plan.json", plan)
    vocabulary = vocabulary or learn(into)
    progress.finish()
    return vocabulary


def _encode(
    pairs: Iterable[SentencePair], vocabulary: Vocabulary, settings: TrainSettings, what: str, progress: Progress
) -> PairSet:
    dtype: type[np.integer[Any]] = np.uint16 if vocabulary.size <= 2**16 else np.int32
    return encode_pairs(pairs, vocabulary, settings.shape.max_positions, 1, dtype, what, progress)


def _encode_all(
    corpora: Sequence[WeightedCorpus], vocabulary: Vocabulary, settings: TrainSettings, folder: Path, progress: Progress
) -> PairSet:
    """Encode each corpus once; after an interruption, finished ones are read from disk."""
    parts = []
    too_long = 0
    for number, corpus in enumerate(corpora):
        tokens_folder, note = folder / f"tokens-{number}", folder / f"tokens-{number}" / "done.json"
        if not note.exists():
            encoded = _encode(corpus.read(), vocabulary, settings, corpus.name, progress)
            save_tokens(encoded.tokens, tokens_folder)
            write_json(note, {"too_long": encoded.too_long})
        parts.append(load_tokens(tokens_folder))
        too_long += json.loads(note.read_text(encoding="utf-8"))["too_long"]
    return join_pairs(parts, [corpus.weight for corpus in corpora], too_long)


def _hold_out(pairs: PairSet, settings: TrainSettings) -> tuple[PairSet, PairSet]:
    count, wanted = len(pairs), settings.dev_pairs
    if wanted >= count // 2:
        raise TrainingError(
            f"{count:,} training pairs are too few to hold out {wanted:,} for dev; "
            "give `dev`, or a smaller dev_pairs in the settings file"
        )
    return split_pairs(pairs, np.random.default_rng(settings.seed).choice(count, wanted, replace=False))


def _start_network(
    into: Path, vocabulary: Vocabulary, settings: TrainSettings, go_on: bool, start_from: Path | None
) -> MarianMTModel:
    if go_on:
        network = load_network(into)
        network.config.dropout = settings.dropout
        return network
    joint = settings.vocabularies == "joint"
    sizes = vocabulary.size, vocabulary.end_id, vocabulary.pad_id
    network = make_network(settings.shape, *sizes, settings.dropout, joint=joint)
    if start_from is not None:
        copy_weights(start_from, network, vocabulary)
    return network


def _recipe(network: MarianMTModel, train: PairSet, dev: PairSet, settings: TrainSettings) -> TrainingRecipe:
    if settings.precision == "bfloat16":
        # On a CPU, fused attention in bfloat16 takes longer than its separate products (docs/train.md).
        network.set_attn_implementation("eager")
    return TrainingRecipe(
        label="training",
        module=network,
        network=marian_forward(network, settings.precision),
        optimizer=make_optimizer(network, settings),
        train=train,
        dev=dev,
        pad_id=network.config.pad_token_id,  # type: ignore[arg-type]
        selection=AverageLast(settings.average),
        settings=settings,
        learning_rate=settings.learning_rate,
        warmup_steps=settings.warmup_steps,
        decay_share=settings.decay_share,
        lexical_weight=settings.lexical_weight,
        steps=settings.steps,
        evaluate_every=settings.evaluate_every,
        limit_reached="budget",
    )
