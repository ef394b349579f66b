"""Files that tasks read themselves: the matches of the embedded runtime and of the ordinary route, or the ordinary route."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.plan.distribution import slicing
from support.spark_queries import shown

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
START = 1_700_000_000_000_000


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of some dozens of rows are worth a task."""
    monkeypatch.setattr(slicing, "FEWEST_ROWS", 20)
    monkeypatch.setattr(slicing, "MOST_ROWS", 100)
    monkeypatch.setattr(slicing, "SLICE_COST", 0)


def events(rng: Random, count: int, *, ties: bool, missing: bool) -> list[dict[str, Any]]:
    at, rows = 0, []
    for number in range(count):
        at += rng.choice((0, 1, 2) if ties else (1, 2, 3))
        rows.append(
            {
                "ts": None if missing and rng.random() < 0.05 else at,
                "type": None if missing and rng.random() < 0.05 else rng.choice("AABBCDE"),
                "k": None if missing and rng.random() < 0.05 else rng.randrange(5),
                "s": rng.choice(("", "a", "é", None)),
                "x": rng.choice((None, *range(20))),
                "y": rng.choice((0.5, 1.5, -0.0, None, float("nan"))),
                "n": number,
            }
        )
    return rows


TIMES = {
    "integers": pa.int64(),
    "small integers": pa.int32(),
    "microseconds": pa.timestamp("us", "UTC"),
    "milliseconds": pa.timestamp("ms", "UTC"),
    "without a zone": pa.timestamp("us"),
}


def table_of(rows: list[dict[str, Any]], time: pa.DataType) -> pa.Table:
    plain = pa.schema(
        [
            ("ts", pa.int64()),
            ("type", pa.string()),
            ("k", pa.int32()),
            ("s", pa.string()),
            ("x", pa.int64()),
            ("y", pa.float64()),
        ]
    )
    table = pa.Table.from_pylist(rows, plain.append(pa.field("n", pa.int64())))
    if pa.types.is_timestamp(time):
        millis = pa.compute.add(pa.compute.multiply(table.column("ts"), 1_000), START // 1_000)
        column = millis.cast(pa.timestamp("ms", time.tz)).cast(time)
    else:
        column = table.column("ts").cast(time)
    return table.set_column(0, "ts", column)


def write(folder: Path, rng: Random, table: pa.Table, *, disorder: bool) -> None:
    """Several files with row groups of any size; with disorder rows of a file overlap in time with those of others."""
    folder.mkdir()
    order = list(range(table.num_rows))
    if disorder:
        order.sort(key=lambda row: row + rng.uniform(-30, 30))
    cuts = sorted(rng.randrange(table.num_rows + 1) for _ in range(rng.randrange(4)))
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, table.num_rows], strict=True)):
        rows = table.take(pa.array(order[begin:end], pa.int64()))
        pq.write_table(rows, folder / f"{rng.randrange(1000)}-{number} ä.parquet", row_group_size=rng.choice((1, 7, 30, 1000)))


QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "keyed": ("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < c.x WITHIN {0}", {}),
    "returned": ("PATTERN SEQ(A a, B b) WHERE [k] AND a.s = b.s WITHIN {0} RETURN a.k AS k, b.s AS s, b.ts AS at", {}),
    "without a key": ("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN {0} RETURN a.n AS one, b.n AS other", {}),
    "any order": ("PATTERN AND(A a, B b, D d) WHERE [k] WITHIN {0}", {}),
    "negated start": ("PATTERN SEQ(!(E e), A a, B b) WHERE [k] WITHIN {0}", {}),
    "negated middle": ("PATTERN SEQ(A a, !(E e), B b) WHERE e.x > a.x WITHIN {0}", {}),
    "negated end": ("PATTERN SEQ(A a, B b, !(E e)) WHERE [k] WITHIN {0}", {}),
    "Kleene": ("PATTERN SEQ(A a, B+ b[], C c) WHERE [k] AND b[i].x > b[i-1].x WITHIN {0}", {}),
    "next": ("PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) {{ [k] }} WITHIN {0}", {"order_by": "n"}),
    "contiguity": ("PATTERN SEQ(A a, B b) WHERE partition_contiguity(a, b) {{ [k] }} WITHIN {0}", {"order_by": "n"}),
    "one of another": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN {0} OUTPUT NON-OVERLAP", {"order_by": "n"}),
    "some columns": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN {0}", {"columns": ("b", "match_start")}),
    "aggregated": ("PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x AND a.n != b.n WITHIN {0} AGG COUNT, SUM(b.x) AS n", {}),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_files_of_any_kind(name: str, seed: int, spark: Any, tmp_path: Path) -> None:
    rng = Random(f"{name} {seed}")
    kind = rng.choice(list(TIMES))
    missing, disorder = rng.random() < 0.4, rng.random() < 0.5
    table = table_of(events(rng, rng.choice((0, 5, 400, 400)), ties=rng.random() < 0.5, missing=missing), TIMES[kind])
    write(tmp_path / "events", rng, table, disorder=disorder)
    text, options = QUERIES[name]
    query = kleene.query(text.format("20" if "integers" in kind else "20 milliseconds"))
    given = {**ROLES, **options, **({"bad_rows": "drop"} if missing else {})}
    frame = spark.read.parquet(str(tmp_path / "events"))
    run = query.run(frame, **given)
    if table.num_rows > 100 and run.scan != "by the tasks, from Parquet files":
        assert "would read each row" in run.scan or "the window is long" in run.scan, run.scan
    wanted = query.match(table.cast(arrow_of(frame)), **given)
    assert shown(run.matches.toArrow()) == shown(wanted)
    assert shown(query.match(frame, **given, scan="spark").toArrow()) == shown(wanted)


def arrow_of(frame: Any) -> pa.Schema:
    from kleene.runtime.spark.frame import arrow_schema

    return arrow_schema(frame)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return table_of(events(Random(4), 500, ties=False, missing=False), pa.int64())


@pytest.fixture(scope="module")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("direct")
    for number in range(4):
        pq.write_table(table.slice(number * 125, 125), path / f"{number}.parquet", row_group_size=40)
    return path


PAIR = kleene.query("PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 20 RETURN a.n AS one, b.n AS other")


def direct(frame: Any, table: pa.Table, **options: Any) -> str:
    """Who reads the events, after asserting that the matches are those of the table, and that there are some."""
    given = {**ROLES, **options}
    run = PAIR.run(frame, **given)
    wanted = PAIR.match(table, **given)
    # Ids are of the columns in their order.
    assert shown(run.matches.drop("match_id").toArrow()) == shown(wanted.drop_columns(["match_id"])) != []
    return str(run.scan)


TASKS = "by the tasks, from Parquet files"


def test_columns_may_be_renamed_left_out_and_filtered(spark: Any, folder: Path, table: pa.Table) -> None:
    frame = spark.read.parquet(str(folder))
    assert direct(frame, table) == TASKS
    renamed = frame.selectExpr("n AS m", "x AS y", "k", "type AS kind", "ts AS at")
    renamed = renamed.selectExpr("at AS ts", "kind AS type", "k", "y AS x", "m AS n")
    assert direct(renamed, table) == TASKS
    wanted = table.filter((pa.compute.field("n") >= 100) & (pa.compute.field("s") == "a") | (pa.compute.field("n") < 60))
    assert direct(frame.where("(n >= 100 AND s = 'a') OR 60 > n"), wanted) == TASKS
    wanted = table.filter(pa.compute.field("s").is_null() | pa.compute.field("x").isin([1, 2, 3, 7, 19]))
    assert direct(frame.where("s IS NULL OR x IN (1, 2, 3, 7, 19)").where("k <= 4"), wanted) == TASKS


def test_views_and_tables_are_files_too(spark: Any, folder: Path, table: pa.Table) -> None:
    spark.read.parquet(str(folder)).createOrReplaceTempView("direct_events")
    assert direct(spark.sql("SELECT * FROM direct_events WHERE n IS NOT NULL"), table) == TASKS


ORDINARY = {
    "computed": ("a column is computed", lambda frame: frame.selectExpr("ts", "type", "k", "abs(x) AS x", "n")),
    "joined": ("not a plain scan", lambda frame: frame.join(frame.select("n").distinct(), "n")),
    "limited": ("not a plain scan", lambda frame: frame.orderBy("n").limit(10_000)),
    "tested by a function": ("more than comparisons", lambda frame: frame.where("length(type) = 1")),
    "floats": ("more than comparisons", lambda frame: frame.where("y > 0 OR y <= 0 OR y IS NULL")),
    "cached": ("not a plain scan", lambda frame: frame.select("*").cache()),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_other_frames_are_read_by_spark(name: str, spark: Any, folder: Path, table: pa.Table) -> None:
    reason, changed = ORDINARY[name]
    frame = changed(spark.read.parquet(str(folder)))
    assert reason in direct(frame, table)
    with pytest.raises(kleene.PlanningError, match=f"tasks cannot read the events from files: .*{reason}"):
        PAIR.match(frame, **ROLES, scan="direct")
    spark.catalog.clearCache()


def test_queries_that_slices_of_time_do_not_answer(spark: Any, folder: Path) -> None:
    frame = spark.read.parquet(str(folder))
    reasons = {
        "PATTERN SEQ(A a, B b) WHERE [k]": "without a window",
        "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 AGG COUNT": "counters",
        "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 100000": "the window is long",
    }
    for text, reason in reasons.items():
        with pytest.raises(kleene.PlanningError, match=reason):
            kleene.query(text).match(frame, **ROLES, order_by="n", scan="direct")


def refused(spark: Any, path: Path, reason: str, window: str = "20 days") -> None:
    query = kleene.query(f"PATTERN SEQ(A a, B b) WHERE [k] WITHIN {window}")
    with pytest.raises(kleene.PlanningError, match=reason):
        query.match(spark.read.parquet(str(path)), **ROLES, scan="direct")


def test_files_that_spark_may_read_differently(spark: Any, tmp_path: Path, table: pa.Table) -> None:
    def with_time(name: str, column: Any, **options: Any) -> Path:
        path = tmp_path / name
        path.mkdir()
        pq.write_table(table.set_column(0, "ts", pa.chunked_array([column])), path / "a.parquet", **options)
        return path

    ages = [dt.datetime(1850, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=row) for row in range(table.num_rows)]
    refused(spark, with_time("old", pa.array(ages, pa.timestamp("us", "UTC"))), "times before 1900")
    late = [dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=row) for row in range(table.num_rows)]
    refused(
        spark,
        with_time("int96", pa.array(late, pa.timestamp("us", "UTC")), use_deprecated_int96_timestamps=True),
        "is stored as",
    )
    refused(spark, with_time("blind", table.column("ts").combine_chunks(), write_statistics=False), "no statistics", "20")


def test_paths_with_columns_in_them(spark: Any, tmp_path: Path, table: pa.Table) -> None:
    for key in range(5):
        (tmp_path / f"k={key}").mkdir()
        own = table.filter(pa.compute.field("k") == key).drop_columns(["k"])
        pq.write_table(own, tmp_path / f"k={key}" / "a.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert "part of the paths" in direct(frame, table)


def test_files_of_other_schemas(spark: Any, tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table.slice(0, 250), tmp_path / "a.parquet")
    pq.write_table(table.slice(250).drop_columns(["x"]), tmp_path / "b.parquet")
    frame = spark.read.option("mergeSchema", "true").parquet(str(tmp_path))
    holed = table.set_column(4, "x", pa.array([*table.column("x").to_pylist()[:250], *[None] * 250], pa.int64()))
    assert "has no column 'x'" in direct(frame, holed)


def test_files_that_change_or_vanish(spark: Any, tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "a.parquet"
    for change in (lambda: pq.write_table(table.slice(5), path), lambda: os.truncate(path, 900), path.unlink):
        pq.write_table(table, path, row_group_size=40)
        matches = PAIR.match(spark.read.parquet(str(tmp_path)), **ROLES)
        change()
        with pytest.raises(Exception, match=r"(?s)a\.parquet.*hint: match"):
            matches.collect()


def test_a_damaged_page_names_its_file(spark: Any, tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=40)
    content = bytearray(path.read_bytes())
    content[20:200] = b"\xff" * 180
    path.write_bytes(content)
    with pytest.raises(Exception, match=r"a\.parquet"):
        PAIR.match(spark.read.parquet(str(tmp_path)), **ROLES).collect()


def test_the_distribution_says_what_is_read(spark: Any, folder: Path) -> None:
    explained = PAIR.explain(spark.read.parquet(str(folder)), analyze=True, **ROLES)
    assert "16 row groups with 500 rows" in explained.distribution
    assert "by the tasks, from Parquet files" in str(explained)


def counts(frame: Any, **options: Any) -> tuple[int, int]:
    """How many matches there are, read by tasks where they may, and by Spark."""
    own, spark = (PAIR.match(frame, **ROLES, **options, scan=scan).count() for scan in ("auto", "spark"))
    return own, spark


def test_files_may_be_given_twice(spark: Any, folder: Path) -> None:
    once, twice = (counts(spark.read.parquet(*[str(folder)] * times)) for times in (1, 2))
    assert twice == (4 * once[0], 4 * once[1])
    assert once[0] == once[1] > 0


def test_columns_that_only_a_condition_reads_are_looked_at(spark: Any, tmp_path: Path, table: pa.Table) -> None:
    days = [dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=row) for row in range(table.num_rows)]
    dated = table.append_column("at", pa.array(days, pa.timestamp("us", "UTC")))
    for name, options in (("old", {"use_deprecated_int96_timestamps": True}), ("new", {})):
        (tmp_path / name).mkdir()
        pq.write_table(dated, tmp_path / name / "a.parquet", row_group_size=40, **options)
        frame = spark.read.parquet(str(tmp_path / name)).where("at > timestamp'2020-06-01'")
        assert ("stored as" in PAIR.run(frame, **ROLES).scan) == (name == "old")
        own, other = counts(frame)
        assert own == other > 0
    pq.write_table(dated.slice(250).drop_columns(["at"]), tmp_path / "new" / "b.parquet", row_group_size=40)
    frame = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "new")).where("at IS NULL")
    own, other = counts(frame)
    assert own == other > 0


def test_times_far_away(spark: Any, tmp_path: Path, table: pa.Table) -> None:
    sentinel = table.slice(0, 1).set_column(0, "ts", pa.array([(1 << 62) + 5])).set_column(1, "type", pa.array(["Z"]))
    pq.write_table(pa.concat_tables([table, sentinel]), tmp_path / "a.parquet", row_group_size=40)
    own, other = counts(spark.read.parquet(str(tmp_path)))
    assert own == other > 0
    far = pa.array(range(300_000_000_000_000_000, 300_000_000_000_000_500)).cast(pa.timestamp("us", "UTC"))
    (tmp_path / "far").mkdir()
    pq.write_table(table.set_column(0, "ts", far), tmp_path / "far" / "a.parquet", row_group_size=40)
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 milliseconds RETURN a.n AS one")
    frame = spark.read.parquet(str(tmp_path / "far"))
    assert query.match(frame, **ROLES).count() == query.match(frame, **ROLES, scan="spark").count() > 0
