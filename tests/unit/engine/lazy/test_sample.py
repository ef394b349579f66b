"""Selectivities by the filter of a lazy pass are those that the columns give."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.engine.lazy.evaluation import LazyEvaluation
from kleene.engine.lazy.sample import Sample
from kleene.engine.passes.observe import bits_of
from kleene.engine.passes.reporting import PatternMatcher
from kleene.engine.passes.sampling import WorkingRows
from kleene.engine.passes.working_matcher import BLOCK
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.plan.optimizer import plan_matches
from kleene.plan.options import LazyOptions
from kleene.plan.patterns import LazyPlan

ALL = 1_000_000


def stream(count: int, keys: int = 3) -> pa.Table:
    random = np.random.default_rng(5)
    return pa.table(
        {
            "ts": np.cumsum(random.integers(0, 3, count)),
            "type": random.choice(["A", "B", "C"], count),
            "k": random.integers(0, keys, count),
            "x": random.integers(0, 100, count),
            "y": random.random(count),
        }
    )


def opened(text: str, table: pa.Table) -> tuple[LazyPlan, Sample, WorkingRows]:
    """A plan, and both ways to measure its conditions on the same events."""
    plan = plan_matches(bind(parse(text), schema_of_arrow(table.schema, time="ts", type="type")), LazyOptions(), ties="arrival")
    evaluation = LazyEvaluation(plan)
    matcher = PatternMatcher(evaluation, table.schema)
    assert not list(matcher.feed(table.to_batches()[0]))
    working = matcher._working
    run = evaluation.in_order(working, matcher.metrics, matcher.allowance, BLOCK)
    return plan, Sample(run), WorkingRows(plan.bound, bits_of(plan.scanned), plan.partition, working)


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y / 4 WITHIN 40",
        "SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x AND b.y < c.y / 4 WITHIN 60",
        "AND(A a, B b, C c) WHERE a.x < b.x AND a.x + b.x < c.x WITHIN 15",
        "AND(A a, A b) WHERE a.x != b.x AND a.y < b.y WITHIN 20",
        "SEQ(AND(A a, B b), C c) WHERE [k] AND a.y + b.y < c.y WITHIN 25",
        "SEQ(A a, B b) WHERE a.x < b.x",
        "SEQ(A a, B+ b[], C c) WHERE a.x < c.x AND b[].x > a.x WITHIN 30",
    ],
)
def test_all_tuples_in_scope(text: str) -> None:
    plan, sample, rows = opened(f"PATTERN {text}", stream(150))
    for number, item in enumerate(plan.branches[0].conditions):
        found = sample.selectivity(0, number, ALL)
        assert found is not None, item.text
        assert found == rows.selectivity(item.condition.expression, ALL), item.text


def test_a_sample_is_near_the_exact_share() -> None:
    _, sample, _ = opened("PATTERN SEQ(A a, B b) WHERE [k] AND a.y < b.y / 2 WITHIN 100", stream(20_000))
    assert sample.selectivity(0, 0, 512) == pytest.approx(0.25, abs=0.06)


def test_where_few_are_in_scope_more_are_looked_at() -> None:
    table = stream(6_000, keys=500)
    plan, sample, rows = opened("PATTERN SEQ(A a, B b) WHERE [k] AND a.y < b.y WITHIN 60", table)
    exact = rows.selectivity(plan.branches[0].conditions[0].condition.expression, ALL)
    assert sample.selectivity(0, 0, 64) == pytest.approx(exact, abs=0.15)


def test_what_fails_on_a_tuple_or_has_none_is_not_known() -> None:
    table = stream(100).set_column(3, "x", pa.array([2**62] * 100))
    _, sample, _ = opened("PATTERN SEQ(A a, B b) WHERE a.x * b.x > 1 AND a.y < b.y WITHIN 20", table)
    assert [sample.selectivity(0, 0, 64) is None, sample.selectivity(0, 1, 64) is None] == [True, False]
    _, sample, _ = opened("PATTERN SEQ(A a, D d) WHERE a.y < d.y WITHIN 20", table)
    assert sample.selectivity(0, 0, 64) is None


@pytest.mark.parametrize("window", ["WITHIN 40", "WITHIN 40 EVENTS", ""])
def test_the_probability_of_one_partition(window: str) -> None:
    table = stream(4_000, keys=4)
    _, sample, _ = opened(f"PATTERN SEQ(A a, B b) WHERE [k] AND a.y < b.y {window}", table)
    assert sample.same_partition() == pytest.approx(0.25, rel=0.2)
    short = table.set_column(2, "k", pa.array(np.arange(4_000) // 40))
    _, sample, _ = opened(f"PATTERN SEQ(A a, B b) WHERE [k] AND a.y < b.y {window}", short)
    assert sample.same_partition() == pytest.approx(0.5 if window == "WITHIN 40" else 0.01, rel=0.3)
