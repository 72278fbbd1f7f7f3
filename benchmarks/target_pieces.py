"""How well is a target's sentencepiece model rebuilt from the vocabulary? Tried with a model whose real one is known.

Prints the shares of sentences and words that are split as by the real ``target.spm``, and the number of tokens relative
to it, for the rebuilt model and for ``source.spm``.

    python benchmarks/target_pieces.py MODEL CORPUS --languages de-en [--sentences 1000]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import islice
from pathlib import Path

import sentencepiece

from lacuna.corpora import read_corpus
from lacuna.models.importing.target_pieces import rebuild_target_pieces
from lacuna.records import Languages


def words(tokens: list[str]) -> list[str]:
    """Join the tokens of each word, so that words can be compared by how they are split."""
    return " ".join(tokens).replace(" ▁", "\n▁").split("\n")


def main() -> None:
    """Print one JSON object for each sentencepiece model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder with source.spm, target.spm and vocab.json")
    parser.add_argument("corpus", help="its target side is split")
    parser.add_argument("--languages", required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    given = parser.parse_args()
    ranks = json.loads((given.model / "vocab.json").read_text(encoding="utf-8"))
    pairs = read_corpus(given.corpus, languages=Languages.parse(given.languages))
    texts = [pair.target for pair in islice(pairs, given.sentences)]
    with tempfile.TemporaryDirectory() as folder:
        rebuilt = Path(folder) / "target.spm"
        rebuild_target_pieces(given.model / "source.spm", sorted(ranks, key=ranks.get), rebuilt)
        files = {"real": given.model / "target.spm", "rebuilt": rebuilt, "source": given.model / "source.spm"}
        split = {
            name: sentencepiece.SentencePieceProcessor(model_file=str(path)).encode(texts, out_type=str)
            for name, path in files.items()
        }
    real = split["real"]
    wanted = [word for tokens in real for word in words(tokens)]
    for name in ("rebuilt", "source"):
        pieces = split[name]
        # Every model splits at the same spaces, so the words of a sentence correspond.
        found = [word for tokens in pieces for word in words(tokens)]
        row = {
            "model": name,
            "sentences": sum(map(list.__eq__, pieces, real)) / len(real),
            "words": sum(map(str.__eq__, found, wanted)) / len(wanted) if len(found) == len(wanted) else None,
            "tokens": sum(map(len, pieces)) / sum(map(len, real)),
        }
        print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}))


if __name__ == "__main__":
    main()
