"""The explorer of a DataFrame: what is chosen of it is brought here, and too much is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.interfaces import event_range
from support.explorer_page import read_page
from support.spark import frame_of

pytestmark = pytest.mark.spark

ROLES = {"time": "ts", "type": "type"}
QUERY = kleene.query("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1 hour RETURN a.x AS x")


def events(zone: str | None = "UTC") -> pa.Table:
    begin = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC if zone else None)
    times = pa.array([begin + dt.timedelta(minutes=number) for number in range(12)], pa.timestamp("us", zone))
    return pa.table({"ts": times, "type": list("AABB" * 3), "k": [1, 2] * 6, "x": [None, *range(11)]})


def test_a_frame_gives_the_page_of_its_table(spark: Any) -> None:
    frame = frame_of(spark, events())
    for chosen in ({}, {"key": {"k": 2}}, {"since": "2026-03-02 09:04:00", "until": "2026-03-02 09:10:00"}):
        found = read_page(QUERY.explore(frame, **ROLES, **chosen).html())
        wanted = read_page(QUERY.explore(events(), **ROLES, **chosen).html())
        assert len(wanted.matches) > 1
        assert found.events == wanted.events
        assert found.matches == wanted.matches
        assert found.manifest["notices"] == wanted.manifest["notices"]
    assert {match["match_id"] for match in read_page(QUERY.explore(frame, **ROLES).html()).matches} == {
        row["match_id"] for row in QUERY.match(frame, **ROLES).collect()
    }


def test_more_than_the_bound_is_refused(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_range, "MOST_EVENTS", 5)
    with pytest.raises(kleene.DataError, match="more than 5 events"):
        QUERY.explore(frame_of(spark, events()), **ROLES)


@pytest.mark.parametrize("zone", ["UTC", None])
def test_only_what_is_chosen_counts_towards_the_bound(spark: Any, monkeypatch: pytest.MonkeyPatch, zone: str | None) -> None:
    monkeypatch.setattr(event_range, "MOST_EVENTS", 5)
    frame = frame_of(spark, events(zone))
    explorer = QUERY.explore(frame, **ROLES, since="2026-03-02 09:04:00", until="2026-03-02 11:08:00+02:00")
    assert [event["ts"].minute for event in read_page(explorer.html()).events] == [4, 5, 6, 7, 8]


def test_a_stream_is_refused(spark: Any) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "'A' AS type")
    with pytest.raises(kleene.DataError, match="a stream has no end"):
        kleene.query("PATTERN A a").explore(stream, **ROLES)


def test_a_range_of_days(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_range, "MOST_EVENTS", 3)
    days = pa.array([dt.date(2026, 3, day) for day in range(1, 10)])
    frame = frame_of(spark, pa.table({"ts": days, "type": list("ABABABABA"), "k": [1] * 9, "x": range(9)}))
    explorer = QUERY.explore(frame, **ROLES, since=dt.date(2026, 3, 4), until="2026-03-06 12:00:00")
    assert [event["ts"] for event in read_page(explorer.html()).events] == ["2026-03-04", "2026-03-05", "2026-03-06"]
