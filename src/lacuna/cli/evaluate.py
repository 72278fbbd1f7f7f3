"""``lacuna evaluate``: score translations, and test each system against the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.options import (
    Device,
    DomainFolder,
    GlossaryFile,
    Json,
    ModelName,
    OptionalMemoryPaths,
    StrictTerms,
    Threads,
    check_strict,
    open_glossary,
    parse_languages,
    refuse_with_domain,
    use_threads,
)
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.errors import SettingError
from lacuna.evaluation import CometScorer, Score, SystemScore, evaluate_files
from lacuna.evaluation.comet import PYTHON_VARIABLE
from lacuna.evaluation.scores import LEVEL
from lacuna.evaluation.significance import SAMPLES, SEED
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.glossaries import Glossary
    from lacuna.translator import Translator

_ALONE = "model alone"


def evaluate(
    reference: Annotated[
        Path, typer.Argument(metavar="REFERENCE", help="One reference per line (also .gz, .xz), or a bilingual corpus.")
    ],
    systems: Annotated[
        list[Path] | None, typer.Argument(metavar="SYSTEM...", help="Files of translations; the first is the baseline.")
    ] = None,
    model: ModelName = None,
    memory: OptionalMemoryPaths = None,
    combiner: Annotated[
        list[Path] | None, typer.Option(help="Folder of lacuna fit: translate with it; may be given several times.")
    ] = None,
    domain: DomainFolder = None,
    glossary: GlossaryFile = None,
    strict_terms: StrictTerms = False,
    languages: Annotated[
        Languages | None,
        typer.Option(
            parser=parse_languages, metavar="SRC-TGT", help="Direction, such as de-en; the target side is scored."
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Target language, if the direction is not needed.")] = None,
    comet: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Also score with COMET: wmt22-comet-da, or a path."),
    ] = None,
    comet_python: Annotated[
        str | None,
        typer.Option(help=f"Python with COMET; default: ${PYTHON_VARIABLE}, or that of make comet."),
    ] = None,
    samples: Annotated[int, typer.Option(help="Bootstrap samples of the significance test.")] = SAMPLES,
    seed: Annotated[int, typer.Option(help="Seed of the samples; the default is sacreBLEU's.")] = SEED,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Score translations with BLEU, chrF and TER, and test each system's BLEU against the first one's.

    Scores and signatures are those of sacreBLEU. For Chinese, Japanese and Korean, give the target language.
    With --model or --memory the test set is first translated by the model alone, and with every --combiner; with
    --domain, by the model alone and with the domain. With --glossary, each of these also translates with the glossary.
    COMET needs a bilingual test set and a separate environment: make comet.

    Example: `lacuna evaluate it/test.tsv plain.txt memory.txt --languages de-en`

    Example: `lacuna evaluate test.tsv --domain it`

    Example: `lacuna evaluate it/test.tsv --memory it-store --combiner it-adaptive --combiner it-kster`

    Example: `lacuna evaluate it/test.tsv full.txt pruned.txt --comet wmt20-comet-da`
    """
    use_threads(threads)
    scorer = _comet_scorer(comet, comet_python, device, threads)
    if domain is not None:
        translators = _domain_translators(domain, device, model=model, memory=memory, combiner=combiner)
    else:
        translators = _translators(model, memory or [], combiner or [], languages, device)
    translators |= _with_glossary(translators, open_glossary(glossary, languages), strict_terms)
    if languages is None and target is None:  # the model knows
        languages = next((translator.model.languages for translator in translators.values()), None)
    scores = evaluate_files(
        reference,
        systems or [],
        translators=translators,
        languages=languages,
        target_language=target,
        comet=scorer,
        samples=samples,
        seed=seed,
        progress=BarProgress(),
    )
    if json:
        return print_json({"samples": samples, "seed": seed, "systems": [score.as_json() for score in scores]})
    _print_scores(scores, samples, seed)


def _translators(
    model: str | None, memories: list[str], combiners: list[Path], languages: Languages | None, device: str
) -> dict[str, Translator]:
    """Open the model alone, and one translator for every combiner."""
    if bool(memories) != bool(combiners):
        given, missing = ("--memory", "--combiner") if memories else ("--combiner", "--memory")
        raise SettingError(f"{given}: given without {missing}; a memory needs a combiner (lacuna fit)")
    if model is None and not memories:
        return {}
    from lacuna.combiners import load_combiner
    from lacuna.memory import open_memory
    from lacuna.models import load_model
    from lacuna.translator import System

    fitted = {str(folder): load_combiner(folder) for folder in combiners}
    stores = [open_memory(path) for path in memories]
    loaded = load_model(model, device=device, languages=languages)
    with_memory = {name: System(loaded, stores, combiner).open() for name, combiner in fitted.items()}
    return {_ALONE: System(loaded).open(), **with_memory}


def _domain_translators(folder: Path, device: str, **options: object) -> dict[str, Translator]:
    """Open the model alone, and a domain."""
    from lacuna.domain import open_domain
    from lacuna.translator import System

    refuse_with_domain(**options)
    domain = open_domain(folder, device=device)
    return {_ALONE: System(domain.model).open(), str(folder): domain.translator}


def _with_glossary(
    translators: dict[str, Translator], glossary: Glossary | None, strict: bool
) -> dict[str, Translator]:
    """Return the same translators with a glossary, if there is one."""
    check_strict(strict, glossary)
    if glossary is None:
        return {}
    if not translators:
        raise SettingError("--glossary: given without a system that translates; give --model, --memory or --domain")
    return {
        f"{name} + {glossary.name}": replace(translator.system, glossary=glossary, strict_terms=strict).open()
        for name, translator in translators.items()
    }


def _comet_scorer(model: str | None, python: str | None, device: str, threads: int | None) -> CometScorer | None:
    if model is not None:
        return CometScorer(model, python=python, device=device, threads=threads)
    if python is not None:
        raise SettingError("--comet-python: given without --comet; name a model, as in --comet wmt22-comet-da")
    return None


def _print_scores(scores: Sequence[SystemScore], samples: int, seed: int) -> None:
    first = scores[0]
    metrics = [first.bleu, first.chrf, first.ter]
    columns, test = ["system", "BLEU", "chrF", "TER"], ["p", "p decline", ""] if len(scores) > 1 else []
    print_table("Scores", [*columns, *test], [_row(score)[: len(columns + test)] for score in scores])
    if first.comet is not None:  # a separate table: one more column would not fit on a terminal
        metrics.append(first.comet)
        rows = [_comet_row(score, score.comet, first.comet) for score in scores if score.comet is not None]
        print_table("COMET", ["system", "COMET", *test], [row[: 2 + len(test)] for row in rows])
    typer.echo("TER: lower is better; all others: higher is better.")
    if len(scores) > 1:
        typer.echo(
            f"Paired bootstrap of {'BLEU' if first.comet is None else 'BLEU, and of COMET,'} against the first system, "
            f"{samples:,} samples, seed {seed}. p: two-sided, probability of such a difference by chance;\n"
            f"p decline: share of samples in which the system is not worse. "
            f"+ better (p < {LEVEL}), - worse (p decline < {LEVEL})."
        )
    for score in metrics:
        typer.echo(f"{score.metric}: {score.signature}")


def _row(score: SystemScore) -> tuple[str, ...]:
    # Text of one width, so that decimal points are aligned.
    numbers = (f"{metric.value:6.2f}" for metric in (score.bleu, score.chrf, score.ter))
    return (score.name, *numbers, *_test(score.p_value, score.p_decline, bool(score.better)))


def _comet_row(score: SystemScore, comet: Score, first: Score) -> tuple[str, ...]:
    better = comet.value > first.value and score.comet_p_value is not None and score.comet_p_value < LEVEL
    return (score.name, f"{comet.value:7.4f}", *_test(score.comet_p_value, score.comet_p_decline, better))


def _test(p_value: float | None, p_decline: float | None, better: bool) -> tuple[str, str, str]:
    if p_value is None or p_decline is None:
        return ("", "", "")
    return (f"{p_value:.4f}", f"{p_decline:.4f}", "+" if better else "-" if p_decline < LEVEL else "")
