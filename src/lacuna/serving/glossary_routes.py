"""The routes of glossaries: their terms, edits of them, and the edits of the past.

An answer to an edit means that it is on disk and that requests from now on see it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from lacuna.glossaries import Glossary, Term
from lacuna.glossaries.glossary_log import GlossaryCommit
from lacuna.serving.access import Access
from lacuna.serving.api import MAX_TERMS, RequestBody, TermBody, closed_routes, editing_routes, errors
from lacuna.serving.client_terms import check
from lacuna.serving.glossary_editor import GlossaryEdit, is_editable
from lacuna.serving.served_directions import Directions
from lacuna.serving.service import Service

MAX_PAGE = 1000  # terms or commits in an answer

GlossaryName = Annotated[str, Path(description="Name of a glossary.", max_length=64)]
Offset = Annotated[int, Query(ge=0, lt=2**53, description="Number of the first one.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Most of them in an answer.")]
CommitNumber = Annotated[int, Field(ge=1, lt=2**53)]  # what JavaScript can hold


class TermsBody(RequestBody):
    """Terms to add to a glossary."""

    terms: list[TermBody] = Field(
        min_length=1,
        max_length=MAX_TERMS,
        description="One or more terms; one with the source of a term that is there replaces it.",
    )


class UndoBody(RequestBody):
    """An edit to undo."""

    commit: CommitNumber = Field(description="Number of its commit.")


class TermAnswer(BaseModel):
    """A term of a glossary."""

    source: str
    targets: list[str]
    forbidden: list[str]
    case_sensitive: bool
    inflected: bool
    translate: bool
    note: str
    tag: str


class TermChangeAnswer(BaseModel):
    """What an edit did to a term."""

    before: TermAnswer | None = Field(description="Null for a new term.")
    after: TermAnswer | None = Field(description="Null for a term that was removed.")


class GlossaryInfo(BaseModel):
    """A glossary that clients can select."""

    name: str
    terms: int
    memory: str | None = Field(description="The memory with which it is used by default.")
    source: str | None
    target: str | None
    editable: bool = Field(description="Whether its file can be edited, if the server takes edits.")


class TermsAnswer(BaseModel):
    """Terms of a glossary.

    :param total: Number of all terms, or of those that were found.
    """

    glossary: str
    total: int
    offset: int
    terms: list[TermAnswer]


class CommitAnswer(BaseModel):
    """An edit of a glossary."""

    commit: int
    time: str = Field(description="UTC, in ISO 8601.")
    action: Literal["add", "remove", "undo"]
    changes: list[TermChangeAnswer]


class CommitsAnswer(BaseModel):
    """Edits of a glossary, the newest first.

    :param total: Number of all edits.
    """

    glossary: str
    total: int
    offset: int
    commits: list[CommitAnswer]


class GlossaryEdited(BaseModel):
    """What an edit did."""

    glossary: str
    commit: int | None = Field(description="Number of the commit; null if there was nothing to do.")
    changes: list[TermChangeAnswer]
    terms: int = Field(description="Number of terms of the glossary.")
    warnings: list[str] = Field(description="What the added terms do not do although they seem to.")


def make_glossary_routes(directions: Directions, access: Access) -> APIRouter:
    """Return the routes of glossaries."""
    routes = APIRouter()
    closed = closed_routes(access)
    _add_reading(closed, directions)
    routes.include_router(closed)
    edits = editing_routes(access, "/api/v1/glossaries/{name}")
    _add_edits(edits, directions)
    routes.include_router(edits)
    return routes


def _add_reading(routes: APIRouter, directions: Directions) -> None:
    @routes.get("/glossaries", tags=["glossaries"])
    def glossaries() -> list[GlossaryInfo]:
        """List the glossaries of all directions."""
        return [
            _described(service, glossary)
            for service in directions.services
            for glossary in service.glossaries().values()
        ]

    @routes.get("/glossaries/{name}", tags=["glossaries"], responses=errors(404, 422))
    def terms(
        name: GlossaryName,
        offset: Offset = 0,
        limit: Limit = 100,
        search: Annotated[str, Query(max_length=200, description="Only terms with this text, in any capitals.")] = "",
    ) -> TermsAnswer:
        """Return terms of a glossary, in its order."""
        glossary = directions.of_glossary(name).glossaries()[name]
        wanted = search.casefold().strip()
        found = [term for term in glossary if _has(term, wanted)] if wanted else glossary.terms
        page = [_term(term) for term in found[offset : offset + limit]]
        return TermsAnswer(glossary=name, total=len(found), offset=offset, terms=page)

    @routes.get("/glossaries/{name}/commits", tags=["glossaries"], responses=errors(400, 404, 422))
    def commits(name: GlossaryName, offset: Offset = 0, limit: Limit = 100) -> CommitsAnswer:
        """Return the edits of a glossary, the newest first; those by hand are not among them."""
        done = directions.of_glossary(name).glossary_commits(name)[::-1]
        page = [
            CommitAnswer(commit=one.commit, time=one.time, action=one.action, changes=_changes(one))
            for one in done[offset : offset + limit]
        ]
        return CommitsAnswer(glossary=name, total=len(done), offset=offset, commits=page)


def _add_edits(routes: APIRouter, directions: Directions) -> None:
    @routes.post("/terms")
    async def add(name: GlossaryName, body: TermsBody) -> GlossaryEdited:
        """Add terms to a glossary, or replace those with the same source."""
        checked = check([term.as_term() for term in body.terms])
        edit = await directions.of_glossary(name).add_terms(name, checked.terms)
        return _edited(edit, checked.warnings)

    @routes.delete("/terms")
    async def remove(
        name: GlossaryName,
        source: Annotated[str, Query(min_length=1, max_length=200, description="The term, as in the glossary.")],
        target: Annotated[
            str | None,
            Query(max_length=200, description="Remove only this translation, allowed or forbidden."),
        ] = None,
    ) -> GlossaryEdited:
        """Remove a term, or one of its translations; with the last one, the term."""
        return _edited(await directions.of_glossary(name).remove_term(name, source, target))

    @routes.post("/undo")
    async def undo(name: GlossaryName, body: UndoBody) -> GlossaryEdited:
        """Undo an edit by another one, which can be undone too."""
        return _edited(await directions.of_glossary(name).undo_commit(name, body.commit))


def _described(service: Service, glossary: Glossary) -> GlossaryInfo:
    languages = service.engine.model.languages
    return GlossaryInfo(
        name=glossary.name,
        terms=len(glossary),
        memory=glossary.name if glossary.name in service.engine.memories else None,
        source=languages and languages.source,
        target=languages and languages.target,
        editable=is_editable(glossary.file),
    )


def _has(term: Term, text: str) -> bool:
    """Tell whether a term has a text, without capitals."""
    return any(text in part.casefold() for part in (term.source, *term.targets, *term.forbidden, term.note, term.tag))


def _term(term: Term) -> TermAnswer:
    return TermAnswer(**{**asdict(term), "targets": list(term.targets), "forbidden": list(term.forbidden)})


def _changes(commit: GlossaryCommit) -> list[TermChangeAnswer]:
    return [
        TermChangeAnswer(before=change.before and _term(change.before), after=change.after and _term(change.after))
        for change in commit.changes
    ]


def _edited(edit: GlossaryEdit, warnings: tuple[str, ...] = ()) -> GlossaryEdited:
    return GlossaryEdited(
        glossary=edit.glossary,
        commit=None if edit.commit is None else edit.commit.commit,
        changes=[] if edit.commit is None else _changes(edit.commit),
        terms=edit.terms,
        warnings=list(warnings),
    )
