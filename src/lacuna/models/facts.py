"""Facts of a model: all that decoding must know of it besides weights and tokens.

They are read from a loaded model once and cached, so that a translation need not load it to know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lacuna.artifacts.manifests import Record
from lacuna.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Length for models without position embeddings (T5): the one they were trained on.
_LENGTH_WITHOUT_POSITIONS = 512


class ModelFacts(Record):
    """Facts of a model in any direction.

    :param model_type: The family, as transformers spells it.
    :param eos_id: The token that ends a sentence.
    :param pad_id: The padding token.
    :param start_id: The token that the decoder starts with, if the settings name it.
    :param banned_ids: Tokens that are never generated: padding, and single ``bad_words_ids`` of the model.
    :param max_length: Largest number of tokens that the encoder or the decoder can read at once.
    :param vocabulary_size: Rows of the output projection; some may belong to no token.
    :param dimension: Dimension of a key.
    :param task_prefixes: The prefix of each task of translation that the settings list, as those of T5 do.
    """

    model_type: str
    eos_id: int
    pad_id: int
    start_id: int | None
    banned_ids: tuple[int, ...]
    max_length: int
    vocabulary_size: int
    dimension: int
    task_prefixes: dict[str, str]


def facts_of(hf: PreTrainedModel, projection: Sequence[int]) -> ModelFacts:
    """Read the facts of a loaded model.

    :param projection: The shape of its output projection.
    """
    config, generation = hf.config, hf.generation_config
    pad_id = _only(config.pad_token_id, "pad_token_id")
    words = getattr(generation, "bad_words_ids", None) or []
    starts = (getattr(settings, "decoder_start_token_id", None) for settings in (generation, config))
    tasks = getattr(config, "task_specific_params", None) or {}
    vocabulary_size, dimension = projection
    return ModelFacts(
        model_type=config.model_type,
        eos_id=_only(config.eos_token_id, "eos_token_id"),
        pad_id=pad_id,
        start_id=next((int(start) for start in starts if start is not None), None),
        banned_ids=tuple(sorted({pad_id, *(int(word[0]) for word in words if len(word) == 1)})),
        max_length=int(getattr(config, "max_position_embeddings", None) or _LENGTH_WITHOUT_POSITIONS),
        vocabulary_size=vocabulary_size,
        dimension=dimension,
        task_prefixes={
            name: task.get("prefix") or "" for name, task in tasks.items() if name.startswith("translation_")
        },
    )


def _only(token: int | list[int] | None, what: str) -> int:
    if token is None:
        raise ModelError(f"config.json has no {what}; add the one that the model was trained with")
    return int(token[0] if isinstance(token, list) else token)
