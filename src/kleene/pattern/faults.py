"""Conditions whose evaluation may fail: integers that leave 64 bits (semantics, "Errors of the data").

An error is a third outcome besides "holds" and "does not hold". Atoms of a condition fail; if an atom fails, neither it nor its
negation holds. AND and OR follow Kleene's logic, with the error in place of unknown: a deciding operand hides it. So a
condition *tolerates* errors if each atom counts as holding when it holds or fails; the condition fails if it holds with
tolerance and does not without.

Mechanisms treat a failing condition as one that does not hold, and record that one failed. An error of the answer is then a
match of one of the `faulty_queries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from kleene.common.schema import EventSchema, Kind
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import condition_of
from kleene.pattern.kinds import kind_of
from kleene.pattern.policies import Output

EXACT = (Kind.INTEGER, Kind.DURATION, Kind.TIMESTAMP)
"""Kinds of values that have 64 bits."""


def is_fallible(expression: p.Expression, schema: EventSchema) -> bool:
    """Whether evaluating an expression can leave 64 bits.

    >>> schema = EventSchema({"x": Kind.INTEGER, "y": Kind.FLOAT}, "x")
    >>> [is_fallible(p.Negate(p.Attribute("a", name)), schema) for name in "xy"]
    [True, False]
    """
    return any(_computes(node, schema) for node in p.walk(expression))


def _computes(node: p.Expression, schema: EventSchema) -> bool:
    if isinstance(node, p.Arithmetic):
        return node.operator in "+-*/" and kind_of(node, schema) in EXACT
    if isinstance(node, p.Aggregate) and node.name is not None:
        kind = kind_of(p.Attribute(node.variable, node.name), schema)
        if node.function is p.AggregateFunction.AVG:
            return kind is Kind.DURATION
        return node.function is p.AggregateFunction.SUM and kind in EXACT
    if isinstance(node, p.Negate) or (isinstance(node, p.Call) and node.registered is None and node.function == "abs"):
        return kind_of(node, schema) in EXACT
    return False


def may_fail(expression: p.Expression, schema: EventSchema, greatest: Callable[[str], float], count: int) -> bool:
    """Whether an expression may leave 64 bits, given the largest absolute value of each attribute and the largest number of
    elements.
    """
    limit = 2.0**63

    def size(node: p.Expression) -> float:
        """The largest possible absolute value; infinite if an intermediate value may not fit."""
        if isinstance(node, p.Attribute | p.Aggregate):
            own = greatest(node.name) if node.name is not None and schema.columns[node.name] in EXACT else 0.0
            return own * count if isinstance(node, p.Aggregate) and node.function is p.AggregateFunction.SUM else own
        if isinstance(node, p.Literal):
            if isinstance(node.value, timedelta):
                return abs(node.value) / timedelta(microseconds=1) * 1e3
            return float(abs(node.value)) if isinstance(node.value, int | float) else 0.0
        parts = [size(child) for child in p.children(node)]
        found = max(parts, default=0.0)
        if isinstance(node, p.Arithmetic) and node.operator in "+-":
            found = sum(parts)
        elif isinstance(node, p.Arithmetic) and node.operator == "*":
            found = parts[0] * parts[1]
        return found if found < limit else float("inf")

    return is_fallible(expression, schema) and size(expression) >= limit / 2


def tolerant(condition: p.Expression, schema: EventSchema) -> p.Expression:
    """The condition that holds where the given one holds or fails."""
    condition = p.push_not(condition)
    if isinstance(condition, p.And | p.Or):
        return type(condition)(tuple(tolerant(operand, schema) for operand in condition.operands))
    return p.Or((condition, p.Fails(condition))) if is_fallible(condition, schema) else condition


def is_atom(condition: p.Expression) -> bool:
    """Whether a condition is neither AND nor OR, nor the negation of one."""
    condition = p.push_not(condition)
    inner = condition.operand if isinstance(condition, p.Not) else condition
    return not isinstance(inner, p.And | p.Or | p.Not)


def fallible_conjuncts(bound: BoundQuery) -> tuple[p.Expression, ...]:
    """The conjuncts that can fail."""
    return tuple(item for item in bound.conjuncts if is_fallible(item, bound.schema))


def faulty_queries(bound: BoundQuery) -> Iterator[tuple[BoundQuery, p.Expression | None]]:
    """Queries whose matches are errors: one for each conjunct on positive components that can fail, without NON-OVERLAP. Some
    have an additional condition that must also fail for some of the elements it quantifies over.
    """
    negative = {event.variable for event in bound.components if event.negated}
    kleene = frozenset(event.variable for event in bound.components if event.is_kleene)
    asked = tuple(item if p.variables(item) & negative else tolerant(item, bound.schema) for item in bound.conjuncts)
    plain = replace(bound, query=replace(bound.query, output=Output.ALL), conjuncts=asked)
    for item in fallible_conjuncts(bound):
        read = p.variables(item)
        branches = tuple(branch for branch in bound.branches if read <= {event.variable for event in branch.positives})
        if read & negative or not branches:
            continue
        present = {event.variable for branch in branches for event in branch.positives}
        present |= {other.event.variable for branch in branches for other in branch.negatives}
        here = tuple(other for other in asked if p.variables(other) <= present)
        if condition_of(item, kleene).quantified:
            yield replace(plain, branches=branches, conjuncts=here), p.Fails(item)
        else:
            yield replace(plain, branches=branches, conjuncts=(*here, p.Fails(item))), None


def forbidding_queries(bound: BoundQuery) -> tuple[BoundQuery, BoundQuery] | None:
    """The query, and a variant in which failing events also forbid: if the variant has fewer matches, that is an error. None if
    no condition of a negative component can fail.
    """
    negative = {event.variable for event in bound.components if event.negated}
    if not any(p.variables(item) & negative for item in fallible_conjuncts(bound)):
        return None
    plain = replace(bound, query=replace(bound.query, output=Output.ALL))
    asked = tuple(tolerant(item, bound.schema) if p.variables(item) & negative else item for item in bound.conjuncts)
    return plain, replace(plain, conjuncts=asked)
