"""What is never split, whatever the language: addresses, tags, and the placeholders of software texts."""

from __future__ import annotations

import re

# Lengths are bounded where a pattern could otherwise look far ahead from every character of a long word.
_PROTECTED = re.compile(
    r"""(
      (?: (?:https?|ftp|file):// | www\. ) [!\#-;=?-~]* [\w/]   # an address, without the punctuation after it
    | [\w.+-]{1,64} @ [\w-]{1,63} (?: \. [\w-]{1,63} )+         # an e-mail address
    | </? [A-Za-z] [!-;=?-~]* >                                 # <b> </b> <br/>
    | & \#? \w{1,32} ;                                          # &amp; &#160;
    | \$ \{ [\w.]+ \} | \$ [A-Za-z_] \w*                        # ${name} $name
    | \{\{? [\w.:!-]* \}\}?                                     # {} {0} {name} {{name}}
    | % \( \w+ \) [a-z]                                         # %(name)s
    | (?<! [\w%] ) % (?: \d+\$ )? [-+\#0]* \d* (?: \.\d+ )? (?: hh? | ll? | [Lqjzt] )? [diouxXeEfFgGcsp] (?! \w )
    | (?<! [\w%] ) % \d+ (?! [\w%] )                            # %1 of KDE
    )""",
    re.VERBOSE | re.ASCII,
)


def cut_protected(text: str) -> list[str]:
    """Cut a text round what is protected: every second part, from the second on, must stay whole."""
    return _PROTECTED.split(text)
