"""Load a Hugging Face translation model from a folder or the hub.

Every failure is a :class:`~lacuna.errors.ModelError` of one line. No code from a model's folder is ever run: only
configs, safetensors, and torch weights with ``weights_only`` are read.
"""

from __future__ import annotations

import logging
import pickle
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    FSMTConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file

from lacuna.errors import ModelError, SettingError, needs_extra
from lacuna.models.adapter import Model
from lacuna.models.directions import Direction
from lacuna.models.families import FAMILIES, family_of
from lacuna.models.fingerprint import fingerprint_of
from lacuna.models.tokenization import WordBpe, WordTokenizer
from lacuna.models.tokenization.tokenizer import WORDS_FILE, read_files
from lacuna.records import Languages

BUNDLED = Path(__file__).parents[1] / "bundled" / "de-en"
PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def load_model(
    name_or_path: str | Path | None = None,
    *,
    device: str = "auto",
    languages: Languages | None = None,
    precision: str = "float32",
    mask_placeholders: bool = True,
) -> Model:
    """Load a translation model, frozen and in eval mode.

    :param name_or_path: A folder, or a name on the Hugging Face hub; ``None`` for the bundled German-English model.
    :param device: ``auto`` (a CUDA GPU if there is one, otherwise the CPU), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    :param languages: The direction; required by multilingual models, and checked for bilingual ones.
    :param precision: ``float32``; on a GPU also ``float16`` and ``bfloat16``; on a CPU with AVX-512 BF16, ``bfloat16``
        for teacher forcing, that is, for building and fitting. Keys are float32 in any case.
    :param mask_placeholders: As in :class:`~lacuna.models.Model`.
    """
    name, place = _resolve(name_or_path)
    where = _device(device)
    dtype = _precision(precision, where)
    with quiet_transformers():
        config = _load_config(name, place)
        family = family_of(config, name)
        tokenizer = _load_tokenizer(name, place, config)
        hf = _load_weights(name, place, config)
        direction = family.direct(hf, tokenizer, languages, name)
    banned = _banned(hf)
    _set_generation_start(hf, direction)
    # Computed in full precision, so that a store built in float16 on a GPU matches the same model on a CPU.
    known = None if dtype is torch.float32 else fingerprint_of(hf, tokenizer)
    hf.train(False).requires_grad_(False).to(device=where, dtype=dtype)
    at = None if name_or_path is None else str(Path(place).resolve()) if Path(place).is_dir() else place
    model = Model(name, where, hf, tokenizer, family, direction, banned, known, at, precision, mask_placeholders)
    _check_vocabulary(model)
    if precision != "float32":
        _ = model.runs_compiled  # an error if kernels that this precision needs cannot run here
    return model


def _resolve(name_or_path: str | Path | None) -> tuple[str, str]:
    """Return the name for messages, and the folder or hub name that transformers reads."""
    if name_or_path is None:
        if not BUNDLED.is_dir():
            raise ModelError("no model is bundled with this installation; give a folder or a hub name")
        return BUNDLED.name, str(BUNDLED)
    name = str(name_or_path)
    folder = Path(name_or_path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"{name} is not a model folder: it has no config.json; give the folder of a saved model")
        return name, str(folder)
    # Anything else than one or two plain words was meant as a path; looking it up on the hub would only obscure that.
    is_hub_name = re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name)
    if isinstance(name_or_path, Path) or folder.exists() or not is_hub_name:
        problem = "is a file" if folder.exists() else "does not exist"
        raise ModelError(f"model folder {name} {problem}; give the folder a model was saved to, or a hub name")
    return name, name


def _device(asked: str) -> torch.device:
    available = ["cpu"]
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if torch.backends.mps.is_available():
        available.append("mps")
    if asked == "auto":
        return torch.device(available[0])
    try:
        device = torch.device(asked)
    except RuntimeError:
        device = None
    if device is None or device.type not in available or (device.index or 0) >= _count(device):
        raise SettingError(f"device: got {asked!r}; available: auto, {', '.join(available)}")
    return device


def _count(device: torch.device) -> int:
    return torch.cuda.device_count() if device.type == "cuda" else 1


def _precision(asked: str, device: torch.device) -> torch.dtype:
    if asked not in PRECISIONS:
        raise SettingError(f"precision: got {asked!r}; allowed are {', '.join(PRECISIONS)}")
    if device.type == "cpu":
        if asked == "float16":
            raise SettingError("precision: float16 is for GPUs; use float32, or bfloat16 to build and fit faster")
        return torch.float32
    return PRECISIONS[asked]


def _load_config(name: str, place: str) -> PreTrainedConfig:
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(place, trust_remote_code=False)
    except OSError as error:
        if name != place or Path(place).is_dir():
            raise ModelError(f"{name}: config.json cannot be read ({_first_line(error)})") from error
        raise ModelError(
            f"model {name!r}: no such folder, and it cannot be read from the hub ({_first_line(error)}); "
            "check the name and the network, or give a folder"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        supported = ", ".join(family.examples for family in FAMILIES.values())
        raise ModelError(
            f"{name}: config.json cannot be used ({_first_line(error)}); supported are {supported}"
        ) from error
    return config


def _load_tokenizer(name: str, place: str, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    remedy = "save the tokenizer into the same folder as the model"
    if _has_file(place, WORDS_FILE):
        return _load_word_tokenizer(name, place)
    if isinstance(config, FSMTConfig):
        with needs_extra("bpe", f"the tokenizer of {name} (FSMT)"):
            import sacremoses  # noqa: F401 - without it, transformers fails with advice of its own
    try:
        # A "</s>" or "<pad>" in a user's sentence is text, not a control token.
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            place, trust_remote_code=False, split_special_tokens=True
        )
    except Exception as error:  # tokenizers let any exception of their file readers through
        raise ModelError(f"{name}: its tokenizer cannot be loaded ({_first_line(error)}); {remedy}") from error
    # Without files, some tokenizer classes silently load a vocabulary of special tokens only.
    files = {*type(tokenizer).vocab_files_names.values(), "tokenizer.json"}
    if not any(_has_file(place, file) for file in sorted(files)):
        raise ModelError(f"{name} has no tokenizer: none of {', '.join(sorted(files))} is there; {remedy}")
    return tokenizer


def _load_word_tokenizer(name: str, place: str) -> WordTokenizer:
    def read(file: str) -> bytes | None:
        path = _find_file(place, file)
        return None if path is None else Path(path).read_bytes()

    try:
        return WordTokenizer(WordBpe(read_files(read)))
    except (ModelError, OSError) as error:
        raise ModelError(f"{name}: its tokenizer cannot be loaded ({str(error).splitlines()[0]})") from error


def _has_file(place: str, file: str) -> bool:
    return _find_file(place, file) is not None


def _find_file(place: str, file: str) -> str | None:
    path: str | None = cached_file(
        place, file, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
    )
    return path


def _load_weights(name: str, place: str, config: PreTrainedConfig) -> PreTrainedModel:
    try:
        hf, info = AutoModelForSeq2SeqLM.from_pretrained(
            place, config=config, dtype=torch.float32, trust_remote_code=False, output_loading_info=True
        )
    except (OSError, RuntimeError, ValueError, KeyError, EOFError, SafetensorError, pickle.UnpicklingError) as error:
        raise ModelError(
            f"{name}: its weights cannot be loaded ({_first_line(error)}); copy or download the model again"
        ) from error
    # Sinusoids are computed again. Any other missing weight would silently be random.
    sinusoids = {f"{path}.weight" for path, module in hf.named_modules() if "Sinusoidal" in type(module).__name__}
    missing = sorted({*info["missing_keys"], *(key[0] for key in info["mismatched_keys"])} - sinusoids)
    if missing:
        listed = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise ModelError(f"{name}: weights are missing or have another shape: {listed}; download the model again")
    model: PreTrainedModel = hf
    return model


def _banned(hf: PreTrainedModel) -> tuple[int, ...]:
    """Return the tokens that are never generated: padding, and single ``bad_words_ids`` of the model."""
    words = getattr(hf.generation_config, "bad_words_ids", None) or []
    return tuple(sorted({hf.config.pad_token_id, *(word[0] for word in words if len(word) == 1)}))


def _set_generation_start(hf: PreTrainedModel, direction: Direction) -> None:
    """Let transformers' own ``generate`` translate in the same direction: start token, and language tag if any.

    The other settings of the folder stay; our own search does not use them.
    """
    start, *forced = direction.start_ids
    hf.generation_config.decoder_start_token_id = start
    if forced:
        [hf.generation_config.forced_bos_token_id] = forced


def _check_vocabulary(model: Model) -> None:
    """Refuse a tokenizer with more tokens than the model has embeddings: it belongs to another model."""
    rows = len(model.hf.get_input_embeddings().weight)  # type: ignore[arg-type]
    largest = max(model.tokenizer.get_vocab().values(), default=-1)
    if largest >= rows or max(model.start_ids) >= model.vocabulary_size:
        raise ModelError(
            f"{model.name}: the tokenizer has token {largest} but the model only {rows}; they do not match"
        )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress messages, warnings and progress bars of transformers, then restore its settings."""
    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    bar = transformers_logging.is_progress_bar_enabled()
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        transformers_logging.disable_progress_bar()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bar:
            transformers_logging.enable_progress_bar()
