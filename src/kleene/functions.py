"""Ready-made functions for queries: `kleene.query(text, functions={"Corr": kleene.functions.corr})`.

>>> import pyarrow as pa
>>> found = corr(pa.array([[1, 2, 3], [1, 2, 3], [1, 1, 1]]), pa.array([[2, 4, 7], [3, 2, 1], [1, 2, 3]]))
>>> pc.round(found, 3).to_pylist()
[0.993, -1.0, None]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.pattern.registered import function

__all__ = ["corr"]


ROWS = 1 << 12
"""Number of lists that are correlated at a time, so that intermediate results stay in cache."""


@function(returns="float")
def corr(x: pa.Array, y: pa.Array) -> pa.Array:
    """Pearson's correlation of two lists of numbers, row by row.

    NULL where a list or one of its values is NULL, where their lengths differ, or where all values of one are equal.
    """
    if pa.types.is_null(x.type) or pa.types.is_null(y.type):
        return pa.nulls(len(x), pa.float64())
    (x_values, x_starts, x_sizes), (y_values, y_starts, y_sizes) = _lists(x), _lists(y)
    comparable = (x_sizes == y_sizes) & (x_sizes > 1) & (y_sizes > 1)
    found, known = np.zeros(len(x)), np.zeros(len(x), bool)
    for size, rows in _blocks(x_sizes, np.flatnonzero(comparable)):
        with np.errstate(all="ignore"):
            found[rows], known[rows] = _correlated(
                _columns(x_values, x_starts.take(rows), size), _columns(y_values, y_starts.take(rows), size)
            )
    return pa.array(found, mask=~known)


def _lists(column: pa.Array) -> tuple[Array, Array, Array]:
    """The values of all lists, where each list begins, and its size: -1 where it is NULL or holds a NULL."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise TypeError(f"corr takes lists of numbers, found {kind}")
    if not (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)):
        raise TypeError(f"corr takes lists of numbers, found lists of {kind.value_type}")
    if pa.types.is_fixed_size_list(kind):
        column = pc.cast(column, pa.list_(kind.value_type))
    offsets = column.offsets.to_numpy().astype(np.int64)
    values, sizes = column.values, np.diff(offsets)
    if column.null_count:
        sizes[column.is_null().to_numpy(zero_copy_only=False)] = -1
    if values.null_count:
        nulls = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values.is_null().to_numpy(zero_copy_only=False), out=nulls[1:])
        sizes[nulls[offsets[1:]] > nulls[offsets[:-1]]] = -1
        values = pc.fill_null(values, pa.scalar(0, values.type))
    return pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False), offsets[:-1], sizes


def _blocks(sizes: Array, rows: Array) -> Iterator[tuple[int, Array]]:
    """Rows whose lists have one size, some at a time."""
    own = sizes.take(rows)
    if own.size and own.min() != own.max():
        order = np.argsort(own, kind="stable")
        rows, own = rows.take(order), own.take(order)
    bounds = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), own.size]
    for begin, end in pairwise(bounds):
        for block in range(begin, end, ROWS):
            yield int(own[begin]), rows[block : min(end, block + ROWS)]


def _columns(values: Array, starts: Array, size: int) -> Array:
    """Lists of one size side by side: row i has the i-th value of each, less the first."""
    columns = values.take(np.arange(size)[:, None] + starts)
    columns[1:] -= columns[0]
    columns[0] = 0.0  # equal values are zeros now, and their deviations exactly zero
    return columns


def _correlated(x: Array, y: Array) -> tuple[Array, Array]:
    """The correlation of each pair of columns, and whether it has one.

    Values are added one after the other, so that a result never depends on how many others are computed with it.
    """
    x -= _sum(x) / len(x)
    y -= _sum(y) / len(y)
    x_deviation, y_deviation = np.sqrt(_sum(x * x)), np.sqrt(_sum(y * y))
    found = _sum(x * y) / x_deviation / y_deviation
    return np.clip(found, -1.0, 1.0), (x_deviation != 0.0) & (y_deviation != 0.0)


def _sum(rows: Array) -> Array:
    total: Array = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total
