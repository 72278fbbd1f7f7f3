"""Load a Hugging Face translation model from a folder or the hub.

If the facts of a folder are cached, its weights are loaded when something needs them, and transformers is imported
then: both take longer than a translation. Every failure is a :class:`~lacuna.errors.ModelError` of one line. No code
from a model's folder is ever run: only configs, safetensors, and torch weights with ``weights_only`` are read.
"""

from __future__ import annotations

import logging
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import torch

from lacuna.errors import ModelError, SettingError, needs_extra
from lacuna.models.adapter import Model
from lacuna.models.directions import Direction
from lacuna.models.facts import ModelFacts, facts_of
from lacuna.models.facts_cache import KnownModel, read_known, state_of, write_known
from lacuna.models.families import FAMILIES, family_of
from lacuna.models.fingerprint import fingerprint_of
from lacuna.models.sinusoids import fast_sinusoids
from lacuna.models.tokenization import Tokenizer, WordBpe
from lacuna.models.tokenization.piece_tokenizer import read_piece_tokenizer
from lacuna.models.tokenization.tokenizer import WORDS_FILE, read_files
from lacuna.records import Languages

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from lacuna.models.tokenization.word_tokenizer import WordTokenizer

BUNDLED = Path(__file__).parents[1] / "bundled" / "de-en"
_SAVE_TOKENIZER = "save the tokenizer into the same folder as the model"
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
    :param precision: ``float32``, or on a GPU also ``float16`` and ``bfloat16``; keys are float32 in any case.
    :param mask_placeholders: As in :class:`~lacuna.models.Model`.
    """
    name, place = _resolve(name_or_path)
    where = _device(device)
    dtype = _precision(precision, where)
    state = state_of(Path(place))
    known = None if state is None else read_known(state)
    if known is None:
        hf, tokenizer, facts = _load_all(name, place)
    else:
        hf, tokenizer, facts = None, _load_tokenizer(name, place, known.facts.model_type), known.facts
    direction = FAMILIES[facts.model_type].direct(facts, tokenizer, languages, name)
    if max(direction.start_ids) >= facts.vocabulary_size:
        raise ModelError(_mismatch(name, max(direction.start_ids), facts.vocabulary_size))
    fingerprint = None if known is None else known.fingerprint
    # Computed in full precision, so that a store built in float16 on a GPU matches the same model on a CPU.
    if hf is not None and (state is not None or dtype is not torch.float32):
        fingerprint = fingerprint_of(hf, tokenizer)
        if state is not None:
            write_known(KnownModel(state=state, facts=facts, fingerprint=fingerprint))

    def load() -> PreTrainedModel:
        loaded = _load_weights(name, place, _load_config(name, place)) if hf is None else hf
        _set_generation_start(loaded, direction)
        loaded.train(False).requires_grad_(False).to(device=where, dtype=dtype)
        return loaded

    at = None if name_or_path is None else str(Path(place).resolve()) if Path(place).is_dir() else place
    return Model(name, where, Once(load), tokenizer, facts, direction, fingerprint, at, precision, mask_placeholders)


class Once:
    """Loads a model when it is first asked for; threads that ask meanwhile wait, and get the same."""

    def __init__(self, load: Callable[[], PreTrainedModel]) -> None:
        self._load, self._lock = load, Lock()
        self._loaded: PreTrainedModel | None = None

    def __call__(self) -> PreTrainedModel:
        """Return the model."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded


def _load_all(name: str, place: str) -> tuple[PreTrainedModel, Tokenizer, ModelFacts]:
    """Load a model of which nothing is known."""
    config = _load_config(name, place)
    family = family_of(config.model_type, name)
    tokenizer = _load_tokenizer(name, place, config.model_type)
    hf = _load_weights(name, place, config)
    _check_vocabulary(hf, tokenizer, name)
    return hf, tokenizer, facts_of(hf, family.projection(hf).weight.shape)


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
    if device.type == "cpu" and asked != "float32":
        raise SettingError(f"precision: {asked} is for GPUs; on the CPU it is slower and less exact, use float32")
    return PRECISIONS[asked]


def _load_config(name: str, place: str) -> PreTrainedConfig:
    from transformers import AutoConfig

    try:
        with quiet_transformers():
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


def _load_tokenizer(name: str, place: str, model_type: str) -> Tokenizer:
    if _find_file(place, WORDS_FILE) is not None:
        return _load_word_tokenizer(name, place)
    if model_type == "marian":
        with _one_line(name):
            tokenizer = read_piece_tokenizer(lambda file: _find_file(place, file))
        if tokenizer is not None:
            return tokenizer
    if model_type == "fsmt":
        with needs_extra("bpe", f"the tokenizer of {name} (FSMT)"):
            import sacremoses  # noqa: F401 - without it, transformers fails with advice of its own
    return _load_auto_tokenizer(name, place)


def _load_auto_tokenizer(name: str, place: str) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    with _one_line(name), quiet_transformers():
        # A "</s>" or "<pad>" in a user's sentence is text, not a control token.
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            place, trust_remote_code=False, split_special_tokens=True
        )
    # Without files, some tokenizer classes silently load a vocabulary of special tokens only.
    files = {*type(tokenizer).vocab_files_names.values(), "tokenizer.json"}
    if not any(_find_file(place, file) for file in sorted(files)):
        raise ModelError(f"{name} has no tokenizer: none of {', '.join(sorted(files))} is there; {_SAVE_TOKENIZER}")
    return tokenizer


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Turn a failure to read a tokenizer into an error of one line."""
    try:
        yield
    except Exception as error:  # tokenizers let any exception of their file readers through
        raise ModelError(f"{name}: its tokenizer cannot be loaded ({_first_line(error)}); {_SAVE_TOKENIZER}") from error


def _load_word_tokenizer(name: str, place: str) -> WordTokenizer:
    from lacuna.models.tokenization.word_tokenizer import WordTokenizer

    def read(file: str) -> bytes | None:
        path = _find_file(place, file)
        return None if path is None else path.read_bytes()

    try:
        return WordTokenizer(WordBpe(read_files(read)))
    except (ModelError, OSError) as error:
        raise ModelError(f"{name}: its tokenizer cannot be loaded ({str(error).splitlines()[0]})") from error


def _find_file(place: str, file: str) -> Path | None:
    """Return the path of a file in a folder or on the hub, if there is one."""
    if Path(place).is_dir():
        path = Path(place) / file
        return path if path.is_file() else None
    from transformers.utils.hub import cached_file

    found = cached_file(
        place, file, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
    )
    return None if found is None else Path(found)


def _load_weights(name: str, place: str, config: PreTrainedConfig) -> PreTrainedModel:
    from safetensors import SafetensorError
    from transformers import AutoModelForSeq2SeqLM

    try:
        with quiet_transformers(), fast_sinusoids():
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


def _set_generation_start(hf: PreTrainedModel, direction: Direction) -> None:
    """Let transformers' own ``generate`` translate in the same direction: start token, and language tag if any.

    The other settings of the folder stay; our own search does not use them.
    """
    start, *forced = direction.start_ids
    hf.generation_config.decoder_start_token_id = start
    if forced:
        [hf.generation_config.forced_bos_token_id] = forced


def _check_vocabulary(hf: PreTrainedModel, tokenizer: Tokenizer, name: str) -> None:
    """Refuse a tokenizer with more tokens than the model has embeddings: it belongs to another model."""
    rows = len(hf.get_input_embeddings().weight)  # type: ignore[arg-type]
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest >= rows:
        raise ModelError(_mismatch(name, largest, rows))


def _mismatch(name: str, token: int, rows: int) -> str:
    return f"{name}: the tokenizer has token {token} but the model only {rows}; they do not match"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress messages, warnings and progress bars of transformers, then restore its settings."""
    from transformers.utils import logging as transformers_logging

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
