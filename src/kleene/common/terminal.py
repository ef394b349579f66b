"""Text on its way to a terminal: what a terminal would obey is shown instead.

Names, values and queries come from anywhere. A terminal takes some characters for commands (escape sequences move the cursor,
set titles, write to the clipboard), and some change the order in which the others are read.
"""

from __future__ import annotations

import re

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tabs and ends of lines
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # directions of writing
    "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f"  # ends of lines, annotations and tags that nobody sees
    "\ud800-\udfff]"  # halves of characters, which cannot be written
)


def is_text(text: str) -> bool:
    r"""Whether a text can be written as UTF-8: not if it has half of a pair of surrogates, as escapes and file names may make.

    >>> is_text("a\u00e9"), is_text("\ud83d")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    r"""The text with such characters as escapes; tabs and ends of lines stay.

    >>> print(printable("a\x1b[2Jb\u202ec"))
    a\x1b[2Jb\u202ec
    """
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def masked(text: str) -> str:
    """The same with one sign for each of them, so that what is below the text stays where it is."""
    return _OBEYED.sub("\ufffd", text)
