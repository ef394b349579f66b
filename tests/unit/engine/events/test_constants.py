"""Columns told apart by constants: each row's class says what holds for its value."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kleene
from kleene.common.arrays import Array
from kleene.engine.events.constants import is_told, teller

LEAST, MOST = -(2**63), 2**63 - 1


def held(column: pa.Array, constants: list[Any], rows: list[int] | None = None) -> list[list[bool]] | None:
    """What holds for rows of a column, see `compared`."""

    def judge(values: pa.Array) -> Array:
        return np.array(compared(values, constants), bool)

    chosen = np.arange(len(column)) if rows is None else np.array(rows)
    told = teller(column.type, constants, judge)(column, chosen)
    return None if told is None else told[1][:, told[0]].tolist()


def compared(values: pa.Array, constants: list[Any]) -> list[list[bool]]:
    """For each constant (and NULL) which values are at least as large, or equal where they have no order."""
    compare = pc.equal if values.type in (pa.bool_(), pa.string()) else pc.greater_equal
    found = [pc.fill_null(compare(values, pa.scalar(item)), False).to_pylist() for item in constants]
    return [*found, values.is_null().to_pylist()]


@pytest.mark.parametrize(
    ("column", "constants"),
    [
        (pa.array([LEAST, -1, 0, 1, None, MOST]), [LEAST, 0, 1, MOST]),
        (pa.array([3, None, 200], pa.uint8()), [0, 3, 255]),
        (
            pa.array([-0.0, 0.0, None, float("nan"), float("inf"), float("-inf"), 5e-324]),
            [0.0, 5e-324, float("inf"), float("nan")],
        ),
        (pa.array([1.5, 2.5, None], pa.float32()), [1.5, 2.0]),
        (pa.array([True, None, False]), [True, False]),
        (pa.array(["a", None, "abc", "a text that is longer"]), ["a", "abc", "other", "a text that is longer"]),
        (pa.array(["a", None, "b", "a"]).dictionary_encode(), ["a"]),
        (pa.array([1, None, 2], pa.timestamp("ns")), [dt.datetime(1970, 1, 1)]),  # noqa: DTZ001
    ],
    ids=str,
)
def test_values_are_told_apart_by_constants(column: pa.Array, constants: list[Any]) -> None:
    wanted = compared(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column, constants)
    assert held(column, constants) == wanted
    assert held(pa.concat_arrays([column[:1], column]).slice(1), constants, [0, 2]) == [[own[0], own[2]] for own in wanted]


def test_many_constants_cost_a_look_into_a_directory() -> None:
    rng = np.random.default_rng(1)
    for span in (100, 1 << 40, 1 << 62):
        constants = np.unique(rng.integers(-span, span, 3_000))
        column = pa.array(rng.integers(-span, span, 2_000))

        def judge(values: pa.Array, constants: Array = constants) -> Array:
            return np.array([pc.is_in(values, value_set=pa.array(constants)).to_pylist()])

        told = teller(column.type, constants.tolist(), judge)(column, np.arange(2_000))
        assert told is not None
        assert told[1][0, told[0]].tolist() == np.isin(column.to_numpy(), constants).tolist()


def test_where_conditions_may_fail_nothing_is_told() -> None:
    assert held(pa.array([1, 2**64 - 1], pa.uint64()), [1]) is None
    assert held(pa.array([1, 2], pa.uint64()), [1]) == [[True, True], [False, False]]
    assert held(pa.array([1, MOST], pa.timestamp("s")), [dt.datetime(1970, 1, 1)]) is None  # noqa: DTZ001
    assert teller(pa.int64(), [1], lambda _: None)(pa.array([1]), np.arange(1)) is None


def test_a_dictionary_that_is_longer_than_there_are_rows_is_not_looked_through() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1]), pa.array(list("abcdefgh")))
    assert held(column, ["a"]) is None


def test_which_types_are_told_apart() -> None:
    assert is_told(pa.string(), ordered=False)
    assert not is_told(pa.string(), ordered=True)
    assert is_told(pa.date32(), ordered=True)
    assert not is_told(pa.decimal128(5, 2), ordered=False)


@pytest.mark.parametrize(("kind", "entries"), [(pa.int8(), 127), (pa.int8(), 128), (pa.uint8(), 256), (pa.uint64(), 5)])
def test_null_is_no_entry_of_a_dictionary(kind: pa.DataType, entries: int) -> None:
    """Even where the codes of the dictionary take up all numbers of their type."""
    count = 2 * entries
    codes = pa.array([None if row % 2 else row // 2 for row in range(count)], kind)
    texts = pa.DictionaryArray.from_arrays(codes, pa.array([f"c{entry}" for entry in range(entries)]))
    events = pa.table({"ts": range(count), "type": ["A"] * count, "s": texts})
    for condition, found in (("a.s = 'c0'", 1), ("a.s != 'c0'", entries - 1), ("a.s = 'c1'", 1), ("a.s IS NULL", entries)):
        query = kleene.query(f"PATTERN A a WHERE {condition} WITHIN 5")
        assert query.match(events, time="ts", type="type").num_rows == found
        together = {f"q{place}": query for place in range(5)}
        assert {item.num_rows for item in kleene.workload(together).match(events, time="ts", type="type").values()} == {found}
