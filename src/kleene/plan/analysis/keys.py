"""Which attributes divide the stream: events with different values of one never meet in a match.

Two kinds do. An equivalence test `[x]` whose attribute every positive component has; its attribute is a key, and a NULL in it
a bad row. And, written out, equalities `a.x = b.x AND b.x = c.x` that connect all positive components; there a NULL is no key
but an unknown comparison, so rows with one are simply no candidates. A test with a fixed value, `[x = 1]`, is decided on
single events and divides nothing.
"""

from __future__ import annotations

from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Attribute, Comparison, Element, Expression


def key_attributes(bound: BoundQuery) -> tuple[str, ...]:
    """The attributes of equivalence tests that divide the stream."""
    return tuple(
        test.name
        for test in bound.equivalences
        if test.value is None and all(always_has(bound, event, test.name) for event in positive_components(bound))
    )


def positive_components(bound: BoundQuery) -> tuple[Event, ...]:
    """The positive components of all branches, in order of appearance."""
    return tuple(event for event in bound.components if not event.negated)


def equated_attributes(bound: BoundQuery) -> tuple[str, ...]:
    """The attributes that equalities between the positive components make the same in all of them."""
    positives = positive_components(bound)
    names = dict.fromkeys(equality[0] for conjunct in bound.conjuncts if (equality := equality_of(conjunct)) is not None)
    keys = key_attributes(bound)
    return tuple(
        name
        for name in names
        if name not in keys
        and len(positives) > 1
        and all(always_has(bound, event, name) for event in positives)
        and _connected(bound, name, {event.variable for event in positives})
    )


def equality_of(conjunct: Expression) -> tuple[str, str, str] | None:
    """(attribute, variable, variable) of a conjunct `a.x = b.x`; None for any other.

    >>> equality_of(Comparison("=", Attribute("a", "x"), Attribute("b", "x")))
    ('x', 'a', 'b')
    """
    if not isinstance(conjunct, Comparison) or conjunct.operator != "=":
        return None
    left, right = conjunct.left, conjunct.right
    if not isinstance(left, Attribute) or not isinstance(right, Attribute):
        return None
    if left.name != right.name or left.variable == right.variable:
        return None
    if left.element is not Element.SINGLE or right.element is not Element.SINGLE:
        return None
    return left.name, left.variable, right.variable


def always_has(bound: BoundQuery, event: Event, attribute: str) -> bool:
    """Whether every type of a component has the attribute."""
    return not any(bound.lacks(event_type, attribute) for event_type in event.types)


def is_divided(bound: BoundQuery, event: Event, attribute: str) -> bool:
    """Whether a negative component can only mean events with the match's own value of a dividing attribute."""
    if not always_has(bound, event, attribute):
        return False
    if attribute in key_attributes(bound):
        return True
    found = (equality_of(conjunct) for conjunct in bound.conjuncts)
    return any(item is not None and item[0] == attribute and event.variable in item[1:] for item in found)


def _connected(bound: BoundQuery, attribute: str, variables: set[str]) -> bool:
    """Whether equalities on the attribute among the variables reach all of them from any."""
    reached = {next(iter(variables))}
    edges = [item[1:] for conjunct in bound.conjuncts if (item := equality_of(conjunct)) is not None and item[0] == attribute]
    edges = [edge for edge in edges if set(edge) <= variables]
    while True:
        further = {name for edge in edges if set(edge) & reached for name in edge} - reached
        if not further:
            return reached == variables
        reached |= further
