"""Workloads on Spark: the embedded answer with the same ids, lazily."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import BindingError
from support.spark import frame_of
from support.spark_queries import in_order

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
QUERIES = {
    "after": "PATTERN SEQ(Pair p, C c) WHERE [id] AND p.x > 0 WITHIN 1 hour",
    "pair": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10 minutes RETURN a.id AS id, a.x / 2 AS x, b.ts AS `odd name` INTO Pair",
    "each": "PATTERN SEQ(After+ a[], C c) WHERE [id] WITHIN 15 minutes RETURN a.LEN AS n, a[].since AS since",
    "again": "PATTERN SEQ(Pair p, B b) WHERE [id] WITHIN 1 hour RETURN p.id AS id, p.`odd name` AS since INTO After",
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rows = 60
    return pa.table(
        {
            "ts": pa.array([START + dt.timedelta(minutes=minute) for minute in range(rows)], pa.timestamp("us", "UTC")),
            "type": ["ABCB"[row * 7 % 4] for row in range(rows)],
            "id": pa.array([row * 5 % 3 for row in range(rows)], pa.int32()),
            "x": list(range(rows)),
        }
    )


@pytest.fixture(scope="module")
def frame(spark: Any, table: pa.Table) -> Any:
    return frame_of(spark, table).repartition(3).cache()


@pytest.mark.parametrize("declared", [None, {"A": ["id", "x"], "B": ["id", "x"], "C": ["id"]}], ids=["undeclared", "declared"])
def test_spark_and_embedded_agree(frame: Any, table: pa.Table, declared: Any) -> None:
    work = kleene.workload(QUERIES)
    wanted = work.match(table, schema=declared, **ROLES)
    found = work.match(frame, schema=declared, **ROLES)
    assert list(found) == list(QUERIES)
    for name in QUERIES:
        assert wanted[name].num_rows > 0, "a query without matches compares little"
        assert in_order(found[name].toArrow().to_pylist()) == in_order(wanted[name].to_pylist())


def test_nothing_is_computed_before_it_is_asked_for(spark: Any, table: pa.Table) -> None:
    failing = frame_of(spark, table).repartition(2).selectExpr("ts", "type", "id", "x", "raise_error(type) AS y")
    found = kleene.workload(QUERIES).match(failing, **ROLES)
    assert found["pair"].columns[-3:] == ["id", "x", "odd name"]
    plans = kleene.workload(QUERIES).explain(failing, **ROLES)
    assert plans["after"].plan.columns == ("ts", "type", "id", "x", "y", "odd name")


def test_types_that_are_numbers(spark: Any) -> None:
    table = pa.table({"ts": [1, 2, 3], "type": [1, 2, 3], "id": [7, 7, 7]})
    work = kleene.workload(
        {"pair": "PATTERN SEQ(`1` a, `2` b) RETURN a.id AS id INTO `12`", "late": "PATTERN SEQ(`12` p, `3` c)"}
    )
    found = work.match(frame_of(spark, table), **ROLES)["late"].toArrow()
    assert found.to_pylist() == work.match(table, **ROLES)["late"].to_pylist()


def test_compressed_and_bad_rows(frame: Any, table: pa.Table) -> None:
    work = kleene.workload({"pair": QUERIES["pair"], "runs": "PATTERN SEQ(Pair+ p[], C c) WHERE [id] WITHIN 20 minutes"})
    wanted = work.match(table, output="compressed", **ROLES)
    runs = work.run(frame, output="compressed", bad_rows="quarantine", **ROLES)
    assert kleene.count(runs["runs"].matches) == kleene.count(wanted["runs"]) > 0
    assert runs["runs"].bad_rows.count() == 0


def test_columns_that_do_not_fit(frame: Any) -> None:
    """By itself Spark would make both of them text."""
    queries = {"pair": "PATTERN A a RETURN a.type AS x INTO Pair", "late": "PATTERN Pair p"}
    with pytest.raises(BindingError, match=r"query 'late': .* have 'x' as string, others have it as int64"):
        kleene.workload(queries).match(frame, **ROLES)
