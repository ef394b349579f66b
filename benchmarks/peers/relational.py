"""The workloads as joins and window functions over tables in memory: DuckDB and Polars, on one thread each.

Sequences under any match are time-bucketed self-joins (`benchmarks.sase.joins`); where each event takes the next that fits they
are ASOF joins. No event of a type lies between two others if as many of that type came before either. A run of rising prices
ends at the next row that does not rise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from benchmarks.harness import Contender
from benchmarks.peers.contenders import Make, timed
from benchmarks.peers.streams import TYPES, Workload
from benchmarks.sase.joins import FORMULATIONS, duckdb_sql

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read when polars is imported

RECURSIVE = "what a list takes depends on what it has taken, which joins and window functions cannot say"
NOT_RELATIONAL = {"lists": "all lists of any length are no join of a fixed number of tables", "rising": RECURSIVE}
"""By workload, why it has no formulation."""


def next_sql(workload: Workload) -> str:
    """ASOF joins from each first event on."""
    sources = ", ".join(f"e{i} AS (SELECT ts, attr1 FROM events WHERE type = 'E{i}')" for i in (1, 2, 3))
    return (
        f"WITH {sources} SELECT e1.ts AS t1, e3.ts AS t3 FROM e1 "
        "ASOF JOIN e2 ON e1.attr1 = e2.attr1 AND e1.ts < e2.ts ASOF JOIN e3 ON e1.attr1 = e3.attr1 AND e2.ts < e3.ts "
        f"WHERE e3.ts < e1.ts + {workload.window}"
    )


def rare_sql(workload: Workload) -> str:
    """From the rare event down, by buckets of time."""
    W = workload.window
    source = "e{i} AS (SELECT ts, x, {bucket} AS g FROM events WHERE type = 'E{i}')"
    both = f"unnest([ts // {W}, ts // {W} + 1])"
    sources = ", ".join(source.format(i=i, bucket=f"ts // {W}" if i == 3 else both) for i in (1, 2, 3))
    return (
        f"WITH {sources} SELECT e1.ts AS t1, e3.ts AS t3 FROM e3 "
        f"JOIN e2 ON e2.g = e3.g AND e2.ts < e3.ts AND e2.ts > e3.ts - {W} AND e2.x < e3.x "
        f"JOIN e1 ON e1.g = e3.g AND e1.ts < e2.ts AND e1.ts > e3.ts - {W} AND e1.x < e2.x"
    )


def negation_sql(workload: Workload) -> str:
    """A join of two, with as many of the third before either."""
    W = workload.window
    before = "sum(CASE WHEN type = 'E2' THEN 1 ELSE 0 END) OVER (PARTITION BY attr1 ORDER BY ts) AS before"
    return (
        f"WITH counted AS (SELECT ts, type, attr1, {before} FROM events WHERE type IN ('E1', 'E2', 'E3')), "
        f"a AS (SELECT ts, attr1, before, unnest([ts // {W}, ts // {W} + 1]) AS g FROM counted WHERE type = 'E1'), "
        f"c AS (SELECT ts, attr1, before, ts // {W} AS g FROM counted WHERE type = 'E3') "
        "SELECT a.ts AS t1, c.ts AS t3 FROM c JOIN a ON a.attr1 = c.attr1 AND a.g = c.g AND a.before = c.before "
        f"AND a.ts < c.ts AND a.ts > c.ts - {W}"
    )


def contiguity_sql(workload: Workload) -> str:
    """The next row, of the key if there is one, that does not rise."""
    order = f"{'PARTITION BY attr1 ' if workload.divided else ''}ORDER BY ts"
    return (
        f"WITH steps AS (SELECT ts, attr1, x, x <= lag(x) OVER ({order}) AS falls FROM events), "
        "ends AS (SELECT ts, x, min(CASE WHEN falls THEN ts END) OVER "
        f"({order} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS t3 FROM steps) "
        f"SELECT ts AS t1, t3 FROM ends WHERE x % 500 = 0 AND t3 < ts + {workload.window}"
    )


def _typed(sql: str, kinds: Sequence[int]) -> str:
    """The join of E1, E2 and E3 over other types."""
    for place, kind in enumerate(kinds, 1):
        sql = sql.replace(f"'E{place}'", f"'<{kind + 1}>'")
    return sql.replace("'<", "'E").replace(">'", "'")


def joined_sql(workload: Workload, formulation: str) -> str:
    """One join for each pattern."""
    one = duckdb_sql(formulation, 3, workload.window, returned=3)
    return " UNION ALL ".join(f"SELECT t1, t3 FROM ({_typed(one, kinds)})" for kinds in workload.patterns)


def counting_sql(workload: Workload) -> str:  # noqa: ARG001 - there is no window
    """Sums of cumulative sums: each event adds the sequences that it ends, as many as of those it follows came before."""
    order = "OVER (PARTITION BY attr1 ORDER BY ts ROWS UNBOUNDED PRECEDING)"
    ones = f"SELECT *, sum(CASE WHEN type = 'E1' THEN 1 ELSE 0 END) {order} AS n1 FROM events WHERE type IN ('E1', 'E2', 'E3')"
    twos = f"SELECT *, sum(CASE WHEN type = 'E2' THEN n1 ELSE 0 END) {order} AS n2 FROM ({ones}) AS ones"
    return f"SELECT attr1, CAST(sum(n2) AS BIGINT) AS count FROM ({twos}) AS twos WHERE type = 'E3' GROUP BY attr1"


SQL: dict[str, Callable[[Workload], str]] = {
    "next": next_sql,
    "rare": rare_sql,
    "contiguity": contiguity_sql,
    "strict": contiguity_sql,
    "negation": negation_sql,
    "counting": counting_sql,
}
JOINED = ("keyed", "many")
"""Workloads that are joins of three by key and bucket."""


def formulations(workload: Workload) -> dict[str, tuple[str, bool]]:
    """By name the SQL for DuckDB, and whether joins keep the order in which they are written."""
    if workload.name in JOINED:
        return {
            f"duckdb: {name}, {'as written' if kept else 'reordered'}": (joined_sql(workload, name), kept)
            for name in FORMULATIONS
            for kept in (True, False)
        }
    if workload.name not in SQL:
        return {}
    sql = SQL[workload.name](workload)
    joins = workload.name in ("rare", "negation")
    return {f"duckdb{': as written' if kept else ''}": (sql, kept) for kept in ((True, False) if joins else (False,))}


def duckdb(name: str, workload: Workload, sql: str, table: pa.Table, *, as_written: bool) -> Contender:
    """DuckDB over the Arrow table, to an Arrow table."""
    import duckdb as database

    connection = database.connect()
    connection.sql("SET threads = 1")
    connection.sql("SET preserve_insertion_order = false")
    if as_written:
        connection.sql("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    connection.register("events", table)
    return timed(name, lambda: [connection.sql(sql).to_arrow_table()], counted=workload.counted)


def _of(frame: Any, place: int, *columns: str) -> Any:
    import polars as pl

    return frame.filter(pl.col("type") == f"E{place}").select(pl.col("ts").alias(f"t{place}"), *columns)


def _bucketed(frame: Any, kinds: Sequence[int], W: int, *columns: str) -> Any:
    """The join of three by key and bucket, from the last down."""
    import polars as pl

    first, middle, last = (_of(frame, kind + 1, "attr1").rename({f"t{kind + 1}": f"t{n}"}) for n, kind in enumerate(kinds, 1))
    joined = last.with_columns(g=pl.col("t3") // W)
    for name, part in (("t2", middle), ("t1", first)):
        both = pl.concat([part.with_columns(g=pl.col(name) // W + more) for more in (0, 1)])
        later = "t3" if name == "t2" else "t2"
        joined = joined.join(both, on=["attr1", "g"]).filter(pl.col(name) < pl.col(later), pl.col(name) > pl.col("t3") - W)
    return joined.select(*columns)


def _polars_next(frame: Any, workload: Workload) -> Any:
    import polars as pl

    first, middle, last = (_of(frame, place, "attr1") for place in (1, 2, 3))
    options = {"by": "attr1", "strategy": "forward", "allow_exact_matches": False, "coalesce": False, "check_sortedness": False}
    found = first.join_asof(middle, left_on="t1", right_on="t2", **options).drop_nulls("t2").sort("t2")
    found = found.join_asof(last, left_on="t2", right_on="t3", **options)
    return found.filter(pl.col("t3") < pl.col("t1") + workload.window).select("t1", "t3")


def _polars_rare(frame: Any, workload: Workload) -> Any:
    import polars as pl

    W = workload.window
    first, middle, last = (_of(frame, place, pl.col("x").alias(f"x{place}")) for place in (1, 2, 3))
    pairs = last.join_where(middle, pl.col("t2") < pl.col("t3"), pl.col("t2") > pl.col("t3") - W, pl.col("x2") < pl.col("x3"))
    found = pairs.join_where(first, pl.col("t1") < pl.col("t2"), pl.col("t1") > pl.col("t3") - W, pl.col("x1") < pl.col("x2"))
    return found.select("t1", "t3")


def _polars_negation(frame: Any, workload: Workload) -> Any:
    import polars as pl

    W = workload.window
    kept = frame.filter(pl.col("type").is_in(["E1", "E2", "E3"]))
    counted = kept.with_columns(before=(pl.col("type") == "E2").cum_sum().over("attr1"))
    first, last = (_of(counted, place, "attr1", "before") for place in (1, 3))
    both = pl.concat([first.with_columns(g=pl.col("t1") // W + more) for more in (0, 1)])
    joined = last.with_columns(g=pl.col("t3") // W).join(both, on=["attr1", "g", "before"])
    return joined.filter(pl.col("t1") < pl.col("t3"), pl.col("t1") > pl.col("t3") - W).select("t1", "t3")


def _polars_contiguity(frame: Any, workload: Workload) -> Any:
    import polars as pl

    falls, ends = pl.when(pl.col("x") <= pl.col("x").shift()).then(pl.col("ts")), pl.col("fall").shift(-1).backward_fill()
    if workload.divided:
        falls, ends = falls.over("attr1"), ends.over("attr1")
    found = frame.with_columns(fall=falls).with_columns(t3=ends)
    return found.filter(pl.col("x") % 500 == 0, pl.col("t3") < pl.col("ts") + workload.window).select(
        pl.col("ts").alias("t1"), "t3"
    )


def _polars_many(frame: Any, workload: Workload) -> Any:
    import polars as pl

    return pl.concat([_bucketed(frame, kinds, workload.window, "t1", "t3") for kinds in workload.patterns])


def _polars_counting(frame: Any, workload: Workload) -> Any:  # noqa: ARG001 - there is no window
    import polars as pl

    found = frame.filter(pl.col("type").is_in(["E1", "E2", "E3"])).with_columns(n=pl.lit(1, pl.Int64))
    for place in (1, 2, 3):
        counted = pl.when(pl.col("type") == f"E{place}").then(pl.col("n")).otherwise(0)
        found = found.with_columns(n=counted.cum_sum().over("attr1"))
    return found.group_by("attr1").agg(pl.col("n").max().alias("count"))


POLARS: dict[str, Callable[[Any, Workload], Any]] = {
    "keyed": lambda frame, workload: _bucketed(frame, (0, 1, 2), workload.window, "t1", "t3"),
    "next": _polars_next,
    "rare": _polars_rare,
    "contiguity": _polars_contiguity,
    "strict": _polars_contiguity,
    "negation": _polars_negation,
    "many": _polars_many,
    "counting": _polars_counting,
}


def polars(workload: Workload, table: pa.Table) -> Contender:
    """Polars over a frame in memory, to an Arrow table."""
    import polars as pl

    types = pl.Enum([f"E{place}" for place in range(1, TYPES + 1)])  # numbers, as Kleene and DuckDB have them
    frame = pl.from_arrow(table).with_columns(pl.col("type").cast(types)).lazy()
    plan = POLARS[workload.name](frame, workload)
    return timed("polars", lambda: [plan.collect().to_arrow()], counted=workload.counted)


def makers(workload: Workload, table: pa.Table) -> dict[str, Make]:
    """DuckDB's formulations and Polars', over the first events of a table."""
    found: dict[str, Make] = {
        name: lambda events, name=name, sql=sql, kept=kept: duckdb(name, workload, sql, table.slice(0, events), as_written=kept)
        for name, (sql, kept) in formulations(workload).items()
    }
    if workload.name in POLARS:
        found["polars"] = lambda events: polars(workload, table.slice(0, events))
    return found
