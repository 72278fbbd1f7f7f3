"""The routes that edit memories: add pairs, replace the translation of a sentence, forget a sentence.

An answer means that the edit is on disk and that requests from now on see it.
"""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lacuna.corpora.cleaning import normalize
from lacuna.datastore.log import utc_now
from lacuna.serving.access import Access
from lacuna.serving.api import MemoryName, PairBody, RequestBody, SentenceNumber, editing_routes
from lacuna.serving.editor import Edit
from lacuna.serving.served_directions import Directions

_FILE = "api"  # in the origins of added pairs


class PairsBody(RequestBody):
    """Pairs to add to a memory."""

    pairs: list[PairBody] = Field(min_length=1, description="One or more pairs.")


class TargetBody(RequestBody):
    """A new translation."""

    target: str = Field(min_length=1, description="The right translation.", examples=["Click OK."])


class Edited(BaseModel):
    """What an edit did."""

    memory: str
    sentences: list[int] = Field(description="The sentence number of each pair, also of those that were there already.")
    added: list[int] = Field(description="Numbers of the new sentences.")
    forgotten: list[int] = Field(description="Numbers of the sentences that were forgotten or replaced.")
    commit: int | None = Field(description="Number of the commit; null if there was nothing to do.")
    entries: int = Field(description="Number of entries of the memory.")


def make_editing_routes(directions: Directions, access: Access) -> APIRouter:
    """Return the routes that edit memories; they answer 403 if the server does not take edits."""
    routes = editing_routes(access, "/api/v1/memories/{name}")

    @routes.post("/pairs")
    async def add(name: MemoryName, body: PairsBody) -> Edited:
        """Add pairs to a memory. A pair that is there already is not added again."""
        now = utc_now()
        return _answer(await directions.of_memory(name).add(name, [pair.as_pair(_FILE, now) for pair in body.pairs]))

    @routes.put("/sentences/{sentence}")
    async def replace(name: MemoryName, sentence: SentenceNumber, body: TargetBody) -> Edited:
        """Replace the translation of a sentence; the corrected pair gets a new sentence number."""
        return _answer(await directions.of_memory(name).replace(name, sentence, normalize(body.target)))

    @routes.delete("/sentences/{sentence}")
    async def forget(name: MemoryName, sentence: SentenceNumber) -> Edited:
        """Forget a sentence: no search and no listing finds it any more."""
        return _answer(await directions.of_memory(name).forget(name, sentence))

    return routes


def _answer(edit: Edit) -> Edited:
    return Edited(
        memory=edit.memory,
        sentences=list(edit.sentences),
        added=list(edit.added),
        forgotten=list(edit.forgotten),
        commit=edit.commit,
        entries=edit.entries,
    )
