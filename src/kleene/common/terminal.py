"""Text for a terminal, with control characters escaped.

Names, values and queries may be untrusted. A terminal interprets some characters as commands (escape sequences move the cursor,
set titles, write to the clipboard), and some change the direction of the text around them.
"""

from __future__ import annotations

import re

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, except tabs and line ends
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # directions of writing
    "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f"  # line ends, annotations and invisible tags
    "\ud800-\udfff]"  # surrogates, which cannot be encoded
)


def is_text(text: str) -> bool:
    r"""Whether a text can be encoded as UTF-8: not if it has a lone surrogate, which escapes and file names may produce.

    >>> is_text("a\u00e9"), is_text("\ud83d")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    r"""The text with such characters escaped; tabs and line ends are kept.

    >>> print(printable("a\x1b[2Jb\u202ec"))
    a\x1b[2Jb\u202ec
    """
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "match", "matches"), plural(1200, "event")
    ('1 match', '1,200 events')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def masked(text: str) -> str:
    """The text with one placeholder for each such character, so that a caret below the text stays aligned."""
    return _OBEYED.sub("\ufffd", text)
