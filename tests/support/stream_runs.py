"""Streams without Spark: a bucket that is given events out of order, micro-batch by micro-batch, with watermarks, restarts,
replays and timers.

A `Step` is a micro-batch. `schedule` makes the steps of some events: arrival is out of order, watermarks are at and beside the
instants at which something happens, and no event is late unless `with_late` makes it so. `Drive` runs a bucket over them, and
asserts after each one that the log is what the header says, and that there are few segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.schema import EventSchema
from kleene.runtime.stream import log as stream_log
from kleene.runtime.stream import pieces as stream_pieces
from kleene.runtime.stream.bucket import Bucket, BucketPlan, Labelled
from kleene.runtime.stream.log import FEW_MERGED
from kleene.runtime.stream.pieces import Pieces
from kleene.runtime.stream.state import Header
from kleene.runtime.units import QuerySet

END = 1 << 61
"""A watermark after all events."""


@dataclass(slots=True)
class MemoryStore:
    """Keeps the bytes of a bucket; what a bucket does not write is lost with it."""

    blob: bytes | None = None
    segments: dict[int, bytes] = field(default_factory=dict)

    def is_empty(self) -> bool:
        return self.blob is None and not self.segments

    def header(self) -> bytes | None:
        return self.blob

    def put_header(self, blob: bytes) -> None:
        self.blob = blob

    def segment(self, number: int) -> bytes | None:
        return self.segments.get(number)

    def put_segment(self, number: int, blob: bytes) -> None:
        self.segments[number] = blob

    def drop_segment(self, number: int) -> None:
        self.segments.pop(number, None)  # as Spark's state does

    def copy(self) -> MemoryStore:
        return MemoryStore(self.blob, dict(self.segments))


# --- what arrives -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """A micro-batch: the rows that arrive, the watermark, and the rules if they are others from here on."""

    rows: tuple[int, ...]
    watermark: int | None
    rules: str | None = None
    made: tuple[int, ...] = ()
    """Rows that other queries have made, which come up to the lag of the bucket later."""


def schedule(ts: Array, rng: Random, *, windows: Sequence[int] = (), lag: int = 0, keeps_ties: bool = False) -> Iterator[Step]:
    """Micro-batches of events with the given times; the last watermark is after all of them.

    Watermarks are mostly at or beside the times of events, and those plus a window. With a lag, some events are made by others.
    """
    made = np.array([lag > 0 and rng.random() < 0.5 for _ in range(ts.size)], bool)
    order = arrival(ts, rng, np.where(made, lag, 0), keeps_ties)
    points: Array = np.unique([instant + window + by for instant in ts.tolist() for window in (0, *windows) for by in (0, 1)])
    limits = ts + np.where(made, lag, 0)
    watermark: int | None = None
    begin = 0
    while begin < ts.size:
        rows = order[begin : begin + rng.choice((0, 1, 1, 2, 3, 5, ts.size))]
        watermark = _later(rng, watermark, int(limits[order[begin:]].min()), points + rng.choice((0, lag)))
        yield Step(tuple(rows[~made[rows]].tolist()), watermark, made=tuple(rows[made[rows]].tolist()))
        begin += rows.size
    left = [at for at in (points + lag).tolist() if watermark is None or at > watermark]
    for at in sorted(rng.sample(left, min(len(left), rng.choice((0, 3, 30))))):
        yield Step((), at)
    yield Step((), END + lag)


def arrival(ts: Array, rng: Random, lags: Array, keeps_ties: bool) -> Array:
    """The order in which events arrive: each up to a delay and its lag after its time, simultaneous ones in their order if that
    counts.
    """
    span = int(ts.max() - ts.min()) if ts.size else 0
    delay = rng.choice((0, span // 4, span))
    jitter = {instant: rng.randint(0, delay) for instant in sorted(set(ts.tolist()))}
    delays = [rng.randint(0, delay + lag) for lag in lags.tolist()]
    if keeps_ties:
        delays = [jitter[instant] for instant in ts.tolist()]
    within = np.arange(ts.size) if keeps_ties else np.array([rng.random() for _ in range(ts.size)])
    found: Array = np.lexsort((within, ts + np.array(delays, np.int64)))
    return found


def _later(rng: Random, watermark: int | None, limit: int, points: Array) -> int | None:
    """A watermark up to the limit, not before the one there is."""
    if rng.random() < 0.2:
        return watermark
    between = points[(points <= limit) & (points > (points[0] - 1 if watermark is None else watermark))]
    if rng.random() < 0.4 or not between.size:
        return limit if watermark is None else max(limit, watermark)
    return int(between[rng.randrange(between.size)])


def with_late(steps: Sequence[Step], ts: Array, rng: Random) -> tuple[list[Step], dict[int, int]]:
    """The steps with some events that come when the watermark has passed them, and the step of each of these."""
    late: dict[int, int] = {}
    for row in sorted(row for step in steps for row in step.rows):
        passed = [number for number, step in enumerate(steps) if step.watermark is not None and step.watermark > ts[row]]
        if rng.random() < 0.2:
            late[row] = rng.choice(passed)
    found = []
    for number, step in enumerate(steps):
        rows = [row for row in step.rows if row not in late] + [row for row, at in late.items() if at == number]
        rng.shuffle(rows)
        found.append(replace(step, rows=tuple(rows)))
    return found, late


# --- what leaves ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """How a bucket is run; none of it may change what leaves it."""

    rng: Random
    restarts: float = 0.3
    """The share of micro-batches after which the bucket is made anew from its state."""
    replays: float = 0.2
    """The share of micro-batches that are lost, at any place, and done again."""
    timers: bool = False
    """Whether the bucket is called only when something arrives, or the watermark has reached its timer."""
    few: int = FEW_MERGED
    """Segments of the log are merged up to this many rows, longer ones only if there are much longer ones."""


@dataclass(slots=True)
class Drive:
    """A bucket over some steps."""

    plan: BucketPlan
    table: pa.Table
    way: Way
    seen: Callable[[str], None] = lambda _: None
    store: MemoryStore = field(default_factory=MemoryStore)

    def run(self, steps: Sequence[Step]) -> list[tuple[int, Labelled]]:
        """What leaves, with the number of the step."""
        few = self.way.few
        rows = patch.multiple(stream_pieces, FEW_ROWS=0, MOST_ROWS=2)
        with patch.object(stream_log, "FEW_MERGED", few), rows:
            return self._run(steps)

    def _run(self, steps: Sequence[Step]) -> list[tuple[int, Labelled]]:
        found: list[tuple[int, Labelled]] = []
        bucket = Bucket(self.plan, self.store)
        for number, step in enumerate(steps):
            if self.way.timers and not self._is_called(bucket.header, step):
                self.seen("not called")
                continue
            if self.way.timers and not (step.rows or step.made or step.rules):
                self.seen("called by a timer")
            bucket, items = self._done(bucket, step)
            found += [(number, item) for item in items]
            self._check_log(bucket.header)
            if self.way.rng.random() < self.way.restarts:
                bucket = self._restarted(bucket)
        assert bucket.waiting == 0
        return found

    @staticmethod
    def _is_called(header: Header, step: Step) -> bool:
        due = header.timer is not None and step.watermark is not None and step.watermark >= header.timer
        return bool(step.rows or step.made or step.rules) or due

    def _done(self, bucket: Bucket, step: Step) -> tuple[Bucket, list[Labelled]]:
        """Does a micro-batch, some of them twice, of which the first time is lost; the bucket that goes on, and what leaves."""
        if self.way.rng.random() >= self.way.replays:
            return bucket, list(self._process(bucket, self.store, step))
        copy = self.store.copy()
        lost = self._process(bucket, copy, step)
        if self.way.rng.random() < 0.5:
            self.seen("interrupted")
            list(islice(lost, 1))
            first = None
        else:
            self.seen("replayed")
            first = list(lost)
        bucket = Bucket(self.plan, self.store)
        again = list(self._process(bucket, self.store, step))
        assert first is None or shown(first) == shown(again), f"a replay differs: {shown(first)}, then {shown(again)}"
        return bucket, again

    def _process(self, bucket: Bucket, store: MemoryStore, step: Step) -> Iterator[Labelled]:
        cut = len(step.rows) // 2 if len(step.rows) % 3 == 0 else 0
        arrived = [self._taken(rows) for rows in (step.rows[:cut], step.rows[cut:]) if rows]
        made = [self._taken(step.made)] if step.made else []
        return bucket.process(store, arrived, step.watermark, step.rules, made)

    def _taken(self, rows: Sequence[int]) -> pa.Table:
        return self.table.take(pa.array(rows, pa.int64()))

    def _restarted(self, bucket: Bucket) -> Bucket:
        self.seen("restarted")
        found = Bucket(self.plan, self.store)
        assert (found.kept, found.waiting) == (bucket.kept, bucket.waiting), "a restart holds other events"
        return found

    def _check_log(self, header: Header) -> None:
        """The store has what the header says, and lengths of short segments at least halve from one to the next."""
        assert self.store.blob is not None
        assert Header.decode(self.store.blob).nonce == header.nonce
        pieces = [item for unit in header.units for item in Pieces.of(unit.state).pieces]
        sizes = {item.number: item.size for item in (*header.segments, *pieces)}
        assert sizes == {n: len(b) for n, b in self.store.segments.items()}
        if len(pieces) > 1:
            self.seen("several pieces")
        if len(header.segments) > 1:
            self.seen("several segments")
        lengths = [item.rows for item in header.segments]
        if self.way.few == FEW_MERGED:
            assert all(one > 2 * other for one, other in pairwise(lengths)), lengths


def shown(items: Sequence[Labelled]) -> list[str]:
    """What left, to compare: NaN is like NaN, and the order in which plans find matches does not count."""
    return sorted(f"{item.kind} {item.query} {item.version} {row}" for item in items for row in item.rows.to_pylist())


def bucket_plan(queries: QuerySet, events: pa.Schema, schema: EventSchema, **further: Any) -> BucketPlan:
    """One bucket for some queries, which keeps the columns that they read, of those that the events have."""
    plans = [plan for item in queries.queries for plan in (item.plan, item.shared) if plan is not None]
    read = {schema.time, *schema.order_by, *(name for plan in plans for name in plan.columns)}
    return BucketPlan(
        schema, pa.schema([item for item in events if item.name in read]), queries, 1, columns=tuple(events.names), **further
    )
