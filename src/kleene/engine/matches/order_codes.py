"""Values as integers in the same order, for MIN and MAX: larger values have larger codes, equal values equal ones.

-0.0 equals 0.0, and NaN wins both ways: it is the greatest float, or the least when codes descend. NULL has no code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import view
from kleene.engine.expressions.vectorized import widen

NO_CODE = np.iinfo(np.int64).min
_MAGNITUDE = np.int64(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class OrderCodes:
    """The codes of a column, NO_CODE for NULL, and how to read them."""

    codes: Array
    values: Callable[[Array], pa.Array]
    """The values of codes (any value for NO_CODE)."""
    stable: bool
    """Whether the code of a value does not depend on the other values."""


def order_codes(column: pa.Array, *, descending: bool = False) -> OrderCodes:
    """The codes of a column's values; with `descending` smaller values have larger codes."""
    column = widen(column)
    known = column.is_valid().to_numpy(zero_copy_only=False)
    found = _plain_codes(column, descending)
    if found is not None:
        codes, values = found
        signed = ~codes if descending else codes
        if not (signed == NO_CODE)[known].any():
            decode = (lambda given: values(~given)) if descending else values
            return OrderCodes(np.where(known, signed, NO_CODE), decode, stable=True)
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order) + 1, np.int64)
    rank[view(order)] = np.arange(len(order))
    rank[len(order)] = NO_CODE
    codes = rank.take(pc.fill_null(encoded.indices.cast(pa.int64()), len(order)).to_numpy(zero_copy_only=False))
    ordered = encoded.dictionary.take(order)
    codes = np.where(known & descending, len(order) - 1 - codes, codes)

    def ranked(given: Array) -> pa.Array:
        places = np.clip(given, 0, max(len(ordered) - 1, 0))
        places = len(ordered) - 1 - places if descending else places
        return ordered.take(pa.array(places)) if len(ordered) else pa.nulls(given.size, ordered.type)

    return OrderCodes(codes, ranked, stable=False)


def _plain_codes(column: pa.Array, descending: bool) -> tuple[Array, Callable[[Array], pa.Array]] | None:
    """The codes of numbers, times and booleans: integers as they are, floats by their bits. A column of NULL has none."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), lambda given: pa.nulls(given.size)
    if pa.types.is_floating(kind):
        values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 + 0.0 is 0.0
        nan = np.float64(np.nan).view(np.int64) | (NO_CODE if descending else 0)
        bits = np.where(np.isnan(values), nan, values.view(np.int64))
        return bits ^ ((bits >> 63) & _MAGNITUDE), _float_values
    if pa.types.is_boolean(kind):
        truths = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        return truths.astype(np.int64), lambda given: pa.array(given > 0)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return view(pc.fill_null(column.cast(pa.int64()), 0)), lambda given: pa.array(given).cast(kind)
    return None


def _float_values(codes: Array) -> pa.Array:
    bits = codes ^ ((codes >> 63) & _MAGNITUDE)
    return pa.array(bits.view(np.float64), from_pandas=False)
