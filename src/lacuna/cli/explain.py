"""``lacuna explain``: why every token of a translation was chosen, and from which sentences."""

from __future__ import annotations

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
from lacuna.cli.using import check_output, choose_combiner, make_translator
from lacuna.errors import SettingError

if TYPE_CHECKING:
    from rich.text import Text

    from lacuna.explanation import ExplainedNeighbor, ExplainedToken, Explanation


def explain(
    sentence: Annotated[str, typer.Argument(help="The sentence to translate.")],
    memory: MemoryPaths,
    model: ModelName = None,
    combiner: CombinerFolder = None,
    k: NeighborCount = None,
    knn_weight: KnnWeight = None,
    temperature: Temperature = None,
    beam: BeamWidth = None,
    target: Annotated[str | None, typer.Option(help="Explain this translation instead of Lacuna's own.")] = None,
    without: Annotated[
        list[int] | None, typer.Option(help="Id of a sentence that is not to be found; may be given several times.")
    ] = None,
    calibration: CalibrationFolder = None,
    neighbors: Annotated[
        int, typer.Option(min=0, help="Neighbors of each token to print; JSON and HTML have all.")
    ] = 3,
    html: Annotated[Path | None, typer.Option(help="Write one page of HTML into this file.")] = None,
    languages: LanguagesOption = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Say of every token of a translation what model and memory thought, and which sentences it comes from.

    Example: `lacuna explain "Schließen Sie das Fenster." --memory it-store --html why.html`
    """
    from lacuna.explanation import Explainer, load_calibration, render_page
    from lacuna.files import write_text

    use_threads(threads)
    if not sentence.strip():
        raise SettingError("sentence: got a blank one; write the sentence to translate in quotation marks")
    check_output("--html", html)
    weighing = choose_combiner(combiner, {"k": k, "knn_weight": knn_weight, "temperature": temperature})
    sure = load_calibration(calibration) if calibration else None
    translator = make_translator(model, memory, weighing, beam=beam, languages=languages, device=device)
    explainer = Explainer(translator, without=without or (), calibration=sure)
    [explanation] = explainer.explain([sentence], None if target is None else [target], progress=BarProgress())
    # A given translation is the same with and without them; only its probabilities differ.
    compared = translator.translate([sentence])[0].text if without and target is None else None
    if html:
        write_text(html, render_page(explanation, text_with=compared))
    if json:
        return print_json(explanation.as_json() | ({} if compared is None else {"text_with": compared}))
    _show(explanation, compared, neighbors)
    if html:
        typer.echo(f"{html}: written")


def _show(explanation: Explanation, compared: str | None, neighbors: int) -> None:
    lines = [("source", explanation.source), ("translation", explanation.text)]
    if explanation.without:
        lines.append(("left out", ", ".join(f"sentence {sentence}" for sentence in explanation.without)))
    if compared is not None:
        lines.append(("with them", compared))
    lines.append(("model alone", explanation.base_text))
    lines.append(("score", f"{explanation.score:.4f}"))
    if explanation.confidence is not None:
        lines.append(("confidence", f"{explanation.confidence:.3f}"))
    print_table("Explanation", ["", ""], lines)
    names = ["token", "p", "p model", "p memory", "weight", "margin", "confidence", "model alone"]
    if explanation.confidence is None:
        names.remove("confidence")
    print_table("Token by token", names, [_row(token) for token in explanation.tokens])
    if neighbors:
        _show_neighbors(explanation, neighbors)


def _row(token: ExplainedToken) -> list[str]:
    numbers = [f"{p:.3f}" for p in (token.p, token.p_model, token.p_knn, token.knn_weight)]
    margin = "" if token.margin is None else f"{token.margin}{'+' if token.margin >= token.margin_cap else ''}"
    sure = [] if token.confidence is None else [f"{token.confidence:.3f}"]
    return [token.token, *numbers, margin, *sure, token.model_token if token.changed else ""]


def _show_neighbors(explanation: Explanation, most: int) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for token in explanation.tokens:
        instead = f", where the model alone would say {token.model_token}" if token.changed else ""
        console.print(Text.assemble("\n", (token.token, "bold"), instead), soft_wrap=True)
        for near in token.neighbors[:most]:
            console.print(_neighbor(near), soft_wrap=True)


def _neighbor(near: ExplainedNeighbor) -> Text:
    from rich.text import Text

    known = "known" if near.known else "unknown"
    return Text.assemble(
        f"  {near.weight:.3f} {near.token}, distance {near.distance:.1f}, {known} to the model; ",
        (f"{near.memory}, sentence {near.sentence}, {near.origin}", "dim"),
        f"\n    {near.source}\n    {near.before}",
        (f"[{near.word or ('' if near.after else '⏎')}]", "bold reverse"),
        near.after,
    )
