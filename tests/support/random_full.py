"""Seeded random queries of the full language, as LogicalQuery values; see `support.random_queries`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from kleene.pattern.operators import KLEENE_PLUS, OPTIONAL, Conjunction, Disjunction, Event, Pattern, Quantifier
from kleene.pattern.operators import Sequence as Seq
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Output, Strategy, Unit, Window
from kleene.pattern.predicates import (
    Aggregate,
    AggregateFunction,
    Attribute,
    Comparison,
    Element,
    Expression,
    Length,
    Literal,
    Name,
    conjunction,
)
from support.random_queries import (
    ANY,
    Types,
    chance,
    in_sequence,
    is_readable,
    some_conjuncts,
    some_equivalences,
    some_positives,
    some_window,
    with_negatives,
)


def _quantified(rng: Random, event: Event) -> Event:
    quantifier = rng.choice((KLEENE_PLUS, KLEENE_PLUS, KLEENE_PLUS, Quantifier(1, 2), Quantifier(2, 3)))
    return Event(event.types, event.variable, quantifier)


def _kleene_predicate(rng: Random, event: Event, others: Sequence[Event]) -> Expression:
    """A predicate on the elements of a Kleene variable (SASE+ section 2)."""
    name = event.variable

    def at(element: Element, attribute: str = "x") -> Attribute:
        return Attribute(name, attribute, element)

    def over(function: AggregateFunction, element: Element) -> Aggregate:
        return Aggregate(function, name, "x", element)

    if others and chance(rng, 0.2):
        right = Attribute(rng.choice(others).variable, "x")
        return Comparison(rng.choice(("<", "<=", ">=")), at(rng.choice((Element.FIRST, Element.LAST))), right)
    functions = (AggregateFunction.AVG, AggregateFunction.MIN, AggregateFunction.MAX, AggregateFunction.SUM)
    choices: tuple[Callable[[], Expression], ...] = (
        lambda: Comparison(rng.choice(("<", "<=", ">", ">=", "!=")), at(Element.CURRENT), at(Element.PREVIOUS)),
        lambda: Comparison(rng.choice(("<=", ">=")), at(Element.CURRENT), over(rng.choice(functions), Element.SO_FAR)),
        lambda: Comparison(rng.choice(("<=", ">=")), at(Element.FIRST), Literal(rng.randrange(1, 6))),
        lambda: Comparison(rng.choice(("<=", ">=")), at(Element.LAST), Literal(rng.randrange(1, 6))),
        lambda: Comparison(rng.choice(("<=", ">=")), at(Element.EACH), Literal(rng.randrange(1, 6))),
        lambda: Comparison(rng.choice(("<=", ">=")), over(rng.choice(functions), Element.EACH), Literal(rng.randrange(1, 9))),
        lambda: Comparison(rng.choice(("<=", ">=")), Length(name), Literal(2)),
        lambda: Comparison("=", at(Element.CURRENT, "s"), at(Element.PREVIOUS, "s")),
    )
    return rng.choice(choices)()


def _full_parts(rng: Random, strategy: Strategy) -> tuple[Pattern, list[Event]]:
    """A pattern and its components: a sequence with Kleene and optional parts; under skip_till_any_match also AND and OR."""
    positives = some_positives(rng, rng.choice((1, 2, 2, 3)))
    positives = [Event(event.types, "abcd"[i]) for i, event in enumerate(positives)]
    if chance(rng, 0.5):
        i = rng.randrange(len(positives))
        positives[i] = _quantified(rng, positives[i])
    if len(positives) > 1 and chance(rng, 0.1):
        plain = [i for i, event in enumerate(positives) if not event.is_kleene]
        i = rng.choice(plain)
        positives[i] = Event(positives[i].types, positives[i].variable, OPTIONAL)
    parts: list[Event] = with_negatives(rng, positives, rng.choice((0, 0, 0, 1)))
    kind = rng.random()
    mandatory = all(event.quantifier != OPTIONAL for event in parts)
    if strategy is ANY and len(parts) > 1 and mandatory and kind < 0.2:
        return Conjunction(tuple(parts)), parts
    if strategy is ANY and len(parts) > 2 and mandatory and not any(event.negated for event in parts) and kind < 0.3:
        return Seq((Conjunction(tuple(parts[:2])), *parts[2:])), parts
    if len(positives) > 1 and mandatory and not any(event.negated for event in parts) and kind < 0.5:
        return (Disjunction(tuple(parts)) if kind < 0.4 else Seq((Disjunction(tuple(parts[:2])), *parts[2:]))), parts
    return in_sequence(parts), parts


def full_query(rng: Random, types: Types, integer_time: bool) -> LogicalQuery:
    """A query of the whole language."""
    strategy = rng.choice((ANY, ANY, Strategy.SKIP_TILL_NEXT_MATCH, Strategy.PARTITION_CONTIGUITY, Strategy.STRICT_CONTIGUITY))
    pattern, parts = _full_parts(rng, strategy)
    positives = [event for event in parts if not event.negated]
    negatives = [event for event in parts if event.negated]
    conjuncts = some_equivalences(rng, parts, types) + some_conjuncts(rng, positives, negatives, types)[:2]
    plain = [event for event in positives if not event.is_kleene]
    for event in positives:
        if event.is_kleene and is_readable(event, "x", types) and is_readable(event, "s", types):
            readable = [other for other in plain if is_readable(other, "x", types)]
            conjuncts.extend(_kleene_predicate(rng, event, readable) for _ in range(rng.choice((0, 1, 1, 2))))
    if not negatives and chance(rng, 0.15):
        within: Window | None = Window(rng.randrange(2, 9), Unit.EVENTS)
    else:
        within = some_window(rng, integer_time, bool(negatives))
    query = LogicalQuery(
        pattern=pattern,
        where=conjunction(conjuncts),
        strategy=strategy,
        strategy_variables=tuple(event.variable for event in positives) if strategy is not ANY else (),
        within=within,
        output=Output.NON_OVERLAP if chance(rng, 0.1) else Output.ALL,
    )
    return _aggregating(rng, query, positives, types) if chance(rng, 0.2) else query


def _aggregating(rng: Random, query: LogicalQuery, positives: Sequence[Event], types: Types) -> LogicalQuery:
    event = positives[0]
    items = [MatchAggregate("count", None, None, "count")]
    if is_readable(event, "x", types) and not event.is_kleene:
        items.extend(MatchAggregate(f, event.variable, "x", f"{f}_x") for f in rng.sample(("sum", "avg", "min", "max"), 2))
    return LogicalQuery(
        pattern=query.pattern,
        where=query.where,
        strategy=query.strategy,
        strategy_variables=query.strategy_variables,
        within=query.within,
        group_by=("k",) if chance(rng, 0.4) and types is None else (),
        aggregates=tuple(items),
        having=Comparison(">=", Name("count"), Literal(rng.randrange(1, 4))) if chance(rng, 0.2) else None,
        emit_on_change=chance(rng, 0.4) and query.within is not None and query.within.unit is not Unit.EVENTS,
    )
