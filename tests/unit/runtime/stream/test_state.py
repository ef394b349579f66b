"""What a bucket keeps, as bytes: read as it was written, or refused with what to do about it, never misread."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import StateError
from kleene.common.schema import schema_of_arrow
from kleene.interfaces.options import options_of
from kleene.runtime.stream.bucket import LATE, MATCHES, Bucket, BucketPlan
from kleene.runtime.stream.log import PART
from kleene.runtime.stream.state import DIGEST, FORMAT, MAGIC, READ, Header, Segment, UnitState, decode_events, encode_events
from kleene.runtime.units import PlannedQuery, QuerySet
from support.state_formats import in_format
from support.stream_runs import MemoryStore, bucket_plan

STATE = {"masks": pa.array([1, 2, 3]), "names": pa.array(["a", None]), "none": pa.array([], pa.float64())}
HEADER = Header(
    keys=("k", "käse"),
    buckets=4,
    nonce="n1",
    watermark=-5,
    segments=(Segment(0, 7, 3, 100, "0" * 32), Segment(2, 9, 1, 50, "1" * 32)),
    units=(
        UnitState(frozenset(("a@1", "b@2")), None, None),
        UnitState(frozenset(("c@1",)), 3, 2, STATE),
        UnitState(frozenset(), 3, -9, {"one": pa.array([1])}),
    ),
    timer=1 << 60,
    rules='{"q": "PATTERN SEQ(A a, B b) -- é"}',
)

EVENTS = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "A", "B", "B"], "x": [1, 2, 3, 4], "y": [0.5, 1.5, None, 2.5]})


def plan_of(text: str, events: pa.Table = EVENTS, plan: Any = None, **further: Any) -> BucketPlan:
    query = kleene.query(text, name="q")
    made = query.plan_for(events.schema, options_of({"time": "ts", "type": "type", "plan": plan}))
    schema = schema_of_arrow(events.schema, time="ts", type="type")
    return bucket_plan(QuerySet((PlannedQuery("q", made, key=text),)), events.schema, schema, **further)


PAIRS = plan_of("PATTERN SEQ(A a, B b) WITHIN 10 RETURN a.x AS a, b.x AS b")


def found(bucket: Bucket, store: MemoryStore, rows: pa.Table, watermark: int | None, kind: str = MATCHES) -> list[Any]:
    left = bucket.process(store, [rows] if rows.num_rows else [], watermark)
    return [row for item in left if item.kind == kind for row in item.rows.to_pylist()]


def begun(plan: BucketPlan = PAIRS) -> MemoryStore:
    """The store of a bucket that has seen two events, and waits for two."""
    store = MemoryStore()
    bucket = Bucket(plan, store)
    list(bucket.process(store, [EVENTS], None))
    list(bucket.process(store, [], 3))
    return store


# --- the header -------------------------------------------------------------------------------------------------------


def test_a_header_is_read_as_it_was_written() -> None:
    assert Header.decode(HEADER.encode()) == HEADER
    assert Header.decode(Header((), 1, "n").encode()) == Header((), 1, "n")


def test_the_format_is_one_of_those_that_are_read() -> None:
    """What this version writes it reads, and begins with a magic word and the number of the format."""
    assert FORMAT in READ
    assert HEADER.encode().startswith(MAGIC + struct.pack("<H", FORMAT))


@pytest.mark.parametrize("blob", [b"", b"KLEEN", b"SOMETHING ELSE", MAGIC, MAGIC + b"\x01", b"kleene" + HEADER.encode()[6:]])
def test_what_kleene_has_not_written_is_refused(blob: bytes) -> None:
    with pytest.raises(StateError, match=r"not written by Kleene\n.*new checkpoint folder"):
        Header.decode(blob)


@pytest.mark.parametrize("number", [0, FORMAT + 1, 65535])
def test_another_format_is_refused_with_what_to_do(number: int) -> None:
    blob = MAGIC + struct.pack("<H", number) + HEADER.encode()[len(MAGIC) + 2 :]
    with pytest.raises(StateError) as raised:
        Header.decode(blob)
    message = f"the checkpoint's state has format {number}, this version of Kleene reads 1, 2"
    assert message in str(raised.value)
    assert "run the version that wrote it, or begin with a new checkpoint folder" in str(raised.value)


def test_bytes_that_are_missing_or_too_many_are_noticed() -> None:
    """Wherever the end is: also where a unit's whole state is missing, which would read as none."""
    blob = HEADER.encode()
    for size in range(len(MAGIC) + 6, len(blob)):
        with pytest.raises(StateError, match="damaged"):
            Header.decode(blob[:size])
    with pytest.raises(StateError, match="damaged"):
        Header.decode(blob + b"\x00")


@pytest.mark.parametrize(
    ("written", "changed", "told"),
    [
        (b'"segments"', b'"sediment"', "'sediment', 'segments'"),
        (b'"buckets": 4', b'"buckets": 0', "no buckets"),
        (b'"buckets": 4', b'"buckets": -4', "-4 where a number belongs"),
        (b'"buckets": 4', b'"buckets": 4.0', "4.0 where a number belongs"),
        (b'"watermark": -5', b'"watermark": "5"', "'5' where a time belongs"),
        (b'"watermark": -5', b'"watermark": true', "True where a time belongs"),
        (b'"timer": 1152921504606846976', b'"timer": 11529215046068469760', "where a time belongs"),
        (b'"last": 7', b'"last": null', "a segment without a time"),
        (b'"last": 7', b'"size": 7', "'last'"),
        (b'"number": 2', b'"number": 0', "segments are not in order"),
        (b'"rows": 3', b'"rows": 0', "a segment without rows"),
        (b'"patterns"', b'"pattern"', "a state of 'pattern'"),
        (b'"a@1", "b@2"', b'"c@1", "b@2"', "a query is there twice"),
        (b'"keys": ["k"', b'"keys": [5', "where names belong"),
        (b'"nonce": "n1"', b'"nonce": 1', "a nonce that is no text"),
        (b"[[", b"[" * 100_000, "recursion"),
    ],
)
def test_a_description_that_is_not_one_is_refused_in_every_format(written: bytes, changed: bytes, told: str) -> None:
    """Format 1 has no digest: what is decoded is looked at."""
    for number in READ:
        blob = in_format(HEADER, number, lambda text: text.replace(written, changed, 1))
        with pytest.raises(StateError, match=re.escape(told)) as raised:
            Header.decode(blob)
        assert "bring back a copy of it" in str(raised.value)


@pytest.mark.parametrize("number", READ)
def test_a_header_of_each_format_is_read(number: int) -> None:
    found = Header.decode(in_format(HEADER, number))
    wanted = HEADER if number > 1 else replace(HEADER, segments=tuple(replace(item, digest=None) for item in HEADER.segments))
    assert found == wanted


@pytest.mark.parametrize(("one", "other"), [(1, 2), (2, 1)])
def test_a_format_is_not_taken_for_another(one: int, other: int) -> None:
    """Also where the digest is gone with the number: the description says which format it has."""
    blob = in_format(HEADER, one)
    renumbered = MAGIC + struct.pack("<H", other)
    for begin in (len(renumbered), len(renumbered) + DIGEST):
        with pytest.raises(StateError, match="damaged"):
            Header.decode(renumbered + blob[begin:])


def test_every_byte_counts() -> None:
    blob = HEADER.encode()
    for place in range(len(blob)):
        changed = bytearray(blob)
        changed[place] ^= 1 << place % 8
        with pytest.raises(StateError):
            Header.decode(bytes(changed))


def test_events_are_read_as_they_were_written() -> None:
    columns = {"d": pa.array(["u", None, "v"]).dictionary_encode(), "t": pa.array([1, None, 3], pa.timestamp("us", "UTC"))}
    batch = pa.record_batch({**columns, "l": pa.array([[1], [], None])})
    assert decode_events(encode_events(batch)).combine_chunks().to_batches() == [batch]


# --- a bucket that goes on --------------------------------------------------------------------------------------------


def test_a_bucket_goes_on_from_its_bytes() -> None:
    store = begun()
    bucket = Bucket(PAIRS, store)
    assert (bucket.header.watermark, bucket.waiting, bucket.kept) == (3, 2, 2)
    rows = found(bucket, store, EVENTS.slice(0, 0), 4)
    assert sorted((row["a"], row["b"]) for row in rows) == [(1, 3), (2, 3)]
    assert found(bucket, store, EVENTS.slice(0, 0), 4) == []


def test_another_number_of_buckets_is_refused() -> None:
    with pytest.raises(StateError, match=r"spread over 1 buckets, this stream over 8\n.*give buckets=1"):
        Bucket(replace(PAIRS, buckets=8), begun())


def test_other_keys_are_refused() -> None:
    with pytest.raises(StateError, match=r"spread by nothing, this stream by x\n.*new checkpoint folder"):
        Bucket(replace(PAIRS, keys=("x",)), begun())


def test_a_segment_that_is_cut_off_is_noticed() -> None:
    """An Arrow stream that ends before its rows reads as one without rows."""
    store = begun()
    ((number, blob),) = store.segments.items()
    empty = encode_events(pa.RecordBatch.from_pylist([], decode_events(blob).schema))
    assert decode_events(empty).num_rows == 0
    for cut in (empty, blob[:-1], blob[: len(blob) // 2], blob + b"\0", blob[:-9] + b"\7" + blob[-8:]):
        store.segments[number] = cut
        with pytest.raises(StateError, match="damaged"):
            Bucket(PAIRS, store)


def test_blobs_that_were_exchanged_are_noticed() -> None:
    """A segment that is missing, or of another time; a header without its segments; the state of another bucket."""
    store = begun()
    one, two = store.copy(), store.copy()
    one.segments.clear()
    with pytest.raises(StateError, match=r"segment 0 of its events is missing"):
        Bucket(PAIRS, one)
    later = pa.table({"ts": [9, 9], "type": ["A", "A"], "x": [9, 9], "y": [9.0, 9.0]})
    list(Bucket(PAIRS, two).process(two, [later], 3))
    assert two.segments.keys() == store.segments.keys()
    for header, segments in ((two.blob, store.segments), (store.blob, two.segments)):
        with pytest.raises(StateError, match="segment 0 of its events is not as it was written"):
            Bucket(PAIRS, MemoryStore(header, dict(segments)))
    with pytest.raises(StateError, match="its header is missing"):
        Bucket(PAIRS, MemoryStore(None, store.segments))
    with pytest.raises(StateError, match="it is that of bucket 0, not of 7"):
        Bucket(PAIRS, store, 7)


def test_a_column_with_another_type_is_refused_or_widened() -> None:
    store = begun()
    wide = EVENTS.schema.set(2, pa.field("x", pa.int32()))
    assert Bucket(plan_of("PATTERN SEQ(A a, B b) WITHIN 10 RETURN a.x AS a, b.x AS b", wide.empty_table()), store).waiting == 2
    text = EVENTS.schema.set(2, pa.field("x", pa.string()))
    with pytest.raises(StateError, match=r"kept with 'x' as int64, and now it is string\n.*the type that it had"):
        Bucket(plan_of("PATTERN SEQ(A a, B b) WITHIN 10 RETURN a.x AS a, b.x AS b", text.empty_table()), store)


def test_a_query_that_is_added_at_a_restart_begins_at_the_watermark() -> None:
    """The others go on, with what they have seen."""
    store = begun()
    (known,) = PAIRS.queries.queries
    both = replace(PAIRS, queries=QuerySet((known, replace(known, name="new", key="new"))))
    left = list(Bucket(both, store).process(store, [], 5))
    assert {(item.query, row["a"], row["b"]) for item in left for row in item.rows.to_pylist()} == {
        ("q", 1, 3), ("q", 1, 4), ("q", 2, 3), ("q", 2, 4),
    }  # fmt: skip
    more = pa.table({"ts": [6, 7], "type": ["A", "B"], "x": [6, 7], "y": [0.0, 0.0]})
    list(Bucket(both, store).process(store, [more], 5))
    left = list(Bucket(both, store).process(store, [], 8))
    assert sorted((item.query, row["a"]) for item in left for row in item.rows.to_pylist()) == [
        ("new", 6), ("q", 1), ("q", 2), ("q", 6),
    ]  # fmt: skip


def test_the_nonce_tells_what_was_written_last() -> None:
    store = begun()
    one, other = Bucket(PAIRS, store), Bucket(PAIRS, store)
    assert one.is_current(store)
    list(other.process(store, [], 4))
    assert other.is_current(store)
    assert not one.is_current(store)
    assert not one.is_current(MemoryStore())


def test_a_watermark_does_not_go_back() -> None:
    store = begun()
    bucket = Bucket(PAIRS, store)
    assert found(bucket, store, EVENTS.slice(0, 0), None) == []
    assert found(bucket, store, EVENTS.slice(0, 0), 2) == []
    assert bucket.header.watermark == 3


@pytest.mark.parametrize("watermark", [None, 2, 3])
def test_an_event_is_late_by_the_watermark_that_was_reached(watermark: int | None) -> None:
    store = begun()
    assert [row["ts"] for row in found(Bucket(PAIRS, store), store, EVENTS.slice(1, 2), watermark, LATE)] == [2]


def test_counters_of_a_window_go_on_from_its_events() -> None:
    """Also where these were kept for matches, as they were for EMIT ON CHANGE with negation at the end."""
    text = "PATTERN SEQ(A a, !(B b)) AGG COUNT EMIT ON CHANGE WITHIN {}"
    store = begun(plan_of(text.format(10), plan={"mechanism": "matches"}))
    assert Header.decode(store.header() or b"").units[0].kind == "matches"
    counted = plan_of(text.format(10))
    bucket = Bucket(counted, store)
    assert found(bucket, store, pa.table({"ts": [9], "type": ["A"], "x": [0], "y": [0.0]}), None) == []
    assert found(bucket, store, EVENTS.slice(0, 0), 30) == [
        {"query": "q", "at": 9, "count": 1},
        {"query": "q", "at": 19, "count": 0},
    ]
    assert bucket.header.units[0].kind == "counters"
    store = begun(plan_of("PATTERN SEQ(A a, B b) AGG COUNT", plan={"mechanism": "matches"}))
    with pytest.raises(StateError, match=r"has the state of matches .* goes on from counters"):
        Bucket(plan_of("PATTERN SEQ(A a, B b) AGG COUNT"), store)


def test_simultaneous_events_stay_in_their_order_of_arrival() -> None:
    """In segments that are merged, after a restart, and until they are released."""
    query = kleene.query("PATTERN SEQ(A a, B b) WITHIN 2 EVENTS RETURN a.x AS a, b.x AS b", name="q")
    made = query.plan_for(EVENTS.schema, options_of({"time": "ts", "type": "type", "ties": "arrival"}))
    schema = schema_of_arrow(EVENTS.schema, time="ts", type="type")
    plan = bucket_plan(QuerySet((PlannedQuery("q", made, key="q"),)), EVENTS.schema, schema)
    store = MemoryStore()
    for place, kind in enumerate("ABABBA"):
        row = pa.table({"ts": [5], "type": [kind], "x": [place], "y": [0.0]})
        list(Bucket(plan, store).process(store, [row], None))
    assert [(row["a"], row["b"]) for row in found(Bucket(plan, store), store, EVENTS.slice(0, 0), 6)] == [(0, 1), (2, 3)]


def test_there_are_few_segments_and_none_is_most_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the log is, and what is written again is a small multiple of what comes."""
    monkeypatch.setattr("kleene.runtime.stream.log.FEW_MERGED", 8)
    store, written = MemoryStore(), 0
    bucket = Bucket(PAIRS, store)
    for instant in range(300):
        row = pa.table({"ts": [instant], "type": ["B"], "x": [0], "y": [0.0]})
        list(bucket.process(store, [row], None))
        written += bucket.header.segments[-1].rows
        lengths = [item.rows for item in bucket.header.segments]
        assert sum(lengths) == instant + 1
        assert len(lengths) <= PART * (2 + math.log2(1 + sum(lengths) / 8))
        assert max(lengths) <= max(8, sum(lengths) // PART)
    assert written <= 300 * 8
    assert Bucket(PAIRS, store).waiting == 300
    list(bucket.process(store, [], 2_000))
    assert store.segments == {}
