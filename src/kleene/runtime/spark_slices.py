"""Aggregates of a stream that no key divides, on every core: time is cut into slices, a task for each.

One small job looks at the times of a sample of the relevant rows, when the query is given its DataFrame, and cuts them into
slices of about as many rows each. Everything else is lazy. A first `mapInArrow` packs rows into blocks, each for one slice: its
own, and those that expire in it. Blocks are shuffled by the number of the slice, which costs far less than rows do, and a
second `mapInArrow` sorts and counts each slice. Where slices need summaries of earlier ones (`kleene.engine.slices`), another
`mapInArrow` over the same shuffle makes them, and a broadcast brings them to every task.

There are no summaries of partitions: these are cut into so few slices that none is needed, or else totalled (`spark_totals`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.columns import time_values
from kleene.engine.slices import (
    Extent,
    Slice,
    SliceMatcher,
    SummaryMatcher,
    has_summaries,
    slices_of,
    summarized,
)
from kleene.plan.aggregate import CounterPlan
from kleene.runtime.arrow import batches_of, in_stream_order, match_batches
from kleene.runtime.spark_batch import worker_interpreter
from kleene.runtime.spark_totals import Batches, Restored, totalled_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEWEST_ROWS = 250_000
"""A slice of fewer relevant rows is not worth a task."""

MOST_ROWS = 2_000_000
"""A task holds its slice, and the rows that expire in it, in memory."""

MOST_SLICES = 512

CONNECT_TASKS = 32
"""The most slices on Spark Connect, which does not tell how many cores there are, unless there are very many rows."""

TOTAL_TASKS = 4
"""With fewer tasks (measured: two) sending the changes of totals costs more than counting in parallel saves."""

SAMPLED = 0.02
"""The share of rows that slices are cut by."""

BLOCK_ROWS = 1 << 17
"""The rows of a block, about."""

MOST_WAITING = 1 << 20
"""The most rows that wait for their blocks to be full."""

Array = np.ndarray[Any, Any]


def counted_rows(plan: CounterPlan, events: DataFrame, restored: Restored, bad_rows: str, output: Any) -> DataFrame | None:
    """The lazy rows of a plan over relevant events; None if keys divide them, or one task should count them all."""
    tasks = _parallelism(events)
    if plan.keys or tasks == 1:
        return None
    events = events.toDF(*(f"c{number}" for number in range(len(plan.columns))))
    if hasattr(events, "repartitionById") and (plan.bound.window is not None or has_summaries(plan)):
        times = _times(plan, events)
        slices = _slices(plan, times, tasks)
        if slices is not None and slices[-1].closed:
            slices = _slices(plan, replace(times, last=_last(plan, events)), tasks)
        if slices is not None:
            with worker_interpreter(events):
                return _sliced(plan, events, slices, restored, bad_rows, output)
        if times.events < 2 * FEWEST_ROWS:
            return None
    if not plan.partition or plan.compares_texts or tasks < TOTAL_TASKS:
        return None
    return totalled_rows(plan, events, restored, bad_rows, output)


def _parallelism(frame: DataFrame) -> int:
    session: Any = frame.sparkSession
    if "connect" in type(session).__module__:
        return min(int(session.conf.get("spark.sql.shuffle.partitions")), CONNECT_TASKS)
    return int(session.sparkContext.defaultParallelism)


@dataclass(frozen=True, slots=True)
class _Times:
    """About how many events there are, the first and the last instant of a sample, and instants that divide it evenly."""

    events: int
    first: int
    last: int
    quantiles: Array


def _times(plan: CounterPlan, events: DataFrame) -> _Times:
    time, unit = _time(plan), plan.bound.schema.time_unit
    quantiles = ", ".join(f"{number / MOST_SLICES}D" for number in range(1, MOST_SLICES))
    found = (
        events.where(f"rand() < {SAMPLED}")
        .selectExpr(
            f"count({time}) AS n",
            f"min({time}) AS low",
            f"max({time}) AS high",
            f"percentile_approx({time}, array({quantiles})) AS cuts",
        )
        .toArrow()
    )
    count = found.column("n")[0].as_py()
    if not count:
        return _Times(0, 0, 0, np.empty(0, np.int64))
    first, last = (int(time_values(found.column(name).combine_chunks(), unit)[0]) for name in ("low", "high"))
    quantiles_found = time_values(found.column("cuts").combine_chunks().flatten(), unit)
    return _Times(round(count / SAMPLED), first, last, quantiles_found)


def _last(plan: CounterPlan, events: DataFrame) -> int:
    """The last instant of all events."""
    found = events.selectExpr(f"max({_time(plan)}) AS high").toArrow()
    return int(time_values(found.column("high").combine_chunks(), plan.bound.schema.time_unit)[0])


def _slices(plan: CounterPlan, times: _Times, tasks: int) -> tuple[Slice, ...] | None:
    """The slices of a plan: as many as there are tasks, of neither few events nor very many; where there are no summaries, so
    few that none is needed. None if one task should do all.
    """
    count = min(max(min(tasks, times.events // FEWEST_ROWS), -(-times.events // MOST_ROWS)), MOST_SLICES)
    while count > 1:
        places = np.arange(1, count) * MOST_SLICES // count - 1
        cuts = sorted({cut for cut in times.quantiles[places].tolist() if cut > times.first})
        slices = slices_of(plan, Extent(times.first, times.last, tuple(cuts)))
        if cuts and (has_summaries(plan) or not summarized(slices)):
            return slices
        count //= 2
    return None


def _time(plan: CounterPlan) -> str:
    return f"c{plan.columns.index(plan.bound.schema.time)}"


def _sliced(
    plan: CounterPlan, events: DataFrame, slices: tuple[Slice, ...], restored: Restored, bad_rows: str, output: Any
) -> DataFrame:
    """The rows of all slices."""
    placed = events.mapInArrow(_packed(plan, slices), "slice int, events binary").repartitionById(len(slices), "slice")
    if summarized(slices):
        summaries = placed.mapInArrow(_summary_of_slice(plan, slices, restored), "slice int, summary binary")
        summaries = summaries.selectExpr("collect_list(struct(slice, summary)) AS summaries")
        placed = placed.crossJoin(summaries.hint("broadcast"))
    return placed.mapInArrow(_rows_of_slice(plan, slices, restored, bad_rows), output)


# --- in the tasks -----------------------------------------------------------------------------------------------------


def _packed(plan: CounterPlan, slices: Sequence[Slice]) -> Callable[[Batches], Batches]:
    def packed(batches: Batches) -> Batches:
        blocks = _Blocks(plan, slices)
        for batch in batches:
            yield from blocks.add(batch)
        yield from blocks.finish()

    return packed


class _Blocks:
    """Rows on their way to slices, in blocks."""

    def __init__(self, plan: CounterPlan, slices: Sequence[Slice]) -> None:
        self._time, self._unit = _time(plan), plan.bound.schema.time_unit
        self._begins = np.array([item.since for item in slices])
        led = [item for item in slices if item.leading]
        self._led = np.array([item.number for item in led], np.int64)
        self._lows = np.array([max(item.horizon, slices[item.leading[0]].since) for item in led], np.int64)
        self._highs = np.array([slices[item.leading[-1]].until for item in led], np.int64)
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
        for place in np.flatnonzero((self._lows <= last) & (self._highs > first)):
            leading = (ts >= self._lows[place]) & (ts < self._highs[place])
            if leading.any():
                yield int(self._led[place]), _selected(batch, leading)

    def _block(self, number: int) -> pa.RecordBatch:
        rows = self._waiting.pop(number)
        del self._rows[number]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows[0].schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        block = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        return pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), block], ["slice", "events"])


def _selected(batch: pa.RecordBatch, which: Array) -> pa.RecordBatch:
    return batch if which.all() else batch.filter(pa.array(which))


@dataclass(frozen=True, slots=True)
class _Received:
    """What a task has: the number of its slice, its events in stream order, the summaries of slices."""

    number: int
    events: pa.Table
    summaries: Mapping[int, bytes]


def _received(plan: CounterPlan, batches: Batches) -> _Received | None:
    """The blocks of a task; None if there are none."""
    time = plan.bound.schema.time
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
    named = [block.rename_columns(list(plan.columns)) for block in blocks]
    starts = [pc.min(block.column(time)).as_py() for block in named]  # None: no row has a time
    order = sorted(range(len(named)), key=lambda place: (starts[place] is not None, starts[place]))
    events = pa.concat_tables([named[place] for place in order])
    return _Received(numbers.pop(), in_stream_order(events, plan.bound.schema), summaries)


def _summary_of_slice(plan: CounterPlan, slices: Sequence[Slice], restored: Restored) -> Callable[[Batches], Batches]:
    def summarize(batches: Batches) -> Batches:
        received = _received(plan, batches)
        if received is None:
            return
        matcher = SummaryMatcher(plan)
        events = _own(received.events, plan, slices[received.number])
        list(match_batches(matcher, map(restored, batches_of(events))))
        if matcher.summary is not None:
            summary = pa.array([matcher.summary.to_bytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([pa.array([received.number], pa.int32()), summary], ["slice", "summary"])

    return summarize


def _rows_of_slice(
    plan: CounterPlan, slices: Sequence[Slice], restored: Restored, bad_rows: str
) -> Callable[[Batches], Batches]:
    def rows(batches: Batches) -> Batches:
        received = _received(plan, batches)
        if received is None:
            return
        events = map(restored, batches_of(received.events))
        first = next(events)
        matcher = SliceMatcher(plan, first.schema, slices[received.number], received.summaries, bad_rows=bad_rows)
        yield from match_batches(matcher, chain([first], events))

    return rows


def _own(events: pa.Table, plan: CounterPlan, part: Slice) -> pa.Table:
    """The events that are of the slice itself."""
    schema = plan.bound.schema
    events = events.filter(events.column(schema.time).is_valid())
    if not part.leading:
        return events
    ts = time_values(events.column(schema.time).combine_chunks(), schema.time_unit)
    return events.slice(int(np.searchsorted(ts, part.since, side="left")))
