"""An explanation as one page of HTML that needs nothing else: no file, no network, no script.

Every word from memories and users is escaped by the template engine.
"""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lacuna.explaining.records import Explanation

# What HTML cannot hold: control characters, and halves of surrogate pairs, which UTF-8 cannot hold either.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def render_page(explanation: Explanation, *, text_with: str | None = None) -> str:
    """Write the page.

    :param text_with: The translation with the sentences that ``explanation.without`` leaves out.
    """
    environment = Environment(
        loader=PackageLoader("lacuna.explaining"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    loader: Any = environment.loader
    style: str = loader.get_source(environment, "style.css")[0]
    page = environment.get_template("explanation.html").render(
        explanation=explanation,
        text_with=text_with,
        style=Markup(style),  # noqa: S704 - our own file
    )
    return _UNFIT.sub("\ufffd", page)
