"""``lacuna prune``: write a smaller store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuna.cli.commands import Settings, SettingsOf, given, with_default
from lacuna.cli.options import ClusterOptions, Json, MemoryPath, ModelOptions, memory_folder, use_threads
from lacuna.cli.render import BarProgress, print_json, print_notes, print_table
from lacuna.errors import SettingError

if TYPE_CHECKING:
    from lacuna.fitting import PruningChoice
    from lacuna.fitting.pruning_choice import PruningTrial
    from lacuna.pruning import Plac, PruneReport

# The value of --kind for a store without an index.
NO_INDEX = "none"
_CHOICE = "lacuna.fitting.pruning_choice"
_PRUNERS = SettingsOf("lacuna.pruning:PRUNERS")


def prune(
    memory: MemoryPath,
    system: ModelOptions,
    cluster: ClusterOptions,
    into: Annotated[Path, typer.Option(help="Folder for the new store.")],
    *,
    method: Annotated[str, typer.Option(help=f"{_PRUNERS.names} (docs/prune.md).")] = "plac",
    ratio: Annotated[
        float | None, typer.Option(help="Share of all entries to drop, 0 to 1; every method but all_known needs it.")
    ] = None,
    settings: Annotated[Settings, _PRUNERS],
    auto: Annotated[
        bool, typer.Option("--auto", help="Choose ratio and min_margin on --dev: the largest ratio within --max-loss.")
    ] = False,
    max_loss: Annotated[
        float | None,
        typer.Option(
            help=with_default(
                "For --auto: largest share of what the memory adds to the log-probability of dev that may be lost",
                f"{_CHOICE}:MAX_LOSS",
            )
        ),
    ] = None,
    max_drop: Annotated[
        float | None,
        typer.Option(
            help=with_default("For --auto: largest drop of BLEU and of chrF that is accepted", f"{_CHOICE}:MAX_DROP")
        ),
    ] = None,
    dev: Annotated[str | None, typer.Option(help="Dev corpus, for --auto.")] = None,
    dev_pairs: Annotated[int, typer.Option(min=1, help="Maximum number of dev pairs.")] = 500,
    clamp: Annotated[
        bool, typer.Option("--clamp", help="If the ratio is too large, drop as many entries as possible.")
    ] = False,
    kind: Annotated[
        str, typer.Option(help=f"Index of the new store: auto, exact, a faiss factory string, or {NO_INDEX}.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of random choices and of the index.")] = 1,
    json: Json = False,
) -> None:
    """Drop entries that the memory does not need, and write the others into a new store.

    Example: `lacuna prune it/store --method plac --min-margin 8 --ratio 0.45 --seed 1 --into it/pruned`,
    or `lacuna prune it/store --auto --max-loss 0.03 --dev dev.tsv --into it/pruned`
    """
    from lacuna.datastore import open_store
    from lacuna.pruning import make_pruner, prune_store

    use_threads(system.threads)
    choice = None
    if auto:
        if dev is None or ratio is not None or settings or method != "plac":
            raise SettingError("--auto chooses ratio and min_margin of plac: give --dev, and none of the others")
        choice, pruner = _choose(memory, dev, dev_pairs, system, seed, given(max_loss=max_loss, max_drop=max_drop))
        settings, ratio = {"min_margin": pruner.min_margin}, choice.ratio
    elif max_loss is not None or max_drop is not None:
        raise SettingError("--max-loss and --max-drop are for --auto: give --auto and --dev, or leave them out")
    opened, chosen = open_store(memory_folder(memory)), make_pruner(method, **settings)
    with cluster.open(reads=[opened.path], writes=[into.absolute().parent]) as pool:
        report = prune_store(
            opened,
            chosen,
            into,
            ratio=ratio,
            seed=seed,
            clamp=clamp,
            index=None if kind == NO_INDEX else kind,
            progress=BarProgress(),
            pool=pool,
        )
    print_notes(report.warnings)
    if json:
        return print_json(report.as_json() | ({"choice": asdict(choice)} if choice else {}))
    if choice:
        _print_choice(choice)
    _print_report(report)


def _choose(
    memory: Path, dev: str, pairs: int, system: ModelOptions, seed: int, limits: dict[str, Any]
) -> tuple[PruningChoice, Plac]:
    from lacuna.fitting import DevCache, DevSet, choose_pruning
    from lacuna.fitting.pruning_choice import check_promise
    from lacuna.memory import open_memory

    check_promise(**limits)
    chosen = DevSet(system.read_pairs(dev, pairs), cache=DevCache())
    folder, model = system.load_for(memory)
    choice = choose_pruning(model, open_memory(folder), chosen, **limits, seed=seed, progress=BarProgress())
    if choice.pruner is None:
        way_out = "give more dev pairs, a larger --max-loss or --max-drop, or choose --ratio yourself"
        raise SettingError(f"{memory}: nothing is dropped: {choice.why}; {way_out}")
    return choice, choice.pruner


def _print_choice(choice: PruningChoice) -> None:
    rows = [_row(trial, choice) for trial in choice.listed]
    names = ["ratio", "margin", "loss", "at most", "BLEU", "at least", "chrF", "at least"]
    print_table("Tried on dev; * is the largest ratio within the limits", names, rows)
    typer.echo(
        f"With 95 % confidence, at most {choice.max_loss:.1%} of what the memory adds to the log-probability "
        f"({choice.gain:+.4f} per token) is lost,\nand BLEU and chrF drop by less than {choice.max_drop:g} "
        f"(BLEU {choice.bleu:.2f} with the whole memory, {choice.translated:,} dev pairs translated)."
    )


def _row(trial: PruningTrial, choice: PruningChoice) -> tuple[str, ...]:
    shares = ["" if share is None else f"{share:.2%}" for share in (trial.loss.share, trial.loss.bound)]
    drops = [f"{figure:+.2f}" for drop in trial.drops for figure in (drop.score - drop.baseline, drop.lowest)]
    mark = "* " if trial is choice.chosen else ""
    return f"{mark}{trial.ratio:g}", str(trial.min_margin), *shares, *(drops or [""] * 4)


def _print_report(report: PruneReport) -> None:
    groups = [(name, group.kept, group.dropped) for name, group in report.groups.items()]
    print_table(
        f"{report.into}, by {report.settings['method']}",
        ["entries", "kept", "dropped"],
        [*groups, ("all", report.kept, report.dropped)],
    )
    index = "no index" if report.index is None else f"index {report.index}"
    typer.echo(f"{report.into}: {report.ratio:.2%} of {report.entries:,} entries dropped, {index}")
