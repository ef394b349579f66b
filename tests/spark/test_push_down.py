"""Types and rows that no query needs never leave the scan of a Parquet file, whatever way a query or a workload is answered."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.plan.distribution import slicing
from kleene.runtime.spark.slices import times as spark_times
from support.spark_queries import in_order

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
TYPES = string.ascii_uppercase
OF_TYPE = 200
GROUP = 50
"""Rows of one row group."""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Sorted by type, and by x within each type, so that a row group has one type and a small range of x."""
    rows = OF_TYPE * len(TYPES)
    number = np.arange(rows)
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "ts": rng.permutation(rows),
            "type": np.repeat(list(TYPES), OF_TYPE),
            "k": rng.integers(0, 20, rows),
            "k2": rng.integers(0, 3, rows),
            "x": number % OF_TYPE,
            "y": rng.random(rows),
            "unread": [f"row {item}" for item in range(rows)],
        }
    )


@pytest.fixture(scope="module")
def parquet(spark: Any, table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(table, path, row_group_size=GROUP)
    return spark.read.parquet(str(path))


@pytest.fixture
def sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is cut into slices however few rows there are."""
    monkeypatch.setattr(spark_times, "SMALL", 0)
    monkeypatch.setattr(spark_times, "SAMPLED", 1.0)
    monkeypatch.setattr(slicing, "FEWEST_ROWS", 50)
    monkeypatch.setattr(slicing, "MOST_ROWS", 100)
    monkeypatch.setattr(slicing, "SLICE_COST", 0)


# --- what Spark did -------------------------------------------------------------------------------------------------------


def nodes(plan: Any) -> Iterator[Any]:
    """The operators of an executed plan, those below adaptive execution and what is cached included."""
    yield plan
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        below = [plan.executedPlan()]
    elif kind.endswith("QueryStageExec"):
        below = [plan.plan()]
    elif kind == "InMemoryTableScanExec":
        below = [plan.relation().cachedPlan()]
    else:
        children = plan.children()
        below = [children.apply(place) for place in range(children.size())]
    for child in below:
        yield from nodes(child)


def scans(frame: Any) -> list[Any]:
    """The scans of files of a DataFrame that has been computed."""
    plan = frame._jdf.queryExecution().executedPlan()
    return [node for node in nodes(plan) if node.getClass().getSimpleName() == "FileSourceScanExec"]


def rows_scanned(frame: Any) -> int:
    return max(int(scan.metrics().apply("numOutputRows").value()) for scan in scans(frame))


def columns_scanned(frame: Any) -> set[str]:
    (read,) = {",".join(scan.requiredSchema().fieldNames()) for scan in scans(frame)}
    return set(read.split(","))


def filters(frame: Any) -> str:
    (pushed,) = {str(scan.metadata().apply("PushedFilters")) for scan in scans(frame)}
    return pushed


# --- single queries -------------------------------------------------------------------------------------------------------

RETURNS = "RETURN a.k AS k, b.ts AS at"

SINGLE = {
    "keyed": f"PATTERN SEQ(C a, F b) WHERE [k] <more> WITHIN 500 {RETURNS}",
    "automaton": f"PATTERN SEQ(C a, F b) WHERE skip_till_next_match(a, b) {{ [k] <more> }} WITHIN 500 {RETURNS}",
    "negation": "PATTERN SEQ(C a, !(F b), C c) WHERE [k] <more> WITHIN 500 RETURN a.k AS k",
    "Kleene": "PATTERN SEQ(C a, F+ b[]) WHERE [k] <more> WITHIN 300 RETURN a.k AS k",
    "counted": "PATTERN SEQ(C a, F b) WHERE [k] <more> WITHIN 500 AGG COUNT AS n GROUP BY k",
    "matched and counted": "PATTERN SEQ(C a, F b) WHERE [k] AND a.ts < b.ts - 5 <more> WITHIN 500 AGG COUNT AS n GROUP BY k",
    "without a key": f"PATTERN SEQ(C a, F b) WHERE a.k < b.k <more> WITHIN 50 {RETURNS}",
    "counted without a key": "PATTERN SEQ(C a, F b) WHERE a.k > 1 <more> WITHIN 50 AGG COUNT AS n",
}


def single(name: str, more: str = "") -> kleene.Query:
    """A query with more conditions."""
    more = more.replace("b.x", "b[].x") if name == "Kleene" else more
    return kleene.query(SINGLE[name].replace("<more>", more))


def same_rows(found: pa.Table, wanted: pa.Table) -> bool:
    if "match_id" in found.schema.names:
        return in_order(found.to_pylist()) == in_order(wanted.to_pylist())
    return sorted(map(str, found.to_pylist())) == sorted(map(str, wanted.to_pylist()))


@pytest.mark.parametrize("name", SINGLE)
def test_other_types_and_columns_are_not_read(name: str, parquet: Any, table: pa.Table) -> None:
    query = single(name)
    matches = query.match(parquet, **ROLES, scan="spark")
    found = matches.toArrow()
    assert found.num_rows > 0
    assert same_rows(found, query.match(table, **ROLES))
    assert rows_scanned(matches) == 2 * OF_TYPE
    assert columns_scanned(matches) == {"ts", "type", "k"}
    pushed = filters(matches)
    assert "In(type, [C,F])" in pushed or ("EqualTo(type,C)" in pushed and "EqualTo(type,F)" in pushed)


@pytest.mark.parametrize("name", SINGLE)
def test_row_groups_without_a_row_that_a_condition_allows_are_not_read(name: str, parquet: Any, table: pa.Table) -> None:
    query = single(name, "AND a.x >= 150 AND b.x < 100")
    matches = query.match(parquet, **ROLES, scan="spark")
    assert same_rows(matches.toArrow(), query.match(table, **ROLES))
    wanted = (OF_TYPE if name == "negation" else GROUP) + 2 * GROUP
    assert rows_scanned(matches) == wanted
    assert columns_scanned(matches) == {"ts", "type", "k", "x"}


@pytest.mark.parametrize("name", ["without a key", "counted without a key", "keyed"])
def test_slices_read_no_more(name: str, parquet: Any, table: pa.Table, sliced: None) -> None:
    query = single(name)
    matches = query.match(parquet, **ROLES, scan="spark")
    if name != "keyed":
        assert "slice" in str(matches._jdf.queryExecution().optimizedPlan())
    assert same_rows(matches.toArrow(), query.match(table, **ROLES))
    assert rows_scanned(matches) == 2 * OF_TYPE
    assert columns_scanned(matches) == {"ts", "type", "k"}


def test_many_types_are_told_apart_one_by_one(parquet: Any, table: pa.Table) -> None:
    """By itself Spark pushes a long IN as the range from its least to its greatest value."""
    chosen = TYPES[::2]
    query = kleene.query(f"PATTERN SEQ(ANY({', '.join(chosen)}) a, Y b) WHERE [k] WITHIN 100 {RETURNS}")
    matches = query.match(parquet, **ROLES, scan="spark")
    assert same_rows(matches.toArrow(), query.match(table, **ROLES))
    assert rows_scanned(matches) == len(chosen) * OF_TYPE


def test_where_all_rows_count_they_are_read(parquet: Any, table: pa.Table) -> None:
    query = kleene.query(f"PATTERN SEQ(C a, F b) WHERE partition_contiguity(a, b) {{ [k] }} {RETURNS}")
    matches = query.match(parquet, **ROLES, scan="spark")
    assert same_rows(matches.toArrow(), query.match(table, **ROLES))
    assert rows_scanned(matches) == len(TYPES) * OF_TYPE
    assert columns_scanned(matches) == {"ts", "type", "k"}


# --- workloads ----------------------------------------------------------------------------------------------------------------

WORKLOAD = {
    "pairs": f"PATTERN SEQ(C a, F b) WHERE [k] WITHIN 500 {RETURNS}",
    "further": f"PATTERN SEQ(C a, F b, H c) WHERE [k] WITHIN 500 {RETURNS}",
    "both": f"PATTERN SEQ(C a, J b) WHERE [k] AND [k2] AND b.x >= 150 WITHIN 500 {RETURNS}",
    "next": f"PATTERN SEQ(C a, J b) WHERE skip_till_next_match(a, b) {{ [k] AND b.x >= 180 }} WITHIN 500 {RETURNS}",
    "counted": "PATTERN SEQ(C a, F b) WHERE [k] WITHIN 500 AGG COUNT AS n GROUP BY k",
}


def test_a_pass_reads_what_one_of_its_queries_needs(parquet: Any, table: pa.Table) -> None:
    work = kleene.workload(WORKLOAD)
    run = work.run(parquet, **ROLES)
    kept = run["pairs"].kept
    assert all(item.kept is kept for item in run.values())
    for name, item in run.items():
        assert same_rows(item.matches.toArrow(), work[name].match(table, **ROLES)), name
    assert rows_scanned(run["pairs"].matches) == 3 * OF_TYPE + GROUP
    assert columns_scanned(run["pairs"].matches) == {"ts", "type", "k", "k2", "x"}
    run["pairs"].unpersist()


def test_passes_read_what_their_own_queries_need(parquet: Any) -> None:
    queries = {
        "k": f"PATTERN SEQ(C a, F b) WHERE [k] WITHIN 500 {RETURNS}",
        "k too": f"PATTERN SEQ(C a, F b) WHERE skip_till_next_match(a, b) {{ [k] }} WITHIN 500 {RETURNS}",
        "k2": "PATTERN SEQ(S a, !(T t), U b) WHERE [k2] WITHIN 20 RETURN a.y AS y",
        "k2 too": "PATTERN SEQ(S a, U b) WHERE [k2] WITHIN 20 RETURN a.k2 AS k",
    }
    run = kleene.workload(queries).run(parquet, **ROLES)
    for item in run.values():
        item.matches.toArrow()
    assert rows_scanned(run["k"].matches) == 2 * OF_TYPE
    assert columns_scanned(run["k"].matches) == {"ts", "type", "k"}
    assert rows_scanned(run["k2"].matches) == 3 * OF_TYPE
    assert columns_scanned(run["k2"].matches) == {"ts", "type", "k2", "y"}
    for item in run.values():
        item.unpersist()


def test_bad_rows_are_read_whatever_their_types_are(spark: Any, table: pa.Table, tmp_path: Path) -> None:
    """A row without a type may be of any; one without a key matters only to queries that name its type."""
    rows = table.to_pylist()
    holes: dict[str, Callable[[dict[str, Any]], bool]] = {
        "type": lambda row: bool(row["type"] == "Q" and row["x"] == 7),
        "k": lambda row: row["type"] in ("C", "Q") and row["x"] == 120,
    }
    for column, concerned in holes.items():
        for row in filter(concerned, rows):
            row[column] = None
    path = tmp_path / "holed.parquet"
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path, row_group_size=GROUP)
    queries = {
        "high": f"PATTERN SEQ(C a, F b) WHERE [k] AND a.x >= 150 WITHIN 500 {RETURNS}",
        "higher": f"PATTERN SEQ(C a, F b) WHERE [k] AND a.x >= 180 WITHIN 500 {RETURNS}",
    }
    run = kleene.workload(queries).run(spark.read.parquet(str(path)), bad_rows="quarantine", **ROLES)
    run["high"].matches.toArrow()
    assert rows_scanned(run["high"].matches) == OF_TYPE + 3 * GROUP, "F, the row group of C from 150, and those with holes"
    assert run["high"].bad_rows.count() == 2
    run["high"].unpersist()
