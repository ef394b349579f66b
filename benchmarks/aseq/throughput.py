"""Throughput on one core, beside a scan of the same columns by Arrow and, where SQL can count the same, DuckDB.

`scan` is the floor: Arrow counts the values of the type column and finds the extremes of the time column, and nothing else.
DuckDB counts sequences with cumulative sums over window functions: of any length where no window expires anything, since an
event at position j adds all prefixes of j - 1 events before it; of length 2 within a window, where each live start has those
triggers that came after it, which is a difference of two cumulative sums.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import kleene
from benchmarks.aseq.contenders import AUTO, kleene_query, total
from benchmarks.aseq.streams import SEED, Scale, aggregate_text
from benchmarks.harness import Contender, Experiment, Outcome, Point, measure
from benchmarks.machine import one_arrow_thread

LENGTH = 4
KEYS = 1_000
SCAN = "scan"
DUCKDB = "duckdb"
USUAL = 1_000
"""Live start events where their number does not vary."""
MOST_VALUE = 100


@dataclass(frozen=True, slots=True)
class Case:
    """A query and a stream."""

    name: str
    types: int = LENGTH
    """Types in the stream, equally frequent; the query has the first `length`."""
    live: int | None = USUAL
    """Live start events, over all keys; None: no window."""
    length: int = LENGTH
    aggregate: str = "COUNT"
    where: str = ""
    group_by: str = ""
    emit: str = ""
    encoding: str = "dictionary"
    """Of the type column: "dictionary", "int16" or "string"."""
    target: int | None = None
    """Events per second that are asked for, in millions."""
    peer: bool = False
    """Whether DuckDB is beside, and the stream shorter."""

    @property
    def window(self) -> int | None:
        return None if self.live is None else self.live * self.types

    def query(self) -> kleene.Query:
        names = [f'"{place}"' if self.encoding == "int16" else f"E{place}" for place in range(1, self.length + 1)]
        window = "" if self.window is None else str(self.window)
        return kleene.query(
            aggregate_text(names, self.aggregate, window, where=self.where, group_by=self.group_by, emit=self.emit)
        )

    def table(self, events: int) -> pa.Table:
        """The stream, in one chunk; the time of an event is its number."""
        random = np.random.default_rng([SEED, 50, self.types])
        kinds = random.integers(0, self.types, events)
        return pa.table(
            {
                "ts": np.arange(events),
                "type": self._types(kinds),
                "key": random.integers(0, KEYS, events, dtype=np.int32),
                "x": random.integers(0, MOST_VALUE, events, dtype=np.int64),
            }
        )

    def _types(self, kinds: np.ndarray) -> pa.Array:
        if self.encoding == "int16":
            return pa.array((kinds + 1).astype(np.int16))
        named = pa.DictionaryArray.from_arrays(kinds.astype(np.int8), pa.array([f"E{i}" for i in range(1, self.types + 1)]))
        return named.cast(pa.string()) if self.encoding == "string" else named


def cases(scale: Scale) -> list[Case]:
    """What is measured: live starts and types, encodings, keys, aggregates, and what DuckDB can do."""
    found = [Case("unkeyed", types=types, live=live, target=50) for types in (LENGTH, 20) for live in scale.along(scale.live)]
    found += [Case("unkeyed", encoding=encoding, target=50) for encoding in ("int16", "string")]
    for types in (LENGTH, 20):
        found.append(Case("GROUP BY key", types=types, live=10 * KEYS, group_by="key", target=20))
        found.append(Case("[key]", types=types, live=10 * KEYS, where="[key]"))
    found += [Case(name, aggregate=name) for name in ("SUM(e2.x)", "MAX(e2.x)")]
    found.append(Case("EMIT ON CHANGE", emit="EMIT ON CHANGE"))
    found.append(Case("length 2", length=2, types=2, peer=True))
    found.append(Case("no window, length 3", length=3, live=None, peer=True))
    found.append(Case("no window, GROUP BY key", live=None, group_by="key", peer=True))
    return found


def throughput(scale: Scale) -> Experiment:
    with one_arrow_thread():
        points = tuple(_point(case, scale) for case in cases(scale))
    return Experiment(
        "throughput",
        f"Aggregates over an Arrow table, one core, sequences of {LENGTH} unless said",
        axis="live",
        series="case",
        headline="50 million events per second unkeyed, 20 million with a key, whatever the window",
        clock="cpu",
        points=points,
    )


def _point(case: Case, scale: Scale) -> Point:
    table = case.table(scale.peer if case.peer else scale.big)
    contenders = [scan(table), kleene_query(AUTO, case.query(), table, None)]
    if case.peer:
        contenders.append(duckdb(case, table))
    return measure(
        contenders,
        events=table.num_rows,
        parameters={
            "case": case.name,
            "types": case.types,
            "live": "" if case.live is None else case.live,
            "encoding": case.encoding,
            "target": case.target or "",
        },
        baseline=DUCKDB if case.peer else SCAN,
        repeats=scale.repeats,
    )


def scan(table: pa.Table) -> Contender:
    """Arrow looks at the type and time columns once."""

    def run() -> Outcome:
        pc.value_counts(table.column("type"))
        pc.min_max(table.column("ts"))
        return Outcome(None)

    return Contender(SCAN, run)


def duckdb(case: Case, table: pa.Table) -> Contender:
    """DuckDB at one thread over the Arrow table, to an Arrow table."""
    import duckdb as database

    connection = database.connect()
    connection.sql("SET threads = 1")
    connection.sql("SET preserve_insertion_order = false")
    connection.register("events", table)
    sql = cumulative_sql(case) if case.window is None else windowed_sql(case.window)
    return Contender(DUCKDB, _timed(lambda: connection.sql(sql).to_arrow_table()))


def _timed(answer: Callable[[], pa.Table]) -> Callable[[], Outcome]:
    def run() -> Outcome:
        wall, cpu = time.perf_counter(), time.process_time()
        rows = answer()
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        return Outcome(total(rows), {"rows": rows.num_rows}, seconds)

    return run


def cumulative_sql(case: Case) -> str:
    """The counts of a sequence without a window, per group if there is one: cumulative sums of cumulative sums."""
    order = f"({f'PARTITION BY {case.group_by} ' if case.group_by else ''}ORDER BY ts ROWS UNBOUNDED PRECEDING)"
    grouped = f"{case.group_by}, " if case.group_by else ""
    sql, previous = "events", "1"
    for place in range(1, case.length + 1):
        step = f"CAST(sum(CASE WHEN type = 'E{place}' THEN {previous} ELSE 0 END) OVER {order} AS BIGINT) AS n{place}"
        kept = f"WHERE type IN ({', '.join(repr(f'E{i}') for i in range(1, case.length + 1))})" if place == 1 else ""
        sql = f"(SELECT {grouped}ts, type, {f'{previous}, ' if place > 1 else ''}{step} FROM {sql} {kept})"
        previous = f"n{place}"
    return f"SELECT {grouped}ts, {previous} AS count FROM {sql} WHERE type = 'E{case.length}'"


def windowed_sql(window: int) -> str:
    """The counts of a sequence of two in a window: live starts times triggers so far, less those from before each start."""
    triggers = (
        "SELECT ts, type, sum(CASE WHEN type = 'E2' THEN 1 ELSE 0 END) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) AS seen"
    )
    live = (
        "SELECT ts, type, seen, sum(CASE WHEN type = 'E1' THEN 1 ELSE 0 END) OVER live AS starts, "
        "sum(CASE WHEN type = 'E1' THEN seen ELSE 0 END) OVER live AS before "
        f"FROM ({triggers} FROM events WHERE type IN ('E1', 'E2')) "
        f"WINDOW live AS (ORDER BY ts RANGE BETWEEN {window - 1} PRECEDING AND CURRENT ROW)"
    )
    return f"SELECT ts, CAST(seen * starts - before AS BIGINT) AS count FROM ({live}) WHERE type = 'E2'"
