"""Query to text: the canonical form, one clause per line, with as few parentheses as the language needs.

Invariant: `parse(to_text(query)) == query`. The rules live in `kleene.pattern.text`, below the language, so that patterns and
conditions can print themselves; this module is the public entry.
"""

from __future__ import annotations

from kleene.pattern.policies import LogicalQuery
from kleene.pattern.text import expression_text, pattern_text, query_text

__all__ = ["expression_text", "pattern_text", "to_text"]


def to_text(query: LogicalQuery) -> str:
    """A query as canonical text.

    >>> from kleene.language.parser import parse
    >>> print(to_text(parse("event A a where a.x==1 && a.y in (1,2) within 1.5 hours")))
    PATTERN A a
    WHERE a.x = 1 AND a.y IN (1, 2)
    WITHIN 1.5 hours
    """
    return query_text(query)
