"""Near misses of random queries over random streams are those of the oracle; `tests/support/why_not_pairs.py` compares them."""

from __future__ import annotations

from collections import Counter

import pytest

from support import why_not_pairs
from support.long_tests import mostly_long
from support.pair_runs import assert_agreement, assert_noticed, assert_shares

PAIRS = 200
SHARES = {
    "condition": 0.3,
    "order": 0.15,
    "key": 0.12,
    "window": 0.04,
    "negation": 0.03,
    "repetition": 0.04,
    "strategy": 0.05,
    "overlap": 0.01,
    "pairs": 0.08,
}
"""The least number of constraints of each kind with near misses, per pair of query and stream."""


@pytest.mark.parametrize("seed", mostly_long(range(700, 710)))
def test_near_misses_are_the_oracles(seed: int) -> None:
    seen = assert_agreement(why_not_pairs, seed, PAIRS)
    assert_shares(seen, SHARES, PAIRS)
    assert Counter(seen)["refused"] < 0.1 * PAIRS


@pytest.mark.parametrize("sabotage", mostly_long(why_not_pairs.SABOTAGE))
def test_a_wrong_answer_is_noticed(sabotage: str) -> None:
    assert_noticed(why_not_pairs, sabotage, 100)
