"""`why_not` of a DataFrame: filtered on Spark, bounded, and the same report as of the table."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.interfaces import event_range
from support.spark import frame_of

pytestmark = pytest.mark.spark

QUERY = kleene.query("PATTERN SEQ(A a, !(N n), B b) WHERE [k] AND a.x < b.x WITHIN 1 minute", name="steps")
START = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)


def readings() -> pa.Table:
    rows = [
        (second, kind, key, x)
        for key in (1, 2, 3)
        for second, kind, x in ((0, "A", 5), (10, "N", 0), (20, "B", 7), (30, "A", 9), (40, "B", 6), (95, "B", 10))
    ]
    seconds, kinds, keys, xs = zip(*rows, strict=True)
    times = [START + dt.timedelta(seconds=second) for second in seconds]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "type": kinds, "k": keys, "odd name": keys, "x": xs})


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"key": 2},
        {"key": {"odd name": 3}},
        {"key": {"k": "1"}, "since": START + dt.timedelta(seconds=30)},
        {"since": "2026-03-02 09:00:10", "until": "2026-03-02 09:00:40"},
    ],
)
def test_the_report_is_that_of_the_table(spark: Any, asked: dict[str, Any]) -> None:
    table = readings()
    options = {"time": "ts", "type": "type", **asked}
    of_frame = QUERY.why_not(frame_of(spark, table), **options)
    of_table = QUERY.why_not(table, **options)
    assert str(of_frame) == str(of_table)
    assert of_table.causes


def test_no_more_than_the_bound_comes_to_the_driver(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_range, "MOST_EVENTS", 10)
    frame = frame_of(spark, readings())
    with pytest.raises(DataError, match="more than 10 events to ask about"):
        QUERY.why_not(frame, time="ts", type="type")
    assert QUERY.why_not(frame, time="ts", type="type", key=1).events == 6


def test_a_stream_is_refused(spark: Any) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "'A' AS type", "value AS k", "value AS x")
    with pytest.raises(DataError, match="not about a stream"):
        QUERY.why_not(stream, time="ts", type="type")
