"""Codes of values: equal where the values are, different where they are not. Groups: rows by code, in their order."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kleene.engine.events.grouping import combined_codes, group_rows, integer_codes, value_codes, without_nulls

DAYS = [dt.date(2026, 1, day) for day in (3, 1, 3)]


def pattern(codes: Any) -> list[int]:
    """Codes by their first appearance: which are equal, whatever they are."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(int(code), len(numbers)) for code in codes]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([7, 5, 7, 6]), [0, 1, 0, 2]),
        (pa.array([7, 5, 7], pa.uint8()), [0, 1, 0]),
        (pa.array([-(2**62), 2**62, -(2**62)]), [0, 1, 0]),
        (pa.array([0.0, -0.0, 1.5]), [0, 0, 1]),
        (pa.array([math.nan, math.nan, 1.0, 1.0]), [0, 1, 2, 2]),
        (pa.array(["b", "a", "b", ""]), [0, 1, 0, 2]),
        (pa.array(["b", "a", "b"]).dictionary_encode(), [0, 1, 0]),
        (pa.array(DAYS), [0, 1, 0]),
        (pa.array([True, False, True]), [0, 1, 0]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_equal_values_have_equal_codes(column: pa.Array, expected: list[int]) -> None:
    codes, count = value_codes(column)
    assert pattern(codes) == expected
    assert int(codes.min()) >= 0
    assert int(codes.max()) < count


def test_a_small_range_needs_no_table() -> None:
    codes, count = integer_codes(np.array([1_000, 1_003, 1_000]))
    assert (codes.tolist(), count) == ([0, 3, 0], 4)


def test_a_large_range_is_numbered_as_it_appears() -> None:
    codes, count = integer_codes(np.array([10**15, 0, 10**15, 5]))
    assert (codes.tolist(), count) == ([0, 1, 0, 2], 3)


def test_no_keys_have_no_codes() -> None:
    codes, count = integer_codes(np.empty(0, np.int64))
    assert (codes.size, count) == (0, 0)


def test_combinations_are_equal_where_all_columns_are() -> None:
    columns = [pa.array([1, 1, 2, 2, 1]), pa.array(["a", "b", "a", "b", "a"]), pa.array([0.5] * 5)]
    codes, count = combined_codes(columns)
    assert pattern(codes) == [0, 1, 2, 3, 0]
    assert int(codes.max()) < count


def test_combinations_of_many_wide_columns_stay_in_64_bits() -> None:
    wide = pa.array([0, 500, 1_000, 0])
    codes, _ = combined_codes([wide] * 9)  # 1,001 ** 9 is beyond
    assert pattern(codes) == [0, 1, 2, 0]


def test_keys_that_are_null_are_filled() -> None:
    assert without_nulls(pa.array([None, "a"])).to_pylist() == ["", "a"]
    assert without_nulls(pa.array([None, 4])).to_pylist() == [0, 4]
    whole = pa.array([4])
    assert without_nulls(whole) is whole


def test_rows_are_grouped_by_code_in_their_order() -> None:
    ts, masks = np.array([10, 11, 12, 13, 14]), np.array([1, 2, 4, 8, 16])
    groups = group_rows(np.array([2, 0, 2, 0, 2]), 3, ts, masks)
    assert groups.order.tolist() == [1, 3, 0, 2, 4]
    assert groups.offsets.tolist() == [0, 2, 2, 5], "code 1 has no rows"
    assert groups.ts.tolist() == [11, 13, 10, 12, 14]
    assert groups.masks.tolist() == [2, 8, 1, 4, 16]
    assert groups.places(np.array([[0, 1, 2, 3, 4]])).tolist() == [[1, 3, 0, 2, 4]]
    assert groups.rows is groups.order


@pytest.mark.parametrize("codes", [None, np.zeros(3, np.int64)], ids=["no codes", "one code"])
def test_in_one_group_places_are_rows(codes: Any) -> None:
    ts = np.array([1, 2, 3])
    groups = group_rows(codes, 1, ts, ts)
    assert groups.is_one
    assert groups.rows is None
    assert groups.offsets.tolist() == [0, 3]
    assert groups.places(ts) is ts
