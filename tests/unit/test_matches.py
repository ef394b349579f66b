"""What is done with finished matches: expressions, conditions, rows and ids, negation; all against the oracle."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError, PlanningError
from kleene.common.schema import schema_of_arrow
from kleene.engine.events.grouping import Groups, group_rows, value_codes
from kleene.engine.events.placed import PlacedColumns
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.vectorized import widen
from kleene.engine.matches.element_aggregates import aggregate
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.negation import NegativeIndex
from kleene.engine.matches.output import EventHashes, MatchWriter, query_seed
from kleene.language.parser import parse
from kleene.pattern import predicates as p
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.plan.contract import Transformation
from kleene.plan.operators import NegativeComponent
from kleene.testing import evaluate as oracle
from kleene.testing.functions import plain
from kleene.testing.oracle_negation import negated
from kleene.testing.oracle_stream import make_stream

ARROW = pa.schema(
    [
        ("ts", pa.int64()),
        ("type", pa.string()),
        ("k", pa.int16()),
        ("x", pa.int64()),
        ("y", pa.float64()),
        ("s", pa.string()),
        ("t", pa.timestamp("ms")),
        ("d", pa.duration("us")),
        ("f", pa.bool_()),
    ]
)
QUERIES = (
    "PATTERN SEQ(A a, B+ b[], !(N n), ANY(C, D){1,3} c[], E? e) WITHIN 50",
    "PATTERN OR(SEQ(A+ a[], !(N n), ANY(B, C) b), SEQ(D d, ANY(C, E)+ c[], E e)) WITHIN 50",
    "PATTERN SEQ(ANY(A, B)+ a[], !(ANY(N, C) n), B+ b[]) WITHIN 50",
    "PATTERN SEQ(A a, !(N n), B b, C c) WITHIN 50",
)
START = dt.datetime(2026, 3, 1)  # noqa: DTZ001 - a column without a time zone
FUNCTIONS = tuple(p.AggregateFunction)
NUMBERS = ("x", "y", "k")

Bindings = dict[str, int | tuple[int, ...]]


def rows_of(rng: Random, count: int) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return [
        {
            "ts": position,
            "type": rng.choice("AABBCCDDEEN"),
            "k": rng.randrange(3),
            "x": maybe(rng.randrange(-5, 10)),
            "y": maybe(rng.choice((0.1, 0.2, 0.7, 1e16, -3.5, -0.0, math.nan if rng.random() < 0.2 else 2.0))),
            "s": maybe(rng.choice(("", "a", "b", "ab", "ä"))),
            "t": maybe(START + dt.timedelta(seconds=rng.randrange(9))),
            "d": maybe(dt.timedelta(microseconds=rng.randrange(-5, 9))),
            "f": maybe(rng.random() < 0.5),
        }
        for position in range(count)
    ]


@dataclass(frozen=True)
class World:
    """Events in a working set, grouped by `k`, and a query over them."""

    bound: BoundQuery
    events: list[dict[str, Any]]
    working: WorkingSet
    groups: Groups
    placed: PlacedColumns
    place_of: np.ndarray[Any, Any]
    """The place of each row."""

    @property
    def types(self) -> list[str]:
        return [row["type"] for row in self.events]

    def matches(self, found: list[Bindings]) -> Matches:
        """Matches of one branch, each as variable to rows."""
        singles: dict[str, Any] = {}
        lists: dict[str, Any] = {}
        for variable, example in found[0].items():
            bound = [match[variable] for match in found]
            if isinstance(example, int):
                singles[variable] = self.place_of[bound].astype(np.int32)
            else:
                offsets = np.cumsum([0, *(len(elements) for elements in bound)])
                lists[variable] = offsets, self.place_of[[row for elements in bound for row in elements]]
        extents = [(min(rows), max(rows)) for rows in map(flat_rows, found)]
        first, last = (self.place_of[[extent[side] for extent in extents]] for side in (0, 1))
        return Matches(len(found), singles, lists, first, last)

    def frame(self, bindings: Bindings) -> oracle.Frame:
        return oracle.Frame(self.bound, self.events, self.types, bindings)


def flat_rows(match: Bindings) -> list[int]:
    return [row for rows in match.values() for row in (rows if isinstance(rows, tuple) else (rows,))]


def world(rng: Random, text: str, *, declared: bool = False, count: int = 30) -> World:
    types = None
    if declared:
        names = [name for name in ARROW.names if name not in ("ts", "type")]
        types = {kind: frozenset(name for name in names if rng.random() < 0.7) for kind in "ABCDEN"}
    bound = bind(parse(text), schema_of_arrow(ARROW, time="ts", type="type"))
    if types is not None:
        # Declared afterwards: binding rejects conditions on attributes that no type of a variable has.
        bound = BoundQuery(
            bound.query,
            schema_of_arrow(ARROW, time="ts", type="type", types=types),
            bound.branches,
            bound.conjuncts,
            bound.equivalences,
            bound.window,
            bound.count_window,
        )
    events = rows_of(rng, count)
    for row in events:
        for name in ARROW.names:
            if types is not None and bound.lacks(row["type"], name) and rng.random() < 0.5:
                row[name] = None
    working = WorkingSet(bound.schema, ARROW.names)
    batch = pa.RecordBatch.from_pylist(events, schema=ARROW)
    negative = {kind for event in bound.components if event.negated for kind in event.types}
    masks = np.array([int(row["type"] in negative) for row in events])
    working.add(batch, np.arange(count), masks)
    codes, size = value_codes(pa.array([row["ts"] % 3 for row in events]))
    groups = group_rows(codes, size, working.ts, masks)
    return World(bound, events, working, groups, PlacedColumns(working, groups), np.argsort(groups.order))


def random_matches(rng: Random, at: World, count: int) -> list[Bindings]:
    """Random events of the right types under the variables of one branch; not necessarily in order."""
    branch = rng.choice(at.bound.branches)
    found: list[Bindings] = []
    for _ in range(count):
        match: Bindings = {}
        for event in branch.positives:
            able = [row for row, kind in enumerate(at.types) if kind in event.types]
            size = rng.choice((1, 1, 2, 3, 5)) if event.is_kleene else 1
            elements = tuple(sorted(rng.sample(able, min(size, len(able)))))
            match[event.variable] = elements if event.is_kleene else elements[0]
        found.append(match)
    return found


class Expressions:
    """Random expressions over the variables of a query."""

    def __init__(self, rng: Random, bound: BoundQuery, *, running: str | None, each: bool) -> None:
        self._rng = rng
        self._events = [event for event in bound.components if not event.negated or running or each]
        self._running = running
        """The variable that `a[i]` may be read of; None in RETURN."""
        self._each = each

    def reference(self, name: str) -> p.Expression:
        event = self._rng.choice(self._events)
        if not event.is_kleene:
            return p.Attribute(event.variable, name)
        elements = [p.Element.FIRST, p.Element.LAST]
        if event.variable == self._running:
            elements += [p.Element.CURRENT, p.Element.PREVIOUS] * 2
        elif self._each:
            elements += [p.Element.EACH]
        return p.Attribute(event.variable, name, self._rng.choice(elements))

    def over(self, functions: tuple[p.AggregateFunction, ...], name: str | None) -> p.Expression:
        kleene = [event.variable for event in self._events if event.is_kleene]
        if not kleene:
            return p.Literal(None)
        variable = self._rng.choice(kleene)
        running = variable == self._running and self._rng.random() < 0.7
        return p.Aggregate(self._rng.choice(functions), variable, name, p.Element.SO_FAR if running else p.Element.EACH)

    def number(self, depth: int = 2) -> p.Expression:
        rng = self._rng
        choice = rng.randrange(8 if depth else 6)
        if choice == 0:
            return p.Literal(rng.choice((0, 1, 2, 0.5)))
        if choice == 1:
            kleene = [event.variable for event in self._events if event.is_kleene]
            return p.Length(rng.choice(kleene)) if kleene else p.Literal(1)
        if choice == 2:
            return self.over((p.AggregateFunction.COUNT,), rng.choice((None, "s", "x")))
        if choice <= 4:
            return self.over(FUNCTIONS, rng.choice(NUMBERS))
        if choice == 5:
            return self.reference(rng.choice(NUMBERS))
        if choice == 6:
            return p.Call("coalesce", (self.number(depth - 1), self.number(depth - 1)))
        return p.Arithmetic(rng.choice("+-*/"), self.number(depth - 1), self.number(depth - 1))

    def ordered(self, name: str) -> p.Expression:
        ends = (p.AggregateFunction.MIN, p.AggregateFunction.MAX, p.AggregateFunction.FIRST, p.AggregateFunction.LAST)
        return self.over(ends, name) if self._rng.random() < 0.6 else self.reference(name)

    def duration(self) -> p.Expression:
        functions = (p.AggregateFunction.SUM, p.AggregateFunction.AVG, p.AggregateFunction.MAX, p.AggregateFunction.LAST)
        if self._rng.random() < 0.3:
            return p.Arithmetic("-", self.ordered("t"), self.ordered("t"))
        return self.over(functions, "d") if self._rng.random() < 0.7 else self.reference("d")

    def condition(self, depth: int = 2) -> p.Expression:
        rng = self._rng
        if depth and rng.random() < 0.4:
            inner = (self.condition(depth - 1), self.condition(depth - 1))
            return rng.choice((p.And(inner), p.Or(inner), p.Not(inner[0])))
        symbol = rng.choice(("=", "!=", "<", "<=", ">", ">="))
        choice = rng.randrange(9)
        if choice < 3:
            return p.Comparison(symbol, self.number(), self.number())
        if choice == 3:
            return p.Comparison(symbol, self.ordered("s"), self.ordered("s"))
        if choice == 4:
            return p.Comparison(symbol, self.ordered("t"), self.ordered("t"))
        if choice == 5:
            return p.Comparison(symbol, self.duration(), self.duration())
        if choice == 6:
            return p.IsNull(rng.choice((self.number(), self.ordered("s"))))
        if choice == 7:
            return (
                self.over((p.AggregateFunction.FIRST, p.AggregateFunction.LAST), "f")
                if rng.random() < 0.5
                else self.reference("f")
            )
        return p.Call("coalesce", (self.reference("f"), p.Literal(False)))

    def any(self) -> p.Expression:
        return self._rng.choice((self.number, self.number, self.duration, self.condition))()


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return (left is None) == (right is None) and left == right


def cases(seed: int, count: int) -> Iterator[tuple[Random, World, list[Bindings]]]:
    for number in range(count):
        rng = Random(seed * 1000 + number)
        at = world(rng, rng.choice(QUERIES), declared=rng.random() < 0.4)
        yield rng, at, random_matches(rng, at, rng.randrange(1, 8))


@pytest.mark.parametrize("seed", range(4))
def test_values_are_the_oracles(seed: int) -> None:
    for rng, at, found in cases(seed, 25):
        evaluator = MatchEvaluator(at.bound, at.placed.gather, MatchRows(at.matches(found)))
        make = Expressions(rng, at.bound, running=None, each=False)
        for _ in range(12):
            expression = make.any()
            values = [plain(value) for value in evaluator.returned(expression).to_pylist()]
            expected = [oracle.value(expression, at.frame(match)) for match in found]
            assert same(values, expected), (expression, values, expected)


@pytest.mark.parametrize("seed", range(4, 8))
def test_conditions_hold_where_the_oracles_do(seed: int) -> None:
    for rng, at, found in cases(seed, 25):
        # Every match with several negative events.
        able = [row for row, kind in enumerate(at.types) if kind in at.bound.component("n").types] or [0]
        pairs = [(number, rng.choice(able)) for number in range(len(found)) for _ in range(rng.randrange(3))]
        numbers, rows = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
        on = MatchRows(at.matches(found), numbers, {"n": at.place_of[rows]})
        evaluator = MatchEvaluator(at.bound, at.placed.gather, on)
        kleene = [event.variable for event in at.bound.components if event.is_kleene]
        for _ in range(12):
            running = rng.choice(kleene) if kleene else None
            expression = Expressions(rng, at.bound, running=running, each=rng.random() < 0.5).condition()
            condition = oracle.condition(at.bound, expression)
            expected = [oracle.holds(condition, at.frame({**found[number], "n": row})) for number, row in pairs]
            assert evaluator.holds(expression).tolist() == expected, expression


def test_conditions_are_decided_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kleene.engine.matches.match_values.REPEATED", 3)
    test_conditions_hold_where_the_oracles_do(9)


@pytest.mark.parametrize("name", ["k", "x", "y", "s", "t", "d", "f"])
def test_all_elements_are_returned_as_a_list_of_their_own_type(name: str) -> None:
    for declared in (False, True):
        rng = Random(5)
        at = world(rng, QUERIES[1], declared=declared)
        for _ in range(5):
            found = random_matches(rng, at, 4)
            evaluator = MatchEvaluator(at.bound, at.placed.gather, MatchRows(at.matches(found)))
            for variable in ("a", "c"):
                expression = p.Attribute(variable, name, p.Element.EACH)
                values = evaluator.returned(expression)
                assert values.type == pa.list_(ARROW.field(name).type)
                expected = [oracle.value(expression, at.frame(match)) for match in found]
                shown = [None if row is None else [plain(value) for value in row] for row in values.to_pylist()]
                assert same(shown, expected)


def test_nothing_is_computed_with_all_elements() -> None:
    at = world(Random(1), QUERIES[2])
    expression = p.Arithmetic("+", p.Attribute("a", "x", p.Element.EACH), p.Literal(1))
    evaluator = MatchEvaluator(at.bound, at.placed.gather, MatchRows(at.matches(random_matches(Random(1), at, 2))))
    with pytest.raises(PlanningError, match="many values"):
        evaluator.returned(expression)


def test_absent_variables_are_null() -> None:
    at = world(Random(3), QUERIES[1])
    found: list[Bindings] = [{"a": (1, 2), "b": 4}]
    evaluator = MatchEvaluator(at.bound, at.placed.gather, MatchRows(at.matches(found)))
    count = p.AggregateFunction.COUNT
    assert evaluator.returned(p.Attribute("d", "k")).type == pa.int16()
    for expression in (p.Attribute("d", "k"), p.Attribute("c", "s", p.Element.FIRST), p.Length("c")):
        assert evaluator.returned(expression).to_pylist() == [None]
    assert evaluator.returned(p.Aggregate(count, "c", None, p.Element.EACH)).to_pylist() == [None]
    assert evaluator.returned(p.Aggregate(count, "c", "x", p.Element.EACH)).to_pylist() == [0]


# --- aggregates -------------------------------------------------------------------------------------------------------


def bits(value: Any) -> Any:
    """A float as its bits, any NaN as one."""
    return struct.pack("d", math.nan if math.isnan(value) else value) if isinstance(value, float) else value


def nasty(rng: Random) -> list[Any]:
    values = (0.1, 0.2, 0.3, 1e16, -1e16, 1.0, -0.0, 1e-30, 3.3, 1e308)
    return rng.choice(
        (
            [rng.choice((None, *values)) for _ in range(12)],
            [rng.uniform(-1, 1) * 10 ** rng.randrange(-9, 9) for _ in range(40)],
            [-0.0, -0.0, None],
            [rng.choice((1.5, math.nan, None, 2.0)) for _ in range(6)],
        )
    )


@pytest.mark.parametrize("function", [item for item in FUNCTIONS if item is not p.AggregateFunction.STDDEV])
def test_floats_are_aggregated_bit_for_bit(function: p.AggregateFunction) -> None:
    rng = Random(11)
    for _ in range(60):
        values = nasty(rng)
        ranges = np.array(sorted((rng.randrange(len(values) + 1), rng.randrange(len(values) + 1)) for _ in range(9)))
        starts, ends = ranges.min(axis=1), ranges.max(axis=1)
        found = aggregate(function, pa.array(values, pa.float64()), starts, ends).to_pylist()
        expected = [oracle.aggregate(function, values[a:b]) for a, b in zip(starts, ends, strict=True)]
        assert [*map(bits, found)] == [*map(bits, expected)]


def test_deviations_are_of_exact_sums() -> None:
    rng = Random(12)
    for _ in range(200):
        values: list[Any] = [rng.uniform(-1, 1) * 10 ** rng.randrange(-9, 9) for _ in range(rng.randrange(12))] + [None]
        if rng.random() < 0.5:
            values = [rng.randrange(100) for _ in values]
        column = widen(pa.array(values, pa.float64() if None in values else pa.int64()))
        end = np.array([len(values)])
        found = aggregate(p.AggregateFunction.STDDEV, column, np.zeros(1, np.int64), end).to_pylist()[0]
        assert found == oracle.aggregate(p.AggregateFunction.STDDEV, values)


def test_integers_are_exact_and_overflow_is_an_error() -> None:
    big = 2**62
    column, starts = pa.array([big, big - 1, -1, 5, big, -big, -big, -1]), np.array([0])
    total = aggregate(p.AggregateFunction.SUM, column, starts, np.array([3]))
    assert total.to_pylist() == [2 * big - 2]
    assert aggregate(p.AggregateFunction.SUM, column, np.array([5]), np.array([7])).to_pylist() == [-(2**63)]
    for begin, end in ((0, 4), (5, 8)):
        with pytest.raises(DataError, match="64 bits"):
            aggregate(p.AggregateFunction.SUM, column, np.array([begin]), np.array([end]))
        values = column.to_pylist()[begin:end]
        average = aggregate(p.AggregateFunction.AVG, column, np.array([begin]), np.array([end]))
        assert average.to_pylist() == [sum(values) / len(values)]
    # What the sum is on the way does not matter.
    assert aggregate(p.AggregateFunction.SUM, column, starts, np.array([7])).to_pylist() == [big + 3]
    failed = np.zeros(2, bool)
    sums = aggregate(p.AggregateFunction.SUM, column, np.array([0, 0]), np.array([4, 3]), failed)
    assert (sums.to_pylist(), failed.tolist()) == ([None, 2 * big - 2], [True, False])


def test_a_column_of_nulls() -> None:
    column, starts, ends = pa.nulls(3), np.array([0, 1]), np.array([3, 1])
    assert aggregate(p.AggregateFunction.SUM, column, starts, ends).to_pylist() == [None, None]
    assert aggregate(p.AggregateFunction.COUNT, column, starts, ends).to_pylist() == [0, 0]


# --- selection --------------------------------------------------------------------------------------------------------


def bindings_of(at: World, matches: Matches) -> list[Bindings]:
    rows = matches.mapped(at.groups.order)
    found: list[Bindings] = []
    for match in range(rows.count):
        bindings: Bindings = {variable: int(places[match]) for variable, places in rows.singles.items()}
        for variable, (offsets, places) in rows.lists.items():
            bindings[variable] = tuple(places[offsets[match] : offsets[match + 1]].tolist())
        found.append(bindings)
    return found


def test_selected_matches_keep_their_events() -> None:
    for rng, at, found in cases(20, 30):
        matches = at.matches(found)
        assert bindings_of(at, matches) == found
        held = np.array([rng.random() < 0.6 for _ in found])
        chosen = [match for match, stays in zip(found, held, strict=True) if stays]
        selected = matches.select(held)
        assert bindings_of(at, selected) == chosen
        assert selected.count == len(chosen) == selected.first.size
        extents = [(min(flat_rows(match)), max(flat_rows(match))) for match in chosen]
        assert [*zip(at.groups.order[selected.first], at.groups.order[selected.last], strict=True)] == extents
    assert matches.select(np.ones(matches.count, bool)) is matches


def test_sequences_are_not_copied() -> None:
    sequences = np.array([[0, 1], [2, 3]], np.int32)
    matches = Matches.of_sequences(["a", "b"], sequences)
    assert matches.singles["b"].base is sequences
    assert matches.first is matches.singles["a"]
    assert matches.last is matches.singles["b"]


# --- rows and ids -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    bound: BoundQuery
    columns: tuple[str, ...]
    transformation: Transformation


def written(at: World, matches: Matches, returns: Mapping[str, p.Expression] | None = None) -> pa.RecordBatch:
    plan = Plan(at.bound, tuple(ARROW.names), Transformation(tuple((returns or {}).items())))
    hashes = EventHashes(at.placed, at.groups.ts, plan.columns, tied=False)
    writer = MatchWriter(plan, ARROW)
    batch = writer.write(at.placed, hashes, matches)
    assert batch.schema == writer.schema
    batch.validate(full=True)
    return batch


def stored(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ARROW.names}


def test_rows_hold_the_events() -> None:
    for _, at, found in cases(30, 20):
        rows = written(at, at.matches(found)).to_pylist()
        variables = [event.variable for event in at.bound.components if not event.negated]
        for row, match in zip(rows, found, strict=True):
            assert list(row) == ["query", "match_id", "match_start", "match_end", *variables]
            assert (row["match_start"], row["match_end"]) == (min(flat_rows(match)), max(flat_rows(match)))
            for variable in variables:
                held = match.get(variable)
                events = [stored(at.events[at_row]) for at_row in ((held,) if isinstance(held, int) else held or ())]
                expected: Any = None if held is None else events[0] if isinstance(held, int) else events
                assert repr(row[variable]) == repr(expected)  # NaN is itself there


def test_returned_columns_keep_their_types_whichever_branch_matched() -> None:
    rng = Random(8)
    at = world(rng, QUERIES[1], declared=True)
    returns: dict[str, p.Expression] = {
        "own": p.Attribute("b", "k"),
        "all": p.Attribute("a", "k", p.Element.EACH),
        "total": p.Aggregate(p.AggregateFunction.SUM, "c", "k", p.Element.EACH),
        "took": p.Aggregate(p.AggregateFunction.AVG, "a", "d", p.Element.EACH),
        "label": p.Aggregate(p.AggregateFunction.MAX, "c", "s", p.Element.EACH),
        "when": p.Aggregate(p.AggregateFunction.MIN, "a", "t", p.Element.EACH),
        "size": p.Length("c"),
        "sum": p.Arithmetic("+", p.Length("a"), p.Attribute("d", "x")),
    }
    kinds = [pa.int16(), pa.list_(pa.int16()), pa.int64(), pa.duration("us"), pa.string(), pa.timestamp("us", "UTC")]
    for _ in range(6):
        found = random_matches(rng, at, 3)
        batch = written(at, at.matches(found), returns)
        assert batch.schema.types[4:] == [*kinds, pa.int64(), pa.int64()]
        for position, row in enumerate(batch.to_pylist()):
            for name, expression in returns.items():
                value = [plain(item) for item in row[name]] if isinstance(row[name], list) else plain(row[name])
                assert same(value, oracle.value(expression, at.frame(found[position])))


def mixed(value: int) -> int:
    for _ in range(2):
        value ^= value >> 32
        value = value * 0xD6E8FEB86659FD93 % 2**64
    return value ^ value >> 32


def expected_id(at: World, match: Bindings, hashes: np.ndarray[Any, Any]) -> int:
    """A match id from the hashes of its events, in plain integers."""
    value, factor = query_seed(at.bound.query), 0x9E3779B97F4A7C15
    for event in at.bound.components:
        if event.negated:
            continue
        held = match.get(event.variable)
        if isinstance(held, int):
            value += int(hashes[at.place_of[held]]) * factor
        elif held is not None:
            word, own = len(held), 0x9E3779B97F4A7C15
            for row in held:
                word += int(hashes[at.place_of[row]]) * own
                own = (own * 0xD6E8FEB86659FD93 | 1) % 2**64
            value += mixed(word % 2**64) * factor
        factor = (factor * 0xD6E8FEB86659FD93 | 1) % 2**64
    unsigned = mixed(value % 2**64)
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned


def test_ids_are_of_the_events_under_each_variable() -> None:
    for _, at, found in cases(40, 60):
        matches = at.matches(found)
        ids = written(at, matches).column("match_id").to_pylist()
        hashes, _ = EventHashes(at.placed, at.groups.ts, tuple(ARROW.names), tied=False).at(np.arange(len(at.placed)))
        assert ids == [expected_id(at, match, hashes) for match in found]
        assert len(set(ids)) == len({tuple(match.items()) for match in found})


def test_hashes_are_the_same_whether_they_are_kept_or_not() -> None:
    at = world(Random(5), "PATTERN SEQ(A a, B b) WITHIN 50")
    hashes, count = EventHashes(at.placed, at.groups.ts, tuple(ARROW.names), tied=False), len(at.placed)
    kept, where = EventHashes(at.placed, at.groups.ts, tuple(ARROW.names), tied=False).at(np.arange(count))
    assert kept[where].tolist() == kept.tolist()
    few = np.array([count - 1, 0])
    for places in (few, few[::-1], np.arange(count), few):
        found, where = hashes.at(places)
        assert (found.size < count) == (places.size == 2 and where is not places), "both ways are taken"
        assert found[where].tolist() == kept[places].tolist()


def test_where_one_list_ends_and_the_next_begins_changes_the_id() -> None:
    at = world(Random(4), "PATTERN SEQ(A+ a[], A+ b[]) WITHIN 50")
    found: list[Bindings] = [{"a": (0, 1), "b": (2,)}, {"a": (0,), "b": (1, 2)}, {"a": (1,), "b": (0, 2)}]
    ids = written(at, at.matches(found)).column("match_id").to_pylist()
    assert len(set(ids)) == 3


# --- negation ---------------------------------------------------------------------------------------------------------

NEGATIONS = (
    "PATTERN SEQ(A a, B+ b[], !(N n), ANY(C, D)+ c[]) WHERE {} WITHIN 9",
    "PATTERN SEQ(A+ a[], !(N n), B b) WHERE {}",
    "PATTERN SEQ(!(N n), A+ a[], B b) WHERE {} WITHIN 8",
    "PATTERN SEQ(A a, B+ b[], !(N n)) WHERE {} WITHIN 8",
    "PATTERN AND(A+ a[], B+ b[], !(N n)) WHERE {} WITHIN 8",
    "PATTERN SEQ(A? c, B+ a[], !(N n), C b) WHERE {}",
)
ON_NEGATIVES = (
    "n.ts >= 0",
    "n.x > 1",
    "n.x > {0}[1].x",
    "n.x != {0}[].x",
    "n.k = {0}[1].k AND n.x < max({0}[].x)",
    "n.x > {0}[i].x - {0}[i-1].x",
    "n.y >= avg({0}[..i-1].y)",
    "{0}.LEN > 1 AND n.f",
)


@pytest.mark.parametrize("method", ["key_index", "time_index", "scan"])
@pytest.mark.parametrize("text", NEGATIONS)
def test_negation_is_the_oracles(text: str, method: str) -> None:
    kleene = "a" if "a[]" in text else "b"
    for number, condition in enumerate(ON_NEGATIVES):
        rng = Random(number)
        at = world(rng, text.format(condition.format(kleene)), count=40)
        stream = make_stream(at.bound, at.events, "error")
        for branch in at.bound.branches:
            found = ordered_matches(rng, at, branch, 60)
            if not found:
                continue
            variables = [event.variable for event in branch.positives]
            chosen = [
                tuple(rows if isinstance(rows, tuple) else (rows,) for rows in (match[name] for name in variables))
                for match in found
            ]
            negative = branch.negatives[0]
            known = {*variables, "n"}
            component = NegativeComponent(
                negative.event,
                tuple(negative.after),
                tuple(negative.before),
                (),
                tuple(item for item in at.bound.conjuncts if "n" in p.variables(item) and p.variables(item) <= known),
                keyed=False,
                beside=branch.beside(negative),
            )
            rank = at.working.rank()
            rows, order = at.working.rows_with(0), at.groups.order
            index = NegativeIndex(component, variables, rows, method, at.bound.window, at.working, rank, None, order)
            dead = index.dead(at.bound, at.matches(found)).tolist()
            assert dead == [negated(stream, branch, item) for item in chosen], condition


def ordered_matches(rng: Random, at: World, branch: Any, count: int) -> list[Bindings]:
    """Random matches of the branch whose components follow one another."""
    found: list[Bindings] = []
    for _ in range(count):
        rows = iter(sorted(rng.sample(range(len(at.events)), 12)))
        match: Bindings = {}
        for event in branch.positives:
            able = [row for row in (next(rows) for _ in range(12 // len(branch.positives))) if at.types[row] in event.types]
            if able:
                match[event.variable] = tuple(able) if event.is_kleene else able[0]
        if len(match) == len(branch.positives):
            found.append(match)
    return found


def test_dictionary_encoded_times_are_returned() -> None:
    days = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2)]
    events = pa.table({"ts": [1, 2], "type": ["A", "B"], "day": pa.array(days).dictionary_encode()})
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE a.day < b.day RETURN a.day AS first, b.day AS last")
    (found,) = query.match(events, time="ts", type="type").to_pylist()
    assert [found["first"], found["last"]] == days


@pytest.mark.parametrize("far", [0, 1 << 60], ids=["near", "out of range"])
def test_match_ids_do_not_depend_on_how_many_events_are_hashed_at_once(monkeypatch: pytest.MonkeyPatch, far: int) -> None:
    """One event, which is in no match, has a time that fits its own unit and perhaps no finer one."""
    count = 300
    table = pa.table(
        {
            "ts": range(count),
            "type": ["A", "B", "C"] * (count // 3),
            "when": pa.array([far, *range(1, count)], pa.timestamp("s")),
            "x": [-100, *range(1, count)],
        }
    )
    queries = {kind: kleene.query(f"PATTERN SEQ(A a, {kind} b) WHERE a.x + 9 > b.x WITHIN 9", name=kind) for kind in "BC"}
    completed: list[bool] = []
    complete = EventHashes._complete
    monkeypatch.setattr(EventHashes, "_complete", lambda self: completed.append(complete(self)) or completed[-1])
    found = []
    for at_once in (0, 1 << 40):  # never, and from the second time on
        monkeypatch.setattr("kleene.engine.matches.output.AT_ONCE", at_once)
        matches = kleene.workload(queries).match(table, time="ts", type="type")
        found.append({name: sorted(rows.column("match_id").to_pylist()) for name, rows in matches.items()})
    assert found[0] == found[1]
    assert all(found[0].values())
    assert set(completed) == {far == 0}
