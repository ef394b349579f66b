"""Which conditions bound what an event may be by the events around it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.text import expression_text
from kleene.plan.analysis.narrowing import narrowings

COLUMNS = {
    "ts": pa.timestamp("us"),
    "type": pa.string(),
    "x": pa.float64(),
    "i": pa.int64(),
    "s": pa.string(),
    "f": pa.bool_(),
    "d": pa.duration("us"),
}


def found(condition: str, *, moving: bool = False, pattern: str = "SEQ(A a, B b, C c)") -> list[str]:
    """The comparisons that bound b, as text, with what they are compared as."""
    bound = bind(
        parse(f"PATTERN {pattern} WHERE {condition} WITHIN 1 hour"), schema_of_arrow(pa.schema(COLUMNS), time="ts", type="type")
    )
    (conjunct,) = bound.conjuncts
    return [
        f"{expression_text(item.own)} {item.operator} {expression_text(item.other)}: {item.scale.value}"
        for item in narrowings(bound, conjunct, "b", moving=moving)
    ]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.x < b.x", ["b.x > a.x: float"]),
        ("b.i >= a.i", ["b.i >= a.i: integer"]),
        ("a.i + c.i < 2 * b.i", ["2 * b.i > a.i + c.i: integer"]),
        ("a.i = b.x", ["b.x = a.i: float"]),
        ("a.s = b.s", ["b.s = a.s: string"]),
        ("b.ts > a.ts", ["b.ts > a.ts: integer"]),
        ("b.x BETWEEN a.x AND c.x", ["b.x >= a.x: float", "b.x <= c.x: float"]),
        ("abs(b.x) < a.x", ["abs(b.x) < a.x: float"]),
    ],
)
def test_a_comparison_of_one_event_with_others_is_a_range(condition: str, expected: list[str]) -> None:
    assert found(condition) == expected


@pytest.mark.parametrize(
    "condition",
    ["a.x != b.x", "a.s < b.s", "b.x - a.x > 5", "b.x * a.x > c.x", "NOT a.x < b.x", "a.x < b.x OR a.x < 5", "a.f = b.f"],
)
def test_other_conditions_are_none(condition: str) -> None:
    assert found(condition) == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("b.x - a.x > 5", ["b.x > a.x + 5: float"]),
        ("a.x - b.x > 5", ["b.x < a.x - 5: float"]),
        ("a.x < b.x + 5", ["b.x > a.x - 5: float"]),
        ("a.i BETWEEN b.i AND b.i + 9", ["b.i <= a.i: integer", "b.i >= a.i - 9: integer"]),
        ("-b.i > a.i", ["b.i < -a.i: integer"]),
        ("b.ts - a.ts < 5 minutes", ["b.ts < a.ts + 5 minutes: integer"]),
        ("a.ts - b.ts > b.d", []),
        ("b.x + b.x > a.x", ["b.x + b.x > a.x: float"]),
        ("b.x - b.x > a.x - c.x", ["b.x - b.x > a.x - c.x: float"]),
        ("b.x * a.x > c.x", []),
    ],
)
def test_what_is_added_to_a_value_moves_to_the_other_side(condition: str, expected: list[str]) -> None:
    assert found(condition, moving=True) == expected


def test_each_element_of_a_list_is_not_one_event() -> None:
    assert found("a[].x < b.x", pattern="SEQ(A+ a[], B b)") == []
    assert found("a[a.LEN].x < b.x", pattern="SEQ(A+ a[], B b)") == ["b.x > a[a.LEN].x: float"]


def test_an_attribute_that_a_type_lacks_bounds_nothing() -> None:
    schema = schema_of_arrow(
        pa.schema(COLUMNS), time="ts", type="type", types={"A": frozenset("x"), "B": frozenset("i"), "D": frozenset("x")}
    )
    bound = bind(parse("PATTERN SEQ(A a, ANY(B, D) b) WHERE a.x < b.x WITHIN 1 hour"), schema)
    assert narrowings(bound, bound.conjuncts[0], "b") == ()
    assert narrowings(bound, bound.conjuncts[0], "a") == ()
