"""A stream as it travels to its tasks: the queries, how their events are spread, and the labels of what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4
from zlib import crc32

import pyarrow as pa

from kleene.common.schema import EventSchema
from kleene.runtime.stream.bucket import BucketPlan, Compiled
from kleene.runtime.stream.budget import Budget
from kleene.runtime.stream.rows import rows_schema, uniform_rows
from kleene.runtime.units import QuerySet

EVENTS, MADE, RULES = "events", "made", "rules"
"""The kinds of what goes into a bucket; all others go through it as they are."""

METRICS = "metrics"
"""The kind of a row that says what a bucket did in a micro-batch."""

LABELLED = (
    "kind string, query string, version int, rows long, blob binary, events long, late long, bad long, ahead long, "
    "waiting long, kept long, runs long, state_rows long, state_bytes long, watermark string, lag_ms long, cpu_ms long, "
    "budget long, suspended long"
)
PACKED = f"group int, {LABELLED}"
LABELS = pa.schema(
    [
        pa.field(name, {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}[kind])
        for name, kind in (item.split() for item in LABELLED.split(", "))
    ]
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Queries whose events may be spread by the same keys, over the groups of the stateful operator."""

    keys: tuple[str, ...]
    queries: QuerySet
    groups: tuple[int, ...]
    """The group of each bucket."""


@dataclass(frozen=True, slots=True)
class Made:
    """How matches of a query become events (`RETURN ... INTO`)."""

    query: str
    event_type: str | int
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What travels to the tasks of a stream, or of one tier of it: queries that read the same events."""

    schema: EventSchema
    events: pa.Schema
    """The columns that travel..."""
    kept: pa.Schema
    """...and those of them that queries read."""
    distributions: tuple[Distribution, ...]
    bad_rows: str
    max_events: int
    """That one bucket may keep."""
    compile: Callable[[str], Compiled] | None = None
    made: tuple[Made, ...] = ()
    """The events of earlier tiers that are read too."""
    lag: int = 0
    """How far this tier stays behind the watermark, because those events come that much later."""
    suspends: bool = False
    """Whether a query that fails is suspended; else it stops the stream."""
    budget: Budget | None = None
    """Of each query, in one bucket and micro-batch."""
    columns: tuple[str, ...] = ()
    """Of the events of the stream."""
    watched: tuple[str, ...] = ()
    """Types of events that later tiers read: if they are late, the first one delivers them."""
    name: str = field(default_factory=lambda: uuid4().hex)

    @property
    def is_first(self) -> bool:
        return not self.made

    def bucket_plans(self) -> dict[int, BucketPlan]:
        """The plan of each group's bucket."""
        found: dict[int, BucketPlan] = {}
        shape = None if self.compile is None else partial(uniform_rows, schema=rows_schema(self.schema, self.kept))
        for number, item in enumerate(self.distributions):
            plan = BucketPlan(
                self.schema,
                self.kept,
                item.queries,
                len(item.groups),
                item.keys,
                self.columns,
                delivers_late=number == 0 and self.is_first,
                compile=self.compile,
                lag=self.lag,
                max_events=self.max_events,
                suspends=self.suspends,
                budget=self.budget,
                shape=shape,
            )
            assert found.keys().isdisjoint(item.groups)
            found |= dict.fromkeys(item.groups, plan)
        return found


def groups_for(keys: Sequence[str], buckets: int) -> tuple[int, ...]:
    """The numbers of the groups of a distribution.

    Spark spreads them evenly over as many shuffle partitions, or a divisor or multiple of that number. They depend on nothing
    else, so that a restart finds them whatever other queries there are, and however the session is set.

    >>> groups_for(["k"], 2)
    (1102906149, 1102906148)
    """
    found: dict[int, int] = {}
    number = crc32(repr(tuple(keys)).encode()) >> 1
    while len(found) < buckets:
        found.setdefault(_partition_of(number, buckets), number)
        number += 1
    return tuple(found[place] for place in range(buckets))


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
