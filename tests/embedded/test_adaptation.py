"""A plan follows the events: orders change between passes and within one, and no match is lost or found twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.engine.lazy.evaluation import LazyEvaluation
from kleene.engine.passes.reporting import PatternMatcher
from kleene.interfaces.options import options_of
from kleene.runtime.embedded import rows_of

PHASE = 20_000
TYPES = np.array(["A", "B", "C"])
QUERY = kleene.query(
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 60 RETURN a.id AS a, b.id AS b, c.id AS c"
)


def switching(phases: str) -> pa.Table:
    """Events of which the named type is rare, phase by phase."""
    random = np.random.default_rng(3)
    kinds = []
    for rare in phases:
        share = np.where(rare == TYPES, 0.004, 0.498)
        kinds.append(random.choice(3, PHASE, p=share))
    types = TYPES[np.concatenate(kinds)]
    count = types.size
    numbers = np.arange(count)
    return pa.table({"ts": numbers, "type": types, "x": random.integers(0, 1000, count), "id": numbers})


def run(events: pa.Table, plan: Any, batch: int, run_rows: int) -> tuple[PatternMatcher, pa.Table]:
    matcher = QUERY.matcher(events.schema, options_of({"time": "ts", "type": "type", "plan": plan}), run_rows=run_rows)
    assert isinstance(matcher, PatternMatcher)
    found = [rows for piece in events.to_batches(batch) for _, rows in matcher.feed(piece)]
    return matcher, pa.Table.from_batches([*found, *rows_of(matcher.finish())], matcher.output_schemas[0])


def replanned(matcher: PatternMatcher) -> int:
    assert isinstance(matcher.evaluation, LazyEvaluation)
    return matcher.evaluation.planner.replanned


def triples(matches: pa.Table) -> list[tuple[int, ...]]:
    return sorted(zip(*(matches.column(name).to_pylist() for name in "abc"), strict=True))


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return switching("CABC")


@pytest.fixture(scope="module")
def wanted(events: pa.Table) -> list[tuple[int, ...]]:
    return triples(QUERY.match(events, time="ts", type="type", plan={"mechanism": "sequence"}))


@pytest.mark.parametrize("plan", [None, {"mechanism": "chain"}, {"mechanism": "tree"}, {"planner": "greedy"}], ids=str)
@pytest.mark.parametrize(("batch", "run_rows"), [(3_000, 5_000), (100_000, 5_000)])
def test_no_match_is_lost_or_repeated_when_the_plan_changes(
    events: pa.Table, wanted: list[tuple[int, ...]], plan: Any, batch: int, run_rows: int
) -> None:
    _, matches = run(events, plan, batch, run_rows)
    assert triples(matches) == wanted
    assert len(set(wanted)) == len(wanted) > 1_000


def test_an_order_is_given_up_when_rates_change(events: pa.Table) -> None:
    matcher, _ = run(events, {"mechanism": "chain"}, 2_500, 2_500)
    assert replanned(matcher) >= 3
    fixed, _ = run(events, {"mechanism": "chain", "adaptive": False}, 2_500, 2_500)
    assert replanned(fixed) == 0
    assert fixed.metrics.evaluations > 3 * matcher.metrics.evaluations


def test_one_pass_has_an_order_for_each_stretch(events: pa.Table) -> None:
    matcher, _ = run(events, {"mechanism": "chain"}, 100_000, 5_000)
    assert {order.strip()[0] for order in matcher.chosen.split(" then ")} == {"a", "b", "c"}


def test_the_adaptive_chain_and_the_tree_stay_close_to_the_best_chain_of_each_phase() -> None:
    best = 0
    chains: dict[tuple[str, ...], list[int]] = {}
    for rare in "CAB":
        phase = switching(rare)
        counts = {
            order: run(phase, {"mechanism": "chain", "order": list(order)}, 100_000, 5_000)[0].metrics.evaluations
            for order in (("a", "b", "c"), ("b", "a", "c"), ("b", "c", "a"), ("c", "b", "a"), ("a", "c", "b"), ("c", "a", "b"))
        }
        best += min(counts.values())
        for order, count in counts.items():
            chains.setdefault(order, []).append(round(count / min(counts.values())))
    assert all(max(losses) >= 10 for losses in chains.values()), chains
    whole = switching("CAB")
    for plan in ({"mechanism": "chain"}, {"mechanism": "tree"}):
        assert run(whole, plan, 100_000, 5_000)[0].metrics.evaluations < 2 * best


def test_statistics_that_a_user_gives_are_believed_until_events_tell_otherwise(events: pa.Table) -> None:
    wrong = {"rates": {"a": 0.001, "b": 1000.0, "c": 1000.0}}
    given = {"time": "ts", "type": "type", "stats": wrong, "plan": {"mechanism": "chain", "adaptive": False}}
    believing = QUERY.run(events, **given)
    doubting = QUERY.run(events, **{**given, "plan": {"mechanism": "chain"}})
    assert triples(believing.matches) == triples(doubting.matches)
    assert believing.metrics.evaluations > 2 * doubting.metrics.evaluations
