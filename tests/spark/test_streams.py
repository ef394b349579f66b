"""Structured Streaming: the matches of a stream are those of the table, whatever arrives when, and wherever it is stopped."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.runtime.spark.stream.run import PROVIDER, ROCKSDB
from kleene.runtime.stream.plan import groups_for
from support.spark import frame_of, zone_of
from support.spark_queries import zone_events
from support.stream_folder import Folder, in_text

pytestmark = [pytest.mark.spark, pytest.mark.since(4, 1)]

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
ROLES: dict[str, Any] = {"time": "ts", "type": "type"}

QUERIES = {
    "rise": "PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x WITHIN 20 minutes",
    "rise and c": "PATTERN SEQ(A p, B q, C r) WHERE [id] AND q.x > p.x WITHIN 30 minutes RETURN p.x AS low, q.x - p.x AS rise",
    "no d": "PATTERN SEQ(A a, B b, !(D d)) WHERE [id] AND a.x < b.x WITHIN 10 minutes",
    "many": "PATTERN SEQ(A a, B+ b[], C c) WHERE [id] AND b[].x > a.x WITHIN 12 minutes",
    "both keys": "PATTERN AND(A a, C c) WHERE [id] AND [zone] WITHIN 1 hour",
    "no key": "PATTERN SEQ(A a, B b) WHERE a.x > b.x + 15 WITHIN 5 minutes",
    "next": "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) { [id] AND a[i].x > a[i-1].x } WITHIN 20 minutes",
    "apart": "PATTERN SEQ(A a, B b, C c) WHERE [id] WITHIN 30 minutes OUTPUT NON-OVERLAP",
    "counted": "PATTERN SEQ(A a, B b) WHERE [id] AGG COUNT, SUM(b.x) GROUP BY id WITHIN 20 minutes",
    "changing": "PATTERN SEQ(A a, D d) WHERE [id] AGG COUNT EMIT ON CHANGE WITHIN 5 minutes",
    "ever": "PATTERN SEQ(A a, B b) WHERE [id] AGG COUNT",
    "matched": "PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x AGG COUNT, MAX(b.x) WITHIN 10 minutes",
    "events": "PATTERN SEQ(A a, D d) WHERE [id] WITHIN 6 EVENTS",
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return zone_events()


@pytest.fixture
def folder(spark: Any, tmp_path: Path, table: pa.Table) -> Folder:
    return Folder(spark, tmp_path, table.schema)


@pytest.fixture
def rocksdb(spark: Any) -> Iterator[None]:
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


def disordered(table: pa.Table, seconds: int) -> pa.Table:
    """The rows as they might arrive, none later than so many seconds after one that is later in time."""
    random = Random(5)
    arrival = [value.as_py() + dt.timedelta(seconds=random.randint(0, seconds)) for value in table.column("ts")]
    return table.take(pa.array(sorted(range(table.num_rows), key=lambda row: arrival[row])))


def test_every_kind_of_query_with_disorder_and_restarts(spark: Any, folder: Folder, table: pa.Table) -> None:
    workload = kleene.workload(QUERIES)
    wanted = {name: in_text(matches) for name, matches in workload.match(frame_of(spark, table), **ROLES).items()}
    arriving = disordered(table, 300)
    folder.deliver(arriving.slice(0, 170))
    folder.deliver(arriving.slice(170, 30))
    folder.run(workload.run(folder.frame(), **ROLES, watermark="5 minutes"), "matches", "late")
    folder.deliver(arriving.slice(200))
    folder.end()
    with zone_of(spark, "America/St_Johns"):
        folder.run(workload.run(folder.frame(), **ROLES, watermark="5 minutes"), "matches", "late")
    assert all(wanted.values())
    assert {name: folder.rows(f"matches/{name}") for name in QUERIES} == wanted
    assert folder.rows("late") == []


def test_composite_events_are_there_in_time(spark: Any, folder: Folder, table: pa.Table) -> None:
    """`quiet` is known a window after its event: what reads it waits for it."""
    workload = kleene.workload(
        {
            "rise": "PATTERN SEQ(A a, B b) WHERE [id] AND a.x < b.x WITHIN 10 minutes RETURN a.id AS id, b.x AS x INTO Rise",
            "quiet": "PATTERN SEQ(C c, !(D d)) WHERE [id] WITHIN 4 minutes RETURN c.id AS id INTO Quiet",
            "risen": "PATTERN SEQ(Rise r, C c) WHERE [id] AND r.x < c.x WITHIN 10 minutes",
            "both": "PATTERN SEQ(Rise r, Quiet q) WITHIN 2 minutes AGG COUNT",
        }
    )
    wanted = {name: in_text(matches) for name, matches in workload.match(frame_of(spark, table), **ROLES).items()}
    arriving = disordered(table, 100)
    folder.deliver(arriving.slice(0, 200))
    folder.run(workload.run(folder.frame(), **ROLES, watermark="100 seconds"))
    folder.deliver(arriving.slice(200))
    folder.end()
    folder.run(workload.run(folder.frame(), **ROLES, watermark="100 seconds"))
    assert all(wanted.values())
    assert {name: folder.rows(f"matches/{name}") for name in wanted} == wanted


def test_late_and_bad_rows_are_delivered_once(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("id", pa.int32())])
    folder = Folder(spark, tmp_path, schema)
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10")

    def deliver(*rows: tuple[int | None, str | None, int | None]) -> None:
        folder.deliver(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema))
        folder.run(query.run(folder.frame(), **ROLES, watermark=5), "matches", "late", "bad_rows")

    deliver((10, "A", 1), (12, "A", 2), (None, "A", 1), (13, None, 1), (14, "B", None))
    deliver((9, "B", 1), (13, "B", 1), (20, "C", 0))
    deliver((14, "B", 2), (15, "B", 2), (3, "C", 1))
    folder.end()
    folder.run(query.run(folder.frame(), **ROLES, watermark=5), "matches", "late", "bad_rows")
    assert folder.rows("late") == ["Row(ts=14, type='B', id=2)"]
    assert [row.partition(", reason=")[0] for row in folder.rows("bad_rows")] == [
        "Row(ts=13, type=None, id=1",
        "Row(ts=14, type='B', id=None",
        "Row(ts=None, type='A', id=1",
    ]
    ends = spark.read.parquet(str(tmp_path / "matches")).select("match_start", "match_end").orderBy("match_start").collect()
    assert [tuple(row) for row in ends] == [(10, 13), (12, 15)]


def test_the_file_sink_of_spark(spark: Any, folder: Folder, table: pa.Table, rocksdb: None) -> None:
    query = kleene.query(QUERIES["no d"])
    for begin in range(0, 300, 150):
        folder.deliver(table.slice(begin, 150))
    folder.end()
    some = ("match_end", "b", "a")
    frame = query.match(folder.frame(), **ROLES, watermark="0 seconds", columns=some)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder.path / "checkpoint"))
    started = writer.trigger(availableNow=True).start(str(folder.path / "matches"))
    started.awaitTermination()
    assert folder.rows("matches") == in_text(query.match(frame_of(spark, table), **ROLES, columns=some))
    counted = [progress["observedMetrics"]["kleene"] for progress in started.recentProgress]
    assert sum(row["matches"] for row in counted) == sum(row["matches_query"] for row in counted) == len(folder.rows("matches"))
    assert counted[-1]["kept"] == counted[-1]["state_rows"] == 0


def test_rules_change_between_micro_batches(spark: Any, folder: Folder, table: pa.Table) -> None:
    rules = folder.path / "rules"
    rules.mkdir()
    stays, first = (
        "PATTERN SEQ(C+ c[], D d) WHERE skip_till_next_match(c[], d) { c[1].x < d.x } WITHIN 20 minutes",
        "SEQ(A a, B b)",
    )
    (rules / "stays.sase").write_text(stays)
    (rules / "changes.sase").write_text(f"PATTERN {first} WITHIN 5 minutes")
    by_id = {**ROLES, "partition_by": "id"}

    def stream() -> Any:
        return kleene.rules(str(rules)).run(folder.frame(), **by_id, watermark="0 seconds")

    folder.deliver(table.slice(0, 150))
    first_run = stream()
    (rules / "goes.sase").write_text("PATTERN SEQ(A a, D d) WITHIN 5 minutes")
    counted = folder.run(first_run, "matches", "problems")
    (rules / "changes.sase").write_text("PATTERN SEQ(A a, C b) WITHIN 5 minutes RETURN a.x AS low, b.x - a.x AS rise")
    (rules / "goes.sase").rename(rules / "goes.sase.paused")
    (rules / "wrong.sase").write_text("PATTERN SEQ(A a, B b) WHERE a.nothing = 1")
    folder.deliver(table.slice(150))
    folder.end()
    counted_later = folder.run(stream(), "matches", "problems")
    found = spark.read.parquet(str(folder.path / "matches")).collect()

    def ids(name: str, version: int) -> list[int]:
        return sorted(row["match_id"] for row in found if (row["query"], row["query_version"]) == (name, version))

    def batch(text: str, name: str, rows: pa.Table) -> list[int]:
        return sorted(kleene.query(text, name=name).match(rows, **by_id).column("match_id").to_pylist())

    assert ids("stays", 1) == batch(stays, "stays", table)
    before, after = table.slice(0, 149), table.slice(149)  # the watermark is the time of the last event that had come
    assert ids("changes", 1) == batch(f"PATTERN {first} WITHIN 5 minutes", "changes", before)
    changed = "PATTERN SEQ(A a, C b) WITHIN 5 minutes RETURN a.x AS low, b.x - a.x AS rise"
    assert ids("changes", 2) == batch(changed, "changes", after)
    assert ids("goes", 1) == batch("PATTERN SEQ(A a, D d) WITHIN 5 minutes", "goes", before)
    assert counted["matches_(new rules)"] == len(ids("goes", 1))
    for name in ("stays", "changes"):
        both = counted[f"matches_{name}"] + counted_later[f"matches_{name}"]
        assert both == sum(row["query"] == name for row in found) > 0
    assert counted_later["matches_(new rules)"] == 0
    row = next(row for row in found if row["query"] == "stays")
    assert [item["variable"] for item in row["events"]][-1] == "d"
    assert {item["event"]["id"] for item in row["events"]} == {row["events"][0]["event"]["id"]}
    returned = next(row["returned"] for row in found if row["query_version"] == 2)
    assert sorted(returned) == ["low", "rise"]
    problems = spark.read.parquet(str(folder.path / "problems")).collect()
    assert [(row["query"], row["query_version"]) for row in problems] == [("wrong", 1)]
    assert "nothing" in problems[0]["problem"]


def test_what_a_stream_needs_is_said_at_once(spark: Any, folder: Folder, rocksdb: None) -> None:
    query, frame = kleene.query(QUERIES["rise"]), folder.frame()
    with pytest.raises(kleene.PlanningError, match="how late its events may come"):
        _ = query.match(frame, **ROLES)
    with pytest.raises(kleene.PlanningError, match="a watermark on 'ts' already"):
        query.match(frame.withWatermark("ts", "1 minute"), **ROLES, watermark="1 minute")
    assert query.match(frame.withWatermark("ts", "1 minute"), **ROLES).isStreaming
    spark.conf.unset(PROVIDER)
    with pytest.raises(kleene.PlanningError, match="in RocksDB only"):
        query.match(frame, **ROLES, watermark="1 minute")
    run = query.run(frame, **ROLES, watermark="1 minute")
    with pytest.raises(kleene.BindingError, match="a stream gives no 'mathces'"):
        run.write({"mathces": "out"}, checkpoint="checkpoint")
    with pytest.raises(kleene.BindingError, match="the stream has no query 'other'"):
        run["other"]
    with pytest.raises(kleene.BindingError, match="for streaming DataFrames"):
        kleene.rules("rules").run(frame_of(spark, pa.table({"ts": [1], "type": ["A"]})), **ROLES)


def test_an_older_spark_is_refused(spark: Any, folder: Folder, rocksdb: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(spark), "version", property(lambda _: "4.0.2"))
    with pytest.raises(kleene.PlanningError, match=r"streams need Spark 4.1 or newer, and this is Spark 4.0.2"):
        kleene.query(QUERIES["rise"]).match(folder.frame(), **ROLES, watermark="1 minute")


def test_a_stream_with_an_error_policy_stops_at_a_bad_row(folder: Folder) -> None:
    query = kleene.query(QUERIES["rise"])
    folder.end()
    bad = {"ts": None, "type": "A", "id": 1, "zone": "n", "x": 1}
    folder.deliver(pa.Table.from_pylist([bad], folder._schema))
    with pytest.raises(Exception, match="time column 'ts' is NULL"):
        folder.run(query.run(folder.frame(), **ROLES, watermark="0 seconds", bad_rows="error"))


def test_buckets_lie_evenly_where_spark_puts_them(spark: Any) -> None:
    from pyspark.sql import functions as f

    groups = [*groups_for(["id"], 10), *groups_for(["id", "zone"], 10), *groups_for([], 1)]
    frame = spark.createDataFrame([(group,) for group in groups[:20]], "g int")
    for partitions, each in ((5, 4), (10, 2)):
        taken = frame.groupBy(f.pmod(f.hash("g"), f.lit(partitions)).alias("p")).count().collect()
        assert [row["count"] for row in taken] == [each] * partitions
    assert len(set(groups)) == 21


def test_times_without_a_zone_are_in_utc_whatever_the_session_is_set_to(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([("ts", pa.timestamp("us")), ("type", pa.string()), ("id", pa.int32())])
    folder = Folder(spark, tmp_path, schema)
    query = kleene.query("PATTERN SEQ(A a, B b) WITHIN 1 hour")
    with zone_of(spark, "Asia/Tokyo"):
        for minute, kind in ((0, "A"), (30, "B"), (20, "B"), (90, "End"), (25, "B"), (300, "End")):
            row = {"ts": dt.datetime(2024, 1, 1, 12) + dt.timedelta(minutes=minute), "type": kind, "id": 1}  # noqa: DTZ001
            folder.deliver(pa.Table.from_pylist([row], schema))
        folder.run(query.run(folder.frame(), **ROLES, watermark="15 minutes"), "matches", "late")
    assert len(folder.rows("matches")) == 2
    assert ["12, 25" in row for row in folder.rows("late")] == [True]


def test_late_rows_can_be_asked_for_later(spark: Any, folder: Folder, table: pa.Table) -> None:
    """They have all columns of the events; the state has only those that the query reads."""
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 5 minutes RETURN a.ts AS begin")
    folder.deliver(table.slice(0, 150))
    folder.run(query.run(folder.frame(), **ROLES, watermark="0 seconds"), "matches")
    folder.deliver(table.slice(150, 100))
    folder.deliver(table.slice(140, 10).filter(pa.array([True] * 9 + [False])))
    folder.run(query.run(folder.frame(), **ROLES, watermark="0 seconds"), "matches", "late")
    relevant = [kind for kind in table.slice(140, 9).column("type").to_pylist() if kind in "AB"]
    assert len(folder.rows("late")) == len(relevant)
    assert all("zone=" in row for row in folder.rows("late"))


def test_several_queries_of_one_frame_can_start_at_once(spark: Any, folder: Folder, table: pa.Table, rocksdb: None) -> None:
    """A started query puts nothing new into what another one may be writing into its tasks."""
    folder.deliver(table.slice(0, 100))
    frame = kleene.query(QUERIES["rise"]).match(folder.frame(), **ROLES, watermark="0 seconds")
    plan = frame._jdf.queryExecution().logical()
    while plan.nodeName() != "TransformWithStateInPySpark":
        plan = plan.children().head()
    environment = plan.functionExpr().func().envVars()
    names = set(environment)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder.path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert environment["SPARK_PYTHON_RUNTIME"], "what the query shares is somewhere else"
    assert set(environment) == names
