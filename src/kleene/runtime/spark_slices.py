"""Aggregates of a stream that no key divides, on every core: time is cut into slices, a task for each.

One small job looks at the times of the relevant rows, when the query is given its DataFrame, and cuts them into slices of about
as many rows each. Everything else is lazy: a row goes to the task of its slice, and to those of later slices in which it
expires; one shuffle by the number of the slice, a sort, one `mapInArrow`. Where slices need summaries of earlier ones
(`kleene.engine.slices`), another `mapInArrow` over the same shuffle makes them, and a broadcast brings them to every task.
There are none of partitions: these are cut into so few slices that none is needed, or else totalled (`spark_totals`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kleene.common.columns import TIME_LIMIT, time_values
from kleene.engine.slices import (
    Extent,
    Slice,
    SliceMatcher,
    SummaryMatcher,
    compares_texts,
    has_summaries,
    slices_of,
    summarized,
)
from kleene.plan.aggregate import CounterPlan
from kleene.runtime.arrow import match_batches
from kleene.runtime.spark_batch import worker_interpreter
from kleene.runtime.spark_totals import Restored, totalled_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEWEST_ROWS = 250_000
"""A slice of fewer relevant rows is not worth a task."""

MOST_ROWS = 2_000_000
"""A task that starts from summaries holds its slice, and the rows that expire in it, in memory."""

MOST_SLICES = 512

CONNECT_TASKS = 32
"""The most slices on Spark Connect, which does not tell how many cores there are, unless there are very many rows."""

SAMPLED = 0.02
"""The share of rows that slices are cut by."""

DAY = 86_400_000_000
"""In microseconds."""

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
        if slices is not None:
            with worker_interpreter(events):
                return _Job(plan, events, slices, restored, bad_rows).rows(output)
        if times.events < 2 * FEWEST_ROWS:
            return None
    if not plan.partition or compares_texts(plan):
        return None
    return totalled_rows(plan, events, restored, bad_rows, output)


def _parallelism(frame: DataFrame) -> int:
    session: Any = frame.sparkSession
    if "connect" in type(session).__module__:
        return min(int(session.conf.get("spark.sql.shuffle.partitions")), CONNECT_TASKS)
    return int(session.sparkContext.defaultParallelism)


@dataclass(frozen=True, slots=True)
class _Times:
    """How many events there are, the first and the last instant, and instants that divide them evenly."""

    events: int
    first: int
    last: int
    quantiles: Array


def _times(plan: CounterPlan, events: DataFrame) -> _Times:
    time, unit = _time(plan), plan.bound.schema.time_unit
    quantiles = ", ".join(f"{number / MOST_SLICES}D" for number in range(1, MOST_SLICES))
    times = events.selectExpr(f"{time} AS at", f"CASE WHEN rand() < {SAMPLED} THEN {time} END AS sampled")
    found = times.selectExpr(
        "count(at) AS n", "min(at) AS low", "max(at) AS high", f"percentile_approx(sampled, array({quantiles})) AS cuts"
    ).toArrow()
    count = found.column("n")[0].as_py()
    if not count or not found.column("cuts")[0].is_valid:
        return _Times(0, 0, 0, np.empty(0, np.int64))
    first, last = (int(time_values(found.column(name).combine_chunks(), unit)[0]) for name in ("low", "high"))
    return _Times(count, first, last, time_values(found.column("cuts").combine_chunks().flatten(), unit))


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


@dataclass(frozen=True, slots=True)
class _Job:
    """The jobs of a sliced plan."""

    plan: CounterPlan
    events: DataFrame
    slices: tuple[Slice, ...]
    restored: Restored
    bad_rows: str

    def rows(self, output: Any) -> DataFrame:
        """The rows of all slices."""
        placed = self._placed()
        if not summarized(self.slices):
            return self._sorted(placed).mapInArrow(_rows_of_slice(self.plan, self.slices, self.restored, self.bad_rows), output)
        summaries = self._sorted(placed).mapInArrow(
            _summary_of_slice(self.plan, self.slices, self.restored), "slice int, summary binary"
        )
        summaries = summaries.selectExpr("true AS marker", "collect_list(struct(slice, summary)) AS summaries")
        joined = placed.join(summaries.hint("broadcast"), "marker", "left")
        joined = joined.select(*placed.columns, "summaries")
        return self._sorted(joined).mapInArrow(_rows_of_slice(self.plan, self.slices, self.restored, self.bad_rows), output)

    def _placed(self) -> DataFrame:
        """The events, each in every task that needs it; where there are summaries, a marker in each task that needs them."""
        copied = any(item.leading for item in self.slices)
        where = _placement(self.slices, self._from, copied)
        events = self.events.selectExpr("*", f"explode({where}) AS slice" if copied else f"{where} AS slice")
        if copied:
            events = events.where("slice IS NOT NULL")
        if summarized(self.slices):
            wanting = ", ".join(str(item.number) for item in self.slices if item.between)
            markers = self.events.sparkSession.range(1).selectExpr(f"explode(array({wanting})) AS slice", "true AS marker")
            events = events.unionByName(markers, allowMissingColumns=True)
        return events.repartitionById(len(self.slices), "slice")

    def _sorted(self, placed: DataFrame) -> DataFrame:
        schema = self.plan.bound.schema
        return placed.sortWithinPartitions(*(f"c{self.plan.columns.index(name)}" for name in (schema.time, *schema.order_by)))

    def _from(self, instant: int) -> str:
        """The condition that an event is of an instant or later."""
        time = _time(self.plan)
        return f"{time} >= {_literal(instant, self.events.schema[time].dataType.typeName())}"


def _literal(instant: int, kind: str) -> str:
    """An instant as a constant of a time column's type: the first value that is not before it.

    >>> _literal(86_400_000_001, "date")
    'date_from_unix_date(2)'
    """
    instant = max(min(instant, TIME_LIMIT), -TIME_LIMIT)
    if kind == "timestamp":
        return f"timestamp_micros({instant}L)"
    if kind == "timestamp_ntz":
        days, rest = divmod(instant, DAY)
        seconds = f"{rest // 1_000_000}.{rest % 1_000_000:06}"
        return f"TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval({days}, 0, 0, {seconds})"
    if kind == "date":
        return f"date_from_unix_date({-(-instant // DAY)})"
    return f"{instant}L"


def _placement(slices: Sequence[Slice], since: Callable[[int], str], copied: bool) -> str:
    """The number of an event's slice as an expression; with `copied` an array of it, those that it leads, and NULLs."""

    def leaf(number: int) -> str:
        if not copied:
            return str(number)
        led = [item for item in slices if number in item.leading]
        further = [f"CASE WHEN {since(item.horizon)} THEN {item.number} END" for item in led]
        return f"array({', '.join([str(number), *further])})"

    def tree(first: int, last: int) -> str:
        if last - first == 1:
            return leaf(first)
        middle = (first + last) // 2
        return f"CASE WHEN {since(slices[middle].since)} THEN {tree(middle, last)} ELSE {tree(first, middle)} END"

    return tree(0, len(slices))


# --- in the tasks -----------------------------------------------------------------------------------------------------

Batches = Iterator[pa.RecordBatch]


def _summary_of_slice(plan: CounterPlan, slices: Sequence[Slice], restored: Restored) -> Callable[[Batches], Batches]:
    def summarize(batches: Batches) -> Batches:
        number, matcher = 0, SummaryMatcher(plan)
        for batch in batches:
            number = _slice_of(batch)
            own = _own(batch, plan, slices[number])
            if own.num_rows:
                list(matcher.feed(restored(own)))
        list(matcher.finish())
        if matcher.summary is not None:
            yield pa.RecordBatch.from_pydict({"slice": pa.array([number], pa.int32()), "summary": [matcher.summary.to_bytes()]})

    return summarize


def _rows_of_slice(
    plan: CounterPlan, slices: Sequence[Slice], restored: Restored, bad_rows: str
) -> Callable[[Batches], Batches]:
    def rows(batches: Batches) -> Batches:
        first = next(batches, None)
        if first is None:
            return
        part = slices[_slice_of(first)]
        held, summaries = _until_marker(first, batches, part)
        events = (restored(_without_marker(batch)) for batch in chain(held, batches) if _slice_of(batch) == part.number)
        matcher = SliceMatcher(plan, restored(first).schema, part, summaries, bad_rows=bad_rows)
        yield from match_batches(matcher, events)

    return rows


def _slice_of(batch: pa.RecordBatch) -> int:
    """The slice that all rows of a batch are for."""
    numbers = batch.column("slice").to_numpy()
    if (numbers != numbers[0]).any():
        raise AssertionError("a task has several slices")
    return int(numbers[0])


def _until_marker(first: pa.RecordBatch, batches: Batches, part: Slice) -> tuple[list[pa.RecordBatch], Mapping[int, bytes]]:
    """The batches up to the one with the marker, and the summaries it brings: it has no time, and comes before all that has."""
    held = [first]
    while part.between:
        found = held[-1].column("summaries").drop_null()
        if len(found):
            return held, {item["slice"]: item["summary"] for item in found[0].as_py()}
        held.append(next(batches))
    return held, {}


def _without_marker(batch: pa.RecordBatch) -> pa.RecordBatch:
    if "marker" not in batch.schema.names or batch.column("marker").null_count == batch.num_rows:
        return batch
    return batch.filter(batch.column("marker").is_null())


def _own(batch: pa.RecordBatch, plan: CounterPlan, part: Slice) -> pa.RecordBatch:
    """The events of a batch that are of the slice itself."""
    batch = batch.filter(batch.column(_time(plan)).is_valid())
    if not part.leading:
        return batch
    ts = time_values(batch.column(_time(plan)), plan.bound.schema.time_unit)
    return batch.slice(int(np.searchsorted(ts, part.since, side="left")))
