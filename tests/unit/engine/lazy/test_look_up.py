"""Candidates that are looked up by value: the matches are those of evaluating all of them, by less work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.engine.lazy import look_up
from kleene.engine.lazy.look_up import LookUp

ROWS = 1_500


def events(seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)

    def some(values: Any, nulls: float = 0.05) -> pa.Array:
        return pa.array(values, mask=random.random(ROWS) < nulls)

    x = random.random(ROWS)
    x[random.random(ROWS) < 0.05] = np.nan
    return pa.table(
        {
            "ts": np.sort(random.integers(0, ROWS, ROWS)),  # some tie
            "type": random.choice(np.array(list("ABC")), ROWS),
            "x": some(x),
            "y": random.integers(0, 1_000, ROWS).astype(float),
            "i": some(random.integers(0, 1_000, ROWS)),
            "near": np.arange(ROWS) + random.integers(0, 50, ROWS),
            "s": some(random.choice(np.array([f"name{number}" for number in range(300)]), ROWS)),
            "t": some(random.integers(0, 10**9, ROWS).astype("datetime64[us]")),
            "k": random.integers(0, 3, ROWS),
        }
    )


@contextmanager
def looking_up(keen: bool) -> Iterator[list[int]]:
    """Looks up candidates wherever that is possible, or nowhere; gives how many partial matches they were looked up for."""
    counts: list[int] = []
    original = LookUp.narrowed

    def counted(self: LookUp, *arguments: Any) -> Any:
        found = original(self, *arguments)
        counts.append(found.lowest.size)
        return found

    if not keen:
        with patch.object(look_up, "WORTH_RANGING", 1 << 60):
            yield counts
        return
    with (
        patch.multiple(look_up, WORTH_RANGING=0, WORTH_ASKING=0, WORTH_RANKING=0, WORTH_SAVING=-1.0, FEW_OF=0),
        patch.object(look_up, "NOTHING", look_up.NOTHING._replace(few_of=0)),
        patch.object(LookUp, "narrowed", counted),
    ):
        yield counts


def matched(text: str, table: pa.Table, keen: bool, **options: Any) -> tuple[list[Any], int]:
    query = kleene.query(f"PATTERN {text}")
    with looking_up(keen) as counts:
        found = query.match(table, time="ts", type="type", **options)
    return sorted(found["match_id"].to_pylist()), sum(counts)


CONDITIONS = (
    "a.x < b.x - 0.99",
    "b.x - a.x > 0.98",
    "a.x = b.x OR a.i = 5 AND b.i = 6",
    "a.i + 1 = b.i",
    "2 * a.i <= b.i - 990",
    "a.x * 1000 > b.i + 995",
    "b.y BETWEEN a.y AND a.y + 3",
    "a.y - b.y < 2 AND b.y - a.y < 2",
    "a.near > b.near + 40",
    "a.t - b.t > 900 seconds",
    "a.i < b.i - 990 AND a.y < b.y - 900",
    "-a.i > b.i - 20",
    "a.i % 100 = b.i / 10",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_matches_are_those_of_evaluating_all_candidates(condition: str) -> None:
    table = events()
    for pattern in ("SEQ(A a, B b)", "AND(A a, B b)"):
        for order in (["a", "b"], ["b", "a"]):
            text, plan = f"{pattern} WHERE {condition} WITHIN 400", {"mechanism": "chain", "order": order}
            expected, _ = matched(text, table, False, plan=plan)
            found, looked_up = matched(text, table, True, plan=plan)
            assert found == expected
            assert looked_up or " OR " in condition


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND a.y < c.y - 990 WITHIN 200",
        "AND(A a, SEQ(B b, C c)) WHERE a.i = c.i AND b.y < c.y - 950 WITHIN 300",
        "SEQ(A a, A b, A c) WHERE a.y = c.y AND b.y > 900 WITHIN 200",
        "SEQ(A a, B b, C c) WHERE a.s = c.s AND b.y > 900 WITHIN 200",
        "SEQ(A a, B b) WHERE [k] AND a.x < b.x - 0.9 WITHIN 500",
        "SEQ(A a, !(C c), B b) WHERE a.x < b.x - 0.98 AND c.x > b.x WITHIN 300",
    ],
)
def test_in_any_order_of_binding(text: str) -> None:
    table = events(1)
    names = [name for name in "abc" if f" {name}" in text.partition(" WHERE")[0] and f"!(C {name})" not in text]
    for order in (names, names[::-1], [*names[1:], names[0]]):
        plan = {"mechanism": "chain", "order": order}
        expected, _ = matched(text, table, False, plan=plan)
        found, looked_up = matched(text, table, True, plan=plan)
        assert found == expected
        assert looked_up


def test_blocks_of_any_size_are_filled() -> None:
    query, table = kleene.query("PATTERN SEQ(A a, B b) WHERE a.y < b.y - 300 WITHIN 300"), events(2)
    expected = query.match(table, time="ts", type="type")["match_id"].to_pylist()
    for room in (1, 7, 100):
        with looking_up(True), patch("kleene.engine.lazy.lazy_pass.BLOCK", room):
            assert sorted(query.match(table, time="ts", type="type")["match_id"].to_pylist()) == sorted(expected)


@pytest.mark.parametrize("condition", ["a.i + 1 < b.i", "b.i - a.i > 5", "a.i < b.i AND a.near * b.near > 9"])
@pytest.mark.parametrize("reached", [True, False])
def test_an_overflow_is_an_error_where_it_is_one_without_looking_up(condition: str, reached: bool) -> None:
    table = events(3).slice(0, 300)
    large = np.where(np.arange(300) % 50 == 3, 2**63 - 1, np.arange(300))
    column = "near" if "near" in condition else "i"
    kind = table["type"].to_pylist()
    values = [int(value) if (name == "A") == reached else -5 for value, name in zip(large, kind, strict=True)]
    table = table.set_column(table.column_names.index(column), column, pa.array(values, pa.int64()))
    answers = []
    for keen in (False, True):
        try:
            answers.append(matched(f"SEQ(A a, B b) WHERE {condition} WITHIN 200", table, keen)[0])
        except DataError as error:
            answers.append([str(error)])
    assert answers[0] == answers[1]


def test_candidates_that_conditions_leave_few_of_are_not_all_evaluated() -> None:
    random = np.random.default_rng(0)
    count = 40_000
    table = pa.table({"ts": np.arange(count), "type": random.choice(np.array(["A", "B"]), count), "x": random.random(count)})
    asked: list[int] = []
    original = LookUp.narrowed

    def counted(self: LookUp, *arguments: Any) -> Any:
        found = original(self, *arguments)
        asked.append(found.lowest.size)
        return found

    with patch.object(LookUp, "narrowed", counted):
        for condition, looked_up in (("a.x < b.x - 0.999", True), ("a.x < b.x", False), ("b.x - a.x > 0.999", True)):
            asked.clear()
            kleene.query(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 500 RETURN a.ts AS first").match(
                table, time="ts", type="type"
            )
            assert bool(sum(asked)) is looked_up, condition
