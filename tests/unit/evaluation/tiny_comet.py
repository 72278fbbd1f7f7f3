"""Makes and asks a COMET model as small as can be; a script for the Python that has COMET, not for Lacuna's own.

``make FOLDER`` saves a randomly initialized model; ``score FOLDER REQUEST ANSWER`` scores segments one by one with it;
``spoil FOLDER COPY TRACE`` saves a copy that, loaded without care, makes a file.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZäöü ,."
LAYERS, WIDTH = 2, 16


def make_encoder(folder: Path) -> None:
    """Save an XLM-R of two layers, and a tokenizer that knows letters only."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = {token: number for number, token in enumerate([*special, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    XLMRobertaTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    XLMRobertaConfig(
        vocab_size=len(vocabulary),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=130,
        type_vocab_size=1,
        pad_token_id=1,
    ).save_pretrained(folder)


def make(folder: Path) -> None:
    """Save a model as COMET's trainer lays it out."""
    import torch
    import yaml
    from comet.models import RegressionMetric
    from pytorch_lightning.callbacks import EarlyStopping

    torch.manual_seed(1)
    encoder = folder.absolute() / "encoder"
    make_encoder(encoder)
    model = RegressionMetric(pretrained_model=str(encoder), hidden_sizes=[WIDTH], load_pretrained_weights=False)
    for parameter in model.parameters():  # as they come, the scores would hardly differ
        torch.nn.init.normal_(parameter, std=0.5)
    (folder / "checkpoints").mkdir()
    content = {
        "state_dict": model.state_dict(),
        "hyper_parameters": dict(model.hparams),
        "pytorch-lightning_version": "1.3.5",
        "epoch": 0,
        "global_step": 0,
        "callbacks": {EarlyStopping: {"wait_count": 0}},  # under a class: so did Lightning when COMET was young
    }
    torch.save(content, folder / "checkpoints" / "model.ckpt")
    (folder / "hparams.yaml").write_text(yaml.safe_dump(dict(model.hparams)))


def score(folder: Path, request: Path, answer: Path) -> None:
    """Score every sample in a batch of its own, by the model's own layers."""
    import torch
    from comet import load_from_checkpoint

    model = load_from_checkpoint(str(folder / "checkpoints" / "model.ckpt")).eval()
    with torch.no_grad():
        scores = [
            model(**model.prepare_sample([sample], stage="predict")).score.item()
            for sample in json.loads(request.read_text())
        ]
    answer.write_text(json.dumps(scores))


class Touching:
    """Pickles to a call that makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


def spoil(folder: Path, copy: Path, trace: Path) -> None:
    """Save a model whose checkpoint runs code when it is unpickled."""
    import torch

    shutil.copytree(folder, copy)
    checkpoint = copy / "checkpoints" / "model.ckpt"
    content = torch.load(checkpoint, weights_only=False)
    torch.save({**content, "more": Touching(trace)}, checkpoint)


if __name__ == "__main__":
    {"make": make, "score": score, "spoil": spoil}[sys.argv[1]](*map(Path, sys.argv[2:]))
