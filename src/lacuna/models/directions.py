"""How each kind of model is told which way to translate: language tags, start tokens and task prefixes.

Knows tokenizers and configs; nothing of weights, files or batches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lacuna.errors import ModelError
from lacuna.models.language_codes import NAMES, find_code, short_code
from lacuna.records import Languages

Asked = Languages | None


@dataclass(frozen=True, slots=True)
class Direction:
    """What a model must be told to translate one way.

    :param languages: The direction, where the model or the user says it.
    :param start_ids: Tokens every translation starts with; they are forced, never predicted.
    :param source_prefix: Text put before every source sentence.
    """

    languages: Languages | None
    start_ids: tuple[int, ...]
    source_prefix: str = ""


def _start_id(hf: PreTrainedModel, otherwise: int | None = None) -> int:
    for settings in (hf.generation_config, hf.config):
        start = getattr(settings, "decoder_start_token_id", None)
        if start is not None:
            return int(start)
    if otherwise is None:
        raise ModelError("config.json has no decoder_start_token_id; add it, as the model was trained with")
    return otherwise


def _needed(asked: Asked, name: str) -> Languages:
    if asked is None:
        raise ModelError(f"{name} translates between many languages; say which, as in languages de-en")
    return asked


def _agreed(asked: Asked, source: str | None, target: str | None, name: str) -> Asked:
    """Settle what a bilingual model says of itself with what the user says."""
    if asked is not None:
        for role, mine, said in (("from", source, asked.source), ("to", target, asked.target)):
            known = short_code(mine or "")
            if known is not None and short_code(said) not in (None, known):
                raise ModelError(f"{name} translates {role} {mine}, not {said}; its direction is {source}-{target}")
        return asked
    # A group of languages (ROMANCE, mul) is no direction a user could have meant.
    return Languages(source, target) if source and target and short_code(source) and short_code(target) else None


def direct_marian(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """Marian: one direction; models with several target languages want ``>>fr<<`` before the source text."""
    languages = _agreed(asked, tokenizer.source_lang, tokenizer.target_lang, name)
    start = (_start_id(hf, hf.config.pad_token_id),)
    codes = [code[2:-2] for code in tokenizer.supported_language_codes]
    if not codes:
        return Direction(languages, start)
    code = find_code(_needed(languages, name).target, codes, model=name)
    return Direction(languages, start, source_prefix=f">>{code}<< ")


def direct_fsmt(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """FSMT: one direction, written in the tokenizer's settings."""
    return Direction(_agreed(asked, tokenizer.src_lang, tokenizer.tgt_lang, name), (_start_id(hf),))


def direct_m2m100(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """M2M100 and NLLB: the source carries its tag, the translation starts with ``</s> tag``."""
    languages, tag = _tagged(tokenizer, asked, name)
    return Direction(languages, (_start_id(hf), tag))


def direct_mbart(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """Start mBART with the tag alone and mBART-50, known by its tokenizer, with ``</s> tag``."""
    languages, tag = _tagged(tokenizer, asked, name)
    many_to_many = type(tokenizer).__name__.startswith("MBart50")
    return Direction(languages, (_start_id(hf, hf.config.eos_token_id), tag) if many_to_many else (tag,))


def _tagged(tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> tuple[Languages, int]:
    languages = _needed(asked, name)
    tags = language_tags(tokenizer)
    source, target = (find_code(code, tags, model=name) for code in (languages.source, languages.target))
    tokenizer.src_lang = source
    return languages, tags[target]


def language_tags(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Give the language codes of a multilingual tokenizer and the tokens that stand for them."""
    if hasattr(tokenizer, "lang_token_to_id"):  # M2M100, whose tokens are written __de__
        return {token.strip("_"): number for token, number in tokenizer.lang_token_to_id.items()}
    tag = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")
    special = {*tokenizer.get_added_vocab(), *tokenizer.all_special_tokens}
    vocabulary = tokenizer.get_vocab()
    return {token: vocabulary[token] for token in special if tag.fullmatch(token)}


def direct_bart(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """BART knows no languages; its targets are ``<s> text </s>`` after ``</s>``, so ``<s>`` is forced."""
    return Direction(asked, (_start_id(hf, hf.config.eos_token_id), tokenizer.get_vocab()[tokenizer.bos_token]))


def direct_t5(hf: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, asked: Asked, name: str) -> Direction:
    """T5 wants ``translate German to English:`` where its config lists such tasks, otherwise nothing."""
    start = (_start_id(hf, hf.config.pad_token_id),)
    tasks = getattr(hf.config, "task_specific_params", None) or {}
    if not any(task.startswith("translation_") for task in tasks):
        return Direction(asked, start)
    languages = _needed(asked, name)
    task = tasks.get(f"translation_{languages.source}_to_{languages.target}", {})
    return Direction(languages, start, task.get("prefix") or _t5_prefix(languages, name))


def _t5_prefix(languages: Languages, name: str) -> str:
    """Spell the prefix for a direction the config does not list: a fine-tuned T5 often keeps the old list."""
    source, target = (NAMES.get(short_code(code) or "") for code in (languages.source, languages.target))
    if source is None or target is None:
        raise ModelError(f"{name} names languages in English, and {languages} has a code without a name here")
    return f"translate {source} to {target}: "
