"""How large a query may be: bounds that keep every recursive function over its trees, and its normal form, small."""

from __future__ import annotations

from kleene.pattern.operators import Conjunction, Disjunction, Pattern, Sequence
from kleene.pattern.predicates import Expression, children

MAX_DEPTH = 100
"""Deepest tree of patterns or expressions: far below Python's recursion limit even at several calls per level."""

MAX_COMPONENTS = 60
"""Most components of a pattern: those that an event can bind are the bits of one integer."""


def too_deep(expression: Expression) -> Expression | None:
    """A node that lies deeper than MAX_DEPTH, or None; without recursion.

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
