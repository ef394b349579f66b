"""Matches of a stream that no key divides, on every core: time is cut into slices, a task for each.

When the query is given its DataFrame, one small job looks at the times of a sample of the relevant rows; with a window in
events, another one counts them all. Everything else is lazy: a first `mapInArrow` packs rows into blocks for the slices that
need them, blocks are shuffled, and a second `mapInArrow` sorts and matches each slice (`kleene.engine.time_slices`). Under
NON-OVERLAP a third one, in one task, chooses among the candidates of all slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.functions import monotonically_increasing_id

from kleene.common.arrays import Array
from kleene.common.columns import select, time_values
from kleene.engine.build import build_matcher
from kleene.engine.counting.counters import LONG_AGO
from kleene.engine.counting.slices import Slice
from kleene.engine.matcher import Matcher
from kleene.engine.matches.candidates import chosen, order_of
from kleene.engine.time_slices import lead_of, match_slice, needs_choice, slice_matcher, time_slices
from kleene.plan.contract import Plan
from kleene.plan.distribution.slicing import obstacle
from kleene.runtime.embedded import Batches
from kleene.runtime.spark.frame import (
    ARRIVAL,
    Answer,
    Restored,
    Shuffled,
    arrow_schema,
    numbered,
    worker_interpreter,
)
from kleene.runtime.spark.push_down import quoted
from kleene.runtime.spark.schemas import from_arrow
from kleene.runtime.spark.slices import times as spark_times
from kleene.runtime.spark.slices.blocks import Received, packed, received
from kleene.runtime.spark.slices.times import MOST_SLICES, Times, is_small, parallelism, sampled_times, time_column
from kleene.runtime.spark.versions import placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


TURNS = (1, 2)
"""So many slices for each core are considered: more are better balanced, and have more lead in all."""

IDLE = 0.15
"""How long cores wait for the last of them at the end, beside what a slice takes: slices of as many events differ."""

SLICE_COST = 20_000
"""What a task costs besides, in events."""


@dataclass(frozen=True, slots=True)
class Slicing:
    """How the time of a DataFrame is cut."""

    slices: tuple[Slice, ...]
    events: int
    """About so many, in all slices."""
    sizes: tuple[int, ...]
    """About so many events of each slice, with its lead."""

    @property
    def replication(self) -> float:
        """To how many tasks an event goes on average."""
        return sum(self.sizes) / max(self.events, 1)

    @property
    def balance(self) -> float:
        """The largest task beside the average."""
        return max(self.sizes) * len(self.sizes) / max(sum(self.sizes), 1)

    def __str__(self) -> str:
        return (
            f"{len(self.slices)} slices of time, about {self.events:,} events; an event goes to {self.replication:.2f} tasks "
            f"on average, the largest task has {self.balance:.2f} times the average"
        )


def sliced_matches(plan: Plan, events: DataFrame, *, restored: Restored, bad_rows: str, output: Any) -> Answer | None:
    """The lazy matches of a plan over relevant events, slice by slice; None if one task should do all."""
    assert obstacle(plan) is None
    slicing = slicing_of(plan, events, partial(_lead_from, plan, restored))
    if slicing is None:
        return None
    own = restored(pa.RecordBatch.from_pylist([], arrow_schema(events))).schema
    slices, choice, columns = slicing.slices, needs_choice(plan), output.names
    sent, put_together = blocks(plan, events, slices, arrival=plan.waits_for_arrival)

    def matched(batches: Batches) -> Batches:
        task = put_together(batches)
        if task is not None:
            named = pa.Table.from_batches(map(restored, task.events.to_batches()))
            for rows in match_slice(plan, named, slices[task.number], columns, bad_rows=bad_rows):
                yield rows if choice else rows.select(columns)

    with worker_interpreter(events):
        if not choice:
            return Answer(sent.mapInArrow(matched, output), str(slicing))
        candidates = sent.mapInArrow(matched, from_arrow(slice_matcher(plan, own).output_schemas[0]))
        candidates = candidates.repartition(1).sortWithinPartitions(*map(quoted, order_of(plan.partition)))
        choosing = partial(chosen, schema=plan.bound.schema, partition=plan.partition, columns=columns)
        return Answer(candidates.mapInArrow(choosing, output), str(slicing))


def blocks(
    plan: Shuffled, events: DataFrame, slices: Sequence[Slice], *, arrival: bool
) -> tuple[DataFrame, Callable[[Batches], Received | None]]:
    """The events in blocks, those of a slice in a task of their own, and how the task puts them together in stream order; with
    `arrival` rows that tie as they are in the DataFrame.
    """
    schema, columns = plan.bound.schema, plan.columns
    events = numbered(events)
    if arrival:
        schema, columns = replace(schema, order_by=(*schema.order_by, ARRIVAL)), (*columns, ARRIVAL)
        events = events.withColumn(ARRIVAL, monotonically_increasing_id())
    packing = partial(packed, slices=slices, time=time_column(plan), unit=schema.time_unit)
    with worker_interpreter(events):
        packets = events.mapInArrow(packing, "slice int, events binary")
    return placed(packets, len(slices), "slice"), partial(received, columns=columns, schema=schema)


Low = Callable[[int], int]
"""Gives the first instant whose events matter to a slice that begins at one of the instants that divide the sample."""


def slicing_of(plan: Shuffled, events: DataFrame, low_of: Callable[[DataFrame, Times], Low]) -> Slicing | None:
    """How time is cut for relevant events, given which others a slice needs; None if one task should do all."""
    tasks = parallelism(events)
    if tasks == 1 or is_small(events):
        return None
    events = numbered(events)
    times = sampled_times(events, time_column(plan), plan.bound.schema.time_unit)
    if times.events < 2 * spark_times.FEWEST_ROWS:
        return None
    low = low_of(events, times)
    counts = {min(turns * tasks, times.events // spark_times.FEWEST_ROWS) for turns in TURNS}
    counts.add(-(-times.events // times.most_rows))
    ways = [_slicing(times, low, min(count, MOST_SLICES)) for count in sorted(counts) if count > 1]
    fitting = [way for way in ways if max(way.sizes) <= 2 * times.most_rows] or ways
    best = min(fitting, key=lambda way: _cost(way, tasks), default=None)
    whole = times.events + SLICE_COST
    return best if best is not None and len(best.slices) > 1 and _cost(best, tasks) < whole else None


def lead_of_instants(instants: int) -> Callable[[DataFrame, Times], Low]:
    """Slices need the events of so many instants before them."""
    return lambda _events, _times: lambda cut: cut - instants + 1


def _slicing(times: Times, low: Low, count: int) -> Slicing:
    cuts = times.cuts(count)
    lows = [low(cut) for cut in cuts]
    slices = time_slices(cuts, lows)
    share = times.events / MOST_SLICES
    ends = np.array([*cuts, times.last + 1])
    places = np.searchsorted(times.quantiles, ends, side="left")
    starts = np.searchsorted(times.quantiles, np.array([times.first, *lows]), side="left")
    return Slicing(slices, times.events, tuple(int(size) for size in (places - starts + 1) * share))


def _cost(way: Slicing, tasks: int) -> float:
    """About what the longest chain of tasks costs, in events; those of a lead cost what others do, or less."""
    turns = -(-len(way.slices) // tasks)
    return (max(way.sizes) + SLICE_COST) * turns + IDLE * way.events / len(way.slices)


def _lead_from(plan: Plan, restored: Restored, events: DataFrame, times: Times) -> Low:
    """What slices of a plan need; where windows are of events, these are counted between the instants, by a job of its own."""
    lead = lead_of(plan)
    if lead.instants is not None:
        return lead_of_instants(lead.instants)(events, times)
    bounds = np.unique(times.quantiles)
    with worker_interpreter(events):
        counted = events.mapInArrow(partial(_counted, plan=plan, bounds=bounds, restored=restored), "bin int, n long")
        found = counted.groupBy("bin").sum("n").toArrow()
    counts = np.zeros(bounds.size + 1, np.int64)
    counts[found.column(0).to_numpy()] = found.column(1).to_numpy()
    before = np.cumsum(counts)[:-1]

    def low(cut: int) -> int:
        enough = np.flatnonzero(before[np.searchsorted(bounds, cut)] - before >= lead.events)
        return int(bounds[enough[-1]]) if enough.size else LONG_AGO

    return low


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
