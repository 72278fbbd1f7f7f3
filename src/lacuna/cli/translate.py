"""``lacuna translate``: translate lines of text."""

from __future__ import annotations

import json as json_format
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuna.cli.options import (
    ClusterOptions,
    FallbackOption,
    OptionalSystemOptions,
    check_at_least_one,
    expand_bundles,
    with_default,
)
from lacuna.cli.render import BarProgress, print_line
from lacuna.milvus.address import is_address
from lacuna.progress import SILENT

if TYPE_CHECKING:
    from lacuna.records import Translation


@expand_bundles
def translate(
    system: OptionalSystemOptions,
    cluster: ClusterOptions,
    file: Annotated[Path | None, typer.Argument(help="One sentence per line; default: standard input.")] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(
            help=with_default(
                "Scores are divided by the length to this power", "lacuna.decoding:BeamSettings.length_penalty"
            )
        ),
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Search only where the gate of the combiner says so; see lacuna fit --gate.")
    ] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="8-bit weights: faster on a CPU, slightly less accurate.")
    ] = False,
    batch_size: Annotated[int, typer.Option(help="Maximum number of sentences in a batch.")] = 32,
    without_memory_on_failure: FallbackOption = False,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, with the evidence of every token.")
    ] = False,
) -> None:
    """Translate lines of text, with or without memories. Translations are printed in order as they become ready.

    Example: `echo "Klicken Sie auf OK." | lacuna translate --domain it`

    Example: `echo "Klicken Sie auf OK." | lacuna translate --memory it-store --k 8 --knn-weight 0.6`

    Example: `echo "Klicken Sie auf OK." | lacuna translate --memory milvus://localhost/it --tag client-a`
    """
    from lacuna.translator.streaming import open_lines

    check_at_least_one("--batch-size", batch_size)
    lines = open_lines(file)
    translator = system.open(length_penalty=length_penalty, gate=gate, int8=int8).translator
    translator.fallback = without_memory_on_failure
    alone = 0
    # On a terminal the translations themselves show the progress.
    progress = SILENT if sys.stdout.isatty() else BarProgress()
    folders = [memory.store.path for memory in translator.memories if not is_address(memory.store.name)]
    with cluster.open(reads=folders) as pool:
        for result in translator.stream(lines, evidence=json, batch_size=batch_size, progress=progress, pool=pool):
            print_line(_json_line(result) if json else result.text)
            alone += result.without_memory
    if alone:
        typer.echo(f"{alone:,} sentences were translated without memory, which did not answer", err=True)
    if gate:
        count = translator.search_count
        typer.echo(f"searched at {count.searched:,} of {count.rows:,} steps", err=True)


def _json_line(result: Translation) -> str:
    content: dict[str, Any] = {"text": result.text, "score": result.score}
    content["steps"] = [asdict(step) for step in result.steps]
    if result.without_memory:
        content["without_memory"] = True
    return json_format.dumps(content, ensure_ascii=False)
