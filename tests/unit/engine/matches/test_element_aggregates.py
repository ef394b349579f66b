"""Aggregates over the elements of Kleene variables, bit for bit those of the oracle."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kleene.common.errors import DataError
from kleene.engine.expressions.vectorized import widen
from kleene.engine.matches.element_aggregates import aggregate
from kleene.pattern import predicates as p
from kleene.testing import evaluate as oracle

FUNCTIONS = tuple(p.AggregateFunction)


# --- aggregates -------------------------------------------------------------------------------------------------------


def bits(value: Any) -> Any:
    """A float as its bits, any NaN as one."""
    return struct.pack("d", math.nan if math.isnan(value) else value) if isinstance(value, float) else value


def nasty(rng: Random) -> list[Any]:
    values = (0.1, 0.2, 0.3, 1e16, -1e16, 1.0, -0.0, 1e-30, 3.3, 1e308)
    return rng.choice(
        (
            [rng.choice((None, *values)) for _ in range(12)],
            [rng.uniform(-1, 1) * 10 ** rng.randrange(-9, 9) for _ in range(40)],
            [-0.0, -0.0, None],
            [rng.choice((1.5, math.nan, None, 2.0)) for _ in range(6)],
        )
    )


@pytest.mark.parametrize("function", [item for item in FUNCTIONS if item is not p.AggregateFunction.STDDEV])
def test_floats_are_aggregated_bit_for_bit(function: p.AggregateFunction) -> None:
    rng = Random(11)
    for _ in range(60):
        values = nasty(rng)
        ranges = np.array(sorted((rng.randrange(len(values) + 1), rng.randrange(len(values) + 1)) for _ in range(9)))
        starts, ends = ranges.min(axis=1), ranges.max(axis=1)
        found = aggregate(function, pa.array(values, pa.float64()), starts, ends).to_pylist()
        expected = [oracle.aggregate(function, values[a:b]) for a, b in zip(starts, ends, strict=True)]
        assert [*map(bits, found)] == [*map(bits, expected)]


def test_deviations_are_of_exact_sums() -> None:
    rng = Random(12)
    for _ in range(200):
        values: list[Any] = [rng.uniform(-1, 1) * 10 ** rng.randrange(-9, 9) for _ in range(rng.randrange(12))] + [None]
        if rng.random() < 0.5:
            values = [rng.randrange(100) for _ in values]
        column = widen(pa.array(values, pa.float64() if None in values else pa.int64()))
        end = np.array([len(values)])
        found = aggregate(p.AggregateFunction.STDDEV, column, np.zeros(1, np.int64), end).to_pylist()[0]
        assert found == oracle.aggregate(p.AggregateFunction.STDDEV, values)


def test_integers_are_exact_and_overflow_is_an_error() -> None:
    big = 2**62
    column, starts = pa.array([big, big - 1, -1, 5, big, -big, -big, -1]), np.array([0])
    total = aggregate(p.AggregateFunction.SUM, column, starts, np.array([3]))
    assert total.to_pylist() == [2 * big - 2]
    assert aggregate(p.AggregateFunction.SUM, column, np.array([5]), np.array([7])).to_pylist() == [-(2**63)]
    for begin, end in ((0, 4), (5, 8)):
        with pytest.raises(DataError, match="64 bits"):
            aggregate(p.AggregateFunction.SUM, column, np.array([begin]), np.array([end]))
        values = column.to_pylist()[begin:end]
        average = aggregate(p.AggregateFunction.AVG, column, np.array([begin]), np.array([end]))
        assert average.to_pylist() == [sum(values) / len(values)]
    # What the sum is on the way does not matter.
    assert aggregate(p.AggregateFunction.SUM, column, starts, np.array([7])).to_pylist() == [big + 3]
    failed = np.zeros(2, bool)
    sums = aggregate(p.AggregateFunction.SUM, column, np.array([0, 0]), np.array([4, 3]), failed)
    assert (sums.to_pylist(), failed.tolist()) == ([None, 2 * big - 2], [True, False])


def test_a_column_of_nulls() -> None:
    column, starts, ends = pa.nulls(3), np.array([0, 1]), np.array([3, 1])
    assert aggregate(p.AggregateFunction.SUM, column, starts, ends).to_pylist() == [None, None]
    assert aggregate(p.AggregateFunction.COUNT, column, starts, ends).to_pylist() == [0, 0]
