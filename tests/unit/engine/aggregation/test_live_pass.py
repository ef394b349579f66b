"""AGG by matching: what the plan asks of the scan, how long matches count, and what is kept between passes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))  # for `support`

from kleene.common.columns import time_values
from kleene.common.errors import DataError, PlanningError
from kleene.common.schema import schema_of_arrow
from kleene.engine.aggregation import kernels
from kleene.engine.aggregation.expiring import joined
from kleene.engine.aggregation.live_pass import Axis, Spans
from kleene.engine.build import build_matcher
from kleene.engine.matches.aggregate_output import AggregateWriter, average_column, time_column
from kleene.engine.matches.matches import Matches
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.plan.aggregation import MatchThenAggregate
from kleene.plan.optimizer import make_plan
from kleene.runtime.embedded import in_stream_order
from kleene.testing import oracle
from kleene.testing.functions import plain
from support.random_aggregate import aggregate_example
from support.strategies import Example, full_example

MECHANISMS = ("lazy", "nfa", "sequence")

Rows = list[dict[str, Any]]


def events(*rows: tuple[Any, ...], columns: str = "ts type x") -> pa.Table:
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(columns.split())})


def matched(bound: BoundQuery, inner: str) -> MatchThenAggregate:
    """The plan of AGG over the matches that a mechanism finds."""
    plan = make_plan(bound, {"mechanism": inner})
    assert isinstance(plan, MatchThenAggregate)
    return plan


def planned(text: str, schema: pa.Schema, inner: str = "nfa", **roles: Any) -> MatchThenAggregate:
    bound = bind(parse(text), schema_of_arrow(schema, time="ts", type="type", **roles))
    return matched(bound, inner)


def fed(plan: MatchThenAggregate, table: pa.Table, rows: int = 1 << 20, **tuning: Any) -> Iterator[Rows]:
    """What comes out after each batch, and at the end."""
    matcher = build_matcher(plan, table.schema, **tuning)
    for batch in table.to_batches(max_chunksize=rows):
        yield [row for _, found in matcher.feed(batch) for row in found.to_pylist()]
    yield [row for _, found in matcher.finish() for row in found.to_pylist()]


def answered(text: str, table: pa.Table, inner: str = "nfa", rows: int = 1 << 20, **tuning: Any) -> list[tuple[Any, ...]]:
    """All rows without the name of the query."""
    found = [row for some in fed(planned(text, table.schema, inner), table, rows, **tuning) for row in some]
    return [tuple(row.values())[1:] for row in found]


# --- plan -------------------------------------------------------------------------------------------------------------

SCHEMA = pa.schema([("ts", pa.int64()), ("type", pa.string()), *((name, pa.int64()) for name in "kgxy")])


def test_the_plan_reads_and_distributes_what_the_aggregates_need() -> None:
    plan = planned("PATTERN SEQ(A a, B b) WHERE [k] GROUP BY g AGG SUM(a.x) WITHIN 5", SCHEMA)
    assert plan.keys == ("g",)
    assert plan.columns == ("ts", "type", "k", "g", "x")
    assert plan.reasons == ("the plan asks for matches",)
    assert not plan.looks_ahead


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT WITHIN 5", ()),
        ("PATTERN SEQ(A a, !(C n), B b) WHERE [k] GROUP BY k AGG COUNT WITHIN 5", ("k",)),
        ("PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { [k] } GROUP BY k AGG COUNT WITHIN 5", ()),
        ("PATTERN SEQ(A a, B b) WHERE [k = 1] GROUP BY k AGG COUNT WITHIN 5", ()),
    ],
)
def test_only_groups_distribute_the_input(text: str, keys: tuple[str, ...]) -> None:
    assert planned(text, SCHEMA).keys == keys


def test_a_negative_component_without_the_group_keeps_the_input_together() -> None:
    types = {"A": frozenset("kx"), "B": frozenset("kx"), "C": frozenset("x")}
    text = "PATTERN SEQ(A a, B b, !(C n)) GROUP BY k AGG COUNT WITHIN 5"
    assert planned(text, SCHEMA, "sequence", types=types).keys == ()


def test_a_trigger_shares_the_test_of_its_component_where_it_is_the_same() -> None:
    alone = planned("PATTERN SEQ(A a, B b) WHERE b.x > 1 AGG COUNT WITHIN 5", SCHEMA, "sequence")
    assert alone.trigger_bits == (1,)
    assert len(alone.scanned) == 2
    first_element = planned("PATTERN SEQ(A a, B+ b[]) WHERE b[1].x > 1 AGG COUNT WITHIN 5", SCHEMA)
    (bit,) = first_element.trigger_bits
    assert first_element.scanned[bit][1] == ()


def test_what_looks_ahead_is_not_left_to_the_inner_plan() -> None:
    plan = planned("PATTERN SEQ(A a, !(C n), B b, !(C m)) WHERE n.x = a.x AND m.y = a.y AGG COUNT WITHIN 5", SCHEMA, "sequence")
    assert [item.event.variable for item in plan.inner.branches[0].negation.components] == ["n"]  # type: ignore[union-attr]
    assert [item.event.variable for item in plan.ahead[0].components] == ["m"]  # type: ignore[union-attr]
    assert "y" in plan.columns


def test_what_the_inner_mechanism_refuses_stays_refused() -> None:
    with pytest.raises(PlanningError, match="a negated start or end under a window in events"):
        planned("PATTERN SEQ(A a, !(B n)) AGG COUNT WITHIN 5 EVENTS", SCHEMA)


def test_triggers_need_bits_too() -> None:
    parts = ", ".join(f"A a{number}" for number in range(60))
    conditions = " AND ".join(f"a{number}.x > {number}" for number in range(60))
    text = f"PATTERN OR({parts}) WHERE {conditions} AGG COUNT"
    assert len(planned(text, SCHEMA).scanned) == 60
    kleene = text.replace("A a", "A+ a").replace(".x", "[1].x").replace(",", "[],").replace(")", "[])", 1)
    with pytest.raises(PlanningError, match="62 are supported"):
        planned(kleene, SCHEMA)


# --- lives ------------------------------------------------------------------------------------------------------------


def test_a_match_counts_from_its_last_event_until_its_first_expires() -> None:
    table = events((1, "A", 3), (2, "B", 0), (5, "B", 0), (6, "B", 0))
    text = "PATTERN SEQ(A a, B b) WHERE a.x > b.x AGG COUNT, SUM(a.x) WITHIN 5"
    assert answered(text, table) == [(2, 1, 3), (5, 2, 6), (6, 0, None)]


def test_expiry_is_a_row_of_its_own_when_it_changes_a_value() -> None:
    table = events((1, "A", 3), (2, "B", 0), (4, "A", 3), (5, "B", 0), (20, "B", 0))
    text = "PATTERN SEQ(A a, B b) WHERE a.x > b.x AGG {} EMIT ON CHANGE WITHIN 5"
    assert answered(text.format("COUNT"), table) == [(2, 1), (5, 3), (6, 1), (9, 0), (20, 0)]
    assert answered(text.format("MAX(a.x)"), table) == [(2, 3), (5, 3), (9, None), (20, None)]


def test_a_trigger_at_the_instant_of_an_expiry_is_the_only_row() -> None:
    table = events((1, "A", 3), (2, "B", 0), (6, "B", 0))
    text = "PATTERN SEQ(A a, B b) WHERE a.x > b.x AGG COUNT EMIT ON CHANGE WITHIN 5"
    assert answered(text, table) == [(2, 1), (6, 0)]


def test_a_forbidden_event_ends_what_it_forbids() -> None:
    table = events((1, "A", 3), (2, "B", 0), (3, "A", 4), (4, "C", 3), (5, "B", 0), (6, "B", 0))
    text = "PATTERN SEQ(A a, B b, !(C n)) WHERE n.x != a.x AGG COUNT, MIN(a.x) WITHIN 9"
    for inner in MECHANISMS:
        assert answered(text, table, inner) == [(2, 1, 3), (5, 3, 3), (6, 5, 3)]
    unconditional = text.replace("WHERE n.x != a.x ", "")
    assert answered(unconditional, table) == [(2, 1, 3), (5, 2, 3), (6, 4, 3)]


def test_what_a_dead_match_overlapped_may_be_chosen_after_all() -> None:
    table = events((1, "A", 1), (2, "A", 2), (3, "B", 0), (4, "C", 2), (5, "B", 0))
    text = "PATTERN SEQ(A a, B b, !(C n)) WHERE n.x = a.x AGG COUNT, SUM(a.x) OUTPUT NON-OVERLAP WITHIN 9"
    assert answered(text, table, "nfa") == [(3, 1, 2), (5, 1, 1)]
    assert answered(text, table, "nfa", rows=1, run_rows=0) == [(3, 1, 2), (5, 1, 1)]


def test_a_count_window_is_left_by_position_in_the_partition() -> None:
    table = events(*((ts, kind, 0, k) for ts, kind, k in [(1, "A", 1), (2, "B", 1), (3, "B", 2), (4, "D", 1), (5, "B", 2)]),
                   columns="ts type x k")  # fmt: skip
    text = "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT WITHIN 3 EVENTS"
    assert answered(text, table) == [(2, 1), (3, 1), (5, 1)]
    pushed = pa.concat_tables([table, events((6, "D", 0, 1), (7, "B", 0, 2), columns="ts type x k")])
    assert answered(text, pushed)[-1] == (7, 0)


def test_elements_of_kleene_variables_and_absent_variables() -> None:
    table = events((1, "A", 5), (2, "A", None), (3, "B", 7))
    text = "PATTERN OR(SEQ(A+ a[], B b), B c) AGG COUNT, SUM(a.x), AVG(a.x), MAX(b.x), MIN(c.x)"
    # {a1}, {a2}, {a1, a2} with the B, and the B alone
    assert answered(text, table) == [(3, 4, 10, 5.0, 7, 7)]


# --- cuts -------------------------------------------------------------------------------------------------------------


def test_the_latest_instant_waits_for_its_other_events() -> None:
    table = events((1, "A", 3), (2, "B", 1), (2, "B", 2), (3, "D", 0))
    text = "PATTERN SEQ(A a, B b) WHERE a.x > b.x AGG COUNT WITHIN 5"
    found = [[row["count"] for row in rows] for rows in fed(planned(text, table.schema), table, 1, run_rows=0)]
    assert found == [[], [], [], [], [2, 2]]
    later = [*table.slice(0, 3).to_pylist(), {"ts": 4, "type": "B", "x": 9}]
    found = [
        [row["count"] for row in rows] for rows in fed(planned(text, table.schema), pa.Table.from_pylist(later), 1, run_rows=0)
    ]
    assert found == [[], [], [], [2, 2], [2]]


def test_events_that_go_back_in_time_are_refused_even_within_the_instant_that_waits() -> None:
    table = events((3, "A", 3), (5, "B", 1), (4, "A", 1), (5, "B", 1))
    with pytest.raises(DataError, match="not in time order"):
        answered("PATTERN SEQ(A a, B b) AGG COUNT WITHIN 5", table, rows=2)


@pytest.mark.parametrize("inner", ["lazy", "nfa"])
@pytest.mark.parametrize("window", ["", "WITHIN 4", "WITHIN 6 EVENTS"])
def test_extremes_of_text_outlive_a_pass(inner: str, window: str) -> None:
    """Codes of text are those of one pass; what is kept has them anew."""
    rng = Random(3)
    rows = [(ts, rng.choice("AB"), rng.choice(["b", "abc", "", None, "d"]), rng.choice("kl")) for ts in range(60)]
    table = events(*rows, columns="ts type s k")
    text = f"PATTERN SEQ(A a, B b) WHERE a.s != b.s GROUP BY k AGG MIN(a.s), MAX(b.s), COUNT {window}"
    whole = answered(text, table, inner)
    assert len({row[2] for row in whole}) > 2
    for size in (1, 7):
        assert answered(text, table, inner, rows=size, run_rows=0) == whole


def test_without_a_window_sums_are_kept_not_matches() -> None:
    table = events(*((ts, "AB"[ts % 2], 1) for ts in range(400)))
    matcher = build_matcher(planned("PATTERN B b AGG COUNT, SUM(b.x)", table.schema), table.schema, run_rows=0)
    found = [row for batch in table.to_batches(max_chunksize=10) for _, rows in matcher.feed(batch) for row in rows.to_pylist()]
    assert found[-1]["count"] == found[-1]["sum_b_x"] == len(found)
    kept = matcher
    assert len(kept._working) <= 10
    assert kept._cells is not None
    assert kept._cells.first.size == 1


# --- sums -------------------------------------------------------------------------------------------------------------


def test_a_float_sum_forgets_what_has_expired() -> None:
    table = events(
        (1, "A", 1e300), (2, "B", 0.0), (3, "A", 0.1), (4, "B", 0.0), (7, "B", 0.0), (20, "A", math.inf), (21, "B", 0.0)
    )
    text = "PATTERN SEQ(A a, B b) WHERE a.x > b.x AGG SUM(a.x) WITHIN 6"
    found = answered(text, table)
    assert found == [(2, 1e300), (4, 2e300), (7, 0.2), (21, math.inf)]


def test_an_integer_sum_is_exact_or_refused() -> None:
    big = 2**62
    table = events((1, "A", big), (2, "A", big), (3, "A", -big), (4, "B", 0))
    text = "PATTERN SEQ(A a, B b) WHERE a.ts < b.ts AGG {} WITHIN 9"
    assert answered(text.format("SUM(a.x)"), table) == [(4, big)]
    over = table.slice(0, 2).to_pylist() + table.slice(3).to_pylist()
    with pytest.raises(DataError, match="a count or sum over matches of query 'query' exceeds 64 bits"):
        answered(text.format("SUM(a.x)"), pa.Table.from_pylist(over))
    assert answered(text.format("AVG(a.x)"), pa.Table.from_pylist(over)) == [(4, float(big))]


def test_spans_that_are_alike_are_added_up() -> None:
    same = np.zeros(3, np.int64)
    ints = np.array([[1, -1, 5], [2, -1, 7], [4, 0, 1]])
    floats = np.array([[1e16, 0.0], [1.0, 0.0], [2.0, 0.0]])
    spans = Spans(np.array([[1, 1, 2]]), same, same + 4, same + 9, ints, floats)
    kinds = np.array([kernels.TOTAL, kernels.HIGH, kernels.LOW])
    found = spans.folded(kinds)
    assert found.ints.tolist() == [[3, -2, 12], [4, 0, 1]]
    assert found.floats.tolist() == [[1e16, 1.0], [2.0, 0.0]]


def test_expiries_come_before_the_events_of_their_instant() -> None:
    axis = Axis(np.array([1, 3, 3, 6]), np.array([1, 3, 4, 6]), 2)
    assert axis.due.tolist() == [3, 5, 8]
    merged = sorted([*zip(axis.of_row.tolist(), "abcd", strict=True), *zip(axis.of_due.tolist(), "XYZ", strict=True)])
    assert "".join(name for _, name in merged) == "aXbcYdZ"
    before = axis.ends[1].tolist()
    assert axis.of_row[0] < before[1] == before[2] < axis.of_due[0]


def test_joined_blocks_keep_their_lists() -> None:
    places = np.array([0, 1])
    blocks = [
        Matches(2, {"a": places + n}, {"b": (np.array([0, 1, 3]), np.array([5, 6, 7]) + n)}, places, places) for n in (0, 9)
    ]
    found = joined(blocks)
    assert found.count == 4
    assert found.singles["a"].tolist() == [0, 1, 9, 10]
    assert found.lists["b"][0].tolist() == [0, 1, 3, 4, 6]
    assert found.lists["b"][1].tolist() == [5, 6, 7, 14, 15, 16]


# --- rows -------------------------------------------------------------------------------------------------------------

STAMPS = (pa.timestamp("s"), pa.timestamp("ms", "Europe/Paris"), pa.timestamp("us", "UTC"), pa.timestamp("ns"))
TIMES = (*STAMPS, pa.date32(), pa.date64(), pa.int8(), pa.int64(), pa.uint64())


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_a_time_column_is_made_from_its_instants(kind: pa.DataType) -> None:
    days = 86_400_000 if kind == pa.date64() else 1
    column = pa.array([days * number for number in (1, 2, 100)], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    unit = None if pa.types.is_integer(kind) else "ns" if getattr(kind, "unit", "") == "ns" else "us"
    assert time_column(time_values(column, unit), unit, kind).equals(column)


@pytest.mark.parametrize(
    ("time", "window", "at"),
    [
        (pa.date32(), "2 days", pa.date32()),
        (pa.date32(), "2 hours", pa.timestamp("us")),
        (pa.timestamp("s", "UTC"), "1500 milliseconds", pa.timestamp("us", "UTC")),
        (pa.timestamp("s", "UTC"), "3 seconds", pa.timestamp("s", "UTC")),
        (pa.timestamp("ns"), "1 microseconds", pa.timestamp("ns")),
        (pa.int8(), "200", pa.int64()),
    ],
)
def test_at_holds_the_instants_of_expiries(time: pa.DataType, window: str, at: pa.DataType) -> None:
    schema = pa.schema([("ts", time), ("type", pa.string())])
    for clause, expected in (("EMIT ON CHANGE", at), ("", time)):
        text = f"PATTERN SEQ(A a, B b) AGG COUNT {clause} WITHIN {window}"
        bound = bind(parse(text), schema_of_arrow(schema, time="ts", type="type"))
        assert AggregateWriter(bound, schema).schema.field("at").type == expected


def test_columns_have_the_types_of_their_attributes() -> None:
    roles = [("ts", pa.int64()), ("type", pa.string()), ("k", pa.dictionary(pa.int8(), pa.string()))]
    schema = pa.schema([*roles, ("i", pa.int16()), ("f", pa.float32()), ("d", pa.duration("s"))])
    items = "COUNT, SUM(a.i), AVG(a.i), MIN(a.i), SUM(a.f), MAX(a.f), MAX(b.k), AVG(a.d), MIN(a.d)"
    text = f"PATTERN SEQ(A a, B b) GROUP BY k AGG {items}"
    bound = bind(parse(text), schema_of_arrow(schema, time="ts", type="type"))
    written = AggregateWriter(bound, schema).schema
    assert written.names[:3] == ["query", "k", "at"]
    assert [str(kind) for kind in written.types[1:]] == [
        "string", "int64", "int64", "int64", "double", "int16", "double", "float", "string", "duration[us]", "duration[s]",
    ]  # fmt: skip
    assert [field.nullable for field in written][:4] == [False, True, False, True]


def test_having_reads_groups_and_aggregates_and_leaves_out_what_is_unknown() -> None:
    table = events(
        (1, "A", 3, "u"), (2, "B", 0, "u"), (3, "A", None, "v"), (4, "B", 0, "v"), (5, "B", 0, "w"), columns="ts type x k"
    )
    text = "PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT, SUM(a.x) HAVING {} WITHIN 9"
    assert answered(text.format("SUM(a.x) != 4"), table) == [("u", 2, 1, 3)]
    assert answered(text.format("k != 'u' AND count = 0"), table) == [("w", 5, 0, None)]


def test_an_attribute_that_is_always_null_has_no_extremes_and_no_sum() -> None:
    table = events((1, "A", 1), (2, "B", 2)).append_column("n", pa.nulls(2))
    text = "PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG MIN(a.n), SUM(b.n), COUNT EMIT ON CHANGE WITHIN 5"
    assert answered(text, table) == [(2, None, None, 1), (6, None, None, 0)]


def test_durations_are_averaged_to_the_nearest_unit() -> None:
    found = average_column(np.array([7, 5, 0]), np.array([2, 2, 0]), pa.duration("us"))
    assert found.cast(pa.int64()).to_pylist() == [4, 2, None]


# --- random pairs -----------------------------------------------------------------------------------------------------


def expected_rows(example: Example, bound: BoundQuery) -> list[tuple[Any, ...]] | None:
    """The oracle's rows; None where it refuses, or cannot add up what is not finite."""
    try:
        rows = oracle.aggregates(bound, example.events)
    except (DataError, OverflowError, ValueError):
        return None
    return [(*map(plain, row.group), plain(row.at), *map(plain, row.values.values())) for row in rows]


def found_rows(plan: MatchThenAggregate, table: pa.Table, rng: Random) -> list[tuple[Any, ...]]:
    ordered = in_stream_order(table, plan.bound.schema).combine_chunks()
    tuning = {"run_rows": rng.choice((0, 3, 1 << 18)), "block": rng.choice((2, 1 << 17))}
    found = [row for rows in fed(plan, ordered, rng.choice((1, 4, 100)), bad_rows="drop", **tuning) for row in rows]
    return [tuple(plain(value) for name, value in row.items() if name != "query") for row in found]


def alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(
        math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9) or (left != left and right != right)
        if isinstance(left, float) and isinstance(right, float)
        else left == right
        for left, right in zip(one, other, strict=True)
    )


def problem_of(example: Example, rng: Random, seen: Counter[str]) -> str | None:
    bound = example.bound()
    expected = expected_rows(example, bound)
    plan = None
    for inner in rng.sample(MECHANISMS, len(MECHANISMS)):
        try:
            plan = matched(bound, inner)
            break
        except PlanningError:
            continue
    if plan is None or expected is None:
        return None
    try:
        found = found_rows(plan, example.table(), rng)
    except DataError as error:
        beyond = any(isinstance(value, int) and abs(value) >= 2**63 for row in expected for value in row)
        return None if "64 bits" in str(error) and beyond else str(error)
    seen.update(["pairs", plan.inner.evaluation])
    seen["looking ahead"] += plan.looks_ahead
    seen["rows of expiry"] += bool(bound.query.emit_on_change and expected)
    at = len(bound.query.group_by)
    if [row[at] for row in found] != sorted(row[at] for row in found):
        return f"not in order of time: {found}"
    left = list(expected)
    for row in found:
        place = next((place for place, other in enumerate(left) if alike(row, other)), None)
        if place is None:
            return f"too much: {row} of {found}, expected {expected}"
        del left[place]
    return f"missing: {left}" if left else None


def main(seed: int, count: int) -> int:
    seen: Counter[str] = Counter()
    for number in range(count):
        example = (aggregate_example if number % 2 else full_example)(seed, number)
        if not example.query.aggregates:
            continue
        problem = problem_of(example, Random(number), seen)
        if problem:
            print(f"example {seed}, {number}: {problem}")
            return 1
    print(min(seen[name] for name in ("automaton", "auto", "stacks", "looking ahead", "rows of expiry")), seen["pairs"])
    return 0


@pytest.mark.slow
def test_random_aggregates_are_what_the_oracle_says() -> None:
    command = [sys.executable, __file__, "5", "700"]
    environment = {**os.environ, "KLEENE_KERNELS": "python", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3_000:]
    fewest, pairs = map(int, done.stdout.split())
    assert fewest > 15
    assert pairs > 350


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
