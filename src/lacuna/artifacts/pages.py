"""Rendering of HTML pages from templates, with escaping, shared by reports and explanations."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

# Not allowed in HTML: control characters and lone surrogates.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def page_environment(package: str) -> Environment:
    """Return the Jinja environment of a package's templates; all values are escaped."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def own_file(environment: Environment, name: str) -> Markup:
    """Return a style sheet or script from the template folder, unescaped."""
    loader: Any = environment.loader
    text: str = loader.get_source(environment, name)[0]
    return Markup(text)  # noqa: S704 - our own file


def fit_for_html(page: str) -> str:
    """Replace characters that HTML does not allow by U+FFFD."""
    return _UNFIT.sub("\ufffd", page)
