"""The same sequences as SQL: time-bucketed self-joins for DuckDB and Spark.

An event of bucket g = ts div W can only follow events of buckets g and g - 1, so all components but the last stand in their own
bucket and in the next, and the joins are equalities on key and bucket. Order and window are the remaining conditions.

The joins are written from the last component down, which keeps intermediate results about as small as the matches. DuckDB's
optimizer does not keep that order by itself, and on long sequences the one it picks is up to two orders of magnitude slower; so
DuckDB runs in both orders, and its fastest contender is the baseline: a join at its worst would say nothing about Kleene.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from benchmarks.harness import Contender, Outcome, Point

PACK = 1 << 20
"""Room for the key below the bucket in a packed join key; larger than any V1."""


def _source(i: int, key: str, *columns: str) -> str:
    return f"e{i} AS (SELECT {', '.join(['ts', *columns])}, {key} AS g FROM events WHERE type = 'E{i}')"


def _joins(L: int, W: int, keys: tuple[str, ...]) -> str:
    """The joins from the last component (in its own bucket) down to the first."""
    parts = [f"e{L}"]
    for i in range(L - 1, 0, -1):
        same = [f"d{i}.{key} = e{L}.{key}" for key in keys]
        later = f"e{L}.ts" if i == L - 1 else f"d{i + 1}.ts"
        parts.append(f"JOIN d{i} ON {' AND '.join(same)} AND d{i}.ts < {later} AND d{i}.ts > e{L}.ts - {W}")
    return " ".join(parts)


def _returned(L: int, returned: int) -> str:
    return ", ".join(f"{'e' if i == L else 'd'}{i}.ts AS t{i}" for i in range(1, returned + 1))


def _bucketed(L: int, W: int, tests: int, returned: int, *, doubled: str) -> str:
    attributes = tuple(f"attr{i}" for i in range(1, tests + 1))
    listed = ", ".join(attributes)
    ctes = [_source(i, f"ts // {W}", *attributes) for i in range(1, L + 1)]
    for i in range(1, L):
        if doubled == "union":
            body = f"SELECT ts, {listed}, g FROM e{i} UNION ALL SELECT ts, {listed}, g + 1 FROM e{i}"
        else:
            body = f"SELECT ts, {listed}, unnest([g, g + 1]) AS g FROM e{i}"
        ctes.append(f"d{i} AS ({body})")
    return f"WITH {', '.join(ctes)} SELECT {_returned(L, returned)} FROM {_joins(L, W, (*attributes, 'g'))}"


def _packed(L: int, W: int, tests: int, returned: int) -> str:
    key = f"(ts // {W}) * {PACK} + attr1"
    further = tuple(f"attr{i}" for i in range(2, tests + 1))
    listed = "".join(f", {name}" for name in further)
    ctes = [_source(i, key, *further) for i in range(1, L + 1)]
    ctes += [f"d{i} AS (SELECT ts{listed}, g FROM e{i} UNION ALL SELECT ts{listed}, g + {PACK} FROM e{i})" for i in range(1, L)]
    return f"WITH {', '.join(ctes)} SELECT {_returned(L, returned)} FROM {_joins(L, W, ('g', *further))}"


FORMULATIONS: dict[str, Callable[[int, int, int, int], str]] = {
    "union": lambda L, W, tests, returned: _bucketed(L, W, tests, returned, doubled="union"),
    "unnest": lambda L, W, tests, returned: _bucketed(L, W, tests, returned, doubled="unnest"),
    "packed key": _packed,
}
"""Ways to write the join for DuckDB: (L, W, tests, returned columns) to SQL. None is fastest everywhere."""


def duckdb_sql(formulation: str, L: int, W: int, *, tests: int = 1, returned: int = 1) -> str:
    """The SQL of one formulation over a table `events`."""
    return FORMULATIONS[formulation](L, W, tests, returned)


def duckdb_join(name: str, sql: str, table: pa.Table, *, as_written: bool, count_only: bool = False) -> Contender:
    """DuckDB at one thread over the Arrow table, to an Arrow table or to a count; `as_written` keeps the order of the joins."""
    import duckdb

    connection = duckdb.connect()
    connection.sql("SET threads = 1")
    connection.sql("SET preserve_insertion_order = false")
    if as_written:
        connection.sql("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    connection.register("events", table)

    def run() -> Outcome:
        # `sql` and not `execute`: the latter's result copies all rows once more on the way to Arrow.
        if count_only:
            return Outcome(connection.sql(f"SELECT count(*) FROM ({sql})").fetchall()[0][0])
        return Outcome(connection.sql(sql).to_arrow_table().num_rows)

    return Contender(name, run)


def duckdb_joins(
    table: pa.Table, L: int, W: int, *, tests: int = 1, returned: int = 1, count_only: bool = False, reordered: bool = True
) -> list[Contender]:
    """Every formulation, in the order written and (with `reordered`) in the optimizer's."""
    return [
        duckdb_join(
            f"duckdb: {name}, {'as written' if as_written else 'reordered'}",
            duckdb_sql(name, L, W, tests=tests, returned=returned),
            table,
            as_written=as_written,
            count_only=count_only,
        )
        for name in FORMULATIONS
        for as_written in ((True, False) if reordered else (True,))
    ]


def against_fastest_join(point: Point) -> Point:
    """The point with DuckDB's fastest contender, by CPU, as the baseline."""
    joins = [item for item in point.measurements if item.name.startswith("duckdb")]
    return replace(point, baseline=min(joins, key=lambda item: item.seconds("cpu")).name)


def spark_join(frame: Any, L: int, W: int, *, returned: int = 1) -> Any:
    """The self-join as a Spark DataFrame over columns ts, type and attr1."""
    from pyspark.sql import functions as f

    def component(i: int) -> Any:
        bucket = f.expr(f"ts div {W}")
        buckets = bucket if i == L else f.explode(f.array(bucket, bucket + 1))
        return frame.where(f.col("type") == f"E{i}").select(f.col("ts").alias(f"t{i}"), "attr1", buckets.alias("g"))

    joined = component(L)
    for i in range(L - 1, 0, -1):
        joined = joined.join(component(i), ["attr1", "g"]).where(f"t{i} < t{i + 1} AND t{i} > t{L} - {W}")
    return joined.select(*(f"t{i}" for i in range(1, returned + 1)))
