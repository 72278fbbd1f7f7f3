"""Dev translations by which systems are compared: as the model writes them, with stand-ins for placeholders.

A translation for a user gets its placeholders back, and is made again, with a wide beam, if one of them was lost. In
software texts this takes longer than the translation itself, and has little to do with the memory or the combiner. So
comparisons leave it out, and compare with references as the model reads them. A lost placeholder is then a word that
is missing. Does not score.
"""

from __future__ import annotations

from collections.abc import Sequence

from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator import Translator


def dev_texts(translator: Translator, pairs: Sequence[SentencePair], *, progress: Progress = SILENT) -> list[str]:
    """Translate the sources of dev pairs; placeholders are not put back."""
    progress.start("translate", len(pairs), "sentences")
    found = translator.find_hypotheses([pair.source for pair in pairs], progress=progress)
    progress.finish()
    return [translator.model.decode(hypotheses[0].tokens) for hypotheses in found]


def dev_references(model: Model, pairs: Sequence[SentencePair]) -> list[str]:
    """Return the targets of dev pairs with the same stand-ins."""
    return list(model.mask_texts([pair.target for pair in pairs]))
