"""Which conditions bound what an event may be by the events around it: `a.x + 1 < b.y` leaves a range of `b.y` to each a.

A comparison of a value of one event with a value of others is decided by two numbers, however many events there are: so the
events in question can be looked up by their values instead of one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kleene.common.errors import BindingError
from kleene.common.schema import Kind
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import condition_of
from kleene.pattern.kinds import kind_of
from kleene.plan.analysis.keys import always_has

MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

COUNTED = (Kind.INTEGER, Kind.TIMESTAMP, Kind.DURATION)
"""Kinds whose values are compared as integers."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A comparison `own operator other`: the one side reads the event in question, the other one other events."""

    own: p.Expression
    operator: str
    other: p.Expression
    scale: Kind
    """What the two are compared as: INTEGER, FLOAT, or STRING, of which only equality is one."""
    magnitude: p.Expression | None = None
    """Of floats that were moved to the other side, where they are rounded in another way: the sum of their absolute values."""


def narrowings(bound: BoundQuery, conjunct: p.Expression, variable: str, *, moving: bool = False) -> tuple[Narrowing, ...]:
    """The comparisons that a conjunct consists of, as ranges for the event of a variable; none if it says anything else.

    `moving` what is added to a value of the event to the other side: `b.x - a.x > 5` is a range of b.x, and values compared
    with an offset are the same values; so are its errors, unless the conjunct leaves 64 bits for some of the events.

    Not of what an event's type may lack, where the conjunct holds by definition, nor of each element of a list, nor of
    functions of users, which are called for the events that they are meant for.
    """
    kleene = frozenset(event.variable for event in bound.components if event.is_kleene)
    for node in p.walk(conjunct):
        if isinstance(node, p.Call) and node.registered is not None:
            return ()
        if isinstance(node, p.Attribute | p.Aggregate) and node.name is not None:
            if not always_has(bound, bound.component(node.variable), node.name):
                return ()
    if condition_of(conjunct, kleene).quantified:
        return ()
    found = []
    for operator, left, right in _comparisons(conjunct):
        own, other = left, right
        if variable not in p.variables(left):
            operator, own, other = MIRRORED[operator], right, left
        moved = _moved(bound, operator, own, other, variable) if moving else None
        if moved is None and (p.variables(own) != {variable} or variable in p.variables(other)):
            return ()
        operator, own, other, magnitude = moved or (operator, own, other, None)
        scale = _scale(bound, operator, own, other)
        if scale is None:
            return ()
        found.append(Narrowing(own, operator, other, scale, magnitude if scale is Kind.FLOAT else None))
    return tuple(found)


def _comparisons(conjunct: p.Expression) -> Iterator[tuple[str, p.Expression, p.Expression]]:
    """The comparisons that are together what the conjunct says."""
    if isinstance(conjunct, p.Comparison) and conjunct.operator in MIRRORED:
        yield conjunct.operator, conjunct.left, conjunct.right
    elif isinstance(conjunct, p.Between):
        yield ">=", conjunct.operand, conjunct.low
        yield "<=", conjunct.operand, conjunct.high


def _moved(
    bound: BoundQuery, operator: str, left: p.Expression, right: p.Expression, variable: str
) -> tuple[str, p.Expression, p.Expression, p.Expression] | None:
    """A comparison with a value of one event alone on the left, and the sum of the absolute values on the right; None if there
    is nothing to move.
    """
    terms = [*_terms(left, variable, 1), *_terms(right, variable, -1)]
    own = [(sign, term) for sign, term in terms if variable in p.variables(term)]
    if len(own) != 1 or p.variables(own[0][1]) != {variable} or own[0][1] is left:
        return None
    ((side, value),) = own
    others = [(-side * sign, term) for sign, term in terms if term is not value]
    if any(kind_of(term, bound.schema) not in (*COUNTED, Kind.FLOAT) for _, term in others):
        return None
    # Times before durations, and what is added before what is taken off: a sum that can be written.
    others.sort(key=lambda item: (-item[0], kind_of(item[1], bound.schema) is not Kind.TIMESTAMP))
    total = others[0][1] if others[0][0] > 0 else p.Negate(others[0][1])
    for sign, term in others[1:]:
        total = p.Arithmetic("+" if sign > 0 else "-", total, term)
    magnitude: p.Expression = p.Literal(0.0)
    if all(kind_of(term, bound.schema).is_number for _, term in others):
        for _, term in others:
            magnitude = p.Arithmetic("+", magnitude, p.Call("abs", (term,)))
    try:
        kind_of(p.Comparison("=", value, total), bound.schema)
    except BindingError:  # a time with its sign turned
        return None
    return (operator if side > 0 else MIRRORED[operator]), value, total, magnitude


def _terms(node: p.Expression, variable: str, sign: int) -> Iterator[tuple[int, p.Expression]]:
    """What an expression adds up, by sign, down to what does not read the variable."""
    if variable in p.variables(node) and isinstance(node, p.Negate):
        yield from _terms(node.operand, variable, -sign)
    elif variable in p.variables(node) and isinstance(node, p.Arithmetic) and node.operator in "+-":
        yield from _terms(node.left, variable, sign)
        yield from _terms(node.right, variable, sign if node.operator == "+" else -sign)
    else:
        yield sign, node


def _scale(bound: BoundQuery, operator: str, left: p.Expression, right: p.Expression) -> Kind | None:
    one, other = kind_of(left, bound.schema), kind_of(right, bound.schema)
    if one.is_number and other.is_number and Kind.FLOAT in (one, other):
        return Kind.FLOAT
    if one is not other:
        return None
    if one in COUNTED:
        return Kind.INTEGER
    return Kind.STRING if one is Kind.STRING and operator == "=" else None
