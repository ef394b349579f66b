"""Events and queries of the experiments, with the paper's symbols: strategies s2 and s3, predicates p1 to p3, window W.

W is a number of events of one partition. The time column is the number of the event among all partitions, so W events of one of
two symbols are about 2 W ticks, and the queries say WITHIN 2 W.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

import kleene
from benchmarks import suite
from kleene.generators import stock

SEED = 2008
SYMBOLS = 2
P = 0.7
W = 500
W_VALUES = (500, 1_000, 1_500, 2_000)

STRATEGIES = {"s2": "partition_contiguity", "s3": "skip_till_next_match"}
PREDICATES = {
    "p1": "",
    "p2": "a[i].price > a[i-1].price",
    "p3": "a[i].price > min(a[..i-1].price)",
    "p3max": "a[i].price > max(a[..i-1].price)",
    "p3avg": "a[i].price > avg(a[..i-1].price)",
}

QUERIES = ("p1s2", "p1s3", "p2s2", "p2s3", "p3s2", "p3s3", "p3maxs3", "p3avgs3")
"""Those of experiment 1; p3 by itself is the paper's p3 with min."""
WINDOW_QUERIES = ("p1s3", "p2s2", "p2s3", "p3s2", "p3s3")
"""Those of experiment 2."""

LOW_VOLUME = "b.volume < 150"
NEXT_RISE = "b.price > a[a.LEN].price"
PRICES = "RETURN a[].price AS prices, b.ts AS at"
"""How matches are enumerated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    windows: int
    """Length of the stream per symbol, in windows; the paper's is 200."""
    complexity: int
    """Elements that the matches of a point may have in all: where there are more, the stream is shorter."""
    backtrack_windows: int
    """Length of the stream per symbol for the backtrack algorithm."""
    longer: int
    """Events of the longer streams of the speed experiment."""
    widths: tuple[int, ...] = W_VALUES
    width: int = W


SCALES = {
    "full": Scale(name="full", windows=200, complexity=60_000_000, backtrack_windows=200, longer=4_000_000, repeats=9),
    "quick": Scale(name="quick", windows=40, complexity=2_000_000, backtrack_windows=20, longer=400_000, repeats=3, thin=True),
    "tiny": Scale(
        name="tiny",
        windows=100,
        complexity=1_000_000,
        backtrack_windows=100,
        longer=10_000,
        repeats=1,
        thin=True,
        widths=(30, 60),
        width=50,
    ),
}


def events(count: int) -> pa.Table:
    """The ticker in one chunk."""
    return stock.table(stock.StockOptions(events=count, seed=SEED, symbols=SYMBOLS, p=P)).combine_chunks()


def stream(W: int, windows: int, complexity: int) -> pa.Table:
    """`windows` windows per symbol, or fewer: where everything is selected, matches must not have more elements than said."""
    return events(SYMBOLS * W * max(5, min(windows, int(complexity / (output_complexity(W) * SYMBOLS * W)))))


def output_complexity(W: int) -> float:
    """Expected elements of matches per event, where all events are selected (p1).

    One event in 500 or so starts a run, 15 in 100 of the W events in its window close a match, of half a window on average.

    >>> round(output_complexity(500), 1)
    37.2
    """
    return (1 / 500) * (149 / 1_000 * W) * (W / 2)


def pattern_query(
    name: str,
    W: int,
    *,
    returned: str = "",
    closing: str = LOW_VOLUME,
    non_overlap: bool = False,
) -> kleene.Query:
    """The paper's template; a star after the predicate (`p3*s3`) adds experiment 4's third component.

    >>> print(pattern_query("p2s3", 500))
    PATTERN SEQ(STOCK+ a[], STOCK b)
    WHERE skip_till_next_match(a[], b) { [symbol] AND a[1].price % 500 = 0 AND a[i].price > a[i-1].price AND b.volume < 150 }
    WITHIN 1000
    """
    predicate, strategy = name[:-2], name[-2:]
    third = predicate.endswith("*")
    conditions = ["[symbol]", "a[1].price % 500 = 0", PREDICATES[predicate.removesuffix("*")], closing]
    if third:
        conditions += ["c.price > a[1].price", "c.price < a[a.LEN].price"]
    where = " AND ".join(condition for condition in conditions if condition)
    text = (
        f"PATTERN SEQ(STOCK+ a[], STOCK b{', STOCK c' * third}) "
        f"WHERE {STRATEGIES[strategy]}(a[], b{', c' * third}) {{ {where} }} "
        f"WITHIN {SYMBOLS * W} {returned} {'OUTPUT NON-OVERLAP' * non_overlap}"
    )
    return kleene.query(text)
