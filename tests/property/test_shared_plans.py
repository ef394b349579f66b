"""Every query of a workload has the oracle's matches and those it has alone, whatever is shared and however the stream is cut.

2,000 random workloads run with plain-Python kernels (in processes of their own: the choice is made when the engine is
imported), some dozens compiled, some on Spark. `tests/support/workload_pairs.py` does the comparing; as a script it runs any
part of it by hand, and a failure names its workload.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.language.parser import parse
from kleene.language.printer import to_text
from support import workload_pairs
from support.long_tests import mostly_long
from support.pair_runs import CUTS, assert_agreement, assert_noticed, assert_shares
from support.random_workloads import MatchWorkload, match_workload_streams, match_workloads
from support.spark import frame_of

SEEDS = range(500, 520)
WORKLOADS = 100
"""Per seed; 20 seeds make 2,000."""

SHARES = {
    **{f"{count} queries": share for count, share in ((2, 0.03), (3, 0.12), (4, 0.1), (5, 0.05))},
    **{f"{count} components": share for count, share in ((1, 0.2), (2, 0.4), (3, 0.6), (4, 0.25))},
    "SEQ": 0.65,
    "AND": 0.5,
    "OR": 0.12,
    "nested": 0.3,
    "negated start": 0.1,
    "negated middle": 0.1,
    "negated end": 0.1,
    "negation under AND": 0.15,
    "Kleene": 0.3,
    "optional": 0.05,
    "with ANY": 0.15,
    "with RETURN": 0.15,
    "without a window": 0.15,
    "count window": 0.15,
    "different windows": 0.5,
    **{f"{count} keys": share for count, share in ((0, 0.4), (1, 0.4), (2, 0.08))},
    "different keys": 0.3,
    "plain comparison": 0.6,
    "comparison with arithmetic": 0.08,
    "three events in a condition": 0.03,
    "alternatives between events": 0.03,
    "texts compared": 0.1,
    "own predicate": 0.5,
    "AGG": 0.05,
    "a query twice": 0.05,
    "with ties": 0.2,
    "with NULLs": 0.2,
    "with NaN": 0.1,
    "with order_by": 0.1,
    "declared schema": 0.03,
    "timestamps": 0.15,
}
"""The least share of workloads that have a feature."""

RARE = {"another strategy": 0.015, "NON-OVERLAP": 0.015}
"""The same, for features that a hundred workloads may happen not to have."""

PLAN_SHARES = {
    **{f"plan: {kind} by {search}": 0.1 for kind in workload_pairs.KINDS for search in workload_pairs.SEARCHES},
    "plan: auto": 1.0,
    "queries": 3.0,
    "queries with matches": 1.2,
    "answers of shared plans": 4.5,
    "shared by two": 0.3,
    "shared by more than two": 0.03,
    "two sides that are the same": 0.02,
    "different windows in a plan": 0.3,
    "tests beside leaves": 0.3,
    "several groups": 0.03,
    **{f"planner: {name}": 0.3 for name in workload_pairs.PLANNERS},
    "scopes looked up": 0.5,
    "scopes searched for": 0.5,
    "ties=error answered": 0.01,
}
"""The same for how they are run."""


@pytest.mark.parametrize("seed", mostly_long(SEEDS))
def test_every_shared_plan_agrees_with_the_oracle(seed: int) -> None:
    seen = assert_agreement(workload_pairs, seed, WORKLOADS)
    assert seen["refused"] <= 0.08 * seen["queries"], seen
    assert_shares(seen, {**SHARES, **PLAN_SHARES, **dict.fromkeys(CUTS, 0.05)}, WORKLOADS)


@pytest.mark.parametrize("sabotage", mostly_long(workload_pairs.SABOTAGE))
def test_a_broken_engine_is_noticed(sabotage: str) -> None:
    """A test of the test: ways to be subtly wrong, each seen within some hundred workloads."""
    assert_noticed(workload_pairs, sabotage, 200)


def checked(workload: MatchWorkload, rng: Random, name: str, number: int = 1) -> int:
    """Compares one workload; the number of its queries that have matches."""
    given = workload_pairs.Given(workload)
    found = workload_pairs.check(given, workload_pairs.settings_of(rng, number), rng, Counter())
    assert not found, "\n".join((name, *found, workload_pairs.describe(workload)))
    return sum(bool(item.wanted) for item in given.wanted.values())


@pytest.mark.parametrize("part", range(4))
def test_compiled_kernels_agree_with_the_oracle(part: int) -> None:
    """64 workloads: 8 sets of queries, eight streams each, so that filters are compiled once."""
    rng = Random(part)
    with_matches = 0
    for seed in range(7_500 + 2 * part, 7_502 + 2 * part):
        for number, workload in enumerate(match_workload_streams(seed, 8)):
            with_matches += checked(workload, rng, f"stream {number} of match_workload_streams({seed}, 8)")
    assert with_matches > 8


@pytest.mark.spark
def test_spark_agrees_with_the_oracle(spark: Any) -> None:
    """Some workloads on Spark batch."""
    with_matches = 0
    for number, workload in enumerate(match_workloads(87, 8)):
        given = workload_pairs.Given(workload)
        queries = {name: item.query for name, item in given.wanted.items()}
        found = kleene.workload(queries).match(frame_of(spark, given.table), **given.options)
        for name, item in given.wanted.items():
            rows = found[name].toArrow().sort_by("at") if item.example.query.aggregates else found[name].toArrow()
            report = item.row_differences("Spark", rows)
            assert not report, "\n".join((f"match_workload(87, {number}), {name}", *report, workload_pairs.describe(workload)))
            with_matches += bool(item.wanted)
    assert with_matches > 8


# --- the generator and the comparison ---------------------------------------------------------------------------------


def test_the_generator_reaches_every_feature() -> None:
    """Without the engine: shares of features, and texts that parse to their queries."""
    seen: Counter[str] = Counter()
    for workload in match_workloads(3, 300):
        seen.update(workload_pairs.features(workload))
        for example in workload.examples:
            assert parse(to_text(example.query)) == example.query
    assert_shares(seen, {**SHARES, **RARE}, 300)


def test_workloads_are_reproducible() -> None:
    def texts(seed: int) -> list[str]:
        return [workload_pairs.describe(workload) for workload in match_workloads(seed, 10)]

    assert texts(3) == texts(3)
    assert texts(3) != texts(4)


def test_a_tie_is_refused_with_the_name_of_a_query_that_needs_an_order() -> None:
    """Random workloads meet this seldom."""
    events = pa.table({"ts": [1, 2, 2, 3], "type": ["A", "A", "B", "B"]})
    queries = {name: f"PATTERN SEQ(A a, B b) WITHIN {size} EVENTS" for name, size in (("short", 3), ("long", 5))}
    with pytest.raises(DataError, match=r"queries 'short', 'long': .*tie at timestamp"):
        kleene.workload(queries).match(events, time="ts", type="type")


def test_the_comparison_sees_what_differs() -> None:
    """One match lost, one too many, those of another query, other columns: each is reported."""
    given = next(given for given in map(workload_pairs.Given, match_workloads(5, 50)) if has_two_that_differ(given))
    (name, item), (_, other) = [pair for pair in given.wanted.items() if len(pair[1].wanted) > 1][:2]
    right = item.query.match(given.table, **given.options)
    assert item.differences("right", right) == []
    spoiled = [right.slice(1), pa.concat_tables([right, right.slice(0, 1)]), right.drop_columns(["match_end"])]
    spoiled.append(other.query.match(given.table, **given.options))
    for table in spoiled:
        assert item.differences(f"{name} spoiled", table)


def has_two_that_differ(given: workload_pairs.Given) -> bool:
    found = [item for item in given.wanted.values() if len(item.wanted) > 1 and not item.example.query.aggregates]
    return len(found) > 1 and found[0].example.query != found[1].example.query
