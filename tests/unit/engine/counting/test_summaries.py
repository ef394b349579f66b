"""Slices of time: cut anywhere, with summaries of what lies between, they give the rows of the whole stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.columns import time_values
from kleene.common.errors import DataError
from kleene.engine.build import output_schema
from kleene.engine.counting.kernels.counting import TOTAL
from kleene.engine.counting.program import Slot, Wanted, build_program
from kleene.engine.counting.summaries import Summary, combination, summary_of
from kleene.engine.time_slices import match_slice
from kleene.interfaces.options import options_of
from kleene.plan.counting.counters import CounterPlan, obstacles
from kleene.plan.distribution.slicing import Slice, summarized_slices
from kleene.plan.optimizer import make_plan
from kleene.runtime.embedded import batches_of, in_stream_order
from support.aggregate_pairs import Pair, differences
from support.random_aggregate import aggregate_example

INTEGERS = pa.table({"ts": pa.array([], pa.int64()), "type": pa.array([], pa.string()), "x": pa.array([], pa.int64())})


def plan_of(text: str, table: pa.Table = INTEGERS) -> CounterPlan:
    found = kleene.query(text).plan_for(table.schema, options_of({"time": "ts", "type": "type"}))
    assert isinstance(found, CounterPlan)
    return found


# --- running slices in one process ------------------------------------------------------------------------------------


def slices_of(plan: CounterPlan, first: int, last: int, cuts: Sequence[int]) -> tuple[Slice, ...]:
    return summarized_slices(cuts, first, last, plan.window, on_change=plan.bound.query.emit_on_change)


def summarized(slices: Sequence[Slice]) -> bool:
    return any(part.between for part in slices)


class Sliced:
    """A table cut into slices; events go where Spark would send them."""

    def __init__(self, plan: CounterPlan, table: pa.Table, cuts: Sequence[int], rng: Random) -> None:
        self._plan, self._rng = plan, rng
        self._ordered = in_stream_order(table, plan.bound.schema).combine_chunks()
        time = self._ordered.column(plan.bound.schema.time).combine_chunks()
        self._ts = time_values(time, plan.bound.schema.time_unit)
        self.slices = slices_of(plan, int(self._ts.min()), int(self._ts.max()), cuts)

    def _events(self, since: int, until: int) -> pa.Table:
        return self._ordered.take(pa.array(np.flatnonzero((self._ts >= since) & (self._ts < until))))

    def _batches(self, table: pa.Table) -> Any:
        return batches_of(table.combine_chunks(), self._rng.choice((1, 2, 5, 100)))

    def _tuning(self) -> dict[str, Any]:
        return {"run_rows": self._rng.choice((1, 3, 8, 1000))}

    def summaries(self) -> dict[int, bytes]:
        found = {}
        for part in self.slices:
            summary = summary_of(self._plan, self._batches(self._events(part.since, part.until)), **self._tuning())
            if summary is not None:
                found[part.number] = summary
        return found

    def rows(self) -> pa.Table:
        summaries = self.summaries() if summarized(self.slices) else {}
        found: list[pa.RecordBatch] = []
        for part in self.slices:
            events = pa.concat_tables([self._events(part.low, part.high), self._events(part.since, part.until)])
            events = pa.Table.from_batches(self._batches(events), events.schema)
            found += match_slice(self._plan, events, part, summaries, **self._tuning())
        return pa.Table.from_batches(found, output_schema(self._plan, self._ordered.schema))


def counted_pair(seed: int, number: int, rng: Random) -> tuple[Pair, CounterPlan] | None:
    """An example that counters answer, if it has events."""
    pair = Pair(aggregate_example(seed, number))
    if obstacles(pair.bound) or not pair.example.events:
        return None
    plan = make_plan(pair.bound, {"mechanism": "counters", "window": rng.choice(("auto", "stacks", "marking"))})
    assert isinstance(plan, CounterPlan)
    return pair, plan


def random_cuts(ts: Sequence[int], rng: Random) -> list[int]:
    count = rng.choice((0, 1, 2, 3, 5, 8, 20))
    return [rng.choice(ts) if rng.random() < 0.8 else rng.randint(min(ts), max(ts)) for _ in range(count)]


def check(seed: int, number: int, seen: Counter[str]) -> list[str]:
    """How the rows of slices differ from the oracle's."""
    rng = Random(f"{seed} {number}")
    found = counted_pair(seed, number, rng)
    if found is None:
        return []
    pair, plan = found
    ts = time_values(pair.table.column("ts").combine_chunks(), pair.schema.time_unit).tolist()
    sliced = Sliced(plan, pair.table, random_cuts(ts, rng), rng)
    if summarized(sliced.slices) and not plan.has_summaries:
        return []
    try:
        rows = sliced.rows()
    except DataError as error:
        return [] if pair.may_overflow and "64 bits" in str(error) else [str(error)]
    seen["pairs"] += 1
    seen["slices"] += len(sliced.slices)
    seen["with summaries"] += summarized(sliced.slices)
    seen["with both"] += any(part.has_lead and part.between for part in sliced.slices)
    seen["without a window"] += plan.bound.window is None
    seen["EMIT ON CHANGE"] += pair.example.query.emit_on_change
    seen["partitions"] += bool(plan.partition)
    report = differences(pair.example.query, pair.wanted, rows.to_pylist(), pair.in_total_order)
    return [*report, "a sum beyond 64 bits is not refused"] if pair.overflows else report


@pytest.mark.slow
def test_random_slices_give_the_oracles_rows() -> None:
    seen: Counter[str] = Counter()
    for number in range(600):
        assert not check(11, number, seen), f"aggregate_example(11, {number})"
    assert seen["pairs"] > 200
    assert seen["slices"] > 800
    for feature in ("with summaries", "with both", "EMIT ON CHANGE", "partitions"):
        assert seen[feature] > 20, feature
    assert seen["without a window"] > 5


def test_events_after_the_last_are_refused_where_their_past_is_not_sent() -> None:
    plan = plan_of("PATTERN SEQ(A a, B b) WITHIN 60 AGG COUNT")
    slices = slices_of(plan, 0, 99, (25, 50, 75))
    assert [part.closed for part in slices] == [False] * 5 + [True]
    later = pa.table({"ts": [100], "type": ["B"], "x": [1]})
    with pytest.raises(DataError, match="later events"):
        list(match_slice(plan, later, slices[-1]))


# --- summaries --------------------------------------------------------------------------------------------------------


def test_what_has_no_summaries() -> None:
    table = INTEGERS.append_column("s", pa.array([], pa.string()))
    assert plan_of("PATTERN SEQ(A a, B b) AGG COUNT, MAX(a.x)", table).has_summaries
    assert not plan_of("PATTERN SEQ(A a, B b) AGG COUNT, MAX(a.s)", table).has_summaries
    assert not plan_of("PATTERN SEQ(A a, B b) WHERE [x] AGG COUNT", table).has_summaries


def test_combination_is_associative() -> None:
    """Cells of three stretches, whichever two are combined first: with a negative test in the middle, one at the end."""
    path = ((0, ()), (1, (3,)), (2, (4,)))
    wanted = (Wanted((path,), 4, (Slot(TOTAL), Slot(TOTAL, 0, (1,)))),)
    combined = combination(wanted, 5)
    program = build_program(wanted, 5, True)
    rng = np.random.default_rng(1)
    for _ in range(50):
        left, middle, right = (Summary(rng.integers(0, 9, program.initial.size), np.empty(0)) for _ in range(3))
        for part in (left, middle, right):
            part.cells[0] = 1
        one, other = combined(combined(left, middle), right), combined(left, combined(middle, right))
        assert one.cells.tolist() == other.cells.tolist()
        assert combined(Summary.of_nothing(program), left).cells.tolist() == left.cells.tolist()


def test_a_saturated_summary_that_nothing_meets_is_no_overflow() -> None:
    """Pairs of A and B that no C follows may be more than fit; with a C they are refused."""
    table = pa.table({"ts": [0, 1, 2, 3, 9], "type": ["A", "B", "A", "B", "D"], "x": [1 << 62, 0, 1 << 62, 0, 0]})
    plan = plan_of("PATTERN SEQ(A a, B b, C c) AGG SUM(a.x) AS sum", table)
    assert Sliced(plan, table, [2, 3, 9], Random(1)).rows().num_rows == 0
    met = pa.concat_tables([table, pa.table({"ts": [10], "type": ["C"], "x": [0]})])
    with pytest.raises(DataError, match="64 bits"):
        Sliced(plan, met, [2, 3, 9], Random(1)).rows()


def test_values_whose_codes_would_depend_on_others_are_refused() -> None:
    table = pa.table({"ts": [0, 1, 2, 3], "type": ["A", "B", "A", "B"], "x": [-(1 << 63), 0, 5, 0]})
    plan = plan_of("PATTERN SEQ(A a, B b) AGG MAX(a.x) AS high", table)
    with pytest.raises(DataError, match="is at the limit of 64 bits"):
        Sliced(plan, table, [2], Random(1)).rows()
