"""What each supported Spark must do, in a minute: `make smoke` runs this on the oldest one, `make matrix` on more of them."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.plan.distribution import slicing
from kleene.runtime.spark.slices import times as spark_times
from support import connect_run, spark_queries
from support.spark import ELSEWHERE, VERSION, frame_of
from support.spark_queries import INTEGER, ZONED, embedded, on_spark, shown
from support.sql_calls import in_sql

pytestmark = [pytest.mark.spark, pytest.mark.smoke]

CHOSEN = ("keyed", "returns", "timestamps", "local timestamps", "time arithmetic", "functions of one event")
"""Of `spark_queries`."""
WORKLOAD = {
    "pair": "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 minutes RETURN a.k AS k, b.at AS since INTO Pair",
    "after": "PATTERN SEQ(Pair p, C c) WHERE [k] WITHIN 1 hour RETURN p.since AS since, c.at - p.since AS gap",
    "counted": "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT, SUM(b.x) GROUP BY k WITHIN 20 minutes",
    "next": "PATTERN SEQ(C c, D d) WHERE [k] WITHIN 5 minutes",
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return spark_queries.events()


@pytest.fixture(scope="module")
def frame(spark: Any, table: pa.Table) -> Any:
    return frame_of(spark, table).repartition(2).cache()


@pytest.mark.parametrize("name", CHOSEN)
def test_a_table(name: str, frame: Any, table: pa.Table) -> None:
    assert on_spark(name, frame) == embedded(name, table) != []


def test_a_workload_with_composite_events(frame: Any, table: pa.Table) -> None:
    work = kleene.workload(WORKLOAD)
    found, wanted = work.match(frame, **ZONED), work.match(table, **ZONED)
    for name in WORKLOAD:
        assert shown(found[name].toArrow()) == shown(wanted[name]) != []


@pytest.mark.parametrize("aggregated", ["", " AGG COUNT"], ids=["matched", "counted"])
def test_what_no_key_divides(frame: Any, table: pa.Table, aggregated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In slices of time."""
    for name, value in {"SAMPLED": 1.0, "SMALL": 0}.items():
        monkeypatch.setattr(spark_times, name, value)
    for name, value in {"FEWEST_ROWS": 20, "MOST_ROWS": 40, "SLICE_COST": 0}.items():
        monkeypatch.setattr(slicing, name, value)
    query = kleene.query(f"PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 4{aggregated}")
    run = query.run(frame, **INTEGER)
    assert shown(run.matches.toArrow()) == shown(query.match(table, **INTEGER)) != []
    if not aggregated:
        assert "slices of time" in run.distribution


def test_a_table_function(spark: Any, frame: Any, table: pa.Table) -> None:
    if VERSION < (4, 1):
        with pytest.raises(kleene.PlanningError, match=r"need Spark 4\.1"):
            kleene.register(spark)
        return
    kleene.register(spark)
    frame.createOrReplaceTempView("events")
    for name in ("keyed", "timestamps", "local timestamps"):
        assert in_sql(name, spark, "events") == embedded(name, table)


def test_a_stream(spark: Any, table: pa.Table, tmp_path: Path) -> None:
    """With a restart: events that wait for the watermark are in the state."""
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 10 minutes RETURN a.at AS begin, b.number AS n")
    events = table.select(["at", "type", "k", "x", "number"]).sort_by("at")
    (tmp_path / "in").mkdir()

    def read(name: str, rows: pa.Table) -> Any:
        pq.write_table(rows, tmp_path / "in" / f"{name}.parquet")
        frame = spark.readStream.schema(frame_of(spark, events.slice(0, 0)).schema).parquet(str(tmp_path / "in"))
        run = query.run(frame, **ZONED, watermark="1 minute")
        run.write(sinks, checkpoint=str(tmp_path / "checkpoint"), trigger={"availableNow": True}).awaitTermination()

    sinks = {"matches": str(tmp_path / "out")}
    if VERSION < (4, 1):
        with pytest.raises(kleene.PlanningError, match=r"streams need Spark 4\.1"):
            read("1", events)
        return
    read("1", events.slice(0, 70))
    read("2", events.slice(70))
    later = spark_queries.START + dt.timedelta(days=1)
    read("3", pa.Table.from_pylist([{"at": later, "type": "E", "k": 0}], events.schema))
    assert shown(spark.read.parquet(sinks["matches"]).drop("batch").toArrow()) == shown(query.match(events, **ZONED)) != []


def test_connect(tmp_path: Path) -> None:
    """In a process of its own, as a classic session is in this one, and in other time zones."""
    environment = os.environ | ELSEWHERE | {"PYSPARK_PYTHON": sys.executable}
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        environment.pop(name, None)
    asked = ["keyed", "returns", "timestamps", "local timestamps"]
    script = str(Path(connect_run.__file__))
    done = subprocess.run(
        [sys.executable, script],
        env=environment, cwd=tmp_path, input=json.dumps(asked), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert "connect" in report.pop("session")
    assert report == {name: [] for name in asked}
