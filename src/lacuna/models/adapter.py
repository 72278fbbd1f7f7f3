"""Adapter for Hugging Face translation models: text to tokens, tokens to keys, keys to logits.

A key is the exact input of the output projection (the representation of the translation context in Khandelwal et al.,
2021). Differences between model families are in ``families``. Knows nothing of stores and neighbors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lacuna.corpora.placeholders import mask
from lacuna.errors import ModelError, SettingError
from lacuna.models.directions import Direction, same_language
from lacuna.models.facts import ModelFacts
from lacuna.models.families import FAMILIES, Decoder, Family, Projection, TargetEncoder
from lacuna.models.fingerprint import fingerprint_of
from lacuna.models.linears import Linear, make_linear, with_fast_linears
from lacuna.models.padding import pad, run_bucketed
from lacuna.models.teacher_forcing import LastLayer, TeacherForced, fits_positions, score_keys
from lacuna.models.tokenization import Tokenizer
from lacuna.records import Languages

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

    from lacuna.models.compiled_decoder import CompiledModel

# Bytes of packed weights at the most.
_MAX_PACKED = 2**30

_PREPARING = RLock()  # a form may need another one
_Form = TypeVar("_Form")


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """A model with weights prepared for whole sentences, and its decoder up to the output projection."""

    hf: PreTrainedModel
    decoder: Decoder


@dataclass(frozen=True, eq=False)
class Model:
    """A loaded model for one translation direction; made by :func:`lacuna.models.loading.load_model`.

    Probabilities come from the raw logits, with the model's bias and nothing masked. ``banned_ids`` are never generated
    but keep their share of the probability, as in transformers.

    :param name: Name or folder that the user gave.
    :param device: Device of the weights.
    :param load_hf: Returns ``hf``, the same one each time.
    :param known_fingerprint: The fingerprint, if it was computed before.
    :param place: The absolute path of its folder, or its name on the hub; ``None`` for the bundled model.
    :param precision: Of the weights. ``bfloat16`` on a CPU is that of teacher forcing only, by compiled kernels; the
        weights are float32.
    :param mask_placeholders: Tokenize stand-ins instead of placeholders such as ``%s``, on both sides of a pair; see
        :mod:`lacuna.corpora.placeholders`. Whoever decodes a translation puts the placeholders back.
    """

    name: str
    device: torch.device
    load_hf: Callable[[], PreTrainedModel]
    tokenizer: Tokenizer
    facts: ModelFacts
    direction: Direction
    known_fingerprint: str | None = None
    place: str | None = None
    precision: str = "float32"
    mask_placeholders: bool = False

    def __repr__(self) -> str:
        return f"Model({self.name!r}, languages={self.languages}, device={str(self.device)!r})"

    def reopening(self) -> tuple[Callable[..., Model], tuple[object, str]]:
        """Say how another process loads this model; see :class:`~lacuna.workers.Reopened`."""
        from lacuna.models.sharing import ModelSource, reopen_model

        source = ModelSource(self.place, self.languages, str(self.device), self.precision, self.mask_placeholders)
        return reopen_model, (source, self.fingerprint)

    @property
    def hf(self) -> PreTrainedModel:
        """The transformers model, in eval mode and without gradients; loaded when it is first needed."""
        return self.load_hf()

    def with_hf(self, hf: PreTrainedModel) -> Model:
        """Return this model with other weights of the same shape, of which no fingerprint is known."""
        return replace(self, load_hf=lambda: hf, known_fingerprint=None)

    @property
    def family(self) -> Family:
        """What is particular to models of this kind."""
        return FAMILIES[self.facts.model_type]

    @property
    def languages(self) -> Languages | None:
        """The direction; ``None`` if neither the model nor the user specifies it."""
        return self.direction.languages

    @property
    def target_language(self) -> str | None:
        """Code of the target language, for whoever scores translations; ``None`` without a direction."""
        return None if self.languages is None else self.languages.target

    def is_direction(self, languages: Languages) -> bool:
        """Tell whether this is the direction that the model was loaded for, in any spelling of its codes."""
        loaded = self.languages
        return loaded is not None and (
            same_language(loaded.source, languages.source) and same_language(loaded.target, languages.target)
        )

    @property
    def dimension(self) -> int:
        """Dimension of a key."""
        return self.facts.dimension

    @property
    def vocabulary_size(self) -> int:
        """Rows of the output projection; some may belong to no token."""
        return self.facts.vocabulary_size

    @property
    def eos_id(self) -> int:
        """The token that ends a sentence."""
        return self.facts.eos_id

    @property
    def pad_id(self) -> int:
        """The padding token."""
        return self.facts.pad_id

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """Tokens that are never generated."""
        return self.facts.banned_ids

    @property
    def start_ids(self) -> tuple[int, ...]:
        """Tokens that every translation starts with: a start token, and a language tag for families that have one."""
        return self.direction.start_ids

    @property
    def max_length(self) -> int:
        """Largest number of tokens that the encoder or the decoder can read at once."""
        return self.facts.max_length

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights, relevant settings and vocabulary; the same on every device and in every precision."""
        return self.known_fingerprint or fingerprint_of(self.hf, self.tokenizer)

    @cached_property
    def projection(self) -> Projection:
        """The output projection."""
        return self.family.projection(self.hf)

    @cached_property
    def forms(self) -> dict[str, Any]:
        """Cache of other forms of the weights, such as packed ones; valid because the weights never change."""
        return {}

    @property
    def plain_hf(self) -> PreTrainedModel:
        """``hf`` without its folder's generation settings, which would fill every setting that a caller leaves out.

        FSMT checkpoints, for example, set a length penalty of 1.1. Weights are shared with ``hf``.
        """
        from transformers import GenerationConfig

        plain = copy.copy(self.hf)
        plain.generation_config = GenerationConfig()
        return plain

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder up to the output projection."""
        return self.family.decoder(self.hf)

    @cached_property
    def _encode_target_texts(self) -> TargetEncoder:
        return self.family.target_encoder(self.tokenizer)

    @cached_property
    def _silent_ids(self) -> frozenset[int]:
        return frozenset({*self.tokenizer.all_special_ids, *self.start_ids, self.eos_id, self.pad_id})

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize source sentences, with the tags and the end token that the encoder expects."""
        _check_texts(texts)
        return self._encode_source_texts(self.mask_texts(texts))

    def _encode_source_texts(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        prefixed = [self.direction.source_prefix + text for text in texts]
        return [list(ids) for ids in self.tokenizer(prefixed, verbose=False)["input_ids"]]

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize translations, with the end token and without start tokens or tags."""
        _check_texts(texts)
        return [[*ids, self.eos_id] for ids in self._encode_target_texts(self.mask_texts(texts))] if texts else []

    def can_write(self, text: str) -> bool:
        """Tell whether the tokens of a translation give the same text again.

        They do not if a character is unknown, or if the tokenizer replaces it: sentencepiece makes ``TM`` of ``™``.
        """
        [masked] = self.mask_texts([text])
        [ids] = self.encode_targets([text])
        return self.decode(ids) == masked.strip()

    def mask_texts(self, texts: Sequence[str]) -> Sequence[str]:
        """Return texts as the tokenizer reads them: with stand-ins instead of placeholders, if those are masked."""
        return [mask(text).text for text in texts] if self.mask_placeholders else texts

    def decode(self, ids: Sequence[int]) -> str:
        """Detokenize a translation; special tokens are left out."""
        kept = [number for number in map(int, ids) if number not in self._silent_ids]
        # Marian would otherwise use the SentencePiece model of the source.
        own = {"use_source_tokenizer": False} if hasattr(self.tokenizer, "spm_target") else {}
        text = self.tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False, **own)
        return str(text).strip()

    def token_text(self, token: int) -> str:
        """Return a token as the tokenizer spells it, including its mark of word boundaries."""
        if not 0 <= token < self.vocabulary_size:
            raise ModelError(f"{self.name} has tokens 0 to {self.vocabulary_size - 1}, not {token}")
        text = self.tokenizer.convert_ids_to_tokens(int(token))
        return f"<{token}>" if text is None else str(text)

    def token_number(self, text: str) -> int:
        """Return the token with this spelling; the inverse of :meth:`token_text`."""
        number = self.tokenizer.get_vocab().get(text)
        if number is None:
            near = [self.token_text(ids[0]) for ids in self.encode_targets([text]) if len(ids) > 1]
            hint = f"; {text!r} begins with {near[0]!r}" if near else ""
            raise ModelError(f"token: got {text!r}, which {self.name} does not have{hint}: spell it as the model does")
        return int(number)

    def fits(self, source: Sequence[int], target: Sequence[int]) -> bool:
        """Return whether the model can read a pair under teacher forcing; longer ones are left out of every artifact.

        :param source: From :meth:`encode_sources`.
        :param target: From :meth:`encode_targets`.
        """
        return fits_positions(len(source), len(target), self.max_length, len(self.start_ids))

    def project(self, keys: torch.Tensor) -> torch.Tensor:
        """Apply the output projection to keys ``(rows, dimension)``: float32 logits ``(rows, vocabulary)``."""
        head = self.projection
        scaled = keys.to(head.weight.device, head.weight.dtype) * head.scale
        return self.fast_projection(scaled).float()

    def project_some(self, keys: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of some tokens of each key ``(rows, tokens)``: float32, as :meth:`project` to rounding."""
        head = self.projection
        scaled = keys.to(head.weight.device, head.weight.dtype) * head.scale
        asked = tokens.to(head.weight.device)
        logits = torch.bmm(head.weight[asked], scaled[:, :, None])[:, :, 0].float()
        return logits if head.bias is None else logits + head.bias.reshape(-1)[asked].float()

    @property
    def fast_projection(self) -> Linear:
        """The output projection without its scale, in its fastest form."""
        return self.prepared("projection", lambda: make_linear(self.projection.weight, self.projection.bias))

    @property
    def fast_forward(self) -> ForwardPass:
        """The fastest forward pass without a cache."""

        def prepare() -> ForwardPass:
            head = self.projection.weight
            hf = cast("PreTrainedModel", with_fast_linears(self.hf, leave_out=head)) if self._is_small else self.hf
            return ForwardPass(hf, self.family.decoder(hf))

        return self.prepared("forward", prepare)

    def prepared(self, name: str, prepare: Callable[[], _Form]) -> _Form:
        """Return another form of the weights, prepared once: threads and translators share the model."""
        if name not in self.forms:
            with _PREPARING:
                if name not in self.forms:
                    self.forms[name] = prepare()
        form: _Form = self.forms[name]
        return form

    @torch.inference_mode()
    def predict(self, keys: NDArray[np.float16]) -> NDArray[np.int64]:
        """Return the most probable token for each key of a store: (rows,)."""
        logits = self.project(torch.from_numpy(keys.astype(np.float32)))
        return np.asarray(logits.argmax(-1).cpu().numpy(), dtype=np.int64)

    @torch.inference_mode()
    def score_keys(
        self, keys: NDArray[np.float32], gold: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        """Return prediction, log-probability of the gold token and entropy for each key: (rows,) each."""
        where = torch.from_numpy(keys).to(self.device), torch.from_numpy(gold).to(self.device)
        predictions, log_p_gold, entropy = score_keys(*where, self.project, self.vocabulary_size)
        return predictions.cpu().numpy(), log_p_gold.cpu().numpy(), entropy.cpu().numpy()

    @torch.inference_mode()
    def matches_key_kind(self, kind: str, keys: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return for each key whether this model can have produced it as a key of kind ``out`` or ``ffn_in``."""
        return np.asarray(
            LastLayer.of(self.hf).matches_key_kind(kind, torch.from_numpy(keys)).cpu().numpy(), dtype=np.bool_
        )

    @torch.inference_mode()
    def apply_last_ffn(self, keys: NDArray[np.float32]) -> NDArray[np.float32]:
        """Turn keys of kind ``ffn_in`` (inputs of the last feed-forward) into ``out`` (inputs of the projection)."""
        finished = LastLayer.of(self.hf).apply_ffn(torch.from_numpy(keys), self.name)
        return np.asarray(finished.cpu().numpy(), dtype=np.float32)

    @torch.inference_mode()
    def encode(
        self, sources: Sequence[Sequence[int]], encoder: nn.Module | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the encoder; return its output ``(batch, length, dimension)`` and attention mask ``(batch, length)``.

        :param encoder: The model's encoder in another form, such as one with packed weights.
        """
        self.check_sources(sources)
        module = self.hf.get_encoder() if encoder is None else encoder

        def run(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = module(input_ids=ids, attention_mask=mask).last_hidden_state
            return output

        ids, mask = self._padded(sources)
        return run_bucketed(run, ids, mask), mask

    @torch.inference_mode()
    def teacher_force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> TeacherForced:
        """Run the decoder on given translations: at each position it reads the true tokens before it.

        :param sources: From :meth:`encode_sources`.
        :param targets: From :meth:`encode_targets`; one for each source.
        """
        if len(sources) != len(targets):
            raise ModelError(f"teacher_force: {len(sources)} sources but {len(targets)} targets; give one for each")
        lengths = tuple(len(target) for target in targets)
        self.check_sources(sources)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if not self.fits(source, target):
                most = self.max_length - len(self.start_ids) + 1
                raise ModelError(_bad_length("target", number, len(target), f"at most {most}"))
        gold = torch.tensor([token for target in targets for token in target], dtype=torch.long, device=self.device)
        if gold.numel() == 0:
            return TeacherForced(torch.empty(0, self.dimension), gold.cpu(), torch.empty(0), torch.empty(0), lengths)
        if not 0 <= int(gold.min()) <= int(gold.max()) < self.vocabulary_size:
            raise ModelError(f"teacher_force: {self.name} has tokens 0 to {self.vocabulary_size - 1} only")
        compiled = self.compiled_forward
        if compiled is not None:
            return compiled.teacher_force(sources, targets, self.start_ids)
        keys = self._keys(sources, targets)
        predictions, log_p_gold, entropy = score_keys(keys, gold, self.project, self.vocabulary_size)
        return TeacherForced(keys.float().cpu(), predictions.cpu(), log_p_gold.cpu(), entropy.cpu(), lengths)

    @property
    def compiled_forward(self) -> CompiledModel | None:
        """The compiled kernels that run teacher forcing; ``None`` where torch does."""
        from lacuna.models.compiled_decoder import CompiledModel

        def prepare() -> CompiledModel | None:
            return CompiledModel.of(self, self.precision) if self.runs_compiled else None

        return self.prepared("compiled forward", prepare)

    @property
    def runs_compiled(self) -> bool:
        """Whether compiled kernels run teacher forcing instead of torch.

        :raises SettingError: They cannot, and torch has no fast products of this precision on a CPU.
        """
        from lacuna.models.compiled_decoder import find_obstacle

        # Not for float32: a build that is resumed must give the same bytes, with numba or without, and whether kernels
        # come from the cache or not.
        if self.device.type != "cpu" or self.precision == "float32":
            return False
        obstacle = find_obstacle(self, self.precision)
        if obstacle is not None:
            raise SettingError(f"precision: {self.precision} on a CPU needs {obstacle}; use float32 with {self.name}")
        return True

    @property
    def _is_small(self) -> bool:
        """Whether packed weights, which take as much memory as the plain ones, are worth it."""
        weights = sum(weight.nbytes for weight in self.hf.parameters())
        return weights - self.projection.weight.nbytes <= _MAX_PACKED

    def _keys(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> torch.Tensor:
        forward = self.fast_forward
        encoded, mask = self.encode(sources, forward.hf.get_encoder())
        # Padded on the right, under a causal mask: no real position attends to padding.
        inputs, _ = self._padded([[*self.start_ids, *target[:-1]] for target in targets])
        states = forward.decoder(
            input_ids=inputs, encoder_hidden_states=encoded, encoder_attention_mask=mask, use_cache=False
        ).last_hidden_state
        first = len(self.start_ids) - 1
        return torch.cat([row[first : first + len(target)] for row, target in zip(states, targets, strict=True)])

    @torch.inference_mode()
    def generate(
        self,
        texts: Sequence[str],
        *,
        beam: int = 5,
        length_penalty: float = 1.0,
        max_new_tokens: int = 200,
        batch_size: int = 16,
    ) -> list[str]:
        """Translate text as it is with the beam search of transformers; the settings of the model's files are ignored.

        :param beam: Beam size; 1 is greedy search.
        :param length_penalty: The score of a hypothesis is its log-probability divided by its length to this power.
        :param max_new_tokens: Largest number of generated tokens, within ``max_length``.
        :param batch_size: Sentences per batch, sorted by length.
        """
        if min(beam, max_new_tokens, batch_size) < 1:
            got = f"beam {beam}, max_new_tokens {max_new_tokens}, batch_size {batch_size}"
            raise SettingError(f"generate: got {got}; each must be 1 or more")
        _check_texts(texts)
        sources = self._encode_source_texts(texts)
        self.check_sources(sources)
        order = sorted((n for n, text in enumerate(texts) if text.strip()), key=lambda n: len(sources[n]))
        settings = self._generation(beam, length_penalty, min(max_new_tokens, self.max_length - len(self.start_ids)))
        translations = [""] * len(texts)
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            outputs = self._generate_batch([sources[n] for n in chosen], settings)
            for number, output in zip(chosen, outputs, strict=True):
                translations[number] = self.decode(output)
        return translations

    def _generate_batch(self, sources: Sequence[Sequence[int]], settings: GenerationConfig) -> list[list[int]]:
        ids, mask = self._padded(sources)
        # Start tokens are given as a prefix rather than as "forced" tokens, so that they do not count as generated.
        prefix = torch.tensor([self.start_ids] * len(sources), device=self.device)
        outputs = self.plain_hf.generate(  # type: ignore[operator]
            input_ids=ids, attention_mask=mask, decoder_input_ids=prefix, generation_config=settings
        )
        return [row[len(self.start_ids) :] for row in outputs.tolist()]

    def _generation(self, beam: int, length_penalty: float, max_new_tokens: int) -> GenerationConfig:
        from transformers import GenerationConfig

        search = {"length_penalty": length_penalty, "early_stopping": False} if beam > 1 else {}
        return GenerationConfig(
            num_beams=beam,
            do_sample=False,
            max_new_tokens=max_new_tokens,
            decoder_start_token_id=self.start_ids[0],
            eos_token_id=self.eos_id,
            pad_token_id=self.pad_id,
            suppress_tokens=list(self.banned_ids),
            **search,
        )

    def _padded(self, sequences: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Pad on the right, whatever the tokenizer's padding side: tokens and attention mask."""
        return pad(sequences, self.pad_id, self.device)

    def check_sources(self, sources: Sequence[Sequence[int]]) -> None:
        """Raise an error if the encoder cannot read one of the sources."""
        for number, source in enumerate(sources):
            if not self.fits(source, ()):
                raise ModelError(_bad_length("source", number, len(source), f"1 to {self.max_length}"))


def _bad_length(side: str, number: int, length: int, allowed: str) -> str:
    return f"{side} {number} has {length} tokens; allowed are {allowed}: leave it out or split it"


def _check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise ModelError("got one text where a list of texts is needed; write [text]")
