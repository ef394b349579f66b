"""Queries that change while a stream runs: a numbered snapshot of all of them, and the snapshot that follows it.

A query's version starts at 1 and increases with every change of its text. A removed query that is added again continues the
count, even with the same text, since its state is gone. White space and comments before and after the text are not a change,
nor is pausing. The number of the snapshot increases with every difference.

A snapshot is complete. As JSON it is the offset of a stream of rules (`kleene.runtime.spark.stream.rules`): a retried
micro-batch sees the same rules, whatever the files are by then.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kleene.common.errors import Problem, StateError

FORMAT = 2
READ = (1, 2)
"""Formats that are read; the first has no digest."""

_PIECE = re.compile(  # linear: an unclosed piece extends to the end
    r"""(?P<blank>[\s\ufeff\u200b]+|--[^\n]*|//[^\n]*|/\*.*?\*/)|/\*.*"""
    r"""|'[^']*'?|‘[^’]*’?|“[^”]*”?|`[^`]*`?|"[^"]*"?|[^\s\ufeff\u200b/'‘“`"-]+|.""",  # noqa: RUF001 - the language's quotation marks
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One query in a snapshot."""

    text: str
    version: int = 1
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """A snapshot of all queries by name."""

    version: int = 0
    """0 before anything was read."""
    queries: Mapping[str, Rule] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    """The last version of each removed query."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Read errors by query, or by source if none of it could be read; known queries are kept unchanged."""

    def as_dict(self) -> dict[str, Any]:
        """The snapshot for JSON: nested dictionaries of strings, numbers and booleans."""
        content = asdict(self)
        return {"format": FORMAT, "digest": _digest(content), **content}


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of reading the source of rules once."""

    queries: Mapping[str, tuple[str, bool]]
    """The text of each query, and whether it is paused."""
    held: frozenset[str] = frozenset()
    """Queries that exist but could not be read: they stay unchanged."""
    partial: bool = False
    """Whether the source may have more queries than were read: then none is removed."""
    problems: Mapping[str, str] = field(default_factory=dict)


def parse_rules(text: str) -> Rules:
    """The snapshot from its JSON.

    >>> rules = rules_after(Rules(), Seen({"pairs": ("PATTERN SEQ(A a, B b)", False)}))
    >>> parse_rules(json.dumps(rules.as_dict())) == rules
    True
    """
    try:
        return rules_of(json.loads(text))
    except (RecursionError, ValueError) as error:
        raise _unknown(str(error)) from error


def rules_of(value: Any) -> Rules:
    """The snapshot from the dictionary that `Rules.as_dict` gives.

    >>> rules_of({"format": 3})
    Traceback (most recent call last):
    ...
    kleene.common.errors.StateError: cannot read the snapshot of rules: its format is 3, and this version of Kleene reads 1, 2
      hint: use the version of Kleene that wrote the checkpoint, or start with a new checkpoint
    """
    found = value.get("format") if isinstance(value, dict) else None
    if type(found) is not int or found not in READ:
        raise _unknown(f"its format is {found}, and this version of Kleene reads {', '.join(map(str, READ))}")
    content = {name: item for name, item in value.items() if name not in ("format", "digest")}
    if value.get("digest") != (None if found == 1 else _digest(content)):
        raise _unknown("it is damaged: its digest does not match")
    try:
        return _read(**content)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise _unknown(f"it is damaged ({error})") from error


def _read(version: Any, queries: Any, removed: Any, problems: Any) -> Rules:
    """A snapshot from its JSON, if all values are valid."""
    rules = {name: Rule(**rule) for name, rule in queries.items()}
    numbers = [version, *removed.values(), *(rule.version for rule in rules.values())]
    if not all(type(item) is int and item >= 0 for item in numbers):
        raise ValueError("a version is not a number")
    if not all(isinstance(item, str) for item in (*problems.values(), *(rule.text for rule in rules.values()))):
        raise ValueError("a query or a problem is not text")
    if not all(isinstance(rule.paused, bool) for rule in rules.values()):
        raise ValueError("'paused' is neither true nor false")
    return Rules(version, rules, removed, problems)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def rules_after(rules: Rules, seen: Seen) -> Rules:
    """The snapshot after reading the source: the same object if nothing has changed.

    >>> first = rules_after(Rules(), Seen({"pairs": ("PATTERN SEQ(A a, B b)", False)}))
    >>> second = rules_after(first, Seen({"pairs": ("PATTERN SEQ(A a, C c) -- new", False)}))
    >>> second.version, second.queries["pairs"].version
    (2, 2)
    >>> rules_after(second, Seen({"pairs": ("PATTERN SEQ(A a, C c)", False)})) is second
    True
    """
    queries = {name: rule for name, rule in rules.queries.items() if name in seen.held or seen.partial}
    queries |= {name: _rule_after(rules, name, text, paused) for name, (text, paused) in seen.queries.items()}
    last = {**rules.removed, **{name: rule.version for name, rule in rules.queries.items()}}
    removed = {name: version for name, version in last.items() if name not in queries}
    found = Rules(
        rules.version, dict(sorted(queries.items())), dict(sorted(removed.items())), dict(sorted(seen.problems.items()))
    )
    return rules if found == rules else replace(found, version=rules.version + 1)


def query_core(text: str) -> str:
    """The text without leading and trailing white space and comments.

    >>> query_core("-- pairs\\nPATTERN SEQ(A a, B b) -- of\\n WHERE a.x = '-- 1' /* not\\n 2 */ // yet")
    "PATTERN SEQ(A a, B b) -- of\\n WHERE a.x = '-- 1'"
    """
    spans = [piece.span() for piece in _PIECE.finditer(text) if piece["blank"] is None]
    return text[spans[0][0] : spans[-1][1]] if spans else ""


def _rule_after(rules: Rules, name: str, text: str, paused: bool) -> Rule:
    known = rules.queries.get(name)
    if known is None:
        return Rule(text, rules.removed.get(name, 0) + 1, paused)
    if text == known.text or query_core(text) == query_core(known.text):
        return replace(known, paused=paused)
    return Rule(text, known.version + 1, paused)


def _unknown(reason: str) -> StateError:
    hint = "use the version of Kleene that wrote the checkpoint, or start with a new checkpoint"
    return StateError(Problem(f"cannot read the snapshot of rules: {reason}", hint=hint))
