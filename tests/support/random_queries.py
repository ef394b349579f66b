"""Seeded random queries of the SASE fragment, of SASE+, under skip_till_any_match and of the full language, as LogicalQuery.

Plain `random.Random` and no text: cheap enough (some tens of microseconds) for tens of thousands of queries a minute.
Constants and predicates are drawn so that a good share of queries has matches on the streams of `strategies`. Literals are
never negative and `And`/`Or` are flat, so that `parse(print(q)) == q`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from random import Random

from kleene.common.errors import BindingError
from kleene.pattern.normalize import normalize
from kleene.pattern.operators import KLEENE_PLUS, OPTIONAL, Conjunction, Disjunction, Event, Pattern, Quantifier
from kleene.pattern.operators import Sequence as Seq
from kleene.pattern.policies import LogicalQuery, Output, ReturnItem, Strategy, Unit, Window
from kleene.pattern.predicates import (
    Aggregate,
    AggregateFunction,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Comparison,
    Element,
    Equivalence,
    Expression,
    In,
    IsNull,
    Length,
    Like,
    Literal,
    Not,
    conjunction,
    disjunction,
    transform,
    walk,
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


def some_positives(rng: Random, count: int) -> list[Event]:
    """Positive components."""
    chosen = [_types_of(rng) for _ in range(count)]
    unnamed = all(len(types) == 1 for types in chosen) and len({types[0] for types in chosen}) == count and chance(rng, 0.1)
    return [Event(types, types[0] if unnamed else "abcd"[i]) for i, types in enumerate(chosen)]


def with_negatives(rng: Random, positives: list[Event], count: int) -> list[Event]:
    """The components with negative ones among them."""
    parts = list(positives)
    for i in range(count):
        types = ("E",) if chance(rng, 0.6) else _types_of(rng)
        parts.insert(rng.randrange(len(parts) + 1), Event(types, "nm"[i], negated=True))
    return parts


# --- expressions ------------------------------------------------------------------------------------------------------


def is_readable(event: Event, name: str, types: Types) -> bool:
    """Whether some type of the component has the attribute, so that reading it is not a plain mistake."""
    return types is None or any(name in types.get(event_type, frozenset()) for event_type in event.types)


def _attribute(rng: Random, event: Event, names: Sequence[str], types: Types) -> Attribute | None:
    name = rng.choice(names)
    return Attribute(event.variable, name) if is_readable(event, name, types) else None


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


def some_conjuncts(rng: Random, positives: Sequence[Event], negatives: Sequence[Event], types: Types) -> list[Expression]:
    """Conditions on single events and between them."""
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


def some_equivalences(rng: Random, events: Sequence[Event], types: Types) -> list[Expression]:
    """Equivalence tests."""
    names = rng.choice(((), (), ("k",), ("k",), ("k2",), ("k", "k2")))
    found: list[Expression] = []
    for name in names:
        if any(is_readable(event, name, types) for event in events):
            value = Literal(1) if chance(rng, 0.15) else None
            found.append(Equivalence(name, value))
    return found


def some_window(rng: Random, integer_time: bool, needed: bool) -> Window | None:
    """A window of time, or none."""
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
    if is_readable(first, "x", types) and is_readable(last, "x", types):
        total = Arithmetic(rng.choice("+-*/%"), Attribute(first.variable, "x"), Attribute(last.variable, "x"))
        items.append(ReturnItem(total, "total"))
    if is_readable(last, "s", types):
        items.append(ReturnItem(Attribute(last.variable, "s"), "label"))
    return tuple(items)


def _ends_negated(parts: Sequence[Event]) -> bool:
    return parts[0].negated or parts[-1].negated


def in_sequence(parts: Sequence[Pattern]) -> Pattern:
    """The parts in sequence; one part as it is."""
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


def sase_query(rng: Random, types: Types, integer_time: bool) -> LogicalQuery:
    """A query of the SASE fragment: SEQ with ANY, negation, equivalence, simple and parameterized predicates, a time window."""
    positives = some_positives(rng, rng.choice((1, 2, 2, 2, 3, 3, 3, 4)))
    parts = with_negatives(rng, positives, rng.choice((0, 0, 0, 0, 1, 1, 2)))
    negatives = [event for event in parts if event.negated]
    conjuncts = some_equivalences(rng, parts, types) + some_conjuncts(rng, positives, negatives, types)
    return LogicalQuery(
        pattern=in_sequence(parts),
        where=conjunction(conjuncts),
        within=some_window(rng, integer_time, _ends_negated(parts)),
        returns=_returns(rng, positives, types),
    )


# --- SASE+ ------------------------------------------------------------------------------------------------------------

QUANTIFIERS = (*(KLEENE_PLUS,) * 6, Quantifier(1, 2), Quantifier(2, 3), Quantifier(2, None), Quantifier(2, 2))
RUNNING = (Element.CURRENT, Element.PREVIOUS, Element.SO_FAR)
ORDERED = ("s", "ts")
"""Attributes that can be ordered but not summed."""


def _saseplus_positives(rng: Random) -> list[Event]:
    """One to three components; mostly one of them is Kleene, sometimes all or none; now and then one is optional."""
    positives = some_positives(rng, rng.choice((1, 1, 2, 2, 2, 3, 3)))
    count = min(len(positives), rng.choice((0, 1, 1, 1, 1, 1, 2, 2, 3)))
    optional = rng.randrange(len(positives)) if len(positives) > 1 and chance(rng, 0.12) else None
    repeated = rng.sample(range(len(positives)), count)
    for i, event in enumerate(positives):
        quantifier = rng.choice(QUANTIFIERS) if i in repeated else None
        if i == optional:
            quantifier = OPTIONAL if quantifier is None else Quantifier(0, quantifier.high)
        positives[i] = Event(event.types, event.variable, quantifier)
    return positives


def _branching(rng: Random, parts: Sequence[Event]) -> Pattern:
    """SEQ of the parts; if all are mandatory, sometimes with two of them, or its two halves, under OR."""
    cut = rng.randrange(1, len(parts)) if len(parts) > 1 else 0
    before, after = parts[:cut], parts[cut:]
    mandatory = not any(event.quantifier is not None and event.quantifier.low == 0 for event in parts)
    if cut and mandatory and chance(rng, 0.2):
        if not before[-1].negated and not after[0].negated:
            return in_sequence((*before[:-1], Disjunction((before[-1], after[0])), *after[1:]))
        if all(any(not event.negated for event in half) for half in (before, after)):
            return Disjunction((in_sequence(before), in_sequence(after)))
    return in_sequence(parts)


def _aggregate(rng: Random, event: Event, name: str, element: Element) -> Expression:
    """Any of the eight aggregates that can be taken of the attribute."""
    function = rng.choice(list(AggregateFunction))
    if name in ORDERED and function not in (AggregateFunction.MIN, AggregateFunction.MAX, AggregateFunction.FIRST):
        function = AggregateFunction.LAST
    if function is AggregateFunction.COUNT and chance(rng, 0.5):
        return Aggregate(function, event.variable, None, element)
    found = Aggregate(function, event.variable, name, element)
    if function is AggregateFunction.STDDEV:
        # Two ways to compute a root may differ in the last bit: never compare one with a number that it may equal.
        return Arithmetic("+", found, Literal(0.3))
    return found


def _value(rng: Random, event: Event, names: Sequence[str], types: Types, running: bool = False) -> Expression | None:
    """A value of a component: an attribute; if it is Kleene that of some element, or an aggregate, or the length."""
    name = rng.choice(names)
    if name != "ts" and not is_readable(event, name, types):
        return None
    if not event.is_kleene:
        return Attribute(event.variable, name)
    kind = rng.random()
    if kind < 0.12 and name not in ORDERED:
        return Length(event.variable)
    if kind < 0.4:
        return _aggregate(rng, event, name, Element.EACH)
    if kind < 0.5 and running:
        return _aggregate(rng, event, name, Element.SO_FAR)
    elements = (Element.FIRST, Element.LAST, Element.EACH, Element.CURRENT, Element.CURRENT, Element.PREVIOUS)
    return Attribute(event.variable, name, rng.choice(elements if running else elements[:3]))


def _compared(rng: Random, left: Expression, right: Expression, names: Sequence[str]) -> Expression:
    if names == NUMERIC and chance(rng, 0.2):
        left = Arithmetic(rng.choice("++-*"), left, Literal(rng.choice((1, 2, 3, 0.5))))
    return Comparison(rng.choice(OPERATORS), left, right)


def _attributes(rng: Random) -> Sequence[str]:
    """What a comparison is about: numbers, sometimes text."""
    return ("s",) if chance(rng, 0.15) else NUMERIC


def _between(rng: Random, one: Event, other: Event, types: Types) -> Expression | None:
    """A comparison between values of two components, of which a Kleene one may be read in any way."""
    names = _attributes(rng)
    left, right = _value(rng, one, names, types, running=True), _value(rng, other, names, types, running=True)
    return None if left is None or right is None else _compared(rng, left, right, names)


def _of_one_element(rng: Random, event: Event, types: Types) -> Expression | None:
    """A predicate on one event, for one element of a Kleene variable or for each."""
    simple = _simple(rng, event, types)
    if simple is None or not event.is_kleene:
        return simple
    first, current = Element.FIRST, Element.CURRENT
    element = rng.choice((first, first, current, current, Element.LAST, Element.EACH, Element.PREVIOUS))
    return transform(simple, lambda node: Attribute(node.variable, node.name, element) if isinstance(node, Attribute) else node)


def _of_elements(rng: Random, event: Event, types: Types) -> Expression | None:
    """A condition on the elements of one Kleene variable (SASE+ section 2)."""
    kind, names = rng.random(), _attributes(rng)
    if kind < 0.3:
        return _of_one_element(rng, event, types)
    if kind < 0.4:
        return Comparison(rng.choice(("<=", ">=", "=", "!=", ">")), Length(event.variable), Literal(rng.randrange(1, 4)))
    name = rng.choice(names)
    if not is_readable(event, name, types):
        return None
    if kind < 0.5:
        limit = Literal(rng.choice(("a", "ab", "b")) if name == "s" else rng.randrange(1, 9))
        return Comparison(rng.choice(("<=", ">=")), _aggregate(rng, event, name, Element.EACH), limit)
    current = Attribute(event.variable, name, Element.CURRENT)
    if kind < 0.7:
        return _compared(rng, current, Attribute(event.variable, name, Element.PREVIOUS), names)
    if kind < 0.92:
        return _compared(rng, current, _aggregate(rng, event, name, Element.SO_FAR), names)
    other = _value(rng, event, names, types, running=True)
    return None if other is None else _compared(rng, current, other, names)


def _saseplus_condition(rng: Random, positives: Sequence[Event], types: Types) -> Expression | None:
    """A condition on positive components: on one event, on the elements of one variable, or between two."""
    one = rng.choice(positives)
    if len(positives) > 1 and chance(rng, 0.45):
        one, other = rng.sample(positives, 2)
        return _between(rng, one, other, types)
    return _of_elements(rng, one, types) if one.is_kleene else _simple(rng, one, types)


def _is_read_one_way(condition: Expression) -> bool:
    """Whether `i` runs over one variable at most, and over none that the condition reads as plain `a[].x` too."""
    nodes = [node for node in walk(condition) if isinstance(node, Attribute | Aggregate)]
    running = {node.variable for node in nodes if node.element in RUNNING}
    each = {node.variable for node in nodes if node.element is Element.EACH and isinstance(node, Attribute)}
    return len(running) < 2 and not running & each


def _saseplus_conjuncts(rng: Random, positives: Sequence[Event], negatives: Sequence[Event], types: Types) -> list[Expression]:
    make = [partial(_saseplus_condition, rng, positives, types)] * rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
    for negative in negatives:
        if chance(rng, 0.35):
            make.append(partial(_simple, rng, negative, types))
        if chance(rng, 0.5):
            make.append(partial(_between, rng, negative, rng.choice(positives), types))
    found = [_predicate(rng, one) for one in make]
    return [item for item in found if item is not None and _is_read_one_way(item)]


def _saseplus_returns(rng: Random, positives: Sequence[Event], types: Types) -> tuple[ReturnItem, ...]:
    found = [_value(rng, rng.choice(positives), ("ts", "s", *NUMERIC), types) for _ in range(rng.choice((1, 2, 3, 4)))]
    given = [item for item in found if item is not None]
    return tuple(ReturnItem(item, f"r{number}") for number, item in enumerate(given))


def saseplus_query(rng: Random, types: Types, integer_time: bool) -> LogicalQuery:
    """A query of SASE+: SEQ and OR of Kleene, optional and negative components, any strategy, any window, NON-OVERLAP."""
    strategy = rng.choice(list(Strategy))
    positives = _saseplus_positives(rng)
    parts = with_negatives(rng, positives, rng.choice((0, 0, 0, 0, 1, 1, 2)))
    negatives = [event for event in parts if event.negated]
    pattern = _branching(rng, parts)
    conjuncts = some_equivalences(rng, parts, types) + _saseplus_conjuncts(rng, positives, negatives, types)
    open_ended = any(not (item.after and item.before) for branch in normalize(pattern) for item in branch.negatives)
    within = some_window(rng, integer_time, needed=open_ended)
    if chance(rng, 0.05 if open_ended else 0.25):
        within = Window(rng.randrange(2, 9), Unit.EVENTS)
    return LogicalQuery(
        pattern=pattern,
        where=conjunction(conjuncts),
        strategy=strategy,
        strategy_variables=tuple(event.variable for event in positives) if strategy is not ANY or chance(rng, 0.3) else (),
        within=within,
        returns=_saseplus_returns(rng, positives, types) if chance(rng, 0.2) else (),
        output=Output.NON_OVERLAP if chance(rng, 0.15) else Output.ALL,
    )


# --- skip_till_any_match ----------------------------------------------------------------------------------------------

OPERATIONS: tuple[type[Seq | Conjunction | Disjunction], ...] = (*(Seq,) * 5, *(Conjunction,) * 4, Disjunction)


def _any_positives(rng: Random) -> list[Event]:
    """One to four components of few types, so that several may bind the same event; some repeated, some optional."""
    count = rng.choice((1, 2, 2, 3, 3, 3, 3, 4))
    pool = rng.sample(POSITIVE_TYPES, rng.choice((1, 2, 2, 3, 3)))
    repeated = rng.sample(range(count), min(count, rng.choice((0, 0, 0, 0, 1, 1, 2))))
    positives = []
    for i in range(count):
        types: tuple[str, ...] = (rng.choice(pool),)
        other = rng.choice("ABCDE")
        if other not in types and chance(rng, 0.12):
            types = (*types, other)
        quantifier = rng.choice(QUANTIFIERS) if i in repeated else None
        if count > 1 and chance(rng, 0.07):
            quantifier = OPTIONAL if quantifier is None else Quantifier(0, quantifier.high)
        positives.append(Event(types, "abcd"[i], quantifier))
    return positives


def _nested(rng: Random, parts: Sequence[Event], depth: int) -> Pattern:
    """The components under SEQ, AND and OR, at most `depth` deep."""
    if len(parts) == 1:
        return parts[0]
    cuts = list(range(1, len(parts)))
    if depth > 1 and len(parts) > 2 and chance(rng, 0.6):
        cuts = sorted(rng.sample(cuts, rng.randrange(1, len(cuts))))
    groups = [parts[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(parts)], strict=True)]
    return rng.choice(OPERATIONS)(tuple(_nested(rng, group, depth - 1) for group in groups))


def _forbidding(rng: Random, pattern: Pattern, negative: Event) -> Pattern:
    """The pattern with a negative component somewhere under SEQ or AND."""
    if not isinstance(pattern, Seq | Conjunction | Disjunction):
        join = rng.choice((Seq, Seq, Conjunction))
        return join((pattern, negative) if chance(rng, 0.5) else (negative, pattern))
    parts = list(pattern.parts)
    if isinstance(pattern, Disjunction) or chance(rng, 0.3):
        inside = rng.choice([i for i, part in enumerate(parts) if not (isinstance(part, Event) and part.negated)])
        parts[inside] = _forbidding(rng, parts[inside], negative)
    else:
        beside = [i for i, part in enumerate(parts) if isinstance(part, Conjunction)]
        at = rng.choice(beside) + rng.randrange(2) if beside and chance(rng, 0.6) else rng.randrange(len(parts) + 1)
        parts.insert(at, negative)
    return type(pattern)(tuple(parts))


def _any_pattern(rng: Random) -> tuple[Pattern, list[Event], list[Event]]:
    """A nested pattern with its positive and its negative components."""
    while True:
        positives = _any_positives(rng)
        pattern = _nested(rng, positives, 3)
        negatives = []
        for name in "nm"[: rng.choice((0, 0, 0, 0, 1, 1, 2))]:
            negatives.append(Event(("E",) if chance(rng, 0.6) else _types_of(rng), name, negated=True))
            pattern = _forbidding(rng, pattern, negatives[-1])
        try:
            normalize(pattern)
        except BindingError:  # an alternative without a positive component
            continue
        return pattern, positives, negatives


def _chained(rng: Random, events: Sequence[Event], types: Types) -> list[Expression]:
    """Comparisons from event to event that imply others: a.x < b.x, c.x >= b.x, ..."""
    name = rng.choice(("x", "y", "s", "k", "k"))
    path = [event for event in rng.sample(events, len(events)) if is_readable(event, name, types)]
    found: list[Expression] = []
    for one, other in pairwise(path):
        left, right = Attribute(one.variable, name), Attribute(other.variable, name)
        operator = rng.choice(("<", "<=", "<=", "="))
        if chance(rng, 0.3):
            left, right, operator = right, left, {"<": ">", "<=": ">=", "=": "="}[operator]
        found.append(Comparison(operator, left, right))
    return found


def _called(rng: Random, one: Event, other: Event, types: Types) -> Expression | None:
    """A condition on a function of two events, which no filter computes."""
    names: Sequence[str] = ("s",) if chance(rng, 0.35) else NUMERIC
    left, right = _value(rng, one, names, types, running=True), _value(rng, other, names, types, running=True)
    if left is None or right is None:
        return None
    operator = rng.choice(("<=", ">=", "<", ">", "="))
    if names == ("s",):
        joined = Call("concat", (left, right))
        if chance(rng, 0.3):
            return Like(joined, Literal(rng.choice(("a%", "%b", "%a%"))))
        return Comparison(operator, Call("length", (joined,)), Literal(rng.randrange(1, 4)))
    kind = rng.random()
    if kind < 0.4:
        return Comparison(operator, Call("abs", (Arithmetic("-", left, right),)), Literal(rng.randrange(1, 6)))
    function = rng.choice(("greatest", "least", "coalesce"))
    return Comparison(operator, Call(function, (left, right)), Literal(rng.randrange(2, 7)))


def _of_three(rng: Random, events: Sequence[Event], types: Types) -> Expression | None:
    """A comparison over three events."""
    found = [_attribute(rng, event, NUMERIC, types) for event in rng.sample(events, 3)]
    if None in found:
        return None
    one, two, three = (item for item in found if item is not None)
    return Comparison(rng.choice(OPERATORS[1:]), Arithmetic(rng.choice("+-*"), one, two), three)


def _any_condition(rng: Random, positives: Sequence[Event], types: Types) -> Expression | None:
    plain = [event for event in positives if not event.is_kleene]
    kind = rng.random()
    if len(positives) > 1 and kind < 0.2:
        one, other = rng.sample(positives, 2)
        return _called(rng, one, other, types)
    if len(plain) > 2 and kind < 0.35:
        return _of_three(rng, plain, types)
    return _saseplus_condition(rng, positives, types)


def _any_conjuncts(rng: Random, positives: Sequence[Event], negatives: Sequence[Event], types: Types) -> list[Expression]:
    make = [partial(_any_condition, rng, positives, types)] * rng.choice((0, 0, 1, 1, 1, 2, 2, 3))
    for negative in negatives:
        if chance(rng, 0.35):
            make.append(partial(_simple, rng, negative, types))
        if chance(rng, 0.5):
            read = _called if chance(rng, 0.2) else _between
            make.append(partial(read, rng, negative, rng.choice(positives), types))
    found = [_predicate(rng, one) for one in make]
    chained = [event for event in positives if not event.is_kleene]
    if len(chained) > 1 and chance(rng, 0.35):
        found.extend(_chained(rng, chained, types))
    return [item for item in found if item is not None and _is_read_one_way(item)]


def any_match_query(rng: Random, types: Types, integer_time: bool) -> LogicalQuery:
    """A query under skip_till_any_match: SEQ, AND and OR nested, any component, any window, NON-OVERLAP."""
    pattern, positives, negatives = _any_pattern(rng)
    conjuncts = some_equivalences(rng, [*positives, *negatives], types) + _any_conjuncts(rng, positives, negatives, types)
    open_ended = any(not (item.after and item.before) for branch in normalize(pattern) for item in branch.negatives)
    within = some_window(rng, integer_time, needed=open_ended)
    if chance(rng, 0.04 if open_ended else 0.2):
        within = Window(rng.randrange(2, 9), Unit.EVENTS)
    return LogicalQuery(
        pattern=pattern,
        where=conjunction(conjuncts),
        strategy_variables=tuple(event.variable for event in positives) if chance(rng, 0.2) else (),
        within=within,
        returns=_saseplus_returns(rng, positives, types) if chance(rng, 0.15) else (),
        output=Output.NON_OVERLAP if chance(rng, 0.12) else Output.ALL,
    )
