"""``lacuna evaluate``: scores of translations, and whether they differ from the first system's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lacuna.cli.options import Json
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.evaluation import SystemScore, evaluate_files
from lacuna.evaluation.scores import LEVEL
from lacuna.evaluation.significance import SAMPLES, SEED
from lacuna.records import Languages


def evaluate(
    reference: Annotated[
        Path, typer.Argument(metavar="REFERENCE", help="One reference per line (also .gz, .xz), or a bilingual corpus.")
    ],
    systems: Annotated[
        list[Path], typer.Argument(metavar="SYSTEM...", help="Files of translations; the first is the baseline.")
    ],
    languages: Annotated[str | None, typer.Option(help="Direction, as in de-en; the target side is scored.")] = None,
    target: Annotated[str | None, typer.Option(help="Target language, where the direction is not needed.")] = None,
    samples: Annotated[int, typer.Option(help="Bootstrap samples of the significance test.")] = SAMPLES,
    seed: Annotated[int, typer.Option(help="Seed of the samples; the default is sacreBLEU's.")] = SEED,
    json: Json = False,
) -> None:
    """Score translations with BLEU, chrF and TER, and test each system's BLEU against the first one's.

    The numbers are sacreBLEU's and come with its signature. For Chinese, Japanese and Korean say the target language.

    Example: `lacuna evaluate it/test.tsv plain.txt memory.txt --languages de-en`
    """
    scores = evaluate_files(
        reference,
        systems,
        languages=Languages.parse(languages) if languages else None,
        target_language=target,
        samples=samples,
        seed=seed,
        progress=BarProgress(),
    )
    if json:
        return print_json({"samples": samples, "seed": seed, "systems": [score.as_json() for score in scores]})
    _print_scores(scores, samples, seed)


def _print_scores(scores: Sequence[SystemScore], samples: int, seed: int) -> None:
    columns = ["system", "BLEU", "chrF", "TER"]
    if len(scores) > 1:
        columns += ["p", "p decline", ""]
    print_table("Scores", columns, [_row(score)[: len(columns)] for score in scores])
    typer.echo("BLEU and chrF: higher is better; TER: lower is better.")
    if len(scores) > 1:
        typer.echo(
            f"Paired bootstrap of BLEU against the first system, {samples:,} samples, seed {seed}. p: two-sided, a "
            f"difference as large by chance;\np decline: share of samples in which the system is not worse. "
            f"+ better (p < {LEVEL}), - worse (p decline < {LEVEL})."
        )
    for score in (scores[0].bleu, scores[0].chrf, scores[0].ter):
        typer.echo(f"{score.metric}: {score.signature}")


def _row(score: SystemScore) -> tuple[str, ...]:
    # Text of one width, so that the decimal points stand below each other.
    numbers = (f"{one.value:6.2f}" for one in (score.bleu, score.chrf, score.ter))
    if score.p_value is None or score.p_decline is None:
        return (score.name, *numbers, "", "", "")
    mark = "+" if score.better else "-" if score.declined else ""
    return (score.name, *numbers, f"{score.p_value:.4f}", f"{score.p_decline:.4f}", mark)
