"""An explanation as one page of HTML that needs nothing else: no file, no network, no script.

Every word from memories and users is escaped by the template engine.
"""

from __future__ import annotations

from lacuna.explaining.records import Explanation
from lacuna.pages import fit_for_html, own_file, page_environment


def render_page(explanation: Explanation, *, text_with: str | None = None) -> str:
    """Write the page.

    :param text_with: The translation with the sentences that ``explanation.without`` leaves out.
    """
    environment = page_environment("lacuna.explaining")
    page = environment.get_template("explanation.html").render(
        explanation=explanation,
        text_with=text_with,
        style=own_file(environment, "style.css"),
    )
    return fit_for_html(page)
