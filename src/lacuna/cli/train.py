"""``lacuna train`` and ``lacuna finetune``: train a model from scratch, or fine-tune one on a domain."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.commands import given, with_default
from lacuna.cli.options import CORPUS_HELP, Json, ModelOptions, Threads, parse_languages, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.corpora import CleaningReport, clean, read_corpus
from lacuna.errors import SettingError
from lacuna.records import Languages, SentencePair

if TYPE_CHECKING:
    from lacuna.models.training import FinetuneReport, LoraSettings, WeightedCorpus

# glibc returns large blocks to the system at once and faults them in again at the next step; training allocates and
# frees the same large tensors all the time. These must be set before the process starts.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "67108864",
}
_FINETUNE, _LORA = "lacuna.models.training:FinetuneSettings", "lacuna.models.training:LoraSettings"
_TRAIN = "lacuna.models.training:TrainSettings"


def train(
    corpora: Annotated[
        list[str], typer.Argument(metavar="CORPUS...", help=f"{CORPUS_HELP} CORPUS@2 has twice the weight.")
    ],
    languages: Annotated[
        Languages, typer.Option(parser=parse_languages, metavar="SRC-TGT", help="Direction, such as de-en.")
    ],
    into: Annotated[Path, typer.Option(help="Folder for the model, and for checkpoints while training.")],
    hours: Annotated[float | None, typer.Option(help="Time budget; the learning rate decays over it.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Number of steps, instead of --hours; reproducible bit for bit.")
    ] = None,
    dev: Annotated[
        list[str] | None, typer.Option(help="Dev corpus; by default some training pairs are held out.")
    ] = None,
    go_on: Annotated[bool, typer.Option("--continue", help="Train the finished model in --into further.")] = False,
    start_from: Annotated[Path | None, typer.Option(help="Initialize with the weights of this model.")] = None,
    tokenization: Annotated[
        str | None,
        typer.Option(
            help=with_default("sentencepiece, or bpe: Moses or jieba, then subword-nmt", f"{_TRAIN}.tokenization")
        ),
    ] = None,
    vocabularies: Annotated[
        str | None,
        typer.Option(
            help=with_default("joint, or separate for source and target; only with bpe", f"{_TRAIN}.vocabularies")
        ),
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="JSON file with further settings (docs/train.md).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, data order and vocabulary sample.")] = 1,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Train a small Transformer from scratch and save it as a Hugging Face Marian folder.

    If it is interrupted or killed, the same command resumes.

    Example: `lacuna train general.tsv.xz news.tsv@3 --languages de-en --into model --hours 2.5`
    """
    _restart_with_malloc_settings()
    from lacuna.models.training import train_model
    from lacuna.models.training.settings import read_settings

    use_threads(os.cpu_count() if threads is None else threads)
    chosen = read_settings(
        settings, hours=hours, steps=steps, seed=seed, tokenization=tokenization, vocabularies=vocabularies
    )
    report = train_model(
        [_weighted(text, languages) for text in corpora],
        languages,
        chosen,
        into,
        dev=_reader(dev, languages) if dev else None,
        go_on=go_on,
        start_from=start_from,
        progress=BarProgress(),
    )
    if json:
        return print_json(report.as_json())
    print_table(f"Trained {into}", ["", ""], [(key, str(value)) for key, value in report.as_json().items()])


def finetune(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help=CORPUS_HELP)],
    system: ModelOptions,
    into: Annotated[Path, typer.Option(help="Folder for the new model; checkpoints are in INTO.training.")],
    dev: Annotated[str | None, typer.Option(help="Dev corpus; by default some pairs are held out.")] = None,
    lora: Annotated[bool, typer.Option("--lora", help="Train low-rank adapters only (LoRA), then merge them.")] = False,
    rank: Annotated[
        int | None, typer.Option(help=with_default("Rank of the adapters, with --lora", f"{_LORA}.rank"))
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Limit: number of epochs.")] = None,
    steps: Annotated[int | None, typer.Option(help="Limit: optimizer steps.")] = None,
    hours: Annotated[float | None, typer.Option(help="Limit: training time.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate of Adam.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Dropout; default: that of the model.")] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help=with_default("Tokens in a batch, with padding", f"{_FINETUNE}.batch_tokens"))
    ] = None,
    evaluate_every: Annotated[int | None, typer.Option(help="Steps between two evaluations on dev.")] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help=with_default("Evaluations without improvement before it stops; 0: never", f"{_FINETUNE}.patience")
        ),
    ] = None,
    cleaning: Annotated[bool, typer.Option("--clean/--no-clean", help="Drop useless pairs and duplicates.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data order, dropout, adapters and held-out pairs.")] = 1,
    json: Json = False,
) -> None:
    """Fine-tune a translation model on in-domain text and save it as a Hugging Face folder.

    The weights that are best on dev are kept. If it is interrupted or killed, the same command resumes.

    Example: `lacuna finetune it/train.tsv --dev it/dev.tsv --into it-model`
    """
    from lacuna.models.training import FinetuneSettings, finetune_model

    use_threads(os.cpu_count() if system.threads is None else system.threads)
    limits = given(epochs=epochs, steps=steps, hours=hours, patience=patience, evaluate_every=evaluate_every)
    learning = given(learning_rate=learning_rate, dropout=dropout, batch_tokens=batch_tokens)
    settings = FinetuneSettings(lora=_lora(lora, rank), seed=seed, **limits, **learning)
    pairs, cleaned = read_corpus(corpus, languages=system.languages), CleaningReport()
    report = finetune_model(
        system.model,
        clean(pairs, report=cleaned) if cleaning else pairs,
        into,
        settings,
        dev=None if dev is None else read_corpus(dev, languages=system.languages),
        languages=system.languages,
        device=system.device,
        progress=BarProgress(),
    )
    _print_finetuning(report, cleaned if cleaning else None, json)


def _weighted(text: str, languages: Languages) -> WeightedCorpus:
    """Read ``CORPUS`` or ``CORPUS@WEIGHT``."""
    path, at, weight = text.rpartition("@")
    if not at or Path(text).exists():
        path, weight = text, "1"
    try:
        number = float(weight)
    except ValueError:
        number = -1.0
    if not 0 < number < 1000:
        raise SettingError(f"{text}: got weight {weight!r}; allowed is a number above 0, as in {path}@2")
    from lacuna.models.training import WeightedCorpus

    return WeightedCorpus(path, _reader([path], languages), number)


def _reader(paths: list[str], languages: Languages) -> Callable[[], Iterator[SentencePair]]:
    return lambda: chain.from_iterable(read_corpus(path, languages=languages) for path in paths)


def _restart_with_malloc_settings() -> None:
    """Start this command again with the settings of the allocator, unless they are set or the system has no glibc."""
    if sys.platform != "linux" or any(name in os.environ for name in MALLOC):
        return
    os.execve(  # noqa: S606 - our own command, no shell
        sys.executable, [sys.executable, "-m", "lacuna", *sys.argv[1:]], os.environ | MALLOC
    )


def _lora(wanted: bool, rank: int | None) -> LoraSettings | None:
    from lacuna.models.training import LoraSettings

    if not wanted and rank is not None:
        raise SettingError(f"--rank: got {rank} without --lora; add --lora, or leave --rank out")
    if not wanted:
        return None
    return LoraSettings() if rank is None else LoraSettings(rank=rank)


def _print_finetuning(report: FinetuneReport, cleaning: CleaningReport | None, json: bool) -> None:
    content = report.as_json()
    if cleaning is not None:
        content["cleaning"] = {"kept": cleaning.kept, "dropped": dict(cleaning.dropped)}
    if json:
        return print_json(content)
    if report.finished_before:
        typer.echo(f"{report.into}: this run is finished; the model is there")
    elif not report.improved:
        typer.echo(f"{report.into}: no better on dev than before; it holds the original weights")
    rows = [
        ("dev perplexity", f"{report.perplexity_before:,.2f}, now {report.perplexity_after:,.2f}"),
        ("weights of step", f"{report.best_step:,} of {report.steps:,} ({report.epochs:.1f} epochs)"),
        ("ended", report.stopped),
        ("parameters trained", f"{report.trained_parameters:,} of {report.parameters:,}"),
        ("pairs", f"{report.pairs:,}; dev {report.dev_pairs:,}, of these held out {report.held_out:,}"),
        ("left out, too long", f"{report.too_long:,}"),
        ("speed", f"{report.tokens_per_second:,.0f} tokens/s; {report.hours:.2f} hours"),
        *([("cleaning", cleaning.summary())] if cleaning else []),
    ]
    print_table(f"Fine-tuned {report.into}", ["", ""], rows)
