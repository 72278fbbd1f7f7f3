"""``lacuna gaps``: which sentences to have translated next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.options import (
    BeamWidth,
    CalibrationFolder,
    CombinerFolder,
    Device,
    Json,
    KnnWeight,
    LanguagesOption,
    MemoryPaths,
    ModelName,
    NeighborCount,
    Temperature,
    Threads,
    use_threads,
)
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.cli.using import check_output, choose_combiner, make_translator, read_lines
from lacuna.errors import CorpusError, SettingError

if TYPE_CHECKING:
    from lacuna.explanation import Gap


def gaps(
    file: Annotated[Path, typer.Argument(help="Sentences of the domain, one per line.")],
    memory: MemoryPaths,
    model: ModelName = None,
    combiner: CombinerFolder = None,
    k: NeighborCount = None,
    knn_weight: KnnWeight = None,
    temperature: Temperature = None,
    beam: BeamWidth = None,
    calibration: CalibrationFolder = None,
    top: Annotated[int, typer.Option(min=1, help="Sentences to print; JSON and TSV have all.")] = 20,
    into: Annotated[
        Path | None, typer.Option(help="Write all into this TSV file: gap, line, source, translation.")
    ] = None,
    languages: LanguagesOption = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Rank sentences by how little model and memory know of them: what to have translated next.

    Example: `lacuna gaps new-texts.de --memory it-store --combiner it-adaptive --into next.tsv`
    """
    from lacuna.explanation import find_gaps, load_calibration
    from lacuna.files import write_text

    use_threads(threads)
    check_output("--into", into)
    weighing = choose_combiner(combiner, {"k": k, "knn_weight": knn_weight, "temperature": temperature})
    sure = load_calibration(calibration) if calibration else None
    lines = read_lines(file)
    if into is not None and into.exists() and into.samefile(file):
        raise SettingError(f"--into: got {into}, the file that is read; name another")
    if not any(line.strip() for line in lines):
        raise CorpusError(f"{file}: no sentence in it; write one per line")
    translator = make_translator(model, memory, weighing, beam=beam, languages=languages, device=device)
    found = find_gaps(translator, lines, calibration=sure, progress=BarProgress())
    if into:
        write_text(into, "".join(_tsv_line(gap) for gap in found))
    if json:
        return print_json({"sentences": len(found), "gaps": [gap.as_json() for gap in found]})
    _show(found, top)
    if into:
        typer.echo(f"{into}: {len(found):,} sentences, the least known first")


def _tsv_line(gap: Gap) -> str:
    texts = (" ".join(text.split()) for text in (gap.source, gap.translation))
    return "\t".join([f"{gap.gap:.6f}", str(gap.line), *texts]) + "\n"


def _show(found: Sequence[Gap], top: int) -> None:
    rows = [
        (f"{gap.gap:.3f}", gap.line, f"{gap.p:.3f}", f"{gap.margin:.1f}", f"{gap.distance:.1f}", gap.source)
        for gap in found[:top]
    ]
    title = f"The {len(rows):,} least known of {len(found):,} sentences"
    print_table(title, ["gap", "line", "p", "margin", "distance", "source"], rows)
