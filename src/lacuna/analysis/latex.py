"""Writing tables for LaTeX, with booktabs. Knows strings only: what they mean is for the caller to say.

Nothing in a text can act as a command. Text beyond Latin letters is left as it is and needs XeLaTeX or LuaLaTeX.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

OPEN, CLOSE = "⟦", "⟧"

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # By number, since babel may give the characters themselves another meaning.
    '"': r"{\char34}",
    "`": r"{\char96}",
    # Bare, they would be taken for an option of the line break before them.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
} | {character: f"\\{character}" for character in "%_&#${}"}
_ESCAPES = str.maketrans(_SPECIAL)
_UNDERLINED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
# TeX would join these into a dash, a closing or a low quotation mark.
_JOINED = re.compile(r"([-',])(?=\1)")


def escape(text: str) -> str:
    """Write a text so that it is set as it stands, on one line; ``⟦stretches⟧`` are underlined."""
    parts = _UNDERLINED.split(_one_line(text))
    return "".join(
        rf"\underline{{{_plain(part)}}}" if number % 2 else _plain(part) for number, part in enumerate(parts)
    )


def table(
    caption: str, label: str, columns: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str
) -> str:
    """Put a table together, of parts that are LaTeX already.

    :param columns: As ``tabular`` takes them: ``lrr``.
    """
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _row(header),
        r"\midrule",
        *map(_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
        *([rf"\par\smallskip{{\footnotesize {note}\par}}"] if note else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _one_line(text: str) -> str:
    """Turn line breaks and control characters, which TeX refuses, into single spaces."""
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in text).split())


def _plain(text: str) -> str:
    unpaired = text.replace(OPEN, "[[").replace(CLOSE, "]]")
    return _JOINED.sub(r"\1{}", unpaired.translate(_ESCAPES))
