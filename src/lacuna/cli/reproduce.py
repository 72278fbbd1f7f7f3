"""``lacuna reproduce``, ``report`` and ``demo``: experiments of the paper, their report, and a tour of Lacuna."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from lacuna.cli.adapt import print_facts
from lacuna.cli.commands import given, with_default
from lacuna.cli.options import ClusterOptions, Device, Json, ModelName, Threads, use_threads
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.records import Step

if TYPE_CHECKING:
    from lacuna.demo import DemoReport
    from lacuna.reproduction import Part

_DEMO = "lacuna.demo:DemoSettings"


def reproduce(
    file: Annotated[
        Path, typer.Argument(metavar="EXPERIMENT", help="An experiment file, such as experiments/koran.yaml.")
    ],
    cluster: ClusterOptions,
    into: Annotated[Path, typer.Option(help="Folder for steps, tables and experiment.json.")],
    data: Annotated[
        Path, typer.Option(envvar="LACUNA_DATA", help="Folder that paths of corpora are relative to.")
    ] = Path("data"),
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="Compute only this part: main, safe, analysis, seeds or sizes; default: all. May be repeated."
        ),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Compute nothing: tables from the results that are there.")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(help="Folder of the figures behind the tables, which other machines can use; default: INTO."),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Run an experiment: memory, margins, pruned memories, combiners, translations, tables, and the paper's claims.

    Every finished step is cached. If it is interrupted or killed, the same command resumes; a changed setting repeats
    only the steps that depend on it. Then: `lacuna report INTO`

    Example: `lacuna reproduce experiments/koran.yaml --data opus --into out/koran`
    """
    from lacuna.errors import SettingError
    from lacuna.reproduction import PARTS, read_experiment
    from lacuna.reproduction import reproduce as run

    if merge and part:
        raise SettingError("--merge computes nothing, so it cannot be given together with --part; leave one out")
    experiment = read_experiment(file)
    use_threads(threads)
    with cluster.open(writes=[into]) as pool:
        outcome = run(
            experiment,
            into,
            data=data,
            parts=() if merge else cast("tuple[Part, ...]", tuple(part or PARTS)),
            results=results,
            device=device,
            progress=BarProgress(),
            announce=_print_step,
            pool=pool,
        )
    if json:
        return print_json(outcome.as_json())
    rows = [(claim.verdict, claim.claim, claim.figures) for claim in outcome.claims]
    print_table(f"{experiment.title}: the paper's claims", ["", "claim", "figures"], rows)
    for name, needed in outcome.missing.items():
        typer.echo(f"missing: {name}; `--part {needed}` computes it")
    done = f"{len(outcome.made)} of {len(outcome.steps)} steps done now, {outcome.seconds:,.0f} s in all"
    typer.echo(f"{len(outcome.tables)} tables in {into / 'tables'}; {done}. Next: lacuna report {into}")


def report(
    experiment: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of lacuna reproduce.")],
    json: Json = False,
) -> None:
    """Write OUT/report.html, a self-contained page, and its figures as SVG and PNG.

    Example: `lacuna report koran`
    """
    from lacuna.reports import write_report

    written = write_report(experiment)
    if json:
        return print_json({"report": str(written.page), "figures": [str(path) for path in written.figures]})
    typer.echo(f"{written.page}: written, with {len(written.figures)} files of figures")


def demo(
    into: Annotated[Path, typer.Option(help="Folder for all results of the demo.")] = Path("demo"),
    model: ModelName = None,
    train: Annotated[
        int | None, typer.Option(help=with_default("Training pairs in the memory", f"{_DEMO}.train"))
    ] = None,
    dev: Annotated[
        int | None, typer.Option(help=with_default("Dev pairs for tuning and fitting", f"{_DEMO}.dev"))
    ] = None,
    test: Annotated[int | None, typer.Option(help=with_default("Test pairs to translate", f"{_DEMO}.test"))] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Adapt the bundled German-English model to software texts, explain a translation, and correct another one.

    Example: `lacuna demo --into demo`
    """
    from lacuna.demo import DemoSettings, run_demo

    use_threads(threads)
    settings = replace(DemoSettings(), **given(train=train, dev=dev, test=test))
    result = run_demo(model, into, settings, BarProgress())
    if json:
        return print_json(result.as_json())
    _print_demo(result, into)


def _print_step(step: str) -> None:
    typer.echo(f"step: {step}", err=True)


def _print_demo(report: DemoReport, into: Path) -> None:
    rows = [
        (score.name, f"{score.bleu.value:.2f}", f"{score.chrf.value:.2f}", _p(score.p_value), f"{speed:,.0f}")
        for score, speed in zip(report.scores, report.tokens_per_second, strict=True)
    ]
    print_table("Test set", ["system", "BLEU", "chrF", "p", "tokens/s"], rows)
    print_facts(report.domain)
    example = report.example
    lines = [("source", example.source), ("reference", report.example_reference)]
    lines += [("model alone", report.example_without), (report.domain.name, example.text)]
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
    print_table(
        "Token by token", ["token", "p", "p model", "p memory", "prediction of the model", "votes of the memory"], steps
    )
    corrected = report.correction
    lines = [("source", corrected.pair.source), (report.domain.name, corrected.before)]
    lines += [("correction", corrected.pair.target), ("translated again", corrected.after)]
    print_table("A correction", ["", ""], [*lines, ("after forgetting it", corrected.forgotten)])
    typer.echo("Seconds: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in report.seconds.items()))
    text = f"echo 'Klicken Sie auf OK.' | lacuna translate --domain {report.domain.path}"
    typer.echo(f"All results are in {into}/; {report.domain.path / 'report.html'} shows more. Next: {text}")


def _votes(step: Step) -> str:
    """Sum the weights of neighbors by token, and list the largest sums."""
    votes: Counter[str] = Counter()
    for near in step.neighbors:
        votes[near.token] += near.weight  # type: ignore[assignment]
    return " ".join(f"{token} {weight:.2f}" for token, weight in votes.most_common(3) if weight >= 0.005)


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
