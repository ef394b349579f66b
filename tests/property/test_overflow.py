"""Integers about the ends of 64 bits: every plan has the oracle's answer, or an error exactly where the oracle has one."""

from __future__ import annotations

import pytest

from support import overflow_pairs
from support.pair_runs import assert_agreement, assert_noticed, assert_shares

FREQUENT = {"error": 0.05, "matches": 0.25, "audited without error": 0.5, "skip_till_any_match error": 0.03}
"""Shares of pairs that the generator must make at least."""

SHARES = FREQUENT | {f"{strategy} error": 0.003 for strategy in ("skip_till_next_match", "partition_contiguity")}


def test_random_pairs() -> None:
    assert_shares(assert_agreement(overflow_pairs, 16, 60), FREQUENT, 60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_many_random_pairs(seed: int) -> None:
    assert_shares(assert_agreement(overflow_pairs, 1_600 + seed, 3_000), SHARES, 3_000)


def test_random_aggregates() -> None:
    seen = assert_agreement(overflow_pairs, 17, 60, "--aggregates")
    assert_shares(seen, {"error": 0.02, "rows": 0.5, "answered by CounterPlan": 1, "answered by MatchThenAggregate": 0.8}, 60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_many_random_aggregates(seed: int) -> None:
    assert_agreement(overflow_pairs, 1_700 + seed, 3_000, "--aggregates")


def test_an_error_that_is_not_looked_for_is_noticed() -> None:
    assert_noticed(overflow_pairs, "no-audit", 60)
