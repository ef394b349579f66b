"""Seeded random queries of the SASE fragment and of the full language, as LogicalQuery values.

Plain `random.Random` and no text: cheap enough (some tens of microseconds) for tens of thousands of queries a minute.
Constants and predicates are drawn so that a good share of queries has matches on the streams of `strategies`. Literals are
never negative and `And`/`Or` are flat, so that `parse(print(q)) == q`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

from kleene.pattern.operators import KLEENE_PLUS, OPTIONAL, Conjunction, Disjunction, Event, Pattern, Quantifier
from kleene.pattern.operators import Sequence as Seq
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Output, ReturnItem, Strategy, Unit, Window
from kleene.pattern.predicates import (
    Aggregate,
    AggregateFunction,
    Arithmetic,
    Attribute,
    Between,
    Comparison,
    Element,
    Equivalence,
    Expression,
    In,
    IsNull,
    Length,
    Like,
    Literal,
    Name,
    Not,
    conjunction,
    disjunction,
)

Types = Mapping[str, frozenset[str]] | None
"""Declared attributes per type, or None."""

POSITIVE_TYPES = "ABCD"
NUMERIC = ("x", "x", "y", "k")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "<", ">")
ANY = Strategy.SKIP_TILL_ANY_MATCH


def chance(rng: Random, probability: float) -> bool:
    return rng.random() < probability


def _types_of(rng: Random) -> tuple[str, ...]:
    one = rng.choice(POSITIVE_TYPES)
    if chance(rng, 0.15):
        other = rng.choice("ABCDE")
        if other != one:
            return (one, other)
    return (one,)


def _positives(rng: Random, count: int) -> list[Event]:
    chosen = [_types_of(rng) for _ in range(count)]
    unnamed = all(len(types) == 1 for types in chosen) and len({types[0] for types in chosen}) == count and chance(rng, 0.1)
    return [Event(types, types[0] if unnamed else "abcd"[i]) for i, types in enumerate(chosen)]


def _with_negatives(rng: Random, positives: list[Event], count: int) -> list[Event]:
    parts = list(positives)
    for i in range(count):
        types = ("E",) if chance(rng, 0.6) else _types_of(rng)
        parts.insert(rng.randrange(len(parts) + 1), Event(types, "nm"[i], negated=True))
    return parts


# --- expressions ------------------------------------------------------------------------------------------------------


def _readable(event: Event, name: str, types: Types) -> bool:
    """Whether some type of the component has the attribute, so that reading it is not a plain mistake."""
    return types is None or any(name in types.get(event_type, frozenset()) for event_type in event.types)


def _attribute(rng: Random, event: Event, names: Sequence[str], types: Types) -> Attribute | None:
    name = rng.choice(names)
    return Attribute(event.variable, name) if _readable(event, name, types) else None


def _simple(rng: Random, event: Event, types: Types) -> Expression | None:
    """A predicate on one event."""
    kind = rng.random()
    if kind < 0.2:
        text = _attribute(rng, event, ("s",), types)
        if text is None:
            return None
        if kind < 0.05:
            return Like(text, Literal(rng.choice(("a%", "%b", "_", "%a%"))))
        if kind < 0.1:
            return In(text, (Literal("a"), Literal("b"), Literal("ab")))
        return Comparison(rng.choice(("=", "!=", "<=", ">=", ">")), text, Literal(rng.choice(("a", "ab", "b"))))
    number = _attribute(rng, event, NUMERIC, types)
    if number is None:
        return None
    if kind < 0.28:
        return Between(number, Literal(rng.randrange(3)), Literal(3 + rng.randrange(6)))
    if kind < 0.36:
        return In(number, tuple(Literal(value) for value in range(rng.randrange(3), 6)))
    if kind < 0.42:
        return IsNull(number) if chance(rng, 0.3) else Not(IsNull(number))
    if kind < 0.5:
        scaled = Arithmetic(rng.choice("+-*/%"), number, Literal(1 + rng.randrange(3)))
        return Comparison(rng.choice(OPERATORS[1:]), scaled, Literal(rng.choice((1, 2, 3, 2.5))))
    if number.name == "k":
        return Comparison(rng.choice(("=", "!=", "<=", ">=")), number, Literal(1))
    limit: int | float = rng.randrange(1, 8) if chance(rng, 0.8) else rng.randrange(20) * 0.5
    return Comparison(rng.choice(("!=", "<", "<=", ">", ">=")), number, Literal(limit))


def _parameterized(rng: Random, one: Event, other: Event, types: Types) -> Expression | None:
    """A comparison between attributes of two events."""
    if chance(rng, 0.2):
        left, right = _attribute(rng, one, ("s",), types), _attribute(rng, other, ("s",), types)
        if left is None or right is None:
            return None
        return Comparison(rng.choice(("=", "!=", "<", "<=", ">=")), left, right)
    left, right = _attribute(rng, one, NUMERIC, types), _attribute(rng, other, NUMERIC, types)
    if left is None or right is None:
        return None
    if chance(rng, 0.3):
        literal = Literal(rng.choice((1, 2, 3, 0.5, 2.0)))
        arithmetic = Arithmetic(rng.choice("++-**/%"), left, literal)
        return Comparison(rng.choice(OPERATORS[1:]), arithmetic, right)
    if chance(rng, 0.1):
        both = Arithmetic(rng.choice("+-"), left, right)
        return Comparison(rng.choice(OPERATORS[1:]), both, Literal(rng.randrange(1, 9)))
    return Comparison(rng.choice(OPERATORS), left, right)


def _predicate(rng: Random, make: Callable[[], Expression | None]) -> Expression | None:
    """One conjunct; sometimes an OR of two, sometimes under NOT."""
    first = make()
    if first is None or not chance(rng, 0.2):
        return Not(first) if first is not None and chance(rng, 0.04) and not isinstance(first, Not) else first
    second = make()
    return first if second is None or second == first else disjunction((first, second))


def _conjuncts(rng: Random, positives: Sequence[Event], negatives: Sequence[Event], types: Types) -> list[Expression]:
    found: list[Expression | None] = []
    plain = [event for event in positives if not event.is_kleene]
    if plain:
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            event = rng.choice(plain)
            found.append(_predicate(rng, partial(_simple, rng, event, types)))
    if len(plain) > 1:
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            one, other = rng.sample(plain, 2)
            found.append(_predicate(rng, partial(_parameterized, rng, one, other, types)))
    for negative in negatives:
        if chance(rng, 0.35):
            found.append(_predicate(rng, partial(_simple, rng, negative, types)))
        if plain and chance(rng, 0.35):
            found.append(_predicate(rng, partial(_parameterized, rng, rng.choice(plain), negative, types)))
    return [item for item in found if item is not None]


def _equivalences(rng: Random, events: Sequence[Event], types: Types) -> list[Expression]:
    names = rng.choice(((), (), ("k",), ("k",), ("k2",), ("k", "k2")))
    found: list[Expression] = []
    for name in names:
        if any(_readable(event, name, types) for event in events):
            value = Literal(1) if chance(rng, 0.15) else None
            found.append(Equivalence(name, value))
    return found


def _window(rng: Random, integer_time: bool, needed: bool) -> Window | None:
    if not needed and chance(rng, 0.15):
        return None
    length = rng.choice((4, 6, 8, 10, 12, 16, 20))
    if integer_time:
        return Window(length, Unit.NUMBER)
    return Window(length * 1_000, Unit.MILLISECONDS) if chance(rng, 0.2) else Window(length, Unit.SECONDS)


def _returns(rng: Random, positives: Sequence[Event], types: Types) -> tuple[ReturnItem, ...]:
    plain = [event for event in positives if not event.is_kleene]
    if not plain or not chance(rng, 0.2):
        return ()
    first, last = plain[0], plain[-1]
    items: list[ReturnItem] = [ReturnItem(Attribute(first.variable, "ts"), "started")]
    if _readable(first, "x", types) and _readable(last, "x", types):
        total = Arithmetic(rng.choice("+-*/%"), Attribute(first.variable, "x"), Attribute(last.variable, "x"))
        items.append(ReturnItem(total, "total"))
    if _readable(last, "s", types):
        items.append(ReturnItem(Attribute(last.variable, "s"), "label"))
    return tuple(items)


def _ends_negated(parts: Sequence[Event]) -> bool:
    return parts[0].negated or parts[-1].negated


def _sequence(parts: Sequence[Pattern]) -> Pattern:
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


def sase_query(rng: Random, types: Types, integer_time: bool) -> LogicalQuery:
    """A query of the SASE fragment: SEQ with ANY, negation, equivalence, simple and parameterized predicates, a time window."""
    positives = _positives(rng, rng.choice((1, 2, 2, 2, 3, 3, 3, 4)))
    parts = _with_negatives(rng, positives, rng.choice((0, 0, 0, 0, 1, 1, 2)))
    negatives = [event for event in parts if event.negated]
    conjuncts = _equivalences(rng, parts, types) + _conjuncts(rng, positives, negatives, types)
    return LogicalQuery(
        pattern=_sequence(parts),
        where=conjunction(conjuncts),
        within=_window(rng, integer_time, _ends_negated(parts)),
        returns=_returns(rng, positives, types),
    )


# --- the full language ------------------------------------------------------------------------------------------------


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
    positives = _positives(rng, rng.choice((1, 2, 2, 3)))
    positives = [Event(event.types, "abcd"[i]) for i, event in enumerate(positives)]
    if chance(rng, 0.5):
        i = rng.randrange(len(positives))
        positives[i] = _quantified(rng, positives[i])
    if len(positives) > 1 and chance(rng, 0.1):
        plain = [i for i, event in enumerate(positives) if not event.is_kleene]
        i = rng.choice(plain)
        positives[i] = Event(positives[i].types, positives[i].variable, OPTIONAL)
    parts: list[Event] = _with_negatives(rng, positives, rng.choice((0, 0, 0, 1)))
    kind = rng.random()
    mandatory = all(event.quantifier != OPTIONAL for event in parts)
    if strategy is ANY and len(parts) > 1 and mandatory and kind < 0.2:
        return Conjunction(tuple(parts)), parts
    if strategy is ANY and len(parts) > 2 and mandatory and not any(event.negated for event in parts) and kind < 0.3:
        return Seq((Conjunction(tuple(parts[:2])), *parts[2:])), parts
    if len(positives) > 1 and mandatory and not any(event.negated for event in parts) and kind < 0.5:
        return (Disjunction(tuple(parts)) if kind < 0.4 else Seq((Disjunction(tuple(parts[:2])), *parts[2:]))), parts
    return _sequence(parts), parts


def full_query(rng: Random, types: Types, integer_time: bool) -> LogicalQuery:
    """A query of the whole language."""
    strategy = rng.choice((ANY, ANY, Strategy.SKIP_TILL_NEXT_MATCH, Strategy.PARTITION_CONTIGUITY, Strategy.STRICT_CONTIGUITY))
    pattern, parts = _full_parts(rng, strategy)
    positives = [event for event in parts if not event.negated]
    negatives = [event for event in parts if event.negated]
    conjuncts = _equivalences(rng, parts, types) + _conjuncts(rng, positives, negatives, types)[:2]
    plain = [event for event in positives if not event.is_kleene]
    for event in positives:
        if event.is_kleene and _readable(event, "x", types) and _readable(event, "s", types):
            readable = [other for other in plain if _readable(other, "x", types)]
            conjuncts.extend(_kleene_predicate(rng, event, readable) for _ in range(rng.choice((0, 1, 1, 2))))
    if not negatives and chance(rng, 0.15):
        within: Window | None = Window(rng.randrange(2, 9), Unit.EVENTS)
    else:
        within = _window(rng, integer_time, bool(negatives))
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
    if _readable(event, "x", types) and not event.is_kleene:
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
