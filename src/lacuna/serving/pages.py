"""The web page and the page about the API: files that come with the package, and nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

_FOLDER = Path(__file__).with_name("page")
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_ADDRESSES = {"index.html": "/", "docs.html": "/docs"}


def make_page_routes() -> APIRouter:
    """Make a route for each file."""
    routes = APIRouter(include_in_schema=False)
    for file in sorted(_FOLDER.iterdir()):
        if file.suffix in _TYPES:
            address = _ADDRESSES.get(file.name, f"/page/{file.name}")
            routes.add_api_route(address, _giving(file.read_bytes(), _TYPES[file.suffix]), methods=["GET"])
    return routes


def _giving(content: bytes, kind: str) -> Callable[[], Response]:
    def give() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return give
