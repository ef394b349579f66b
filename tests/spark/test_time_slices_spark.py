"""Matches in slices of time on Spark: the embedded matches, for queries without a key and for keys with most of the events."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.plan.distribution import slicing
from kleene.runtime.spark.slices import skew as spark_skew
from kleene.runtime.spark.slices import times as spark_times
from support.long_tests import mostly_long
from support.spark import frame_of
from support.spark_queries import shown

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}


def events(count: int = 600, seed: int = 11) -> pa.Table:
    """Events of four types at increasing times, most of them of one key."""
    rng = Random(seed)
    at, rows = 0, []
    for number in range(count):
        at += rng.choice((1, 1, 2, 3))
        key = rng.choice((1, 1, 1, 1, 1, 1, 1, 1, 1, rng.randrange(2, 9)))
        rows.append({"ts": at, "type": rng.choice("AABBCD"), "k": key, "n": number, "x": rng.randrange(20), "s": f"s{key}"})
    schema = [("ts", pa.int64()), ("type", pa.string()), ("k", pa.int32()), ("n", pa.int64()), ("x", pa.int64())]
    return pa.Table.from_pylist(rows, pa.schema([*schema, ("s", pa.string())]))


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return events()


@pytest.fixture(scope="module")
def frame(spark: Any, table: pa.Table) -> Any:
    return frame_of(spark, table).repartition(3).cache()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of some dozens of rows are worth a task, and DataFrames of that size a look."""
    monkeypatch.setattr(spark_times, "SAMPLED", 1.0)
    monkeypatch.setattr(spark_times, "SMALL", 0)
    monkeypatch.setattr(slicing, "FEWEST_ROWS", 20)
    monkeypatch.setattr(slicing, "MOST_ROWS", 100)
    monkeypatch.setattr(slicing, "SLICE_COST", 0)
    monkeypatch.setattr(spark_skew, "FEWEST_SEEN", 20)


def both(query: str, frame: Any, table: pa.Table, **options: Any) -> str:
    """How the run was distributed, after asserting that Spark and embedded agree, and that there is something."""
    parsed = kleene.query(query)
    given = {**ROLES, **options}
    wanted = parsed.match(table, **given)
    run = parsed.run(frame, **given)
    found = run.matches.toArrow()
    if "output" in options:
        wanted, found = kleene.expand(wanted), kleene.expand(found)
    assert shown(found) == shown(wanted)
    assert wanted.num_rows > 0
    return str(run.distribution)


NEXT = "WHERE skip_till_next_match(a, b[], c)"

SLICED: dict[str, tuple[str, dict[str, Any]]] = {
    "returned": ("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 30 RETURN a.n AS one, b.n AS other", {}),
    "one of another": ("PATTERN SEQ(A a, B+ b[], C c) WITHIN 12 OUTPUT NON-OVERLAP", {"order_by": "n"}),
    "some columns": ("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 30", {"columns": ("b", "match_start")}),
    "some columns of one of another": ("PATTERN SEQ(A a, B b) WITHIN 12 OUTPUT NON-OVERLAP", {"order_by": "n", "columns": "a"}),
    "window of events": ("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 15 EVENTS", {"order_by": "n"}),
    "negated end": ("PATTERN SEQ(A a, B b, !(D d)) WHERE a.x < b.x WITHIN 9", {}),
    "next": (f"PATTERN SEQ(A a, B+ b[], C c) {NEXT} {{ b[i].x > b[i-1].x }} WITHIN 40", {"order_by": "n"}),
    "compressed": ("PATTERN SEQ(A a, B+ b[], C c) WITHIN 14", {"output": "compressed", "plan": {"mechanism": "nfa"}}),
    "aggregated matches": ("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20 AGG COUNT AS n EMIT ON CHANGE", {}),
    "sequence": ("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 20", {}),
    "stacks": ("PATTERN SEQ(A a, B b, C c) WITHIN 12", {"plan": {"mechanism": "sequence"}}),
    "any order": ("PATTERN AND(A a, C c, D d) WHERE a.x = c.x WITHIN 25", {}),
    "negated start": ("PATTERN SEQ(!(D d), A a, B b) WITHIN 9", {}),
    "negation in any order": ("PATTERN AND(A a, C c, !(D d)) WITHIN 8", {}),
    "alternatives": ("PATTERN OR(SEQ(A a, B b), SEQ(C c, D d)) WITHIN 7", {}),
    "contiguous": ("PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { a.x < b.x } WITHIN 40", {"order_by": "n"}),
    "none of another": ("PATTERN SEQ(A a, !(D d), B b) WITHIN 12 OUTPUT NON-OVERLAP", {"order_by": "n"}),
    "after the window": ("PATTERN SEQ(A a, B b, !(D d)) WITHIN 9 OUTPUT NON-OVERLAP", {"order_by": "n"}),
}


@pytest.mark.parametrize("name", mostly_long(SLICED, always=9))
def test_slices_give_the_embedded_matches(name: str, frame: Any, table: pa.Table) -> None:
    query, options = SLICED[name]
    found = both(query, frame, table, **options)
    assert "slices of time" in found, found


def test_wide_events_make_more_slices(frame: Any, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a task bounds its slice: in rows, or where they are wide in bytes."""
    monkeypatch.setattr(slicing, "MOST_ROWS", 1_000)
    monkeypatch.setattr(slicing, "MOST_BYTES", 10_000)
    wide = table.append_column("text", pa.array(["é" * 100] * table.num_rows))
    query = "PATTERN SEQ(A a, B b) WHERE a.{0} <= b.{0} WITHIN 5"

    def slices(given: pa.Table, column: str) -> int:
        return int(both(query.format(column), frame_of(frame.sparkSession, given), given).split()[0])

    assert slices(wide, "text") > slices(table, "x") > 1


@pytest.mark.parametrize("name", mostly_long([name for name in SLICED if name not in ("contiguous", "any order")], always=3))
def test_a_hot_key_is_sliced_alone(name: str, frame: Any, table: pa.Table) -> None:
    query, options = SLICED[name]
    condition = "WHERE [k] AND " if "WHERE a" in query else "{ [k] AND " if "{" in query else None
    if condition is None:
        query = query.replace(" WITHIN", " WHERE [k] WITHIN")
    else:
        query = query.replace("WHERE " if condition.startswith("W") else "{ ", condition)
    if "AGG" in query:
        query = query.replace("AGG", "GROUP BY k AGG")
    found = both(query, frame, table, **options)
    assert found.startswith("by k; k=1 in "), found
    assert "slices of time" in found


TOGETHER = {
    "rising": "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 30",
    "falling": "PATTERN SEQ(A a, B b, C c) WHERE a.x > b.x WITHIN 20",
    "many": "PATTERN SEQ(A a, B+ b[], C c) WITHIN 12",
    "no d": "PATTERN SEQ(A a, B b, !(D d)) WHERE a.x < b.x WITHIN 9",
    "in any order": "PATTERN AND(A a, C c) WHERE a.x + 12 < c.x WITHIN 15",
    "the next": "PATTERN SEQ(C c, D d) WHERE skip_till_next_match(c, d) { c.x < d.x } WITHIN 40",
    "aggregated": "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20 AGG COUNT AS n, MAX(b.x) AS most",
}
"""Queries without a key that share slices."""

BY_KEY = {
    "rising": "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 30",
    "falling": "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x > b.x WITHIN 20",
    "no d": "PATTERN SEQ(A a, B b, !(D d)) WHERE [k] AND [s] WITHIN 9",
    "counted": "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 AGG COUNT AS n GROUP BY k",
    "summed": "PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 20 AGG SUM(c.x) AS n GROUP BY k",
}
"""Queries of one pass by a key, some of whose values are hot."""


def workload_run(queries: dict[str, str], frame: Any, table: pa.Table) -> dict[str, str]:
    """How each query was distributed, after asserting that it has its embedded matches, and some."""
    workload = kleene.workload(queries)
    given = {**ROLES, "order_by": "n"}
    wanted, runs = workload.match(table, **given), workload.run(frame, **given)
    for name, run in runs.items():
        assert shown(run.matches.toArrow()) == shown(wanted[name]), name
        assert wanted[name].num_rows > 0
    runs[next(iter(runs))].unpersist()
    return {name: run.distribution for name, run in runs.items()}


def test_queries_without_a_key_share_slices(frame: Any, table: pa.Table) -> None:
    apart = {"apart": "PATTERN SEQ(A a, C c) WITHIN 9 OUTPUT NON-OVERLAP", "all": "PATTERN SEQ(A a, B b) WITHIN 9 AGG COUNT"}
    found = workload_run({**TOGETHER, **apart}, frame, table)
    assert all("slices of time" in text for text in found.values()), found
    assert {name for name, text in found.items() if text.endswith("; in one pass with 6 more")} == set(TOGETHER)
    passes = str(kleene.workload({**TOGETHER, **apart}).explain_shared(frame, **ROLES)).splitlines()
    assert passes[0] == "9 queries in 3 passes over the events"
    assert passes[3].endswith("no key divides the events: slices of time")


def test_a_hot_key_of_several_queries_is_sliced_alone(frame: Any, table: pa.Table) -> None:
    found = workload_run(BY_KEY, frame, table)
    assert len(set(found.values())) == 1
    assert found["rising"].startswith("by k; k=1 in "), found
    assert "slices of time" in found["rising"]
    assert found["rising"].endswith("; in one pass with 4 more")


def test_a_query_that_is_not_sliced_leaves_the_others_by_key(frame: Any, table: pa.Table) -> None:
    found = workload_run({**BY_KEY, "ever": "PATTERN SEQ(A a, D d) WHERE [k] AND a.x > 16 AND d.x > 16"}, frame, table)
    assert set(found.values()) == {"by k; in one pass with 5 more"}


def test_a_hot_key_of_text(frame: Any, table: pa.Table) -> None:
    assert "s='s1' in " in both("PATTERN SEQ(A a, B b) WHERE [s] WITHIN 9", frame, table)


def test_keys_of_about_the_same_size_are_not(frame: Any, table: pa.Table) -> None:
    assert both("PATTERN SEQ(A a, B b) WHERE [x] WITHIN 60", frame, table) == "by x"


def test_without_a_window_there_is_one_task(frame: Any, table: pa.Table) -> None:
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.x > 17 AND b.x > 17 AND c.x > 17"
    assert both(query, frame, table) == "in one task: without a window a match may reach back to any event"


def test_events_that_tie_come_as_they_are(spark: Any, table: pa.Table) -> None:
    tied = table.set_column(0, "ts", pa.array([value // 3 for value in table.column("ts").to_pylist()]))
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { a.x < b.x } WITHIN 10"
    assert "slices" in both(query, frame_of(spark, tied), tied, ties="arrival")
    with pytest.raises(Exception, match="two events tie at timestamp"):
        kleene.query(query).match(frame_of(spark, tied), **ROLES).toArrow()


def test_bad_rows(spark: Any, table: pa.Table) -> None:
    rows = table.slice(0, 400).to_pylist()
    for row, kind in ((rows[7], "A"), (rows[300], "B")):
        row.update(ts=None, type=kind)
    bad = pa.Table.from_pylist(rows, table.schema)
    parsed = kleene.query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 20")
    with pytest.raises(Exception, match="time column 'ts'"):
        parsed.match(frame_of(spark, bad), **ROLES).toArrow()
    run = parsed.run(frame_of(spark, bad), bad_rows="quarantine", **ROLES)
    assert "slices" in run.distribution
    assert run.bad_rows.count() == 2
    assert shown(run.matches.toArrow()) == shown(parsed.match(bad, bad_rows="drop", **ROLES))


def test_explain_says_how_a_frame_is_distributed(frame: Any) -> None:
    told = str(kleene.query("PATTERN SEQ(A a, B b) WITHIN 20").explain(frame, analyze=True, **ROLES))
    assert "DI  distribution: " in told
    assert "an event goes to" in told
    assert "times the average" in told
    streaming = frame.sparkSession.readStream.format("rate").load()
    with pytest.raises(DataError, match="cannot be looked at before it runs"):
        kleene.query("PATTERN SEQ(E a, E b) WITHIN 20 seconds").explain(streaming, analyze=True, time="timestamp")
