"""A stream gives the oracle's matches, with the ids of a batch run, whatever its arrival, micro-batches, restarts and rules.

10,000 random queries and workloads of every kind run with plain-Python kernels (in processes of their own: the choice is made
when the engine is imported), some hundreds compiled. `tests/support/stream_pairs.py` does the comparing; as a script it runs
any part of it by hand, and a failure names its example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from support import stream_pairs
from support.long_tests import mostly_long
from support.pair_runs import assert_agreement, assert_noticed, assert_shares
from support.random_aggregate import aggregate_streams
from support.random_workloads import match_workload_streams
from support.strategies import any_match_streams, saseplus_streams
from support.stream_pairs import KINDS, StreamExample
from support.stream_runs import END, schedule, with_late

SEEDS = range(600, 640)
EXAMPLES = 250
"""Per seed; 40 seeds make 10,000."""

SHARES = {
    **dict.fromkeys(KINDS, 0.12),
    "a lag": 0.15,
    "late events": 0.15,
    "rules": 0.17,
    "timers": 0.3,
    "together": 0.25,
    "waiting for the window": 0.1,
    "all windows passed": 0.6,
    "restarted": 2.5,
    "replayed": 0.15,
    "interrupted": 0.15,
    "several segments": 1.5,
    "several pieces": 0.05,
    "called by a timer": 0.6,
    "not called": 0.3,
    "terms": 2.0,
    "terms from a watermark on": 0.4,
    "terms that end": 0.4,
    "matches": 0.4,
    "RETURN rows": 0.015,
    "compressed matches": 0.004,
    "rows of AGG": 0.5,
    "ties": 0.015,
    "rows": 6.0,
}
"""The least share of examples, or number in an example, that have a feature."""


@pytest.mark.parametrize("seed", mostly_long(SEEDS))
def test_streams_agree_with_the_oracle(seed: int) -> None:
    seen = assert_agreement(stream_pairs, seed, EXAMPLES)
    assert seen["refused"] <= 0.1 * EXAMPLES, seen
    assert_shares(seen, SHARES, EXAMPLES)


@pytest.mark.parametrize("sabotage", mostly_long(stream_pairs.SABOTAGE))
def test_a_broken_stream_is_noticed(sabotage: str) -> None:
    """A test of the test: ways to be subtly wrong, each seen within some hundred examples."""
    assert_noticed(stream_pairs, sabotage, 800)


def compiled_examples(seed: int) -> Iterator[StreamExample]:
    """Some streams for one query of each kind, so that a filter is compiled once."""
    for kind, streams in (("saseplus", saseplus_streams), ("any match", any_match_streams), ("aggregate", aggregate_streams)):
        yield from (StreamExample(kind, (example,)) for example in streams(seed, 8))
    yield from (StreamExample("workload", given.examples) for given in match_workload_streams(seed, 4))


@pytest.mark.parametrize("seed", mostly_long(range(7_700, 7_716)))
def test_compiled_kernels_agree_with_the_oracle(seed: int) -> None:
    """448 examples: 16 queries of each kind."""
    seen: Counter[str] = Counter()
    for number, given in enumerate(compiled_examples(seed)):
        found = stream_pairs.Stream(given, Random(number), seen).run()
        assert not found, "\n".join((f"number {number} of compiled_examples({seed})", *found, stream_pairs.describe(given)))
    assert seen["rows"] > 20


# --- the generator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lag", [0, 7])
def test_events_are_late_only_if_they_are_meant_to_be(lag: int) -> None:
    """Every event arrives once; before the watermark only those that are late, those made by others up to the lag."""
    late_ones = made_ones = 0
    for seed in range(60):
        rng = Random(seed)
        ts = np.sort(np.array([rng.randrange(40) for _ in range(rng.randrange(12))], np.int64))
        steps, late = with_late(list(schedule(ts, rng, windows=(5,), lag=lag)), ts, rng)
        watermarks = [step.watermark for step in steps if step.watermark is not None]
        assert watermarks == sorted(watermarks)
        assert watermarks[-1] >= END
        assert sorted(row for step in steps for row in (*step.rows, *step.made)) == list(range(ts.size))
        for number, step in enumerate(steps):
            if step.watermark is not None:
                assert {row for row in step.rows if ts[row] < step.watermark} == {r for r, at in late.items() if at == number}
                assert all(ts[row] >= step.watermark - lag for row in step.made)
        late_ones += len(late)
        made_ones += sum(len(step.made) for step in steps)
    assert late_ones > 20
    assert (made_ones > 50) == (lag > 0)


def test_examples_are_reproducible() -> None:
    def texts(seed: int) -> list[str]:
        return [stream_pairs.describe(stream_pairs.stream_example(seed, number)) for number in range(12)]

    assert texts(3) == texts(3)
    assert texts(3) != texts(4)
