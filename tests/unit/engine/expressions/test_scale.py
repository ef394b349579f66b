"""Values as integers that compare as they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kleene.common.errors import DataError
from kleene.common.schema import Kind
from kleene.engine.expressions.scale import Scale
from kleene.pattern.predicates import Attribute, Literal
from kleene.plan.analysis.narrowing import Narrowing

FLOATS = [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), None, 5e-324, -5e-324, 1.7e308, 2.0**53]
INTEGERS = [0, 1, -1, None, 2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1]
TEXTS = ["", "a", "b", None, "ab"]
OPERATORS = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
OWN, OTHER = Attribute("b", "x"), Attribute("a", "x")


def accepted(kind: Kind, own: pa.Array, operator: str, other: pa.Array, **more: Any) -> list[list[bool]]:
    """For each of the others, which own values lie in the range."""
    scale = Scale.of(kind, OWN, lambda _: (own, None))
    assert scale is not None
    ranges = scale.ranges([Narrowing(OWN, operator, OTHER, kind, **more)], len(other), lambda _: (other, None))
    assert ranges is not None
    return [
        (scale.known & (scale.numbers >= low) & (scale.numbers <= high)).tolist() for low, high in zip(*ranges, strict=True)
    ]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("kind", "own", "other"),
    [
        (Kind.FLOAT, pa.array(FLOATS), pa.array(FLOATS)),
        (Kind.FLOAT, pa.array(FLOATS), pa.array(INTEGERS)),
        (Kind.FLOAT, pa.array(INTEGERS), pa.array(FLOATS)),
        (Kind.INTEGER, pa.array(INTEGERS), pa.array(INTEGERS)),
        (Kind.INTEGER, pa.array(INTEGERS, pa.timestamp("us")), pa.array(INTEGERS, pa.timestamp("us"))),
    ],
)
def test_the_range_of_a_comparison_has_the_values_that_satisfy_it(kind: Kind, own: Any, other: Any, operator: str) -> None:
    if pa.types.is_timestamp(own.type):
        own, other = own.cast(pa.timestamp("us", "UTC")), other.cast(pa.timestamp("us", "UTC"))
    found = accepted(kind, own, operator, other)
    one, two = (pc.cast(item, pa.float64(), safe=False) if kind is Kind.FLOAT else item for item in (own, other))
    for value, held in zip(two, found, strict=True):
        assert held == pc.fill_null(OPERATORS[operator](one, value), False).to_pylist()


def test_texts_are_equal_or_not() -> None:
    found = accepted(Kind.STRING, pa.array(TEXTS), "=", pa.array(["a", "c", None]))
    assert found == [[False, True, False, False, False], [False] * 5, [False] * 5]


def test_what_was_computed_in_another_order_is_near() -> None:
    sums = pa.array([1.0, float("inf"), None])
    scale = Scale(Kind.FLOAT, pa.array([1 - 1e-15, 1.0, 1 + 1e-15, 1.1]))
    item = Narrowing(OWN, ">", OTHER, Kind.FLOAT, magnitude=Literal(0.0))
    ranges = scale.ranges([item], 3, lambda asked: (sums if asked is OTHER else pa.array([1e3, float("inf"), 1.0]), None))
    assert ranges is not None
    held = [((scale.numbers >= low) & (scale.numbers <= high)).tolist() for low, high in zip(*ranges, strict=True)]
    assert held == [[True] * 4, [True] * 4, [False] * 4]


def test_what_cannot_be_computed_has_no_range() -> None:
    def fails(_: Any) -> Any:
        raise DataError("no")

    scale = Scale(Kind.INTEGER, pa.array([1, 2]))
    item = Narrowing(OWN, "=", OTHER, Kind.INTEGER)
    assert Scale.of(Kind.INTEGER, OWN, fails) is None
    assert scale.ranges([item], 1, fails) is None
    assert scale.ranges([item], 1, lambda _: (pa.array([1]), np.array([True]))) is None
    moments = Scale(Kind.INTEGER, pa.array([1], pa.timestamp("us", "UTC")))
    assert moments.ranges([item], 1, lambda _: (pa.array([1], pa.timestamp("ns", "UTC")), None)) is None
