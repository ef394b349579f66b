"""Names as parts of paths: a query may be named anything, and its files stay in the folder that was given.

Letters and digits of any script, spaces and most signs are as they are. What leads elsewhere, hides a file or means something
to those who read paths (`/`, a dot or an underscore at the beginning, `*`, a line break) is percent-encoded, so different names
have different parts of paths.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable

from kleene.common.errors import BindingError, Problem

LONGEST = 180
"""Bytes of a name in a path: file systems take 255, with what is put behind it."""

_MEANINGFUL = frozenset('/\\:*?"<>|%{}[]~')
"""To a file system, to those who look for files by patterns, and here."""


def path_segment(name: str) -> str:
    """A name as one part of a path.

    >>> path_segment("pairs"), path_segment("über 3 Räume"), path_segment("../../escaped"), path_segment("_hidden")
    ('pairs', 'über 3 Räume', '%2E.%2F..%2Fescaped', '%5Fhidden')
    """
    last = len(name) - 1
    found = "".join(
        _encoded(sign)
        if sign in _MEANINGFUL or not sign.isprintable() or (at == 0 and sign in "._ ") or (at == last and sign in ". ")
        else sign
        for at, sign in enumerate(name)
    )
    if len(found.encode()) <= LONGEST:
        return found or "%"
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{found.encode()[: LONGEST - 17].decode(errors='ignore')}~{digest}"


def path_segments(names: Iterable[str]) -> dict[str, str]:
    """The part of a path of each name; names whose files would be the same where case does not count are refused.

    >>> path_segments(["a", "b/c"])
    {'a': 'a', 'b/c': 'b%2Fc'}
    """
    found: dict[str, str] = {}
    known: dict[str, str] = {}
    for name in names:
        found[name] = path_segment(name)
        other = known.setdefault(unicodedata.normalize("NFKC", found[name]).casefold(), name)
        if other != name:
            message = f"'{other}' and '{name}' would be written to the same place where case does not count"
            raise BindingError(Problem(message, hint="rename one of them, or give each a folder of its own"))
    return found


def _encoded(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode(errors="surrogatepass"))
