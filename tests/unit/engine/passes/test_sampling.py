"""How often conditions hold among tuples in scope: what is drawn, and where tuples are looked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from kleene.common.arrays import Array
from kleene.engine.passes.sampling import FEWEST, Scope, Tuples, drawn, selectivity, share, stretches


class Numbers:
    """A source whose events are numbers: in scope of a tuple are the next `reach` numbers after its smallest event."""

    tries: Sequence[tuple[Scope, int]] = ((Scope.IN_SCOPE, 1), (Scope.IN_SCOPE, 16), (Scope.ANYWHERE, 1))

    def __init__(self, events: Mapping[str, Sequence[int]], reach: int) -> None:
        self.random = np.random.default_rng(0)
        self.events = {name: np.array(own, np.int64) for name, own in events.items()}
        self.reach = reach
        self.asked: list[tuple[Scope, int]] = []

    def count(self, variable: str) -> int:
        return int(self.events[variable].size)

    def candidates(self, variable: str, numbers: Array) -> Array:
        return np.asarray(self.events[variable].take(numbers))

    def rows(self, events: Array) -> Array:
        return events

    def ranges(self, tuples: Tuples, variable: str, scope: Scope) -> tuple[Array, Array]:
        first = np.minimum.reduce(list(tuples.values()))
        self.asked.append((scope, first.size))
        own = self.events[variable]
        if scope is Scope.ANYWHERE:
            return np.zeros(first.size, np.int64), np.full(first.size, own.size)
        return np.searchsorted(own, first + 1), np.searchsorted(own, first + self.reach, side="right")


def test_all_tuples_are_looked_at_if_there_are_no_more_than_asked_for() -> None:
    source = Numbers({"a": range(0, 400, 2), "b": range(1, 401, 2)}, reach=3)
    found: list[tuple[int, int]] = []

    def held(tuples: Tuples) -> int:
        found.extend(zip(tuples["a"].tolist(), tuples["b"].tolist(), strict=True))
        return int((tuples["b"] - tuples["a"] == 1).sum())

    assert selectivity(source, ["b", "a"], held, 1_000) == share(200, 399)
    assert sorted(found) == sorted((a, b) for a in range(0, 400, 2) for b in (a + 1, a + 3) if b < 401)


def test_no_more_tuples_are_looked_at_than_asked_for_and_they_are_spread_evenly() -> None:
    source = Numbers({"a": range(5_000), "b": range(5_000), "c": range(100)}, reach=50)
    sizes: list[int] = []

    def held(tuples: Tuples) -> int:
        sizes.append(tuples["c"].size)
        return int((tuples["b"] < 25).sum())

    found = selectivity(source, ["a", "b", "c"], held, 400)
    # Of the hundred c each has 50 b after it, of which those below 25 are 300 of 5,000 pairs.
    assert found == pytest.approx(0.06, abs=0.03)
    assert FEWEST < sizes[0] <= 400
    assert source.asked[0] == (Scope.IN_SCOPE, 100)


def test_where_few_are_in_scope_more_events_are_looked_at_and_then_more_scopes() -> None:
    source = Numbers({"a": range(0, 20_000, 10), "b": [*range(9, 20_000, 1_000), *range(30_000, 40_000)]}, reach=9)
    assert selectivity(source, ["a", "b"], lambda tuples: tuples["a"].size, 64) == share(64, 64)
    assert source.asked == [(Scope.IN_SCOPE, 64), (Scope.IN_SCOPE, 1_024), (Scope.ANYWHERE, 64)]


def test_an_event_is_in_a_tuple_once() -> None:
    source = Numbers({"a": range(10), "b": range(10)}, reach=0)
    source.tries = ((Scope.ANYWHERE, 1),)
    assert selectivity(source, ["a", "b"], lambda tuples: int((tuples["a"] != tuples["b"]).sum()), 1_000) == share(90, 90)


def test_what_cannot_be_said_is_not_known() -> None:
    assert selectivity(Numbers({"a": [], "b": [1]}, reach=5), ["a", "b"], lambda _: 1, 64) is None
    assert selectivity(Numbers({"a": range(99)}, reach=5), ["a"], lambda _: None, 64) is None


def test_numbers_are_drawn_one_of_each_of_equal_parts() -> None:
    numbers = drawn(np.random.default_rng(1), 1_000, 10)
    assert (numbers // 100).tolist() == list(range(10))
    assert drawn(np.random.default_rng(1), 5, 10).tolist() == [0, 1, 2, 3, 4]


def test_stretches_are_as_long_as_asked_for_and_reach_both_ends() -> None:
    rows = stretches(10_000, 800)
    assert (rows.size, int(rows[0]), int(rows[-1])) == (800, 0, 9_999)
    assert int((np.diff(rows) > 1).sum()) == 7
