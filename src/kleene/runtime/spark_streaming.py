"""The Spark streaming runtime: a streaming DataFrame in, streaming DataFrames of matches, late events and bad rows out.

Before the shuffle, `mapInArrow` packs the rows of each task into Arrow streams, one for each bucket of keys; the stateful
operator (`transformWithState`) gets and gives a few rows of bytes, however many events and keys there are. A bucket
(`kleene.runtime.stream_bucket`) puts its events in order and matches them. What comes out are labelled Arrow streams, which
another `mapInArrow` turns into rows.

Spark tells how far event time has come: the watermark is that of the events before they are packed, so its own filter of late
rows never sees them, and the bucket decides what is late. A timer of each bucket stands for the next thing that is due.
Nothing of the session is changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from kleene.common.errors import DataError, PlanningError, Problem
from kleene.common.schema import EventSchema
from kleene.runtime.spark_batch import any_of, bad_row_conditions, quoted, relevant_rows, worker_interpreter
from kleene.runtime.stream_bucket import BAD, MATCHES, Bucket, BucketPlan, Compiled, Labelled
from kleene.runtime.stream_state import decode_events, encode_events
from kleene.runtime.stream_units import QuerySet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Array = np.ndarray[Any, Any]

EVENTS, RULES = "events", "rules"
"""The kinds of what goes into a bucket, beside bad rows."""

PACKED = "group int, kind string, rows long, blob binary"
LABELLED = (
    "kind string, query string, version int, rows long, blob binary, events long, late long, bad long, waiting long, "
    "kept long, state_rows long, state_bytes long, lag_ms long"
)
METRICS = "metrics"
"""The kind of a row that says what a bucket did in a micro-batch."""

FLUSHED = 1 << 17
"""So many rows of a task are packed together."""

REMEMBERED = 1 << 23
"""Buckets with so many events together are remembered by a worker process from one micro-batch to the next."""

LATENESS, BUCKET, REASON = "__kleene_time", "__kleene_bucket", "__kleene_reason"


@dataclass(frozen=True, slots=True)
class Distribution:
    """Queries whose events may be spread by the same keys, over the groups of the stateful operator."""

    keys: tuple[str, ...]
    queries: QuerySet
    groups: tuple[int, ...]
    """The group of each bucket."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What travels to the tasks of a stream."""

    schema: EventSchema
    events: pa.Schema
    """The columns that travel."""
    distributions: tuple[Distribution, ...]
    bad_rows: str
    compile: Callable[[str], Compiled] | None = None
    name: str = field(default_factory=lambda: uuid4().hex)

    def bucket_plans(self) -> dict[int, BucketPlan]:
        """The plan of each group's bucket."""
        found: dict[int, BucketPlan] = {}
        for number, item in enumerate(self.distributions):
            plan = BucketPlan(self.schema, self.events, item.queries, len(item.groups), number == 0, self.compile)
            found |= dict.fromkeys(item.groups, plan)
        return found

    def time_of(self, milliseconds: int) -> int:
        """A watermark in the unit of the events' time."""
        return milliseconds * {"us": 1_000, "ns": 1_000_000, None: 1}[self.schema.time_unit]

    def milliseconds(self, due: int) -> int:
        """The first watermark that is not before a time."""
        return -(-due // self.time_of(1))


# --- Before the shuffle -----------------------------------------------------------------------------------------------


def packed(plan: StreamPlan, frame: DataFrame, watermark: str | int | None) -> DataFrame:
    """The events as rows of bytes, by group."""
    events = _watermarked(plan, frame, watermark)
    condition = _relevant(plan, events)
    if condition is not None:
        # A condition on the column of the watermark is not pushed below it, where the watermark would miss the other events.
        events = events.where(condition | events[LATENESS].isNull())
    columns = [events[quoted(name)].alias(f"c{number}") for number, name in enumerate(plan.events.names)]
    buckets = [_bucket(events, item).alias(f"{BUCKET}{number}") for number, item in enumerate(plan.distributions)]
    events = events.select(*columns, *buckets, _reason(plan, events).alias(REASON))
    return events.mapInArrow(_pack(plan), PACKED)


def _watermarked(plan: StreamPlan, frame: DataFrame, watermark: str | int | None) -> DataFrame:
    """The events with their time once more, which has the watermark; one that the user set stays."""
    time = plan.schema.time
    own = frame.schema[time].metadata.get("spark.watermarkDelayMs") is not None
    column = frame[quoted(time)]
    if plan.schema.time_unit is None:
        column = f.timestamp_millis(column)
    frame = frame.withColumn(LATENESS, column)
    if own:
        if watermark is not None:
            message = f"the events have a watermark on '{time}' already"
            raise PlanningError(Problem(message, hint="leave out the option watermark, or the call of withWatermark"))
        return frame
    if watermark is None:
        message = "a stream needs to know how late its events may come"
        raise PlanningError(Problem(message, hint="give watermark='10 seconds', or call withWatermark on the events"))
    delay = f"{watermark} milliseconds" if isinstance(watermark, int) else watermark
    return frame.withWatermark(LATENESS, delay)


def _plans(plan: StreamPlan) -> list[Any]:
    return [item.plan for distribution in plan.distributions for item in distribution.queries.queries]


def _relevant(plan: StreamPlan, frame: DataFrame) -> Any:
    """The rows that some query may read; None if all have to travel."""
    if plan.compile is not None:
        return None
    found = [relevant_rows(item, frame) for item in _plans(plan)]
    wanted = [item for item in found if item is not None]
    return any_of(wanted) if len(wanted) == len(found) else None


def _reason(plan: StreamPlan, frame: DataFrame) -> Any:
    """Why a row cannot be processed, NULL if it can."""
    conditions: dict[str, list[Any]] = {}
    for item in _plans(plan):
        for condition, text in bad_row_conditions(item, frame):
            conditions.setdefault(text, []).append(condition)
    if not conditions:
        conditions[f"time column '{plan.schema.time}' is NULL"] = [frame[quoted(plan.schema.time)].isNull()]
    found: Any = f
    for text, alternatives in conditions.items():
        found = found.when(any_of(alternatives), f.lit(text))
    return found


def _bucket(frame: DataFrame, distribution: Distribution) -> Any:
    """The group of the bucket that a row belongs to."""
    count = len(distribution.groups)
    if count == 1:
        return f.lit(distribution.groups[0])
    number = f.pmod(f.hash(*(frame[quoted(name)] for name in distribution.keys)), f.lit(count))
    return f.element_at(f.array(*map(f.lit, distribution.groups)), number + 1)


def _pack(plan: StreamPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    count = len(plan.events.names)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if rows >= FLUSHED:
                yield _packets(plan, pa.Table.from_batches(held), count)
                held, rows = [], 0
        if rows:
            yield _packets(plan, pa.Table.from_batches(held), count)

    return pack


def _packets(plan: StreamPlan, rows: pa.Table, count: int) -> pa.RecordBatch:
    """Rows as packets, one for each group that has some, and one for bad rows."""
    rows = rows.combine_chunks()
    events = pa.table([rows.column(place).cast(plan.events.field(place).type) for place in range(count)], plan.events.names)
    groups, kinds, sizes, blobs = [], [], [], []
    reasons = rows.column(REASON)
    if reasons.null_count < rows.num_rows:
        bad = pc.is_valid(reasons)
        refused = events.append_column("reason", reasons).filter(bad)
        if plan.bad_rows == "error":
            raise DataError(_bad(refused))
        groups.append(rows.column(f"{BUCKET}0").filter(bad)[0].as_py())
        kinds.append(BAD)
        sizes.append(refused.num_rows)
        blobs.append(_blob(refused) if plan.bad_rows == "quarantine" else None)
        timed = pc.is_valid(events.column(plan.schema.time))
        rows, events = rows.filter(timed).combine_chunks(), events.filter(timed).combine_chunks()
    for number in range(len(plan.distributions)):
        own = rows.column(f"{BUCKET}{number}").to_numpy()
        order = np.argsort(own, kind="stable")
        found, begins = np.unique(own[order], return_index=True)
        spread = events.take(pa.array(order)) if found.size > 1 else events
        for group, begin, end in zip(found.tolist(), begins.tolist(), [*begins.tolist()[1:], own.size], strict=True):
            groups.append(group)
            kinds.append(EVENTS)
            sizes.append(end - begin)
            blobs.append(_blob(spread.slice(begin, end - begin)))
    return pa.record_batch(
        [pa.array(groups, pa.int32()), pa.array(kinds), pa.array(sizes, pa.int64()), pa.array(blobs, pa.binary())],
        ["group", "kind", "rows", "blob"],
    )


def _blob(rows: pa.Table) -> bytes:
    return encode_events(rows.combine_chunks().to_batches()[0])


def _bad(refused: pa.Table) -> Problem:
    first = refused.slice(0, 1).to_pylist()[0]
    reason = first.pop("reason")
    hint = 'bad_rows="quarantine" delivers such rows by themselves, bad_rows="drop" only counts them'
    return Problem(f"{reason}: {first}", hint=hint)


# --- In the stateful operator -----------------------------------------------------------------------------------------


class _SparkStore:
    """The state of the group at hand."""

    def __init__(self, header: Any, log: Any) -> None:
        self._header, self._log = header, log

    def header(self) -> bytes | None:
        found = self._header.get()
        return None if found is None else bytes(found[0])

    def put_header(self, blob: bytes) -> None:
        self._header.update((blob,))

    def segment(self, number: int) -> bytes:
        return bytes(self._log.getValue((number,))[0])

    def put_segment(self, number: int, blob: bytes) -> None:
        self._log.updateValue((number,), (blob,))

    def drop_segment(self, number: int) -> None:
        self._log.removeKey((number,))


class _Remembered:
    """The buckets that this process has worked on last."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, int], Bucket] = OrderedDict()

    def bucket(self, stream: str, group: int, plan: BucketPlan, store: _SparkStore) -> Bucket:
        """The bucket as it was left, if nobody has worked on it since; else made anew from its state."""
        bucket = self._buckets.pop((stream, group), None)
        if bucket is None or not bucket.is_current(store):
            bucket = Bucket(plan, store)
        return bucket

    def keep(self, stream: str, group: int, bucket: Bucket) -> None:
        """Only when all that it did is in the store: a bucket that failed in the middle is not remembered."""
        self._buckets[stream, group] = bucket
        total = sum(item.kept + item.waiting for item in self._buckets.values())
        while total > REMEMBERED and len(self._buckets) > 1:
            _, gone = self._buckets.popitem(last=False)
            total -= gone.kept + gone.waiting


_remembered = _Remembered()


class BucketProcessor(StatefulProcessor):
    """Buckets as the state of Spark's operator."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._store = _SparkStore(
            handle.getValueState("header", "blob binary"), handle.getMapState("log", "number long", "blob binary")
        )
        self._buckets = self._plan.bucket_plans()

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802 - Spark's names
        """Takes in the packets of a bucket."""
        arrived, rules, bad, counted = [], None, 0, 0
        for row in rows:
            if row["kind"] == EVENTS:
                counted += row["rows"]
                arrived.append(decode_events(row["blob"]))
            elif row["kind"] == RULES:
                rules = bytes(row["blob"]).decode()
            else:
                bad += row["rows"]
                if row["blob"] is not None:
                    yield _row(BAD, rows=row["rows"], blob=row["blob"])
        yield from self._process(int(key[0]), arrived, rules, timerValues, events=counted, bad=bad)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, ARG002
        """Something is due, and no event has come."""
        yield from self._process(int(key[0]), [], None, timerValues)

    def _process(self, group: int, arrived: Sequence[pa.Table], rules: str | None, timers: Any, **counts: int) -> Iterator[Row]:
        store, plan = self._store, self._plan
        bucket = _remembered.bucket(plan.name, group, self._buckets[group], store)
        known = timers.getCurrentWatermarkInMs()
        watermark = plan.time_of(known) if known > 0 else None
        before, late = bucket.header.timer, bucket.late
        for item in bucket.process(store, arrived, watermark, rules):
            yield _labelled(item)
        _remembered.keep(plan.name, group, bucket)
        self._set_timer(before, bucket.header.timer)
        segments = bucket.header.segments
        yield _row(
            METRICS,
            **counts,
            late=bucket.late - late,
            waiting=bucket.waiting,
            kept=bucket.kept,
            state_rows=sum(segment.rows for segment in segments),
            state_bytes=sum(segment.size for segment in segments),
            lag_ms=timers.getCurrentProcessingTimeInMs() - known if known > 0 else None,
        )

    def _set_timer(self, before: int | None, due: int | None) -> None:
        milliseconds = self._plan.milliseconds
        if before == due:
            return
        if before is not None:
            self._handle.deleteTimer(milliseconds(before))
        if due is not None:
            self._handle.registerTimer(milliseconds(due))

    def close(self) -> None:
        """Nothing is held that Spark does not know of."""


_NAMES = [item.split()[0] for item in LABELLED.split(", ")]


def _row(kind: str, **values: Any) -> Row:
    return Row(**{name: kind if name == "kind" else values.get(name) for name in _NAMES})


def _labelled(item: Labelled) -> Row:
    return _row(item.kind, query=item.query, version=item.version, rows=item.rows.num_rows, blob=encode_events(item.rows))


def operated(plan: StreamPlan, packets: DataFrame) -> DataFrame:
    """The labelled rows of all buckets, observed."""
    grouped = packets.groupBy("group")
    with worker_interpreter(packets):
        labelled = grouped.transformWithState(BucketProcessor(plan), LABELLED, "append", "eventTime")
    counted = f.when(f.col("kind") == MATCHES, f.col("rows"))
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in ("events", "late", "bad")]
    gauges = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in ("waiting", "kept", "state_rows", "state_bytes")]
    matches = f.coalesce(f.sum(counted), f.lit(0)).alias("matches")
    return labelled.observe("kleene", *sums, matches, *gauges, f.max("lag_ms").alias("watermark_lag_ms"))


# --- After it ---------------------------------------------------------------------------------------------------------


def decoded(labelled: DataFrame, schema: pa.Schema, kind: str, query: str | None = None) -> DataFrame:
    """The rows of one kind, and of one query."""
    chosen = labelled.where(labelled["kind"] == kind)
    if query is not None:
        chosen = chosen.where(chosen["query"] == query)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for item in batch.column("blob"):
                yield from pa.ipc.open_stream(item.as_buffer())

    with worker_interpreter(chosen):
        return chosen.select("blob").mapInArrow(read, from_arrow_schema(schema))


# --- Where groups lie -------------------------------------------------------------------------------------------------


def groups_for(buckets: Sequence[int], partitions: int) -> list[tuple[int, ...]]:
    """Numbers of groups, so many for each distribution, that Spark spreads evenly over shuffle partitions.

    >>> groups_for([2, 1], 2)
    [(1, 0), (2,)]
    """
    taken = [0] * partitions
    most = -(-sum(buckets) // partitions)
    found: list[int] = []
    number = 0
    while len(found) < sum(buckets):
        place = _partition_of(number, partitions)
        if taken[place] < most:
            taken[place] += 1
            found.append(number)
        number += 1
    found.sort(key=lambda item: _partition_of(item, partitions))
    given = iter(found)
    return [tuple(next(given) for _ in range(count)) for count in buckets]


def _partition_of(value: int, partitions: int) -> int:
    """The shuffle partition of an int: Murmur3 with Spark's seed, modulo the number of partitions."""
    mask = 0xFFFFFFFF

    def rotated(word: int, by: int) -> int:
        return ((word << by) | (word >> (32 - by))) & mask

    word = rotated((value & mask) * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    mixed = (rotated(42 ^ word, 13) * 5 + 0xE6546B64) & mask
    mixed ^= 4
    mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & mask
    mixed = ((mixed ^ (mixed >> 13)) * 0xC2B2AE35) & mask
    mixed ^= mixed >> 16
    signed = mixed - (1 << 32) if mixed >> 31 else mixed
    return signed % partitions
