"""Rows of AGG: `query`, the GROUP BY columns, `at`, and one column per aggregate, filtered by HAVING (semantics, section 7).

Both mechanisms write through this, so types and rounding are the same whichever one a plan chooses:
- COUNT is a 64-bit integer; SUM has the widest type of its attribute's kind (int64, float64, a duration in microseconds or
  nanoseconds); AVG is a float, of durations a duration rounded to the nearest unit; MIN and MAX have the type of their
  attribute.
- A dictionary-encoded column is written as its values.
- `at` has the type of the time column. Under EMIT ON CHANGE it must hold the instants of expiries too: where the type is too
  coarse for the window (a date and two hours) or too narrow (32 bits), it is a timestamp in microseconds or a 64-bit integer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import RepeatedText, decoded, time_type
from kleene.common.errors import DataError, Problem
from kleene.engine.expressions.failing import Noticed, OverflowedError
from kleene.engine.expressions.vectorized import Column, Evaluator, literal_scalar
from kleene.pattern.bound import BoundQuery
from kleene.pattern.policies import MatchAggregate
from kleene.pattern.predicates import Aggregate, And, Attribute, Expression, Fails, Literal, Name, Or, push_not, transform, walk

MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1, "day": 86_400_000_000}
"""The length of the units of time columns whose instants are in microseconds."""


WIDE = pa.decimal128(38, 0)
"""The type of a column of sums of integers of which some do not fit 64 bits."""


def sum_overflow(query: str) -> DataError:
    """The error of a sum in a row that is shown."""
    hint = "narrow the window or the conditions, group the sums, or sum floats"
    return DataError(Problem(f"a count or sum over matches of query '{query}' exceeds 64 bits", hint=hint))


def aggregate_schema(bound: BoundQuery, events: pa.Schema) -> pa.Schema:
    """The columns of the rows of an AGG query, for events with an Arrow schema."""
    return pa.schema(
        [
            pa.field("query", pa.string(), nullable=False),
            *(pa.field(name, value_type(events.field(name).type)) for name in bound.query.group_by),
            pa.field("at", at_type(bound, events), nullable=False),
            *(pa.field(item.alias, aggregate_type(item, events)) for item in bound.query.aggregates),
        ]
    )


class AggregateWriter:
    """Writes the rows of one AGG query."""

    def __init__(self, bound: BoundQuery, events: pa.Schema) -> None:
        self._bound = bound
        query = bound.query
        self._names = RepeatedText(query.name)
        self._having = None if query.having is None else transform(query.having, _as_column)
        self.schema = aggregate_schema(bound, events)

    def write(self, groups: Mapping[str, pa.Array], at: pa.Array, values: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """The rows for which HAVING holds: the columns of `grouped` by name, instants, aggregates by alias."""
        query = self._bound.query
        fixed = {name: pa.repeat(literal_scalar(value), len(at)) for name, value in fixed_values(self._bound).items()}
        columns = [
            self._names.times(len(at)),
            *(fixed[name] if name in fixed else groups[name] for name in query.group_by),
            at,
            *(values[item.alias] for item in query.aggregates),
        ]
        if any(column.type == WIDE for column in columns):
            return self._written_wide(columns)
        plain = [_of_type(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(plain, schema=self.schema)
        return rows if self._having is None else rows.filter(pa.array(self._held(rows)))

    def _written_wide(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """The same where sums do not fit: an error in rows that HAVING shows, or cannot decide."""
        too_large = {place: ~_fits(column) for place, column in enumerate(columns) if column.type == WIDE}
        plain = []
        for place, (column, field) in enumerate(zip(columns, self.schema, strict=True)):
            own = column
            if place in too_large:
                own = pc.if_else(pa.array(too_large[place]), pa.scalar(None, WIDE), column).cast(pa.int64())
            plain.append(_of_type(own, field.type))
        rows = pa.RecordBatch.from_arrays(plain, schema=self.schema)
        shown, failed = np.ones(rows.num_rows, bool), np.zeros(rows.num_rows, bool)
        if self._having is not None:
            shown = self._held(rows, too_large)
            names = {self.schema.field(place).name for place in too_large}
            failed = self._held(rows, too_large, _tolerant(self._having, names)) & ~shown
        if failed.any() or any((shown & found).any() for found in too_large.values()):
            raise sum_overflow(self._bound.query.name)
        return rows.filter(pa.array(shown))

    def _held(
        self, rows: pa.RecordBatch, too_large: Mapping[int, Array] | None = None, asked: Expression | None = None
    ) -> Array:
        places = {name: place for place, name in enumerate(self._bound.query.group_by, 1)}
        first = len(places) + 2
        places |= {item.alias: place for place, item in enumerate(self._bound.query.aggregates, first)}
        evaluator = _RowEvaluator(self._bound, lambda _, name: rows.column(places[name]), rows.num_rows, Noticed())
        evaluator.too_large = {name: too_large[place] for name, place in places.items() if too_large and place in too_large}
        assert self._having is not None
        return evaluator.holds(asked or self._having)


class _RowEvaluator(Evaluator):
    """Evaluates HAVING: its names are columns of the rows, of no component."""

    too_large: Mapping[str, Array] = {}
    """By name where a sum does not fit."""

    def attribute(self, node: Attribute) -> Column:
        if node.name in self.too_large:
            if self._failed is None:
                raise OverflowedError("a sum does not fit 64 bits")
            self._failed |= self.too_large[node.name]
        return super().attribute(node)

    def lacking(self, reference: Attribute | Aggregate) -> Column | None:  # noqa: ARG002 - no column is lacking
        return None


def _tolerant(condition: Expression, names: Collection[str]) -> Expression:
    """What holds where HAVING does, or would if what reads some columns did."""
    condition = push_not(condition)
    if isinstance(condition, And | Or):
        return type(condition)(tuple(_tolerant(operand, names) for operand in condition.operands))
    reads = any(isinstance(node, Attribute) and node.name in names for node in walk(condition))
    return Or((condition, Fails(condition))) if reads else condition


def fixed_values(bound: BoundQuery) -> dict[str, Any]:
    """The values of equivalence tests that fix one, `[attr = value]`."""
    return {test.name: test.value.value for test in bound.equivalences if isinstance(test.value, Literal)}


def grouped(bound: BoundQuery) -> tuple[str, ...]:
    """The GROUP BY attributes that tell groups apart: a fixed one is the same in all."""
    return tuple(name for name in bound.query.group_by if name not in fixed_values(bound))


def _as_column(node: Expression) -> Expression:
    return Attribute("", node.name, span=node.span) if isinstance(node, Name) else node


def value_type(data_type: pa.DataType) -> pa.DataType:
    """The type of a column's values, dictionary-encoded or not."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def aggregate_type(item: MatchAggregate, events: pa.Schema) -> pa.DataType:
    """The type of an aggregate's column."""
    if item.function == "count":
        return pa.int64()
    own = value_type(events.field(item.attribute).type)
    if item.function in ("min", "max") or pa.types.is_null(own):
        return own
    if pa.types.is_duration(own):
        return pa.duration("ns" if own.unit == "ns" else "us")
    return pa.int64() if item.function == "sum" and pa.types.is_integer(own) else pa.float64()


def at_type(bound: BoundQuery, events: pa.Schema) -> pa.DataType:
    """The type of the column `at`."""
    own = time_type(value_type(events.field(bound.schema.time).type))
    if not bound.query.emit_on_change or bound.window is None or bound.schema.time_unit == "ns":
        return own
    if bound.schema.time_unit is None:
        return own if own.bit_width == 64 else pa.int64()
    unit = own.unit if pa.types.is_timestamp(own) else "day"
    return pa.timestamp("us", getattr(own, "tz", None)) if bound.window % MICROSECONDS[unit] else own


def time_column(instants: Array, unit: str | None, data_type: pa.DataType) -> pa.Array:
    """Instants in the unit of the engine as a time column: the inverse of `kleene.common.columns.time_values`.

    >>> time_column(np.array([86_400_000_000]), "us", pa.date32())[0].as_py()
    datetime.date(1970, 1, 2)
    """
    column = pa.array(instants, pa.int64())
    if unit is not None:
        column = column.cast(pa.timestamp(unit, getattr(data_type, "tz", None)))
    return _of_type(column, data_type)


def _fits(column: pa.Array) -> Array:
    """Which sums fit 64 bits (NULL does)."""
    return np.array([value is None or -(2**63) <= value < 2**63 for value in column.to_pylist()], bool)


def total_column(totals: Array, known: Array, data_type: pa.DataType) -> pa.Array:
    """SUM (or COUNT of values) from the totals, integers or floats, and how many values there were: NULL over none.

    >>> total_column(np.array([3, 0]), np.array([2, 0]), pa.int64()).to_pylist()
    [3, None]
    """
    if pa.types.is_null(data_type):
        return pa.nulls(totals.size)
    return pa.array(totals, mask=known == 0, from_pandas=False).cast(data_type)


def average_column(totals: Array, known: Array, data_type: pa.DataType) -> pa.Array:
    """AVG from the totals and how many values there were: NULL over none.

    >>> average_column(np.array([3, 0]), np.array([2, 0]), pa.float64()).to_pylist()
    [1.5, None]
    """
    if pa.types.is_null(data_type):
        return pa.nulls(totals.size)
    count = np.maximum(known, 1)
    if not pa.types.is_duration(data_type):
        with np.errstate(all="ignore"):  # floats follow IEEE 754
            return pa.array(totals.astype(np.float64) / count, mask=known == 0, from_pandas=False)
    whole, rest = np.divmod(totals, count)  # to the nearest unit, ties to even
    whole += (rest > count - rest) | ((rest == count - rest) & (whole % 2 == 1))
    return pa.array(whole, mask=known == 0).cast(data_type)


def wide_total_column(totals: Sequence[int], known: Array, data_type: pa.DataType) -> pa.Array:
    """SUM from totals of any size: decimals, if some do not fit 64 bits. `AggregateWriter` tells whether that is an error.

    >>> wide_total_column([2**64, 3, 0], np.array([2, 1, 0]), pa.int64()).to_pylist()
    [Decimal('18446744073709551616'), Decimal('3'), None]
    """
    if all(-(2**63) <= total < 2**63 for total in totals):
        return total_column(np.array(totals, np.int64), known, data_type)
    return pa.array([Decimal(total) if count else None for total, count in zip(totals, known.tolist(), strict=True)], WIDE)


def wide_average_column(totals: Sequence[int], known: Array, data_type: pa.DataType) -> pa.Array:
    """AVG from totals of any size."""
    pairs = list(zip(totals, known.tolist(), strict=True))
    if not pa.types.is_duration(data_type):
        return pa.array([total / count if count else None for total, count in pairs], data_type)
    return pa.array([round(Fraction(total, count)) if count else None for total, count in pairs], pa.int64()).cast(data_type)


def _of_type(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    column = decoded(column)
    return column if column.type == data_type else pc.cast(column, data_type)
