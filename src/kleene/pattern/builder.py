"""Queries from Python instead of text: equal data to that of the parser.

    a, b = var("a"), var("b")
    (seq(event("Stock", "a").plus(), event("Stock", "b"))
        .where(same("symbol"), a.current.price > avg(a.so_far.price), b.volume < 0.8 * a.last.volume)
        .strategy("skip_till_next_match")
        .within(1, "hour")
        .build(name="rally"))

A condition is data: it has no truth value, so `and`, `or`, `not` and chained comparisons raise; write `&`, `|`, `~`.
Everything here is immutable: each method returns a new value.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from kleene.common.errors import BindingError, Problem, nearest
from kleene.pattern.durations import LONG_UNIT_WORDS, unit_of, window_of
from kleene.pattern.moments import exact_microseconds
from kleene.pattern.naming import COUNT_OF_MATCHES, aggregate_alias, policy_of, resolve_having, return_alias
from kleene.pattern.operators import KLEENE_PLUS, OPTIONAL, Conjunction, Disjunction, Event, Pattern, Quantifier, Sequence
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Output, ReturnItem, Strategy, Unit, Window
from kleene.pattern.predicates import Aggregate, Call, Element, conjunction
from kleene.pattern.terms import (
    Term,
    Variable,
    avg,
    call,
    count,
    expression_of,
    first,
    last,
    max_,
    min_,
    param,
    same,
    stddev,
    sum_,
    var,
)
from kleene.pattern.text import pattern_text, query_text

__all__ = [
    "Draft",
    "Term",
    "Variable",
    "all_of",
    "any_of",
    "avg",
    "call",
    "count",
    "event",
    "first",
    "last",
    "max_",
    "min_",
    "one_of",
    "param",
    "same",
    "seq",
    "stddev",
    "sum_",
    "var",
]

_ONE_QUERY = "clauses belong to the whole query: combine the components first, then add where, within, ..."


@dataclass(frozen=True, slots=True)
class Draft:
    """A query under construction: a pattern, then its clauses."""

    query: LogicalQuery

    def __repr__(self) -> str:
        return pattern_text(self.query.pattern) if self.is_pattern else query_text(self.query)

    @property
    def is_pattern(self) -> bool:
        """Whether no clause was added yet."""
        return self.query == LogicalQuery(pattern=self.query.pattern)

    def _component(self, what: str) -> Event:
        if not isinstance(self.query.pattern, Event) or not self.is_pattern:
            raise TypeError(f"{what} applies to one component, as in event('T', 'a')")
        return self.query.pattern

    def _quantified(self, quantifier: Quantifier) -> Draft:
        return _draft(replace(self._component("a repetition"), quantifier=quantifier))

    def __invert__(self) -> Draft:
        component = self._component("negation")
        if component.negated:
            raise TypeError("the component is negated twice")
        return _draft(replace(component, negated=True))

    def plus(self) -> Draft:
        """One or more: `T+ a[]`."""
        return self._quantified(KLEENE_PLUS)

    def star(self) -> Draft:
        """Any number: `T* a[]`."""
        return self._quantified(Quantifier(0, None))

    def times(self, low: int, high: int | None = None) -> Draft:
        """`times(3)` is `T{3} a[]`, `times(2, 5)` is `T{2,5} a[]`."""
        return self._quantified(Quantifier(low, low if high is None else high))

    def at_least(self, low: int) -> Draft:
        """`T{n,} a[]`."""
        return self._quantified(Quantifier(low, None))

    def optional(self) -> Draft:
        """`T? a`."""
        return self._quantified(OPTIONAL)

    def _with(self, **changes: Any) -> Draft:
        return Draft(replace(self.query, **changes))

    def where(self, *conditions: Term) -> Draft:
        """Adds conditions, all of which must hold."""
        terms = [expression_of(condition) for condition in conditions]
        before = [] if self.query.where is None else [self.query.where]
        return self._with(where=conjunction([*before, *terms]))

    def strategy(self, name: str | Strategy, *variables: str) -> Draft:
        """The event selection strategy; the variables carry no meaning."""
        chosen = name if isinstance(name, Strategy) else policy_of(Strategy, name)
        if chosen is None:
            raise BindingError(_unknown("selection strategy", name, Strategy))
        return self._with(strategy=chosen, strategy_variables=variables)

    def within(self, amount: float | Fraction | str | dt.timedelta, unit: str | Unit | None = None) -> Draft:
        """The window: `within(12, "hours")`, `within(timedelta(...))`, `within(100, "events")`, `within("T")`."""
        length = exact_microseconds(amount)
        if length is not None:
            return self._with(within=window_of(length))
        assert not isinstance(amount, dt.timedelta)
        known = unit if isinstance(unit, Unit) else Unit.NUMBER if unit is None else unit_of(unit)
        if known is None:
            raise BindingError(Problem(f"unknown unit '{unit}'", hint=nearest(str(unit), LONG_UNIT_WORDS)))
        if isinstance(amount, float):
            # By its decimal digits, as the same number would be read from text.
            amount = Fraction(str(amount))
        if isinstance(amount, Fraction) and amount.denominator == 1:
            amount = int(amount)
        return self._with(within=Window(amount, known))

    def group_by(self, *attributes: str) -> Draft:
        """One aggregate per value of these attributes."""
        return self._with(group_by=attributes)

    def agg(self, *items: Term, **named: Term) -> Draft:
        """Aggregates over matches: `agg(count(), total=sum_(a.price))`."""
        unnamed = [_match_aggregate(item, None) for item in items]
        return self._with(aggregates=(*unnamed, *(_match_aggregate(item, name) for name, item in named.items())))

    def having(self, *conditions: Term) -> Draft:
        """Conditions on the aggregates, spelled as in `agg` or by `param(name)`; call it after `agg`."""
        terms = conjunction([expression_of(condition) for condition in conditions])
        query = self.query
        return self._with(having=None if terms is None else resolve_having(terms, query.aggregates, query.group_by))

    def emit_on_change(self) -> Draft:
        """Also reports when expiry changes an aggregate."""
        return self._with(emit_on_change=True)

    def returns(self, *items: Term, **named: Term) -> Draft:
        """The columns of a match: `returns(a.price, total=a.price + b.price)`."""
        unnamed = (expression_of(item) for item in items)
        columns = [ReturnItem(item, return_alias(item, place)) for place, item in enumerate(unnamed, 1)]
        columns += [ReturnItem(expression_of(item), name) for name, item in named.items()]
        return self._with(returns=tuple(columns))

    def into(self, event_type: str) -> Draft:
        """Turns matches into events of a type that other queries can read."""
        return self._with(into=event_type)

    def output(self, name: str | Output) -> Draft:
        """Which matches are reported: "all" or "non_overlap"."""
        chosen = name if isinstance(name, Output) else policy_of(Output, name)
        if chosen is None:
            raise BindingError(_unknown("output", name, Output))
        return self._with(output=chosen)

    def build(self, name: str = "query") -> LogicalQuery:
        """The query as data, with its canonical text.

        >>> query = seq(event("A", "a"), ~event("B", "b"), event("C", "c")).where(same("id")).within(2, "hours").build()
        >>> print(query.text)
        PATTERN SEQ(A a, !(B b), C c)
        WHERE [id]
        WITHIN 2 hours
        """
        return replace(self.query, name=name, text=query_text(self.query))


def _unknown(what: str, name: object, kind: type[Strategy | Output]) -> Problem:
    return Problem(f"unknown {what} '{name}'", hint=nearest(str(name), [item.value for item in kind]))


def _draft(pattern: Pattern) -> Draft:
    return Draft(LogicalQuery(pattern=pattern))


def event(event_type: str, name: str | None = None) -> Draft:
    """A component: an event of a type, under a name (the type itself by default).

    >>> event("Stock", "a").plus()
    Stock+ a[]
    """
    return any_of(event_type, name=name)


def any_of(*types: str, name: str | None = None) -> Draft:
    """A component of any of several types: `ANY(A, B) x`.

    >>> any_of("A", "B", name="x")
    ANY(A, B) x
    """
    if not types:
        raise TypeError("a component needs an event type")
    return _draft(Event(types, name if name is not None else "_".join(types)))


def seq(*parts: Draft) -> Draft:
    """`SEQ(...)`: each part before the next.

    >>> seq(event("Shelf", "a"), ~event("Register", "b"), event("Exit"))
    SEQ(Shelf a, !(Register b), Exit)
    """
    return _draft(Sequence(_parts(parts)))


def all_of(*parts: Draft) -> Draft:
    """`AND(...)`: all parts, in any order."""
    return _draft(Conjunction(_parts(parts)))


def one_of(*parts: Draft) -> Draft:
    """`OR(...)`: one of the parts."""
    return _draft(Disjunction(_parts(parts)))


def _parts(parts: tuple[Draft, ...]) -> tuple[Pattern, ...]:
    for part in parts:
        if not part.is_pattern:
            raise TypeError(_ONE_QUERY)
    return tuple(part.query.pattern for part in parts)


def _match_aggregate(item: Term, alias: str | None) -> MatchAggregate:
    node = item.expression
    if isinstance(node, Call) and node.function == COUNT_OF_MATCHES:
        return MatchAggregate("count", None, None, alias or "count")
    if isinstance(node, Aggregate) and node.element is Element.EACH and node.name is not None:
        function = node.function.value
        return MatchAggregate(function, node.variable, node.name, alias or aggregate_alias(function, node.variable, node.name))
    raise TypeError("agg takes count(), sum_(a.x), avg(a.x), min_(a.x) or max_(a.x)")
