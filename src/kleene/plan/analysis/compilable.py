"""Which predicates can be compiled into a block filter, and which are left to selection.

Comparisons, arithmetic and logic compile; a sub-expression that reads one event only (a string function, LIKE) becomes a column
that is computed once per event. What reads several events through anything else is decided by selection.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TypeGuard

from kleene.common.errors import LimitError, Problem
from kleene.common.schema import EventSchema, Kind
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import condition_of
from kleene.pattern.kinds import kind_of
from kleene.pattern.moments import FineMoment, nanoseconds_of
from kleene.plan.limits import Limits

COMPILED = (
    p.Attribute, p.Literal, p.Arithmetic, p.Negate, p.Comparison, p.In, p.Between, p.IsNull, p.Not, p.And, p.Or,
    p.Fails,
)  # fmt: skip

SEARCHED = 17
"""IN lists of this many constants are searched; shorter ones are compared one by one, which is faster."""


def require_compilable(bound: BoundQuery, limits: Limits) -> None:
    """Refuses conditions between events that would take long to compile, in every process that runs the query.

    Time grows faster than their size, and is longer for lazy plans: of 100 different operators and attributes it is some 1 to 3
    seconds, of 500 some 10 to 30.
    """
    kleene = frozenset(event.variable for event in bound.components if event.is_kleene)
    positive = {event.variable for event in bound.components if not event.negated}
    conditions = [condition_of(item, kleene) for item in bound.conjuncts]
    asked = [item.expression for item in conditions if item.variables <= positive and not item.is_simple]
    size = compiled_size(asked)
    if size > limits.condition:
        message = (
            f"query '{bound.query.name}' has conditions between events of {size:,} different operators and attributes; "
            f"the limit is {limits.condition:,}"
        )
        hint = (
            "compare with IN (...) or BETWEEN, or with a column of the events that is computed beforehand; or raise "
            "limits={'condition': ...}: they are compiled in every process"
        )
        raise LimitError(Problem(message, hint=hint))


def compiled_size(expressions: Iterable[p.Expression]) -> int:
    """How many different operators and attributes of expressions are compiled; constants are read, and cost little.

    >>> x, y = p.Attribute("a", "x"), p.Attribute("b", "x")
    >>> total = p.Arithmetic("+", x, y)
    >>> compiled_size([p.Comparison("<", total, p.Literal(1)), p.Comparison("<", total, p.Literal(2))])
    5
    """
    found: set[p.Expression] = set()
    stack = list(expressions)
    while stack:
        node = stack.pop()
        if isinstance(node, p.Literal) or node in found:
            continue
        found.add(node)
        if isinstance(node, p.In) and not is_searched(node):
            stack.extend(p.Comparison("=", node.operand, item) for item in p.children(node) if item is not node.operand)
        elif not is_column(node):
            stack.extend(p.children(node))
    return len(found)


def is_searched(node: p.In) -> bool:
    """Whether an IN list is searched."""
    return isinstance(node.items, tuple) and len(node.items) >= SEARCHED and is_searchable(node.items)


def is_searchable(items: Sequence[p.Expression]) -> bool:
    """Whether all items of an IN list are constants of one kind that have 64 bits; some may be NULL."""
    if not all(isinstance(item, p.Literal) for item in items) or any(map(needs_range, items)):
        return False
    values = [item.value for item in items if isinstance(item, p.Literal) and item.value is not None]
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values):
        return all(isinstance(value, float) or -(2**63) <= value < 2**63 for value in numbers)
    return len({type(value) for value in values}) == 1


def needs_range(node: p.Expression) -> TypeGuard[p.Literal]:
    """Whether an expression is a constant time that columns of microseconds or of nanoseconds cannot hold."""
    if not isinstance(node, p.Literal):
        return False
    if isinstance(node.value, dt.datetime | dt.timedelta):
        return not -(2**63) <= nanoseconds_of(node.value) < 2**63
    return isinstance(node.value, FineMoment)


def compilable(predicate: p.Expression, schema: EventSchema) -> bool:
    """Whether a block filter can decide the predicate.

    >>> schema = EventSchema({"ts": Kind.INTEGER, "x": Kind.INTEGER}, time="ts")
    >>> compilable(p.Comparison("<", p.Attribute("a", "x"), p.Attribute("b", "x")), schema)
    True
    """
    if is_column(predicate):
        return True
    if not isinstance(predicate, COMPILED) or _scales_duration(predicate, schema) or _adds_fine(predicate):
        return False
    return all(compilable(child, schema) for child in p.children(predicate))


def _scales_duration(node: p.Expression, schema: EventSchema) -> bool:
    """Whether a duration is multiplied or divided: its rounding to microseconds is not compiled."""
    if not isinstance(node, p.Arithmetic) or node.operator not in "*/":
        return False
    return Kind.DURATION in (kind_of(node.left, schema), kind_of(node.right, schema))


def _adds_fine(node: p.Expression) -> bool:
    """Whether a moment finer than a microsecond is computed with: its unit is not that of the columns of a filter."""
    return isinstance(node, p.Arithmetic) and any(
        isinstance(side, p.Literal) and isinstance(side.value, FineMoment) for side in (node.left, node.right)
    )


def is_column(expression: p.Expression) -> bool:
    """Whether a block filter reads the expression as a column computed from single events."""
    if isinstance(expression, p.Attribute):
        return True
    return not isinstance(expression, COMPILED) and len(p.variables(expression)) == 1


def run_compilable(predicate: p.Expression, schema: EventSchema) -> bool:
    """Whether the filter of an automaton can decide the predicate on its runs."""
    if is_run_column(predicate) or isinstance(predicate, p.Length):
        return True
    if isinstance(predicate, p.Aggregate):
        return predicate.function is not p.AggregateFunction.AVG or kind_of(predicate, schema) is not Kind.DURATION
    if not isinstance(predicate, COMPILED) or _scales_duration(predicate, schema) or _adds_fine(predicate):
        return False
    return all(run_compilable(child, schema) for child in p.children(predicate))


def is_run_column(expression: p.Expression) -> bool:
    """Whether the expression is computed from one event of a run, so that it is a column of the events."""
    if isinstance(expression, p.Attribute):
        return True
    nodes = list(p.walk(expression))
    if isinstance(expression, COMPILED) or any(isinstance(node, p.Aggregate | p.Length) for node in nodes):
        return False
    return len({(node.variable, node.element) for node in nodes if isinstance(node, p.Attribute)}) == 1


def element_compilable(predicate: p.Expression, schema: EventSchema) -> bool:
    """Whether a filter can decide the predicate on single events, elements of Kleene variables among them."""
    whole = any(isinstance(node, p.Aggregate | p.Length) for node in p.walk(predicate))
    return not whole and run_compilable(predicate, schema)
