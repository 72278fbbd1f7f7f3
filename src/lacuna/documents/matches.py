"""Mark the sentences of a paragraph that are translated as in a memory."""

from __future__ import annotations

from dataclasses import replace

from lacuna.documents.paragraphs import Paragraph, Sentence
from lacuna.memory import SegmentMatches


def mark_matches(paragraph: Paragraph, matches: SegmentMatches) -> Paragraph:
    """Mark sentences that are translated as in a memory: a person did, so they get no flag and no confidence.

    The confidence is that of the model alone, which says nothing about them.
    """
    return replace(paragraph, sentences=tuple(_marked(sentence, matches) for sentence in paragraph.sentences))


def _marked(sentence: Sentence, matches: SegmentMatches) -> Sentence:
    translation = sentence.translation
    if translation is None:
        return sentence
    match = matches.holding(sentence.source, translation.text)
    if match is None:
        return sentence
    return sentence._replace(translation=replace(translation, flag="", confidence=None), match=match.memory)
