"""Histories in this process; Spark gives the same ones in `spark/test_functions_spark.py`."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import BindingError, DataError
from kleene.interfaces import history as module

ROLES: dict[str, Any] = {"partition_by": "k", "time": "ts"}
EVENTS = pa.table({"ts": [3, 1, 2, 4], "k": ["p", "p", "q", "p"], "x": [30, 10, None, 40]})


def lists(table: pa.Table, column: str = "x", length: int = 2, **options: Any) -> list[Any]:
    found = kleene.history(table, column, length, **{**ROLES, **options})
    assert found.column_names[:-1] == table.column_names
    return found.column(found.num_columns - 1).to_pylist()


def test_the_last_values_of_the_partition_in_stream_order_rows_as_they_were() -> None:
    assert lists(EVENTS) == [[10, 30], None, None, [30, 40]]
    assert lists(EVENTS, length=1) == [[30], [10], [None], [40]]
    assert lists(EVENTS, length=3) == [None, None, None, [10, 30, 40]]
    assert lists(EVENTS, partition_by=()) == [[None, 30], None, [10, None], [30, 40]]


def test_the_name_of_the_column() -> None:
    assert kleene.history(EVENTS, "x", 2, **ROLES).column_names[-1] == "x_history"
    assert kleene.history(EVENTS, "x", 2, **ROLES, name="h").column_names[-1] == "h"


def test_random_tables_against_a_plain_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VALUES", 16)
    rng = np.random.default_rng(1)
    for count in (0, 1, 5, 200):
        order = rng.permutation(count)
        columns = {
            "ts": order // 3, "seq": [[0.5, None, math.nan][number] for number in order % 3],
            "k": pa.array(rng.integers(0, 3, count), mask=rng.random(count) < 0.1),
            "j": pa.array([["a", None, "b"][number] for number in rng.integers(0, 3, count)], pa.string()),
            "x": pa.array(rng.integers(0, 9, count), mask=rng.random(count) < 0.2),
        }  # fmt: skip
        table = pa.table({name: pa.array(values, pa.float64() if name == "seq" else None) for name, values in columns.items()})
        for length in (1, 3):
            found = lists(table, length=length, partition_by=["k", "j"], order_by="seq")
            assert found == plainly(table.to_pylist(), length)


def plainly(rows: list[dict[str, Any]], length: int) -> list[Any]:
    wanted: list[Any] = [None] * len(rows)
    seen: dict[Any, list[Any]] = defaultdict(list)
    places = {None: 0, 0.5: 1}
    for number in sorted(range(len(rows)), key=lambda i: (rows[i]["ts"], places.get(rows[i]["seq"], 2))):
        row = rows[number]
        if row["k"] is None or row["j"] is None:
            continue
        before = seen[row["k"], row["j"]]
        before.append(row["x"])
        if len(before) >= length:
            wanted[number] = before[-length:]
    return wanted


def test_events_without_time_or_key_belong_nowhere() -> None:
    table = pa.table({"ts": [1, None, 2, 3, 4], "k": [1.0, 1.0, math.nan, None, 1.0], "x": [1, 2, 3, 4, 5]})
    assert lists(table, length=1) == [[1], None, None, None, [5]]
    assert lists(table, length=2) == [None, None, None, None, [1, 5]]


def test_zero_is_zero() -> None:
    assert lists(pa.table({"ts": [1, 2], "k": [0.0, -0.0], "x": [1, 2]})) == [None, [1, 2]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "b"]),
        pa.array(["a", None, "b"]).dictionary_encode(),
        pa.array([[1], None, [2, 3]]),
        pa.array([{"p": 1}, None, {"p": 2}]),
        pa.array([True, False, None]),
        pa.array([dt.datetime(2026, 1, 1), None, dt.datetime(2026, 1, 2)]),  # noqa: DTZ001
    ],
    ids=lambda column: str(column.type),
)
def test_values_of_any_kind(column: pa.Array) -> None:
    values = column.to_pylist()
    assert lists(pa.table({"ts": [1, 2, 3], "k": [1, 1, 1], "x": column})) == [None, values[:2], values[1:]]


def test_keys_and_times_of_other_kinds() -> None:
    moments = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (3, 1, 2)]
    for keys in ([True, True, False], [dt.date(2026, 1, 1)] * 2 + [dt.date(2026, 1, 2)], ["é", "é", "e"]):
        assert lists(pa.table({"ts": moments, "k": keys, "x": [1, 2, 3]})) == [[2, 1], None, None]


def test_other_frames() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for frame in (
        pandas.DataFrame({"ts": [1, 2], "k": ["a", "a"], "x": [5, 6]}),
        polars.DataFrame({"ts": [1, 2], "k": ["a", "a"], "x": [5, 6]}),
    ):
        assert kleene.history(frame, "x", 2, **ROLES).column("x_history").to_pylist() == [None, [5, 6]]


def test_ties_are_refused() -> None:
    table = pa.table({"ts": [1, 1, 1], "k": [1, 2, 1], "x": [1, 2, 3], "seq": [2, 1, 1]})
    with pytest.raises(DataError, match="two events tie at time 1 in partition k = 1: a history needs them in order") as caught:
        lists(table)
    assert "give order_by" in str(caught.value)
    assert lists(table, order_by=["seq"]) == [[3, 1], None, None]
    with pytest.raises(DataError, match="two events tie at time 1: "):
        lists(table, partition_by=())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"column": "y"}, "column 'y' is not a column of the events"),
    ({"partition_by": "kk"}, "partition_by column 'kk' is not a column"),
    ({"time": "t"}, "did you mean 'ts'?"),
    ({"time": "k"}, "time column 'k' holds string values, not timestamps or integers"),
    ({"order_by": "seq"}, "order_by column 'seq' is not a column"),
    ({"partition_by": "h"}, "partition_by column 'h' cannot be compared"),
    ({"length": 0}, "at least one value, not 0"),
    ({"length": True}, "at least one value, not True"),
    ({"name": "k"}, "have a column 'k' already"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=str)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    table = EVENTS.append_column("h", pa.array([[1]] * 4))
    with pytest.raises(BindingError) as caught:
        kleene.history(table, **{"column": "x", "length": 2, **ROLES, **options})
    assert message in str(caught.value)


def test_a_history_is_an_argument_of_functions() -> None:
    ticks = pa.table({"ts": range(8), "type": ["A", "B"] * 4, "p": [1.0, 2, 2, 4, 3, 6, 2, 9]})
    events = kleene.history(ticks, "p", 3, partition_by="type", time="ts", name="h")
    query = kleene.query(
        "PATTERN SEQ(A a, B b) WHERE Corr(a.h, b.h) > 0.99 WITHIN 3", functions={"Corr": kleene.functions.corr}
    )
    assert [(row["a"]["ts"], row["b"]["ts"]) for row in query.match(events, time="ts", type="type").to_pylist()] == [(4, 5)]
