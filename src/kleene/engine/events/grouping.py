"""Partition values as dense codes, and rows grouped by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import row_numbers, view
from kleene.engine.expressions.vectorized import widen
from kleene.engine.kernels.rows import counting_sort, dense_codes


def value_codes(column: pa.Array) -> tuple[Array, int]:
    """Codes in [0, count) such that equal values have equal codes and different values different ones; NaN equals nothing."""
    if pa.types.is_dictionary(column.type) and column.null_count == 0:
        distinct, count = value_codes(column.dictionary)
        return distinct.take(view(column.indices)), count
    if pa.types.is_signed_integer(column.type) and column.null_count == 0:
        return integer_codes(view(column))
    column = widen(column)
    if pa.types.is_integer(column.type) or pa.types.is_temporal(column.type):
        return integer_codes(view(column.cast(pa.int64())))
    if pa.types.is_floating(column.type):
        return _float_codes(view(column))
    encoded = pc.dictionary_encode(column)
    return view(encoded.indices).astype(np.int64), len(encoded.dictionary)


def integer_codes(keys: Array) -> tuple[Array, int]:
    """Codes of int64 keys: the distance from the smallest where the range is small, else numbered by a hash table."""
    if keys.size == 0:
        return np.empty(0, np.int64), 0
    low, high = int(keys.min()), int(keys.max())
    if high - low < max(1024, 4 * keys.size):
        return np.subtract(keys, low, dtype=np.int64), high - low + 1
    keys = keys.astype(np.int64, copy=False)
    table = np.full(1 << int(2 * keys.size).bit_length(), -1, np.int64)
    codes = np.empty(keys.size, np.int64)
    return codes, dense_codes(keys, table, codes)


def _float_codes(values: Array) -> tuple[Array, int]:
    codes, count = integer_codes((values + 0.0).view(np.int64))  # -0.0 + 0.0 is 0.0
    missing = np.flatnonzero(np.isnan(values))
    if missing.size:
        codes = codes.copy()
        codes[missing] = count + np.arange(missing.size)
    return codes, count + int(missing.size)


def combined_codes(columns: Sequence[pa.Array]) -> tuple[Array, int]:
    """Codes of the combinations of values that occur."""
    codes, count = value_codes(columns[0])
    for column in columns[1:]:
        further, size = value_codes(column)
        if count * size < 1 << 62:
            codes, count = integer_codes(codes * size + further)
        else:
            dense, count = integer_codes(codes)
            codes, count = integer_codes(dense * size + further)
    return codes, count


def without_nulls(column: pa.Array) -> pa.Array:
    """A key column: only rows of types that do not have the attribute may still be NULL, and none of them is ever bound."""
    if column.null_count == 0:
        return column
    column = widen(column)
    zero: Any = "" if pa.types.is_string(column.type) else 0
    return pc.fill_null(column, pa.scalar(zero).cast(column.type))


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in group order: `order[i]` is the row at place i, groups are `[offsets[g], offsets[g + 1])`, `ts` and `masks` are
    by place.
    """

    order: Array
    offsets: Array
    ts: Array
    masks: Array

    def places(self, values: Array) -> Array:
        """Values by row as values by place, along the last axis."""
        return values if self.is_one else values.take(self.order, axis=-1)

    @property
    def rows(self) -> Array | None:
        """The row at each place, or None where places are rows."""
        return None if self.is_one else self.order

    @property
    def is_one(self) -> bool:
        """Whether there is one group, so that places are rows."""
        return self.offsets.size == 2


def group_rows(codes: Array | None, count: int, ts: Array, masks: Array) -> Groups:
    """Rows grouped by code (None: all in one group), in their order within a group."""
    if codes is None or count == 1:
        return Groups(row_numbers(ts.size), np.array([0, ts.size], np.int64), ts, masks)
    groups = Groups(
        np.empty(ts.size, np.int64), np.zeros(count + 1, np.int64), np.empty(ts.size, np.int64), np.empty(ts.size, np.int64)
    )
    counting_sort(codes, ts, masks, groups.offsets, groups.order, groups.ts, groups.masks)
    return groups
