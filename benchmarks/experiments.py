"""What the tables of pruners and of combiners share: their arguments, their sentences, and how they are printed."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from lacuna.analysis.comparing import Compared, Experiment
from lacuna.cli.render import BarProgress
from lacuna.corpora import draw_pairs, read_corpus
from lacuna.files import write_json
from lacuna.index.faiss import use_threads
from lacuna.models import load_model
from lacuna.records import Languages, SentencePair


def arguments(doc: str | None, *, min_margin: int, dev_pairs: int) -> argparse.ArgumentParser:
    """Return a parser of what every table needs."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("store")
    parser.add_argument("dev")
    parser.add_argument("test")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--model")
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--min-margin", type=int, default=min_margin)
    parser.add_argument("--dev-pairs", type=int, default=dev_pairs)
    parser.add_argument("--test-pairs", type=int, default=500)
    parser.add_argument("--kind", default="auto", help="index of pruned stores; STORE's should be the same")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser


def experiment_of(args: argparse.Namespace) -> Experiment:
    """Load the model and draw the sentences."""
    torch.set_num_threads(args.threads)
    use_threads(args.threads)
    languages = Languages.parse(args.languages)
    dev = draw(args.dev, languages, args.dev_pairs, args.seed)
    test = draw(args.test, languages, args.test_pairs, args.seed)
    model = load_model(args.model, languages=languages)
    return Experiment(model, dev, test, args.into, args.kind, args.seed, BarProgress())


def draw(corpus: str, languages: Languages, count: int, seed: int) -> list[SentencePair]:
    """Draw some pairs of a corpus, in its order."""
    return draw_pairs(list(read_corpus(corpus, languages=languages)), count, seed)


def show(lines: list[Compared], into: Path) -> None:
    """Write the table as JSON and print it; a star marks a significant decline from the first line, as in the paper."""
    write_json(into / "table.json", [line.as_json() for line in lines])
    whole = lines[0].entries
    print(f"{'system':22} {'entries':>9} {'dropped':>8} {'BLEU':>6} {'chrF':>6} {'p':>6}")
    for line in lines:
        dropped = f"{1 - line.entries / whole:8.2%}" if line.entries else " " * 8
        star = "*" if line.score.declined else " "
        p = "" if line.score.p_decline is None else f"{line.score.p_decline:6.3f}"
        scores = f"{line.score.bleu.value:6.2f}{star}{line.score.chrf.value:6.2f}"
        print(f"{line.name:22} {line.entries:9,} {dropped} {scores} {p}")
    print(f"*: BLEU significantly below the first line's (one-sided, p < 0.05). {lines[0].score.signature}")
