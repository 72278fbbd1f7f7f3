"""What a store writes down of the model that its keys come from. Knows a model by its properties only."""

from __future__ import annotations

from typing import Protocol

from lacuna.datastore.manifest import ModelRecord
from lacuna.records import Languages


class KeyMaker(Protocol):
    """A model, as far as a store describes it: :class:`lacuna.models.Model` is such."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    @property
    def languages(self) -> Languages | None: ...  # noqa: D102

    @property
    def dimension(self) -> int: ...  # noqa: D102

    @property
    def vocabulary_size(self) -> int: ...  # noqa: D102

    @property
    def eos_id(self) -> int: ...  # noqa: D102


def describe_model(model: KeyMaker) -> ModelRecord:
    """Return what a manifest says of a model."""
    languages = None if model.languages is None else str(model.languages)
    return ModelRecord(name=model.name, fingerprint=model.fingerprint, languages=languages, eos_id=model.eos_id)
