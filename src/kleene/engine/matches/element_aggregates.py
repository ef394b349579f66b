"""Aggregates over ranges of a column (SASE+ section 2): count, sum, avg, min, max, first, last, stddev.

NULLs are skipped except by first and last; of nothing an aggregate is NULL, a count 0. Sums of integers and durations are
exact, and an error only if they do not fit 64 bits themselves. Value by value these are the aggregates of
`kleene.testing.evaluate`, floats bit for bit.

Cost: one pass over each range, in a kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.engine.expressions.failing import overflow
from kleene.engine.matches.kernels import lists as kernels
from kleene.pattern.predicates import AggregateFunction


def aggregate(
    function: AggregateFunction, column: pa.Array, starts: Array, ends: Array, failed: Array | None = None
) -> pa.Array:
    """The aggregate of `column[start:end]` for each range; the column is of the widest type of its kind. A sum that does not
    fit is an error, or NULL and marked in `failed`, where that is given.

    >>> aggregate(AggregateFunction.SUM, pa.array([1, None, 2, 4]), np.array([0, 1, 1]), np.array([3, 2, 4])).to_pylist()
    [3, None, 6]
    """
    if pa.types.is_null(column.type) and function is not AggregateFunction.COUNT:
        return pa.nulls(starts.size)
    ranges = starts.astype(np.int64, copy=False), ends.astype(np.int64, copy=False)
    with np.errstate(all="ignore"):  # floats follow IEEE 754
        return _sum(column, *ranges, failed) if function is AggregateFunction.SUM else _FUNCTIONS[function](column, *ranges)


def count_in(found: Array, starts: Array, ends: Array) -> Array:
    """How many entries of each range are true."""
    before = np.zeros(found.size + 1, np.int64)
    np.cumsum(found, out=before[1:])
    return before[ends] - before[starts]


def _valid(column: pa.Array) -> Array:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)


def _known(column: pa.Array, starts: Array, ends: Array) -> Array:
    """How many values of each range are not NULL."""
    return ends - starts if column.null_count == 0 else count_in(_valid(column), starts, ends)


def _integers(column: pa.Array) -> Array:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))


def _floats(column: pa.Array) -> Array:
    return np.asarray(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False))


def _count(column: pa.Array, starts: Array, ends: Array) -> pa.Array:
    return pa.array(_known(column, starts, ends), pa.int64())


def _sums(column: pa.Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """The sums of the ranges of integers: the lower 64 bits, and how often those were left, which is 0 where the sum fits."""
    sums, wraps = np.empty(starts.size, np.int64), np.empty(starts.size, np.int64)
    with np.errstate(over="ignore"):
        kernels.sum_integers(_integers(column), _valid(column), starts, ends, sums, wraps)
    return sums, wraps


def _float_sums(column: pa.Array, starts: Array, ends: Array) -> Array:
    totals = np.empty(starts.size, np.float64)
    kernels.sum_floats(_floats(column), _valid(column), starts, ends, totals)
    return totals


def _sum(column: pa.Array, starts: Array, ends: Array, failed: Array | None) -> pa.Array:
    nothing = _known(column, starts, ends) == 0
    if pa.types.is_floating(column.type):
        return pa.array(_float_sums(column, starts, ends), mask=nothing, from_pandas=False)
    sums, wraps = _sums(column, starts, ends)
    if wraps.any():
        if failed is None:
            raise overflow("a sum")
        failed |= wraps != 0
        nothing |= wraps != 0
    return pa.array(sums, mask=nothing, from_pandas=False).cast(column.type)


def _average(column: pa.Array, starts: Array, ends: Array) -> pa.Array:
    known = _known(column, starts, ends)
    count = np.maximum(known, 1)
    if pa.types.is_floating(column.type):
        return pa.array(_float_sums(column, starts, ends) / count, mask=known == 0, from_pandas=False)
    sums, wraps = _sums(column, starts, ends)
    if not pa.types.is_duration(column.type):
        return pa.array(wide_floats(sums, wraps) / count, mask=known == 0, from_pandas=False)
    whole, rest = np.divmod(sums, count)  # to the nearest unit, ties to even
    for row in np.flatnonzero(wraps).tolist():
        whole[row], rest[row] = divmod(int(sums[row]) + (int(wraps[row]) << 64), int(count[row]))
    whole += (rest > count - rest) | ((rest == count - rest) & (whole % 2 == 1))
    return pa.array(whole, mask=known == 0).cast(column.type)


def wide_floats(sums: Array, wraps: Array) -> Array:
    """The floats nearest to integers given by their lower 64 bits and how often those were left.

    >>> wide_floats(np.array([3, -(2**63)]), np.array([0, 1])) == [3.0, 2.0**63]
    array([ True,  True])
    """
    # Two sums that are exact, then one that rounds.
    return np.asarray((wraps * 2.0**64 + (sums >> 32) * 2.0**32) + (sums & (1 << 32) - 1))


def _extreme(largest: bool) -> Callable[[pa.Array, Array, Array], pa.Array]:
    def function(column: pa.Array, starts: Array, ends: Array) -> pa.Array:
        at = np.empty(starts.size, np.int64)
        kernels.extreme(_keys(column), _valid(column), starts, ends, largest, at)
        return column.take(pa.array(at, mask=at < 0))

    return function


def _keys(column: pa.Array) -> Array:
    """Numbers in the order of the values."""
    if pa.types.is_floating(column.type):
        return _floats(column)
    if pa.types.is_integer(column.type) or pa.types.is_temporal(column.type):
        return _integers(column)
    return np.asarray(pc.rank(column, tiebreaker="dense").to_numpy(zero_copy_only=False)).astype(np.int64)


def _first(column: pa.Array, starts: Array, ends: Array) -> pa.Array:
    return column.take(pa.array(starts, pa.int64(), mask=starts == ends))


def _last(column: pa.Array, starts: Array, ends: Array) -> pa.Array:
    return column.take(pa.array(ends - 1, pa.int64(), mask=starts == ends))


def _deviation(column: pa.Array, starts: Array, ends: Array) -> pa.Array:
    found = np.zeros(starts.size, np.float64)
    values = _floats(column) if pa.types.is_floating(column.type) else _integers(column).astype(np.float64)
    kernels.deviations(values, _valid(column), starts, ends, np.empty(kernels.PARTIALS), found)
    return pa.array(found, mask=_known(column, starts, ends) < 2, from_pandas=False)


_FUNCTIONS: dict[AggregateFunction, Callable[[pa.Array, Array, Array], pa.Array]] = {
    AggregateFunction.COUNT: _count,
    AggregateFunction.AVG: _average,
    AggregateFunction.MIN: _extreme(largest=False),
    AggregateFunction.MAX: _extreme(largest=True),
    AggregateFunction.FIRST: _first,
    AggregateFunction.LAST: _last,
    AggregateFunction.STDDEV: _deviation,
}
