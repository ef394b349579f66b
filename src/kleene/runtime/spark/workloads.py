"""The queries of a workload over a Spark DataFrame: one pass over the data for all queries that can share its shuffle.

A pass reads the rows that matter to any of its queries, shuffles and sorts them once, and feeds them in one `mapInArrow` to all
matchers side by side: single plans, pattern groups and shared counters. A task gives the matches of each query as they come, a
row for each Arrow batch, labelled with the query; the result is kept (`persist`), and the DataFrame of a query reads its own
rows of it. Plans of pattern groups are made once, on the driver, for a sample of the events, and shipped to the tasks.

What a query gives is what it gives alone. An error is that of the queries it concerns: it travels as a row of theirs, and is
raised where their DataFrames are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from kleene.common import errors
from kleene.common.errors import KleeneError
from kleene.engine.matcher import Found
from kleene.engine.shared.planner import WORTH, expected_seconds
from kleene.engine.time_slices import begin, divided
from kleene.pattern.bound import BoundQuery
from kleene.pattern.text import quoted
from kleene.plan.contract import Plan
from kleene.plan.distribution.passes import Pass, Passes, Spread, choose_passes, contested
from kleene.plan.distribution.slicing import Slice, best_slicing, obstacle, reaching
from kleene.plan.multi.cost import SharedStatistics
from kleene.plan.multi.groups import PatternGroup, is_group
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import SEARCHES, MultiOptions, plan_shared
from kleene.runtime.embedded import Batches
from kleene.runtime.spark.batch import SparkRun, bad_events, run_spark
from kleene.runtime.spark.frame import (
    Answer,
    Restored,
    arrow_schema,
    distributed,
    named_batches,
    warn_of_dropped,
    worker_interpreter,
)
from kleene.runtime.spark.push_down import relevant_events
from kleene.runtime.spark.schemas import from_arrow
from kleene.runtime.spark.slices.skew import skewed
from kleene.runtime.spark.slices.tasks import in_slices
from kleene.runtime.spark.slices.times import is_small, parallelism, sampled_times
from kleene.runtime.statistics import SAMPLED, table_statistics
from kleene.runtime.stream.state import encode_events
from kleene.runtime.units import PlannedQuery, QuerySet, Unit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LABELLED = StructType(
    [StructField("query", StringType()), StructField("matches", BinaryType()), StructField("failure", StringType())]
)
"""A row for each batch of matches: the query, and the batch as an Arrow stream; or an error."""

LEAST_SECONDS = 1.0
"""So long may a plan be searched for beside a job on Spark, however few events it was sampled on."""

FIRST_ROWS = 10_000
"""Rows in which the values of keys are counted."""


# --- which passes there are -------------------------------------------------------------------------------------------


def passes_of(queries: Sequence[PlannedQuery], frame: DataFrame) -> Passes:
    """The passes for queries that read a DataFrame, or that and composite events.

    Where queries have different keys, but some in common, a small job counts the values of these in the first rows.
    """
    alone = {item.name: reason for item in queries if (reason := taken_alone(item.plan, frame)) is not None}
    sliced = [item.name for item in queries if item.name in alone and share_slices([item.plan])]
    if len(sliced) > 1:
        alone = {name: reason for name, reason in alone.items() if name not in sliced}
    keys = {item.name: item.plan.keys for item in queries if item.name not in alone}
    return choose_passes(keys, _spread(contested(keys), frame), alone, sliced)


def taken_alone(plan: Plan, frame: DataFrame) -> str | None:
    """Why a query is not put into a pass with others: slices of time divide its events, not a key. None if it may be."""
    if plan.keys or parallelism(frame) == 1 or is_small(frame):
        return None
    if plan.kind == "counters":
        return "no key divides its events: counted in slices of time"
    return "no key divides its events: matched in slices of time" if obstacle(plan) is None else None


def share_slices(plans: Iterable[Plan]) -> bool:
    """Whether plans can be answered in the same slices of time: all that each needs lies in a window before a slice."""
    return all(
        obstacle(plan) is None and not plan.needs_choice and plan.window is not None and (plan.keys or plan.kind != "counters")
        for plan in plans
    )


def _spread(names: Sequence[str], frame: DataFrame) -> Spread:
    known = [name for name in names if name in frame.columns]
    if not known:
        return Spread()
    rows = frame.select(*(quoted(name) for name in known)).limit(FIRST_ROWS).collect()
    values = {name: max(1, len({row[place] for row in rows})) for place, name in enumerate(known)}
    return Spread(values, parallelism(frame))


# --- one pass ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """What of the events a pass shuffles."""

    bound: BoundQuery
    """Of any of the queries, for how events are read."""
    keys: tuple[str, ...]
    columns: tuple[str, ...]


def run_pass(
    found: Pass, queries: Sequence[PlannedQuery], frame: DataFrame, options: MultiOptions | None, *, bad_rows: str, scan: str
) -> dict[str, SparkRun]:
    """The lazy matches of the queries of a pass; where they are several, Spark reads their events."""
    if len(queries) == 1:
        return {item.name: run_spark(item.plan, frame, bad_rows=bad_rows, scan=scan) for item in queries}
    units = _units(queries, frame, options)
    events = relevant_events([plan for unit in units for plan in unit.plan.members], frame)
    layout = Layout(queries[0].plan.bound, found.keys, tuple(events.columns))
    running = PassRun(layout, units, any(item.plan.waits_for_arrival for item in queries), strict=bad_rows == "error")
    answer = running.answer(events)
    labelled, schema = answer.matches.persist(), arrow_schema(frame)
    with worker_interpreter(labelled):
        matches = {item.name: _of_query(labelled, item.name, item.schema(schema)) for item in queries}
    how = f"{answer.distribution}; in one pass with {len(queries) - 1} more"
    return {item.name: SparkRun(matches[item.name], partial(bad_events, item.plan, frame), labelled, how) for item in queries}


@dataclass(frozen=True, slots=True)
class PassRun:
    """How the events of a pass are distributed and matched."""

    layout: Layout
    units: tuple[Unit, ...]
    arrival: bool
    """Whether rows that tie come as they are in the DataFrame."""
    strict: bool
    """Whether a bad row is an error."""

    def answer(self, events: DataFrame) -> Answer:
        """The labelled matches: by key, in slices of time where no key divides the events, or both where a key is hot."""
        found = None
        if share_slices(plan for unit in self.units for plan in unit.plan.members):
            keys = self.layout.keys
            found = skewed(keys, events, self._sliced, self._by_key) if keys else self._sliced(events)
        return found or self._by_key(events)

    def _by_key(self, events: DataFrame) -> Answer:
        events = distributed(self.layout, events, arrival=self.arrival)
        with worker_interpreter(events):
            task = partial(_match_partition, units=self.units, named=named_batches(self.layout), strict=self.strict)
            labelled = events.mapInArrow(task, LABELLED)
        return Answer(labelled, f"by {', '.join(self.layout.keys)}" if self.layout.keys else "in one task")

    def _sliced(self, events: DataFrame) -> Answer | None:
        times = sampled_times(self.layout, events)
        reach = max(unit.plan.reach for unit in self.units)
        slicing = None if times is None else best_slicing(times, reaching(reach))
        if slicing is None:
            return None
        task = partial(match_slice, self.units, strict=self.strict)
        restored = named_batches(self.layout)
        labelled = in_slices(self.layout, events, slicing.slices, task, LABELLED, restored=restored, arrival=self.arrival)
        return Answer(labelled, str(slicing))


def _units(queries: Sequence[PlannedQuery], frame: DataFrame, options: MultiOptions | None) -> tuple[Unit, ...]:
    """What of the queries is matched together; plans of pattern groups are made for one sample of the events."""
    units = tuple(QuerySet(tuple(queries), options).units())
    groups = [unit.plan for unit in units if is_group(unit.plan)]
    if options is None or not groups:
        return units
    sample = relevant_events([plan for group in groups for plan in group.members], frame).limit(SAMPLED).toArrow()

    def planned(unit: Unit) -> Unit:
        plan = unit.plan
        return replace(unit, shared=sampled_plan(plan, table_statistics(plan, sample), options)) if is_group(plan) else unit

    return tuple(map(planned, units))


def sampled_plan(group: PatternGroup, statistics: SharedStatistics, options: MultiOptions) -> SharedPlan:
    """The plan for a sample of the events, searched for a part of the time that the sample is expected to take, or a second."""
    if options.search not in SEARCHES:
        return plan_shared(group.leaves, group.clauses, statistics, options)
    first = plan_shared(group.leaves, group.clauses, statistics, replace(options, search="none"))
    seconds = min(options.seconds, max(LEAST_SECONDS, WORTH * expected_seconds(first)))
    return plan_shared(group.leaves, group.clauses, statistics, replace(options, seconds=seconds))


def sampled_statistics(group: PatternGroup, frame: DataFrame) -> SharedStatistics:
    """The statistics of some relevant events of a DataFrame."""
    sample = relevant_events(tuple(group.plans.values()), frame).limit(SAMPLED).toArrow()
    return table_statistics(group, sample)


# --- in the tasks -----------------------------------------------------------------------------------------------------


def _match_partition(batches: Batches, units: Sequence[Unit], named: Restored, *, strict: bool) -> Batches:
    first = next(batches, None)
    if first is None:
        return
    first = named(first)
    running = [RunningUnit(unit, first.schema, strict=strict) for unit in units]
    for batch in chain([first], map(named, batches)):
        for item in running:
            yield from item.feed(batch)
    for item in running:
        yield from item.finish()


def match_slice(
    units: Sequence[Unit], events: pa.Table, part: Slice, _summaries: Mapping[int, bytes], *, strict: bool
) -> Batches:
    """What a task does for its slice of time."""
    running = [RunningUnit(unit, events.schema, strict=strict) for unit in units]
    lead, own = divided(events, units[0].plan.bound.schema, part)
    for item in running:
        yield from item.begin(lead, part)
    for batch in own.to_batches():
        for item in running:
            yield from item.feed(batch)
    for item in running:
        yield from item.advance(part.until)


class RunningUnit:
    """A unit of a pass in a task: rows in, labelled batches of matches out, or the errors that end it."""

    def __init__(self, unit: Unit, events: pa.Schema, *, strict: bool) -> None:
        self._unit = unit
        self._columns = list(unit.plan.columns)
        self._schema = pa.schema([events.field(name) for name in self._columns])
        self._matcher = unit.matcher(self._schema)
        self._strict = strict
        """Whether a bad row is an error."""
        self._bad = 0
        self._left = {item.name: item for item in unit.queries}
        """The queries that have not failed."""

    def begin(self, lead: pa.Table, part: Slice) -> Batches:
        """Takes in what matters of the events before a slice of time, and gives nothing but errors."""
        plan = self._unit.plan
        own = replace(part, low=max(part.low, part.since - plan.reach + 1))
        try:
            begin(plan, self._matcher, divided(lead.select(self._columns), plan.bound.schema, own)[0], own)
        except KleeneError as error:
            yield from self._fail(list(self._left), error)

    def advance(self, until: int) -> Batches:
        """A slice of time has ended."""
        if self._left:
            yield from self._labelled(self._matcher.advance(until))

    def feed(self, batch: pa.RecordBatch) -> Batches:
        """Takes the next events in stream order."""
        if not self._left:
            return
        own = batch.select(self._columns)
        yield from self._labelled(self._matcher.feed(own))
        if self._strict and self._matcher.metrics.bad > self._bad:
            self._bad = self._matcher.metrics.bad
            yield from self._judged(own)

    def finish(self) -> Batches:
        """The stream has ended."""
        if not self._left:
            return
        yield from self._labelled(self._matcher.finish())
        names = ", ".join(f"'{name}'" for name in self._left)
        warn_of_dropped(self._matcher.metrics, f"the result of query {names}")

    def _labelled(self, found: Iterator[Found]) -> Batches:
        """What the matcher gives; an error of it is one of all its queries."""
        try:
            for query, rows in found:
                yield _label(self._unit.queries[query].name, matches=encode_events(rows))
        except KleeneError as error:
            yield from self._fail(list(self._left), error)

    def _judged(self, batch: pa.RecordBatch) -> Batches:
        """The errors of those queries that a bad row in the batch concerns."""
        for name, query in list(self._left.items()):
            try:
                for _ in query.alone.matcher(self._schema, bad_rows="error").feed(batch):
                    pass
            except KleeneError as error:
                yield from self._fail([name], error)

    def _fail(self, names: Sequence[str], error: KleeneError) -> Batches:
        for name in names:
            del self._left[name]
            yield _label(name, failure=f"{type(error).__name__}: {error}")


def _label(query: str, *, matches: bytes | None = None, failure: str | None = None) -> pa.RecordBatch:
    columns = {
        "query": pa.array([query]),
        "matches": pa.array([matches], pa.binary()),
        "failure": pa.array([failure], pa.string()),
    }
    return pa.record_batch(columns)


def _error(failure: str) -> KleeneError:
    """The error that a label tells."""
    kind, _, message = failure.partition(": ")
    # The kinds that only the engine knows are kinds of DataError.
    found: type[KleeneError] = getattr(errors, kind, errors.DataError)
    return found(message)


def _of_query(labelled: DataFrame, name: str, schema: pa.Schema) -> DataFrame:
    return labelled.where(labelled["query"] == name).mapInArrow(_unlabelled, from_arrow(schema))


def _unlabelled(batches: Batches) -> Batches:
    for batch in batches:
        for failure in batch.column("failure").drop_null():
            raise _error(failure.as_py())
        for item in batch.column("matches"):
            yield from pa.ipc.open_stream(item.as_buffer())
