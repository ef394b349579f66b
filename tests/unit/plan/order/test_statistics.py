"""Statistics: what users may give, how they age, and that what is observed of events is what an exact count gives."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kleene.common.errors import DataError, PlanningError
from kleene.common.schema import schema_of_arrow
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matcher import Metrics
from kleene.engine.passes import sampling
from kleene.engine.passes.observe import bits_of, collect_arrow, observe, read_columns, scan_of
from kleene.engine.passes.sampling import share
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import variables
from kleene.pattern.text import expression_text
from kleene.plan.analysis.keys import key_attributes
from kleene.plan.order.statistics import Statistics, window_in_units

Pieces = tuple[BoundQuery, Any, Any, Any]


def pieces(text: str, table: pa.Table, **roles: Any) -> Pieces:
    """(bound, scanned, conditions, partition) of a query, as a plan has them."""
    given = {"time": "ts", "type": "type"} | roles
    bound = bind(parse(text), schema_of_arrow(table.schema, **given))
    simple = [item for item in bound.conjuncts if not any(mark in expression_text(item) for mark in ("[", ".LEN"))]
    scanned = [(event, tuple(item for item in simple if variables(item) == {event.variable})) for event in bound.components]
    decided = [condition for _, own in scanned for condition in own]
    return bound, scanned, [c for c in bound.conjuncts if c not in decided], key_attributes(bound)


def observed(text: str, table: pa.Table, roles: dict[str, Any] | None = None, **options: Any) -> Statistics:
    """The statistics of a whole table."""
    bound, scanned, conditions, partition = pieces(text, table, **roles or {})
    columns = read_columns(bound, scanned, conditions, partition)
    working = WorkingSet(bound.schema, columns)
    for batch in table.to_batches():
        working.add(batch, *scan_of(bound, scanned, Metrics())(batch))
    return observe(bound, bits_of(scanned), conditions, partition, working, **options)


def collected(text: str, events: Any, **options: Any) -> Statistics:
    bound, scanned, conditions, partition = pieces(text, events)
    return collect_arrow(bound, scanned, conditions, partition, events, **options)


def stream(rows: int, seed: int = 0, *, keys: int = 4, shares: tuple[float, ...] = (0.2, 0.3, 0.5)) -> pa.Table:
    """Events of types A, B, ... at integer times, some equal, with a key `k` and uniform attributes `x` and `y`."""
    random = np.random.default_rng(seed)
    types = np.array(list("ABCDEFG"))[random.choice(len(shares), rows, p=shares)]
    return pa.table(
        {
            "ts": np.sort(random.integers(0, rows, rows)),
            "type": pa.array(types),
            "k": random.integers(0, keys, rows),
            "x": random.integers(0, 10, rows),
            "y": random.random(rows),
        }
    )


# --- what a user gives ------------------------------------------------------------------------------------------------


TABLE = stream(10)
CONDITIONS = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y * 2 > c.y + 1 AND (a.type = 'it''s  b.x' OR b.x = 1) AND c.x = a.x"
)


def canonical(text: str) -> str:
    where = parse(f"PATTERN X x WHERE {text}").where
    assert where is not None
    return expression_text(where)


def given(statistics: Any, parser: Callable[[str], str] | None = None) -> Statistics:
    _, _, conditions, _ = pieces(CONDITIONS, TABLE)
    return Statistics.from_mapping(statistics, ["a", "b", "c"], conditions, parser)


@pytest.mark.parametrize("text", ["a.x < b.x", "a.x<b.x", "  a.x\n<  b.x ", "b.x > a.x"])
def test_a_condition_is_known_by_its_text(text: str) -> None:
    assert given({"rates": {"a": 3}, "selectivities": {text: 0.25}}) == Statistics({"a": 3.0}, {"a.x < b.x": 0.25})


def test_a_parser_makes_texts_alike() -> None:
    found = given({"selectivities": {"(b.y*2) > (c.y + 1)": 0.1, "c.x == a.x": 0.2}}, canonical)
    assert found.selectivities == {"b.y * 2 > c.y + 1": 0.1, "c.x = a.x": 0.2}
    with pytest.raises(PlanningError, match="is no condition between events"):
        given({"selectivities": {"a.x <": 0.1}}, canonical)


@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        ({"rates": {"d": 1}}, "a rate is given for 'd', which is no positive variable", "known: 'a', 'b', 'c'"),
        ({"rates": {"a": -1}}, "the rate of 'a' must be a finite number, 0 or more, not -1", None),
        ({"rates": {"a": math.nan}}, "not nan", None),
        ({"rates": {"a": math.inf}}, "not inf", None),
        ({"rates": {"a": "many"}}, "not 'many'", None),
        ({"rates": {"a": True}}, "not True", None),
        ({"rates": [1, 2]}, "a rate is given for each variable, as a mapping, not as list", None),
        ({"selectivities": {"a.x < b.x": 1.5}}, "the selectivity of 'a.x < b.x' must be a number from 0 to 1, not 1.5", None),
        ({"selectivities": {"a.x < c.x": 0.5}}, "'a.x < c.x', which is no condition between", "did you mean 'a.x < b.x'?"),
        ({"selectivities": {"a.type = 'it''s b.x' OR b.x = 1": 0.5}}, "is no condition between events", "did you mean"),
        ({"same_partition": 2}, "'same_partition' must be a number from 0 to 1, not 2", None),
        ({"rate": {}}, "unknown statistic 'rate'", "did you mean 'rates'?"),
        ([], "statistics are a mapping, not list", None),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(wrong: Any, message: str, hint: str | None) -> None:
    with pytest.raises(PlanningError) as raised:
        given(wrong)
    assert message in str(raised.value)
    assert hint is None or hint in str(raised.value)


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(PlanningError) as raised:
        given({"rates": {"d": 1, "a": -1}, "selectivities": {"a.x < c.x": 0.5}, "other": 1})
    assert len(raised.value.problems) == 4


def test_json_and_back() -> None:
    statistics = Statistics({"a": 2.5, "b": 0.0}, {"a.x < b.x": 0.125}, 0.01, 3600.0, 9000)
    assert Statistics.from_json(json.loads(json.dumps(statistics.to_json()))) == statistics
    with pytest.raises(PlanningError, match="the rate of 'a' must be"):
        Statistics.from_json({"rates": {"a": None}})


def test_what_is_unknown_counts_as_neither_rare_nor_frequent() -> None:
    statistics = Statistics({"a": 1.0, "b": 3.0}, {"a.x < b.x": 0.125})
    assert [statistics.rate(name) for name in "abc"] == [1.0, 3.0, 2.0]
    assert Statistics().rate("a") == 1.0
    assert statistics.selectivity(pieces(CONDITIONS, TABLE)[2][0]) == 0.125
    assert statistics.selectivity("b.x < c.x") == 0.5


# --- ageing -----------------------------------------------------------------------------------------------------------


def test_older_statistics_fade() -> None:
    older = Statistics({"a": 10.0, "b": 1.0}, {"p": 0.4, "q": 0.9}, 0.5, 100.0, 1000)
    newer = Statistics({"a": 20.0, "c": 2.0}, {"p": 0.8}, 0.25, 200.0, 3000)
    blended = older.decayed(newer, 0.25)
    assert blended.rates == {"a": 12.5, "b": 1.0, "c": 2.0}
    assert blended.selectivities == pytest.approx({"p": 0.5, "q": 0.9})
    assert (blended.same_partition, blended.span, blended.events) == (0.4375, 125.0, 1500)
    assert older.decayed(newer, 0.0) == Statistics({**older.rates, "c": 2.0}, older.selectivities, 0.5, 100.0, 1000)


def test_where_nothing_was_observed_nothing_fades() -> None:
    older = Statistics({"a": 10.0}, {"p": 0.4}, 0.5, 100.0, 1000)
    assert older.decayed(Statistics(), 0.9) == older
    assert Statistics().decayed(older, 0.1) == older


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (Statistics({"a": 1.0}), Statistics({"a": 2.0}), False),
        (Statistics({"a": 1.0}), Statistics({"a": 2.1}), True),
        (Statistics({"a": 1.0}), Statistics({"b": 9.0}), False),
        (Statistics({"a": 0.0}), Statistics({"a": 0.0}), False),
        (Statistics({"a": 0.0}), Statistics({"a": 0.1}), True),
        (Statistics({"a": 0.0}, span=10.0), Statistics({"a": 0.1}, span=20.0), False),
        (Statistics({"a": 0.0}, span=10.0), Statistics({"a": 0.3}, span=20.0), True),
        (Statistics({}, {"p": 0.5}), Statistics({}, {"p": 0.2}), True),
        (Statistics({}, {"p": 0.0}), Statistics({}, {"p": 0.001}), False),
    ],
)
def test_what_differs(one: Statistics, other: Statistics, differ: bool) -> None:
    assert one.differs(other, 2.0) is differ
    assert other.differs(one, 2.0) is differ


# --- rates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "step"), [("us", 1_000_000), ("ns", 1_000_000_000), ("ms", 1_000), (None, 1)])
def test_rates_are_per_second_or_unit_of_time(unit: str | None, step: int) -> None:
    kind = pa.int64() if unit is None else pa.timestamp(unit)
    times = pa.array([number * step for number in range(0, 20, 2)], pa.int64()).cast(kind)
    table = pa.table({"ts": times, "type": list("AABABBBABB"), "x": list(range(10))})
    text = f"PATTERN SEQ(A a, B b) WHERE b.x > 4 WITHIN 4{'' if unit is None else ' seconds'}"
    found = observed(text, table)
    assert found.span == pytest.approx(18.0, rel=0.2)
    assert found.rates == pytest.approx({"a": 4 / found.span, "b": 4 / found.span})
    assert found.events == 8
    assert window_in_units(pieces(text, table)[0]) == 4.0


def test_as_many_gaps_as_rows_have_passed() -> None:
    table = pa.table({"ts": [10, 12, 14, 16], "type": ["A", "A", "A", "A"]})
    assert observed("PATTERN A a", table).rates == {"a": 0.5}


def test_rates_are_per_event_under_a_window_of_events() -> None:
    table = pa.table({"ts": [1, 2, 90, 91], "type": ["A", "B", "A", "A"]})
    assert observed("PATTERN SEQ(A a, B b) WITHIN 3 EVENTS", table).rates == {"a": 0.75, "b": 0.25}
    assert window_in_units(pieces("PATTERN SEQ(A a, B b) WITHIN 3 EVENTS", table)[0]) == 3.0


def test_events_of_one_instant_fill_a_window() -> None:
    table = pa.table({"ts": [7, 7, 7, 7], "type": ["A", "A", "B", "B"]})
    assert observed("PATTERN SEQ(A a, B b) WITHIN 8", table).rates == {"a": 0.25, "b": 0.25}
    assert observed("PATTERN SEQ(A a, B b)", table).rates == {"a": 2.0, "b": 2.0}


def test_negative_components_have_no_rate() -> None:
    assert observed("PATTERN SEQ(A a, !(B b), C c) WITHIN 10", stream(100)).rates.keys() == {"a", "c"}


def test_without_events_nothing_is_known() -> None:
    empty = stream(1).slice(0, 0)
    assert observed("PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 3", empty) == Statistics()
    assert collected("PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 3", empty) == Statistics()


# --- selectivities ----------------------------------------------------------------------------------------------------


def exact(
    table: pa.Table,
    types: str,
    condition: Callable[..., bool],
    *,
    window: int | None,
    order: tuple[tuple[int, int], ...],
    key: bool = False,
) -> float:
    """The share of the tuples in scope that satisfy a condition, by looking at every tuple."""
    rows = [dict(row, row=number) for number, row in enumerate(table.to_pylist())]
    held: list[bool] = []
    for events in product(*([row for row in rows if row["type"] == kind] for kind in types)):
        times = [event["ts"] for event in events]
        in_window = window is None or max(times) - min(times) < window
        in_order = all(times[i] < times[j] for i, j in order)
        distinct = len({event["row"] for event in events}) == len(events)
        if in_window and in_order and distinct and not (key and len({event["k"] for event in events}) > 1):
            held.append(condition(*events))
    assert len(held) >= sampling.FEWEST, "too few tuples in scope to tell anything"
    return share(sum(held), len(held))


def less(a: Any, b: Any, *_: Any) -> bool:
    return bool(a["x"] < b["x"])


SEQUENCE = ((0, 1), (1, 2), (0, 2))


def test_a_condition_of_a_sequence_is_measured_on_all_pairs_in_scope() -> None:
    table = stream(150)
    found = observed("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20", table, pairs=100_000)
    assert found.selectivities["a.x < b.x"] == exact(table, "AB", less, window=20, order=((0, 1),))
    assert found.same_partition == 1.0


def test_events_in_any_order() -> None:
    table = stream(150)
    found = observed("PATTERN AND(A a, B b) WHERE a.ts < b.ts - 2 WITHIN 12", table, pairs=100_000)
    late = exact(table, "AB", lambda a, b: a["ts"] < b["ts"] - 2, window=12, order=())
    assert found.selectivities["a.ts < b.ts - 2"] == late
    assert 0.3 < late < 0.5


def test_two_events_of_one_type_are_distinct() -> None:
    table = stream(150, shares=(1.0,))
    found = observed("PATTERN AND(A a, A b) WHERE a.y != b.y WITHIN 12", table, pairs=100_000)
    assert found.selectivities["a.y != b.y"] == exact(table, "AA", lambda a, b: a["y"] != b["y"], window=12, order=())


def test_only_events_of_one_partition_meet() -> None:
    table = stream(200)
    text = "PATTERN SEQ(A a, B b) WHERE [k] AND a.k + b.k = 2 AND a.x < b.x WITHIN 60"
    found = observed(text, table, pairs=100_000).selectivities
    assert found["a.x < b.x"] == exact(table, "AB", less, window=60, order=((0, 1),), key=True)
    same = exact(table, "AB", lambda a, b: a["k"] + b["k"] == 2, window=60, order=((0, 1),), key=True)
    assert found["a.k + b.k = 2"] == same


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("pattern", ["SEQ(A a, B b, C c)", "SEQ(AND(A a, B b), C c)", "AND(SEQ(A a, B b), C c)"])
def test_conditions_of_three_events(pattern: str, key: bool) -> None:
    order = {"S": SEQUENCE, "SA": ((0, 2), (1, 2)), "A": ((0, 1),)}[pattern[0] + ("A" if "SEQ(AND" in pattern else "")]
    table = stream(90, keys=2)
    text = f"PATTERN {pattern} WHERE {'[k] AND ' if key else ''}a.y + b.y < c.y WITHIN 25"
    found = observed(text, table, pairs=1_000_000).selectivities["a.y + b.y < c.y"]
    assert found == exact(table, "ABC", lambda a, b, c: a["y"] + b["y"] < c["y"], window=25, order=order, key=key)


def test_a_sample_is_near_the_exact_share() -> None:
    table = stream(3_000, keys=3)
    text = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x AND b.y < c.y / 4 WITHIN 60"
    found = observed(text, table).selectivities
    assert found["a.x < b.x"] == pytest.approx(0.45, abs=0.06)
    assert found["b.y < c.y / 4"] == pytest.approx(0.125, abs=0.04)


def test_what_holds_only_nearby_is_measured_nearby() -> None:
    """A price that rises through the day: among all pairs most are far apart, in a window hardly any."""
    table = stream(2_000).set_column(3, "x", pa.array(np.arange(2_000)))
    near, far = (observed(f"PATTERN SEQ(A a, B b) WHERE b.x > a.x + 100 {w}", table).selectivities for w in ("WITHIN 20", ""))
    assert near["b.x > a.x + 100"] < 0.01
    assert far["b.x > a.x + 100"] > 0.8


def test_dense_stretches_count_by_their_tuples() -> None:
    """Where events crowd there are more tuples: shares are of tuples, not of events."""
    quiet = [(100 * number, kind, 0) for number in range(40) for kind in "AB"]
    crowd = [(10_000 + number, "A" if number % 2 else "B", 1) for number in range(80)]
    columns = zip(*sorted((ts + (kind == "B"), kind, x) for ts, kind, x in (*quiet, *crowd)), strict=True)
    table = pa.table(dict(zip(("ts", "type", "x"), map(list, columns), strict=True)))
    text = "PATTERN SEQ(A a, B b) WHERE a.x + b.x = 2 WITHIN 100"
    wanted = exact(table, "AB", lambda a, b: a["x"] + b["x"] == 2, window=100, order=((0, 1),))
    assert wanted > 0.9
    assert observed(text, table, pairs=100).selectivities["a.x + b.x = 2"] > 0.9


def test_simultaneous_events_are_ordered_by_order_by_only() -> None:
    columns = {"ts": [t for t in range(50) for _ in "AB"], "type": ["A", "B"] * 50, "n": list(range(100))}
    table, text = pa.table(columns), "PATTERN SEQ(A a, B b) WHERE a.ts = b.ts WITHIN 2"
    assert observed(text, table).selectivities["a.ts = b.ts"] < 0.02
    assert observed(text, table, {"order_by": ("n",)}).selectivities["a.ts = b.ts"] == pytest.approx(0.5, abs=0.02)


def test_where_no_tuple_is_in_scope_others_stand_for_them() -> None:
    table = stream(400, keys=40).set_column(1, "type", pa.array(["B"] * 200 + ["A"] * 200))
    text = "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 3"
    assert observed(text, table).selectivities["a.x < b.x"] == pytest.approx(0.45, abs=0.05)


def test_of_a_variable_without_events_no_condition_is_known() -> None:
    assert observed("PATTERN SEQ(A a, Z z) WHERE a.x < z.x WITHIN 9", stream(50)).selectivities == {}


def test_one_element_stands_for_a_kleene_variable_unless_several_are_read() -> None:
    text = (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < b[1].x AND b[b.LEN].x <= c.x AND b[i].x > b[i-1].x AND b[].x != c.x "
        "AND avg(b[].x) < a.x AND b.LEN > 3 AND b[1].x < b[b.LEN].x WITHIN 20"
    )
    table = stream(150)
    found = observed(text, table, pairs=100_000).selectivities
    assert found.keys() == {"a.x < b[1].x", "b[b.LEN].x <= c.x", "b[].x != c.x"}
    assert found["a.x < b[1].x"] == exact(table, "AB", less, window=20, order=((0, 1),))


def test_attributes_that_a_type_does_not_have_hold() -> None:
    table = stream(300)
    declared = {"A": frozenset({"x", "k"}), "B": frozenset({"k"}), "C": frozenset({"x", "k"})}
    text = "PATTERN SEQ(ANY(A, B) a, C c) WHERE a.x < c.x WITHIN 20"
    found = observed(text, table, {"types": declared}, pairs=100_000).selectivities["a.x < c.x"]
    either = table.set_column(1, "type", pa.array(["E" if t in "AB" else "C" for t in table["type"].to_pylist()]))
    rows = either.append_column("own", table["type"])
    wanted = exact(rows, "EC", lambda a, c: a["own"] == "B" or a["x"] < c["x"], window=20, order=((0, 1),))
    assert found == wanted


def test_a_condition_that_fails_on_a_tuple_is_not_known() -> None:
    table = stream(100).set_column(3, "x", pa.array([2**62] * 100))
    text = "PATTERN SEQ(A a, B b) WHERE a.x * b.x > 1 AND a.y < b.y WITHIN 20"
    assert observed(text, table).selectivities.keys() == {"a.y < b.y"}


def test_pairs_are_never_enumerated() -> None:
    """Two billion pairs are in scope; a few of them are looked at."""
    table = stream(100_000, shares=(0.5, 0.5))
    found = observed("PATTERN SEQ(A a, B b) WHERE a.y < b.y", table)
    assert found.selectivities["a.y < b.y"] == pytest.approx(0.5, abs=0.08)


def test_samples_repeat_with_their_seed() -> None:
    table, text = stream(3_000), "PATTERN SEQ(A a, B b) WHERE a.y < b.y WITHIN 100"
    assert observed(text, table, seed=3) == observed(text, table, seed=3)
    assert observed(text, table, seed=3) != observed(text, table, seed=4)


# --- partitions -------------------------------------------------------------------------------------------------------


def test_the_probability_of_one_partition_is_that_within_a_window() -> None:
    table = stream(120)
    rows = table.to_pylist()
    pairs = [(a, b) for a in rows for b in rows if a is not b and abs(a["ts"] - b["ts"]) < 15]
    wanted = share(sum(a["k"] == b["k"] for a, b in pairs), len(pairs))
    assert observed("PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 15", table).same_partition == wanted


def test_keys_that_live_shortly_share_more() -> None:
    table = stream(4_000).set_column(2, "k", pa.array(np.arange(4_000) // 40))
    text = "PATTERN SEQ(A a, B b, C c) WHERE [k]"
    assert observed(text, table, rows=4_000).same_partition == pytest.approx(0.01, rel=0.3)
    assert observed(f"{text} WITHIN 40", table).same_partition == pytest.approx(0.5, rel=0.2)


def test_several_attributes_make_a_partition() -> None:
    table = stream(2_000, keys=5).append_column("s", pa.array(["u", "v"] * 1_000))
    found = observed("PATTERN SEQ(A a, B b) WHERE [k] AND [s] WITHIN 200", table)
    assert found.same_partition == pytest.approx(0.1, rel=0.2)


def test_of_many_rows_stretches_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    table, text = stream(6_000, keys=10), "PATTERN SEQ(A a, B b) WHERE [k] AND a.y < b.y WITHIN 100"
    looked: list[int] = []
    codes = sampling.combined_codes
    monkeypatch.setattr(sampling, "combined_codes", lambda columns: looked.append(len(columns[0])) or codes(columns))
    found = observed(text, table, rows=800)
    assert looked == [800]
    assert found.same_partition == pytest.approx(0.1, rel=0.3)
    assert found.selectivities["a.y < b.y"] == pytest.approx(0.5, abs=0.12)
    assert found.events == sum(kind in "AB" for kind in table["type"].to_pylist())


# --- tables and streams -----------------------------------------------------------------------------------------------


KEYED = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x AND b.y < c.y / 2 AND c.x > 4 WITHIN 300"


def test_a_sample_of_a_table_tells_what_the_table_does() -> None:
    table = stream(60_000, keys=20)
    whole, sample = collected(KEYED, table), collected(KEYED, table, rows=6_400)
    assert whole.events > 40_000
    assert 2_000 < sample.events < 6_400
    assert sample.rates == pytest.approx(whole.rates, rel=0.15)
    assert whole.rates == pytest.approx({"a": 0.2, "b": 0.3, "c": 0.25}, rel=0.05)
    assert sample.same_partition == pytest.approx(0.05, rel=0.2)
    assert sample.selectivities == pytest.approx({"a.x < b.x": 0.45, "b.y < c.y / 2": 0.25}, abs=0.08)


def test_a_short_table_is_read_as_a_whole() -> None:
    table = stream(500)
    found = collected("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20", table, pairs=100_000)
    assert found.selectivities["a.x < b.x"] == exact(table, "AB", less, window=20, order=((0, 1),))
    times = table["ts"].to_pylist()
    assert found.span == pytest.approx((times[-1] - times[0]) * 500 / 499)


@pytest.mark.parametrize("size", [7, 100, 5_000])
def test_a_stream_gives_what_its_table_gives(size: int) -> None:
    table = stream(12_000)
    batches = table.to_batches(max_chunksize=size)
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)
    cut = pa.Table.from_batches(batches)
    assert collected(KEYED, reader, rows=2_000) == collected(KEYED, table, rows=2_000) == collected(KEYED, cut, rows=2_000)


def test_types_may_be_dictionaries_with_other_codes_in_each_batch() -> None:
    table = stream(900)
    parts = [table.slice(begin, 300) for begin in (0, 300, 600)]
    encoded = [part.set_column(1, "type", part["type"].combine_chunks().dictionary_encode()) for part in parts]
    assert collected(KEYED, pa.concat_tables(encoded)) == collected(KEYED, table)


def test_slices_of_one_instant_take_their_part_of_the_whole_time() -> None:
    rows = 10_000
    types = pa.array(["A", "B"] * (rows // 2))
    table = pa.table({"ts": np.repeat([0, 1000], rows // 2), "type": types})
    found = collected("PATTERN SEQ(A a, B b) WITHIN 2000", table, rows=320)
    assert found.rates == pytest.approx({"a": 5.0, "b": 5.0}, rel=0.1)


def test_time_without_events_between_slices_does_not_count() -> None:
    """Busy for 1,000 units a day, idle for 99,000: what a window sees are the busy ones."""
    ts = (np.arange(20_000) // 1_000) * 100_000 + np.arange(20_000) % 1_000
    table = pa.table({"ts": ts, "type": pa.array(["A", "B"] * 10_000)})
    assert collected("PATTERN SEQ(A a, B b) WITHIN 10", table, rows=3_200).rates == pytest.approx(
        {"a": 0.5, "b": 0.5}, rel=0.01
    )


def test_rates_per_event_of_a_sample() -> None:
    table = stream(10_000)
    found = collected("PATTERN SEQ(A a, B b) WITHIN 30 EVENTS", table, rows=3_200)
    assert found.rates == pytest.approx({"a": 0.2, "b": 0.3}, rel=0.15)
    assert 1_600 <= found.span <= 3_200


def test_bad_rows_are_passed_over() -> None:
    columns = {"ts": [1, None, 3, 4, 5], "type": ["A", "A", None, "B", "B"], "k": [1, 1, 1, None, 1]}
    found = collected("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9", pa.table(columns))
    assert found.events == 2


def test_a_stream_out_of_order_is_refused() -> None:
    table = stream(900)
    with pytest.raises(DataError, match="not in time order"):
        collected(KEYED, pa.concat_tables([table, table]))


def test_only_columns_that_are_needed_are_read() -> None:
    bound, scanned, conditions, partition = pieces(KEYED, stream(10))
    assert read_columns(bound, scanned, conditions, partition) == ("ts", "type", "k", "x", "y")
    bound, scanned, conditions, partition = pieces("PATTERN SEQ(A a, B b) WHERE a.x < 3 RETURN a.y AS y", stream(10))
    assert read_columns(bound, scanned, conditions, partition) == ("ts", "type", "x")
