"""Events and queries of the paper's experiments, with its symbols: components a, b and c, history length h, threshold T, f_c.

The quotes of `kleene.generators.quotes` have as many events for c as for a and for b. f_c, the frequency of c relative to
either, is set as the paper does it: events of c are filtered out, after every event has been given its history. What is left
of c is spread evenly, and the events of a and b are the same at every f_c.

The window is the time in which a ticker has h quotes: 3 times h times the number of tickers in a sector, in events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import kleene
from benchmarks import suite
from kleene.generators import quotes

SEED = 2015
H = 20
TICKERS = 3
WINDOW = 3 * TICKERS * H
T = 0.98
F_C = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

COMPONENTS = {"a": "a.sector = 'Finance'", "b": "b.sector = 'Hi-Tech'", "c": "c.ticker = 'GOOG'"}
CONDITIONS = {
    "comparisons": "a.volume + 225 < b.volume AND b.volume > c.volume + 970",
    "correlation": f"Corr(a.history, b.history) > {T} AND Corr(b.history, c.history) > {T}",
}
"""The paper's conditions, and plain comparisons of about the same selectivities."""

TYPES = ("A", "B", "C")
PHASE_WINDOW = 500
RARE = 0.002
"""The share of the rarest type of a phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    comparisons: int
    """Quotes, before events of c are filtered out, where conditions are comparisons."""
    correlations: tuple[int, int]
    """The fewest and the most, where they are correlations: where c is frequent, fewer."""
    sizes: tuple[int, ...]
    """Quotes of Figure 9."""
    phase: int
    """Events between switches of the rarest type."""
    phases: int
    step: int
    """Events per count of evaluations."""
    workloads: int
    """Random workloads."""
    workload_events: tuple[int, int]
    """The fewest and the most events of one."""
    speed_events: int
    speed_matches: int
    """Matches that the throughput experiment may have at a point: where there are more, the stream is shorter."""
    flink_seconds: float
    """A run of Flink that takes longer is not followed by one over twice the events."""


SCALES = {
    "full": Scale(
        name="full",
        repeats=3,
        comparisons=600_000,
        correlations=(24_000, 200_000),
        sizes=(30_000, 60_000, 120_000, 240_000, 480_000),
        phase=100_000,
        phases=10,
        step=10_000,
        workloads=200,
        workload_events=(600_000, 1_800_000),
        speed_events=1_000_000,
        speed_matches=10_000_000,
        flink_seconds=3.0,
    ),
    "quick": Scale(
        name="quick",
        repeats=2,
        thin=True,
        comparisons=30_000,
        correlations=(1_500, 6_000),
        sizes=(15_000, 30_000, 60_000),
        phase=10_000,
        phases=3,
        step=5_000,
        workloads=10,
        workload_events=(20_000, 50_000),
        speed_events=100_000,
        speed_matches=1_000_000,
        flink_seconds=0.5,
    ),
    "tiny": Scale(
        name="tiny",
        repeats=1,
        thin=True,
        comparisons=4_000,
        correlations=(600, 1_500),
        sizes=(3_000, 30_000),
        phase=4_000,
        phases=3,
        step=2_000,
        workloads=2,
        workload_events=(2_000, 3_000),
        speed_events=5_000,
        speed_matches=100_000,
        flink_seconds=0.1,
    ),
}


def stocks(events: int, f_c: float, *, history: bool = False) -> pa.Table:
    """Quotes in one chunk, with c thinned out to f_c; `events` counts them before that."""
    table = quotes.table(quotes.QuotesOptions(events=events, seed=SEED, tickers=TICKERS))
    if history:
        table = kleene.history(table, "price", H, partition_by="ticker", time="ts", name="history")
    is_c = pc.equal(table.column("ticker"), "GOOG").to_numpy(zero_copy_only=False)
    return table.filter(pa.array(~is_c | thinned(is_c, f_c))).combine_chunks()


def thinned(chosen: np.ndarray, share: float) -> np.ndarray:
    """A share of what a mask chooses, evenly spread.

    >>> thinned(np.array([True, False, True, True, True]), 0.5).tolist()
    [False, False, True, False, True]
    """
    number = np.cumsum(chosen)
    return chosen & (np.floor(number * share + 1e-9) > np.floor((number - 1) * share + 1e-9))


def correlated_events(f_c: float, scale: Scale) -> int:
    """Orders that bind a and c first evaluate as many correlations as there are a and c in a window, times the b between."""
    fewest, most = scale.correlations
    return round(min(most, max(fewest, most / (30 * f_c))))


def stock_query(sequence: str, conditions: str) -> kleene.Query:
    """The paper's pattern with its components in some sequence.

    >>> print(stock_query("acb", "comparisons"))
    PATTERN SEQ(Stock a, Stock c, Stock b)
    WHERE a.sector = 'Finance' AND b.sector = 'Hi-Tech' AND c.ticker = 'GOOG' AND a.volume + 225 < b.volume \
AND b.volume > c.volume + 970
    WITHIN 180
    RETURN a.ts AS a, b.ts AS b, c.ts AS c
    """
    return kleene.query(
        f"PATTERN SEQ({', '.join(f'Stock {name}' for name in sequence)}) "
        f"WHERE {' AND '.join([*COMPONENTS.values(), CONDITIONS[conditions]])} "
        f"WITHIN {WINDOW} RETURN a.ts AS a, b.ts AS b, c.ts AS c",
        functions={"Corr": kleene.functions.corr},
    )


def phase_shares(phase: int) -> list[float]:
    """The shares of A, B and C in a phase: each is the rarest in its turn, C first.

    >>> [phase_shares(phase).index(RARE) for phase in range(4)]
    [2, 0, 1, 2]
    """
    shares = [(1 - RARE) / 2] * 3
    shares[(phase + 2) % 3] = RARE
    return shares


def phases(scale: Scale) -> pa.Table:
    """A stream whose rarest type is switched after every phase."""
    random = np.random.default_rng([SEED, 10])
    kinds = np.concatenate([random.choice(3, scale.phase, p=phase_shares(phase)) for phase in range(scale.phases)])
    return typed(kinds, {"x": random.random(kinds.size), "y": random.random(kinds.size)})


def phase_query() -> kleene.Query:
    return kleene.query(
        "PATTERN SEQ(A a, B b, C c) WHERE a.x + 0.8 < b.x AND b.y + 0.8 < c.y "
        f"WITHIN {PHASE_WINDOW} RETURN a.ts AS a, b.ts AS b, c.ts AS c"
    )


def typed(kinds: np.ndarray, attributes: dict[str, np.ndarray], types: Sequence[str] = TYPES) -> pa.Table:
    """Events whose time is their number: types by code, and attributes."""
    codes = pa.DictionaryArray.from_arrays(kinds.astype(np.int8), pa.array(types))
    return pa.table({"ts": np.arange(kinds.size), "type": codes, **attributes})
