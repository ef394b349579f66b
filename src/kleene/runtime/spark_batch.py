"""The Spark batch runtime: any DataFrame in, a lazy DataFrame of matches out.

The plan is made once, on the driver. Before the shuffle the DataFrame keeps only rows that some component can bind
(`spark_push_down`) and columns that the plan reads. Then: shuffle by key, sort by stream order within each partition, and one
`mapInArrow` in which the engine keeps the state of all keys. What no key divides is cut into slices of time
(`spark_time_slices`, for counters `spark_slices`), and so are keys that are much larger than others (`spark_skew`). Nothing of
the session is changed.
"""

from __future__ import annotations

import copyreg
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.functions import monotonically_increasing_id
from pyspark.sql.types import StringType, StructType

from kleene.common.columns import free_name
from kleene.engine.build import build_matcher
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.registered import Function
from kleene.plan.aggregate import CounterPlan
from kleene.plan.lazy import LazyPlan
from kleene.plan.matched import MatchedPlan
from kleene.plan.nfa import NfaPlan
from kleene.plan.optimizer import Plan
from kleene.plan.slicing import obstacle
from kleene.runtime.arrow import Batches, dropped_at_limits, match_batches, only
from kleene.runtime.spark_functions import pickled
from kleene.runtime.spark_push_down import any_of, bad_row_conditions, quoted, relevant_events
from kleene.runtime.spark_schemas import from_arrow, to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

copyreg.pickle(Function, pickled)  # they travel inside plans

ARRIVAL = "__kleene_arrival"
"""The order of rows in the DataFrame as it was given, where `ties="arrival"` asks for it."""


@dataclass(frozen=True, slots=True)
class SparkRun:
    """A run on Spark, computed when its DataFrames are."""

    matches: DataFrame
    _find_bad_rows: Callable[[], DataFrame] = field(repr=False)
    kept: DataFrame | None = None
    """What is kept for the queries of a workload that are answered together."""
    distribution: str = ""
    """How the events are distributed over tasks, in words."""

    @property
    def bad_rows(self) -> DataFrame:
        """The input rows with a NULL time, key or type, or an undeclared type, with a `reason` column."""
        return self._find_bad_rows()

    def unpersist(self) -> None:
        """Lets go of what is kept; it is computed anew when it is asked for again."""
        if self.kept is not None:
            self.kept.unpersist()


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema in which the DataFrame's rows reach Python."""
    return to_arrow(frame.schema)


def run_spark(plan: Plan, frame: DataFrame, *, bad_rows: str, columns: tuple[str, ...] = ()) -> SparkRun:
    """The lazy matches of a plan over a DataFrame, with some of their columns or with all."""
    events = relevant_events([plan], frame)
    types = type_codes(plan, frame)
    if types is not None:
        events = with_type_codes(plan, events, types)
    # Rows set aside are in SparkRun.bad_rows; the engine only has to pass over them.
    matcher_policy = "drop" if bad_rows == "quarantine" else bad_rows
    rows = build_matcher(plan, arrow_schema(frame)).output_schema
    wanted = only(columns, rows)
    output = from_arrow(rows if isinstance(plan, CounterPlan) else wanted)
    ways = (_counted, _sliced, _matched)
    answer = next(found for way in ways if (found := way(plan, events, types, matcher_policy, output)) is not None)
    matches = answer.matches.select(*map(quoted, wanted.names)) if isinstance(plan, CounterPlan) else answer.matches
    return SparkRun(matches, partial(bad_events, plan, frame), distribution=answer.distribution)


@dataclass(frozen=True, slots=True)
class Answer:
    """Matches, and how the events are distributed to find them, in words."""

    matches: DataFrame
    distribution: str


def _counted(plan: Plan, events: DataFrame, types: tuple[str, ...] | None, bad_rows: str, output: StructType) -> Answer | None:
    """The rows of an aggregate that no key divides, counted by several tasks; None for other plans, and few events."""
    from kleene.runtime.spark_slices import counted_rows

    return counted_rows(plan, events, named_batches(plan, types), bad_rows, output) if isinstance(plan, CounterPlan) else None


def _sliced(plan: Plan, events: DataFrame, types: tuple[str, ...] | None, bad_rows: str, output: StructType) -> Answer | None:
    """The matches of events that no key divides, or some key hardly does, in slices of time; None where that does not pay."""
    from kleene.runtime.spark_skew import skewed
    from kleene.runtime.spark_time_slices import sliced_matches

    if obstacle(plan) is not None:
        return None
    sliced = partial(sliced_matches, plan, restored=named_batches(plan, types), bad_rows=bad_rows, output=output)
    if not plan.keys:
        return sliced(events)
    return skewed(plan.keys, events, sliced, lambda rest: _matched(plan, rest, types, bad_rows, output))


def _matched(plan: Plan, events: DataFrame, types: tuple[str, ...] | None, bad_rows: str, output: StructType) -> Answer:
    """The matches of relevant events, distributed by key."""
    events = distributed(plan, events, arrival=waits_for_arrival(plan))
    with worker_interpreter(events):
        matches = events.mapInArrow(_match_partition(plan, bad_rows, types, output.names), output)
    return Answer(matches, f"by {', '.join(plan.keys)}" if plan.keys else f"in one task: {_one_task(plan)}")


def _one_task(plan: Plan) -> str:
    """Why events that no key divides are not cut into slices of time."""
    return obstacle(plan) or "there are few events, one core, or a window that is long beside them"


def waits_for_arrival(plan: Plan) -> bool:
    """Whether events that tie are taken in the order in which they are in the DataFrame."""
    return isinstance(plan, NfaPlan | LazyPlan | MatchedPlan) and plan.total_order and plan.ties == "arrival"


class Shuffled(Protocol):
    """What distributing events needs of a plan."""

    @property
    def bound(self) -> BoundQuery: ...
    @property
    def keys(self) -> tuple[str, ...]:
        """What the events are distributed by; nothing for one task."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the events."""


def distributed(plan: Shuffled, events: DataFrame, *, arrival: bool) -> DataFrame:
    """The events by key, in stream order within each partition; with `arrival` rows that tie as they are in the DataFrame."""
    schema = plan.bound.schema
    numbers = (ARRIVAL,) if arrival else ()
    if arrival:
        events = events.withColumn(ARRIVAL, monotonically_increasing_id())
    events = events.repartition(*(events[quoted(name)] for name in plan.keys)) if plan.keys else events.repartition(1)
    events = events.sortWithinPartitions(*(quoted(name) for name in (schema.time, *schema.order_by, *numbers)))
    events = events.drop(*numbers)
    if any(mark in name for name in plan.columns for mark in ".`"):
        # mapInArrow looks its columns up by unquoted name; the engine gets their own names back.
        events = numbered(events)
    return events


def numbered(events: DataFrame) -> DataFrame:
    """The events with columns c0, c1, ..., whatever is in their names."""
    return events.toDF(*(f"c{number}" for number in range(len(events.columns))))


def type_codes(plan: Plan, frame: DataFrame) -> tuple[str, ...] | None:
    """The types that travel as numbers, each its place here, or None if they travel as they are.

    Text is the most expensive thing to shuffle and to hand to Python. Where the query returns columns of its own, the type is
    only tested. Without a declared schema no other types reach the engine; or, where all rows count, the last name is theirs.
    """
    schema = plan.bound.schema
    if schema.type is None or schema.types is not None or not plan.transformation.columns:
        return None
    read = {node.name for _, item in plan.transformation.columns for node in p.walk(item) if isinstance(node, p.Attribute)}
    key = schema.type in (*read, *plan.keys, *schema.order_by)
    if key or frame.schema[schema.type].dataType != StringType():
        return None
    types = tuple(sorted({name for event in plan.bound.components for name in event.types}))
    return (*types, free_name("other", types)) if plan.all_rows else types


def with_type_codes(plan: Plan, events: DataFrame, types: tuple[str, ...]) -> DataFrame:
    """The events with each type as its place among the types."""
    from pyspark.sql import functions as f

    name = plan.bound.schema.type
    assert name is not None
    column = events[quoted(name)]
    code: Any = f
    for number, event_type in enumerate(types):
        others = plan.all_rows and number == len(types) - 1
        code = code.when(column.isNotNull() if others else column == event_type, f.lit(number))
    return events.select(*(code.cast("short").alias(name) if item == name else events[quoted(item)] for item in plan.columns))


Restored = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Gives a batch the events' own column names and types."""


def named_batches(plan: Shuffled, types: tuple[str, ...] | None = None) -> Restored:
    """Gives batches that come from Spark the events' own column names and types."""

    def restored(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = batch.columns[: len(plan.columns)]
        if types is not None:
            place = plan.columns.index(str(plan.bound.schema.type))
            arrays[place] = pa.DictionaryArray.from_arrays(arrays[place], pa.array(types, pa.string()))
        return pa.RecordBatch.from_arrays(arrays, list(plan.columns))

    return restored


def _match_partition(
    plan: Plan, bad_rows: str, types: tuple[str, ...] | None, columns: list[str]
) -> Callable[[Batches], Batches]:
    restored = named_batches(plan, types)

    def match(batches: Batches) -> Batches:
        first = next(batches, None)
        if first is not None:
            first = restored(first)
            matcher = build_matcher(plan, first.schema, bad_rows=bad_rows)
            matcher.compute_only(columns)
            found = match_batches(matcher, chain([first], map(restored, batches)))
            yield from (rows.select(columns) for rows in found)
            dropped = dropped_at_limits(matcher.metrics)
            if dropped:
                warnings.warn(f"{dropped} in one task: the matches are not all there are", stacklevel=1)  # the executor's log

    return match


@contextmanager
def worker_interpreter(frame: DataFrame) -> Iterator[None]:
    """Lets the Python workers of a local classic session use the interpreter that runs this process, for one job.

    Without this they use `python3` on the PATH, which need not have Kleene. A choice of the user's (PYSPARK_PYTHON,
    spark.pyspark.python) stands; on a cluster and on Spark Connect the server's own setting decides.
    """
    session: Any = frame.sparkSession
    context = None if "connect" in type(session).__module__ else session.sparkContext
    chosen = os.environ.get("PYSPARK_PYTHON") or (context and context.getConf().get("spark.pyspark.python"))
    if context is None or chosen or not context.master.startswith("local"):
        yield
        return
    previous = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = previous


def bad_events(plan: Plan, frame: DataFrame) -> DataFrame:
    """The input rows that cannot be processed, each with the reason."""
    from pyspark.sql import functions as f

    conditions = bad_row_conditions(plan, frame)
    reason: Any = None
    for condition, text in conditions:
        reason = f.when(condition, f.lit(text)) if reason is None else reason.when(condition, f.lit(text))
    return frame.where(any_of([condition for condition, _ in conditions])).withColumn("reason", reason)
