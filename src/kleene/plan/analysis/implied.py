"""Comparisons that follow from others: a.x < b.x and b.x < c.x imply a.x < c.x.

A condition between a and c is worth having when c is bound before b: it ends partial matches that no b can complete. It changes
no result, so it is used only until its middle is bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from kleene.pattern.bound import BoundQuery
from kleene.pattern.kinds import kind_of
from kleene.pattern.predicates import Attribute, Comparison, Element, Expression, mirrored
from kleene.plan.analysis.keys import always_has

Node = tuple[str, str]
"""(variable, attribute)."""


MOST_IMPLIED = 16


@dataclass(frozen=True, slots=True)
class Implied:
    """A comparison that follows from others, and the variables of the events between."""

    expression: Expression
    via: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Path:
    strict: bool
    via: tuple[str, ...]


def implied_comparisons(bound: BoundQuery, conjuncts: tuple[Expression, ...]) -> tuple[Implied, ...]:
    """What follows from the conjuncts by one or more steps, at most one comparison per pair of attributes.

    Only between attributes of one kind that every type of their components has: a predicate on an attribute that a type lacks
    holds by definition, and implies nothing; and numbers of two kinds are compared with rounding.
    """
    paths: dict[tuple[Node, Node], _Path] = {}
    for conjunct in conjuncts:
        for left, right, strict in _edges(bound, conjunct):
            known = paths.get((left, right))
            paths[left, right] = _Path(strict or (known is not None and known.strict), ())
    direct = set(paths)
    nodes = sorted({node for pair in paths for node in pair})
    for middle in nodes:
        for left in nodes:
            for right in nodes:
                first, second = paths.get((left, middle)), paths.get((middle, right))
                if first is None or second is None or len({left, middle, right}) < 3:
                    continue
                found = _Path(first.strict or second.strict, (*first.via, middle[0], *second.via))
                known = paths.get((left, right))
                if known is None or (found.strict and not known.strict and (left, right) not in direct):
                    paths[left, right] = found
    implied = []
    for (left, right), path in sorted(paths.items()):
        if (left, right) in direct or left[0] == right[0] or {left[0], right[0]} & set(path.via):
            continue
        operator = "<" if path.strict else "<="
        expression = Comparison(operator, Attribute(*left), Attribute(*right))
        implied.append(Implied(expression, frozenset(path.via)))
    return tuple(implied[:MOST_IMPLIED])


def _edges(bound: BoundQuery, conjunct: Expression) -> list[tuple[Node, Node, bool]]:
    """(smaller, larger, strictly) as the conjunct says."""
    if not isinstance(conjunct, Comparison) or conjunct.operator == "!=":
        return []
    conjunct = mirrored(conjunct) if conjunct.operator in (">", ">=") else conjunct
    left, right = conjunct.left, conjunct.right
    if not isinstance(left, Attribute) or not isinstance(right, Attribute) or left.variable == right.variable:
        return []
    for attribute in (left, right):
        component = bound.component(attribute.variable)
        if attribute.element is not Element.SINGLE or not always_has(bound, component, attribute.name):
            return []
    if kind_of(left, bound.schema) is not kind_of(right, bound.schema):
        return []
    one, other = (left.variable, left.name), (right.variable, right.name)
    if conjunct.operator == "=":
        return [(one, other, False), (other, one, False)]
    return [(one, other, conjunct.operator == "<")]
