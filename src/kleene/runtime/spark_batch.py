"""The Spark batch runtime: any DataFrame in, a lazy DataFrame of matches out.

The plan is made once, on the driver. Before the shuffle the DataFrame keeps only rows that some component can bind (type
tests and simple predicates, which Catalyst takes down to the scan) and columns that the plan reads. Then: shuffle by key,
sort by stream order within each partition, and one `mapInArrow` in which the engine keeps the state of all keys. What no key
divides is cut into slices of time (`spark_time_slices`, for counters `spark_slices`), and so are keys that are much larger than
others (`spark_skew`). Nothing of the session is changed.

A pushed predicate only ever removes rows that the engine would ignore: the engine decides again, so what Spark and Arrow might
see differently (NaN, collations, time zones) is not pushed.
"""

from __future__ import annotations

import copyreg
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.functions import monotonically_increasing_id
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from kleene.common.schema import EventSchema
from kleene.engine.build import build_matcher
from kleene.pattern import predicates as p
from kleene.pattern.registered import Function
from kleene.plan.aggregate import CounterPlan
from kleene.plan.keys import key_attributes
from kleene.plan.lazy import LazyPlan
from kleene.plan.matched import MatchedPlan
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.nfa import NfaPlan
from kleene.plan.optimizer import Plan
from kleene.plan.slicing import obstacle
from kleene.runtime.arrow import dropped_at_limits, match_batches
from kleene.runtime.spark_functions import pickled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

INTEGERS = (ByteType, ShortType, IntegerType, LongType)
FLOATS = (FloatType, DoubleType)

copyreg.pickle(Function, pickled)  # they travel inside plans

PUSHED_VALUES = 10
"""Of a longer list Spark pushes only the range down to Parquet (`spark.sql.parquet.pushdown.inFilterThreshold`)."""

ARRIVAL = "__kleene_arrival"
"""The order of rows in the DataFrame as it was given, where `ties="arrival"` asks for it."""


@dataclass(frozen=True, slots=True)
class SparkRun:
    """A run on Spark, computed when its DataFrames are."""

    matches: DataFrame
    bad_rows: DataFrame
    """The input rows with a NULL time, key or type, or an undeclared type, with a `reason` column."""
    kept: DataFrame | None = None
    """What is kept for the queries of a workload that are answered together."""
    distribution: str = ""
    """How the events are distributed over tasks, in words."""

    def unpersist(self) -> None:
        """Lets go of what is kept; it is computed anew when it is asked for again."""
        if self.kept is not None:
            self.kept.unpersist()


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema in which the DataFrame's rows reach Python."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def run_spark(plan: Plan, frame: DataFrame, *, bad_rows: str) -> SparkRun:
    """The lazy matches of a plan over a DataFrame."""
    events = relevant_events(plan, frame)
    types = type_codes(plan, frame)
    if types is not None:
        events = _with_type_codes(plan, events, types)
    # Rows set aside are in SparkRun.bad_rows; the engine only has to pass over them.
    matcher_policy = "drop" if bad_rows == "quarantine" else bad_rows
    output = from_arrow_schema(build_matcher(plan, arrow_schema(frame)).output_schema)
    ways = (_counted, _sliced, _matched)
    spread = next(found for way in ways if (found := way(plan, events, types, matcher_policy, output)) is not None)
    return SparkRun(spread.matches, bad_events(plan, frame), distribution=spread.text)


@dataclass(frozen=True, slots=True)
class Spread:
    """Matches, and how the events are distributed to find them."""

    matches: DataFrame
    text: str


def relevant_events(plan: Plan | PatternGroup, frame: DataFrame) -> DataFrame:
    """The rows of a DataFrame that matter, with the columns that are read."""
    for function in plan.bound.query.functions:
        pickled(function)  # raises here what Spark would report as an error of its own
    events = frame.select(*(quoted(name) for name in plan.columns))
    condition = relevant_rows(plan, events)
    return events if condition is None else events.where(condition)


def _counted(plan: Plan, events: DataFrame, types: tuple[str, ...] | None, bad_rows: str, output: StructType) -> Spread | None:
    """The rows of an aggregate that no key divides, counted by several tasks; None for other plans, and few events."""
    from kleene.runtime.spark_slices import counted_rows

    return counted_rows(plan, events, named_batches(plan, types), bad_rows, output) if isinstance(plan, CounterPlan) else None


def _sliced(plan: Plan, events: DataFrame, types: tuple[str, ...] | None, bad_rows: str, output: StructType) -> Spread | None:
    """The matches of events that no key divides, or some key hardly does, in slices of time; None where that does not pay."""
    from kleene.runtime.spark_skew import skewed_matches
    from kleene.runtime.spark_time_slices import sliced_matches, slicing_of

    restored = named_batches(plan, types)
    if plan.keys:
        return skewed_matches(
            plan, events, restored, bad_rows, output, lambda rest: _matched(plan, rest, types, bad_rows, output)
        )
    slicing = slicing_of(plan, events, restored)
    if slicing is None:
        return None
    return Spread(sliced_matches(plan, events, slicing, restored, bad_rows, output), str(slicing))


def _matched(plan: Plan, events: DataFrame, types: tuple[str, ...] | None, bad_rows: str, output: StructType) -> Spread:
    """The matches of relevant events, distributed by key."""
    events = distributed(plan, events, arrival=waits_for_arrival(plan))
    with worker_interpreter(events):
        matches = events.mapInArrow(_match_partition(plan, bad_rows, types), output)
    return Spread(matches, f"by {', '.join(plan.keys)}" if plan.keys else f"in one task: {one_task_reason(plan)}")


def one_task_reason(plan: Plan) -> str:
    """Why events that no key divides are not cut into slices of time."""
    return obstacle(plan) or "there are few events, one core, or a window that is long beside them"


def waits_for_arrival(plan: Plan) -> bool:
    """Whether events that tie are taken in the order in which they are in the DataFrame."""
    return isinstance(plan, NfaPlan | LazyPlan | MatchedPlan) and plan.total_order and plan.ties == "arrival"


def distributed(plan: Plan | PatternGroup, events: DataFrame, *, arrival: bool) -> DataFrame:
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
        events = events.toDF(*(f"c{number}" for number in range(len(plan.columns))))
    return events


def type_codes(plan: Plan, frame: DataFrame) -> tuple[str, ...] | None:
    """The types that travel as numbers, each its place here, or None if they travel as they are.

    Text is the most expensive thing to shuffle and to hand to Python. Where the query returns columns of its own, the type is
    only tested; and without a declared schema no other types can reach the engine.
    """
    schema = plan.bound.schema
    if schema.type is None or schema.types is not None or not plan.transformation.columns:
        return None
    read = {node.name for _, item in plan.transformation.columns for node in p.walk(item) if isinstance(node, p.Attribute)}
    key = schema.type in (*read, *plan.keys, *schema.order_by)
    if key or plan.all_rows or frame.schema[schema.type].dataType != StringType():
        return None
    return tuple(sorted({name for event in plan.bound.components for name in event.types}))


def _with_type_codes(plan: Plan, events: DataFrame, types: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as f

    name = plan.bound.schema.type
    assert name is not None
    column = events[quoted(name)]
    code: Any = f
    for number, event_type in enumerate(types):
        code = code.when(column == event_type, f.lit(number))
    return events.select(*(code.cast("short").alias(name) if item == name else events[quoted(item)] for item in plan.columns))


def named_batches(
    plan: Plan | PatternGroup, types: tuple[str, ...] | None = None
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Gives batches that come from Spark the events' own column names and types."""

    def restored(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = batch.columns[: len(plan.columns)]
        if types is not None:
            place = plan.columns.index(str(plan.bound.schema.type))
            arrays[place] = pa.DictionaryArray.from_arrays(arrays[place], pa.array(types, pa.string()))
        return pa.RecordBatch.from_arrays(arrays, list(plan.columns))

    return restored


def _match_partition(
    plan: Plan, bad_rows: str, types: tuple[str, ...] | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    restored = named_batches(plan, types)

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is not None:
            first = restored(first)
            matcher = build_matcher(plan, first.schema, bad_rows=bad_rows)
            yield from match_batches(matcher, chain([first], map(restored, batches)))
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


def relevant_rows(plan: Plan | PatternGroup, frame: DataFrame) -> Column | None:
    """The rows that some component can bind, and all bad rows; None when every row must travel."""
    if plan.all_rows:
        return None
    typed = plan.bound.schema.type is not None
    whole: set[str] = set()  # types of which every row travels
    conditions: list[Column] = []
    for event, predicates in plan.scanned:
        pushed = [condition for item in predicates if (condition := push_down(item, plan, frame)) is not None]
        if not pushed:
            if not typed:
                return None
            whole.update(event.types)
            continue
        of_event = [of_types(plan.bound.schema, frame, event.types)] if typed else []
        conditions.append(reduce(lambda left, right: left & right, [*of_event, *pushed]))
    bad = [condition for condition, _ in bad_row_conditions(plan, frame)]
    if not conditions:
        bad = bad[:1]  # of the types that travel whole, bad rows do too: only rows without a good type are left
    if whole:
        conditions.insert(0, of_types(plan.bound.schema, frame, tuple(sorted(whole))))
    return any_of([*conditions, *bad])


def of_types(schema: EventSchema, frame: DataFrame, types: tuple[str, ...]) -> Column:
    """The events of some types."""
    assert schema.type is not None
    column = frame[quoted(schema.type)]
    values: list[Any] = list(types)
    if not isinstance(frame.schema[schema.type].dataType, StringType):
        values = [int(name) for name in types if name.lstrip("-").isdigit()]
    return any_of(
        [column.isin(values[begin : begin + PUSHED_VALUES]) for begin in range(0, max(len(values), 1), PUSHED_VALUES)]
    )


def bad_row_conditions(plan: Plan | PatternGroup, frame: DataFrame) -> list[tuple[Column, str]]:
    """(condition, reason) of rows that cannot be processed, as the engine's scan judges them."""
    schema = plan.bound.schema
    events = plan.bound.components
    found: list[tuple[Column, str]] = []
    named: Column | None = None
    if schema.type is not None:
        kind = frame[quoted(schema.type)]
        undeclared = kind.isNull()
        if schema.types is not None:
            undeclared = undeclared | ~of_types(schema, frame, tuple(schema.types))
        found.append((undeclared, f"type column '{schema.type}' is NULL or holds an undeclared type"))
        named = of_types(schema, frame, tuple(sorted({name for event in events for name in event.types})))
    missing = frame[quoted(schema.time)].isNull()
    found.append((missing if named is None else named & missing, f"time column '{schema.time}' is NULL"))
    for key in key_attributes(plan.bound):
        missing = frame[quoted(key)].isNull()
        if schema.type is not None:
            having = [event for event in events if not any(plan.bound.lacks(name, key) for name in event.types)]
            missing = missing & of_types(schema, frame, tuple(sorted({name for event in having for name in event.types})))
        found.append((missing, f"key attribute '{key}' is NULL"))
    return found


def bad_events(plan: Plan, frame: DataFrame) -> DataFrame:
    """The input rows that cannot be processed, each with the reason."""
    from pyspark.sql import functions as f

    conditions = bad_row_conditions(plan, frame)
    reason: Any = None
    for condition, text in conditions:
        reason = f.when(condition, f.lit(text)) if reason is None else reason.when(condition, f.lit(text))
    return frame.where(any_of([condition for condition, _ in conditions])).withColumn("reason", reason)


def push_down(node: p.Expression, plan: Plan | PatternGroup, frame: DataFrame) -> Any:
    """A predicate on one event as a Spark condition that holds at least where the predicate does; None if it is not pushed."""
    if isinstance(node, p.And):
        parts = [condition for item in node.operands if (condition := push_down(item, plan, frame)) is not None]
        return reduce(lambda left, right: left & right, parts) if parts else None
    if isinstance(node, p.Or):
        alternatives = [push_down(item, plan, frame) for item in node.operands]
        return (
            None if any(item is None for item in alternatives) else any_of([item for item in alternatives if item is not None])
        )
    if isinstance(node, p.Not):
        exact = push_down(node.operand, plan, frame) if isinstance(node.operand, p.In | p.IsNull | p.Comparison) else None
        return None if exact is None or _reads_floats(node, frame) else ~exact
    attribute = getattr(node, "operand", None) or getattr(node, "left", None)
    if not isinstance(attribute, p.Attribute) or _sometimes_lacks(plan, attribute):
        return None
    column, kind = frame[quoted(attribute.name)], frame.schema[attribute.name].dataType
    if isinstance(node, p.IsNull):
        return column.isNull()
    if isinstance(node, p.Comparison) and _comparable(node.right, kind):
        return _COMPARISONS[node.operator](column, _constant(node.right))
    if isinstance(node, p.Between) and _comparable(node.low, kind) and _comparable(node.high, kind):
        return (column >= _constant(node.low)) & (column <= _constant(node.high))
    if isinstance(node, p.In) and isinstance(node.items, tuple) and all(_comparable(item, kind) for item in node.items):
        return column.isin([_constant(item) for item in node.items])
    return None


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


def _comparable(node: p.Expression, kind: DataType) -> bool:
    """Whether Spark compares a column of this type with the constant exactly as the engine does."""
    import datetime as dt

    if not isinstance(node, p.Literal) or node.value is None:
        return False
    value = node.value
    if isinstance(value, bool):
        return isinstance(kind, BooleanType)
    if isinstance(value, int):
        return isinstance(kind, (*INTEGERS, *FLOATS)) and abs(value) < 1 << 53
    if isinstance(value, float):
        return isinstance(kind, FLOATS) and value == value
    if isinstance(value, str):
        return kind == StringType()
    return isinstance(value, dt.datetime) and isinstance(kind, TimestampType)


def _constant(node: p.Expression) -> Any:
    import datetime as dt

    assert isinstance(node, p.Literal)
    value = node.value
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    return value


def _reads_floats(node: p.Expression, frame: DataFrame) -> bool:
    return any(isinstance(item, p.Attribute) and isinstance(frame.schema[item.name].dataType, FLOATS) for item in p.walk(node))


def _sometimes_lacks(plan: Plan | PatternGroup, attribute: p.Attribute) -> bool:
    types = plan.bound.component(attribute.variable).types
    return any(plan.bound.lacks(name, attribute.name) for name in types)


def any_of(conditions: list[Column]) -> Column:
    """Where one of the conditions holds."""
    return reduce(lambda left, right: left | right, conditions)


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
