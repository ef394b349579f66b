"""The explorer's page holds the oracle's matches, event by event, with the ids of `match`; see `support.explorer_pairs`."""

from __future__ import annotations

import pytest

from support import explorer_pairs
from support.long_tests import mostly_long
from support.pair_runs import assert_agreement, assert_noticed, assert_shares

SEEDS = range(900, 910)
PAIRS = 400
SHARES = {"with matches": 0.4, "with Kleene": 0.2, "with RETURN": 0.05, "declared schema": 0.04}


@pytest.mark.parametrize("seed", mostly_long(SEEDS))
def test_a_page_holds_the_matches_of_the_oracle(seed: int) -> None:
    assert_shares(assert_agreement(explorer_pairs, seed, PAIRS), SHARES, PAIRS)


@pytest.mark.parametrize("sabotage", explorer_pairs.SABOTAGE)
def test_a_broken_page_is_noticed(sabotage: str) -> None:
    assert_noticed(explorer_pairs, sabotage, 100)
