"""Expressions over whole columns, with Arrow's compute functions: three-valued logic, exact kinds, no row loops.

This evaluates predicates on single events during the scan, predicates left to selection and negation on blocks of candidate
matches, and RETURN expressions. Its meaning is that of `kleene.testing.evaluate`, value by value.

Cost: one Arrow kernel call, or one call of a registered function, per node and block.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import decoded
from kleene.common.errors import DataError, LimitError, Problem
from kleene.engine.expressions import scalar
from kleene.engine.expressions.failing import Noticed, OverflowedError, attempt, overflow
from kleene.engine.expressions.registered import call_registered
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.faults import is_atom, tolerant
from kleene.pattern.moments import FineMoment, nanoseconds_of

Column = Any
"""A pyarrow Array or Scalar (pyarrow has no public stubs for compute results)."""


Rows = Callable[[str, str], pa.Array]
"""Gives the column of (variable, attribute) for the rows being evaluated."""


class Evaluator:
    """Evaluates bound expressions over blocks of `count` rows.

    What leaves 64 bits is an error, unless somebody is `noticed` of it: then a condition does not hold there.
    """

    def __init__(self, bound: BoundQuery, rows: Rows, count: int, noticed: Noticed | None = None) -> None:
        self._bound = bound
        self._rows = rows
        self._count = count
        self._noticed = noticed
        self._failed: Array | None = None
        """The rows where something has failed in the current atom; None if failing is an error."""

    def holds(self, condition: p.Expression) -> Array:
        """Where the condition is true (unknown is not), as a boolean array."""
        try:
            return self._held(condition)
        except OverflowedError as error:
            if self._noticed is None:
                raise DataError(str(error)) from error
            self._noticed.seen = True
            return self._held_tolerantly(condition)

    def judged(self, condition: p.Expression) -> tuple[Array, Array | None]:
        """Where the condition holds, and where it fails (None: nowhere)."""
        try:
            return self._held(condition), None
        except OverflowedError:
            return self._held_tolerantly(condition), self._held(p.Fails(condition))

    def values(self, expression: p.Expression) -> pa.Array:
        """The expression's value for every row."""
        try:
            return self._values(expression)
        except OverflowedError as error:
            raise DataError(str(error)) from error

    def _values(self, expression: p.Expression) -> pa.Array:
        return full(self._evaluate(expression), self._count)

    def computed(self, expression: p.Expression) -> tuple[pa.Array, Array | None]:
        """The expression's value for every row, and where it fails (None: nowhere)."""
        try:
            return self._values(expression), None
        except OverflowedError:
            self._failed = np.zeros(self._count, bool)
            values, failed, self._failed = self._values(expression), self._failed, None
            return values, failed

    def _held(self, condition: p.Expression) -> Array:
        return self._as_mask(self._condition(condition))

    def _held_tolerantly(self, condition: p.Expression) -> Array:
        outer, self._failed = self._failed, np.zeros(self._count, bool)
        try:
            return self._held(condition)
        finally:
            self._failed = outer

    def _as_mask(self, value: Column) -> Array:
        if isinstance(value, pa.Scalar):
            return np.full(self._count, value.as_py() is True)
        return np.asarray(pc.fill_null(value, False).to_numpy(zero_copy_only=False), dtype=bool)

    def _evaluate(self, node: p.Expression) -> Column:
        try:
            return _NODES[type(node)](self, node)
        except pa.ArrowInvalid as error:
            if "overflow" in str(error) or "out of bounds" in str(error):
                raise overflow(error) from error
            raise DataError(f"a value does not fit its type: {error}") from error

    def _attempt(self, function: Callable[..., Column], *operands: Column) -> Column:
        """A column of what may leave 64 bits."""
        try:
            return function(*operands)
        except pa.ArrowInvalid as error:
            if self._failed is None:
                raise overflow(error) from error
            values, failed = attempt(function, operands, self._count)
            self._failed |= failed
            return values

    def _widened(self, column: pa.Array) -> pa.Array:
        try:
            return widen(column)
        except OverflowedError:
            if self._failed is None:
                raise
            values, failed = attempt(lambda some: pc.cast(some, pa.int64()), (decoded(column),), self._count)
            self._failed |= failed
            return values

    def _condition(self, node: p.Expression) -> Column:
        """An operand of AND, OR, NOT or WHERE itself. An atomic one, negated or not, that reads an attribute which an event's
        type does not have holds; elsewhere (in RETURN) such an attribute is only NULL.
        """
        node = p.push_not(node)
        if isinstance(node, p.And | p.Or | p.Fails):
            return scalar.as_boolean(self._evaluate(node))
        outer = self._failed
        if outer is not None:
            self._failed = np.zeros(self._count, bool)
        if isinstance(node, p.Not):
            result = pc.invert(scalar.as_boolean(self._evaluate(node.operand)))
        else:
            result = scalar.as_boolean(self._evaluate(node))
        failed = self._failed if outer is not None and self._failed is not None and self._failed.any() else None
        if failed is not None:
            result = pc.if_else(pa.array(failed), pa.scalar(None, pa.bool_()), full(result, self._count))
        for reference in p.walk(node):
            if isinstance(reference, p.Attribute | p.Aggregate) and reference.name is not None:
                lacking = self.lacking(reference)
                if lacking is not None:
                    result = pc.or_kleene(result, lacking)
                    failed = None if failed is None else failed & ~self._as_mask(lacking)
        self._failed = outer if failed is None or outer is None else outer | failed
        return result

    def fails(self, node: p.Fails) -> Column:
        """Where a condition fails: an atom by itself, AND and OR where they would hold if what fails did."""
        operand = node.operand
        if not is_atom(operand):
            held = self._held_tolerantly(tolerant(operand, self._bound.schema))
            return pa.array(held & ~self._held_tolerantly(operand))
        outer, self._failed = self._failed, np.zeros(self._count, bool)
        try:
            self._condition(operand)
            return pa.array(self._failed)
        finally:
            self._failed = outer

    def lacking(self, reference: p.Attribute | p.Aggregate) -> Column | None:
        """Which rows read an event whose type is declared without the attribute; None if no type of the component is."""
        lacking = lacking_types(self._bound, reference)
        if not lacking:
            return None
        if len(lacking) == len(self._bound.component(reference.variable).types):
            return pa.scalar(True)
        return self._is_of(reference, lacking)

    def _is_of(self, reference: p.Attribute | p.Aggregate, types: list[str]) -> Column:
        """Which rows read an event of one of the types."""
        assert self._bound.schema.type is not None
        return of_types(self._rows(reference.variable, self._bound.schema.type), types)

    # Each node kind below is one entry of _NODES.

    def literal(self, node: p.Literal) -> Column:
        return literal_scalar(node.value)

    def attribute(self, node: p.Attribute) -> Column:
        column = self._widened(self._rows(node.variable, node.name))
        lacking = self.lacking(node)
        return column if lacking is None else pc.if_else(lacking, pa.scalar(None, column.type), column)

    def length(self, node: p.Length) -> Column:
        raise AssertionError(f"{node!r} reads a list: see kleene.engine.matches.match_values")

    def aggregate(self, node: p.Aggregate) -> Column:
        raise AssertionError(f"{node!r} reads a list: see kleene.engine.matches.match_values")

    def negate(self, node: p.Negate) -> Column:
        return self._attempt(pc.negate_checked, self._evaluate(node.operand))

    def arithmetic(self, node: p.Arithmetic) -> Column:
        operation = partial(scalar.arithmetic, node.operator)
        return self._attempt(operation, self._evaluate(node.left), self._evaluate(node.right))

    def comparison(self, node: p.Comparison) -> Column:
        return scalar.compare(node.operator, self._evaluate(node.left), self._evaluate(node.right))

    def contained(self, node: p.In) -> Column:
        operand = self._evaluate(node.operand)
        assert isinstance(node.items, tuple)
        if len(node.items) > 3 and all(isinstance(item, p.Literal) and item.value is not None for item in node.items):
            found = _found_in(operand, [item.value for item in node.items if isinstance(item, p.Literal)])
            if found is not None:
                return pc.if_else(pc.is_valid(operand), found, pa.scalar(None, pa.bool_()))
        result: Column = pa.scalar(False)
        for item in node.items:
            result = pc.or_kleene(result, scalar.compare("=", operand, self._evaluate(item)))
        return result

    def between(self, node: p.Between) -> Column:
        operand = self._evaluate(node.operand)
        low = scalar.compare(">=", operand, self._evaluate(node.low))
        return pc.and_kleene(low, scalar.compare("<=", operand, self._evaluate(node.high)))

    def like(self, node: p.Like) -> Column:
        assert isinstance(node.pattern, p.Literal)
        operand = self._evaluate(node.operand)
        if node.pattern.value is None or pa.types.is_null(operand.type):
            return pa.scalar(None, pa.bool_())
        pattern = str(node.pattern.value)
        try:
            return pc.match_like(operand, pattern)
        except pa.ArrowInvalid as error:
            if "too large" not in str(error):
                raise
            message = f"the pattern of LIKE is too large to compile: {len(pattern):,} characters"
            raise LimitError(Problem(message, hint="use fewer % and _, or split the condition")) from error

    def is_null(self, node: p.IsNull) -> Column:
        return pc.is_null(self._evaluate(node.operand))

    def negation(self, node: p.Not) -> Column:
        return self._condition(node)

    def conjunction(self, node: p.And) -> Column:
        result: Column = pa.scalar(True)
        for operand in node.operands:
            result = pc.and_kleene(result, self._condition(operand))
        return result

    def disjunction(self, node: p.Or) -> Column:
        result: Column = pa.scalar(False)
        for operand in node.operands:
            result = pc.or_kleene(result, self._condition(operand))
        return result

    def call(self, node: p.Call) -> Column:
        arguments = [self._evaluate(argument) for argument in node.arguments]
        if node.registered is not None:
            return call_registered(node.registered, [full(argument, self._count) for argument in arguments], self._count)
        return self._attempt(lambda *given: scalar.call(node.function, given), *arguments)


_NODES: dict[type[p.Expression], Callable[[Evaluator, Any], Column]] = {
    p.Literal: Evaluator.literal,
    p.Attribute: lambda evaluator, node: evaluator.attribute(node),  # by name: other rows read attributes in other ways
    p.Length: lambda evaluator, node: evaluator.length(node),
    p.Aggregate: lambda evaluator, node: evaluator.aggregate(node),
    p.Negate: Evaluator.negate,
    p.Arithmetic: Evaluator.arithmetic,
    p.Comparison: Evaluator.comparison,
    p.In: Evaluator.contained,
    p.Between: Evaluator.between,
    p.Like: Evaluator.like,
    p.IsNull: Evaluator.is_null,
    p.Not: Evaluator.negation,
    p.Fails: Evaluator.fails,
    p.And: Evaluator.conjunction,
    p.Or: Evaluator.disjunction,
    p.Call: Evaluator.call,
}


def _found_in(operand: Column, constants: list[Any]) -> Column | None:
    """Which values are equal to one of some constants, by a hash table; None if they are compared in another way."""
    kinds = {type(constant) for constant in constants}
    if kinds <= {int, float} and pa.types.is_floating(operand.type):
        return _floats_in(operand, constants)
    if kinds == {int, float} and operand.type == pa.int64():
        whole = pa.array([constant for constant in constants if type(constant) is int], pa.int64())
        floats = [constant for constant in constants if type(constant) is float]
        # An integer and a float are compared as floats.
        return pc.or_(pc.is_in(operand, value_set=whole), _floats_in(pc.cast(operand, pa.float64(), safe=False), floats))
    if kinds == {float} and operand.type == pa.int64():
        return _floats_in(pc.cast(operand, pa.float64(), safe=False), constants)
    if len(kinds) == 1 and kinds <= {int, str} and literal_scalar(constants[0]).type == operand.type:
        return pc.is_in(operand, value_set=pa.array(constants, operand.type))
    return None


def _floats_in(operand: Column, constants: list[float]) -> Column:
    # A hash table would distinguish -0.0 from 0.0, and find NaN.
    numbers = np.array([float(constant) for constant in constants]) + 0.0
    return pc.is_in(pc.add(operand, 0.0), value_set=pa.array(numbers[~np.isnan(numbers)]))


def full(value: Column, count: int) -> pa.Array:
    """A value for each of `count` rows as one array."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, count) if value.is_valid else pa.nulls(count, value.type)
    return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def literal_scalar(value: object) -> pa.Scalar:
    """A constant of the language as an Arrow scalar of the widest type of its kind."""
    if value is None:
        return pa.scalar(None)
    if isinstance(value, bool):
        return pa.scalar(value)
    if isinstance(value, int):
        return pa.scalar(value, pa.int64())
    if isinstance(value, dt.datetime):
        return pa.scalar(value if value.tzinfo else value.replace(tzinfo=dt.UTC), pa.timestamp("us", "UTC"))
    if isinstance(value, FineMoment):
        return pa.scalar(nanoseconds_of(value), pa.timestamp("ns", "UTC"))
    if isinstance(value, dt.timedelta):
        return pa.scalar(value, pa.duration("us"))
    return pa.scalar(value)


def widen(column: pa.Array) -> pa.Array:
    """A column as the widest type of its kind: int64, float64, string, timestamp in UTC (ns if it was, else us)."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return widen(column.dictionary_decode())
    if pa.types.is_integer(kind):
        return column if kind == pa.int64() else _as_int64(column)
    if pa.types.is_floating(kind):
        return column if kind == pa.float64() else pc.cast(column, pa.float64())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pc.cast(column, pa.string())
    if pa.types.is_date(kind):
        return pc.cast(column, pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("ns" if kind.unit == "ns" else "us", "UTC"))
    if pa.types.is_duration(kind):
        return column.cast(pa.duration("ns" if kind.unit == "ns" else "us"))
    return column


def _as_int64(column: pa.Array) -> pa.Array:
    try:
        return pc.cast(column, pa.int64())
    except pa.ArrowInvalid as error:
        hint = "cast the column to a float or to text; as it is it can be carried and returned, but not compared"
        raise OverflowedError(Problem(f"an unsigned integer does not fit 64 bits with a sign: {error}", hint=hint)) from error


def lacking_types(bound: BoundQuery, reference: p.Attribute | p.Aggregate) -> list[str]:
    """The types of a variable that are declared without the attribute that is read."""
    assert reference.name is not None
    return [event_type for event_type in bound.component(reference.variable).types if bound.lacks(event_type, reference.name)]


def of_types(column: pa.Array, types: list[str]) -> pa.Array:
    """Which values of a type column are one of the types."""
    return pc.is_in(as_text(column), value_set=pa.array(types, pa.string()))


def as_text(column: pa.Array) -> pa.Array:
    """A type column as strings: integer types are compared as their text."""
    return pc.cast(widen(column), pa.string())
