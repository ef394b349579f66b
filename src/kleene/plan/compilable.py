"""Which predicates can be compiled into a block filter, and which are left to selection.

Comparisons, arithmetic and logic compile; a sub-expression that reads one event only (a string function, LIKE) becomes a column
that is computed once per event. What reads several events through anything else is decided by selection.
"""

from __future__ import annotations

from kleene.common.schema import EventSchema, Kind
from kleene.pattern import predicates as p
from kleene.pattern.kinds import kind_of
from kleene.pattern.moments import FineMoment

COMPILED = (
    p.Attribute, p.Literal, p.Arithmetic, p.Negate, p.Comparison, p.In, p.Between, p.IsNull, p.Not, p.And, p.Or,
    p.Fails,
)  # fmt: skip


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
