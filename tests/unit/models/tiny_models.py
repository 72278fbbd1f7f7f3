"""Tiny models of every supported kind, with random weights and real tokenizers, made once and saved to folders."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from lacuna.models.adapter import Model
from lacuna.models.loading import load_model
from lacuna.records import Languages

DE_EN = Languages("de", "en")
SOURCES = ["das kleine haus steht am see", "wir lesen ein gutes buch", "der hund schläft", "ja"]
TARGETS = ["the small house stands by the lake", "we read a good book", "the dog sleeps on the warm stone", "yes"]
TEXT = [
    *SOURCES,
    *TARGETS,
    "the quick brown fox jumps over the lazy dog",
    "zwölf boxkämpfer jagen viktor quer über den deich",
]

SMALL = {"d_model": 16, "dropout": 0.1, "init_std": 0.2}
LAYERS = {
    f"{side}_{what}": size
    for side in ("encoder", "decoder")
    for what, size in {"layers": 2, "attention_heads": 2, "ffn_dim": 24}.items()
}
POSITIONS = {"max_position_embeddings": 64}


def train_sentencepiece(path: Path, size: int, **options: Any) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 3),
        model_writer=model,
        vocab_size=size,
        character_coverage=1.0,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    path.write_bytes(model.getvalue())


def pieces(path: Path) -> list[tuple[str, float]]:
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [(model.id_to_piece(n), model.get_score(n)) for n in range(len(model))]


def save(folder: Path, config: Any, tokenizer: Any = None) -> None:
    torch.manual_seed(7)
    hf = transformers.AutoModelForSeq2SeqLM.from_config(config)
    with torch.no_grad():
        for name, buffer in hf.named_buffers():
            if name == "final_logits_bias":
                buffer.normal_()  # zero by default, which would hide a forgotten bias
    hf.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def make_marian(folder: Path, *, separate: bool = False, codes: tuple[str, ...] = ()) -> None:
    folder.mkdir()
    train_sentencepiece(folder / "source.spm", 60)
    train_sentencepiece(folder / "target.spm", 70)
    sides = [[piece for piece, _ in pieces(folder / f"{side}.spm")[3:]] for side in ("source", "target")]
    ends = ["</s>", "<unk>"]
    if separate:
        vocabularies = [[*ends, *side, "<pad>"] for side in sides]
        vocabularies[0] += [f"<spare{n}>" for n in range(len(vocabularies[1]) - len(vocabularies[0]))]
        (folder / "target_vocab.json").write_text(json.dumps({t: n for n, t in enumerate(vocabularies[1])}))
    else:
        tags = [f">>{code}<<" for code in codes]
        vocabularies = [[*ends, *dict.fromkeys([*tags, *sides[1], *sides[0]]), "<pad>"]]
    (folder / "vocab.json").write_text(json.dumps({t: n for n, t in enumerate(vocabularies[0])}))
    settings = {"source_lang": "de", "target_lang": "en" if not codes else "mul", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "tokenizer_class": "MarianTokenizer"}))
    pad = len(vocabularies[-1]) - 1
    config = transformers.MarianConfig(
        **SMALL,
        **LAYERS,
        **POSITIONS,
        vocab_size=len(vocabularies[0]),
        decoder_vocab_size=len(vocabularies[-1]),
        share_encoder_decoder_embeddings=not separate,
        tie_word_embeddings=True,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        bad_words_ids=[[pad]],
        scale_embedding=True,
    )
    save(folder, config)


def make_fsmt(folder: Path) -> None:
    """FSMT with a vocabulary for each side, so that a mix-up shows."""
    folder.mkdir()
    merges = ["t h", "th e</w>", "h a", "ha u", "hau s</w>", "d o", "do g</w>", "e r</w>"]
    (folder / "merges.txt").write_text("".join(f"{merge}\n" for merge in merges))
    letters = sorted({letter for text in TEXT for letter in text if letter != " "})
    units = [*letters, *(f"{letter}</w>" for letter in letters), *(merge.replace(" ", "") for merge in merges)]
    ends = ["<s>", "<pad>", "</s>", "<unk>"]
    for side, tokens in (("src", [*ends, *units]), ("tgt", [*ends, *reversed(units), "extra</w>"])):
        (folder / f"vocab-{side}.json").write_text(json.dumps({t: n for n, t in enumerate(tokens)}))
    settings = {"langs": ["de", "en"], "tokenizer_class": "FSMTTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = transformers.FSMTConfig(
        **SMALL, **LAYERS, **POSITIONS, langs=["de", "en"], src_vocab_size=len(units) + 4, tgt_vocab_size=len(units) + 5
    )
    save(folder, config)
    # As the published checkpoints have it: habits that must not reach our generation.
    habits = {"num_beams": 2, "length_penalty": 1.1, "early_stopping": True, "decoder_start_token_id": 2}
    (folder / "generation_config.json").write_text(json.dumps({**habits, "eos_token_id": 2, "pad_token_id": 1}))


def make_m2m100(folder: Path) -> None:
    folder.mkdir()
    train_sentencepiece(folder / "sentencepiece.bpe.model", 60)
    learned = [piece for piece, _ in pieces(folder / "sentencepiece.bpe.model")[3:]]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *learned]
    (folder / "vocab.json").write_text(json.dumps({t: n for n, t in enumerate(tokens)}))
    tokenizer = transformers.M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"))
    size = max(tokenizer.lang_token_to_id.values()) + 1 + 8
    save(folder, transformers.M2M100Config(**SMALL, **LAYERS, **POSITIONS, vocab_size=size), tokenizer)


def make_nllb(folder: Path) -> None:
    raw = Tokenizer(models.BPE(unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    ends = ["<s>", "<pad>", "</s>", "<unk>"]
    raw.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=90, special_tokens=ends, show_progress=False))
    model = json.loads(raw.to_str())["model"]
    tokenizer = transformers.NllbTokenizer(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])
    save(folder, transformers.M2M100Config(**SMALL, **LAYERS, **POSITIONS, vocab_size=len(tokenizer) + 2), tokenizer)


def unigram_tokens(folder: Path) -> list[tuple[str, float]]:
    folder.mkdir()
    train_sentencepiece(folder / "temporary.model", 60)
    learned = pieces(folder / "temporary.model")[3:]
    (folder / "temporary.model").unlink()
    return learned


def make_mbart(folder: Path, tokenizer_class: str = "MBartTokenizer") -> None:
    ends = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    module = transformers.models.mbart50 if "50" in tokenizer_class else transformers.models.mbart
    codes = getattr(module, f"tokenization_{'mbart50' if '50' in tokenizer_class else 'mbart'}").FAIRSEQ_LANGUAGE_CODES
    vocabulary = [*ends, *unigram_tokens(folder), *((code, 0.0) for code in codes), ("<mask>", 0.0)]
    tokenizer = getattr(transformers, tokenizer_class)(vocab=vocabulary)
    start = {"decoder_start_token_id": 2} if "50" in tokenizer_class else {}
    config = transformers.MBartConfig(
        **SMALL, **LAYERS, **POSITIONS, vocab_size=len(tokenizer), scale_embedding=True, **start
    )
    save(folder, config, tokenizer)


def make_bart(folder: Path) -> None:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    ends = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(vocab_size=300, special_tokens=ends, initial_alphabet=letters, show_progress=False),
    )
    model = json.loads(raw.to_str())["model"]
    tokenizer = transformers.BartTokenizer(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])
    save(folder, transformers.BartConfig(**SMALL, **LAYERS, **POSITIONS, vocab_size=len(tokenizer)), tokenizer)


def make_t5(folder: Path, *, kind: str = "t5", **options: Any) -> None:
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *unigram_tokens(folder)]
    tokenizer = transformers.T5Tokenizer(vocab=vocabulary, extra_ids=3)
    config_class = transformers.MT5Config if kind == "mt5" else transformers.T5Config
    config = config_class(
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_heads=2,
        vocab_size=len(tokenizer) + 5,
        decoder_start_token_id=0,
        **options,
    )
    save(folder, config, tokenizer)


def make_original_t5(folder: Path) -> None:
    tasks = {"translation_en_to_de": {"prefix": "translate English to German: "}}
    make_t5(folder, task_specific_params=tasks)


def in_torch(model: Model) -> Model:
    """Return the same model without compiled kernels for teacher forcing."""
    plain = replace(model)
    plain.forms["compiled forward"] = None
    return plain


@dataclass(frozen=True)
class Kind:
    """One kind of model to run every contract over."""

    make: Callable[[Path], None]
    languages: Languages | None = None


KINDS = {
    "marian": Kind(make_marian),
    "marian-separate": Kind(lambda folder: make_marian(folder, separate=True)),
    "marian-many": Kind(lambda folder: make_marian(folder, codes=("fra", "eng", "cmn_Hans")), DE_EN),
    "fsmt": Kind(make_fsmt),
    "m2m100": Kind(make_m2m100, DE_EN),
    "nllb": Kind(make_nllb, DE_EN),
    "mbart": Kind(make_mbart, DE_EN),
    "mbart50": Kind(lambda folder: make_mbart(folder, "MBart50Tokenizer"), DE_EN),
    "bart": Kind(make_bart),
    "t5": Kind(make_original_t5, DE_EN),
    "t5-1.1": Kind(lambda folder: make_t5(folder, tie_word_embeddings=False, feed_forward_proj="gated-gelu")),
    "mt5": Kind(lambda folder: make_t5(folder, kind="mt5")),
}


class Zoo:
    """Folders and loaded models by kind, each made once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._models: dict[str, Model] = {}

    def folder(self, kind: str) -> Path:
        path = self._root / kind
        if not path.exists():
            KINDS[kind].make(path)
        return path

    def model(self, kind: str) -> Model:
        """Return the model that all tests share, which must not change."""
        if kind not in self._models:
            self._models[kind] = self.load(kind)
        return self._models[kind]

    def load(self, kind: str) -> Model:
        """Return a model of its own."""
        return load_model(self.folder(kind), languages=KINDS[kind].languages, device="cpu")

    def copy(self, kind: str, to: Path) -> Path:
        shutil.copytree(self.folder(kind), to)
        return to
