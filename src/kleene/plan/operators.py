"""What plans of all mechanisms have in common: negation, transformation, the columns they read, and what divides the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kleene.common.errors import PlanningError, Problem
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch, Negative
from kleene.pattern.operators import Event
from kleene.pattern.policies import Output, Strategy
from kleene.plan.analysis.keys import (
    always_has,
    equality_of,
    equated_attributes,
    is_divided,
    key_attributes,
    positive_components,
)
from kleene.plan.contract import Transformation


@dataclass(frozen=True, slots=True)
class NegativeComponent:
    """One negative component: its interval and its predicates.

    `after` and `before` are the neighbouring positive components: the interval begins after all of the former and ends before
    all of the latter. None at a negated start or end; neither under AND, where the interval is the match's window.
    """

    event: Event
    after: tuple[int, ...]
    before: tuple[int, ...]
    scan_predicates: tuple[p.Expression, ...]
    predicates: tuple[p.Expression, ...]
    keyed: bool
    """Whether only events of the match's own partition can be meant."""
    beside: tuple[int, ...]
    """The positive components whose events may be in the interval, and of its types: they are not meant."""


@dataclass(frozen=True, slots=True)
class Negation:
    """NG: removes sequences with a forbidden event in an interval."""

    components: tuple[NegativeComponent, ...]
    method: str
    window: int | None

    @property
    def postponed(self) -> bool:
        """Whether matches wait for their window to pass (a negated end)."""
        return any(not component.before for component in self.components)

    @property
    def looks_before(self) -> bool:
        """Whether an event before the match may be forbidden (a negated start)."""
        return any(not component.after for component in self.components)


def reach_of(bound: BoundQuery, negations: Iterable[Negation | None]) -> int:
    """Instants before a time that matches which are reported from then on may reach back to, with what their negation reads."""
    found = [negation for negation in negations if negation is not None]
    waits = any(negation.postponed for negation in found)  # for its window to pass, which begins a window earlier
    before = bound.query.output is Output.NON_OVERLAP or any(negation.looks_before for negation in found)
    assert bound.window is not None
    return (2 if waits and before else 1) * bound.window


def partial_agreements(bound: BoundQuery, positives: tuple[Event, ...], partition: tuple[str, ...]) -> list[p.Expression]:
    """Tests on attributes that some positive components lack: those that have one agree pairwise."""
    found: list[p.Expression] = []
    for test in bound.equivalences:
        if test.value is not None or test.name in partition:
            continue
        having = [event for event in positives if bound.may_have(event, test.name)]
        for position, left in enumerate(having):
            for right in having[position + 1 :]:
                found.append(p.Comparison("=", p.Attribute(left.variable, test.name), p.Attribute(right.variable, test.name)))
    return found


def plan_negation(
    bound: BoundQuery, branch: Branch, partition: tuple[str, ...], method: str = "key_index", *, in_scan: bool = True
) -> Negation | None:
    """The negative components of a branch with what decides them; `in_scan`: what reads one event alone while scanning."""
    components = tuple(_negative_component(bound, branch, item, partition, in_scan) for item in branch.negatives)
    return Negation(components, method, bound.window) if components else None


def _negative_component(
    bound: BoundQuery, branch: Branch, item: Negative, partition: tuple[str, ...], in_scan: bool
) -> NegativeComponent:
    event = item.event
    present = {event.variable, *(other.variable for other in branch.positives)}
    keyed = bool(partition) and all(is_divided(bound, event, name) for name in partition)
    decided = partition if keyed else ()
    reading = [conjunct for conjunct in bound.conjuncts if event.variable in p.variables(conjunct) <= present]
    own = [conjunct for conjunct in reading if len(p.variables(conjunct)) == 1] + fixed_values(bound, (event,))
    predicates: list[p.Expression] = []
    for conjunct in reading:
        equality = equality_of(conjunct)
        if equality is not None and equality[0] in decided:
            own.append(p.Not(p.IsNull(p.Attribute(event.variable, equality[0]))))
        elif len(p.variables(conjunct)) > 1:
            predicates.append(conjunct)
    predicates += () if in_scan else own
    predicates += _negative_agreements(bound, branch.positives, event, decided)
    return NegativeComponent(
        event,
        tuple(sorted(one for one in item.after if not any((one, other) in branch.order for other in item.after))),
        tuple(sorted(one for one in item.before if not any((other, one) in branch.order for other in item.before))),
        tuple(own) if in_scan else (),
        tuple(predicates),
        keyed,
        branch.beside(item),
    )


def _negative_agreements(
    bound: BoundQuery, positives: tuple[Event, ...], event: Event, decided: tuple[str, ...]
) -> list[p.Expression]:
    """Equivalence tests between a negative component and the positive ones, where the partition does not decide them."""
    found: list[p.Expression] = []
    for test in bound.equivalences:
        if test.value is not None or test.name in decided or not bound.may_have(event, test.name):
            continue
        sure = [other for other in positives if always_has(bound, other, test.name)]
        partly = [other for other in positives if bound.may_have(other, test.name)]
        for other in sure[:1] or partly:
            # All elements of a Kleene variable agree, where all have the attribute.
            kleene = p.Element.FIRST if sure else p.Element.EACH
            element = kleene if other.is_kleene else p.Element.SINGLE
            found.append(
                p.Comparison("=", p.Attribute(event.variable, test.name), p.Attribute(other.variable, test.name, element))
            )
    return found


def plan_columns(bound: BoundQuery, transformation: Transformation) -> tuple[str, ...]:
    """The columns that a plan reads, in the order of the input."""
    if not transformation.columns:
        return tuple(bound.schema.columns)
    schema = bound.schema
    needed = {schema.time, *schema.order_by, *(test.name for test in bound.equivalences)}
    if schema.type is not None:
        needed.add(schema.type)
    needed.update(p.attributes(*bound.conjuncts, *(expression for _, expression in transformation.columns)))
    return tuple(name for name in schema.columns if name in needed)


def kleene_variables(bound: BoundQuery) -> frozenset[str]:
    """The variables that hold arrays."""
    return frozenset(event.variable for event in bound.components if event.is_kleene)


def fixed_values(bound: BoundQuery, events: tuple[Event, ...]) -> list[p.Expression]:
    """`[attr = v]` as comparisons, one for each event that a component selects."""
    found: list[p.Expression] = []
    for test in bound.equivalences:
        for event in events if isinstance(test.value, p.Literal) else ():
            if not bound.may_have(event, test.name):
                continue
            for element in (p.Element.FIRST, p.Element.CURRENT) if event.is_kleene else (p.Element.SINGLE,):
                attribute = p.Attribute(event.variable, test.name, element)
                assert test.value is not None
                found.append(p.Comparison("=", attribute, test.value, span=test.span))
    return found


MOST_BITS = 62
"""How many tests of single events fit into a row's mask."""


def untested(bound: BoundQuery, partition: Sequence[str]) -> list[str]:
    """Attributes that divide events and are no equivalence tests: of tests NULL is a bad row, of these no candidate."""
    tested = {test.name for test in bound.equivalences if test.value is None}
    return [name for name in partition if name not in tested]


def require_few_tests(bound: BoundQuery, count: int, what: str) -> None:
    """Refuses patterns whose tests do not fit into a row's mask."""
    if count > MOST_BITS:
        message = f"the pattern has {count} {what}; {MOST_BITS} are supported"
        raise PlanningError(Problem(message, bound.query.pattern.span, "split the query into several"), bound.query.text)


def require_supported(bound: BoundQuery, output: str) -> None:
    """Refuses, with reasons, what is not evaluated yet."""
    query = bound.query
    missing: list[Problem] = []

    def note(condition: bool, what: str, span: Any = None) -> None:
        if condition:
            missing.append(Problem(what, span))

    ends = any(not item.after or not item.before for branch in bound.branches for item in branch.negatives)
    note(bound.count_window is not None and ends, "not supported yet: a negated start or end under a window in events")
    note(output == "compressed" and bool(query.returns), "compressed output keeps the events of the matches: leave RETURN out")
    lacking = any(
        bound.lacks(kind, test.name) for kind in bound.schema.types or () for test in bound.equivalences if test.value is None
    )
    note(lacking and bound.count_window is not None, "not supported yet: a window in events where a type lacks a key attribute")
    note(lacking and query.output is Output.NON_OVERLAP, "not supported yet: NON-OVERLAP where a type lacks a key attribute")
    if missing:
        raise PlanningError(missing, query.text)


def partition_attributes(bound: BoundQuery, all_rows: bool) -> tuple[str, ...]:
    """The attributes that divide the events. Strict contiguity sees the whole stream; so does a partition that events of a type
    without its attribute belong to, whatever their values are.
    """
    if bound.query.strategy is Strategy.STRICT_CONTIGUITY:
        return ()
    keys = key_attributes(bound)
    if all_rows:
        return tuple(name for name in keys if not any(bound.lacks(kind, name) for kind in bound.schema.types or ()))
    single = len(bound.branches) == 1 and not any(event.quantifier for event in positive_components(bound))
    # NON-OVERLAP chooses per partition of equivalence tests: equalities that are written out do not divide it.
    if not single or bound.query.output is not Output.ALL:
        return keys
    return (*keys, *(name for name in equated_attributes(bound) if _decided_at_once(bound, name)))


def _decided_at_once(bound: BoundQuery, name: str) -> bool:
    """Whether every event is compared with an earlier one when it is bound. Where that waits for a later event, a strategy that
    takes the next event takes it whatever its value is.
    """
    if bound.query.strategy is Strategy.SKIP_TILL_ANY_MATCH:
        return True
    places = {event.variable: place for place, event in enumerate(bound.branches[0].positives)}
    found = [item for conjunct in bound.conjuncts if (item := equality_of(conjunct)) is not None and item[0] == name]
    pairs = [(places[left], places[right]) for _, left, right in found if left in places and right in places]
    return {max(pair) for pair in pairs} == set(range(1, len(places)))


def renamed(expression: p.Expression, names: Mapping[str, str]) -> p.Expression:
    """An expression with other names for variables."""

    def rule(node: p.Expression) -> p.Expression:
        return replace(node, variable=names[node.variable]) if isinstance(node, p.Attribute) else node

    return p.transform(expression, rule)
