"""Bounds on live runs, on matches of one event and on the match buffer, and what happens at them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import LimitError, PlanningError
from kleene.plan.limits import Limits, limits_of

EXPONENTIAL = kleene.query("PATTERN SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 100", name="all series")


def stream(elements: int, keys: int = 1) -> pa.Table:
    types = ["A", *["B"] * elements, "C"]
    rows = [(at, kind, key) for at, kind in enumerate(types) for key in range(keys)]
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("ts", "type", "k"), map(list, columns), strict=True)))


pytestmark = pytest.mark.filterwarnings("ignore:.*let go of at the limits")


def run(elements: int, algorithm: str = "merging", **limits: Any) -> Any:
    return EXPONENTIAL.run(stream(elements), time="ts", type="type", plan={"algorithm": algorithm}, limits=limits)


def test_too_many_matches_of_one_event_are_an_error_that_names_query_partition_and_limit() -> None:
    with pytest.raises(LimitError) as raised:
        run(10, matches=100)
    for part in ("'all series'", "k=0", "more than 100 matches", "output='compressed'"):
        assert part in str(raised.value)
    assert run(10, matches=1023).matches.num_rows == 1023


def test_a_queue_of_runs_keeps_to_the_limit_on_matches_and_counts_what_is_alive() -> None:
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { [k] } WITHIN 10", name="pairs")
    events = pa.table({"ts": range(101), "type": [*["A"] * 100, "B"], "k": [0] * 101})
    with pytest.raises(LimitError, match="'pairs' has more than 5 matches that end at one event in partition k=0"):
        query.match(events, time="ts", type="type", limits={"matches": 5})
    found = query.run(events, time="ts", type="type", limits={"matches": 9, "runs": 1})
    assert found.matches.num_rows == 9
    assert found.metrics.peak_runs == 10


@pytest.mark.parametrize("policy", ["keep_newest", "sample"])
@pytest.mark.parametrize("algorithm", ["merging", "basic", "backtrack"])
def test_matches_are_let_go_of_and_counted(policy: str, algorithm: str) -> None:
    found = run(10, algorithm, matches=100, policy=policy)
    assert found.matches.num_rows == 100
    assert len(set(found.matches.column("match_id").to_pylist())) == 100
    assert found.metrics.dropped_matches == 923


def test_the_newest_matches_are_of_the_runs_that_started_latest() -> None:
    events = pa.table({"ts": [1, 2, 3, 4, 5], "type": ["A", "A", "A", "B", "C"], "k": [0] * 5})
    for algorithm in ("merging", "basic", "backtrack"):
        options: dict[str, Any] = {"plan": {"algorithm": algorithm}, "limits": {"matches": 2, "policy": "keep_newest"}}
        found = EXPONENTIAL.match(events, time="ts", type="type", **options)
        assert sorted(found.column("match_start").to_pylist()) == [2, 3], algorithm


def test_samples_repeat_with_their_seed() -> None:
    def ids(seed: int) -> set[int]:
        return set(run(10, matches=100, policy="sample", seed=seed).matches.column("match_id").to_pylist())

    assert ids(1) == ids(1)
    assert ids(1) != ids(2)


def test_too_many_live_runs() -> None:
    with pytest.raises(LimitError) as raised:
        run(12, "basic", runs=1_000)
    for part in ("'all series'", "live runs", "k=0", "the limit is 1,000", "keep_newest"):
        assert part in str(raised.value)
    assert run(12, "merging", runs=1_000).matches.num_rows == 4095, "merged, there are few"


@pytest.mark.parametrize("policy", ["keep_newest", "sample"])
def test_runs_are_let_go_of_and_counted(policy: str) -> None:
    found = run(12, "basic", runs=1_000, policy=policy)
    assert 0 < found.matches.num_rows <= 2_000
    assert found.metrics.dropped_runs > 1_000
    assert found.metrics.peak_runs <= 2_001, "an event at most doubles them"


def test_the_match_buffer_is_bounded() -> None:
    with pytest.raises(LimitError, match="nodes in its match buffer in partition k=0; the limit is 100,000"):
        run(17, "basic", nodes=100_000)


def test_what_has_left_the_window_is_let_go_of() -> None:
    """A long stream in one partition: the buffer holds a window of it, not all."""
    rows = 300_000
    events = pa.table({"ts": list(range(rows)), "type": ["A" if at % 50 == 0 else "B" for at in range(rows)], "k": [0] * rows})
    query = kleene.query("PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match(a, b[]) { [k] } WITHIN 100")
    found = query.run(events, time="ts", type="type", output="compressed", plan={"algorithm": "basic"})
    assert found.metrics.buffered <= 1 << 16
    assert kleene.count(found.matches) > rows


def test_limits_are_checked() -> None:
    assert limits_of({"runs": 5}) == Limits(runs=5)
    with pytest.raises(PlanningError, match=r"unknown limit .rnus.(.|\n)*did you mean .runs."):
        EXPONENTIAL.match(stream(1), time="ts", type="type", limits={"rnus": 5})
    with pytest.raises(PlanningError, match="policy at a limit cannot be 'drop'"):
        limits_of({"policy": "drop"})
    for wrong in (0, -1, True, "many"):
        with pytest.raises(PlanningError, match="is a positive number"):
            limits_of({"matches": wrong})
    with pytest.raises(PlanningError, match="unknown limit"):
        kleene.query("PATTERN SEQ(A a, B b)").match(stream(1), time="ts", type="type", limits={"run": 1})
