"""The paper's tables from an experiment's results, with the paper's figures beside ours. Computes nothing anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from lacuna.analysis.paper import BASE as PAPER_BASE
from lacuna.analysis.paper import FINETUNED, PaperDomain, PaperScore
from lacuna.analysis.tables import Cell, Column, Plot, Table
from lacuna.evaluation.scores import LEVEL
from lacuna.reproduction.comparison import COMPARED, REVERSE, WHOLE, Line, Results
from lacuna.reproduction.experiment import ExperimentFile, Sentences

TITLES = {
    "base": "Base",
    "finetuned, full": "Fine-tuned",
    "finetuned, lora": "Fine-tuned, LoRA",
    WHOLE: "Adaptive, whole memory",
    "random": "Random",
    "cluster": "Cluster",
    "merge": "Merge",
    "known": "Known",
    "all_known": "All known",
    "plac": "PLAC",
    REVERSE: "Reverse",
}
_PAIRS = tuple(Column(name, "score") for name in ("whole", "PLAC", "paper: whole", "paper: PLAC"))
_STAR = "*: significantly below the whole memory (paired bootstrap, one-sided, p < 0.05)."


def data_table(sentences: Mapping[str, Sentences], paper: PaperDomain | None) -> Table:
    """Count sentence pairs: of the files, those used, and the paper's."""
    rows: list[tuple[Cell, ...]] = [
        (part, each.found, len(each), getattr(paper, part) if paper else None) for part, each in sentences.items()
    ]
    columns = (Column("part"), Column("pairs found", "count"), Column("pairs used", "count"), Column("paper", "count"))
    return Table("data", "Sentence pairs", columns, tuple(rows), paper="Tables 1 and 4")


def settings_table(experiment: ExperimentFile, results: Results, paper: PaperDomain | None) -> Table:
    """List the settings of the main comparison, and the paper's."""
    adaptive, pruning = experiment.adaptive, experiment.pruning
    rows: tuple[tuple[Cell, ...], ...] = (
        ("min_margin (k_p)", pruning.min_margin, paper.min_margin if paper else None),
        ("ratio asked for", pruning.ratio, paper.ratio if paper else None),
        ("ratio dropped", round(results.ratio, 4), paper.ratio if paper else None),
        ("neighbors (k_a)", adaptive.k, paper.k if paper else None),
        ("temperature", adaptive.temperature, paper.temperature if paper else None),
        ("max_margin", experiment.margin.max_margin, 2048),
    )
    columns = (Column("setting"), Column("here", "number"), Column("paper", "number"))
    note = "Without a temperature, a few are tried on dev. "
    if results.ratio < results.asked:
        note += "No more entries are known and have a margin of min_margin or more, so all methods drop this share."
    return Table("settings", "Settings of pruning and of adaptive kNN-MT", columns, rows, note, paper="Table 11")


def main_table(results: Results, paper: PaperDomain | None, comet: str | None) -> Table:
    """Compare every system on test."""
    order = {name: place for place, name in enumerate(TITLES)}
    lines = sorted(results.main, key=lambda line: order[line.name])
    columns = [Column("system"), Column("dropped", "share"), Column("entries", "count"), Column("BLEU", "score")]
    columns += [Column("chrF", "score"), Column("p", "number", 3, "Share of samples in which it is not worse")]
    columns += [Column("COMET", "number", 4)] if comet else []
    columns += [
        Column("paper: dropped", "share", 0),
        Column("paper: BLEU", "score"),
        Column("paper: COMET", "number", 4),
    ]
    names = [column.name for column in columns]
    rows: list[tuple[Cell, ...]] = []
    marks: dict[tuple[int, int], str] = {}
    for number, line in enumerate(lines):
        score, theirs = line.score, _theirs(paper, line.name)
        row: list[Cell] = [TITLES[line.name], line.dropped, line.entries, line.bleu, score["chrf"], score["p_decline"]]  # type: ignore[list-item]
        row += [score["comet"]] if comet else []  # type: ignore[list-item]
        row += [theirs.ratio, theirs.bleu, theirs.comet] if theirs else [None, None, None]
        rows.append(tuple(row))
        starred = {
            "BLEU": score["declined"] and line.name != WHOLE,
            "COMET": line.name != WHOLE and _below(score.get("comet_p_decline")),
            "paper: BLEU": theirs and theirs.bleu_declined,
            "paper: COMET": theirs and theirs.comet_declined,
        }
        marks |= {(number, names.index(name)): "*" for name, wanted in starred.items() if wanted}
    note = f"{_STAR} Adaptive kNN-MT throughout. {results.main[0].score['signature']}"
    return Table("main", "What pruning costs", tuple(columns), tuple(rows), note, marks, paper="Tables 5 and 6")


def _below(p_decline: object) -> bool:
    return isinstance(p_decline, float) and p_decline < LEVEL


def _theirs(paper: PaperDomain | None, name: str) -> PaperScore | None:
    key = {"base": PAPER_BASE, "finetuned, full": FINETUNED}.get(name, name)
    return paper.scores.get(key) if paper else None


def seeds_table(results: Results) -> Table:
    """List BLEU of every way to prune, with every seed."""
    seeds = list(dict.fromkeys(line.setting for line in results.seeds))
    columns = [Column("method"), *(Column(f"seed {seed}", "score") for seed in seeds)]
    columns += [Column("mean", "score"), Column("deviation", "score"), Column("against whole", "score")]
    whole = results.main[0].bleu
    rows: list[tuple[Cell, ...]] = []
    for name in COMPARED:
        scores = bleus(results.seeds, name)
        spread = stdev(scores) if len(scores) > 1 else None
        rows.append((TITLES[name], *scores, fmean(scores), spread, fmean(scores) - whole))
    title = f"BLEU by seed, {results.ratio:.1%} dropped"
    return Table(
        "seeds", title, tuple(columns), tuple(rows), "A seed draws entries, trains the combiner and the index."
    )


def bleus(lines: Sequence[Line], name: str) -> list[float]:
    """Return the scores of all lines of a name."""
    return [line.bleu for line in lines if line.name == name]


def variants_table(results: Results, paper: PaperDomain | None) -> Table:
    """Compare combiners, with the whole and the pruned memory."""
    titles = {"vanilla": "Vanilla kNN-MT", "kster": "KSTER", "adaptive": "Adaptive kNN-MT"}
    columns = (Column("combiner"), *_PAIRS)
    rows = []
    for name, title in titles.items():
        ours = [
            line.bleu
            for size in (WHOLE, "plac")
            for line in results.variants
            if (line.name, line.setting) == (name, size)
        ]
        theirs = paper.variants.get(name, (None, None)) if paper else (None, None)
        rows.append((title, *ours, *theirs))
    return Table("variants", "BLEU of kNN-MT variants", columns, tuple(rows), paper="Table 10")


def by_k_table(results: Results, paper: PaperDomain | None) -> Table:
    """Compare adaptive with several k."""
    columns = (Column("k", "count"), *_PAIRS)
    rows = []
    for k in dict.fromkeys(line.setting for line in results.by_k):
        ours = [
            line.bleu for size in (WHOLE, "plac") for line in results.by_k if (line.name, line.setting) == (size, k)
        ]
        theirs = paper.by_k.get(int(k), (None, None)) if paper else (None, None)
        rows.append((int(k), *ours, *theirs))
    plot = Plot("lines", "k", ("whole", "PLAC"), x_label="neighbors", y_label="BLEU")
    return Table("k", "BLEU by the number of neighbors", columns, tuple(rows), plot=plot, paper="Table 12")


def curve_table(results: Results) -> Table:
    """Lay out BLEU on dev over the share that was dropped."""
    columns = (Column("method"), Column("dropped", "share"), Column("BLEU", "score"), Column("against whole", "score"))
    whole = results.curve[0].bleu
    lines = sorted(results.curve[1:], key=lambda line: (line.name, line.dropped or 0.0))
    rows = tuple((_curve_title(line.name), line.dropped, line.bleu, line.bleu - whole) for line in lines)
    marks = {(number, 2): "*" for number, line in enumerate(lines) if line.score["declined"]}
    plot = Plot("lines", "dropped", ("BLEU",), "method", "share of entries dropped", "BLEU on dev")
    note = f"{_STAR} Whole memory: {whole:.2f}. PLAC with several min_margins."
    title = "BLEU on dev over the pruning ratio"
    return Table("curve", title, columns, rows, note, marks, plot, paper="Figure 3")


def _curve_title(name: str) -> str:
    method, _, margin = name.partition(" ")
    return f"{TITLES[method]}, min_margin {margin}" if margin else TITLES[method]


def reverse_table(results: Results, min_margin: int, paper: PaperDomain | None) -> Table:
    """Say what reverse pruning and PLAC change, by ratio, on dev."""
    whole = results.curve[0].bleu
    changes: dict[str, dict[float, float]] = {REVERSE: {}, f"plac {min_margin}": {}}
    for line in results.curve[1:]:
        if line.name in changes and line.dropped is not None:
            changes[line.name][round(line.dropped, 3)] = line.bleu - whole
    theirs = dict(paper.reverse) if paper else {}
    rows = []
    for ratio in sorted({*changes[REVERSE], *changes[f"plac {min_margin}"], *theirs}):
        ours = [changes[name].get(ratio) for name in changes]
        rows.append((ratio, *ours, *theirs.get(ratio, (None, None))))
    names = ("reverse", "PLAC", "paper: reverse", "paper: PLAC")
    columns = (Column("dropped", "share"), *(Column(name, "score") for name in names))
    note = "Change of BLEU against the whole memory, on dev; the paper's is on test."
    return Table("reverse", "Dropping what the model does not know", columns, tuple(rows), note, paper="Table 7")
