"""Partitions counted by several tasks: the changes of their totals, in stream order, add up to the rows of the whole."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.engine.counting.partial_totals import ChangeMatcher, TotalMatcher
from kleene.engine.time_slices import totals
from kleene.interfaces.options import options_of
from kleene.plan.counting.counters import CounterPlan, obstacles
from kleene.plan.optimizer import make_plan
from kleene.runtime.embedded import batches_of, in_stream_order, match_batches
from support.aggregate_pairs import Pair, differences
from support.random_aggregate import aggregate_example


def changes_of(plan: CounterPlan, table: pa.Table, tasks: int, rng: Random) -> list[pa.Table]:
    """The changes of each task, which has some of the partitions."""
    ordered = in_stream_order(table, plan.bound.schema).combine_chunks()
    partitions = [str([row[name] for name in plan.partition]) for row in ordered.to_pylist()]
    placed = {name: rng.randrange(tasks) for name in sorted(set(partitions))}
    found = []
    for task in range(tasks):
        rows = ordered.take(pa.array([row for row, name in enumerate(partitions) if placed[name] == task], pa.int64()))
        matcher = ChangeMatcher(plan, table.schema, run_rows=rng.choice((1, 3, 8, 1000)))
        for _, batch in match_batches(matcher, batches_of(rows.combine_chunks(), rng.choice((1, 3, 100)))):
            found.append(pa.Table.from_batches([batch]).append_column("task", pa.array([task] * batch.num_rows, pa.int32())))
    return found


def totals_of(plan: CounterPlan, table: pa.Table, tasks: int, rng: Random) -> pa.Table:
    """The rows that tasks make together."""
    matcher = TotalMatcher(plan, table.schema, run_rows=rng.choice((1, 3, 8, 1000)))
    found = changes_of(plan, table, tasks, rng)
    if not found:
        return matcher.output_schema.empty_table()
    rng.shuffle(found)
    changes = pa.concat_tables(found)
    order = totals(plan, table.schema).order
    keys = [column for name in order for column in (pc.is_valid(changes[name]), changes[name])]  # NULL first
    names = [str(number) for number in range(len(keys))]
    sorting = pc.sort_indices(pa.table(keys, names), sort_keys=[(name, "ascending") for name in names])
    batches = batches_of(changes.take(sorting).combine_chunks(), rng.choice((1, 3, 100)))
    rows = [rows for batch in batches for rows in matcher.feed(batch)]
    return pa.Table.from_batches([*rows, *matcher.finish()], matcher.output_schema)


def check(seed: int, number: int, seen: Counter[str]) -> list[str]:
    """How the totals of tasks differ from the oracle's rows."""
    rng = Random(f"{seed} {number}")
    pair = Pair(aggregate_example(seed, number))
    if obstacles(pair.bound):
        return []
    plan = make_plan(pair.bound, {"mechanism": "counters", "window": rng.choice(("auto", "stacks", "marking"))})
    assert isinstance(plan, CounterPlan)
    if not plan.partition or plan.keys or plan.compares_texts:
        return []
    try:
        rows = totals_of(plan, pair.table, rng.choice((1, 2, 3, 5)), rng)
    except DataError as error:
        return [] if pair.may_overflow and "64 bits" in str(error) else [str(error)]
    seen["pairs"] += 1
    seen["rows"] += rows.num_rows
    seen["without a window"] += plan.bound.window is None
    seen["EMIT ON CHANGE"] += pair.example.query.emit_on_change
    seen["order_by"] += bool(plan.bound.schema.order_by)
    report = differences(pair.example.query, pair.wanted, rows.to_pylist(), in_total_order=False)
    return [*report, "a sum beyond 64 bits is not refused"] if pair.overflows else report


@pytest.mark.slow
def test_totals_of_random_tasks_are_the_oracles_rows() -> None:
    seen: Counter[str] = Counter()
    for number in range(700):
        assert not check(12, number, seen), f"aggregate_example(12, {number})"
    assert seen["pairs"] > 80
    assert seen["rows"] > 500
    for feature in ("without a window", "EMIT ON CHANGE", "order_by"):
        assert seen[feature] > 8, feature


def events(**columns: Any) -> tuple[CounterPlan, pa.Table]:
    table = pa.table(columns)
    text = "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10 AGG COUNT AS n, SUM(a.x) AS sum"
    plan = kleene.query(text).plan_for(table.schema, options_of({"time": "ts", "type": "type"}))
    assert isinstance(plan, CounterPlan)
    return plan, table


def test_a_trigger_sees_what_expired_in_other_tasks_at_its_instant() -> None:
    """At 11 the A of key 1 expires; the trigger of key 2, which comes first by partition, does not see it."""
    plan, table = events(ts=[1, 2, 3, 11, 11], type=list("ABABB"), k=[1, 1, 2, 2, 1], x=[5, 0, 7, 0, 0])
    for seed in range(20):
        rows = totals_of(plan, table, 2, Random(seed))
        assert rows.select(["at", "n", "sum"]).to_pylist()[-1] == {"at": 11, "n": 1, "sum": 7}


def test_expiries_that_change_nothing_are_not_sent() -> None:
    plan, table = events(ts=[1, 2, 3, 30], type=list("AABA"), k=[1, 1, 2, 1], x=[5, 5, 7, 0])
    sent = pa.concat_tables(changes_of(plan, table, 1, Random(1)))
    assert sent.column("at").to_pylist() == [3]


def test_totals_beyond_64_bits_are_refused() -> None:
    plan, table = events(ts=[1, 2, 3, 4], type=list("AABB"), k=[1, 2, 1, 2], x=[1 << 62, 1 << 62, 0, 0])
    for seed in range(10):
        with pytest.raises(DataError, match="exceeds 64 bits"):
            totals_of(plan, table, 2, Random(seed))
