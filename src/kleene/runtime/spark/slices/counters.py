"""Aggregates of a stream that no key divides, on every core: time is cut into slices, a task for each.

One small job looks at the times of a sample of the relevant rows, when the query is given its DataFrame, and cuts them into
slices of about as many rows each. Everything else is lazy. A first `mapInArrow` packs rows into blocks, each for one slice: its
own, and those that expire in it. Blocks are shuffled by the number of the slice, which costs far less than rows do, and a
second `mapInArrow` sorts and counts each slice. Where slices need summaries of earlier ones (`kleene.engine.counting.slices`),
another `mapInArrow` over the same shuffle makes them, and a broadcast brings them to every task.

There are no summaries of partitions: these are cut into so few slices that none is needed, or else totalled (`totals`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kleene.common.columns import time_values
from kleene.engine.counting.slices import (
    Extent,
    Slice,
    SliceMatcher,
    SummaryMatcher,
    has_summaries,
    slices_of,
    summarized,
)
from kleene.plan.counting.counters import CounterPlan
from kleene.runtime.embedded import Batches, batches_of, match_batches, rows_of
from kleene.runtime.spark.frame import Answer, Restored, numbered, worker_interpreter
from kleene.runtime.spark.slices import times as spark_times
from kleene.runtime.spark.slices.blocks import packed, received
from kleene.runtime.spark.slices.times import MOST_SLICES, Times, parallelism, sampled_times, time_column
from kleene.runtime.spark.slices.totals import totalled_rows
from kleene.runtime.spark.versions import placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOTAL_TASKS = 4
"""With fewer tasks (measured: two) sending the changes of totals costs more than counting in parallel saves."""


def counted_rows(plan: CounterPlan, events: DataFrame, restored: Restored, bad_rows: str, output: Any) -> Answer | None:
    """The lazy rows of a plan over relevant events; None if keys divide them, or one task should count them all."""
    tasks = parallelism(events)
    if plan.keys or tasks == 1:
        return None
    events = numbered(events)
    if plan.bound.window is not None or has_summaries(plan):
        times = sampled_times(events, time_column(plan), plan.bound.schema.time_unit)
        slices = _slices(plan, times, tasks)
        if slices is not None and slices[-1].closed:
            slices = _slices(plan, replace(times, last=_last(plan, events)), tasks)
        if slices is not None:
            with worker_interpreter(events):
                rows = _sliced(plan, events, slices, restored, bad_rows, output)
            return Answer(rows, f"{len(slices)} slices of time, about {times.events:,} events")
        if times.events < 2 * spark_times.FEWEST_ROWS:
            return None
    if not plan.partition or plan.compares_texts or plan.ends_at_expiry or tasks < TOTAL_TASKS:
        return None
    rows = totalled_rows(plan, events, restored, bad_rows, output)
    return Answer(rows, f"by {', '.join(plan.partition)}, and the totals of all in one task")


def _last(plan: CounterPlan, events: DataFrame) -> int:
    """The last instant of all events."""
    found = events.selectExpr(f"max({time_column(plan)}) AS high").toArrow()
    return int(time_values(found.column("high").combine_chunks(), plan.bound.schema.time_unit)[0])


def _slices(plan: CounterPlan, times: Times, tasks: int) -> tuple[Slice, ...] | None:
    """The slices of a plan: as many as there are tasks, of neither few events nor very many; where there are no summaries, so
    few that none is needed. None if one task should do all.
    """
    fewest, most = times.events // spark_times.FEWEST_ROWS, -(-times.events // times.most_rows)
    count = min(max(min(tasks, fewest), most), MOST_SLICES)
    while count > 1:
        cuts = times.cuts(count)
        slices = slices_of(plan, Extent(times.first, times.last, tuple(cuts)))
        if cuts and (has_summaries(plan) or not summarized(slices)):
            return slices
        count //= 2
    return None


def _sliced(
    plan: CounterPlan, events: DataFrame, slices: tuple[Slice, ...], restored: Restored, bad_rows: str, output: Any
) -> DataFrame:
    """The rows of all slices."""
    packing = partial(packed, slices=slices, time=time_column(plan), unit=plan.bound.schema.time_unit)
    blocks = placed(events.mapInArrow(packing, "slice int, events binary"), len(slices), "slice")
    if summarized(slices):
        summaries = blocks.mapInArrow(_summary_of_slice(plan, slices, restored), "slice int, summary binary")
        summaries = summaries.selectExpr("collect_list(struct(slice, summary)) AS summaries")
        blocks = blocks.crossJoin(summaries.hint("broadcast"))
    return blocks.mapInArrow(_rows_of_slice(plan, slices, restored, bad_rows), output)


# --- in the tasks -----------------------------------------------------------------------------------------------------


def _summary_of_slice(plan: CounterPlan, slices: Sequence[Slice], restored: Restored) -> Callable[[Batches], Batches]:
    def summarize(batches: Batches) -> Batches:
        own = received(batches, plan.columns, plan.bound.schema)
        if own is None:
            return
        matcher = SummaryMatcher(plan)
        events = _own(own.events, plan, slices[own.number])
        list(match_batches(matcher, map(restored, batches_of(events))))
        if matcher.summary is not None:
            summary = pa.array([matcher.summary.to_bytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([pa.array([own.number], pa.int32()), summary], ["slice", "summary"])

    return summarize


def _rows_of_slice(
    plan: CounterPlan, slices: Sequence[Slice], restored: Restored, bad_rows: str
) -> Callable[[Batches], Batches]:
    def rows(batches: Batches) -> Batches:
        own = received(batches, plan.columns, plan.bound.schema)
        if own is None:
            return
        events = map(restored, batches_of(own.events))
        first = next(events)
        matcher = SliceMatcher(plan, first.schema, slices[own.number], own.summaries, bad_rows=bad_rows)
        yield from rows_of(match_batches(matcher, chain([first], events)))

    return rows


def _own(events: pa.Table, plan: CounterPlan, part: Slice) -> pa.Table:
    """The events that are of the slice itself."""
    schema = plan.bound.schema
    events = events.filter(events.column(schema.time).is_valid())
    if not part.leading:
        return events
    ts = time_values(events.column(schema.time).combine_chunks(), schema.time_unit)
    return events.slice(int(np.searchsorted(ts, part.since, side="left")))
