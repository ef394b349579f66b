"""Columns that come to a stream, and events that were kept without them: NULL where the stream did not have them then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import StateError
from kleene.common.schema import schema_of_arrow
from kleene.interfaces.composition.shared import planned_query
from kleene.interfaces.options import options_of
from kleene.runtime.stream.bucket import MATCHES, Bucket, BucketPlan
from kleene.runtime.stream.state import Header, decode_events, digest_of, encode_events
from kleene.runtime.units import QuerySet
from support.rule_buckets import Book, rules_plan
from support.stream_runs import END, MemoryStore, bucket_plan

OPTIONS = {"time": "ts", "type": "type"}
OLD = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())])
NEW = OLD.append(pa.field("y", pa.string()))
QUERIES = {
    "whole": "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20",
    "absent": "PATTERN SEQ(A a, B b, !(C c)) WHERE [k] WITHIN 8",
    "apart": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) { b[i].x > b[i-1].x } "
    "OUTPUT NON-OVERLAP WITHIN 12",
}
COUNTED = {
    "ever": "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT, SUM(b.x) GROUP BY k",
    "alive": "PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG COUNT EMIT ON CHANGE WITHIN 6",
}
ROWS = [{"ts": at, "type": "ABBCABDB"[at % 8], "k": at % 3, "x": at * 7 % 10} for at in range(1, 41)]


def plan_of(queries: dict[str, str], schema: pa.Schema) -> BucketPlan:
    options = options_of(OPTIONS)
    made = [kleene.query(text, name=name) for name, text in queries.items()]
    planned = tuple(planned_query(item, schema, options) for item in made)
    return bucket_plan(QuerySet(planned), schema, schema_of_arrow(schema, **OPTIONS))


def done(bucket: Bucket, store: MemoryStore, rows: list[Any], watermark: int | None, schema: pa.Schema) -> list[str]:
    """What a micro-batch reports, and one that knows of the watermark."""
    arrived = [pa.Table.from_pylist(rows, schema)] if rows else []
    left = [*bucket.process(store, arrived, None), *bucket.process(store, [], watermark)]
    return [f"{item.query} {row}" for item in left if item.kind == MATCHES for row in item.rows.to_pylist()]


def begun(queries: dict[str, str], schema: pa.Schema = OLD) -> tuple[MemoryStore, list[str]]:
    """A stream that has seen 24 events, and waits with five of them; and what it has reported."""
    store = MemoryStore()
    return store, done(Bucket(plan_of(queries, schema), store), store, ROWS[:24], 20, schema)


def batch(queries: dict[str, str], rows: list[Any], schema: pa.Schema = NEW) -> list[str]:
    events = pa.Table.from_pylist(rows, schema)
    found = {name: kleene.query(text, name=name).match(events, **OPTIONS) for name, text in queries.items()}
    return sorted(f"{name} {row}" for name, rows in found.items() for row in rows.to_pylist())


LATER = [{**row, "y": f"y{row['ts']}"} for row in ROWS[24:]]


def test_a_stream_of_whole_events_goes_on_with_a_column_that_is_new() -> None:
    """The column is NULL in events from before it, also where a match has events from before and after."""
    queries = {**QUERIES, **COUNTED}
    store, _ = begun(queries)
    rest = done(Bucket(plan_of(queries, NEW), store), store, LATER, END, NEW)
    wanted = batch(queries, [*ROWS[:24], *LATER])
    mixed = [line for line in wanted if "'y': None" in line and "'y': 'y" in line]
    assert mixed
    assert set(mixed) <= set(rest) <= set(wanted)
    assert {line.split()[0] for line in rest} == set(queries)
    again = MemoryStore(store.blob, dict(store.segments))
    assert Bucket(plan_of(queries, NEW), again).waiting == 0


def test_the_log_goes_on_when_old_and_new_segments_are_merged() -> None:
    store, _ = begun({"whole": QUERIES["whole"]})
    plan = plan_of({"whole": QUERIES["whole"]}, NEW)
    for row in LATER:
        list(Bucket(plan, store).process(store, [pa.Table.from_pylist([row], NEW)], None))
    rest = done(Bucket(plan, store), store, [], END, NEW)
    wanted = batch({"whole": QUERIES["whole"]}, [*ROWS[:24], *LATER])
    assert set(rest) <= set(wanted)
    assert [line for line in wanted if "'y': 'y" in line] == sorted(line for line in rest if "'y': 'y" in line)


def test_a_new_query_reads_null_in_events_from_before_the_column() -> None:
    """It begins at the watermark, and of what it sees only the events that wait are from before."""
    store, _ = begun({"narrow": "PATTERN SEQ(A a, B b) WITHIN 9 RETURN a.x AS x"})
    asked = {"new": "PATTERN SEQ(A a, B b) WHERE a.y IS NULL WITHIN 9 RETURN a.ts AS a, b.y AS y"}
    rest = done(Bucket(plan_of(asked, NEW), store), store, LATER, END, NEW)
    wanted = batch(asked, [row for row in [*ROWS[:24], *LATER] if row["ts"] >= 20])
    assert sorted(rest) == wanted != []


def test_a_column_that_was_there_and_was_not_kept_is_refused_while_events_wait_without_it() -> None:
    narrow = {"narrow": "PATTERN SEQ(A a, B b) WITHIN 9 RETURN a.x AS x"}
    both = {**narrow, "wide": "PATTERN SEQ(A a, B b) WITHIN 9 RETURN a.ts AS a, b.y AS y"}
    store, _ = begun(narrow, NEW)
    with pytest.raises(StateError, match=r"kept without 'y'\n.*new checkpoint folder"):
        Bucket(plan_of(both, NEW), store)
    done(Bucket(plan_of(narrow, NEW), store), store, [], 25, NEW)
    assert store.segments, "the query that was there still needs them"
    rest = done(Bucket(plan_of(both, NEW), store), store, LATER, END, NEW)
    wide = {"wide": both["wide"]}
    assert sorted(line for line in rest if line.startswith("wide")) == batch(wide, LATER) != []


def test_events_that_were_kept_with_more_columns_are_read() -> None:
    store, _ = begun({"whole": QUERIES["whole"]}, NEW)
    assert Bucket(plan_of({"narrow": "PATTERN SEQ(A a, B b) WITHIN 9 RETURN a.x AS x"}, NEW), store).waiting == 5
    assert Bucket(plan_of({"whole": QUERIES["whole"]}, OLD), store).waiting == 5, "a column that is gone"


def test_a_column_of_another_type_is_refused() -> None:
    store, _ = begun({"whole": QUERIES["whole"]})
    other = OLD.set(3, pa.field("x", pa.float64()))
    with pytest.raises(StateError, match=r"kept with 'x' as int64, and now it is double\n.*the type that it had"):
        Bucket(plan_of({"whole": QUERIES["whole"]}, other), store)


def test_a_log_that_does_not_say_which_columns_there_were_is_judged_by_its_queries() -> None:
    """A query that is in the state read all columns that there were, and one that is not may have missed some."""
    store, _ = begun({"whole": QUERIES["whole"]})
    header = Header.decode(store.blob or b"")
    segments = []
    for segment in header.segments:
        (bare,) = decode_events(store.segments[segment.number]).replace_schema_metadata().combine_chunks().to_batches()
        store.segments[segment.number] = encode_events(bare)
        blob = store.segments[segment.number]
        segments.append(replace(segment, size=len(blob), digest=digest_of(blob)))
    store.blob = replace(header, segments=tuple(segments)).encode()
    assert Bucket(plan_of({"whole": QUERIES["whole"]}, NEW), store.copy()).waiting == 5
    with pytest.raises(StateError, match="kept without 'y'"):
        Bucket(plan_of({"new": "PATTERN SEQ(A a, B b) WITHIN 9 RETURN a.y AS y"}, NEW), store.copy())


def test_rules_go_on_with_a_column_that_is_new() -> None:
    store, rules = MemoryStore(), Book()
    text = rules.write({"whole": QUERIES["whole"]})
    bucket = Bucket(rules_plan(OLD), store)
    list(bucket.process(store, [], 1, text))
    list(bucket.process(store, [pa.Table.from_pylist(ROWS[:24], OLD)], 20))
    bucket = Bucket(rules_plan(NEW), store)
    left = [*bucket.process(store, [pa.Table.from_pylist(LATER, NEW)], 20), *bucket.process(store, [], END)]
    values = [[item["event"]["y"] for item in row["events"]] for part in left for row in part.rows.to_pylist()]
    assert [None, "y33"] in values
    assert all(value is None or value.startswith("y") for pair in values for value in pair)
