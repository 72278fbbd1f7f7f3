"""``lacuna prune``: write a smaller store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.commands import Settings, SettingsOf
from lacuna.cli.options import ClusterOptions, Json, MemoryPath, ModelOptions, memory_folder, use_threads
from lacuna.cli.render import BarProgress, print_json, print_notes, print_table
from lacuna.errors import SettingError

if TYPE_CHECKING:
    from lacuna.fitting import PruningChoice
    from lacuna.pruning import Plac, PruneReport

# The value of --kind for a store without an index.
NO_INDEX = "none"
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
        bool, typer.Option("--auto", help="Choose ratio and min_margin on --dev: the largest ratio without a loss.")
    ] = False,
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
    or `lacuna prune it/store --auto --dev dev.tsv --into it/pruned`
    """
    from lacuna.datastore import open_store
    from lacuna.pruning import make_pruner, prune_store

    use_threads(system.threads)
    choice = None
    if auto:
        if dev is None or ratio is not None or settings or method != "plac":
            raise SettingError("--auto chooses ratio and min_margin of plac: give --dev, and none of the others")
        choice, pruner = _choose(memory, dev, dev_pairs, system, seed)
        settings, ratio = {"min_margin": pruner.min_margin}, choice.ratio
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


def _choose(memory: Path, dev: str, pairs: int, system: ModelOptions, seed: int) -> tuple[PruningChoice, Plac]:
    from lacuna.fitting import DevCache, DevSet, choose_pruning
    from lacuna.memory import open_memory

    chosen = DevSet(system.read_pairs(dev, pairs), cache=DevCache())
    folder, model = system.load_for(memory)
    choice = choose_pruning(model, open_memory(folder), chosen, seed=seed, progress=BarProgress())
    if choice.pruner is None:
        raise SettingError(f"{memory}: nothing can be dropped without a significant loss on {dev}; use it as it is")
    return choice, choice.pruner


def _print_choice(choice: PruningChoice) -> None:
    rows = [("0", "", f"{choice.log_p:.4f}", "", f"{choice.bleu:.2f}", "")]
    for trial in choice.trials:
        bleu = ("", "") if trial.bleu is None else (f"{trial.bleu:.2f}", f"{trial.p_bleu:.3f}")
        rows.append((f"{trial.ratio:g}", str(trial.min_margin), f"{trial.log_p:.4f}", f"{trial.p_log_p:.3f}", *bleu))
    names = ["ratio", "best min_margin", "log p of dev", "p of decline", "BLEU of dev", "p of decline"]
    print_table("Tried on dev; the largest ratio without a significant decline is taken", names, rows)


def _print_report(report: PruneReport) -> None:
    groups = [(name, group.kept, group.dropped) for name, group in report.groups.items()]
    print_table(
        f"{report.into}, by {report.settings['method']}",
        ["entries", "kept", "dropped"],
        [*groups, ("all", report.kept, report.dropped)],
    )
    index = "no index" if report.index is None else f"index {report.index}"
    typer.echo(f"{report.into}: {report.ratio:.2%} of {report.entries:,} entries dropped, {index}")
