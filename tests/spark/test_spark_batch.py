"""Spark batch: the embedded answer with the same ids, computed lazily, with little data shuffled, and errors one can read."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.common.errors import BindingError
from support import spark_queries
from support.spark import frame_of
from support.spark_queries import QUERIES, embedded, in_order, on_spark, shown

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
KEYED = "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return spark_queries.events()


@pytest.fixture(scope="module")
def frame(spark: Any, table: pa.Table) -> Any:
    return frame_of(spark, table).repartition(3).cache()


@pytest.fixture
def zone(spark: Any) -> Iterator[Any]:
    """Sets the session's time zone for a test."""
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda name: spark.conf.set("spark.sql.session.timeZone", name)
    spark.conf.set("spark.sql.session.timeZone", before)


def physical_plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def both(spark: Any, query: str, table: pa.Table, **options: Any) -> list[dict[str, Any]]:
    """The matches, after asserting that Spark and embedded agree."""
    parsed = kleene.query(query)
    wanted = in_order(parsed.match(table, **{**ROLES, **options}).to_pylist())
    found = in_order(parsed.match(frame_of(spark, table), **{**ROLES, **options}).toArrow().to_pylist())
    assert found == wanted
    return found


# --- the same answer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_spark_and_embedded_agree(name: str, frame: Any, table: pa.Table) -> None:
    wanted = embedded(name, table)
    assert on_spark(name, frame) == wanted
    assert wanted, "a query without matches compares little"
    assert len({row["match_id"] for row in wanted}) == len(wanted)


@pytest.mark.parametrize("name", ["timestamps", "time arithmetic", "local timestamps", "dates", "keyed"])
@pytest.mark.parametrize("place", ["Europe/Berlin", "Asia/Kathmandu"])
def test_the_sessions_time_zone_changes_nothing(name: str, place: str, frame: Any, table: pa.Table, zone: Any) -> None:
    zone(place)
    assert on_spark(name, frame) == embedded(name, table)


@pytest.mark.parametrize("plan", ["basic", "paper", {"partition": "multi_pais"}, {"construction": "runtime_stack"}], ids=str)
def test_every_plan_gives_the_same_ids(plan: Any, frame: Any, table: pa.Table) -> None:
    query, options = QUERIES["composite key"]
    found = kleene.query(query).match(frame, **options, plan=plan).toArrow()
    assert in_order(found.to_pylist()) == embedded("composite key", table)


def test_the_output_schema_is_that_of_embedded(frame: Any, table: pa.Table) -> None:
    for query, options in (QUERIES["keyed"], QUERIES["returns"]):
        parsed = kleene.query(query)
        lazily = parsed.match(frame, **options).schema
        assert lazily.names == parsed.match(table, **options).column_names
        assert parsed.match(frame, **options).toArrow().num_rows > 0


@pytest.mark.parametrize("query", [KEYED, "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT AS n WITHIN 10"])
def test_matches_with_some_columns(query: str, frame: Any, table: pa.Table) -> None:
    parsed = kleene.query(query)
    some = parsed.match(table, **ROLES).column_names[:0:-1]
    found = parsed.match(frame, **ROLES, columns=some)
    assert found.columns == some
    assert shown(found.toArrow()) == shown(parsed.match(table, **ROLES, columns=some))
    with pytest.raises(BindingError, match="no column 'z'"):
        parsed.match(frame, **ROLES, columns="z")


def test_many_keys(spark: Any) -> None:
    count, keys = 300_000, 100_000
    rng = np.random.default_rng(3)
    events = pa.table(
        {
            "ts": np.sort(rng.integers(0, count, count)),
            "type": pa.array(np.array(["A", "B", "C"])[rng.integers(0, 3, count)]),
            "k": rng.integers(0, keys, count) * 7_919,
            "x": rng.integers(0, 5, count),
        }
    )
    query = kleene.query(
        f"PATTERN SEQ(A a, !(C c), B b) WHERE [k] AND a.x <= b.x WITHIN {count // 2} RETURN a.k AS k, b.ts AS t"
    )
    wanted = query.match(events, **ROLES)
    found = query.match(spark.createDataFrame(events).repartition(4), **ROLES).toArrow()
    assert wanted.num_rows > 10_000
    assert found.sort_by("match_id").to_pydict() == wanted.sort_by("match_id").to_pydict()


def test_rows_of_one_time_in_many_input_partitions(spark: Any) -> None:
    """Ties and repeated rows: ids do not depend on where Spark reads a row first."""
    events = pa.table({"ts": [1] * 6 + [2] * 4, "type": ["A"] * 6 + ["B"] * 4, "k": [1, 1, 1, 2, 2, 2, 1, 1, 2, 2]})
    ids = None
    for parts in (1, 3):
        shuffled = spark.createDataFrame(events).repartition(parts)
        found = kleene.query(KEYED).match(shuffled, **ROLES).toArrow().column("match_id").to_pylist()
        assert len(set(found)) == len(found) == 12
        assert ids is None or set(found) == ids
        ids = set(found)
    assert ids == set(kleene.query(KEYED).match(events, **ROLES).column("match_id").to_pylist())


# --- odd input --------------------------------------------------------------------------------------------------------


def test_odd_column_names(spark: Any) -> None:
    names = ["a.b", "c d", "e`f", "größe", "match_id", "query", "SELECT"]
    events = pa.table(
        {"t.s": [1, 2, 3], "ty`pe": ["A", "B", "B"], **{name: [number, number, 9] for number, name in enumerate(names)}}
    )
    query = "PATTERN SEQ(A a, B b) WHERE [`a.b`] AND [`c d`] AND a.`e``f` = b.`e``f` AND a.größe < 5"
    assert len(both(spark, query, events, time="t.s", type="ty`pe")) == 1
    assert len(both(spark, f"{query} RETURN a.`a.b` AS `x.y`, b.`e``f` AS `p``q`", events, time="t.s", type="ty`pe")) == 1


def test_empty_frames(spark: Any, frame: Any) -> None:
    for name in ("keyed", "without a key", "returns", "negated end"):
        query, options = QUERIES[name]
        run = kleene.query(query).run(frame.limit(0), **options)
        assert run.matches.collect() == []
        assert run.bad_rows.collect() == []


def test_a_frame_without_rows_of_the_pattern(spark: Any) -> None:
    assert both(spark, KEYED, pa.table({"ts": [1, 2], "type": ["X", "Y"], "k": [1, 1]})) == []


def test_unknown_names_fail_at_once(frame: Any) -> None:
    with pytest.raises(BindingError, match="did you mean 'type'"):
        kleene.query(KEYED).match(frame, time="ts", type="typ")
    with pytest.raises(BindingError, match="unknown attribute 'kk'"):
        kleene.query("PATTERN SEQ(A a, B b) WHERE [kk]").match(frame, **ROLES)


def test_a_column_may_not_occur_twice(spark: Any) -> None:
    from pyspark.sql import functions as f

    twice = spark.createDataFrame([(1, "A", 1)], "ts long, type string, k long").select("*", f.lit(2).alias("k"))
    with pytest.raises(BindingError, match="column 'k' occurs more than once"):
        kleene.query(KEYED).match(twice, **ROLES)


BAD = pa.table(
    {
        "ts": pa.array([1, 2, None, 4, 5, 6], pa.int64()),
        "type": ["A", "B", "B", None, "Z", "B"],
        "k": pa.array([1, None, 1, 1, None, 1], pa.int64()),
    }
)


@pytest.mark.parametrize("schema", [None, {"A": ["k"], "B": ["k"]}], ids=["open", "declared"])
def test_bad_rows(schema: Any, spark: Any) -> None:
    frame, query = spark.createDataFrame(BAD), kleene.query(KEYED)
    options = {**ROLES, "schema": schema}
    with pytest.warns(UserWarning, match="quarantined"):
        aside = query.run(BAD, **options, bad_rows="quarantine")
    run = query.run(frame, **options, bad_rows="quarantine")
    assert in_order(run.matches.toArrow().to_pylist()) == in_order(aside.matches.to_pylist())
    assert run.matches.count() == 1
    by_row = {(row["ts"], row["type"], row["k"]): row["reason"] for row in aside.bad_rows.to_pylist()}
    assert {(row.ts, row.type, row.k): row.reason for row in run.bad_rows.collect()} == by_row
    assert len(by_row) == (3 if schema is None else 4)
    assert query.match(frame, **options, bad_rows="drop").count() == 1


def test_errors_of_workers_can_be_read(spark: Any) -> None:
    with pytest.raises(
        Exception, match=r"key attribute 'k' is NULL|type column 'type' is NULL|time column 'ts' is NULL"
    ) as raised:
        kleene.query(KEYED).match(spark.createDataFrame(BAD), **ROLES).collect()
    said = str(raised.value)
    assert "kleene.common.errors.DataError" in said
    assert "bad_rows='quarantine'" in said
    overflow = pa.table({"ts": [1, 2], "type": ["A", "B"], "k": [1, 1], "x": [1 << 62, 1 << 62]})
    with pytest.raises(Exception, match="integer overflow"):
        kleene.query("PATTERN SEQ(A a, B b) WHERE [k] AND a.x + b.x > 0").match(
            spark.createDataFrame(overflow), **ROLES
        ).collect()


# --- laziness, push-down, and what is left alone ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def parquet(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(spark_queries.events(500), path)
    return spark.read.parquet(str(path))


def test_nothing_runs_before_an_action(spark: Any, parquet: Any) -> None:
    context = spark.sparkContext
    context.setJobGroup("lazy", "kleene")
    try:
        run = kleene.query(QUERIES["predicates"][0]).run(parquet, **ROLES, bad_rows="quarantine")
        assert list(context.statusTracker().getJobIdsForGroup("lazy")) == []
        assert run.matches.count() > 0
        assert list(context.statusTracker().getJobIdsForGroup("lazy")) != []
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


def test_types_and_predicates_reach_the_scan(parquet: Any) -> None:
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [k] AND a.x > 2 AND b.s = 'ab' WITHIN 20 RETURN a.k AS k, b.ts AS t")
    plan = physical_plan(query.match(parquet, **ROLES, scan="spark"))
    pushed = next(line for line in plan.split("\n") if "PushedFilters" in line)
    scanned = pushed.split("PushedFilters:", 1)[1]
    for fragment in (
        "EqualTo(type,A)",
        "EqualTo(type,B)",
        "GreaterThan(x,2)",
        "EqualTo(s,ab)",
        "IsNull(type)",
        "IsNull(ts)",
        "IsNull(k)",
    ):
        assert fragment in scanned, scanned
    read = plan.split("ReadSchema: struct<", 1)[1].split(">", 1)[0]
    assert {item.split(":")[0] for item in read.split(",")} == {"ts", "type", "k", "x", "s"}


def test_only_needed_columns_are_shuffled(parquet: Any) -> None:
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 RETURN a.k AS k")
    plan = physical_plan(query.match(parquet, **ROLES, scan="spark"))
    assert plan.count("Exchange") == 1
    assert "Exchange hashpartitioning(k#" in plan
    assert plan.index("Sort [ts#") < plan.index("Exchange hashpartitioning(k#") < plan.index("Filter")
    for name in ("list", "struct", "s#", "y#", "number", "day"):
        assert f" {name}" not in plan.split("ReadSchema")[0].split("FileScan", 1)[1]


def test_types_that_only_keep_events_apart_travel_as_one_number(spark: Any) -> None:
    types = ["A", "other", "B", "A", "B", "x", "A", None, "B", "other", "A", "y", "B", "A"]
    table = pa.table({"ts": range(len(types)), "type": types, "k": [1] * len(types)})
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE partition_contiguity(a, b) { [k] } RETURN a.ts AS first, b.ts AS last")
    matches = query.match(frame_of(spark, table), time="ts", type="type", bad_rows="drop")
    assert "type: string" not in physical_plan(matches).split("PythonMapInArrow")[0]
    found = matches.toArrow()
    assert sorted(zip(found["first"].to_pylist(), found["last"].to_pylist(), strict=True)) == [(3, 4), (6, 8)]
    assert in_order(found.to_pylist()) == in_order(query.match(table, time="ts", type="type", bad_rows="drop").to_pylist())


def test_a_query_without_a_key_runs_in_one_task(parquet: Any) -> None:
    matches = kleene.query("PATTERN SEQ(A a, B b) WITHIN 3").match(parquet, **ROLES, scan="spark")
    assert "Exchange SinglePartition" in physical_plan(matches) or "RoundRobinPartitioning(1)" in physical_plan(matches)
    assert matches.rdd.getNumPartitions() == 1


def test_a_pushed_predicate_removes_no_match(spark: Any) -> None:
    """Where Spark and the engine could differ: NaN, NULL, -0.0, strings beyond ASCII, borders of types."""
    values = [float("nan"), -0.0, 0.0, 1.5, None, float("inf")]
    texts = ["", "a", "B", "é", None, "\U0001f600"]
    events = pa.table(
        {
            "ts": range(12),
            "type": ["A", "B"] * 6,
            "y": values * 2,
            "s": texts * 2,
            "i": pa.array([1, -128, 127, None] * 3, pa.int8()),
        }
    )
    for condition in (
        "a.y > 1", "a.y <= 0", "a.y = 0", "a.y != 0", "NOT a.y > 1", "a.y IS NULL", "NOT (a.y IS NULL)", "a.y IN (0, 1.5)",
        "a.y BETWEEN 0 AND 2", "a.s > 'a'", "a.s >= 'é'", "a.s IN ('', 'é')", "NOT a.s = 'a'", "a.i < 1000", "a.i = 127",
        "a.i > -1.5", "a.y > 1 OR a.s = 'a'", "NOT (a.y > 1 OR a.s = 'a')", "a.y = 1 AND a.s LIKE '%a%'",
        "a.s LIKE 'a%' OR a.i > 5",
    ):  # fmt: skip
        both(spark, f"PATTERN SEQ(A a, B b) WHERE {condition}", events)


def test_the_session_is_left_as_it_was(spark: Any, frame: Any) -> None:
    def settings() -> dict[str, str]:
        return {row.key: row.value for row in spark.sql("SET").collect()}

    before, interpreter, environment = settings(), spark.sparkContext.pythonExec, dict(os.environ)
    kleene.query(KEYED).match(frame, **ROLES).collect()
    assert settings() == before
    assert spark.sparkContext.pythonExec == interpreter
    assert dict(os.environ) == environment


WORKER = """
    import os, sys
    from pyspark.sql import SparkSession
    import kleene

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    frame = session.sql("SELECT * FROM VALUES (1L, 'A'), (2L, 'B') AS events(ts, type)")
    (row,) = kleene.query("PATTERN SEQ(A a, B b)").match(frame, time="ts", type="type").collect()
    assert row.a.ts == 1 and row.b.ts == 2
    print("found", row.match_id)
"""


def test_workers_use_this_interpreter_whatever_is_on_the_path(tmp_path: Path) -> None:
    for name in ("python3", "python"):
        broken = tmp_path / name
        broken.write_text("#!/bin/sh\necho 'the wrong python' >&2\nexit 1\n")
        broken.chmod(0o755)
    dropped = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    command = [sys.executable, "-c", textwrap.dedent(WORKER)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = kleene.query("PATTERN SEQ(A a, B b)").match(pa.table({"ts": [1, 2], "type": ["A", "B"]}), **ROLES)
    assert f"found {expected.column('match_id')[0].as_py()}" in done.stdout


def test_timestamps_come_back_as_the_session_shows_them(spark: Any, zone: Any) -> None:
    zone("America/New_York")
    moment = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    events = pa.table({"ts": pa.array([moment, moment + dt.timedelta(hours=1)], pa.timestamp("us", "UTC")), "type": ["A", "B"]})
    matches = kleene.query("PATTERN SEQ(A a, B b) WITHIN 2 hours").match(spark.createDataFrame(events), **ROLES)
    shown = matches.selectExpr("CAST(match_start AS STRING) AS first", "CAST(b.ts AS STRING) AS last").collect()
    assert [tuple(row) for row in shown] == [("2026-01-01 07:00:00", "2026-01-01 08:00:00")]
