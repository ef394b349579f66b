"""Values as integers that compare as they do, so that one loop serves numbers, times and texts.

Floats are their bits, turned so that they ascend; texts, of which only equality is asked, are numbers in a dictionary. What is
NULL or NaN has no number: no comparison holds of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import view
from kleene.common.errors import DataError
from kleene.common.schema import Kind
from kleene.engine.expressions.vectorized import widen
from kleene.pattern.predicates import Expression
from kleene.plan.analysis.narrowing import Narrowing

SMALLEST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

ROUNDING = 2.0**-46
"""More than the relative error of sums that are computed in another order."""

Compute = Callable[[Expression], tuple[pa.Array, Array | None]]
"""The values of an expression, and where computing them left 64 bits (None: nowhere)."""


class Scale:
    """The values of an expression as integers, and other values on the same scale."""

    def __init__(self, kind: Kind, values: pa.Array) -> None:
        values = widen(values)
        self._kind = kind
        self._type = values.type
        self._texts = values.unique().drop_null() if kind is Kind.STRING else None
        self.numbers, self.known = self._numbered(values)

    @staticmethod
    def of(kind: Kind, expression: Expression, compute: Compute) -> Scale | None:
        """The scale of an expression; None if one of its values cannot be computed."""
        values = _computed(expression, compute)
        return None if values is None else Scale(kind, values)

    def ranges(self, comparisons: Iterable[Narrowing], count: int, compute: Compute) -> tuple[Array, Array] | None:
        """The least and the greatest number that satisfies all comparisons with what `compute` gives, `count` of each; None if
        that cannot be said of one.
        """
        low, high = np.full(count, SMALLEST), np.full(count, LARGEST)
        for item in comparisons:
            values = _computed(item.other, compute)
            if values is None or not self._fits(values):
                return None
            least = most = widen(values)
            if item.magnitude is not None:
                slack = _computed(item.magnitude, compute)
                if slack is None:
                    return None
                least, most = _around(least, widen(slack))
            numbers, known = self._numbered(least)
            if item.operator in ("=", ">=", ">"):
                known = known & (numbers < LARGEST) if item.operator == ">" else known
                np.maximum(low, numbers + (item.operator == ">"), out=low, where=known)
            low[~known], high[~known] = LARGEST, SMALLEST
            numbers, known = self._numbered(most)
            if item.operator in ("=", "<=", "<"):
                known = known & (numbers > SMALLEST) if item.operator == "<" else known
                np.minimum(high, numbers - (item.operator == "<"), out=high, where=known)
            low[~known], high[~known] = LARGEST, SMALLEST
        return low, high

    def _fits(self, values: pa.Array) -> bool:
        """Whether values are of the unit in which times are counted here."""
        return self._type == values.type or not pa.types.is_temporal(self._type)

    def _numbered(self, values: pa.Array) -> tuple[Array, Array]:
        known = np.ones(len(values), bool)
        if values.null_count:
            known = values.is_valid().to_numpy(zero_copy_only=False)
        if self._texts is not None:
            numbers = pc.index_in(values, value_set=self._texts)
            known = known & numbers.is_valid().to_numpy(zero_copy_only=False)
            return pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(np.int64), known
        if self._kind is Kind.FLOAT:
            floats = view(pc.fill_null(pc.cast(values, pa.float64(), safe=False), 0.0)) + 0.0  # -0.0 + 0.0 is 0.0
            bits = floats.view(np.int64)
            return bits ^ ((bits >> 63) & LARGEST), known & ~np.isnan(floats)
        return view(pc.fill_null(values.cast(pa.int64()), 0)), known


def _around(values: pa.Array, magnitude: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Floats between which a value lies that is computed in another order; from -inf to inf where nothing can be said."""
    floats, slack = (view(pc.fill_null(pc.cast(item, pa.float64(), safe=False), 0.0)) for item in (values, magnitude))
    sure = np.isfinite(slack)
    away = ROUNDING * np.where(sure, slack, 0.0)
    least, most = np.where(sure, floats - away, -np.inf), np.where(sure, floats + away, np.inf)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(least, mask=missing), pa.array(most, mask=missing)


def _computed(expression: Expression, compute: Compute) -> pa.Array | None:
    try:
        values, failed = compute(expression)
    except DataError:  # of events that perhaps no match has
        return None
    return None if failed is not None else values
