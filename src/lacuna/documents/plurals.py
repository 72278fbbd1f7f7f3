"""Plural forms of languages: how many there are, and which text is the source of each.

A catalog in PO says for its language how many forms there are, and with a formula in C which number takes which. The
formulas of common languages are known here, for catalogs that do not say it. The plural categories of CLDR (one, few,
many), which other formats name instead, are not covered. Knows nothing of models and files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from gettext import c2py

from lacuna.corpora.placeholders import same_placeholders
from lacuna.formats.languages import base_language, normalize_language

_PLURAL_FORMS = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]+)")
_OFTEN = 5  # above this many numbers in 0 to 1000, msgfmt demands all placeholders of the plural, and so do we
_EAST_SLAVIC = "n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
# The formulas of the gettext manual, for templates and catalogs that have none of their own.
_FORMULAS = {
    "nplurals=1; plural=0;": "id ja ko lo ms my th vi zh",
    "nplurals=2; plural=(n != 1);": "af bg ca da de el en eo es et eu fi gl he hu it nb nl nn no pt sq sv sw tr ur",
    "nplurals=2; plural=(n > 1);": "fa fr hi hy pt-br",
    f"nplurals=3; plural=({_EAST_SLAVIC});": "be bs hr ru sr uk",
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);": "pl",
    "nplurals=3; plural=(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2);": "ro",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n!=0 ? 1 : 2);": "lv",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);": "ar",
}
_BY_LANGUAGE = {code: formula for formula, codes in _FORMULAS.items() for code in codes.split()}


@dataclass(frozen=True, slots=True)
class Plurals:
    """The plural forms of a language.

    :param one: The form for the number 1.
    :param rare: Whether that form is for few other numbers, so that it need not name the number.
    """

    forms: int
    one: int
    rare: bool

    @classmethod
    def parse(cls, field: str) -> Plurals | None:
        """Return what a header field describes, such as ``nplurals=2; plural=(n != 1);``; None if it is not valid."""
        match = _PLURAL_FORMS.search(field)
        if not match:
            return None
        forms = int(match[1])
        try:
            rule = c2py(match[2])
            numbers = [rule(number) for number in range(1001)]
        except (ValueError, ArithmeticError):
            return None
        # Ten forms are what one digit in msgstr[0] can name; languages have up to six.
        if not 1 <= forms <= 10 or min(numbers) < 0 or max(numbers) >= forms:
            return None
        return cls(forms, numbers[1], numbers.count(numbers[1]) <= _OFTEN)

    def sources(self, singular: str, plural: str) -> list[str]:
        """Return what to translate for each form.

        Where the form for 1 is also for 21, 31 ..., the text "one file" does not fit, but "%d file" does.
        """
        fits = self.forms > 1 and (self.rare or same_placeholders(singular, plural))
        return [singular if fits and form == self.one else plural for form in range(self.forms)]


def plural_forms_of(language: str) -> str | None:
    """Return the header field of a language, or of its base language; None if it is not known."""
    code = normalize_language(language)
    return _BY_LANGUAGE.get(code) or _BY_LANGUAGE.get(base_language(code))
