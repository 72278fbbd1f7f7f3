"""A made-up result of ``lacuna reproduce`` with every kind of column, plot, mark, empty cell and verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lacuna.artifacts.files import write_json
from lacuna.reproduction.tables import Column, Plot, Table, write_table

SHARES = (0.412, 0.586, 0.703, 0.801, 0.874, 0.93)

STATISTICS = Table(
    name="statistics",
    title="The memory and what the model knows of it",
    columns=(
        Column("Domain"),
        Column("Sentences", "count"),
        Column("Entries", "count"),
        Column("Known", "share", help="Entries whose token the model would have written by itself."),
    ),
    rows=(("OPUS-Koran", 17_982, 524_771, 0.5613), ("OPUS-IT", 222_927, 3_608_731, None)),
    note="Counted on the training part.",
    paper="Table 1",
)
ACCURACY = Table(
    name="accuracy",
    title="Translation accuracy by knowledge margin",
    columns=(Column("Margin"), Column("Entries", "count"), Column("Accuracy", "share")),
    rows=tuple(
        (name, entries, share)
        for name, entries, share in zip(
            ("0", "1 to 3", "4 to 7", "8 to 15", "16 to 31", "32 on"),
            (201_112, 98_400, 71_345, 60_018, 41_733, 52_163),
            SHARES,
            strict=True,
        )
    ),
    note="On the test set, each token forced.",
    plot=Plot("bars", "Margin", ("Accuracy",), x_label="knowledge margin", y_label="accuracy"),
    paper="Figure 2",
)
QUALITY = Table(
    name="main",
    title="Translation quality of pruned memories",
    columns=(
        Column("System"),
        Column("Ratio", "share", digits=0),
        Column("BLEU", "score", help="Of sacreBLEU, detokenized."),
        Column("COMET", "number", digits=3),
    ),
    rows=(
        ("Base", None, 16.51, -0.012),
        ("Adaptive kNN-MT, whole memory", 0.0, 20.52, 0.031),
        ("Random", 0.45, 20.02, 0.012),
        ("Cluster", 0.45, 20.13, 0.018),
        ("PLAC", 0.45, 20.5, 0.030),
    ),
    note="Pruned memories against the whole one.",
    marks={(2, 2): "*", (3, 2): "*", (2, 3): "*"},
    paper="Table 4",
)
CURVES = Table(
    name="ratio",
    title="Quality by share of entries dropped",
    columns=(Column("Method"), Column("Dropped", "share", digits=0), Column("BLEU", "score")),
    rows=tuple(
        (method, ratio / 10, None if (method, ratio) == ("Known", 9) else round(20.5 - slope * ratio**2, 2))
        for method, slope in (("Random", 0.04), ("Known", 0.03), ("PLAC", 0.01))
        for ratio in (0, 1, 3, 5, 7, 9)
    ),
    marks={(4, 2): "*", (5, 2): "*"},
    plot=Plot("lines", "Dropped", ("BLEU",), "Method", "share of the memory dropped", "BLEU"),
    paper="Figure 4",
)
SIZES = Table(
    name="speed",
    title="Size and speed",
    columns=(Column("Batch", "count"), Column("Whole memory", "number"), Column("Pruned memory", "number")),
    rows=((1, 41.5, 44.2), (4, 120.0, 131.5), (16, 310.25, 352.0), (64, 502.0, 611.0)),
    plot=Plot("bars", "Batch", ("Whole memory", "Pruned memory"), None, "batch size", "tokens per second"),
)
CASES = Table(
    name="cases",
    title="Cases",
    columns=(Column("What"), Column("Text")),
    rows=(
        ("Source", "Wir sehen neun ⟦Schlüssel⟧ und vier rote Äpfel, die auf dem Tisch am Fenster liegen."),
        ("Reference", "We see nine ⟦keys⟧ and four red apples that lie on the table by the window."),
        ("Model alone", "We see nine ⟦locks⟧ and four red apples which are on the table by the window."),
        ("With memory", "We see nine ⟦keys⟧ and four red apples that lie on the table by the window."),
    ),
    note="Underlined: the word that the memory knows and the model does not.",
    paper="Table 7",
)
TABLES = (STATISTICS, ACCURACY, QUALITY, CURVES, SIZES, CASES)


def record(*names: str) -> dict[str, Any]:
    """Return the content of ``experiment.json``, with these tables."""
    return {
        "kind": "experiment",
        "format": 1,
        "name": "OPUS-Koran",
        "title": "German-English translations of the Koran, in a made-up split.",
        "tables": list(names),
        "findings": [
            {
                "claim": "Accuracy rises with the margin",
                "verdict": "holds",
                "figures": "41.2 % at 0, 93.0 % from 32 on",
            },
            {
                "claim": "PLAC drops 90 % at no cost",
                "verdict": "does not hold",
                "figures": "19.69 BLEU, 20.50 with all",
            },
            {"claim": "The same holds for Chinese", "verdict": "not measured", "figures": ""},
        ],
        "settings": {
            "languages": "de-en",
            "prune": {"method": "plac", "ratios": [0.1, 0.45], "clamp": False, "order": None},
            "systems": [{"name": "adaptive", "k": 8}, {"name": "kster", "k": 16}],
        },
        "versions": {"lacuna": "0.1.0", "python": "3.11.9", "torch": "2.4.0"},
        "hashes": {"model": "9f86d081884c7d659a2feaa0c55ad015", "train": "60303ae22b998861bce3b28f33eec1be"},
        "steps": [
            {"name": "store", "seconds": 56.1, "key": "1f2e"},
            {"name": "margin", "seconds": 4000.25, "key": "77aa"},
        ],
        "seconds": 4711.0,
        "languages": "de-en",
    }


def write_experiment(folder: Path, *tables: Table, **changes: object) -> Path:
    """Leave an experiment in a folder; ``changes`` replace fields of its record."""
    tables = tables or TABLES
    for table in tables:
        write_table(table, folder / "tables")
    write_json(folder / "experiment.json", record(*(table.name for table in tables)) | changes)
    return folder
