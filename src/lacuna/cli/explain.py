"""``lacuna explain``, ``calibrate`` and ``gaps``: why each token was chosen, and how confident the model is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.artifacts.files import check_unused, write_text
from lacuna.cli.options import CalibrationFolder, DevPairs, Json, MemoryOptions, SystemOptions, check_output
from lacuna.cli.render import BarProgress, print_json, print_table
from lacuna.errors import CalibrationError, SettingError

if TYPE_CHECKING:
    from rich.text import Text

    from lacuna.explanation import ExplainedNeighbor, ExplainedToken, Explanation, Gap
    from lacuna.translator.calibration import CalibrationManifest


def explain(
    sentence: Annotated[str, typer.Argument(help="The sentence to translate.")],
    system: SystemOptions,
    target: Annotated[str | None, typer.Option(help="Explain this translation instead of Lacuna's own.")] = None,
    without: Annotated[
        list[int] | None,
        typer.Option(help="Id of a sentence that the search must not find; may be given several times."),
    ] = None,
    calibration: CalibrationFolder = None,
    neighbors: Annotated[
        int, typer.Option(min=0, help="Neighbors of each token to print; JSON and HTML have all.")
    ] = 3,
    html: Annotated[Path | None, typer.Option(help="Write an HTML page into this file.")] = None,
    json: Json = False,
) -> None:
    """Show for every token of a translation what model and memory predict, and which sentences it comes from.

    Example: `lacuna explain "Schließen Sie das Fenster." --memory it-store --html why.html`
    """
    from lacuna.explanation import Explainer, render_page

    if not sentence.strip():
        raise SettingError("sentence: got a blank one; write the sentence to translate in quotation marks")
    check_output("--html", html)
    translator = system.open(calibration=calibration)
    explainer = Explainer(translator, without=without or ())
    [explanation] = explainer.explain([sentence], None if target is None else [target], progress=BarProgress())
    # A given translation is the same with and without them; only its probabilities differ.
    compared = translator.translate([sentence])[0].text if without and target is None else None
    if html:
        write_text(html, render_page(explanation, text_with=compared))
    if json:
        return print_json(explanation.as_json() | ({} if compared is None else {"text_with": compared}))
    _print_explanation(explanation, compared, neighbors)
    if html:
        typer.echo(f"{html}: written")


def calibrate(
    system: MemoryOptions,
    dev: Annotated[str, typer.Option(help="Dev corpus; none of it may be in the memories.")],
    into: Annotated[Path, typer.Option(help="Folder for the calibration.")],
    pairs: DevPairs = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out parts.")] = 1,
    json: Json = False,
) -> None:
    """Fit on a dev set how probable it is that the model is right, given the margin and its own probability.

    Example: `lacuna calibrate --memory it-store --dev dev.tsv --into it-calibration`
    """
    from lacuna.fitting import DevCache, DevSet
    from lacuna.fitting import calibrate as fit_calibration

    check_unused(into, CalibrationError)
    memories, chosen = system.open_memories(), DevSet(system.read_pairs(dev, pairs), cache=DevCache())
    report = fit_calibration(system.load(), memories, chosen, into, seed=seed, progress=BarProgress())
    if json:
        return print_json(report.as_json())
    _print_calibration(report.manifest)
    typer.echo(f"{into}: written; it uses both features, and was fitted to all dev pairs")


def gaps(
    file: Annotated[
        Path, typer.Argument(help="Sentences of the domain: text, one per line, a corpus, or a document such as .po.")
    ],
    system: SystemOptions,
    calibration: CalibrationFolder = None,
    top: Annotated[int, typer.Option(min=1, help="Sentences to print; JSON and TSV have all.")] = 20,
    into: Annotated[
        Path | None, typer.Option(help="Write all into this TSV file: gap, line or id, source, translation.")
    ] = None,
    json: Json = False,
) -> None:
    """Rank sentences by their gap: those that model and memory cover least should be translated by people next.

    Example: `lacuna gaps new-texts.de --memory it-store --combiner it-adaptive --into next.tsv`
    """
    from lacuna.documents import open_sentences
    from lacuna.explanation import find_gaps

    check_output("--into", into)
    read = open_sentences(file)
    if into is not None and into.exists() and into.samefile(file):
        raise SettingError(f"--into: got {into}, the file that is read; name another")
    translator = system.open(calibration=calibration)
    sentences = read(translator.model)
    texts, places = [sentence.text for sentence in sentences], [sentence.place for sentence in sentences]
    ranked = find_gaps(translator, texts, places=places, progress=BarProgress())
    if into:
        write_text(into, "".join(_tsv_line(gap) for gap in ranked))
    if json:
        return print_json({"sentences": len(ranked), "gaps": [gap.as_json() for gap in ranked]})
    _print_gaps(ranked, top)
    if into:
        typer.echo(f"{into}: {len(ranked):,} sentences, the least known first")


def _print_explanation(explanation: Explanation, compared: str | None, neighbors: int) -> None:
    lines = [("source", explanation.source), ("translation", explanation.text)]
    if explanation.without:
        lines.append(("left out", ", ".join(f"sentence {sentence}" for sentence in explanation.without)))
    if compared is not None:
        lines.append(("with them", compared))
    if explanation.without_glossary:
        lines.append(("without glossary", explanation.without_glossary))
    lines.append(("model alone", explanation.base_text))
    lines.append(("score", f"{explanation.score:.4f}"))
    if explanation.confidence is not None:
        lines.append(("confidence", f"{explanation.confidence:.3f}"))
    print_table("Explanation", ["", ""], lines)
    names = ["token", "p", "p model", "p memory", "weight", "margin", "confidence", "chosen by", "model alone"]
    if explanation.confidence is None:
        names.remove("confidence")
    print_table("Token by token", names, [_token_row(token) for token in explanation.tokens])
    if neighbors:
        _print_neighbors(explanation, neighbors)


def _token_row(token: ExplainedToken) -> list[str]:
    numbers = [f"{p:.3f}" for p in (token.p, token.p_model, token.p_knn, token.knn_weight)]
    margin = "" if token.margin is None else f"{token.margin}{'+' if token.margin >= token.margin_cap else ''}"
    sure = [] if token.confidence is None else [f"{token.confidence:.3f}"]
    return [token.token, *numbers, margin, *sure, token.chosen_by, token.model_token if token.changed else ""]


def _print_neighbors(explanation: Explanation, most: int) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for token in explanation.tokens:
        instead = f", where the model alone would say {token.model_token}" if token.changed else ""
        console.print(Text.assemble("\n", (token.token, "bold"), instead), soft_wrap=True)
        for near in token.neighbors[:most]:
            console.print(_neighbor_text(near), soft_wrap=True)


def _neighbor_text(near: ExplainedNeighbor) -> Text:
    from rich.text import Text

    known = "known" if near.known else "unknown"
    return Text.assemble(
        f"  {near.weight:.3f} {near.token}, distance {near.distance:.1f}, {known} to the model; ",
        (f"{near.memory}, sentence {near.sentence}, {near.origin}", "dim"),
        f"\n    {near.source}\n    {near.before}",
        (f"[{near.word or ('' if near.after else '⏎')}]", "bold reverse"),
        near.after,
    )


def _print_calibration(manifest: CalibrationManifest) -> None:
    rows = [
        (measured.name, *(f"{x:.4f}" for x in (measured.ece, measured.brier, measured.sentence_error)))
        for measured in manifest.measured
    ]
    print_table(
        f"{manifest.tokens:,} dev tokens in {manifest.sentences:,} sentences, each held out once; "
        f"the model is right at {manifest.right:.1%}",
        ["features", "ECE", "Brier", "sentence error"],
        rows,
    )


def _tsv_line(gap: Gap) -> str:
    texts = (" ".join(text.split()) for text in (gap.source, gap.translation))
    return "\t".join([f"{gap.gap:.6f}", " ".join(gap.place.split()), *texts]) + "\n"


def _print_gaps(ranked: Sequence[Gap], top: int) -> None:
    lines = all(gap.place.isdigit() for gap in ranked)
    rows = [
        (
            f"{gap.gap:.3f}",
            int(gap.place) if lines else gap.place,
            f"{gap.p:.3f}",
            f"{gap.margin:.1f}",
            f"{gap.distance:.1f}",
            gap.source,
        )
        for gap in ranked[:top]
    ]
    title = f"The {len(rows):,} least known of {len(ranked):,} sentences"
    print_table(title, ["gap", "line" if lines else "place", "p", "margin", "distance", "source"], rows)
