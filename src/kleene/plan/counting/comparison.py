"""A comparison of two neighbours in a sequence, which counters can answer: all else that compares events is matched.

Of `a.x < b.x` it is enough to know how many values of live events `a` are below that of an event `b`, and the other way round
when `a` expires (`kleene.engine.counting.pairs`). That holds for any comparison of a value of one event with a value of the
next, as long as there is only one, and what is added up can be taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kleene.common.schema import Kind
from kleene.pattern.bound import BoundQuery
from kleene.pattern.faults import is_fallible
from kleene.pattern.kinds import kind_of
from kleene.pattern.predicates import Attribute, Call, Comparison, Expression, variables, walk
from kleene.pattern.text import expression_text
from kleene.plan.analysis.keys import always_has

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Compared:
    """`left operator right`, of which the one reads the event at a place of a sequence (from 0), the other one the next."""

    place: int
    operator: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return expression_text(Comparison(self.operator, self.left, self.right))


def comparison_of(bound: BoundQuery, between: Sequence[Expression]) -> Compared | None:
    """The only condition between events, if it compares a value of an event of a sequence with a value of the next."""
    if len(between) != 1 or len(bound.branches) != 1 or not isinstance(condition := between[0], Comparison):
        return None
    sides = variables(condition.left), variables(condition.right)
    for place, neighbours in enumerate(pairwise(frozenset({event.variable}) for event in bound.branches[0].positives)):
        if sides == neighbours:
            return Compared(place, condition.operator, condition.left, condition.right)
        if sides[::-1] == neighbours:
            return Compared(place, _MIRRORED[condition.operator], condition.right, condition.left)
    return None


def comparison_obstacles(bound: BoundQuery, between: Sequence[Expression], lasting: str) -> Iterator[str]:
    """Why counters cannot answer a query with these conditions between events; `lasting` are the aggregates of which a part
    cannot be taken back.
    """
    compared = comparison_of(bound, between)
    if compared is None:
        for condition in between:
            beyond = "and so does another condition" if len(between) > 1 else "not one value of each of two neighbours"
            yield f"{expression_text(condition)} compares events, {beyond}"
        return
    text = f"{expression_text(between[0])} compares events"
    reads = [node for node in (*walk(compared.left), *walk(compared.right)) if isinstance(node, Attribute)]
    if any(not always_has(bound, bound.component(node.variable), node.name) for node in reads):
        yield f"{text}, of types that do not have what it reads"
    if any(isinstance(node, Call) and node.registered is not None for node in walk(between[0])):
        yield f"{text} by a registered function"
    kinds = {kind_of(side, bound.schema) for side in (compared.left, compared.right)}
    if kinds & {Kind.TIMESTAMP, Kind.DURATION} and not _is_of_one_column(compared):
        yield f"{text}, and times of different columns may be in different units"
    for condition in bound.conjuncts:
        if is_fallible(condition, bound.schema):
            yield f"{text}, and {expression_text(condition)} may leave 64 bits, which is an error only in a match"
    for negative in bound.branches[0].negatives:
        if negative.after and max(negative.after) != compared.place:
            yield f"{text}, and '{negative.event.variable}' is forbidden elsewhere than between these"
    if lasting:
        yield f"{text}, and of {lasting} no part can be taken back"


def _is_of_one_column(compared: Compared) -> bool:
    left, right = compared.left, compared.right
    return isinstance(left, Attribute) and isinstance(right, Attribute) and left.name == right.name
