"""Queries with registered functions over random events: every mechanism gives the oracle's matches and RETURN values."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.pattern.bind import bind
from kleene.testing import oracle
from kleene.testing.case_routes import canonical

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64()), ("s", pa.string()),
        ("h", pa.list_(pa.float64())), ("row", pa.int64()),
    ]
)  # fmt: skip


@kleene.function("Gap", returns="integer")
def gap(x: pa.Array, y: pa.Array) -> pa.Array:
    return pc.abs(pc.subtract(x, y))


@kleene.function("Same", returns="boolean")
def same(x: pa.Array, y: pa.Array) -> Any:
    """Unlike =, of two NULLs too."""
    return np.array([left == right for left, right in zip(x.to_pylist(), y.to_pylist(), strict=True)], bool)


@kleene.function("Shout", returns="string")
def shout(s: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pc.utf8_upper(s), "!", "")


FUNCTIONS = {"Corr": kleene.functions.corr, "Gap": gap, "Same": same, "Shout": shout}

QUERIES = [
    "PATTERN SEQ(A a, B b) WHERE Corr(a.h, b.h) > 0.3 WITHIN 20",
    "PATTERN SEQ(A a, B b, C c) WHERE Corr(a.h, c.h) > 0 AND Gap(a.x, b.x) <= 1 WITHIN 20",
    "PATTERN SEQ(A a, B b, C c) WHERE [k] AND (Same(a.s, c.s) OR Gap(b.x, c.x) > 2) AND a.x < c.x + 2 WITHIN 30",
    "PATTERN SEQ(A a, B b) WHERE NOT Corr(a.h, b.h) < 0.5 AND Shout(a.s) != 'P!' AND Gap(b.x, 2) < 2 WITHIN 15",
    "PATTERN SEQ(A a, !(C c), B b) WHERE Gap(a.x, c.x) < 2 AND Same(a.s, b.s) WITHIN 10",
    "PATTERN SEQ(A a, B b) WHERE Corr(a.h, b.h) IS NULL AND Shout(b.s) LIKE 'Q%' WITHIN 8",
    """PATTERN SEQ(ANY(A, B) a, C c) WHERE Gap(a.x + c.x, 3) IN (0, 1) WITHIN 9
    RETURN Corr(a.h, c.h) AS r, Shout(c.s) AS s, a.row AS a""",
]
ONE_EVENT = [
    "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match { Gap(a[i].x, 2) < 2 AND Shout(b.s) = 'P!' } WITHIN 9",
    "PATTERN SEQ(A a, B+ b[]) WHERE Shout(a.s) = Shout(b[1].s) AND Gap(b[i].x, 1) < Gap(b[i-1].x, 1) WITHIN 6",
    """PATTERN SEQ(A a, B? b, C c) WHERE Gap(a.x, 1) < Gap(c.x, 3) WITHIN 6
    RETURN Gap(a.x, b.x) AS g, Same(b.s, c.s) AS s, a.row AS a""",
]


def table_of(seed: int, count: int) -> pa.Table:
    rng = Random(seed)
    rows = [
        {
            "ts": number,
            "type": rng.choice("ABC"),
            "k": rng.randrange(2),
            "x": rng.choice((None, 0, 1, 2, 3)),
            "s": rng.choice((None, "p", "q", "")),
            "h": rng.choice((None, [1.0], *([float(rng.randrange(4)) for _ in range(4)] for _ in range(8)))),
            "row": number,
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def compare(text: str, seed: int, count: int, plan: Any = None) -> int:
    """The number of matches, after asserting that they are the oracle's."""
    table = table_of(seed, count)
    query = kleene.query(text, functions=FUNCTIONS)
    bound = bind(query.logical, schema_of_arrow(table.schema, time="ts", type="type"))
    wanted = oracle.matches(bound, table.to_pylist())
    rows = query.match(table, time="ts", type="type", plan=plan).to_pylist()
    if query.logical.returns:
        expected = [oracle.returns(bound, table.to_pylist(), match) for match in wanted]
        found = [{name: row[name] for name in expected[0]} for row in rows] if expected else rows
        assert Counter(map(canonical, found)) == Counter(map(canonical, expected))
    else:
        variables = [event.variable for event in bound.components if not event.negated]
        assert Counter(bindings(row, variables) for row in rows) == Counter(match.bindings for match in wanted)
    return len(wanted)


def bindings(row: dict[str, Any], variables: list[str]) -> tuple[tuple[str, Any], ...]:
    found = {name: row[name] for name in variables if row[name] is not None}
    places = {
        name: tuple(event["row"] for event in one) if isinstance(one, list) else one["row"] for name, one in found.items()
    }
    return tuple(sorted(places.items()))


@pytest.mark.parametrize("plan", [None, "basic", "paper"], ids=str)
@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_sequences(number: int, plan: Any) -> None:
    assert sum(compare(QUERIES[number], 100 * number + seed, 30, plan) for seed in range(6)) > 5


@pytest.mark.parametrize("number", range(len(ONE_EVENT)))
def test_automata(number: int) -> None:
    assert sum(compare(ONE_EVENT[number], 100 * number + seed, 20) for seed in range(6)) > 5
