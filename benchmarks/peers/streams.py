"""The workloads of the suite of peers: events that every system is given, and Kleene's query for them.

All tables have the same columns: `ts` (the number of the event, in milliseconds), `type` (E1, E2, ...), `attr1` (the key), `x`
and `y`. Programs on a JVM read the same as `COLUMNS`, with types as numbers from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import kleene
from benchmarks import suite
from kleene.generators import stock

SEED = 2026
TYPES = 20
KEYS = 1_000
FEW_KEYS = 100
W = 10_000
"""Of sequences; milliseconds, and so events."""
LIST_W = 40_000
"""In which a key has two events of a type."""
RARE_W = 1_000
RARE = 0.001
"""The share of the last type, where it is rare."""
FIRST_RARE = 60
"""The number of its first event."""
FOREVER = 1_000_000_000
"""Longer than any stream."""
SYMBOLS = 8
STOCK_W = SYMBOLS * 500
PATTERNS = 20
"""Of the workload of many."""
MOST_X = 1_000_000

COLUMNS = {"ts": "<i8", "kind": "<i4", "attr1": "<i4", "x": "<i4", "y": "<i4"}
"""What programs on a JVM read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(suite.Scale):
    """How big a run is."""

    events: int
    """Of streams with few matches per event; where matches are many, streams are shorter."""
    seconds: float
    """A system whose run takes longer is given no more events."""
    spark: int = 1
    """How many times as many events Spark has: on few of them a job is mostly its start."""
    fetch: bool = True
    """Whether systems that are not on this machine are fetched."""


SCALES = {
    "full": Scale(name="full", events=4_000_000, seconds=1.5, spark=5, repeats=3),
    "quick": Scale(name="quick", events=400_000, seconds=0.3, repeats=2, fetch=False, thin=True),
    "tiny": Scale(name="tiny", events=20_000, seconds=0.1, repeats=1, thin=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Events and what is asked of them."""

    name: str
    title: str
    query: str
    """With {window}; it returns the times of the first and the last event of a match as t1 and t3, and lists."""
    window: int
    stream: Callable[[int], pa.Table]
    share: float = 1.0
    """Of the scale's events."""
    fewest: int = 2_000
    """Events that a system begins with."""
    patience: float = 1.0
    """How many times as long as elsewhere a system may take: over few events, a run of Kleene is its fixed cost."""
    patterns: tuple[tuple[int, int, int], ...] = ((0, 1, 2),)
    """The types of each pattern, by number."""
    counted: bool = False
    """Whether matches are counted by AGG COUNT, and not returned; the last count of each key is what is compared."""
    typed: bool = True
    """Whether the type is looked at; where all events have the same one, no system does."""
    divided: bool = True
    """Whether a key divides the events; where all have the same, SQL does not look at it."""

    @property
    def options(self) -> dict[str, str]:
        """What Kleene is told of the table."""
        return {"time": "ts", "type": "type"} if self.typed else {"time": "ts"}

    def events(self, scale: Scale) -> int:
        """The length of the stream."""
        return max(self.fewest, round(self.share * scale.events))

    def queries(self) -> dict[str, kleene.Query]:
        """One for every pattern."""
        found = {}
        for number, kinds in enumerate(self.patterns):
            text = self.query.replace("{window}", str(self.window))
            for place, kind in enumerate(kinds, 1):
                text = text.replace(f"<{place}>", f"E{kind + 1}")
            found[f"q{number}"] = kleene.query(text, name=f"q{number}")
        return found


def _table(ts: np.ndarray, kinds: np.ndarray, types: int, keys: np.ndarray, x: np.ndarray, y: np.ndarray) -> pa.Table:
    named = pa.DictionaryArray.from_arrays(kinds.astype(np.int8), pa.array([f"E{place}" for place in range(1, types + 1)]))
    columns = {"ts": ts.astype(np.int64), "type": named, "kind": kinds.astype(np.int32), "attr1": keys.astype(np.int32)}
    return pa.table({**columns, "x": x.astype(np.int32), "y": y.astype(np.int32)})


def uniform(keys: int) -> Callable[[int], pa.Table]:
    """Twenty types and so many keys, all equally frequent."""

    def stream(events: int) -> pa.Table:
        random = np.random.default_rng([SEED, keys])
        draws = random.integers(0, [TYPES, keys, MOST_X, MOST_X], (events, 4))
        return _table(np.arange(events), draws[:, 0], TYPES, draws[:, 1], draws[:, 2], draws[:, 3])

    return stream


def rare_last(events: int) -> pa.Table:
    """Three types, of which the last is rare, and among the first that a slow system is given."""
    random = np.random.default_rng([SEED, 3])
    draws = random.random((events, 2))
    kinds = draws[:, 0] < 0.5
    kinds = np.where(np.arange(events) % round(1 / RARE) == FIRST_RARE, 2, kinds)
    nothing = np.zeros(events)
    return _table(np.arange(events), kinds, 3, nothing, draws[:, 1] * MOST_X, nothing)


def ticker(symbols: int) -> Callable[[int], pa.Table]:
    """Prices (x) and volumes (y) of so many symbols."""

    def stream(events: int) -> pa.Table:
        table = stock.table(stock.StockOptions(events=events, seed=SEED, symbols=symbols)).combine_chunks()
        columns = [table.column(name).to_numpy() for name in ("symbol", "price", "volume")]
        return _table(table.column("ts").to_numpy(), np.zeros(events), 1, *columns)

    return stream


def _patterns() -> tuple[tuple[int, int, int], ...]:
    random = np.random.default_rng([SEED, PATTERNS])
    drawn = [random.permutation(TYPES)[:3].tolist() for _ in range(PATTERNS)]
    return tuple((first, middle, last) for first, middle, last in drawn)


_RETURN = "WITHIN {window} RETURN a.ts AS t1, c.ts AS t3"
_LISTS = (
    "PATTERN SEQ(E1+ a[], E1 c) WHERE <strategy>(a[], c) { [attr1] AND a[1].x % 500 = 0 AND a[i].x > a[i-1].x AND <last> } "
)
_FALLS = "c.x <= a[a.LEN].x"
_LIST_RETURN = "WITHIN {window} RETURN a[1].ts AS t1, c.ts AS t3, a[].x AS xs"

WORKLOADS = {
    item.name: item
    for item in (
        Workload(
            name="keyed",
            title="A sequence of three with a key, any match",
            query=f"PATTERN SEQ(<1> a, <2> b, <3> c) WHERE [attr1] {_RETURN}",
            window=W,
            stream=uniform(KEYS),
        ),
        Workload(
            name="next",
            title="The same, where each event takes the next that fits",
            query=f"PATTERN SEQ(<1> a, <2> b, <3> c) WHERE skip_till_next_match(a, b, c) {{ [attr1] }} {_RETURN}",
            window=W,
            stream=uniform(KEYS),
        ),
        Workload(
            name="rare",
            title="Three rising events without a key, any match, the last type rare",
            query=f"PATTERN SEQ(<1> a, <2> b, <3> c) WHERE a.x < b.x AND b.x < c.x {_RETURN}",
            window=RARE_W,
            stream=rare_last,
            share=0.05,
            fewest=100,
            patience=8,
        ),
        Workload(
            name="lists",
            title="Kleene plus under skip_till_any_match: all lists of a type between two others",
            query=f"PATTERN SEQ(<1> a, <2>+ b[], <3> c) WHERE [attr1] {_RETURN}, b[].x AS xs",
            window=LIST_W,
            stream=uniform(KEYS),
            share=0.25,
        ),
        Workload(
            name="rising",
            title="Kleene plus under skip_till_next_match: a rising list up to every event of low volume",
            query=_LISTS.replace("<strategy>", "skip_till_next_match").replace("<last>", "c.y < 150") + _LIST_RETURN,
            window=STOCK_W,
            stream=ticker(SYMBOLS),
            typed=False,
            share=0.25,
            patience=4,
            patterns=((0, 0, 0),),
        ),
        Workload(
            name="contiguity",
            title="Kleene plus under partition_contiguity: rising prices up to the first that does not rise",
            query=_LISTS.replace("<strategy>", "partition_contiguity").replace("<last>", _FALLS) + _LIST_RETURN,
            window=STOCK_W,
            stream=ticker(SYMBOLS),
            typed=False,
            patterns=((0, 0, 0),),
        ),
        Workload(
            name="strict",
            title="The same under strict_contiguity, without a key",
            query=_LISTS.replace("<strategy>", "strict_contiguity").replace("[attr1] AND ", "").replace("<last>", _FALLS)
            + _LIST_RETURN,
            window=STOCK_W,
            stream=ticker(1),
            typed=False,
            divided=False,
            patterns=((0, 0, 0),),
        ),
        Workload(
            name="negation",
            title="Two events with a key and none of a third type between them",
            query=f"PATTERN SEQ(<1> a, !(<2> n), <3> c) WHERE [attr1] {_RETURN}",
            window=W,
            stream=uniform(KEYS),
        ),
        Workload(
            name="many",
            title=f"{PATTERNS} sequences of three with a key, together",
            query=f"PATTERN SEQ(<1> a, <2> b, <3> c) WHERE [attr1] {_RETURN}",
            window=W,
            stream=uniform(KEYS),
            share=0.25,
            patterns=_patterns(),
        ),
        Workload(
            name="counting",
            title="COUNT of all sequences of three with a key, without a window",
            query="PATTERN SEQ(<1> a, <2> b, <3> c) WHERE [attr1] GROUP BY attr1 AGG COUNT",
            window=FOREVER,
            stream=uniform(FEW_KEYS),
            counted=True,
        ),
    )
}
