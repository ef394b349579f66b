"""The log of a bucket: its recent events in segments, each of which is written once and never changed.

Segments are written as events arrive, so they overlap in time; read together they are in stream order. The last ones are merged
while they are about as long, so that there are few of them, and each is dropped as soon as none of its events matters.

A segment says which columns the stream had when it was written. A column that the stream has got since then is NULL in its
events; one that was there and was not kept is missing, which is refused where it matters.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.columns import time_values
from kleene.common.errors import FRESH, Problem, StateError, damaged
from kleene.common.schema import EventSchema
from kleene.runtime.embedded import in_stream_order
from kleene.runtime.stream.state import Segment, Store, digest_of, encode_events, read_events

FEW_MERGED, MOST_MERGED = 1 << 10, 1 << 18
"""Segments of the log with few rows are always merged, with many never."""

MOST_WRITTEN = 1 << 20
"""Rows of one segment: what a state store takes at once is bounded."""

PART = 8
"""Segments between them are merged while they are less than this part of the log: what can go, goes soon."""

_ALIKE = pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp
"""Sorts of types within which values keep their meaning."""


COLUMNS = b"columns"
"""Under this name the columns of the stream are in the metadata of a segment."""


class EventLog:
    """The events that are kept, in a store."""

    def __init__(
        self,
        schema: EventSchema,
        events: pa.Schema,
        segments: tuple[Segment, ...],
        *,
        columns: Sequence[str] = (),
        read_before: Collection[str] = (),
        watermark: int | None = None,
    ) -> None:
        """`events` has the columns that are kept, of `columns` that the stream has.

        Queries that are in the state read `read_before`, and have been given the events before the watermark.
        """
        self._schema = schema
        self._events = events
        self.segments = segments
        self._columns = json.dumps([*columns]).encode()
        self._read_before = frozenset(read_before)
        self._watermark = watermark

    @property
    def rows(self) -> int:
        """How many events are in the log."""
        return sum(segment.rows for segment in self.segments)

    @property
    def last(self) -> int | None:
        """The time of the latest event; None if there is none."""
        return max((segment.last for segment in self.segments), default=None)

    def times(self, events: pa.Table) -> Array:
        """The times of events as numbers."""
        column = events.column(self._schema.time)
        return time_values(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0), self._schema.time_unit)

    def ordered(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Events of some tables in stream order; simultaneous ones in the order in which they are given."""
        return in_stream_order(pa.concat_tables(tables), self._schema)

    # Reading

    def read(self, store: Store) -> pa.Table:
        """The events of the log in stream order."""
        return self.ordered([self._read(store, item) for item in self.segments] or [self._events.empty_table()])

    def divided(self, store: Store, watermark: int | None) -> tuple[pa.Table, pa.Table]:
        """The events that have been given to the matchers, and those that wait for the watermark."""
        log = self.read(store)
        released = 0 if watermark is None else int(np.searchsorted(self.times(log), watermark))
        return log.slice(0, released), log.slice(released)

    def _read(self, store: Store, segment: Segment) -> pa.Table:
        table = read_events(store.segment(segment.number), segment)
        missing = [item for item in self._events if item.name not in table.schema.names]
        if missing:
            self._require_absent([item.name for item in missing], segment, table.schema)
        for item in missing:
            table = table.append_column(item, pa.nulls(table.num_rows, item.type))
        kept = self._typed(table.select(self._events.names))
        self._require_times(kept, segment)
        return kept

    def _require_absent(self, missing: Sequence[str], segment: Segment, schema: pa.Schema) -> None:
        """That the stream had no such columns, or that no query will see these events that reads them."""
        known = (schema.metadata or {}).get(COLUMNS)
        had = [name for name in missing if (name not in self._read_before if known is None else name in json.loads(known))]
        if had and (self._watermark is None or segment.last >= self._watermark):
            message = f"the events in the checkpoint have no column {', '.join(repr(name) for name in had)}"
            hint = "the queries that wrote them did not read it: begin with a new checkpoint folder, or without that query"
            raise StateError(Problem(message, hint=hint))

    def _typed(self, events: pa.Table) -> pa.Table:
        """Events with the types of today's: as they are, or of the same sort and with the same values."""
        if events.schema.types == self._events.types:
            return pa.Table.from_arrays(events.columns, schema=self._events)
        for item, now in zip(events.schema, self._events, strict=True):
            if item.type != now.type and not any(like(item.type) and like(now.type) for like in _ALIKE):
                message = f"events in the checkpoint were kept with '{item.name}' as {item.type}, and now it is {now.type}"
                raise StateError(Problem(message, hint=f"give the column the type that it had, or {FRESH}"))
        try:
            return events.cast(self._events)
        except pa.ArrowInvalid as error:
            message = f"events in the checkpoint have values that do not fit the types of now: {error}"
            raise StateError(Problem(message, hint=f"give the columns the types that they had, or {FRESH}")) from error

    def _require_times(self, events: pa.Table, segment: Segment) -> None:
        """That the times are those that the header knows; of what has a digest they are."""
        if segment.digest is None:
            times = events.column(self._schema.time)
            if times.null_count or int(self.times(events).max()) != segment.last:
                raise damaged(f"the times of segment {segment.number} are not those that it was written with")

    def adopt(self, store: Store) -> None:
        """Rewrites segments of a format without digests with digests, if their form shows no damage."""
        for place, segment in enumerate(self.segments):
            if segment.digest is None:
                self._read(store, segment)
                blob = encode_events(read_events(store.segment(segment.number), segment).to_batches()[0])
                store.put_segment(segment.number, blob)
                adopted = replace(segment, size=len(blob), digest=digest_of(blob))
                self.segments = (*self.segments[:place], adopted, *self.segments[place + 1 :])

    # Writing

    def write(self, store: Store, events: pa.Table) -> None:
        """Adds events."""
        for begin in range(0, events.num_rows, MOST_WRITTEN):
            self._write(store, events.slice(begin, MOST_WRITTEN))

    def _write(self, store: Store, events: pa.Table) -> None:
        """Writes a segment; the last ones are merged while they are about as long, so that there are not many."""
        segments = list(self.segments)
        number = segments[-1].number + 1 if segments else 0
        total = sum(segment.rows for segment in segments) + events.num_rows
        most = min(max(FEW_MERGED, total // PART), MOST_MERGED)
        while segments and segments[-1].rows <= 2 * events.num_rows and segments[-1].rows + events.num_rows <= most:
            merged = segments.pop()
            events = pa.concat_tables([self._read(store, merged), events])
            store.drop_segment(merged.number)
            number = merged.number
        described = events.combine_chunks().replace_schema_metadata({COLUMNS: self._columns})
        blob = encode_events(described.to_batches()[0])
        store.put_segment(number, blob)
        segments.append(Segment(number, int(self.times(events).max()), events.num_rows, len(blob), digest_of(blob)))
        self.segments = tuple(segments)

    def prune(self, store: Store, horizon: int) -> None:
        """Drops the segments whose events are all at or before the horizon."""
        kept = []
        for segment in self.segments:
            if segment.last > horizon:
                kept.append(segment)
            else:
                store.drop_segment(segment.number)
        self.segments = tuple(kept)

    def compact(self, store: Store, horizon: int) -> None:
        """Writes the log again, without events at or before the horizon."""
        log = self.read(store)
        for segment in self.segments:
            store.drop_segment(segment.number)
        self.segments = ()
        self.write(store, log.slice(int(np.searchsorted(self.times(log), horizon, side="right"))))
