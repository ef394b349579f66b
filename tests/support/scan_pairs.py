"""Random columns of every type, random conditions on them, and what the scan must find: each condition evaluated on each row.

The reference asks `Evaluator`, which says what a condition means, once for each component, predicate and row. It knows nothing
of what conditions have in common.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa

from kleene.common.schema import schema_of_arrow
from kleene.engine.expressions.vectorized import Evaluator
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Expression, variables

KINDS: dict[str, list[pa.DataType]] = {
    "integer": [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    "float": [pa.float32(), pa.float64()],
    "string": [pa.string(), pa.large_string()],
    "boolean": [pa.bool_()],
    "timestamp": [
        *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")),
        pa.date32(),
        pa.date64(),
    ],
    "duration": [pa.duration(unit) for unit in ("s", "ms", "us", "ns")],
}
NUMBERS = [-3, -1, 0, 1, 2, 3, 5, 7, 2**31 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [-2.5, -0.0, 0.0, 0.5, 2.5, 3.0, 1e300, 5e-324, 2.0**53, 2.0**62, 2.0**63, float("inf"), float("-inf"), float("nan")]
TEXTS = [
    "",
    "a",
    "ab",
    "b",
    "foo",
    "food",
    "fool",
    "foo\u00e9",
    "a text of more than eight bytes",
    "a text of more than 8 bytes",
]
MOMENTS = [-1, 0, 1, 999, 1_000, 86_400, 86_401, 10**6, 10**9]


def column(kind: str, data_type: pa.DataType, size: int, rng: Random) -> pa.Array:
    """A column of a type, with NULLs at times, as a dictionary at times, and at times a slice of a longer one."""
    before = rng.choice([0, 0, 3])
    missing = rng.choice([0, 0, 0.3])
    values = [None if rng.random() < missing else _value(kind, data_type, rng) for _ in range(before + size)]
    if kind == "timestamp":
        made = pa.array(values, pa.int32() if pa.types.is_date32(data_type) else pa.int64()).view(data_type)
    elif kind == "duration":
        made = pa.array(values, pa.int64()).view(data_type)
    else:
        made = pa.array(values, data_type)
    if rng.random() < 0.3:
        made = made.dictionary_encode()
    return made.slice(before)


def _value(kind: str, data_type: pa.DataType, rng: Random) -> object:
    if kind == "integer":
        unsigned, bits = pa.types.is_unsigned_integer(data_type), data_type.bit_width
        low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        high = high if rng.random() < 0.2 else min(high, 2**63 - 1)
        return min(max(rng.choice([*NUMBERS, rng.randrange(-5, 10), high]), low), high)
    if kind == "float":
        value = rng.choice([*FLOATS, rng.random() * 5])
        with np.errstate(over="ignore"):
            return float(np.float32(value)) if data_type == pa.float32() else value
    if kind == "string":
        return rng.choice(TEXTS)
    if kind == "boolean":
        return rng.random() < 0.5
    return rng.choice([*MOMENTS, -(2**63) if data_type.bit_width == 64 and rng.random() < 0.02 else 5])


def condition(variable: str, kinds: dict[str, str], rng: Random, depth: int = 2) -> str:
    """A condition on the event of a variable, as text."""
    shape = rng.random()
    if depth and shape < 0.25:
        operator = rng.choice([" AND ", " OR "])
        name = rng.choice([None, rng.choice(list(kinds))])
        own = kinds if name is None else {name: kinds[name]}
        return "(" + operator.join(condition(variable, own, rng, depth - 1) for _ in range(2)) + ")"
    if depth and shape < 0.35:
        return f"NOT ({condition(variable, kinds, rng, depth - 1)})"
    name = rng.choice(list(kinds))
    kind, operand = kinds[name], f"{variable}.{name}"
    if shape < 0.42:
        return f"{operand} IS {rng.choice(['', 'NOT '])}NULL"
    if kind == "boolean":
        return rng.choice([operand, f"{operand} = TRUE", f"{operand} != FALSE", f"{operand} IN (TRUE, FALSE)"])
    operand = _computed(operand, kind, rng)
    if kind == "string" and shape < 0.55:
        return f"{operand} LIKE '{rng.choice(['f%', '%o', '_', 'a%', '%8%'])}'"
    if shape < 0.62:
        return f"{operand} BETWEEN {constant(kind, rng)} AND {constant(kind, rng)}"
    if shape < 0.72:
        return f"{operand} IN ({', '.join(constant(kind, rng) for _ in range(rng.randrange(1, 7)))})"
    sides = [operand, constant(kind, rng)]
    if rng.random() < 0.2:
        sides.reverse()
    return f"{sides[0]} {rng.choice(['=', '!=', '<', '<=', '>', '>='])} {sides[1]}"


def _computed(operand: str, kind: str, rng: Random) -> str:
    shapes = {
        "integer": [f"{operand} % 3", f"{operand} % 500", f"{operand} * 2", f"{operand} + 1", f"abs({operand})", f"-{operand}"],
        "float": [f"{operand} * 2", f"{operand} % 2", f"floor({operand})"],
        "string": [f"lower({operand})", f"concat({operand}, 'd')"],
    }
    return rng.choice(shapes[kind]) if kind in shapes and rng.random() < 0.4 else operand


def constant(kind: str, rng: Random) -> str:
    """A constant that fits a kind, as text."""
    if kind in ("integer", "float") and rng.random() < 0.04:
        return "NULL"
    if kind == "integer" and rng.random() < 0.7:
        return str(max(rng.choice([*NUMBERS, rng.randrange(-5, 10)]), -(2**63) + 1))
    if kind in ("integer", "float"):
        return (
            repr(rng.choice([2.5, -0.5, 0.0, -0.0, 3.0, 2.0**53, 2.0**62 + 512, 1e300, -1e300, 0.1]))
            if rng.random() < 0.8
            else "3"
        )
    if kind == "string":
        return f"'{rng.choice([*TEXTS, 'other'])}'"
    if kind == "duration":
        return rng.choice(["0 seconds", "1 second", "999 seconds", "1 day", "1 millisecond", "2 hours"])
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=rng.choice(MOMENTS) * rng.choice([1, 1_000, 10**6]))  # noqa: DTZ001
    return f"'{moment}{rng.choice(['', '001']) if moment.microsecond else ''}'"


TYPES = ("A", "B", "C")


def events(rng: Random, size: int) -> tuple[pa.RecordBatch, dict[str, str]]:
    """A batch of events, and the kinds of its attributes."""
    some = rng.choice([list(KINDS), list(KINDS), ["integer"]])
    kinds = {f"x{number}": rng.choice(some) for number in range(rng.randrange(1, 4))}
    columns = [pa.array(range(size)), pa.array([rng.choice(TYPES) for _ in range(size)])]
    for kind in kinds.values():
        columns.append(column(kind, rng.choice(KINDS[kind] if len(some) > 1 else [pa.int64(), pa.uint64()]), size, rng))
    return pa.RecordBatch.from_arrays(columns, ["ts", "type", *kinds]), kinds


def declared(kinds: dict[str, str], rng: Random) -> dict[str, frozenset[str]] | None:
    """Types of which some lack attributes, or None."""
    if rng.random() < 0.6:
        return None
    return {name: frozenset(item for item in kinds if rng.random() < 0.7) for name in TYPES}


def pattern(kinds: dict[str, str], rng: Random, most: int = 12) -> str:
    """A sequence whose conditions are on single events, several of them often alike."""
    names = [f"v{number}" for number in range(rng.randrange(1, most))]
    some = [condition("?", kinds, rng) for _ in range(rng.randrange(1, 1 + len(names)))]
    if rng.random() < 0.3:  # many on one column
        name = rng.choice(list(kinds))
        some = [condition("?", {name: kinds[name]}, rng, 0) for _ in range(20)]
    components = ", ".join(f"{_types(rng)} {name}" for name in names)
    where = " AND ".join(rng.choice(some).replace("?", name) for name in names for _ in range(rng.randrange(3)))
    return f"PATTERN SEQ({components}){' WHERE ' + where if where else ''} WITHIN 5"


def _types(rng: Random) -> str:
    return rng.choice(["A", "B", "ANY(A, B)", "ANY(A, B, C)"])


def bound_to(text: str, batch: pa.RecordBatch, types: dict[str, frozenset[str]] | None) -> BoundQuery:
    """A query over the events of a batch."""
    return bind(parse(text), schema_of_arrow(batch.schema, time="ts", type="type", types=types))


def own_predicates(bound: BoundQuery) -> list[list[Expression]]:
    """The conditions on the event of each component."""
    return [[item for item in bound.conjuncts if variables(item) == {event.variable}] for event in bound.components]


def passing(
    bound: BoundQuery, types: Sequence[str], predicates: Sequence[Expression], batch: pa.RecordBatch
) -> tuple[list[int], list[int]]:
    """The rows that pass a test, and those where a condition of it fails and no other is false."""
    kinds = batch.column("type").to_pylist()
    passed, failed = [], []
    for row in (row for row, kind in enumerate(kinds) if kind in types):
        held, failing = _judged(bound, predicates, batch.slice(row, 1))
        if held:
            (failed if failing else passed).append(row)
    return passed, failed


def _judged(bound: BoundQuery, predicates: Sequence[Expression], row: pa.RecordBatch) -> tuple[bool, bool]:
    """Whether no condition is false, and whether one fails."""
    failing = False
    for predicate in predicates:
        held, failed = Evaluator(bound, lambda _, name: row.column(name), 1).judged(predicate)
        fails = failed is not None and bool(failed[0])
        if not held[0] and not fails:
            return False, False
        failing |= fails
    return True, failing
