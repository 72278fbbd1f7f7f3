"""``lacuna fit``: a combiner that suits a model and its memories."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.options import Device, Json, LanguagesOption, MemoryPaths, ModelName, Threads, use_threads
from lacuna.cli.render import BarProgress, print_json
from lacuna.records import Languages

if TYPE_CHECKING:
    from lacuna.combiners.gate import GateManifest


def fit(
    combiner: Annotated[str, typer.Argument(metavar="COMBINER", help="vanilla, adaptive or kster (docs/fit.md).")],
    dev: Annotated[str, typer.Argument(help="Dev corpus, none of which is in the memories.")],
    memory: MemoryPaths,
    into: Annotated[Path, typer.Option(help="Folder for the combiner.")],
    model: ModelName = None,
    k: Annotated[
        int | None, typer.Option(help="Neighbors per token; adaptive: 8, kster: 16, vanilla: the best.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Divides squared distances; without it, the best (vanilla, adaptive).")
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="laplacian or gaussian (kster).")] = None,
    entries: Annotated[int | None, typer.Option(help="Entries to learn from (kster).")] = None,
    pairs: Annotated[int, typer.Option(min=1, help="At most this many dev pairs.")] = 2000,
    gate: Annotated[
        bool, typer.Option("--gate", help="Also fit a gate, which tells where no search is needed (docs/fit.md).")
    ] = False,
    languages: LanguagesOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is drawn and of the first weights.")] = 1,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Fit a combiner on a dev set: how much to listen to the memories, and when.

    Example: `lacuna fit adaptive dev.tsv --memory it-store --k 8 --into it-adaptive`
    """
    from lacuna.corpora import read_corpus
    from lacuna.fitting import DevSet, add_gate, fit_combiner, make_fitter
    from lacuna.margin import read_margins
    from lacuna.models import load_model
    from lacuna.translator import open_memory

    use_threads(threads)
    settings = {"k": k, "temperature": temperature, "kernel": kernel, "entries": entries}
    fitter = make_fitter(combiner, **{name: value for name, value in settings.items() if value is not None})
    direction = Languages.parse(languages) if languages else None
    memories = [open_memory(path) for path in memory]
    chosen = DevSet(islice(read_corpus(dev, languages=direction), pairs), remember=gate)
    if gate:
        for opened in memories:
            read_margins(opened.store)  # a store without margins is refused before the slow work
    loaded = load_model(model, device=device, languages=direction)
    report = fit_combiner(fitter, loaded, memories, chosen, into, seed=seed, progress=BarProgress())
    made = None
    if gate:
        made = add_gate(loaded, memories, report.combiner, chosen, seed=seed, progress=BarProgress())
    if json:
        return print_json(report.as_json() | ({"gate": made.model_dump(mode="json")} if made else {}))
    chosen_settings = ", ".join(f"{name} {value}" for name, value in report.manifest.settings.items())
    typer.echo(
        f"{into}: {combiner} with {chosen_settings}; dev perplexity {report.fitted.perplexity:.2f}, "
        f"of the model alone {report.fitted.model_perplexity:.2f}"
    )
    if made:
        typer.echo(
            f"{into / 'gate'}: searches at {made.searched:.1%} of the steps; BLEU on dev {made.bleu[1]:.2f}, "
            f"without the gate {made.bleu[0]:.2f} (p of a decline {made.p_decline:.3f}); {_bounds(made)}"
        )


def _bounds(gate: GateManifest) -> str:
    """Say where a gate searches."""
    behind = "at every step" if gate.reach is None else f"where a translation is at most {gate.reach:g} nats behind"
    gain = "" if gate.threshold is None else f" and a gain of {gate.threshold:.3f} nats or more is foretold"
    return f"it searches {behind}{gain}"
