"""``lacuna fit`` and ``lacuna tune``: fit a combiner, or find the settings of the vanilla one, on a dev set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.commands import Settings, SettingsOf
from lacuna.cli.options import DevPairs, Json, MemoryOptions, Precision
from lacuna.cli.render import BarProgress, print_json, print_notes, print_table

if TYPE_CHECKING:
    from lacuna.combiners.gate import GateManifest
    from lacuna.fitting.fitters import FitReport

_DEV_PAIRS = 2000
_FITTERS = SettingsOf("lacuna.fitting:FITTERS")


def fit(
    combiner: Annotated[str, typer.Argument(metavar="COMBINER", help=f"{_FITTERS.names} (docs/fit.md).")],
    dev: Annotated[str, typer.Argument(help="Dev corpus; none of it may be in the memories.")],
    system: MemoryOptions,
    into: Annotated[Path, typer.Option(help="Folder for the combiner.")],
    settings: Annotated[Settings, _FITTERS],
    pairs: DevPairs = _DEV_PAIRS,
    gate: Annotated[
        bool, typer.Option("--gate", help="Also fit a gate, which skips searches that are not worth it (docs/fit.md).")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of samples and initial weights.")] = 1,
    precision: Precision = "float32",
    json: Json = False,
) -> None:
    """Fit a combiner on a dev set: how much weight the memories get, and when.

    Example: `lacuna fit adaptive dev.tsv --memory it-store --k 8 --into it-adaptive`
    """
    from lacuna.fitting import DevCache, DevSet, add_gate, fit_combiner, make_fitter
    from lacuna.margin import read_margins

    fitter = make_fitter(combiner, **settings)
    memories = system.open_memories()
    chosen = DevSet(system.read_pairs(dev, pairs), cache=DevCache())
    if gate:
        for opened in memories:
            read_margins(opened.store)  # a store without margins is an error before the slow work
    model = system.load(precision)
    report = fit_combiner(fitter, model, memories, chosen, into, seed=seed, progress=BarProgress())
    made = None
    if gate:
        made = add_gate(model, memories, report.combiner, chosen, seed=seed, progress=BarProgress())
    if json:
        return print_json(report.as_json() | ({"gate": made.model_dump(mode="json")} if made else {}))
    _print_fit(into, combiner, report)
    if made:
        _print_gate(into / "gate", made)


def tune(
    dev: Annotated[str, typer.Argument(help="Dev corpus; none of it may be in the memories.")],
    system: MemoryOptions,
    pairs: DevPairs = _DEV_PAIRS,
    json: Json = False,
) -> None:
    """Find k, temperature and knn_weight on a dev set, in one pass over it.

    Example: `lacuna tune dev.tsv --memory it-store`
    """
    from lacuna.fitting import DevCache, DevSet
    from lacuna.fitting import tune as find_settings
    from lacuna.fitting.vanilla import edges_of

    memories, chosen = system.open_memories(), DevSet(system.read_pairs(dev, pairs), cache=DevCache())
    trials = find_settings(system.load(), memories, chosen, progress=BarProgress())
    rows = [(t.combiner.k, t.combiner.temperature, t.combiner.knn_weight, round(t.perplexity, 4)) for t in trials]
    names = ["k", "temperature", "knn_weight", "perplexity"]
    if json:
        shown = [dict(zip(names, row, strict=True)) for row in rows]
        at_edge = [edge.setting for edge in edges_of(trials)]
        return print_json({"best": shown[0], "at_edge": at_edge, "trials": shown})
    print_table("Best settings on dev", names, rows[:10])
    print_notes(edges_of(trials))


def _print_fit(into: Path, combiner: str, report: FitReport) -> None:
    settings = ", ".join(f"{name} {value}" for name, value in report.manifest.settings.items())
    typer.echo(
        f"{into}: {combiner} with {settings}; dev perplexity {report.fitted.perplexity:.2f}, "
        f"of the model alone {report.fitted.model_perplexity:.2f}"
    )
    print_notes(report.fitted.at_edge)


def _print_gate(folder: Path, gate: GateManifest) -> None:
    where = "at every step" if gate.reach is None else f"where the score gap is at most {gate.reach:g} nats"
    gain = "" if gate.threshold is None else f" and the predicted gain is {gate.threshold:.3f} nats or more"
    typer.echo(
        f"{folder}: searches at {gate.searched:.1%} of the steps; BLEU on dev {gate.bleu[1]:.2f}, "
        f"without the gate {gate.bleu[0]:.2f} (p of a decline {gate.p_decline:.3f}); it searches {where}{gain}"
    )
