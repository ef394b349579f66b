"""Which rows of a DataFrame leave its scan: those that a component of some plan can bind, and bad rows.

A pushed predicate only ever removes rows that the engine would ignore: the engine decides again, so what Spark and Arrow might
see differently (NaN, collations, time zones) is not pushed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark_types

from kleene.common.schema import EventSchema
from kleene.pattern import predicates as p
from kleene.pattern.text import quoted
from kleene.plan.analysis.keys import key_attributes
from kleene.plan.contract import ScannedPlan
from kleene.plan.counting.counters import anonymous
from kleene.runtime.spark.functions import pickled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

INTEGERS = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
FLOATS = (spark_types.FloatType, spark_types.DoubleType)

PUSHED_VALUES = 10
"""Of a longer list Spark pushes only the range down to Parquet (`spark.sql.parquet.pushdown.inFilterThreshold`)."""


def relevant_events(plans: Sequence[ScannedPlan], frame: DataFrame) -> DataFrame:
    """The rows of a DataFrame that matter to any of the plans, with the columns that any of them reads."""
    for plan in plans:
        for function in plan.bound.query.functions:
            pickled(function)  # raises here what Spark would report as an error of its own
    read = {name for plan in plans for name in plan.columns}
    events = frame.select(*(quoted(name) for name in frame.columns if name in read))
    condition = relevant_rows(plans, events)
    return events if condition is None else events.where(condition)


def relevant_rows(plans: Sequence[ScannedPlan], frame: DataFrame) -> Column | None:
    """The rows that a component of any plan can bind, and the bad rows of each; None when every row must travel."""
    if any(plan.all_rows for plan in plans):
        return None
    schema = plans[0].bound.schema
    tests = {
        (frozenset(event.types), frozenset(map(anonymous, predicates))): (plan, event.types, predicates)
        for plan in plans
        for event, predicates in plan.scanned
    }
    whole: set[str] = set()  # types of which every row travels
    pushed: list[tuple[tuple[str, ...], Column]] = []
    for plan, types, predicates in tests.values():
        conditions = [condition for item in predicates if (condition := push_down(item, plan, frame)) is not None]
        if conditions:
            pushed.append((types, all_of(conditions)))
        elif schema.type is None:
            return None
        else:
            whole.update(types)
    if schema.type is None:
        return any_of([*(condition for _, condition in pushed), *_missing(plans, frame, set())])
    undeclared, _ = bad_row_conditions(plans[0], frame)[0]
    parts = [of_types(schema, frame, tuple(sorted(whole)))] if whole else []
    parts += [of_types(schema, frame, types) & condition for types, condition in pushed if not whole.issuperset(types)]
    return any_of([*parts, undeclared, *_missing(plans, frame, whole)])


def _missing(plans: Sequence[ScannedPlan], frame: DataFrame, whole: set[str]) -> Iterator[Column]:
    """The rows without a time or a key that they should have, except for types of which every row travels."""
    schema = plans[0].bound.schema
    having: dict[str, set[str]] = {}
    for plan in plans:
        types = {name for event in plan.bound.components for name in event.types}
        for column in (schema.time, *key_attributes(plan.bound)):
            having.setdefault(column, set()).update(name for name in types if not plan.bound.lacks(name, column))
    for column, types in having.items():
        missing = frame[quoted(column)].isNull()
        if schema.type is None:
            yield missing
        elif types - whole:
            yield of_types(schema, frame, tuple(sorted(types - whole))) & missing


def of_types(schema: EventSchema, frame: DataFrame, types: tuple[str, ...]) -> Column:
    """The events of some types."""
    assert schema.type is not None
    column = frame[quoted(schema.type)]
    values: list[Any] = list(types)
    if not isinstance(frame.schema[schema.type].dataType, spark_types.StringType):
        values = [int(name) for name in types if name.lstrip("-").isdigit()]
    return any_of(
        [column.isin(values[begin : begin + PUSHED_VALUES]) for begin in range(0, max(len(values), 1), PUSHED_VALUES)]
    )


def bad_row_conditions(plan: ScannedPlan, frame: DataFrame) -> list[tuple[Column, str]]:
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


def push_down(node: p.Expression, plan: ScannedPlan, frame: DataFrame) -> Any:
    """A predicate on one event as a Spark condition that holds at least where the predicate does; None if it is not pushed."""
    if isinstance(node, p.And):
        parts = [condition for item in node.operands if (condition := push_down(item, plan, frame)) is not None]
        return all_of(parts) if parts else None
    if isinstance(node, p.Or):
        alternatives = [push_down(item, plan, frame) for item in node.operands]
        return None if any(item is None for item in alternatives) else any_of(alternatives)
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


def _comparable(node: p.Expression, kind: spark_types.DataType) -> bool:
    """Whether Spark compares a column of this type with the constant exactly as the engine does."""
    if not isinstance(node, p.Literal) or node.value is None:
        return False
    value = node.value
    if isinstance(value, bool):
        return isinstance(kind, spark_types.BooleanType)
    if isinstance(value, int):
        return isinstance(kind, (*INTEGERS, *FLOATS)) and abs(value) < 1 << 53
    if isinstance(value, float):
        return isinstance(kind, FLOATS) and value == value
    if isinstance(value, str):
        return kind == spark_types.StringType()
    return isinstance(value, dt.datetime) and isinstance(kind, spark_types.TimestampType)


def _constant(node: p.Expression) -> Any:
    assert isinstance(node, p.Literal)
    value = node.value
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    return value


def _reads_floats(node: p.Expression, frame: DataFrame) -> bool:
    return any(isinstance(item, p.Attribute) and isinstance(frame.schema[item.name].dataType, FLOATS) for item in p.walk(node))


def _sometimes_lacks(plan: ScannedPlan, attribute: p.Attribute) -> bool:
    types = plan.bound.component(attribute.variable).types
    return any(plan.bound.lacks(name, attribute.name) for name in types)


def any_of(conditions: list[Column]) -> Column:
    """Where one of the conditions holds."""
    return reduce(or_, conditions)


def all_of(conditions: list[Column]) -> Column:
    """Where all of the conditions hold."""
    return reduce(and_, conditions)
