"""Limits on the size of a query, which keep every recursive function over its trees, and its normal form, small."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from kleene.pattern.predicates import Expression, walk

Tree = TypeVar("Tree")

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


def too_deep(tree: Tree, children: Callable[[Tree], Iterable[Tree]]) -> Tree | None:
    """A node deeper than MAX_DEPTH of a pattern or an expression, or None; without recursion.

    >>> from kleene.pattern.predicates import Literal, children
    >>> too_deep(Literal(1), children)
    """
    stack = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            return node
        stack.extend((child, depth + 1) for child in children(node))
    return None
