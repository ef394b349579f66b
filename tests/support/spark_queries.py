"""Queries and events that Spark, classic and Connect, must answer as the embedded runtime does, match ids included."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa

import kleene

START = dt.datetime(2026, 3, 28, 22, tzinfo=dt.UTC)
"""A night in which clocks change in Europe."""


def events(count: int = 120, seed: int = 5) -> pa.Table:
    """Events of four types with keys, NULLs, nested columns, and times as integers, timestamps with and without a zone."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    at = 0
    for number in range(count):
        at += rng.choice((0, 1, 1, 2))
        moment = START + dt.timedelta(minutes=at, microseconds=rng.choice((0, 1, 999_999)))
        rows.append(
            {
                "ts": at,
                "at": moment,
                "local": moment.replace(tzinfo=None),
                "type": rng.choice("ABCD"),
                "kind": rng.randrange(1, 4),
                "k": rng.randrange(5),
                "k2": rng.choice(("x", "y")),
                "x": rng.choice((None, 1, 2, 3, 4)),
                "y": rng.choice((0.5, 1.5, -0.0, None, float("nan"))),
                "s": rng.choice(("", "a", "ab", "é", None)),
                "seq": rng.randrange(3),
                "flag": rng.choice((True, False, None)),
                "list": [number % 3, None],
                "struct": {"p": number % 2, "q": "v"},
                "day": moment.date(),
                "number": number,
            }
        )
    schema = pa.schema(
        [
            ("ts", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("type", pa.string()),
            ("kind", pa.int32()), ("k", pa.int32()), ("k2", pa.string()), ("x", pa.int64()), ("y", pa.float64()),
            ("s", pa.string()), ("seq", pa.int16()), ("flag", pa.bool_()), ("list", pa.list_(pa.int64())),
            ("struct", pa.struct([("p", pa.int64()), ("q", pa.string())])), ("day", pa.date32()), ("number", pa.int64()),
        ]
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema)


INTEGER = {"time": "ts", "type": "type"}
ZONED = {"time": "at", "type": "type"}
LOCAL = {"time": "local", "type": "type"}
DECLARED = {name: ["k", "k2", "seq"] + (["x", "s"] if name in "AC" else []) for name in "ABCD"}


def _span(values: pa.Array) -> Any:
    import pyarrow.compute as pc

    return pc.list_value_length(values)


@kleene.function("Gap", returns="integer")
def gap(x: pa.Array, y: pa.Array) -> Any:
    import pyarrow.compute as pc

    return pc.abs(pc.subtract(x, y))


LIMIT = 3
FUNCTIONS = {
    "Gap": gap,
    "Span": _span,
    "Below": kleene.function(returns="boolean")(lambda x: x.to_numpy(zero_copy_only=False) < LIMIT),
}
"""A function made by the decorator, one of this module as it is, and one without a name that reads a global."""

QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "keyed": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20", INTEGER),
    "without a key": ("PATTERN SEQ(A a, B b) WITHIN 4", INTEGER),
    "single": ("PATTERN A a WHERE a.x > 2", INTEGER),
    "composite key": ("PATTERN SEQ(A a, B b, C c) WHERE [k] AND [k2] WITHIN 40", INTEGER),
    "partition_by": ("PATTERN SEQ(A a, B b) WITHIN 30", INTEGER | {"partition_by": ["k", "k2"]}),
    "predicates": ("PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x AND a.s != 'a' AND b.y > 0 WITHIN 30", INTEGER),
    "negated start": ("PATTERN SEQ(!(D d), A a, B b) WHERE [k] WITHIN 20", INTEGER),
    "negated middle": ("PATTERN SEQ(A a, !(D d), B b) WHERE [k] AND d.x > 1 WITHIN 30", INTEGER),
    "negated end": ("PATTERN SEQ(A a, B b, !(D d)) WHERE [k] WITHIN 20", INTEGER),
    "negation without a key": ("PATTERN SEQ(A a, !(C c), B b) WITHIN 8", INTEGER),
    "returns": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 RETURN a.k, b.x - a.x AS d, a.struct AS s, b.list AS l", INTEGER),
    "order_by": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9", INTEGER | {"order_by": ["seq", "s"]}),
    "order_by a float": ("PATTERN SEQ(A a, B b) WITHIN 3", INTEGER | {"order_by": "y"}),
    "declared": ("PATTERN SEQ(ANY(A, B) a, C c) WHERE [k] AND a.x < c.x WITHIN 15", INTEGER | {"schema": DECLARED}),
    "timestamps": ("PATTERN SEQ(A a, B b) WHERE [k] AND a.at >= '2026-03-28 22:30:00' WITHIN 30 minutes", ZONED),
    "time arithmetic": (
        "PATTERN SEQ(A a, B b) WHERE [k] AND b.at - a.at > 5 minutes WITHIN 1 hour RETURN a.at AS at, hour(b.at) AS h", ZONED,
    ),
    "local timestamps": ("PATTERN SEQ(A a, B b) WHERE [k] AND b.local > '2026-03-28 22:30:00' WITHIN 30 minutes", LOCAL),
    "integer types": ("PATTERN SEQ(`1` a, `2` b) WHERE [k] WITHIN 20", INTEGER | {"type": "kind"}),
    "no type column": ("PATTERN SEQ(E a, E b) WHERE [k] AND a.type = 'A' AND b.flag WITHIN 10", INTEGER | {"type": None}),
    "NaN and zero": ("PATTERN SEQ(A a, B b) WHERE [y] WITHIN 50", INTEGER | {"bad_rows": "drop"}),
    "functions of several events": (
        "PATTERN SEQ(A a, B b) WHERE [k] AND gap(a.x, b.x) <= 1 AND Span(a.list) = 2 WITHIN 20 RETURN gap(a.ts, b.ts) AS g",
        INTEGER,
    ),
    "functions of one event": ("PATTERN SEQ(A a, B b) WHERE [k] AND Below(a.k) AND gap(b.kind, 2) = 1 WITHIN 20", INTEGER),
    "dates": ("PATTERN SEQ(A a, B b) WHERE [day] AND [k] WITHIN 20", INTEGER),
}  # fmt: skip


def zone_events(count: int = 300, seed: int = 4) -> pa.Table:
    """Events of five types, three ids and two zones, one every 20 seconds."""
    begin, rng = dt.datetime(2024, 1, 1, tzinfo=dt.UTC), random.Random(seed)
    return pa.table(
        {
            "ts": pa.array([begin + dt.timedelta(seconds=20 * row) for row in range(count)], pa.timestamp("us", "UTC")),
            "type": [rng.choice("ABCDE") for _ in range(count)],
            "id": pa.array([rng.randrange(3) for _ in range(count)], pa.int32()),
            "zone": [rng.choice(["n", "s"]) for _ in range(count)],
            "x": [rng.randrange(30) for _ in range(count)],
        }
    )


def embedded(name: str, table: pa.Table) -> list[dict[str, Any]]:
    query, options = QUERIES[name]
    return in_order(kleene.query(query, functions=FUNCTIONS).match(table, **options).to_pylist())


def on_spark(name: str, frame: Any) -> list[dict[str, Any]]:
    query, options = QUERIES[name]
    return in_order(kleene.query(query, functions=FUNCTIONS).match(frame, **options).toArrow().to_pylist())


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in an order of their own, with values that compare: instants in UTC, NaN as text."""
    return sorted((_comparable(row) for row in rows), key=repr)


def shown(rows: pa.Table) -> list[str]:
    """Rows, of matches or of aggregates, as sorted text; instants in UTC."""
    return [repr(row) for row in in_order(rows.to_pylist())]


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    return "NaN" if value != value else value
