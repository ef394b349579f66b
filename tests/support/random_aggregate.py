"""Seeded random AGG queries with streams, and workloads of them; see `support.strategies` for the other pairs.

Most queries are such that counters can answer them (`kleene.plan.counting.counters`): sequences, OR of sequences and optional
components, with conditions on single events, tests that divide the stream, and negation that follows some event. One in ten
compares two neighbours, which counters can answer for most aggregates. Of the others one half has an obstacle on purpose, the
other half comes from `any_match_query` and `saseplus_query`. Streams have the columns of `support.strategies` with NULLs and
negative numbers, and

- `z`, a float that sums cannot be exact of: tenths, or numbers far apart, or NaN and an infinity among them;
- `t`, a timestamp, with NULLs sometimes;
- `xa` and `za`, the absolute values of `x` and `z`, to know how far a sum of them may be off.

`x` is sometimes so large that sums overflow. Queries with a sum of `z` or of such an `x` have no HAVING and no EMIT ON CHANGE,
which would depend on the last bit. Cost: about half a millisecond a pair.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError
from kleene.pattern.normalize import Branch, normalize
from kleene.pattern.operators import KLEENE_PLUS, OPTIONAL, Conjunction, Disjunction, Event, Pattern
from kleene.pattern.operators import Sequence as Seq
from kleene.pattern.operators import events as components
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Output, Strategy, Unit, Window
from kleene.pattern.predicates import (
    Arithmetic,
    Attribute,
    Comparison,
    Equivalence,
    Expression,
    Literal,
    Name,
    conjunction,
    conjuncts,
    disjunction,
    transform,
)
from support.random_queries import (
    ANY,
    Types,
    any_match_query,
    chance,
    in_sequence,
    is_readable,
    saseplus_query,
    some_conjuncts,
)
from support.strategies import START, STRINGS, Example, Row

if TYPE_CHECKING:
    import pyarrow as pa

TIMES = ("int64", "int32", "s", "ms", "us", "ns", "us, UTC", "day")
"""Types of time columns: integers, timestamps of a unit, dates."""

HUGE = 1 << 61
MOST_ASSIGNMENTS = 160
"""How many assignments of events a pair may have, conditions aside; fewer where the oracle looks at them again and again."""


@dataclass(frozen=True, slots=True)
class AggregateExample(Example):
    """An AGG query with events."""

    time_type: str = "int64"

    def arrow_schema(self) -> pa.Schema:
        return aggregate_schema(self.time_type)


@dataclass(frozen=True, slots=True)
class AggregateWorkload:
    """Queries over the same events."""

    examples: tuple[AggregateExample, ...]
    """The queries, each with the events that are common to all."""


def aggregate_schema(time_type: str) -> pa.Schema:
    """The columns of a generated stream."""
    import pyarrow as pa

    unit, _, zone = time_type.partition(", ")
    whole = {"int64": pa.int64(), "int32": pa.int32(), "day": pa.date32()}
    time = whole[unit] if unit in whole else pa.timestamp(unit, tz=zone or None)
    keys = [("k", pa.int64()), ("k2", pa.int64())]
    values = [("x", pa.int64()), ("xa", pa.int64()), ("y", pa.float64()), ("z", pa.float64()), ("za", pa.float64())]
    texts = [("s", pa.string()), ("t", pa.timestamp("us", tz="UTC")), ("seq", pa.int64())]
    return pa.schema([("ts", time), ("type", pa.string()), *keys, *values, *texts])


# --- patterns ---------------------------------------------------------------------------------------------------------


def _component(rng: Random, pool: Sequence[str], name: str) -> Event:
    types = (rng.choice(pool),)
    other = rng.choice("ABCDE")
    return Event((*types, other) if other not in types and chance(rng, 0.1) else types, name)


def _components(rng: Random) -> list[Event]:
    """One to five components of few types, so that an event may be of several."""
    pool = rng.sample("ABCD", rng.choice((1, 2, 2, 3, 3, 3, 4)))
    return [_component(rng, pool, "abcde"[i]) for i in range(rng.choice((1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5)))]


def _forbidden(rng: Random, name: str) -> Event:
    return Event((rng.choice("ABCD") if chance(rng, 0.35) else "E",), name, negated=True)


def _with_negation(rng: Random, positives: Sequence[Event]) -> list[Event]:
    """The components with up to two negative ones after some of them, sometimes both in one gap or at the end."""
    parts = list(positives)
    for name in "nm"[: rng.choice((0, 0, 0, 0, 1, 1, 1, 2))]:
        last = len(parts) + 1 if chance(rng, 0.3) else len(parts)
        parts.insert(rng.randrange(1, max(last, 2)), _forbidden(rng, name))
    return parts


def _alternatives(rng: Random, parts: Sequence[Event]) -> Pattern:
    """A sequence of the parts; sometimes with optional ones, with two of them, or with its halves under OR."""
    kind = rng.random()
    if len(parts) == 1 or kind < 0.7:
        return in_sequence(parts)
    positives = [i for i, part in enumerate(parts) if not part.negated]
    if kind < 0.8:
        optional = rng.sample(positives, 1 if len(positives) < 4 or chance(rng, 0.7) else 2)
        return in_sequence([replace(part, quantifier=OPTIONAL) if i in optional else part for i, part in enumerate(parts)])
    cut = rng.randrange(1, len(parts))
    before, after = parts[:cut], parts[cut:]
    if kind < 0.88 and not before[-1].negated and not after[0].negated:
        return in_sequence((*before[:-1], Disjunction((before[-1], after[0])), *after[1:]))
    return Disjunction((in_sequence(before), in_sequence(after)))


def _branches(pattern: Pattern) -> tuple[Branch, ...] | None:
    """The alternatives of a pattern; None if one of them has no positive component."""
    try:
        return normalize(pattern)
    except BindingError:
        return None


def _counted_pattern(rng: Random) -> tuple[Pattern, list[Event]]:
    """A pattern that counters can answer, and its components."""
    while True:
        parts = _with_negation(rng, _components(rng))
        pattern = _alternatives(rng, parts)
        branches = _branches(pattern)
        if branches is not None and all(negative.after for branch in branches for negative in branch.negatives):
            return pattern, parts


# --- conditions -------------------------------------------------------------------------------------------------------


def _local_conditions(rng: Random, parts: Sequence[Event]) -> list[Expression]:
    """Conditions on single events."""
    often = rng.choice((0.0, 0.0, 0.3, 0.6))
    return [item for event in parts if chance(rng, often) for item in some_conjuncts(rng, [event], [], None)[:1]]


def _equalities(rng: Random, parts: Sequence[Event], name: str) -> list[Expression]:
    """`a.k = b.k AND c.k = b.k ...`: the positive components in a row, each negative one with some positive one."""
    positives = rng.sample([event for event in parts if not event.negated], sum(not event.negated for event in parts))
    pairs = list(pairwise(positives)) + [(event, rng.choice(positives)) for event in parts if event.negated]
    ordered = [pair if chance(rng, 0.5) else pair[::-1] for pair in pairs]
    return [Comparison("=", Attribute(one.variable, name), Attribute(other.variable, name)) for one, other in ordered]


def _keys(rng: Random, parts: Sequence[Event], single: bool) -> list[Expression]:
    """Tests that divide the stream: `[k]`, or equalities over all components; these only where no component can be absent."""
    found: list[Expression] = []
    for name in rng.choice(((), (), (), ("k",), ("k",), ("k2",), ("k", "k2"))):
        if single and chance(rng, 0.35):
            found += _equalities(rng, parts, rng.choice((name, name, name, "s", "x")))
        else:
            found.append(Equivalence(name, Literal(1) if chance(rng, 0.1) else None))
    return list(dict.fromkeys(found))


def _window(rng: Random, time_type: str, needed: bool) -> Window | None:
    """None, a window of few events, of many, or one that holds all of them."""
    if not needed and chance(rng, 0.2):
        return None
    length = 1 if chance(rng, 0.03) else rng.choice((2, 3, 4, 5, 6, 8, 8, 10, 12, 16, 25, 1000))
    if time_type.startswith("int"):
        return Window(length, Unit.NUMBER)
    if time_type == "day":
        return Window(length, Unit.DAYS)
    if chance(rng, 0.2):
        return Window(length * 1_000 - (500 if time_type != "s" and length > 1 else 0), Unit.MILLISECONDS)
    return Window(length, Unit.SECONDS)


# --- aggregates -------------------------------------------------------------------------------------------------------

NUMBERS = ("x", "x", "y", "y", "k")
ORDERED = ("x", "y", "z", "s", "t", "ts", "k")


def _aggregates(rng: Random, positives: Sequence[Event], types: Types, inexact: bool) -> tuple[MatchAggregate, ...]:
    """One to four different aggregates; `inexact` allows sums of `z`."""
    found = [MatchAggregate("count", None, None, "count")] if chance(rng, 0.8) else []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        function = rng.choice(("sum", "sum", "avg", "min", "max"))
        names: tuple[str, ...] = ORDERED
        if function in ("sum", "avg"):
            names = (*NUMBERS, "z", "z", "z") if inexact else NUMBERS
        event, name = rng.choice(positives), rng.choice(names)
        if name == "ts" or is_readable(event, name, types):
            found.append(MatchAggregate(function, event.variable, name, f"{function}_{event.variable}_{name}"))
    return tuple(dict.fromkeys(found)) or (MatchAggregate("count", None, None, "n"),)


def _taken_back(query: LogicalQuery) -> LogicalQuery:
    """The query with aggregates of which a part can be taken back, in place of others."""
    names = {"min": "sum", "max": "avg", "sum": "sum", "avg": "avg", "count": "count"}
    items = [replace(item, function=names[item.function]) for item in query.aggregates]
    items = [item if item.attribute is None else replace(item, attribute={"x": "x"}.get(item.attribute, "k")) for item in items]
    plain = all(item.function in ("count", "sum", "avg") for item in query.aggregates)
    return replace(query, aggregates=tuple(items), having=query.having if plain else None)


def _having(rng: Random, items: Sequence[MatchAggregate], group_by: Sequence[str]) -> Expression:
    """A condition on the columns."""
    numeric = [item.alias for item in items if item.function in ("count", "sum", "avg")]
    numeric += [item.alias for item in items if item.function in ("min", "max") and item.attribute in ("x", "y", "k")]
    names = [*numeric, *numeric, *(name for name in group_by if name in ("k", "k2"))]

    def one() -> Expression:
        if not names:
            texts = [item.alias for item in items if item.attribute == "s"]
            return Comparison("!=", Name(texts[0]), Literal("a")) if texts else Comparison("=", Literal(1), Literal(1))
        return Comparison(rng.choice((">=", ">", "<", "!=", "<=")), Name(rng.choice(names)), Literal(rng.randrange(1, 6)))

    found = (one(), one()) if chance(rng, 0.3) else (one(),)
    if len(set(found)) < 2:
        return found[0]
    return (disjunction if chance(rng, 0.5) else conjunction)(found) or found[0]


def _groups(rng: Random, types: Types) -> tuple[str, ...]:
    """No group, or one or two attributes, which may or may not be among those that divide the stream."""
    chosen = rng.choice((*((),) * 9, *(("k",),) * 4, ("k2",), ("k", "k2"), ("k2", "k"), rng.choice((("s",), ("t",)))))
    return chosen if types is None else ()


def _aggregating(rng: Random, query: LogicalQuery, types: Types, huge: bool) -> LogicalQuery:
    """The query with AGG, GROUP BY, HAVING and EMIT ON CHANGE."""
    positives = [event for event in components(query.pattern) if not event.negated]
    inexact = huge or chance(rng, 0.2)
    items, group_by = _aggregates(rng, positives, types, inexact), _groups(rng, types)
    if huge and types is None:
        items = tuple(dict.fromkeys((*items, MatchAggregate("sum", positives[-1].variable, "x", "total"))))
    return replace(
        query,
        returns=(),
        into=None,
        group_by=group_by,
        aggregates=items,
        having=_having(rng, items, group_by) if chance(rng, 0.2) and not inexact else None,
        emit_on_change=chance(rng, 0.35) and not inexact,
    )


# --- queries ----------------------------------------------------------------------------------------------------------


def _counted_query(rng: Random, time_type: str) -> LogicalQuery:
    """A query that counters can answer, without AGG."""
    pattern, parts = _counted_pattern(rng)
    branches = normalize(pattern)
    conditions = _keys(rng, parts, single=len(branches) == 1) + _local_conditions(rng, parts)
    open_ended = any(not negative.before for branch in branches for negative in branch.negatives)
    return LogicalQuery(pattern=pattern, where=conjunction(conditions), within=_window(rng, time_type, open_ended))


def _divided_only(query: LogicalQuery) -> list[Expression]:
    """The tests `[attr]` of a query, which fit any pattern."""
    return [item for item in conjuncts(query.where) if isinstance(item, Equivalence)]


def _comparing(rng: Random, query: LogicalQuery) -> LogicalQuery:
    parts = list(components(query.pattern))
    plain, negatives = [event for event in parts if not event.negated], [event for event in parts if event.negated]
    return replace(query, where=conjunction([*conjuncts(query.where), *some_conjuncts(rng, plain, negatives, None)]))


COMPARED = (*(("x", "x"), ("y", "y"), ("z", "z")) * 2, ("x", "y"), ("k", "x"), ("s", "s"), ("t", "t"), ("k", "k2"))
"""Attributes of two neighbours that are compared."""


def _compared_query(rng: Random, time_type: str) -> LogicalQuery:
    """A query with one comparison of two neighbours, without AGG: counters can answer it if no aggregate stands in the way."""
    pool = rng.sample("ABCD", rng.choice((1, 2, 2, 3)))
    parts = [_component(rng, pool, "abcd"[i]) for i in range(rng.choice((2, 2, 2, 3, 3, 4)))]
    place = rng.randrange(1, len(parts))
    first, second = parts[place - 1 : place + 1]
    if chance(rng, 0.25):
        parts.insert(place, _forbidden(rng, "n"))
    conditions = _keys(rng, parts, single=True) if chance(rng, 0.5) else []
    conditions += _local_conditions(rng, parts) if chance(rng, 0.3) else []
    one, other = rng.choice(COMPARED)
    sides: list[Expression] = [Attribute(first.variable, one), Attribute(second.variable, other)]
    if other == "y" and chance(rng, 0.4):
        sides[1] = Arithmetic("-", sides[1], Literal(2.5))
    if chance(rng, 0.4):
        sides.reverse()
    conditions.append(Comparison(rng.choice(("<", "<=", ">", ">=", "=", "!=")), *sides))
    rng.shuffle(conditions)
    return LogicalQuery(pattern=in_sequence(parts), where=conjunction(conditions), within=_window(rng, time_type, needed=False))


def _repeated(rng: Random, query: LogicalQuery) -> LogicalQuery:
    parts = [replace(event, quantifier=None) for event in components(query.pattern)]
    chosen = rng.choice([i for i, event in enumerate(parts) if not event.negated])
    parts[chosen] = replace(parts[chosen], quantifier=KLEENE_PLUS)
    return replace(query, pattern=in_sequence(parts), where=conjunction(_divided_only(query)))


def _in_any_order(rng: Random, query: LogicalQuery) -> LogicalQuery:
    parts = [replace(event, quantifier=None) for event in components(query.pattern) if not event.negated][:3]
    conditions = _divided_only(query) + _local_conditions(rng, parts)
    return replace(query, pattern=Conjunction(tuple(parts)), where=conjunction(conditions))


def _negated_start(rng: Random, query: LogicalQuery) -> LogicalQuery:
    parts = [replace(event, quantifier=None) for event in components(query.pattern) if not event.negated]
    return replace(query, pattern=Seq((_forbidden(rng, "n"), *parts)), where=conjunction(_divided_only(query)))


def _by_strategy(rng: Random, query: LogicalQuery) -> LogicalQuery:
    names = tuple(event.variable for event in components(query.pattern) if not event.negated)
    strategy = rng.choice([strategy for strategy in Strategy if strategy is not ANY])
    return replace(query, strategy=strategy, strategy_variables=names)


def _by_events(rng: Random, query: LogicalQuery) -> LogicalQuery:
    return replace(query, within=Window(rng.randrange(2, 9), Unit.EVENTS))


def _apart(_: Random, query: LogicalQuery) -> LogicalQuery:
    return replace(query, output=Output.NON_OVERLAP)


OBSTACLES: tuple[Callable[[Random, LogicalQuery], LogicalQuery], ...] = (
    *(_comparing,) * 3,
    _repeated,
    _in_any_order,
    *(_by_strategy,) * 3,
    _by_events,
    _apart,
    _negated_start,
)
"""What counters cannot answer."""


def _obstructed(rng: Random, query: LogicalQuery) -> LogicalQuery:
    """The query with an obstacle; a negated start only where there is a window."""
    return rng.choice(OBSTACLES if query.within is not None else OBSTACLES[:-1])(rng, query)


def _declared(rng: Random) -> Types:
    """Attributes per type, of which some lack some."""
    names = ("k", "k2", "x", "y", "z", "s", "t")
    return {kind: frozenset(name for name in names if not chance(rng, 0.15)) | {"xa", "za", "seq"} for kind in "ABCDE"}


def _matched_query(rng: Random, types: Types, time_type: str) -> LogicalQuery:
    """A query that is matched first, mostly, without AGG."""
    if types is None and (chance(rng, 0.6) or time_type == "day"):
        return _obstructed(rng, _counted_query(rng, time_type))
    make = any_match_query if chance(rng, 0.7) else saseplus_query
    return make(rng, types, time_type.startswith("int"))


# --- streams ----------------------------------------------------------------------------------------------------------


def _is_total(query: LogicalQuery) -> bool:
    """Whether the query needs a total order of events."""
    counted = query.within is not None and query.within.unit is Unit.EVENTS
    return counted or query.strategy is not ANY or query.output is Output.NON_OVERLAP


def _never_null(queries: Sequence[LogicalQuery]) -> set[str]:
    """What divides the stream: a row with a NULL key is a bad one."""
    tests = (item for query in queries for item in conjuncts(query.where) if isinstance(item, Equivalence))
    return {item.name for item in tests} | {name for query in queries for name in query.group_by}


def _floats(rng: Random) -> Callable[[], float]:
    """Floats whose sums are not exact."""
    kind = rng.random()
    if kind < 0.4:
        return lambda: rng.randrange(-50, 50) / 10
    if kind < 0.7:
        return lambda: rng.choice((1e15, -3e14, 0.1, 0.7, 1e-3, -0.2))
    special = (math.nan, rng.choice((math.inf, -math.inf)), -0.0, 0.3)
    return lambda: rng.choice(special) if chance(rng, 0.15) else rng.randrange(-50, 50) / 10


def _instants(time_type: str) -> Callable[[int], Any]:
    if time_type.startswith("int"):
        return lambda at: at
    if time_type == "day":
        return lambda at: START.date() + dt.timedelta(days=at)
    start = START if time_type.endswith("UTC") else START.replace(tzinfo=None)
    return lambda at: start + dt.timedelta(seconds=at)


def _stream(rng: Random, queries: Sequence[LogicalQuery], size: int, time_type: str, huge: bool) -> list[Row]:
    """Events in time order, most of them of types that the queries name."""
    named = [kind for query in queries for event in components(query.pattern) if not event.negated for kind in event.types]
    forbidden = [kind for query in queries for event in components(query.pattern) if event.negated for kind in event.types]
    pool = [*named * 4, *forbidden * 2, *"ABCDE"[: 1 + len(named) // 2]]
    tie = 0.0 if any(map(_is_total, queries)) else rng.choice((0.0, 0.0, 0.15, 0.4))
    nulls, filled = rng.choice((0.0, 0.0, 0.2)), _never_null(queries)
    keys, spread = rng.choice((1, 1, 2, 2, 3)), rng.choice((1, 1, 1, 2, 4))
    moment, z = _instants(time_type), _floats(rng)

    def known(name: str, make: Callable[[], Any]) -> Any:
        return None if name not in filled and chance(rng, nulls) else make()

    rows: list[Row] = []
    at = rng.randrange(5)
    for position in range(size):
        if position and not chance(rng, tie):
            at += 1 + rng.randrange(spread)
        x = known("x", lambda: rng.randrange(-4, 11) if not huge else rng.choice((HUGE, -HUGE, HUGE // 5, 7)))
        float_value = known("z", z)
        row: Row = {
            "ts": moment(at),
            "type": rng.choice(pool),
            "k": rng.randrange(1, 1 + keys),
            "k2": rng.randrange(1, 3),
            "x": x,
            "xa": None if x is None else abs(x),
            "y": known("y", lambda: rng.randrange(-20, 40) / 4),
            "z": float_value,
            "za": None if float_value is None else abs(float_value),
            "s": known("s", lambda: rng.choice(STRINGS)),
            "t": known("t", lambda: START + dt.timedelta(hours=rng.randrange(-3, 4))),
            "seq": rng.randrange(3) if tie else position,
        }
        rows.append(row)
    if chance(rng, 0.6):
        _plant(rng, rng.choice(queries), rows)
    return rows


def _plant(rng: Random, query: LogicalQuery, rows: list[Row]) -> None:
    """Makes many events follow the pattern, component after component, with the same keys."""
    positives = [event for event in components(query.pattern) if not event.negated]
    index, same = 0, rng.choice(rows)
    for row in rows:
        if chance(rng, 0.4):
            continue
        row.update({name: same[name] for name in ("k", "k2", "s")}, type=rng.choice(positives[index].types))
        index = (index + 1) % len(positives)
        if chance(rng, 0.1):
            same = rng.choice(rows)


def _assignments(query: LogicalQuery, rows: Sequence[Row]) -> int:
    """How many assignments of events there are, conditions aside: counted for sequences, at most so many for other patterns."""
    total = 0
    for branch in normalize(query.pattern):
        if branch.is_sequence and not any(event.is_kleene for event in branch.positives):
            total += _prefix_count(branch, rows)
            continue
        product = 1
        for event in branch.positives:
            own = sum(row["type"] in event.types for row in rows)
            product *= (1 << min(own, 20)) if event.is_kleene else own
        total += product
    return total


def _prefix_count(branch: Branch, rows: Sequence[Row]) -> int:
    counts = [1] + [0] * len(branch.positives)
    for row in rows:
        for i in range(len(branch.positives), 0, -1):
            if row["type"] in branch.positives[i - 1].types:
                counts[i] += counts[i - 1]
    return counts[-1]


def _looks_ahead(query: LogicalQuery) -> bool:
    return any(not negative.before for branch in normalize(query.pattern) for negative in branch.negatives)


def _affordable(rng: Random, query: LogicalQuery, rows: list[Row]) -> list[Row]:
    """As many of the events, without some at the beginning or at the end, as the oracle can bear."""
    most = MOST_ASSIGNMENTS // (4 if _looks_ahead(query) else 1)
    while _assignments(query, rows) > most:
        rows = rows[1:] if chance(rng, 0.5) else rows[:-1]
    return rows


def _schema_kwargs(rng: Random, types: Types) -> dict[str, Any]:
    kwargs: dict[str, Any] = {"time": "ts", "type": "type", "types": types}
    if chance(rng, 0.25):
        kwargs["order_by"] = ("seq",)
    return kwargs


# --- pairs ------------------------------------------------------------------------------------------------------------


def _time_type(rng: Random) -> str:
    return "int64" if chance(rng, 0.6) else rng.choice(TIMES)


def aggregate_example(seed: int, number: int = 0) -> AggregateExample:
    """Example `number` of a seed."""
    rng = Random(seed * 1_000_003 + number)
    time_type, huge = _time_type(rng), chance(rng, 0.03)
    types: Types = None
    kind, exact = rng.random(), False
    if kind < 0.72:
        query = _counted_query(rng, time_type)
    elif kind < 0.82:
        query = _compared_query(rng, time_type)
        exact = chance(rng, 0.8)
    else:
        types = _declared(rng) if time_type != "day" and chance(rng, 0.2) else None
        query = _matched_query(rng, types, time_type)
    query = _aggregating(rng, query, types, huge)
    if exact:
        query = _taken_back(query)
    kwargs = _schema_kwargs(rng, types)
    rows = _affordable(rng, query, _stream(rng, (query,), rng.randrange(5, 31), time_type, huge))
    return AggregateExample(query, kwargs, rows, time_type.startswith("int"), time_type)


def aggregate_examples(seed: int, count: int) -> Iterator[AggregateExample]:
    """Pairs of AGG queries and streams."""
    return (aggregate_example(seed, number) for number in range(count))


def aggregate_streams(seed: int, count: int) -> Iterator[AggregateExample]:
    """The first example of a seed with `count` streams, for a query that is dear to compile."""
    first = aggregate_example(seed)
    rng = Random(seed)
    for _ in range(count):
        rows = _stream(rng, (first.query,), rng.randrange(5, 31), first.time_type, huge=False)
        yield replace(first, events=_affordable(rng, first.query, rows))


# --- workloads --------------------------------------------------------------------------------------------------------


def _sharing_queries(rng: Random, time_type: str) -> list[LogicalQuery]:
    """Queries with prefixes or other parts in common: runs of one sequence of types, with the same conditions on a type."""
    pool = rng.sample("ABCD", rng.choice((2, 3, 4)))
    base = [rng.choice(pool) for _ in range(rng.choice((3, 4, 5)))]
    alone = {kind: some_conjuncts(rng, [Event((kind,), kind)], [], None)[:1] for kind in "ABCDE" if chance(rng, 0.25)}
    forbidden = rng.choice((None, None, "E"))
    key = rng.choice(((), (), (Equivalence("k"),)))
    window = _window(rng, time_type, needed=False)
    found = []
    for _ in range(rng.choice((2, 2, 3, 3, 4, 6))):
        low = 0 if chance(rng, 0.5) else rng.randrange(len(base) - 1)
        kinds = base[low : rng.randrange(low + 2, len(base) + 1)]
        kinds = [rng.choice(pool) for _ in range(rng.choice((0, 0, 1)))] + kinds
        kinds = (kinds + [rng.choice(pool) for _ in range(rng.choice((0, 0, 1, 2)))])[:5]
        found.append(_sharing_query(rng, kinds, alone, forbidden, key, window, time_type))
    return found


def _sharing_query(
    rng: Random,
    kinds: Sequence[str],
    alone: dict[str, list[Expression]],
    forbidden: str | None,
    key: tuple[Expression, ...],
    window: Window | None,
    time_type: str,
) -> LogicalQuery:
    """One query of the types, mostly with what the others have too."""
    parts: list[Event] = [Event((kind,), "abcde"[i]) for i, kind in enumerate(kinds)]
    if forbidden is not None and chance(rng, 0.7):
        parts.insert(min(2, len(parts) - 1), Event((forbidden,), "n", negated=True))
    conditions: list[Expression] = list(key if chance(rng, 0.85) else ())
    for event in parts:
        conditions += [_renamed(item, event.variable) for item in alone.get(event.types[0], ()) if chance(rng, 0.8)]
    within = window if chance(rng, 0.7) else _window(rng, time_type, needed=False)
    return LogicalQuery(pattern=in_sequence(parts), where=conjunction(conditions), within=within)


def _renamed(condition: Expression, variable: str) -> Expression:
    return transform(condition, lambda node: Attribute(variable, node.name) if isinstance(node, Attribute) else node)


def _with_common_item(rng: Random, queries: Sequence[LogicalQuery]) -> list[LogicalQuery]:
    """The queries, most of them with the same aggregate of an early component."""
    function, variable, name = rng.choice(("sum", "sum", "avg", "max")), rng.choice("aab"), rng.choice(("x", "y", "y"))
    common = MatchAggregate(function, variable, name, f"{function}_{variable}_{name}")
    return [
        replace(query, aggregates=tuple(dict.fromkeys((common, *query.aggregates)))) if chance(rng, 0.6) else query
        for query in queries
    ]


def aggregate_workload(seed: int, number: int = 0) -> AggregateWorkload:
    """Workload `number` of a seed: two to six queries over the same events, most of which can be counted."""
    rng = Random(seed * 1_000_003 + number)
    time_type = _time_type(rng)
    queries = _with_common_item(rng, [_aggregating(rng, query, None, huge=False) for query in _sharing_queries(rng, time_type)])
    if chance(rng, 0.15):
        queries.append(_aggregating(rng, _counted_query(rng, time_type), None, huge=False))
    if chance(rng, 0.1):
        queries[0] = replace(queries[0], within=Window(4, Unit.EVENTS))
    kwargs = _schema_kwargs(rng, None)
    rows = _stream(rng, queries, rng.randrange(15, 41), time_type, huge=False)
    for query in queries:
        rows = _affordable(rng, query, rows)
    return AggregateWorkload(
        tuple(AggregateExample(query, kwargs, rows, time_type.startswith("int"), time_type) for query in queries)
    )


def aggregate_workloads(seed: int, count: int) -> Iterator[AggregateWorkload]:
    """Workloads of AGG queries with parts in common."""
    return (aggregate_workload(seed, number) for number in range(count))
