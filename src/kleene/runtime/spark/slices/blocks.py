"""Events on their way to slices of time: packed into blocks, each for one slice, and put together again in its task.

Shuffling blocks costs far less than shuffling rows. A block is an Arrow stream; its columns are c0, c1, ... as those of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import time_values
from kleene.common.schema import EventSchema
from kleene.plan.distribution.slicing import Slice
from kleene.runtime.embedded import Batches, in_stream_order
from kleene.runtime.stream.state import encode_events

BLOCK_ROWS = 1 << 17
"""The rows of a block, about."""

MOST_WAITING = 1 << 20
"""The most rows that wait for their blocks to be full."""


def packed(batches: Batches, slices: Sequence[Slice], time: str, unit: str | None) -> Batches:
    """The blocks of events, as rows of (slice, events)."""
    blocks = _Blocks(slices, time, unit)
    for batch in batches:
        yield from blocks.add(batch)
    yield from blocks.finish()


class _Blocks:
    """Rows that wait for their blocks to be full."""

    def __init__(self, slices: Sequence[Slice], time: str, unit: str | None) -> None:
        self._time, self._unit = time, unit
        self._begins = np.array([item.since for item in slices])
        self._lows, self._highs = (np.array(ends) for ends in zip(*((item.low, item.high) for item in slices), strict=True))
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._rows: dict[int, int] = {}

    def add(self, batch: pa.RecordBatch) -> Batches:
        """Takes rows in; yields blocks that are full, and all blocks when there are many."""
        if not batch.num_rows:
            return
        for number, rows in self._places(batch):
            self._waiting.setdefault(number, []).append(rows)
            self._rows[number] = self._rows.get(number, 0) + rows.num_rows
            if self._rows[number] >= BLOCK_ROWS:
                yield self._block(number)
        if sum(self._rows.values()) >= MOST_WAITING:
            yield from self.finish()

    def finish(self) -> Batches:
        for number in list(self._waiting):
            yield self._block(number)

    def _places(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """(slice, rows for it); bad rows without a time go to the first slice."""
        time = batch.column(self._time)
        if time.null_count:
            missing = time.is_null()
            yield 0, batch.filter(missing)
            batch = batch.filter(pc.invert(missing))
            if not batch.num_rows:
                return
        ts = time_values(batch.column(self._time), self._unit)
        first, last = int(ts.min()), int(ts.max())
        low, high = (int(np.searchsorted(self._begins, instant, side="right")) - 1 for instant in (first, last))
        if low == high:
            yield low, batch
        else:
            numbers = np.searchsorted(self._begins, ts, side="right") - 1
            for number in np.unique(numbers).tolist():
                yield number, _selected(batch, numbers == number)
        for number in np.flatnonzero((self._lows <= last) & (self._highs > first)).tolist():
            leading = (ts >= self._lows[number]) & (ts < self._highs[number])
            if leading.any():
                yield number, _selected(batch, leading)

    def _block(self, number: int) -> pa.RecordBatch:
        rows = self._waiting.pop(number)
        del self._rows[number]
        block = pa.array([encode_events(*rows)], pa.binary())
        return pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), block], ["slice", "events"])


def _selected(batch: pa.RecordBatch, which: Array) -> pa.RecordBatch:
    return batch if which.all() else batch.filter(pa.array(which))


@dataclass(frozen=True, slots=True)
class Received:
    """What a task has: the number of its slice, its events in stream order, the summaries of slices."""

    number: int
    events: pa.Table
    summaries: Mapping[int, bytes]


def received(
    batches: Batches, columns: Sequence[str], schema: EventSchema, restored: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Received | None:
    """The blocks of a task, in stream order, each batch `restored` to the events' own columns; None if there are none."""
    blocks: list[pa.Table] = []
    numbers: set[int] = set()
    summaries: dict[int, bytes] = {}
    for batch in batches:
        numbers.update(batch.column("slice").to_pylist())
        blocks += [pa.ipc.open_stream(block.as_buffer()).read_all() for block in batch.column("events")]
        if "summaries" in batch.schema.names and not summaries and batch.num_rows:
            summaries = {item["slice"]: item["summary"] for item in batch.column("summaries")[0].as_py()}
    if not blocks:
        return None
    if len(numbers) > 1:
        raise AssertionError("a task has several slices")
    named = [block.rename_columns(list(columns)) for block in blocks]
    starts = [pc.min(block.column(schema.time)).as_py() for block in named]  # None: no row has a time
    order = sorted(range(len(named)), key=lambda place: (starts[place] is not None, starts[place]))
    events = pa.concat_tables([named[place] for place in order])
    ordered = in_stream_order(events, schema)
    return Received(numbers.pop(), pa.Table.from_batches(map(restored, ordered.to_batches())), summaries)
