"""What every page of HTML that we write has in common: templates beside the code, everything escaped, nothing unfit.

Knows nothing of what a page is about.
"""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

# What HTML cannot hold: control characters, and halves of surrogate pairs, which UTF-8 cannot hold either.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def page_environment(package: str) -> Environment:
    """Return what renders the templates of a package; every word that comes into them is escaped."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def own_file(environment: Environment, name: str) -> Markup:
    """Return a style or a script that stands beside the templates, as it is."""
    loader: Any = environment.loader
    text: str = loader.get_source(environment, name)[0]
    return Markup(text)  # noqa: S704 - our own file


def fit_for_html(page: str) -> str:
    """Put the sign for an unknown character in place of what HTML cannot hold."""
    return _UNFIT.sub("\ufffd", page)
