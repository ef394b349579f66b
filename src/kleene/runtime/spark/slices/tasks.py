"""What no key divides, on every core: time is cut into slices, a task for each; or partitions are counted, and totalled.

When a query is given its DataFrame, small jobs decide how its time is cut: one looks at a sample of the relevant rows, with a
window in events another counts them, and where the last slice is closed a third asks for the last instant. Everything else is
lazy. A first `mapInArrow` packs rows into blocks for the slices that need them (`blocks`), blocks are shuffled by the number of
the slice, and a second one matches or counts each slice (`kleene.engine.time_slices`). Where slices need summaries of earlier
ones, another `mapInArrow` over the same shuffle makes them, and a broadcast brings them to every task. What tasks give may be
for a last `mapInArrow`, in one task, to merge.

There are no summaries of partitions. Where the slices of these would have long leads, the shuffle is by what divides the events
instead, and each task tells how the total of its partitions changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.functions import monotonically_increasing_id

from kleene.common.arrays import LONG_AGO, Array
from kleene.common.columns import select, time_values
from kleene.engine.build import build_matcher
from kleene.engine.matcher import Matcher
from kleene.engine.time_slices import Merge, choice, count_partitions, match_slice, summarize_slice, totals
from kleene.pattern.text import quoted
from kleene.plan.contract import Plan
from kleene.plan.distribution.slicing import (
    Cutting,
    Slice,
    Slicing,
    Times,
    best_slicing,
    obstacle,
    reaching,
    summarized_slices,
    time_slices,
)
from kleene.runtime.embedded import Batches
from kleene.runtime.spark.frame import ARRIVAL, Answer, Restored, Shuffled, arrow_schema, numbered, worker_interpreter
from kleene.runtime.spark.schemas import from_arrow
from kleene.runtime.spark.slices.blocks import Received, packed, received
from kleene.runtime.spark.slices.times import sampled_times, time_column
from kleene.runtime.spark.versions import placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOTAL_TASKS = 4
"""With fewer tasks (measured: two) sending the changes of totals costs more than counting in parallel saves."""

LONGEST = 3
"""The most that a slice of counters without summaries may have with its lead, beside its share of the events."""


Task = Callable[[pa.Table, Slice, Mapping[int, bytes]], Batches]
"""Gives rows for the events of a slice and its lead, in stream order, and the summaries of slices, by number."""


def sliced_rows(plan: Plan, events: DataFrame, *, restored: Restored, bad_rows: str, output: Any) -> Answer | None:
    """The lazy rows of a plan over relevant events that no key divides, or of one key; None if one task should do all."""
    times = sampled_times(plan, events)
    if times is None:
        return None
    slicing = None if obstacle(plan) else _slicing_of(plan, events, times, restored)
    own = restored(pa.RecordBatch.from_pylist([], arrow_schema(events))).schema
    if slicing is None:
        if not plan.has_totals or times.tasks < TOTAL_TASKS:
            return None
        merge = totals(plan, own)
        changes = _changes(plan, events, merge.schema, restored, bad_rows)
        return Answer(merged(changes, merge, output), f"by {', '.join(plan.partition)}, and the totals of all in one task")
    columns, between = output.names, choice(plan, own, output.names)
    given = output if between is None else from_arrow(between.schema)
    task = partial(match_slice, plan, columns=columns, bad_rows=bad_rows)
    summarize = partial(summarize_slice, plan)
    rows = in_slices(
        plan, events, slicing.slices, task, given, restored=restored, arrival=plan.waits_for_arrival, summarize=summarize
    )
    return Answer(rows if between is None else merged(rows, between, output), str(slicing))


# --- jobs -------------------------------------------------------------------------------------------------------------


def in_slices(
    plan: Shuffled,
    events: DataFrame,
    slices: Sequence[Slice],
    task: Task,
    output: Any,
    *,
    restored: Restored,
    arrival: bool,
    summarize: Callable[[pa.Table, Slice], bytes | None] | None = None,
) -> DataFrame:
    """The lazy rows that a task for each slice gives; with `arrival` rows that tie come as they are in the DataFrame."""
    schema, columns = plan.bound.schema, plan.columns
    events = numbered(events)
    if arrival:
        schema, columns = replace(schema, order_by=(*schema.order_by, ARRIVAL)), (*columns, ARRIVAL)
        events = events.withColumn(ARRIVAL, monotonically_increasing_id())
    packing = partial(packed, slices=slices, time=time_column(plan), unit=schema.time_unit)

    def own(batches: Batches) -> Received | None:
        return received(batches, columns, schema, restored)

    def summaries(batches: Batches) -> Batches:
        assert summarize is not None
        given = own(batches)
        summary = None if given is None else summarize(given.events, slices[given.number])
        if given is not None and summary is not None:
            yield pa.record_batch({"slice": pa.array([given.number], pa.int32()), "summary": pa.array([summary], pa.binary())})

    def rows(batches: Batches) -> Batches:
        given = own(batches)
        if given is not None:
            yield from task(given.events, slices[given.number], given.summaries)

    with worker_interpreter(events):
        blocks = placed(events.mapInArrow(packing, "slice int, events binary"), len(slices), "slice")
        if any(part.between for part in slices):
            found = blocks.mapInArrow(summaries, "slice int, summary binary")
            collected = found.selectExpr("collect_list(struct(slice, summary)) AS summaries")
            blocks = blocks.crossJoin(collected.hint("broadcast"))
        return blocks.mapInArrow(rows, output)


def merged(rows: DataFrame, merge: Merge, output: Any) -> DataFrame:
    """What one task makes of the rows of all."""
    with worker_interpreter(rows):
        together = rows.repartition(1).sortWithinPartitions(*map(quoted, merge.order))
        return together.mapInArrow(merge.rows, output)


def _changes(plan: Plan, events: DataFrame, schema: pa.Schema, restored: Restored, bad_rows: str) -> DataFrame:
    """How the totals of the partitions of each task change."""
    events, known = numbered(events), plan.bound.schema
    numbers = {name: f"c{number}" for number, name in enumerate(plan.columns)}
    events = events.repartition(*(numbers[name] for name in plan.partition))
    events = events.sortWithinPartitions(*(numbers[name] for name in (known.time, *known.order_by)))

    def changes(batches: Batches) -> Batches:
        return count_partitions(plan, map(restored, batches), bad_rows=bad_rows)

    with worker_interpreter(events):
        return events.mapInArrow(changes, from_arrow(schema)).selectExpr("*", "spark_partition_id() AS task")


# --- where time is cut ------------------------------------------------------------------------------------------------


def _slicing_of(plan: Plan, events: DataFrame, times: Times, restored: Restored) -> Slicing | None:
    """How time is cut for a plan; None if one task should do all. A lead costs counters little: it makes the first front."""
    if plan.bound.count_window is not None:
        return best_slicing(times, _reaching_events(plan, events, times, restored))
    if plan.keys or plan.kind != "counters":
        return best_slicing(times, reaching(plan.reach))
    if not plan.has_summaries:
        slicing = best_slicing(times, reaching(plan.reach), lead_cost=0)
        short = slicing is not None and max(slicing.sizes) * len(slicing.sizes) <= LONGEST * slicing.events
        return slicing if short else None
    slicing = _summarized(plan, times)
    if slicing is not None and slicing.slices[-1].closed:
        last = numbered(events).selectExpr(f"max({time_column(plan)}) AS high").toArrow().column("high").combine_chunks()
        slicing = _summarized(plan, replace(times, last=int(time_values(last, plan.bound.schema.time_unit)[0])))
    return slicing


def _summarized(plan: Plan, times: Times) -> Slicing | None:
    on_change = plan.bound.query.emit_on_change
    cutting = partial(summarized_slices, first=times.first, last=times.last, window=plan.window, on_change=on_change)
    return best_slicing(times, cutting, lead_cost=0)


def _reaching_events(plan: Plan, events: DataFrame, times: Times, restored: Restored) -> Cutting:
    """Slices that need a number of events before them; a job of its own counts those between the instants of the sample."""
    bounds = np.unique(times.quantiles)
    with worker_interpreter(events):
        counted = numbered(events).mapInArrow(partial(_counted, plan=plan, bounds=bounds, restored=restored), "bin int, n long")
        found = counted.groupBy("bin").sum("n").toArrow()
    counts = np.zeros(bounds.size + 1, np.int64)
    counts[found.column(0).to_numpy()] = found.column(1).to_numpy()
    before = np.cumsum(counts)[:-1]

    def low(since: int) -> int:
        enough = np.flatnonzero(before[np.searchsorted(bounds, since)] - before >= plan.bound.count_window)
        return int(bounds[enough[-1]]) if enough.size else LONG_AGO

    return lambda cuts: time_slices(cuts, low)


def _counted(batches: Batches, plan: Plan, bounds: Array, restored: Restored) -> Batches:
    """How many events that have a position there are between the bounds."""
    counts = np.zeros(bounds.size + 1, np.int64)
    schema = plan.bound.schema
    matcher: Matcher | None = None
    for batch in map(restored, batches):
        matcher = matcher or build_matcher(plan, batch.schema, bad_rows="drop")
        ts = time_values(select(batch.column(schema.time), matcher.relevant(batch)), schema.time_unit)
        counts += np.bincount(np.searchsorted(bounds, ts, side="right"), minlength=counts.size)
    bins = np.flatnonzero(counts)
    yield pa.record_batch({"bin": pa.array(bins, pa.int32()), "n": pa.array(counts[bins])})
