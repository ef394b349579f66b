"""The constraints of a query, and the query without one of them, for `why_not`.

`constraints` lists them, `without` removes one, `steps` gives the prefixes of a pattern, `alone` keeps one component. All are
pure functions from queries to queries. They expect a query whose names are resolved, as `base` makes it; a schema says which
types have which attributes, if not all have all.

Without a constraint a query has every match that it has with it, and more. So whatever depends on the constraint is removed
with it:
- Without its window, negation that only the window bounds (at the start, at the end, under AND). It forbids nothing in a match
  that is longer than the window, except under AND.
- Without the order of SEQ, all negation: it has no neighbours then.
- Without an equivalence test, a negative component must still agree with every positive one. It forbids nothing if these
  differ. Under strategies other than skip_till_any_match, in windows in events and under NON-OVERLAP, removing a constraint may
  also remove matches, because other events are selected or counted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kleene.common.errors import BindingError
from kleene.common.schema import EventSchema
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import condition_of
from kleene.pattern.normalize import normalize
from kleene.pattern.operators import Conjunction, Disjunction, Event, Operator, Pattern, Sequence, events, parts_of, transform
from kleene.pattern.policies import LogicalQuery, Output, Strategy
from kleene.pattern.text import expression_text, pattern_text, window_text


class Demand(enum.Enum):
    """The kinds of constraints."""

    CONDITION = "condition"
    """A conjunct of WHERE."""
    HAVING = "having"
    """A conjunct of HAVING."""
    NEGATION = "negation"
    REPETITION = "repetition"
    """The minimum number of events of a component."""
    WINDOW = "window"
    ORDER = "order"
    STRATEGY = "strategy"
    OVERLAP = "overlap"
    """OUTPUT NON-OVERLAP."""
    KEY = "key"
    """An equivalence test."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of a query, as data and as text."""

    demand: Demand
    text: str
    expression: p.Expression | None = None
    """The expression of a condition, HAVING or an equivalence test."""
    variable: str | None = None
    """The variable of a negation or a repetition."""

    @property
    def condition(self) -> p.Expression:
        """The expression of a constraint that has one."""
        assert self.expression is not None
        return self.expression

    @property
    def component(self) -> str:
        """The variable of a constraint that has one."""
        assert self.variable is not None
        return self.variable


def base(bound: BoundQuery) -> LogicalQuery:
    """A bound query as a query again: names resolved, every equivalence test in WHERE, and only matches as output."""
    others = [item for item in p.conjuncts(bound.query.where) if not isinstance(item, p.Equivalence)]
    return replace(
        bound.query,
        where=p.conjunction([*bound.equivalences, *others]),
        group_by=(),
        aggregates=(),
        having=None,
        emit_on_change=False,
        returns=(),
        into=None,
        text=None,
    )


def constraints(query: LogicalQuery) -> tuple[Constraint, ...]:
    """The constraints of a query, those of WHERE first, equivalence tests last.

    >>> from kleene.language.parser import parse
    >>> query = parse("PATTERN SEQ(A a, !(N n), B b) WHERE [id] AND a.x < b.x AND n.y > 1 WITHIN 1 hour")
    >>> [item.text for item in constraints(query)]
    ['a.x < b.x', '!(N n)', 'WITHIN 1 hour', 'SEQ(A a, B b)', '[id]']
    """
    return tuple(_constraints(query))


def _constraints(query: LogicalQuery) -> Iterator[Constraint]:
    negative = _negatives(query.pattern)
    for item in dict.fromkeys(p.conjuncts(query.where)):
        # A condition on a negative component restricts what is forbidden: without it more would be, not less.
        if not isinstance(item, p.Equivalence) and not p.variables(item) & negative:
            yield Constraint(Demand.CONDITION, expression_text(item), item)
    for item in dict.fromkeys(p.conjuncts(query.having)):
        yield Constraint(Demand.HAVING, expression_text(item), item)
    for event in events(query.pattern):
        if event.negated:
            yield Constraint(Demand.NEGATION, pattern_text(event), variable=event.variable)
        elif event.quantifier is not None and event.quantifier.low > 1:
            yield Constraint(Demand.REPETITION, pattern_text(event), variable=event.variable)
    if query.within is not None:
        yield Constraint(Demand.WINDOW, f"WITHIN {window_text(query.within)}")
    if query.strategy is Strategy.SKIP_TILL_ANY_MATCH:
        positive = _without_components(query.pattern, negative)
        if positive is not None and positive != _in_any_order(positive):
            yield Constraint(Demand.ORDER, pattern_text(positive))
    else:
        yield Constraint(Demand.STRATEGY, query.strategy.value)
    if query.output is Output.NON_OVERLAP:
        yield Constraint(Demand.OVERLAP, "OUTPUT NON-OVERLAP")
    for item in p.conjuncts(query.where):
        if isinstance(item, p.Equivalence):
            yield Constraint(Demand.KEY, expression_text(item), item)


def without(query: LogicalQuery, constraint: Constraint, schema: EventSchema | None = None) -> LogicalQuery:
    """The query without one of its constraints.

    >>> from kleene.language.parser import parse
    >>> from kleene.pattern.text import query_text
    >>> query = parse("PATTERN SEQ(A a, !(N n), B b) WHERE [id] AND a.x < b.x AND n.y > 1 WITHIN 1 hour")
    >>> for item in constraints(query):
    ...     print(query_text(without(query, item)).replace(chr(10), " "))
    PATTERN SEQ(A a, !(N n), B b) WHERE [id] AND n.y > 1 WITHIN 1 hour
    PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x WITHIN 1 hour
    PATTERN SEQ(A a, !(N n), B b) WHERE [id] AND a.x < b.x AND n.y > 1
    PATTERN AND(A a, B b) WHERE [id] AND a.x < b.x WITHIN 1 hour
    PATTERN SEQ(A a, !(N n), B b) WHERE a.x < b.x AND n.y > 1 AND n.id = a.id AND n.id = b.id WITHIN 1 hour
    """
    match constraint.demand:
        case Demand.CONDITION:
            return replace(query, where=_less(query.where, constraint.expression))
        case Demand.HAVING:
            return replace(query, having=_less(query.having, constraint.expression))
        case Demand.NEGATION:
            return _dropped(query, {constraint.component}, schema)
        case Demand.REPETITION:
            return replace(query, pattern=_repeated_once(query.pattern, constraint.variable))
        case Demand.WINDOW:
            return replace(_dropped(query, _open_ended(query.pattern), schema), within=None)
        case Demand.ORDER:
            plain = _dropped(query, _negatives(query.pattern), schema)
            return replace(plain, pattern=_in_any_order(plain.pattern))
        case Demand.STRATEGY:
            return replace(query, strategy=Strategy.SKIP_TILL_ANY_MATCH, strategy_variables=())
        case Demand.OVERLAP:
            return replace(query, output=Output.ALL)
        case Demand.KEY:
            assert isinstance(constraint.expression, p.Equivalence)
            return _without_key(query, constraint.expression, schema)


def steps(query: LogicalQuery, schema: EventSchema | None = None) -> tuple[tuple[LogicalQuery, ...], ...]:
    """The pattern part by part: for each alternative of a top-level OR the queries for its first part, its first two, ...

    A part is a direct child of SEQ or AND. A query has the conditions that read nothing beyond its parts, and negation between
    them. If all parts so far may be absent, there is no query.

    >>> from kleene.language.parser import parse
    >>> from kleene.pattern.text import query_text
    >>> query = parse("PATTERN SEQ(A a, !(N n), B+ b[], C c) WHERE [id] AND a.x < c.x AND n.y > 1 WITHIN 5")
    >>> for step in steps(query)[0]:
    ...     print(query_text(step).replace(chr(10), " "))
    PATTERN A a WHERE [id] WITHIN 5
    PATTERN SEQ(A a, !(N n), B+ b[]) WHERE [id] AND n.y > 1 WITHIN 5
    PATTERN SEQ(A a, !(N n), B+ b[], C c) WHERE [id] AND a.x < c.x AND n.y > 1 WITHIN 5
    """
    alternatives = query.pattern.parts if isinstance(query.pattern, Disjunction) else (query.pattern,)
    return tuple(tuple(_steps(query, pattern, schema)) for pattern in alternatives)


def _steps(query: LogicalQuery, pattern: Pattern, schema: EventSchema | None) -> Iterator[LogicalQuery]:
    parts = pattern.parts if isinstance(pattern, Sequence | Conjunction) else (pattern,)
    kind = Conjunction if isinstance(pattern, Conjunction) else Sequence
    positive = [place for place, part in enumerate(parts) if any(not event.negated for event in events(part))]
    for place in positive:
        taken = parts[positive[0] : place + 1]
        if kind is Conjunction:
            taken = tuple(part for part in taken if not (isinstance(part, Event) and part.negated))
        found = taken[0] if len(taken) == 1 else kind(taken)
        try:
            # Negation that only the window bounds is decided on whole matches, whose ends bound it.
            found = _without_components(found, _open_ended(found)) or found
        except BindingError:  # every part so far may be absent
            continue
        yield _with_pattern(query, found, schema)


def alone(query: LogicalQuery, variable: str, schema: EventSchema | None = None) -> LogicalQuery:
    """The query for single events that a component can bind, with the conditions that read only one of its events.

    >>> from kleene.language.parser import parse
    >>> from kleene.pattern.text import query_text
    >>> print(query_text(alone(parse("PATTERN SEQ(A+ a[], B b) WHERE [id] AND a[].x > 1 AND a[1].y = 2 AND b.x > 3"), "a")))
    PATTERN A a
    WHERE a.x > 1
    """
    event = next(item for item in events(query.pattern) if item.variable == variable)
    arrays = frozenset((variable,)) if event.is_kleene else frozenset()

    def applies(item: p.Expression) -> bool:
        if isinstance(item, p.Equivalence):
            return item.value is not None and _has(event, item.name, schema)  # one event agrees with itself
        if not event.is_kleene:
            return p.variables(item) <= {variable}
        return condition_of(item, arrays).reads_only(variable, "each")

    def single(node: p.Expression) -> p.Expression:
        return replace(node, element=p.Element.SINGLE) if isinstance(node, p.Attribute) else node

    where = [p.transform(item, single) if event.is_kleene else item for item in p.conjuncts(query.where) if applies(item)]
    return replace(
        query,
        pattern=Event(event.types, variable),
        where=p.conjunction(where),
        strategy=Strategy.SKIP_TILL_ANY_MATCH,
        strategy_variables=(),
        within=None,
        output=Output.ALL,
    )


def open_ended(query: LogicalQuery) -> frozenset[str]:
    """The negative components that only the window bounds: at the start, at the end, under AND."""
    return frozenset(_open_ended(query.pattern))


def _has(event: Event, name: str, schema: EventSchema | None) -> bool:
    """Whether some type of a component has an attribute."""
    return schema is None or any(name in schema.attributes_of(kind) for kind in event.types)


def _less(condition: p.Expression | None, conjunct: p.Expression | None) -> p.Expression | None:
    return p.conjunction([item for item in p.conjuncts(condition) if item != conjunct])


def _negatives(pattern: Pattern) -> set[str]:
    return {event.variable for event in events(pattern) if event.negated}


def _open_ended(pattern: Pattern) -> set[str]:
    negatives = [item for branch in normalize(pattern) for item in branch.negatives]
    return {item.event.variable for item in negatives if not item.before or not item.after}


def _dropped(query: LogicalQuery, names: set[str], schema: EventSchema | None) -> LogicalQuery:
    """The query without some components and the conditions on them."""
    pattern = _without_components(query.pattern, names)
    assert pattern is not None, "a pattern has a positive component"
    return _with_pattern(query, pattern, schema)


def _with_pattern(query: LogicalQuery, pattern: Pattern, schema: EventSchema | None) -> LogicalQuery:
    """The query restricted to a part of its pattern, with the conditions that read nothing else."""
    known = {event.variable for event in events(pattern)}

    def applies(item: p.Expression) -> bool:
        if isinstance(item, p.Equivalence):
            return any(_has(event, item.name, schema) for event in events(pattern))
        return p.variables(item) <= known

    where = p.conjunction([item for item in p.conjuncts(query.where) if applies(item)])
    listed = tuple(name for name in query.strategy_variables if name in known)
    return replace(query, pattern=pattern, where=where, strategy_variables=listed)


def _without_components(pattern: Pattern, names: set[str]) -> Pattern | None:
    """A pattern without some components; a single remaining part stands alone, and None means that none remains."""
    if isinstance(pattern, Event):
        return None if pattern.variable in names else pattern
    assert isinstance(pattern, Operator)
    left = tuple(part for item in pattern.parts if (part := _without_components(item, names)) is not None)
    if len(left) < 2:
        return left[0] if left else None
    return replace(pattern, parts=left)


def _in_any_order(pattern: Pattern) -> Pattern:
    def rule(node: Pattern) -> Pattern:
        parts = parts_of(node)
        if len(parts) == 1:
            return parts[0]
        return Conjunction(parts) if isinstance(node, Sequence) else node

    return transform(pattern, rule)


def _repeated_once(pattern: Pattern, variable: str | None) -> Pattern:
    """The pattern in which one event of a repeated component suffices."""

    def rule(node: Pattern) -> Pattern:
        if isinstance(node, Event) and node.variable == variable and node.quantifier is not None:
            return replace(node, quantifier=replace(node.quantifier, low=1))
        return node

    return transform(pattern, rule)


def _without_key(query: LogicalQuery, test: p.Equivalence, schema: EventSchema | None) -> LogicalQuery:
    def attribute(event: Event) -> p.Attribute:
        return p.Attribute(event.variable, test.name, p.Element.EACH if event.is_kleene else p.Element.SINGLE)

    components = [event for event in events(query.pattern) if _has(event, test.name, schema)]
    agreeing = [
        p.Comparison("=", attribute(negative), attribute(positive))
        for negative in components
        for positive in components
        if negative.negated and not positive.negated
    ]
    return replace(query, where=p.conjunction([*p.conjuncts(_less(query.where, test)), *agreeing]))
