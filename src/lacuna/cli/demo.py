"""``lacuna demo``: the whole path, shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.options import Json, ModelName, Threads, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.records import Step

if TYPE_CHECKING:
    from lacuna.demo import DemoReport


def demo(
    into: Annotated[Path, typer.Option(help="Folder for everything the demo makes.")] = Path("demo"),
    model: ModelName = None,
    train: Annotated[int | None, typer.Option(help="Training pairs in the memory.")] = None,
    dev: Annotated[int | None, typer.Option(help="Dev pairs for tuning and fitting.")] = None,
    test: Annotated[int | None, typer.Option(help="Test pairs to translate.")] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Adapt the bundled German-English model to software texts, and show what the memory changed.

    Example: `lacuna demo --into demo`
    """
    from lacuna.demo import DemoSettings, run_demo
    from lacuna.models import load_model

    use_threads(threads)
    standard = DemoSettings()
    settings = replace(standard, train=train or standard.train, dev=dev or standard.dev, test=test or standard.test)
    report = run_demo(load_model(model), into, settings, BarProgress())
    if json:
        print_json(report.as_json())
    else:
        _show(report, into)


def _show(report: DemoReport, into: Path) -> None:
    rows = [
        (score.name, f"{score.bleu.value:.2f}", f"{score.chrf.value:.2f}", _p(score.p_value), f"{speed:,.0f}")
        for score, speed in zip(report.scores, report.tokens_per_second, strict=True)
    ]
    print_table("Test set", ["system", "BLEU", "chrF", "p", "tokens/s"], rows)
    chosen, dropped = report.vanilla, 1 - report.pruned_entries / report.entries
    typer.echo(
        f"Memory: {report.entries:,} entries, {report.known_ratio:.1%} of them known to the model, "
        f"{report.store_bytes / 2**20:,.0f} MiB, index {report.index_kind}\n"
        f"Pruned by PLAC: {report.pruned_entries:,} entries, {dropped:.1%} dropped; "
        f"p of a decline of adaptive {report.p_decline:.3f}\n"
        f"Vanilla: k {chosen.k}, temperature {chosen.temperature:g}, knn_weight {chosen.knn_weight:g} (tuned on dev)\n"
    )
    example = report.example
    lines = [("source", example.source), ("reference", report.example_reference)]
    lines += [("model alone", report.example_without), ("adaptive", example.text)]
    print_table("One sentence", ["", ""], lines)
    steps = [
        (
            step.token,
            *(f"{p:.3f}" for p in (step.p, step.p_model, step.p_knn)),
            step.model_token if step.model_token != step.token else "",
            _votes(step),
        )
        for step in example.steps
    ]
    print_table("Token by token", ["token", "p", "p model", "p memory", "model's choice", "memory says"], steps)
    typer.echo("Seconds: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in report.seconds.items()))
    typer.echo(f"Everything is in {into}/; report.json has these numbers for machines.")


def _votes(step: Step) -> str:
    """Sum the weights of neighbors that say the same, and name the strongest."""
    votes: Counter[str] = Counter()
    for near in step.neighbors:
        votes[near.token] += near.weight  # type: ignore[assignment]
    return " ".join(f"{token} {weight:.2f}" for token, weight in votes.most_common(3) if weight >= 0.005)


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
