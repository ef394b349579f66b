"""Seeded random workloads: queries over the same events with parts in common, under different names of variables.

A workload has a stock: components with predicates of their own, conditions between two or three of them, a negative component,
keys and a window. Each query takes some of it, mostly in the order of the stock, under SEQ, AND and OR; names its variables as
it likes; writes comparisons either way round; leaves out or adds something now and then; repeats a component (Kleene plus).
Some queries are of another kind, which nothing can be shared with: other strategies, NON-OVERLAP, AGG, a pattern of their own.

Streams have the columns of `support.strategies`, with NULLs and NaN sometimes, and events that tie where no query of the
workload needs a total order. Cost: some milliseconds a workload.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from random import Random
from typing import Any

from kleene.common.errors import BindingError
from kleene.pattern.normalize import Branch, normalize
from kleene.pattern.operators import OPTIONAL, Conjunction, Disjunction, Event, Pattern
from kleene.pattern.operators import Sequence as Seq
from kleene.pattern.operators import events as components
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Output, ReturnItem, Unit, Window
from kleene.pattern.predicates import (
    Arithmetic,
    Attribute,
    Comparison,
    Element,
    Equivalence,
    Expression,
    conjunction,
    transform,
    variables,
)
from support.random_queries import (
    ANY,
    OPERATORS,
    QUANTIFIERS,
    Types,
    any_match_query,
    chance,
    is_readable,
    saseplus_query,
    some_conjuncts,
    some_window,
)
from support.strategies import START, STRINGS, Example, Row, assignments

NEGATIVE = "n"
COMPARED = ("x", "x", "y", "y", "s", "k")
NUMBERS = ("x", "y", "k")
KEYS: tuple[tuple[str, ...], ...] = ((), (), ("k",), ("k",), ("k2",), ("k", "k2"))
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
MOST_ASSIGNMENTS = 300
"""How many assignments of events a query may have, conditions aside."""


@dataclass(frozen=True, slots=True)
class MatchWorkload:
    """Queries over the same events."""

    examples: tuple[Example, ...]
    """The queries, each with the events that are common to all."""

    @property
    def events(self) -> list[Row]:
        return self.examples[0].events


@dataclass(frozen=True, slots=True)
class Piece:
    """A component, and predicates on it alone."""

    event: Event
    predicates: tuple[Expression, ...]

    @property
    def variable(self) -> str:
        return self.event.variable


@dataclass(frozen=True, slots=True)
class Stock:
    """What the queries of a workload take from."""

    pieces: tuple[Piece, ...]
    conditions: tuple[Expression, ...]
    """Between two or three of the pieces."""
    negative: Piece
    forbidding: tuple[Expression, ...]
    """Between the negative component and one of the pieces."""
    operator: type[Seq | Conjunction]
    """What most queries have their components under."""
    keys: tuple[str, ...]
    window: Window | None


@dataclass(frozen=True, slots=True)
class Setting:
    """What all queries of a workload have to go by."""

    types: Types
    integer_time: bool
    total: bool
    """Whether no events tie, so that queries may need a total order."""


# --- the stock --------------------------------------------------------------------------------------------------------


def _stock(rng: Random, setting: Setting) -> Stock:
    pool = rng.sample("ABCD", rng.choice((2, 3, 3, 4, 4)))
    pieces: list[Piece] = []
    for number in range(rng.choice((3, 4, 4, 5))):
        pieces.append(_piece(rng, f"p{number}", pool, setting.types))
        if number and chance(rng, 0.2):
            pieces[-1] = _copied(rng.choice(pieces[:-1]), f"p{number}")
    kinds = "E" if chance(rng, 0.7) else pool
    negative = _piece(rng, NEGATIVE, kinds, setting.types)
    negative = replace(negative, event=replace(negative.event, negated=True))
    forbidding = [_of_two(rng, piece.event, negative.event, setting.types) for piece in pieces if chance(rng, 0.3)]
    return Stock(
        tuple(pieces),
        tuple(_conditions(rng, [piece.event for piece in pieces], setting.types)),
        negative,
        tuple(item for item in forbidding if item is not None),
        Seq if chance(rng, 0.6) else Conjunction,
        rng.choice(KEYS),
        some_window(rng, setting.integer_time, needed=False),
    )


def _piece(rng: Random, variable: str, pool: Sequence[str], types: Types) -> Piece:
    kinds: tuple[str, ...] = (rng.choice(pool),)
    other = rng.choice("ABCDE")
    if other not in kinds and chance(rng, 0.08):
        kinds = (*kinds, other)
    event = Event(kinds, variable)
    return Piece(event, tuple(some_conjuncts(rng, [event], [], types)[:1]) if chance(rng, 0.4) else ())


def _copied(piece: Piece, variable: str) -> Piece:
    """A component that the same events satisfy."""
    own = tuple(_renamed(item, {piece.variable: variable}) for item in piece.predicates)
    return Piece(replace(piece.event, variable=variable), own)


def _conditions(rng: Random, events: Sequence[Event], types: Types) -> list[Expression]:
    found: list[Expression | None] = []
    for one, other in combinations(range(len(events)), 2):
        if chance(rng, 0.55 if other == one + 1 else 0.2):
            found.append(_of_two(rng, events[one], events[other], types))
    if chance(rng, 0.3):
        found.append(_of_three(rng, rng.sample(events, 3), types))
    if chance(rng, 0.2):
        name = rng.choice(COMPARED)
        found += [_compared(rng.choice(("<", "<=", "=")), one, other, name, types) for one, other in pairwise(events)]
    return list(dict.fromkeys(item for item in found if item is not None))


def _compared(operator: str, one: Event, other: Event, name: str, types: Types) -> Expression | None:
    """A plain comparison of the same attribute of two events."""
    if not (is_readable(one, name, types) and is_readable(other, name, types)):
        return None
    return Comparison(operator, Attribute(one.variable, name), Attribute(other.variable, name))


def _of_two(rng: Random, one: Event, other: Event, types: Types) -> Expression | None:
    """A condition between two events: a plain comparison, or one with arithmetic, a negation or an alternative."""
    if chance(rng, 0.55):
        return _compared(rng.choice(OPERATORS), one, other, rng.choice(COMPARED), types)
    found = [item for item in some_conjuncts(rng, [one, other], [], types) if len(variables(item)) == 2]
    return found[0] if found else None


def _of_three(rng: Random, events: Sequence[Event], types: Types) -> Expression | None:
    name = rng.choice(NUMBERS)
    if not all(is_readable(event, name, types) for event in events):
        return None
    left, middle, right = (Attribute(event.variable, name) for event in events)
    return Comparison(rng.choice(OPERATORS[1:]), Arithmetic(rng.choice("+-*"), left, middle), right)


def _renamed(condition: Expression, names: Mapping[str, str]) -> Expression:
    return transform(
        condition, lambda node: replace(node, variable=names[node.variable]) if isinstance(node, Attribute) else node
    )


# --- queries ----------------------------------------------------------------------------------------------------------


def _query(rng: Random, stock: Stock, setting: Setting) -> LogicalQuery:
    """A query from the stock."""
    while True:
        chosen, names = _chosen(rng, stock)
        events = [replace(piece.event, variable=names[piece.variable]) for piece in chosen]
        _quantify(rng, events)
        pattern = _shaped(rng, events, stock.operator)
        negated = chance(rng, 0.3)
        if negated:
            pattern = _forbidding(rng, pattern, replace(stock.negative.event, variable=names[NEGATIVE]))
        branches = _branches(pattern)
        if branches is not None:
            break
    taken = _taken(rng, stock, chosen, negated)
    conditions = [_either_way(rng, _renamed(item, names)) for item in taken]
    single = [event for event in events if event.quantifier is None]
    if single and chance(rng, 0.2):
        conditions += some_conjuncts(rng, single, [], setting.types)[:1]
    conditions = _read_elements(rng, conditions, [event.variable for event in events if event.is_kleene])
    parts = list(components(pattern))
    keys = stock.keys if chance(rng, 0.85) else rng.choice(KEYS)
    return LogicalQuery(
        pattern=pattern,
        where=conjunction([*_divided(rng, parts, keys, branches, setting.types), *dict.fromkeys(conditions)]),
        within=_window(rng, stock, branches, setting),
        returns=_returns(rng, single, setting.types) if chance(rng, 0.1) else (),
    )


def _chosen(rng: Random, stock: Stock) -> tuple[list[Piece], dict[str, str]]:
    """Some pieces, mostly in the order of the stock, and what the query calls them."""
    count = min(len(stock.pieces), rng.choice((1, 2, 2, 3, 3, 3, 3, 4, 4)))
    chosen = sorted(rng.sample(stock.pieces, count), key=stock.pieces.index)
    if chance(rng, 0.1):
        rng.shuffle(chosen)
    names = rng.sample("abcdefgh", count)
    return chosen, {**{piece.variable: name for piece, name in zip(chosen, names, strict=True)}, NEGATIVE: rng.choice("nm")}


def _taken(rng: Random, stock: Stock, chosen: Sequence[Piece], negated: bool) -> list[Expression]:
    """Most of what the stock has for the pieces."""
    known = {piece.variable for piece in chosen}
    found = [item for piece in chosen for item in piece.predicates if chance(rng, 0.93)]
    found += [item for item in stock.conditions if variables(item) <= known and chance(rng, 0.92)]
    if negated:
        found += [item for item in stock.negative.predicates if chance(rng, 0.8)]
        found += [item for item in stock.forbidding if variables(item) <= known | {NEGATIVE} and chance(rng, 0.8)]
    return found


def _quantify(rng: Random, events: list[Event]) -> None:
    """Repeats one of the events sometimes, or makes it optional."""
    place = rng.randrange(len(events))
    if chance(rng, 0.17):
        events[place] = replace(events[place], quantifier=rng.choice(QUANTIFIERS))
    elif len(events) > 1 and chance(rng, 0.06):
        events[place] = replace(events[place], quantifier=OPTIONAL)


def _shaped(rng: Random, parts: Sequence[Event], operator: type[Seq | Conjunction]) -> Pattern:
    """The components under an operator, mostly the one given, or in two halves under SEQ, AND or OR."""
    if len(parts) == 1:
        return parts[0]
    kind = rng.random()
    if kind < 0.75:
        return (operator if kind < 0.6 else rng.choice((Seq, Conjunction)))(tuple(parts))
    cut = rng.randrange(1, len(parts))
    halves = (_shaped(rng, parts[:cut], operator), _shaped(rng, parts[cut:], operator))
    return rng.choice((Seq, Conjunction, Disjunction))(halves)


def _forbidding(rng: Random, pattern: Pattern, negative: Event) -> Pattern:
    """The pattern with a negative component: before, after or among its parts."""
    if not isinstance(pattern, Seq | Conjunction):
        return Seq((pattern, negative) if chance(rng, 0.5) else (negative, pattern))
    parts = list(pattern.parts)
    parts.insert(rng.randrange(len(parts) + 1), negative)
    return type(pattern)(tuple(parts))


def _branches(pattern: Pattern) -> tuple[Branch, ...] | None:
    """The alternatives of a pattern; None if one of them has no positive component."""
    try:
        return normalize(pattern)
    except BindingError:
        return None


def _either_way(rng: Random, condition: Expression) -> Expression:
    """A comparison with its sides exchanged, sometimes."""
    if not isinstance(condition, Comparison) or chance(rng, 0.65):
        return condition
    return Comparison(MIRRORED[condition.operator], condition.right, condition.left)


def _read_elements(rng: Random, conditions: Sequence[Expression], repeated: Sequence[str]) -> list[Expression]:
    """The conditions with one element, or every one, of a Kleene variable."""

    def of(condition: Expression) -> Expression:
        element = rng.choice((Element.FIRST, Element.LAST, Element.EACH, Element.CURRENT))
        return transform(
            condition,
            lambda node: replace(node, element=element) if isinstance(node, Attribute) and node.variable in repeated else node,
        )

    return [of(condition) for condition in conditions] if repeated else list(conditions)


def _divided(
    rng: Random, parts: Sequence[Event], keys: Sequence[str], branches: Sequence[Branch], types: Types
) -> list[Expression]:
    """Tests that divide the stream: `[k]`, or where all components are single events that are all there, equalities."""
    found: list[Expression] = []
    plain = len(branches) == 1 and all(event.quantifier is None for event in parts)
    for name in keys:
        if plain and chance(rng, 0.2):
            found += [item for one, other in pairwise(parts) if (item := _compared("=", one, other, name, types)) is not None]
        elif any(is_readable(event, name, types) for event in parts):
            found.append(Equivalence(name))
    return found


def _window(rng: Random, stock: Stock, branches: Sequence[Branch], setting: Setting) -> Window | None:
    """The window of the stock, or one of its own."""
    needed = any(not (item.after and item.before) for branch in branches for item in branch.negatives)
    if setting.total and chance(rng, 0.05 if needed else 0.2):
        return Window(rng.randrange(2, 9), Unit.EVENTS)
    if chance(rng, 0.5) and (stock.window is not None or not needed):
        return stock.window
    return some_window(rng, setting.integer_time, needed)


def _returns(rng: Random, events: Sequence[Event], types: Types) -> tuple[ReturnItem, ...]:
    found = [(event, name) for event in events for name in ("x", "y", "s") if is_readable(event, name, types)]
    chosen = rng.sample(found, min(len(found), 2))
    return tuple(ReturnItem(Attribute(event.variable, name), f"r{number}") for number, (event, name) in enumerate(chosen))


# --- queries that share nothing ---------------------------------------------------------------------------------------


def _other(rng: Random, stock: Stock, setting: Setting) -> LogicalQuery:
    """A query that is answered by itself, or with little in common with the others."""
    while True:
        kind = rng.random()
        if kind < 0.2:
            query = any_match_query(rng, setting.types, setting.integer_time)
        elif kind < 0.55:
            query = saseplus_query(rng, setting.types, setting.integer_time)
        elif kind < 0.75:
            query = replace(_query(rng, stock, setting), output=Output.NON_OVERLAP)
        else:
            query = _aggregating(rng, _query(rng, stock, setting), setting.types)
        if setting.total or not needs_total_order(query):
            return query


def _aggregating(rng: Random, query: LogicalQuery, types: Types) -> LogicalQuery:
    """The query with AGG; as it is where a negated end would have the oracle look ahead again and again."""
    if any(not negative.before for branch in normalize(query.pattern) for negative in branch.negatives):
        return query
    items = [MatchAggregate("count", None, None, "count")]
    single = [event for event in components(query.pattern) if not event.negated and event.quantifier is None]
    if single and is_readable(single[0], "x", types) and chance(rng, 0.5):
        items.append(MatchAggregate(rng.choice(("sum", "min", "max")), single[0].variable, "x", "value"))
    return replace(query, returns=(), aggregates=tuple(items))


def needs_total_order(query: LogicalQuery) -> bool:
    """Whether no two events of a partition may tie."""
    counted = query.within is not None and query.within.unit is Unit.EVENTS
    return counted or query.strategy is not ANY or query.output is not Output.ALL


# --- streams ----------------------------------------------------------------------------------------------------------


def _stream(rng: Random, queries: Sequence[LogicalQuery], setting: Setting) -> list[Row]:
    """Events in time order, most of them of types that the queries name."""
    named = [kind for query in queries for event in components(query.pattern) if not event.negated for kind in event.types]
    forbidden = [kind for query in queries for event in components(query.pattern) if event.negated for kind in event.types]
    pool = [*named * 3, *forbidden, *"ABCDE"]
    tie = 0.0 if setting.total else rng.choice((0.0, 0.15, 0.35))
    nulls, nans = rng.choice((0.0, 0.0, 0.15)), rng.choice((0.0, 0.0, 0.0, 0.15))
    keys, spread = rng.choice((1, 1, 2, 2, 3)), rng.choice((1, 1, 2, 3))
    rows: list[Row] = []
    at = rng.randrange(5)
    for position in range(rng.randrange(10, 25)):
        if position and not chance(rng, tie):
            at += 1 + rng.randrange(spread)
        row: Row = {
            "ts": at if setting.integer_time else START + dt.timedelta(seconds=at),
            "type": rng.choice(pool),
            "k": 1 + rng.randrange(keys),
            "k2": 1 + rng.randrange(2),
            "x": None if chance(rng, nulls) else rng.randrange(10),
            "y": math.nan if chance(rng, nans) else rng.randrange(40) / 4,
            "s": None if chance(rng, nulls) else rng.choice(STRINGS),
            "seq": rng.randrange(3) if tie else position,
        }
        rows.append(row)
    return _affordable(rng, queries, rows)


def _affordable(rng: Random, queries: Sequence[LogicalQuery], rows: list[Row]) -> list[Row]:
    """As many of the events, without some at the beginning or at the end, as the oracle can bear."""
    enumerated = [query for query in queries if query.strategy is ANY]
    while any(assignments(query, rows) > MOST_ASSIGNMENTS for query in enumerated):
        rows = rows[1:] if chance(rng, 0.5) else rows[:-1]
    return rows


# --- workloads --------------------------------------------------------------------------------------------------------


def _setting(rng: Random) -> Setting:
    return Setting(_declared(rng) if chance(rng, 0.12) else None, chance(rng, 0.7), chance(rng, 0.5))


def _declared(rng: Random) -> Types:
    """Attributes per type: each type may lack some."""
    names = ("k", "k2", "x", "y", "s")
    return {kind: frozenset(name for name in names if not chance(rng, 0.12)) | {"seq"} for kind in "ABCDE"}


def _queries(rng: Random, setting: Setting) -> list[LogicalQuery]:
    stock = _stock(rng, setting)
    queries = [_query(rng, stock, setting) for _ in range(rng.choice((2, 3, 3, 4, 5, 6)))]
    if chance(rng, 0.12):
        queries.append(rng.choice(queries))
    if chance(rng, 0.4):
        queries.insert(rng.randrange(len(queries) + 1), _other(rng, stock, setting))
    return queries


def _workload(rng: Random, queries: Sequence[LogicalQuery], kwargs: Mapping[str, Any], setting: Setting) -> MatchWorkload:
    rows = _stream(rng, queries, setting)
    return MatchWorkload(tuple(Example(query, kwargs, rows, setting.integer_time) for query in queries))


def _start(seed: int, number: int) -> tuple[Random, Setting, list[LogicalQuery], dict[str, Any]]:
    rng = Random(seed * 1_000_003 + number)
    setting = _setting(rng)
    queries = _queries(rng, setting)
    kwargs: dict[str, Any] = {"time": "ts", "type": "type", "types": setting.types}
    if chance(rng, 0.25):
        kwargs["order_by"] = ("seq",)
    return rng, setting, queries, kwargs


def match_workload(seed: int, number: int = 0) -> MatchWorkload:
    """Workload `number` of a seed: two to eight queries over the same events."""
    rng, setting, queries, kwargs = _start(seed, number)
    return _workload(rng, queries, kwargs, setting)


def match_workloads(seed: int, count: int) -> Iterator[MatchWorkload]:
    """Workloads of queries with parts in common."""
    return (match_workload(seed, number) for number in range(count))


def match_workload_streams(seed: int, count: int) -> Iterator[MatchWorkload]:
    """The first workload of a seed with `count` streams, for queries that are dear to compile."""
    rng, setting, queries, kwargs = _start(seed, 0)
    return (_workload(rng, queries, kwargs, setting) for _ in range(count))
