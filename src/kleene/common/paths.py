"""Names as parts of paths: a query may have any name, and its files stay in the given folder.

Letters and digits of any script, spaces and most signs are kept. Characters that lead elsewhere, hide a file or mean something
to readers of paths (`/`, a dot or an underscore at the beginning, `*`, a line break) are percent-encoded, so different names
give different parts.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable

from kleene.common.errors import BindingError, Problem

LONGEST = 180
"""Maximum bytes of a name in a path: file systems allow 255, including suffixes."""

_MEANINGFUL = frozenset('/\\:*?"<>|%{}[]~')
"""Characters with a meaning for file systems, for glob patterns, or here."""


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
    """The part of a path for each name; names that differ only in case are refused, since some file systems ignore it.

    >>> path_segments(["a", "b/c"])
    {'a': 'a', 'b/c': 'b%2Fc'}
    """
    found: dict[str, str] = {}
    known: dict[str, str] = {}
    for name in names:
        found[name] = path_segment(name)
        other = known.setdefault(unicodedata.normalize("NFKC", found[name]).casefold(), name)
        if other != name:
            message = f"'{other}' and '{name}' would have the same path on a file system that ignores case"
            raise BindingError(Problem(message, hint="rename one of them, or give each its own folder"))
    return found


def _encoded(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode(errors="surrogatepass"))
