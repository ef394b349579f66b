"""AGG on Spark: the embedded rows, whether a stream is divided by key, cut into slices of time, or neither."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.plan.distribution import slicing
from kleene.runtime.spark.slices import tasks as spark_tasks
from kleene.runtime.spark.slices import times as spark_times
from support.spark import frame_of
from support.spark_queries import shown

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}

START = 1_774_735_200_000_000
"""In microseconds; the clocks change that night in Europe."""


def events(count: int = 240, seed: int = 7) -> pa.Table:
    """Events of four types, with ties, NULLs, and the time as an integer, a timestamp with and without a zone, and a date."""
    rng = Random(seed)
    at, rows = 0, []
    for _ in range(count):
        at += rng.choice((0, 1, 1, 2))
        rows.append(
            {
                "ts": at,
                "moment": START + at * 60_000_000 + 1,
                "local": START + at * 60_000_000 + 1,
                "day": at // 5,
                "type": rng.choice("AABBCD"),
                "k": rng.randrange(4),
                "k2": rng.choice("xy"),
                "seq": rng.randrange(3),
                "x": rng.choice((None, -2, 1, 3, 40)),
                "y": rng.choice((None, 0.5, 1.5, -4.0)),
                "s": rng.choice((None, "a", "ab", "é")),
            }
        )
    times = [("ts", pa.int64()), ("moment", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("day", pa.date32())]
    keys = [("type", pa.string()), ("k", pa.int32()), ("k2", pa.string()), ("seq", pa.int16())]
    return pa.Table.from_pylist(rows, pa.schema([*times, *keys, ("x", pa.int64()), ("y", pa.float64()), ("s", pa.string())]))


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return events()


@pytest.fixture(scope="module")
def frame(spark: Any, table: pa.Table) -> Any:
    return frame_of(spark, table).repartition(3).cache()


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Slices of about thirty rows; tells which way each run went that did not go by key or in one task."""
    seen: list[str] = []
    cut, total = spark_tasks.in_slices, spark_tasks._changes

    def cutting(plan: Any, events: Any, slices: Any, *arguments: Any, **further: Any) -> Any:
        seen.extend(["slices"] if len(slices) > 2 else [])
        return cut(plan, events, slices, *arguments, **further)

    def totalling(*arguments: Any) -> Any:
        seen.append("totals")
        return total(*arguments)

    monkeypatch.setattr(spark_times, "SAMPLED", 1.0)
    monkeypatch.setattr(spark_times, "SMALL", 0)
    monkeypatch.setattr(slicing, "FEWEST_ROWS", 10)
    monkeypatch.setattr(slicing, "MOST_ROWS", 30)
    monkeypatch.setattr(slicing, "SLICE_COST", 0)
    monkeypatch.setattr(spark_tasks, "TOTAL_TASKS", 2)
    monkeypatch.setattr(spark_tasks, "in_slices", cutting)
    monkeypatch.setattr(spark_tasks, "_changes", totalling)
    return seen


def both(query: str, frame: Any, table: pa.Table, **options: Any) -> int:
    """The number of rows, after asserting that Spark and embedded agree."""
    parsed = kleene.query(query)
    wanted = parsed.match(table, **{**ROLES, **options})
    found = parsed.match(frame, **{**ROLES, **options}).toArrow()
    assert shown(found) == shown(wanted)
    return wanted.num_rows


ITEMS = "COUNT AS n, SUM(a.x) AS sum, AVG(a.y) AS mean, MIN(b.x) AS low, MAX(b.y) AS high"

SLICED = {
    "short window": (f"PATTERN SEQ(A a, B b, C c) WITHIN 9 AGG {ITEMS}", {}),
    "window of slices": (f"PATTERN SEQ(A a, B b, C c) WITHIN 100 AGG {ITEMS}", {}),
    "window longer than the stream": ("PATTERN SEQ(A a, !(D d), B b) WITHIN 1000 AGG COUNT AS n", {}),
    "no window": (f"PATTERN SEQ(A a, !(D d), B b, C c) AGG {ITEMS}", {}),
    "change": ("PATTERN SEQ(A a, B b) WITHIN 90 AGG COUNT AS n, MAX(b.x) AS high EMIT ON CHANGE", {}),
    "change, having": ("PATTERN SEQ(A a, B b) WITHIN 9 AGG SUM(b.x) AS sum HAVING sum > 5 EMIT ON CHANGE", {}),
    "negated end": ("PATTERN SEQ(A a, B b, !(D d)) WITHIN 80 AGG COUNT AS n", {}),
    "order": ("PATTERN SEQ(A a, B b, C c) WITHIN 70 AGG COUNT AS n, SUM(c.x) AS sum", {"order_by": "seq"}),
    "timestamps": ("PATTERN SEQ(A a, B b) WITHIN 95 MINUTES AGG COUNT AS n EMIT ON CHANGE", {"time": "moment"}),
    "local timestamps": ("PATTERN SEQ(A a, B b) WITHIN 95 MINUTES AGG COUNT AS n", {"time": "local"}),
    "dates": ("PATTERN SEQ(A a, B b) WITHIN 19 DAYS AGG COUNT AS n", {"time": "day"}),
    "partitions added up": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 30 AGG COUNT AS n, MAX(b.y) AS high EMIT ON CHANGE", {}),
    "texts in a short window": ("PATTERN SEQ(A a, B b) WITHIN 9 AGG MIN(a.s) AS low, MAX(b.s) AS high", {}),
}


@pytest.mark.parametrize("name", SLICED)
def test_slices_give_the_embedded_rows(name: str, frame: Any, table: pa.Table, routes: list[str]) -> None:
    query, options = SLICED[name]
    assert both(query, frame, table, **options) > 20
    assert routes[0] == "slices"


TOTALLED = {
    "no window": (f"PATTERN SEQ(A a, B b) WHERE [k] AGG {ITEMS}", {"order_by": "seq"}),
    "long window, change": (
        "PATTERN SEQ(A a, B b) WHERE [k, k2] WITHIN 170 MINUTES AGG COUNT AS n EMIT ON CHANGE",
        {"time": "moment"},
    ),
    "long window, negated end": (
        "PATTERN SEQ(A a, B b, !(D d)) WHERE [k] WITHIN 170 AGG SUM(b.x) AS sum HAVING sum > 0",
        {},
    ),
}


@pytest.mark.parametrize("name", TOTALLED)
def test_totals_of_tasks_give_the_embedded_rows(name: str, frame: Any, table: pa.Table, routes: list[str]) -> None:
    query, options = TOTALLED[name]
    assert both(query, frame, table, **options) > 20
    assert routes == ["totals"]


OTHERS = {
    "groups": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 AGG COUNT AS n, MIN(a.s) AS low GROUP BY k", {}),
    "groups of partitions": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 AGG COUNT AS n GROUP BY k2 EMIT ON CHANGE", {}),
    "matched": ("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20 AGG COUNT AS n GROUP BY k EMIT ON CHANGE", {}),
    "matched, in order of arrival": (
        "PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { } WITHIN 20 AGG COUNT AS n",
        {"ties": "arrival"},
    ),
    "texts without a window": ("PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT AS n, MAX(a.s) AS high", {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_aggregates_go_by_key_or_in_one_task(name: str, spark: Any, table: pa.Table, routes: list[str]) -> None:
    query, options = OTHERS[name]
    assert both(query, frame_of(spark, table), table, **options) > 20
    assert not routes


def test_few_events_and_none(spark: Any, table: pa.Table, routes: list[str]) -> None:
    query = "PATTERN SEQ(A a, B b) WITHIN 20 AGG COUNT AS n EMIT ON CHANGE"
    assert both(query, frame_of(spark, table.slice(0, 0)), table.slice(0, 0)) == 0
    assert both(query, frame_of(spark, table.slice(0, 12)), table.slice(0, 12)) > 0
    at_once = table.set_column(0, "ts", pa.array([5] * table.num_rows))
    assert both(query, frame_of(spark, at_once), at_once) > 20
    assert not routes


def test_bad_rows_of_slices(spark: Any, table: pa.Table, routes: list[str]) -> None:
    """Rows without a time or type are dropped or refused as in the embedded run, also beside markers of slices."""
    rows = table.to_pylist()
    for number, name in ((20, "ts"), (120, "type"), (230, "ts")):
        rows[number] = {**rows[number], name: None, **({"type": "A"} if name == "ts" else {})}
    damaged = pa.Table.from_pylist(rows, table.schema)
    query = kleene.query("PATTERN SEQ(A a, B b) AGG COUNT AS n")
    frame = frame_of(spark, damaged)
    run = query.run(frame, **ROLES, bad_rows="quarantine")
    assert shown(run.matches.toArrow()) == shown(query.match(damaged, **ROLES, bad_rows="drop"))
    assert run.bad_rows.count() == 3
    with pytest.raises(Exception, match="is NULL"):
        query.match(frame, **ROLES).toArrow()
    assert routes[0] == "slices"


def test_sums_beyond_64_bits_are_refused_across_slices(spark: Any, routes: list[str]) -> None:
    count = 200
    events = pa.table({"ts": range(count), "type": ["A", "B"] * (count // 2), "x": [1 << 57] * count})
    query = kleene.query("PATTERN SEQ(A a, B b) WITHIN 150 AGG SUM(a.x) AS sum")
    with pytest.raises(Exception, match="exceeds 64 bits"):
        query.match(frame_of(spark, events), **ROLES).toArrow()
    assert routes[0] == "slices"
