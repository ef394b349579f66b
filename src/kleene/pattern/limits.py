"""Limits on the size of a query, which keep every recursive function over its trees, and its normal form, small."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kleene.pattern.operators import Conjunction, Disjunction, Pattern, Sequence
from kleene.pattern.predicates import Expression, children, walk

MAX_DEPTH = 100
"""Maximum depth of patterns and expressions: far below Python's recursion limit even at several calls per level."""

MAX_COMPONENTS = 60
"""Maximum number of components of a pattern: the components that an event can bind are bits of one integer."""

MAX_TEXT = 2_000_000
"""Maximum number of characters of a query: a million take some 4 seconds to parse."""

MAX_PARTS = 200_000
"""Maximum number of operators, attributes and constants in a query's conditions: 100,000 constants take some 7 seconds to
plan."""

MAX_LIKE = 10_000
"""Maximum number of characters of a LIKE pattern: Arrow compiles any of these, but none of several 100,000."""

BESIDE_EVENTS = "keep long lists out of the query: join the events with a table, and compare with one of its columns"
"""The hint for a query that is too large."""


def too_large(expressions: Iterable[Expression | None]) -> bool:
    """Whether expressions have more than MAX_PARTS operators, attributes and constants; without recursion."""
    parts = (node for expression in expressions if expression is not None for node in walk(expression))
    return next(islice(parts, MAX_PARTS, None), None) is not None


def too_deep(expression: Expression) -> Expression | None:
    """A node deeper than MAX_DEPTH, or None; without recursion.

    >>> from kleene.pattern.predicates import Literal
    >>> too_deep(Literal(1))
    """
    stack = [(expression, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            return node
        stack.extend((child, depth + 1) for child in children(node))
    return None


def too_deep_pattern(pattern: Pattern) -> bool:
    """Whether a pattern is nested deeper than MAX_DEPTH; without recursion."""
    stack = [(pattern, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            return True
        if isinstance(node, Sequence | Conjunction | Disjunction):
            stack.extend((part, depth + 1) for part in node.parts)
    return False
