"""A DataFrame as plans take it: its schema in Arrow, shuffled by key and sorted, types as codes, and the Python of tasks."""

from __future__ import annotations

import copyreg
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.functions import monotonically_increasing_id
from pyspark.sql.types import StringType

from kleene.common.columns import free_name
from kleene.engine.matcher import Metrics
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import attributes
from kleene.pattern.registered import Function
from kleene.pattern.text import quoted
from kleene.plan.contract import Plan
from kleene.runtime.embedded import dropped_at_limits
from kleene.runtime.spark.functions import pickled
from kleene.runtime.spark.schemas import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

copyreg.pickle(Function, pickled)  # they travel inside plans

ARRIVAL = "__kleene_arrival"
"""The order of rows in the DataFrame as it was given, where `ties="arrival"` asks for it."""


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema in which the DataFrame's rows reach Python."""
    return to_arrow(frame.schema)


@dataclass(frozen=True, slots=True)
class Answer:
    """Matches, and how the events are distributed to find them, in words."""

    matches: DataFrame
    distribution: str


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
    read = attributes(*(item for _, item in plan.transformation.columns))
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


def warn_of_dropped(metrics: Metrics, result: str = "the result") -> None:
    """Says in the executor's log what a task has dropped at the limits."""
    dropped = dropped_at_limits(metrics)
    if dropped:
        warnings.warn(f"{dropped} in one task; {result} is incomplete", stacklevel=1)


@contextmanager
def worker_interpreter(frame: DataFrame) -> Iterator[None]:
    """Lets the Python workers of a local classic session use the interpreter that runs this process, for one job.

    Without this they use `python3` on the PATH, which need not have Kleene. An explicit choice (PYSPARK_PYTHON,
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
