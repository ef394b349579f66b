"""Events and queries of the paper's experiments: trades of the paper's tickers, and synthetic streams with more types.

The paper has a recorded trace of 120,000 trades. Ours are generated: one trade per millisecond, every ticker as frequent as
the others, so that a window of 1,000 ms holds as many events of each type as the exponential growth of the state of the art
in the length of the pattern suggests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import kleene
from benchmarks import suite

SEED = 2014
WINDOW = 1_000
"""Milliseconds, and so events."""
CHAIN = ("DELL", "IPIX", "INTC", "MSFT", "CSCO", "ORCL", "SUNW", "YHOO", "JDSU")
TRIGGER = "AMAT"
NEGATED = "QQQ"
TICKERS = (*CHAIN, TRIGGER, NEGATED, "AMZN")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    events: int
    """Trades of the paper's trace."""
    matches: int
    """Matches that construction may build at a point: where there are more, all contenders get a shorter stream."""
    constructed: int
    """The same where matches are built and not even counted, which is faster by far."""
    synthetic: int
    """Events where workloads share counters, and where windows are compared."""
    live: tuple[int, ...]
    """Live start events of the experiments on windows and throughput."""
    big: int
    """Events of the experiments on throughput and Spark."""
    peer: int
    """Events where DuckDB is beside."""


SCALES = {
    "full": Scale(
        name="full",
        repeats=5,
        events=120_000,
        matches=150_000_000,
        constructed=30_000_000_000,
        synthetic=1_000_000,
        live=(10, 100, 1_000, 10_000, 100_000),
        big=10_000_000,
        peer=2_000_000,
    ),
    "quick": Scale(
        name="quick",
        repeats=3,
        thin=True,
        events=24_000,
        matches=2_000_000,
        constructed=200_000_000,
        synthetic=200_000,
        live=(10, 100, 1_000, 10_000),
        big=1_000_000,
        peer=200_000,
    ),
    "tiny": Scale(
        name="tiny",
        repeats=1,
        thin=True,
        events=4_000,
        matches=100_000,
        constructed=200_000,
        synthetic=5_000,
        live=(10, 100),
        big=10_000,
        peer=5_000,
    ),
}


def trades(events: int) -> pa.Table:
    """The first trades of the trace, in one chunk."""
    random = np.random.default_rng([SEED, 12])
    kinds = random.integers(0, len(TICKERS), events)
    return pa.table(
        {
            "ts": pa.array(np.arange(events) * 1_000).cast(pa.timestamp("us", tz="UTC")),
            "type": pa.DictionaryArray.from_arrays(kinds.astype(np.int8), pa.array(TICKERS)),
        }
    )


def synthetic(events: int, types: Sequence[str]) -> pa.Table:
    """Events of equally frequent types; the time of an event is its number."""
    random = np.random.default_rng([SEED, 16, len(types)])
    kinds = random.integers(0, len(types), events)
    codes = pa.DictionaryArray.from_arrays(kinds.astype(np.int8), pa.array(types))
    return pa.table({"ts": np.arange(events), "type": codes})


def tickers_of(length: int) -> tuple[str, ...]:
    """The pattern of a length; all of them end with the same ticker, so that they have rows at the same events.

    >>> tickers_of(3)
    ('DELL', 'IPIX', 'AMAT')
    """
    return (*CHAIN[: length - 1], TRIGGER)


def count_query(types: Sequence[str], window: str, *, where: str = "", group_by: str = "", name: str = "query") -> kleene.Query:
    """COUNT over a sequence of types.

    >>> print(count_query(("DELL", "AMAT"), "1000 ms"))
    PATTERN SEQ(DELL e1, AMAT e2)
    AGG COUNT
    WITHIN 1000 milliseconds
    """
    return kleene.query(aggregate_text(types, "COUNT", window, where=where, group_by=group_by), name=name)


def pattern_text(types: Sequence[str]) -> str:
    """A sequence of types; one that begins with `!` is negated.

    >>> pattern_text(("DELL", "!QQQ", "AMAT"))
    'PATTERN SEQ(DELL e1, !(QQQ e2), AMAT e3)'
    """
    components = [
        f"!({item[1:]} e{place})" if item.startswith("!") else f"{item} e{place}" for place, item in enumerate(types, 1)
    ]
    return f"PATTERN SEQ({', '.join(components)})"


def aggregate_text(
    types: Sequence[str], aggregate: str, window: str, *, where: str = "", group_by: str = "", emit: str = ""
) -> str:
    """The text of a query that aggregates over a sequence of types.

    >>> aggregate_text(("A", "B"), "SUM(e1.x)", "", where="[k]", group_by="k")
    'PATTERN SEQ(A e1, B e2) WHERE [k] GROUP BY k AGG SUM(e1.x)'
    """
    clauses = [
        pattern_text(types),
        f"WHERE {where}" if where else "",
        f"GROUP BY {group_by}" if group_by else "",
        f"AGG {aggregate}",
        emit,
        f"WITHIN {window}" if window else "",
    ]
    return " ".join(clause for clause in clauses if clause)


def matches_per_event(length: int, window: int) -> float:
    """Expected: a trigger completes each rising choice of length - 1 earlier events of its window.

    >>> round(matches_per_event(5, 1_000))
    167449
    """
    return (window / len(TICKERS)) ** (length - 1) / math.factorial(length - 1) / len(TICKERS)


def live_matches(length: int, window: int) -> float:
    """Expected: matches in a window. Also the number that the first window of a stream completes."""
    return (window / len(TICKERS)) ** length / math.factorial(length)


def affordable(events: int, matches: int, length: int, window: int) -> int:
    """The first events of the trace, of which about so many matches are built; no more than `events`.

    >>> affordable(120_000, 150_000_000, 2, 1_000), affordable(120_000, 150_000_000, 5, 1_000)
    (120000, 1695)
    """
    first = live_matches(length, window)
    if matches <= first:
        return min(events, int(len(TICKERS) * (matches * math.factorial(length)) ** (1 / length)))
    return min(events, int(window + (matches - first) / matches_per_event(length, window)))
