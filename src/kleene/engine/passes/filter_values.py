"""The columns that compiled filters read, computed for the rows of a working set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.schema import Kind
from kleene.engine.events.kernels.tables import Columns
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.filter_constants import filled_constants
from kleene.engine.expressions.filters import FAILED, ColumnSpec, Computed, FilterProgram, Program
from kleene.engine.expressions.vectorized import Evaluator, lacking_types, of_types, widen
from kleene.engine.kernels.rows import gather
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Attribute


def filter_column(spec: ColumnSpec, bound: BoundQuery, working: WorkingSet, own: int) -> Computed:
    """The values of a filter's column by row; `own` are the bits of the rows that the column's variable can hold."""
    if isinstance(spec.expression, Attribute):
        if spec.lacks:
            assert bound.schema.type is not None
            return of_types(working.column(bound.schema.type), lacking_types(bound, spec.expression)), None
        column = working.column(spec.expression.name)
        return (column if pa.types.is_signed_integer(column.type) else widen(column)), None
    # Computed for the variable's own rows only: others may not have sensible values.
    rows = np.flatnonzero(working.masks & own)
    evaluator = Evaluator(bound, lambda _, name: working.gather(name, rows), rows.size)
    values, failed = evaluator.computed(spec.expression)
    places = np.full(len(working), -1, np.int64)
    places[rows] = np.arange(rows.size)
    by_row = values.take(pa.array(places, mask=places < 0))
    return by_row, None if failed is None else np.isin(np.arange(len(working)), rows[failed])


def fill_columns(
    program: FilterProgram | Program | None,
    rows: int,
    column: Callable[[ColumnSpec], Computed],
    order: np.ndarray[Any, Any] | None,
) -> Columns:
    """What a filter reads of `rows` rows; `column` evaluates a spec by row,
    `order` is the row at each place that the kernel reads (None: rows as they are).
    """
    if program is None:
        return Columns(np.empty((0, 0), np.int64), np.empty((0, 0)), np.empty((0, 0), np.uint8), np.zeros(1, np.int64))
    ints = np.empty((len(program.ints), rows), np.int64)
    floats = np.empty((len(program.floats), rows), np.float64)
    valid = np.ones((len(program.ints) + len(program.floats), rows), np.uint8)
    computed = [column(spec) for spec in program.ints]
    arrays = [_typed(array, spec.kind) for (array, _), spec in zip(computed, program.ints, strict=True)]
    unit = "ns" if any(getattr(array.type, "unit", None) == "ns" for array in arrays) else "us"
    texts = [index for index, spec in enumerate(program.ints) if spec.kind is Kind.STRING and not spec.lacks]
    written = [value for constant in program.constants for value in constant.values if isinstance(value, str)]
    dictionary = _sorted_dictionary([*(arrays[index] for index in texts), pa.array(written, pa.string())])
    for index, (spec, array) in enumerate(zip(program.ints, arrays, strict=True)):
        if array.null_count:
            valid[index] = array.is_valid().to_numpy(zero_copy_only=False)
        if (failed := computed[index][1]) is not None:
            valid[index, failed] = FAILED
        _place(_ranks(array, dictionary) if index in texts else _integers(array, spec, unit), order, ints[index])
    for index, spec in enumerate(program.floats):
        array, failed = column(spec)
        array = _typed(array, spec.kind)
        if array.null_count:
            valid[-index - 1] = array.is_valid().to_numpy(zero_copy_only=False)
        if failed is not None:
            valid[-index - 1, failed] = FAILED
        _place(pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False), order, floats[index])
    if order is not None and (valid != 1).any():
        valid = valid.take(order, axis=-1)
    return Columns(ints, floats, valid, filled_constants(program.constants, dictionary, unit))


def _typed(array: pa.Array, kind: Kind) -> pa.Array:
    """A column of nothing but NULL, as functions of NULL give it, as one of its kind."""
    types = {Kind.STRING: pa.string(), Kind.FLOAT: pa.float64()}
    return array.cast(types[kind]) if pa.types.is_null(array.type) and kind in types else array


def _place(values: np.ndarray[Any, Any], order: np.ndarray[Any, Any] | None, out: np.ndarray[Any, Any]) -> None:
    """Writes values by row in the given order."""
    if order is None:
        out[:] = values
    else:
        gather(values, order, out)


def _sorted_dictionary(arrays: list[pa.Array]) -> pa.Array:
    distinct = pc.unique(pa.chunked_array([pc.unique(array) for array in arrays], pa.string()))
    distinct = distinct.drop_null()
    return distinct.take(pc.sort_indices(distinct))


def _ranks(array: pa.Array, dictionary: pa.Array) -> np.ndarray[Any, Any]:
    ranks = pc.index_in(array, value_set=dictionary)
    return np.asarray(pc.fill_null(ranks, 0).to_numpy(zero_copy_only=False), np.int64)


def _integers(array: pa.Array, spec: ColumnSpec, unit: str) -> np.ndarray[Any, Any]:
    if spec.kind is Kind.OTHER:
        return np.zeros(len(array), np.int64)  # only whether there is one can be asked
    if spec.kind is Kind.TIMESTAMP:
        array = array.cast(pa.timestamp(unit, "UTC")).cast(pa.int64())
    elif spec.kind is Kind.DURATION:
        array = array.cast(pa.duration(unit)).cast(pa.int64())
    elif pa.types.is_boolean(array.type) or pa.types.is_null(array.type):
        array = array.cast(pa.int8())
    if array.null_count:
        array = pc.fill_null(array, 0)
    return np.asarray(array.to_numpy(zero_copy_only=False))
