"""Models that several tasks of a worker process use: each is loaded once, and checked by its fingerprint.

Knows nothing of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from lacuna.errors import ModelError
from lacuna.models.adapter import Model
from lacuna.models.loading import load_model
from lacuna.records import Languages

# Models that stay in memory: an experiment has the model itself and fine-tuned ones.
_KEPT = 2


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model is loaded from, and how; a manifest has a ``ModelIdentity`` instead, which says which model it is.

    :param place: A folder or a name on the Hugging Face hub; ``None`` for the bundled model.
    """

    place: str | None
    languages: Languages | None
    device: str
    precision: str
    mask_placeholders: bool


def reopen_model(source: ModelSource, fingerprint: str) -> Model:
    """Return the model that another process has loaded.

    :raises ModelError: It cannot be loaded here, or there is another model at this place.
    """
    model = _load(source)
    if model.fingerprint != fingerprint:
        raise ModelError(
            f"{model.name}: a worker finds another model there (fingerprint {model.fingerprint[:12]}, not "
            f"{fingerprint[:12]}); share the folder, or give all machines the same version of the model"
        )
    return model


@lru_cache(_KEPT)
def _load(source: ModelSource) -> Model:
    return load_model(
        source.place,
        device=source.device,
        languages=source.languages,
        precision=source.precision,
        mask_placeholders=source.mask_placeholders,
    )
