"""``lacuna finetune``: a pre-trained model trained further on a domain, with early stopping."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.options import Device, Json, LanguagesOption, ModelName, Threads, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.corpora import CleaningReport, clean, read_corpus
from lacuna.errors import SettingError
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.models.training import FinetuneReport, LoraSettings


def finetune(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A bilingual file, or the prefix of two plain ones.")],
    into: Annotated[Path, typer.Option(help="Folder of the new model; while it lasts, the run is in INTO.training.")],
    model: ModelName = None,
    dev: Annotated[str | None, typer.Option(help="Dev corpus; without it some pairs are held out.")] = None,
    lora: Annotated[bool, typer.Option("--lora", help="Train small adapters only (LoRA), then merge them.")] = False,
    rank: Annotated[int | None, typer.Option(help="Rank of the adapters, with --lora.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Limit: times a pair is seen; 10 if no limit is set.")] = None,
    steps: Annotated[int | None, typer.Option(help="Limit: steps of the optimizer.")] = None,
    hours: Annotated[float | None, typer.Option(help="Limit: time spent training.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Adam's highest learning rate.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Dropout, instead of the model's own.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Padded tokens in one batch.")] = None,
    evaluate_every: Annotated[int | None, typer.Option(help="Steps between two looks at dev.")] = None,
    patience: Annotated[int | None, typer.Option(help="Looks without a gain before it stops; 0: never.")] = None,
    languages: LanguagesOption = None,
    cleaning: Annotated[bool, typer.Option("--clean/--no-clean", help="Drop pairs of no use and duplicates.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of order, dropout, adapters and held-out pairs.")] = 1,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Fine-tune a translation model on in-domain text and save it as a Hugging Face folder.

    The weights that are best on dev are kept. Killed at any moment, the same command goes on where it was.

    Example: `lacuna finetune it/train.tsv --dev it/dev.tsv --into it-model`
    """
    from lacuna.models.training import FinetuneSettings, finetune_model

    use_threads(os.cpu_count() if threads is None else threads)
    limits = {"epochs": epochs, "steps": steps, "hours": hours, "patience": patience, "evaluate_every": evaluate_every}
    learning = {"learning_rate": learning_rate, "dropout": dropout, "batch_tokens": batch_tokens}
    given = {name: value for name, value in (limits | learning).items() if value is not None}
    settings = FinetuneSettings(lora=_lora(lora, rank), seed=seed, **given)  # type: ignore[arg-type]
    direction = None if languages is None else Languages.parse(languages)
    pairs, cleaned = read_corpus(corpus, languages=direction), CleaningReport()
    report = finetune_model(
        model,
        clean(pairs, report=cleaned) if cleaning else pairs,
        into,
        settings,
        dev=None if dev is None else read_corpus(dev, languages=direction),
        languages=direction,
        device=device,
        progress=BarProgress(),
    )
    _print_report(report, cleaned if cleaning else None, json)


def _lora(wanted: bool, rank: int | None) -> LoraSettings | None:
    from lacuna.models.training import LoraSettings

    if not wanted and rank is not None:
        raise SettingError(f"--rank: got {rank} without --lora; add --lora, or leave --rank out")
    if not wanted:
        return None
    return LoraSettings() if rank is None else LoraSettings(rank=rank)


def _print_report(report: FinetuneReport, cleaning: CleaningReport | None, json: bool) -> None:
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
