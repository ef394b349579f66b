"""Slices of time, cut anywhere, give the oracle's matches with the ids of a whole run, each once.

9,000 random queries of every kind run with plain-Python kernels (in processes of their own: the choice is made when the engine
is imported), some hundreds compiled. `tests/support/slice_pairs.py` does the comparing; as a script it runs any part of it by
hand, and a failure names its example.
"""

from __future__ import annotations

from random import Random

import pytest

from support import slice_pairs
from support.long_tests import mostly_long
from support.pair_runs import Report, assert_agreement, assert_noticed, assert_shares
from support.random_aggregate import aggregate_streams
from support.slice_pairs import KINDS
from support.strategies import any_match_streams, saseplus_streams
from support.stream_pairs import StreamExample

SEEDS = range(800, 820)
EXAMPLES = 450
"""Per seed; 20 seeds make 9,000."""

SHARES = {
    **dict.fromkeys(KINDS, 0.15),
    "matches": 0.5,
    "RETURN rows": 0.05,
    "compressed matches": 0.01,
    "rows of AGG": 0.1,
    "a window of events": 0.05,
    "NON-OVERLAP": 0.02,
    "a negated end": 0.1,
    "a negated start": 0.1,
    "hot keys": 0.08,
    "Kleene": 0.2,
    "AND": 0.04,
    "EMIT ON CHANGE": 0.02,
    "skip_till_any_match": 0.4,
    "skip_till_next_match": 0.02,
    "partition_contiguity": 0.03,
    "strict_contiguity": 0.02,
    "ties": 0.02,
    "rows": 4.0,
    "rows of queries that share slices": 1.0,
}
"""The least share of examples, or number in an example, that have a feature."""


@pytest.mark.parametrize("seed", mostly_long(SEEDS))
def test_slices_agree_with_the_oracle(seed: int) -> None:
    assert_shares(assert_agreement(slice_pairs, seed, EXAMPLES), SHARES, EXAMPLES)


@pytest.mark.parametrize("sabotage", mostly_long(slice_pairs.SABOTAGE))
def test_broken_slices_are_noticed(sabotage: str) -> None:
    """A test of the test: ways to be subtly wrong, each seen within some hundred examples."""
    assert_noticed(slice_pairs, sabotage, 1_200)


@pytest.mark.parametrize("seed", mostly_long(range(7_800, 7_808)))
def test_compiled_kernels_agree_with_the_oracle(seed: int) -> None:
    """Some streams for one query of each kind, so that a filter is compiled once."""
    report = Report()
    for kind, streams in (("saseplus", saseplus_streams), ("any match", any_match_streams), ("aggregate", aggregate_streams)):
        for number, example in enumerate(streams(seed, 8)):
            given = StreamExample(kind, (example,))
            found = slice_pairs.check_example(given, number, Random(number), report)
            assert not found, "\n".join((f"number {number} of {kind}, seed {seed}", *found, slice_pairs.describe(given)))
