"""The paper's tables, filled with the results of an experiment next to the figures of the paper.

This module formats results; it does not compute any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from lacuna.evaluation.scores import LEVEL
from lacuna.reproduction.comparison import COMPARED, REVERSE, WHOLE, ComparisonResults, SizeResult, SystemResult
from lacuna.reproduction.experiment import Experiment, ReadSentences
from lacuna.reproduction.paper import BASE as PAPER_BASE
from lacuna.reproduction.paper import FINETUNED, PaperDomain, PaperScore
from lacuna.reproduction.tables import Cell, Column, Plot, Table
from lacuna.steps import CachedStep

TITLES = {
    "base": "Base",
    "finetuned, full": "Fine-tuned",
    "finetuned, lora": "Fine-tuned, LoRA",
    WHOLE: "Adaptive, whole memory",
    "random": "Random",
    "cluster": "Cluster",
    "merge": "Merge",
    "distill": "Distill",
    "known": "Known",
    "all_known": "All known",
    "plac": "PLAC",
    REVERSE: "Reverse",
}
_PAIRS = tuple(Column(name, "score") for name in ("whole", "PLAC", "paper: whole", "paper: PLAC"))
_STAR = "*: significantly below the whole memory (paired bootstrap, one-sided, p < 0.05)."


def data_table(sentences: Mapping[str, ReadSentences], paper: PaperDomain | None) -> Table:
    """Count the sentence pairs found, the pairs used, and those of the paper."""
    rows: list[tuple[Cell, ...]] = [
        (part, each.total, len(each), getattr(paper, part) if paper else None) for part, each in sentences.items()
    ]
    columns = (Column("part"), Column("pairs found", "count"), Column("pairs used", "count"), Column("paper", "count"))
    return Table("data", "Sentence pairs", columns, tuple(rows), paper="Tables 1 and 4")


def settings_table(experiment: Experiment, results: ComparisonResults, paper: PaperDomain | None) -> Table:
    """List the settings of the main comparison next to those of the paper."""
    adaptive, pruning = experiment.adaptive, experiment.pruning
    rows: tuple[tuple[Cell, ...], ...] = (
        ("min_margin (k_p)", pruning.min_margin, paper.min_margin if paper else None),
        ("requested ratio", pruning.ratio, paper.ratio if paper else None),
        ("ratio", round(results.ratio, 4), paper.ratio if paper else None),
        ("neighbors (k_a)", adaptive.k, paper.k if paper else None),
        ("temperature", adaptive.temperature, paper.temperature if paper else None),
        ("max_margin", experiment.margin.max_margin, 2048),
    )
    columns = (Column("setting"), Column("here", "number"), Column("paper", "number"))
    note = "Without a temperature, several are tried on dev. "
    if results.ratio < results.asked:
        note += "No more entries are known with a margin of min_margin or more, so all methods drop this share."
    return Table("settings", "Settings of pruning and of adaptive kNN-MT", columns, rows, note, paper="Table 11")


def main_table(results: ComparisonResults, paper: PaperDomain | None, comet: str | None) -> Table:
    """Compare every system on test."""
    terms = results.terms
    order = {name: index for index, name in enumerate(TITLES)}
    systems = sorted(results.main, key=lambda system: (order[system.name], int(system.setting or 0)))
    columns = [Column("system"), Column("dropped", "share"), Column("entries", "count"), Column("BLEU", "score")]
    columns += [
        Column("chrF", "score"),
        Column(
            "terms",
            "share",
            help="Share of the changed words that are right: words of the reference that only one of base and whole "
            "memory has.",
        ),
        Column("p", "number", 3, "Share of bootstrap samples in which the system is not worse than the whole memory."),
    ]
    columns += [Column("COMET", "number", 4)] if comet else []
    columns += [
        Column("paper: dropped", "share", 0),
        Column("paper: BLEU", "score"),
        Column("paper: COMET", "number", 4),
    ]
    names = [column.name for column in columns]
    rows: list[tuple[Cell, ...]] = []
    marks: dict[tuple[int, int], str] = {}
    for number, system in enumerate(systems):
        score, theirs = system.score, None if system.setting else _paper_score(paper, system.name)
        name = _with_margin(f"{system.name} {system.setting}".strip())
        row: list[Cell] = [name, system.dropped, system.entries, system.bleu]
        row += [score["chrf"], terms.accuracy.get(score["name"]) if terms else None, score["p_decline"]]
        row += [score["comet"]] if comet else []
        row += [theirs.ratio, theirs.bleu, theirs.comet] if theirs else [None, None, None]
        rows.append(tuple(row))
        starred = {
            "BLEU": score["declined"] and system.name != WHOLE,
            "COMET": system.name != WHOLE and _significant(score.get("comet_p_decline")),
            "paper: BLEU": theirs and theirs.bleu_declined,
            "paper: COMET": theirs and theirs.comet_declined,
        }
        marks |= {(number, names.index(name)): "*" for name, wanted in starred.items() if wanted}
    note = f"{_STAR} All memories are used with adaptive kNN-MT. "
    note += f"The memory changes {terms.terms:,} words of the references (column terms). " if terms else ""
    note += results.main[0].score["signature"]
    return Table("main", "BLEU with pruned memories", tuple(columns), tuple(rows), note, marks, paper="Tables 5 and 6")


def _significant(p_decline: object) -> bool:
    return isinstance(p_decline, float) and p_decline < LEVEL


def _paper_score(paper: PaperDomain | None, name: str) -> PaperScore | None:
    key = {"base": PAPER_BASE, "finetuned, full": FINETUNED}.get(name, name)
    return paper.scores.get(key) if paper else None


def seeds_table(results: ComparisonResults) -> Table:
    """List the BLEU of the whole memory and of every pruning method with every seed."""
    seeds = list(dict.fromkeys(system.setting for system in results.seeds))
    columns = [Column("method"), *(Column(f"seed {seed}", "score") for seed in seeds)]
    columns += [Column("mean", "score"), Column("deviation", "score")]
    columns += [Column(name, "score") for name in ("against whole", "95 % from", "to", "against PLAC")]
    rows: list[tuple[Cell, ...]] = []
    marks = {}
    for number, name in enumerate((WHOLE, *COMPARED)):
        scores = bleus(results.seeds, name)
        spread = stdev(scores) if len(scores) > 1 else None
        from_whole = results.differences[name][WHOLE]
        compared = (None,) * 3 if name == WHOLE else (from_whole.bleu, from_whole.low, from_whole.high)
        from_plac = None if name == "plac" else results.differences[name]["plac"].bleu
        rows.append((TITLES[name], *scores, fmean(scores), spread, *compared, from_plac))
        if from_whole.at_least < LEVEL:
            marks[number, 1 + len(seeds)] = "*"
    title = f"BLEU by seed, {results.ratio:.1%} dropped"
    return Table(
        "seeds",
        title,
        tuple(columns),
        tuple(rows),
        "The seed decides the entries drawn, the training of the combiner and the index. *: significantly below the "
        "whole memory. Differences and their 95 % intervals are by paired bootstrap over sentences, of the mean over "
        "seeds.",
        marks,
    )


def safe_table(results: ComparisonResults, paper: PaperDomain | None) -> Table:
    """Show the largest ratio that keeps the promise on dev, and what it costs on test."""
    rows: list[tuple[Cell, ...]] = []
    if results.safe:
        choice, loss, difference = results.safe.choice, results.safe.loss, results.safe.difference
        losses = (choice.max_loss, choice.loss.share, choice.loss.bound, loss.share, loss.low, loss.high)
        bleu = (difference.bleu, difference.low, difference.high) if difference else (None, None, None)
        rows.append(("here", choice.ratio, choice.min_margin, *losses, *bleu))
    if paper:
        change = paper.scores["plac"].bleu - paper.scores[WHOLE].bleu
        rows.append(("paper", paper.ratio, paper.min_margin, *[None] * 6, change, None, None))
    columns = (
        Column("chosen"),
        Column("ratio", "share", 0),
        Column("min_margin", "count"),
        Column("promised loss", "share", help="Of what the memory adds to the log-probability; at most."),
        Column("dev: loss", "share", 2),
        Column("dev: bound", "share", 2, help="Upper bound of the loss on dev, one-sided, with 95 % confidence."),
        Column("test: loss", "share", 2),
        Column("test: loss from", "share", 2, help="95 % interval."),
        Column("test: loss to", "share", 2),
        Column("test: BLEU", "score", help="Change from the whole memory, with adaptive kNN-MT, over all seeds."),
        Column("test: BLEU from", "score", help="95 % interval."),
        Column("test: BLEU to", "score"),
    )
    note = "Here: chosen on dev as automatic pruning does, with vanilla kNN-MT. Paper: chosen on test."
    note += "" if results.safe else " No ratio keeps the promise on dev."
    difference = results.safe.difference if results.safe else None
    marks = {(0, 9): "*"} if difference and difference.at_least < LEVEL else {}
    return Table("safe", "Largest safe ratio of PLAC", columns, tuple(rows), note, marks)


def bleus(systems: Sequence[SystemResult], name: str) -> list[float]:
    """Return the BLEU scores of all systems of a name."""
    return [system.bleu for system in systems if system.name == name]


def variants_table(results: ComparisonResults, paper: PaperDomain | None) -> Table:
    """Compare combiners with the whole and with the pruned memory."""
    titles = {"vanilla": "Vanilla kNN-MT", "kster": "KSTER", "adaptive": "Adaptive kNN-MT"}
    columns = (Column("combiner"), *_PAIRS)
    rows = []
    scores = {(system.name, system.setting): system.bleu for system in results.variants}
    for name, title in titles.items():
        ours = [scores.get((name, size)) for size in (WHOLE, "plac")]
        if ours == [None, None]:
            continue
        theirs = paper.variants.get(name, (None, None)) if paper else (None, None)
        rows.append((title, *ours, *theirs))
    return Table("variants", "BLEU of kNN-MT variants", columns, tuple(rows), paper="Table 10")


def by_k_table(results: ComparisonResults, paper: PaperDomain | None) -> Table:
    """Compare adaptive kNN-MT by k."""
    columns = (Column("k", "count"), *_PAIRS)
    rows = []
    scores = {(system.name, system.setting): system.bleu for system in results.by_k}
    for k in dict.fromkeys(system.setting for system in results.by_k):
        ours = [scores.get((size, k)) for size in (WHOLE, "plac")]
        theirs = paper.by_k.get(int(k), (None, None)) if paper else (None, None)
        rows.append((int(k), *ours, *theirs))
    plot = Plot("lines", "k", ("whole", "PLAC"), x_label="neighbors", y_label="BLEU")
    return Table("k", "BLEU by the number of neighbors", columns, tuple(rows), plot=plot, paper="Table 12")


def curve_table(results: ComparisonResults) -> Table:
    """List BLEU on dev by the share of entries dropped."""
    columns = (Column("method"), Column("dropped", "share"), Column("BLEU", "score"), Column("against whole", "score"))
    whole = results.curve[0].bleu
    systems = [results.curve[0], *sorted(results.curve[1:], key=_curve_order)]
    rows = tuple((_with_margin(system.name), system.dropped, system.bleu, system.bleu - whole) for system in systems)
    marks = {(number, 2): "*" for number, system in enumerate(systems) if system.score["declined"]}
    plot = Plot("lines", "dropped", ("BLEU",), "method", "share of entries dropped", "BLEU on dev")
    note = f"{_STAR} PLAC with several values of min_margin."
    title = "BLEU on dev over the pruning ratio"
    return Table("curve", title, columns, rows, note, marks, plot, paper="Figure 3")


def _curve_order(system: SystemResult) -> tuple[str, int, float]:
    method, _, margin = system.name.partition(" ")
    return method, int(margin or 0), system.dropped or 0.0


def _with_margin(name: str) -> str:
    """Return the title of a method, whose name may end in a ``min_margin``."""
    if name in TITLES:
        return TITLES[name]
    method, _, margin = name.partition(" ")
    return f"{TITLES[method]}, min_margin {margin}"


def reverse_table(results: ComparisonResults, min_margin: int, paper: PaperDomain | None) -> Table:
    """List the change of BLEU on dev with reverse pruning and with PLAC, by ratio."""
    whole = results.curve[0].bleu
    changes: dict[str, dict[float, float]] = {REVERSE: {}, f"plac {min_margin}": {}}
    for system in results.curve[1:]:
        if system.name in changes and system.dropped is not None:
            changes[system.name][round(system.dropped, 3)] = system.bleu - whole
    theirs = dict(paper.reverse) if paper else {}
    rows = []
    for ratio in sorted({*changes[REVERSE], *changes[f"plac {min_margin}"], *theirs}):
        ours = [changes[name].get(ratio) for name in changes]
        rows.append((ratio, *ours, *theirs.get(ratio, (None, None))))
    names = ("reverse", "PLAC", "paper: reverse", "paper: PLAC")
    columns = (Column("dropped", "share"), *(Column(name, "score") for name in names))
    note = "Change of BLEU from the whole memory, on dev; the paper reports it on test."
    return Table("reverse", "Change of BLEU with reverse pruning", columns, tuple(rows), note, paper="Table 7")


def sizes_table(sizes: Sequence[SizeResult]) -> Table:
    """List the change of BLEU by the size of the memory and by the share of its entries that is dropped."""
    rows: list[tuple[Cell, ...]] = []
    marks = {}
    methods = list(dict.fromkeys(size.method for size in sizes))
    for entries, dropped in dict.fromkeys((size.counts.entries, size.dropped) for size in sizes):
        found = {size.method: size for size in sizes if (size.counts.entries, size.dropped) == (entries, dropped)}
        row: list[Cell] = [f"{entries:,}", dropped, next(iter(found.values())).whole]
        for number, method in enumerate(methods):
            difference = found[method].difference
            row += [difference.bleu, difference.low, difference.high]
            if difference.at_least < LEVEL:
                marks[len(rows), 3 + 3 * number] = "*"
        rows.append(tuple(row))
    columns = [Column("entries"), Column("dropped", "share"), Column("whole", "score")]
    for method in methods:
        title = TITLES[method]
        columns += [Column(title, "score"), Column(f"{title}: 95 % from", "score"), Column(f"{title}: to", "score")]
    plot = Plot("lines", "dropped", (TITLES["plac"],), "entries", "share of entries dropped", "change of BLEU, PLAC")
    note = (
        "Samples of whole sentences, each part of the next one, with margins and combiners of their own. Changes of "
        "BLEU from the whole sample, with 95 % intervals by paired bootstrap. *: significantly below it."
    )
    title = "Change of BLEU by the size of the memory"
    return Table("sizes", title, tuple(columns), tuple(rows), note, marks, plot if "plac" in methods else None)


def size_margins_table(sizes: Sequence[SizeResult]) -> Table:
    """List what memories of several sizes offer to PLAC."""
    counts = list({size.counts.entries: size.counts for size in sizes}.values())
    bounds = list(counts[0].candidates)
    columns = [
        Column("entries", "count"),
        Column("known", "share"),
        Column("unknown below 4", "share", help="Share of the unknown entries with a margin below 4."),
    ]
    columns += [
        Column(
            f"{bound} or more", "share", help=f"Share of all entries that are known with a margin of {bound} or more."
        )
        for bound in bounds
    ]
    rows = tuple(
        (each.entries, each.known_ratio, each.unknown_below_four, *(each.candidates[bound] for bound in bounds))
        for each in counts
    )
    note = "The columns on the right are the largest ratios of PLAC."
    return Table("size-margins", "Margins by the size of the memory", tuple(columns), rows, note)


def times_table(steps: Sequence[CachedStep]) -> Table:
    """List time and memory by the kind of step."""
    rows = []
    for name in dict.fromkeys(step.name for step in steps):
        used = [step.usage for step in steps if step.name == name]
        cpu = [each.cpu_seconds for each in used if each.cpu_seconds is not None]
        peaks = [each.peak_bytes for each in used if each.peak_bytes is not None]
        seconds = sum(each.seconds for each in used)
        rows.append((name, len(used), seconds, sum(cpu) if cpu else None, max(peaks) / 2**20 if peaks else None))
    columns = (
        Column("step"),
        Column("times", "count", help="Number of such steps."),
        Column("seconds", "number", 1, help="Together, without the steps that they waited for."),
        Column("CPU seconds", "number", 1),
        Column("peak MiB", "number", 0, help="Largest resident memory of the process, with mapped files."),
    )
    note = "After an interruption, only the last part of a step is counted."
    return Table("times", "Time and memory of the steps", columns, tuple(rows), note)
