"""From corpora to a model folder: vocabulary, token arrays, the run, and the Hugging Face folder at the end.

Each stage leaves a file that is whole or absent, so the same command goes on after any interruption.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import MarianMTModel

from lacuna.errors import TrainingError
from lacuna.files import atomic_path, sha256_of, write_json
from lacuna.models.training.data import Tokens, encode_pairs, load_tokens, save_tokens
from lacuna.models.training.loop import Corpus, Run
from lacuna.models.training.network import load_network, make_network, transplant_weights
from lacuna.models.training.settings import TrainSettings
from lacuna.models.training.vocabulary import Vocabulary, check_tokenization, open_vocabulary, prepare_vocabulary
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair
from lacuna.version import __version__


@dataclass(frozen=True, slots=True)
class WeightedCorpus:
    """A corpus to train on.

    :param name: How the log and the manifest call it.
    :param read: Opens the stream of pairs anew each time it is called.
    :param weight: How often each pair is seen per epoch; 0.5 takes a fresh random half each time.
    """

    name: str
    read: Callable[[], Iterable[SentencePair]]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """How a run ended."""

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
        """Return the report for machines."""
        return asdict(self) | {"into": str(self.into)}


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
    """Train a Transformer from scratch, or go on with one, and save it as a Hugging Face Marian folder.

    :param dev: Pairs to measure perplexity on; without it some training pairs are held out.
    :param go_on: Start from the finished model that is in ``into``, with its vocabulary, for a further budget.
    :param start_from: Start from another model's weights, with a vocabulary of its own: pieces that both
        vocabularies have keep their embeddings.
    """
    folder = into / "training"
    plan = _plan(corpora, languages, settings, go_on, start_from)
    _check_folder(folder, into, plan)
    check_tokenization(languages, settings, into)
    vocabulary = _prepare(corpora, languages, settings, into, plan, progress)
    tokens, sizes, too_long = _encode_all(corpora, vocabulary, settings, folder, progress)
    weights = [corpus.weight for corpus in corpora]
    if dev is None:
        tokens, sizes, dev_tokens = _hold_out(tokens, sizes, settings)
    else:
        dev_tokens, _ = encode_pairs(dev(), vocabulary, settings.shape.max_positions)
    torch.manual_seed(settings.seed)
    network = _start_network(into, vocabulary, settings, go_on, start_from)
    run = Run(network, Corpus(tokens, sizes, weights), dev_tokens, settings, folder)
    perplexity = run.go(progress)
    report = TrainingReport(
        into=into,
        steps=run.counters.step,
        epochs=round(run.counters.tokens / max(1.0, _epoch_tokens(tokens, sizes, weights)), 3),
        tokens=run.counters.tokens,
        hours=round(run.counters.seconds / 3600, 3),
        dev_perplexity=round(perplexity, 4),
        stopped=run.counters.stopped,
        parameters=sum(weight.numel() for weight in network.parameters() if weight.requires_grad),
        pairs=dict(zip(_short_names(corpora), sizes, strict=True)),
        too_long=too_long,
    )
    _finish(network, report, settings, languages, into)
    return report


def _short_names(corpora: Sequence[WeightedCorpus]) -> list[str]:
    """Return file names without folders, unless two are alike: a model need not tell where its text lay."""
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
    """Refuse what would lose work: another run's folder, a finished model, settings that changed midway."""
    if not plan["corpora"]:
        raise TrainingError("no corpus to train on; name at least one")
    plan_file, go_on, finished = folder / "plan.json", plan["go_on"], (into / "config.json").exists()
    if plan_file.exists():
        if _with_newer_settings(json.loads(plan_file.read_text(encoding="utf-8"))) != plan:
            raise TrainingError(
                f"{into}: holds an unfinished run with other settings (see {plan_file}); "
                "repeat its command to go on, or train into another folder"
            )
    elif finished and not go_on:
        raise TrainingError(
            f"{into}: holds a finished model; add --continue to train it further, or name another folder"
        )
    elif go_on and not finished:
        raise TrainingError(f"{into}: there is no finished model to continue; leave --continue out to start one")
    elif not go_on and into.exists() and any(into.iterdir()):
        raise TrainingError(f"{into}: is not empty and not a training run; name a new folder")


def _with_newer_settings(plan: dict[str, Any]) -> dict[str, Any]:
    """Fill in the settings that a plan of an earlier version does not have: it ran with what is now the default."""
    return plan | {"settings": TrainSettings(steps=1).as_json() | plan["settings"]}


def _prepare(
    corpora: Sequence[WeightedCorpus],
    languages: Languages,
    settings: TrainSettings,
    into: Path,
    plan: dict[str, Any],
    progress: Progress,
) -> Vocabulary:
    """Read everything once before anything is written, so that a corpus with a fault leaves no trace."""
    vocabulary = open_vocabulary(into)
    progress.start("vocabulary" if vocabulary is None else "checking the corpora")
    begun = any((into / "training").glob("tokens-*/done.json"))
    everything = chain.from_iterable(corpus.read() for corpus in ([] if begun else corpora))
    learn = prepare_vocabulary(everything, languages, settings)
    write_json(into / "training" / "plan.json", plan)
    vocabulary = vocabulary or learn(into)
    progress.finish()
    return vocabulary


def _encode_all(
    corpora: Sequence[WeightedCorpus], vocabulary: Vocabulary, settings: TrainSettings, folder: Path, progress: Progress
) -> tuple[Tokens, list[int], int]:
    """Encode each corpus once; what an earlier start finished is read back."""
    parts: list[Tokens] = []
    too_long = 0
    for number, corpus in enumerate(corpora):
        place, note = folder / f"tokens-{number}", folder / f"tokens-{number}" / "done.json"
        if not note.exists():
            progress.start(f"encoding {corpus.name}", unit="pairs")
            tokens, skipped = encode_pairs(corpus.read(), vocabulary, settings.shape.max_positions, progress)
            save_tokens(tokens, place)
            write_json(note, {"too_long": skipped})
            progress.finish(f"({len(tokens):,} pairs, {skipped:,} too long)")
        parts.append(load_tokens(place))
        too_long += json.loads(note.read_text(encoding="utf-8"))["too_long"]
    return join_tokens(parts), [len(part) for part in parts], too_long


def join_tokens(parts: Sequence[Tokens]) -> Tokens:
    """Put token arrays one after another."""
    shifts = np.cumsum([0, *(len(part.ids) for part in parts[:-1])])
    starts = [part.starts[:-1] + shift for part, shift in zip(parts, shifts, strict=True)]
    total = np.asarray([sum(len(part.ids) for part in parts)], np.int64)
    return Tokens(np.concatenate([part.ids for part in parts]), np.concatenate([*starts, total]))


def select_tokens(tokens: Tokens, pairs: Sequence[int] | np.ndarray[Any, Any]) -> Tokens:
    """Copy the tokens of some pairs, in the order given."""
    sides = np.stack([2 * np.asarray(pairs), 2 * np.asarray(pairs) + 1], axis=1).reshape(-1)
    lengths = tokens.starts[sides + 1] - tokens.starts[sides]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    places = np.repeat(tokens.starts[sides] - starts[:-1], lengths) + np.arange(starts[-1])
    return Tokens(tokens.ids[places], starts)


def _hold_out(tokens: Tokens, sizes: list[int], settings: TrainSettings) -> tuple[Tokens, list[int], Tokens]:
    wanted = settings.dev_pairs
    if wanted >= len(tokens) // 2:
        raise TrainingError(
            f"{len(tokens):,} training pairs are too few to hold out {wanted:,} for dev; "
            "give --dev, or a smaller dev_pairs in the settings file"
        )
    held = np.sort(np.random.default_rng(settings.seed).choice(len(tokens), wanted, replace=False))
    kept = np.setdiff1d(np.arange(len(tokens)), held)
    ends = np.cumsum(sizes)
    remaining = np.diff(np.searchsorted(kept, np.concatenate([[0], ends])))
    return select_tokens(tokens, kept), [int(size) for size in remaining], select_tokens(tokens, held)


def _start_network(
    into: Path, vocabulary: Vocabulary, settings: TrainSettings, go_on: bool, start_from: Path | None
) -> MarianMTModel:
    if not go_on:
        joint = settings.vocabularies == "joint"
        numbers = vocabulary.size, vocabulary.end_id, vocabulary.pad_id
        network = make_network(settings.shape, *numbers, settings.dropout, joint=joint)
        if start_from is not None:
            transplant_weights(start_from, network, vocabulary)
        return network
    network = load_network(into)
    network.config.dropout = settings.dropout
    return network


def _epoch_tokens(tokens: Tokens, sizes: Sequence[int], weights: Sequence[float]) -> float:
    ends = np.cumsum(sizes)
    totals = np.add.reduceat(tokens.target_lengths, np.concatenate([[0], ends[:-1]]).astype(np.int64))
    return float(sum(total * weight for total, weight in zip(totals, weights, strict=True)))


def _finish(
    network: MarianMTModel, report: TrainingReport, settings: TrainSettings, languages: Languages, into: Path
) -> None:
    """Save in half precision; config.json comes last, because its presence means the model is finished."""
    staging = into / "training" / "model"
    network.train(False)
    network.half().save_pretrained(staging)
    for name in ("model.safetensors", "generation_config.json", "config.json"):
        with atomic_path(into / name) as temporary:
            (staging / name).replace(temporary)
    staging.rmdir()
    history_file = into / "lacuna.json"
    history = json.loads(history_file.read_text(encoding="utf-8"))["runs"] if history_file.exists() else []
    run = report.as_json() | {"settings": settings.as_json(), "finished": time.strftime("%Y-%m-%d")}
    run.pop("into")
    write_json(
        history_file,
        {
            "format": 1,
            "version": __version__,
            "languages": str(languages),
            "weights_sha256": sha256_of(into / "model.safetensors"),
            "runs": [*history, run],
        },
    )
    _retire(into / "training")


def _retire(folder: Path) -> None:
    """Remove what only an unfinished run needs; keep the log."""
    for path in chain(folder.glob("*.safetensors"), folder.glob("tokens-*/*")):
        path.unlink()
    for path in folder.glob("tokens-*"):
        path.rmdir()
    log = folder / "log.jsonl"
    number = len(list(folder.glob("log-*.jsonl"))) + 1
    log.replace(folder / f"log-{number}.jsonl")
    (folder / "plan.json").unlink()
