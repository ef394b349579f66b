"""AGG by counters, by matching first and in workloads, however the stream is cut, gives the oracle's rows.

20,000 random pairs and 600 workloads run with plain-Python kernels (in processes of their own: the choice is made when the
engine is imported), some hundreds compiled, some dozens on Spark. `tests/support/aggregate_pairs.py` does the comparing; as a
script it runs any part of it by hand, and a failure names its example.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import comb
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.interfaces.options import options_of
from kleene.interfaces.query import Query
from kleene.language.parser import parse
from kleene.language.printer import to_text
from kleene.runtime.embedded import rows_of
from support import aggregate_pairs
from support.aggregate_pairs import describe
from support.long_tests import mostly_long
from support.nfa_pairs import call_options
from support.pair_runs import CUTS, assert_agreement, assert_noticed, assert_shares
from support.random_aggregate import (
    AggregateExample,
    aggregate_examples,
    aggregate_streams,
    aggregate_workloads,
)
from support.spark import frame_of

SEEDS = range(400, 420)
PAIRS = 1_000
"""Per seed; 20 seeds make 20,000."""
WORKLOADS = 30
"""Per seed; 20 seeds make 600."""

SHARES = {
    "with rows": 0.85,
    "with values": 0.55,
    "with counts above one": 0.35,
    "with rows of expiry": 0.05,
    **{f"{count} components": share for count, share in ((1, 0.05), (2, 0.2), (3, 0.3), (4, 0.1), (5, 0.05))},
    **{f"{count} aggregates": 0.2 for count in (1, 2, 3)},
    "COUNT()": 0.7,
    **{f"SUM({name})": 0.02 for name in "xyzk"},
    **{f"AVG({name})": 0.008 for name in "xyzk"},
    **{f"{function}({name})": 0.008 for function in ("MIN", "MAX") for name in ("x", "y", "z", "s", "t", "ts", "k")},
    "GROUP BY 0": 0.4,
    "GROUP BY 1": 0.2,
    "GROUP BY 2": 0.05,
    "HAVING": 0.08,
    "EMIT ON CHANGE": 0.15,
    "without a window": 0.08,
    "count window": 0.015,
    "NON-OVERLAP": 0.01,
    "Kleene": 0.04,
    "AND": 0.02,
    "OR": 0.08,
    "optional": 0.04,
    "skip_till_next_match": 0.005,
    "partition_contiguity": 0.005,
    "strict_contiguity": 0.005,
    "negated start": 0.01,
    "negated middle": 0.2,
    "negated end": 0.07,
    "several negative components in a gap": 0.03,
    "with ANY": 0.1,
    "a type at several places": 0.4,
    "[attr]": 0.3,
    "partitions added up": 0.2,
    "conditions between events": 0.12,
    "conditions on one event": 0.2,
    "with ties": 0.25,
    "with order_by": 0.15,
    "declared schema": 0.02,
    "with NULLs": 0.2,
    "NaN or infinity": 0.08,
    **{f"time: {kind}": 0.02 for kind in ("int32", "s", "ms", "us", "ns", "us, UTC", "day")},
}
"""The least share of pairs that have a feature."""

PLAN_SHARES = {
    "counted": 0.65,
    "a comparison counted": 0.05,
    **{f"a comparison counted: {count} components": 0.008 for count in (2, 3, 4)},
    **{f"a comparison counted: {what}": 0.006 for what in ("negation", "partitions", "no window", "values")},
    **{f"counted by {operator}": 0.004 for operator in ("<", "<=", ">", ">=", "=", "!=")},
    **{f"plan: {name}": 0.14 for name in aggregate_pairs.PLANS},
    "answered by CounterPlan": 0.5,
    "answered by MatchThenAggregate": 0.22,
    "not counted": 0.08,
    "overflow": 0.001,
    **dict.fromkeys(("ties=error refused", "ties=error answered", "ties=arrival answered"), 0.001),
}
"""The same for how pairs are run."""

WORKLOAD_SHARES = {
    **{f"sharing={value}": 1.0 for value in aggregate_pairs.SHARING},
    "window=marking": 0.5,
    "window=stacks": 0.5,
    "workloads counted": 0.7,
    "queries with values": 1.2,
    **{f"{count} queries": 0.02 for count in (2, 3, 4, 6)},
}


@pytest.mark.parametrize("seed", mostly_long(SEEDS, 2))
def test_every_plan_agrees_with_the_oracle(seed: int) -> None:
    seen = assert_agreement(aggregate_pairs, seed, PAIRS)
    assert seen["refused"] <= 0.02 * PAIRS, seen
    assert_shares(seen, {**SHARES, **PLAN_SHARES, **dict.fromkeys(CUTS, 0.015)}, PAIRS)


@pytest.mark.parametrize("seed", mostly_long(SEEDS, 2))
def test_workloads_agree_with_the_oracle(seed: int) -> None:
    assert_shares(assert_agreement(aggregate_pairs, seed, WORKLOADS, "--workloads"), WORKLOAD_SHARES, WORKLOADS)


@pytest.mark.parametrize("sabotage", mostly_long(aggregate_pairs.SABOTAGE))
def test_a_broken_engine_is_noticed(sabotage: str) -> None:
    """A test of the test: ways to be subtly wrong, each seen within some hundred pairs."""
    assert_noticed(aggregate_pairs, sabotage, 1_500)


@pytest.mark.parametrize("sabotage", mostly_long(aggregate_pairs.WORKLOAD_SABOTAGE))
def test_broken_sharing_is_noticed(sabotage: str) -> None:
    assert_noticed(aggregate_pairs, sabotage, 200, "--workloads")


# --- compiled ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_compiled_kernels_agree_with_the_oracle(part: int) -> None:
    """384 pairs: 24 queries, sixteen streams each, by every plan."""
    rng, seen = Random(part), Counter[str]()
    with_values = 0
    for seed in range(9_000 + 6 * part, 9_006 + 6 * part):
        for number, example in enumerate(aggregate_streams(seed, 16)):
            pair = aggregate_pairs.Pair(example)
            found = aggregate_pairs.check(pair, aggregate_pairs.settings_of(rng, 0), seen)
            assert not found, "\n".join((f"stream {number} of aggregate_streams({seed}, 16)", *found, describe(example)))
            with_values += aggregate_pairs.has_values(pair)
    assert with_values > 30
    assert seen["answered by CounterPlan"] > 100


# --- what an enumeration cannot reach ---------------------------------------------------------------------------------


def subsets(length: int, window: str = "") -> str:
    parts = ", ".join(f"A a{i}" for i in range(length))
    return f"PATTERN SEQ({parts}) AGG COUNT{window}"


@pytest.mark.parametrize("plan", [{"mechanism": "counters", "window": window} for window in ("auto", "marking", "stacks")])
@pytest.mark.parametrize("window", ["", " WITHIN 1000"])
def test_counts_are_exact_up_to_64_bits_and_refused_beyond(plan: dict[str, Any], window: str) -> None:
    """Of n simultaneous choices m at a time there are n over m: 66 over 33 is the last of its kind below 2^63."""
    options = {"time": "ts", "type": "type", "plan": plan}
    query = kleene.query(subsets(33, window))
    events = pa.table({"ts": range(66), "type": ["A"] * 66})
    found = query.match(events, **options).column("count").to_pylist()
    assert found == [comb(n, 33) for n in range(1, 67)]
    assert found[-1] > 2**62
    more = pa.table({"ts": range(67), "type": ["A"] * 67})
    assert comb(67, 33) > 2**63
    with pytest.raises(DataError, match="64 bits"):
        query.match(more, **options)


@pytest.mark.parametrize("plan", [{"mechanism": "counters", "window": window} for window in ("marking", "stacks")])
def test_what_has_expired_is_forgotten_however_large_it_was(plan: dict[str, Any]) -> None:
    """Counts beyond 64 bits of prefixes that no trigger completes, and of matches that have expired, are no error."""
    types = ["A"] * 70 + ["B"] + ["A"] * 40 + ["B"]
    events = pa.table({"ts": [*range(70), 5_000, *range(5_001, 5_042)], "type": types})
    parts = ", ".join(f"A a{i}" for i in range(35))
    query = kleene.query(f"PATTERN SEQ({parts}, B b) AGG COUNT WITHIN 1000")
    found = query.match(events, time="ts", type="type", plan=plan).column("count").to_pylist()
    assert found == [0, comb(40, 35)]


LONGER = (
    "PATTERN SEQ(A a, B b, C c) AGG COUNT, SUM(b.x) AS s, MAX(a.x) AS m WITHIN 60",
    "PATTERN SEQ(A a, B b, !(N n), C c) WHERE [k] AGG COUNT, AVG(c.y) AS m WITHIN 300",
    "PATTERN SEQ(A a, !(N n), C c) GROUP BY k AGG COUNT, MIN(c.x) AS low WITHIN 200 EMIT ON CHANGE",
    "PATTERN OR(SEQ(A a, B b), SEQ(C c, B d, A e)) GROUP BY k AGG COUNT, SUM(b.y) AS s WITHIN 100",
    "PATTERN SEQ(A a, B b, !(N n)) WHERE a.x > 10 AGG COUNT, MAX(b.y) AS m WITHIN 100",
)


def longer_stream(events: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.cumsum(rng.integers(0, 3, events)),
            "type": rng.choice(list("ABCNX"), events, p=[0.05, 0.1, 0.1, 0.02, 0.73]),
            "x": rng.integers(-50, 50, events),
            "y": rng.integers(0, 100, events) / 4,
            "k": rng.integers(0, 5, events),
        }
    )


@pytest.mark.parametrize("text", LONGER)
def test_plans_agree_on_longer_streams(text: str) -> None:
    """20,000 events, too many for the oracle: the same rows by every plan, in one go and in batches."""
    events, query = longer_stream(20_000, 11), kleene.query(text)
    options = {"time": "ts", "type": "type"}
    wanted = query.match(events, **options, plan={"mechanism": "matches"})
    assert wanted.num_rows > 500
    groups = [("at", "ascending"), *((name, "ascending") for name in query.logical.group_by)]
    for plan in aggregate_pairs.PLANS.values():
        assert query.match(events, **options, plan=plan).sort_by(groups).equals(wanted.sort_by(groups)), plan
        matcher = query.matcher(events.schema, options_of({**options, "plan": plan}), run_rows=3_000)
        rows = [rows for batch in events.to_batches(max_chunksize=1_000) for _, rows in matcher.feed(batch)]
        rows += rows_of(matcher.finish())
        found = pa.Table.from_batches(rows, matcher.output_schemas[0])
        assert found.sort_by(groups).equals(wanted.sort_by(groups)), plan


# --- Spark ------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_agrees_with_the_oracle(spark: Any) -> None:
    """Some pairs on Spark batch; plans take turns."""
    with_values = 0
    for number, example in enumerate(aggregate_examples(83, 20)):
        pair, names = aggregate_pairs.Pair(spark_events(example)), list(aggregate_pairs.PLANS)
        name = names[number % len(names)]
        if pair.plan(name) is None or pair.may_overflow:
            name = "auto"
        if pair.may_overflow:
            continue
        options = {**call_options(pair.example), "plan": aggregate_pairs.PLANS[name]}
        rows = Query(pair.example.query).match(frame_of(spark, pair.table), **options).toArrow().to_pylist()
        rows.sort(key=lambda row: row["at"])
        found = aggregate_pairs.differences(pair.example.query, pair.wanted, rows, in_total_order=False)
        assert not found, "\n".join((f"aggregate_examples(83, 20), number {number}, plan {name}", *found, describe(example)))
        with_values += aggregate_pairs.has_values(pair)
    assert with_values > 8


def spark_events(example: AggregateExample) -> AggregateExample:
    """The example with a type of time that Spark has."""
    return example if example.integer_time or example.time_type == "day" else replace(example, time_type="us, UTC")


# --- the generator ----------------------------------------------------------------------------------------------------


def test_the_generator_reaches_every_feature() -> None:
    """Without the engine: shares of features, and texts that parse to their queries."""
    seen: Counter[str] = Counter()
    for example in aggregate_examples(3, 1_000):
        seen.update(aggregate_pairs.features(aggregate_pairs.Pair(example)))
        assert parse(to_text(example.query)) == example.query
    assert_shares(seen, SHARES, 1_000)


def test_examples_are_reproducible() -> None:
    def texts(seed: int) -> list[str]:
        work = [example for given in aggregate_workloads(seed, 5) for example in given.examples]
        return list(map(describe, (*aggregate_examples(seed, 20), *work)))

    assert texts(3) == texts(3)
    assert texts(3) != texts(4)


def test_a_wrong_row_is_seen() -> None:
    """A test of the comparison: other values, places, orders and numbers of rows differ, rounding does not."""
    query = parse("PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT, SUM(a.z) AS s")
    rows = [{"k": 1, "at": 3, "count": 1, "s": 0.1 + 0.2}, {"k": 2, "at": 3, "count": 2, "s": None}]
    rows.append({"k": 1, "at": 5, "count": 2, "s": float("nan")})

    def differs(found: list[dict[str, Any]], in_total_order: bool = True) -> bool:
        return bool(aggregate_pairs.differences(query, rows, found, in_total_order))

    assert not differs(rows)
    assert not differs([{**rows[0], "s": 0.3}, *rows[1:]])
    assert not differs([rows[1], rows[0], rows[2]], in_total_order=False)
    assert differs([rows[1], rows[0], rows[2]])
    assert differs([*rows[1:], rows[0]], in_total_order=False)
    assert differs(rows[1:])
    assert differs([*rows, rows[2]])
    for wrong in ({"count": 2}, {"s": 0.3001}, {"s": None}, {"at": 4}, {"k": 2}, {"count": 1.0}, {"s": float("inf")}):
        assert differs([{**rows[0], **wrong}, *rows[1:]], in_total_order=False), wrong
