"""Comparisons that follow from others: what is implied, what is not, and that each is sound, by brute force."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import pyarrow as pa
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Attribute, Comparison, Expression, variables
from kleene.pattern.text import expression_text
from kleene.plan.analysis.implied import MOST_IMPLIED, implied_comparisons
from kleene.testing.functions import compare

EVENTS = pa.schema(
    [
        ("ts", pa.int64()),
        ("type", pa.string()),
        *((name, pa.int64()) for name in "xz"),
        ("y", pa.float64()),
        ("s", pa.string()),
    ]
)
FOUR = "SEQ(A a, B b, C c, D d)"


def bound_of(where: str, pattern: str = FOUR, types: dict[str, frozenset[str]] | None = None) -> BoundQuery:
    return bind(parse(f"PATTERN {pattern} WHERE {where}"), schema_of_arrow(EVENTS, time="ts", type="type", types=types))


def implied(where: str, pattern: str = FOUR, types: dict[str, frozenset[str]] | None = None) -> dict[str, str]:
    """What is implied, with the variables between."""
    bound = bound_of(where, pattern, types)
    found = implied_comparisons(bound, bound.conjuncts)
    return {expression_text(item.expression): "".join(sorted(item.via)) for item in found}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a.x < b.x AND b.x < c.x", {"a.x < c.x": "b"}),
        ("a.x <= b.x AND b.x <= c.x", {"a.x <= c.x": "b"}),
        ("a.x <= b.x AND b.x < c.x", {"a.x < c.x": "b"}),
        ("b.x > a.x AND c.x >= b.x", {"a.x < c.x": "b"}),
        ("a.x = b.x AND b.x < c.x", {"a.x < c.x": "b"}),
        ("a.x = b.x AND b.x = c.x", {"a.x <= c.x": "b", "c.x <= a.x": "b"}),
        ("a.s < b.s AND b.s < c.s", {"a.s < c.s": "b"}),
        ("a.ts < b.ts AND b.ts < c.ts", {"a.ts < c.ts": "b"}),
        ("a.x < b.z AND b.z < c.x", {"a.x < c.x": "b"}),
        ("a.x < b.x AND b.x < c.x AND c.x < d.x", {"a.x < c.x": "b", "b.x < d.x": "c", "a.x < d.x": "bc"}),
        ("c.x < a.x AND b.x < c.x", {"b.x < a.x": "c"}),
    ],
)
def test_what_follows_by_steps(where: str, expected: dict[str, str]) -> None:
    assert implied(where) == expected


@pytest.mark.parametrize(
    "where",
    [
        "a.x < b.x AND c.x < b.x",
        "a.x < b.x AND b.z < c.x",
        "a.x != b.x AND b.x != c.x",
        "a.x < b.x AND (b.x < c.x OR c.x = 1)",
        "a.x + 1 < b.x AND b.x < c.x",
        "a.x < 3 AND 3 < c.x",
        "a.x < b.x AND b.x < c.x AND a.x < c.x",
        "a.x < b.x AND b.x < a.z",
    ],
)
def test_what_does_not_follow_or_is_asked_anyway(where: str) -> None:
    assert implied(where) == {}


def test_numbers_of_two_kinds_imply_nothing() -> None:
    """An integer is compared with a float after rounding, which is not transitive beyond 2^53."""
    assert implied("a.x < b.y AND b.y < c.x") == {}
    assert implied("a.y < b.y AND b.y < c.y") == {"a.y < c.y": "b"}


def test_an_attribute_that_a_type_lacks_implies_nothing() -> None:
    """A predicate on it holds by definition."""
    every = frozenset("xyzs")
    types = {"A": every, "B": every - {"x"}, "C": every, "D": every}
    assert implied("a.x < b.x AND b.x < c.x", FOUR.replace("B b", "ANY(B, D) b"), types) == {}
    assert implied("a.z < b.z AND b.z < c.z", types=types) == {"a.z < c.z": "b"}


def test_elements_of_kleene_variables_imply_nothing() -> None:
    assert implied("a.x < b[1].x AND b[1].x < c.x", "SEQ(A a, B+ b[], C c)") == {}


def test_the_number_is_bounded() -> None:
    names = [f"v{number}" for number in range(12)]
    pattern = f"SEQ({', '.join(f'A {name}' for name in names)})"
    where = " AND ".join(f"{one}.x < {other}.x" for one, other in pairwise(names))
    assert len(implied(where, pattern)) == MOST_IMPLIED


# --- by brute force ---------------------------------------------------------------------------------------------------

ASSIGNMENTS = list(product((*range(4), None), repeat=4))
OPERATORS = ("<", "<=", ">", ">=", "=")


def holds(expression: Expression, values: tuple[int | None, ...]) -> bool:
    assert isinstance(expression, Comparison)
    assert isinstance(expression.left, Attribute)
    assert isinstance(expression.right, Attribute)
    left, right = ("abcd".index(side.variable) for side in (expression.left, expression.right))
    return compare(expression.operator, values[left], values[right]) is True


def random_conjuncts(rng: Random) -> tuple[Expression, ...]:
    pairs = [rng.sample("abcd", 2) for _ in range(rng.randrange(2, 6))]
    return tuple(Comparison(rng.choice(OPERATORS), Attribute(one, "x"), Attribute(other, "x")) for one, other in pairs)


@pytest.mark.parametrize("seed", range(150))
def test_implied_comparisons_follow_from_what_is_between(seed: int) -> None:
    """Every assignment that satisfies the conjuncts up to the middle satisfies the implied comparison: asking it loses no
    match, and once its middle is bound it is not needed.
    """
    conjuncts = random_conjuncts(Random(seed))
    for item in implied_comparisons(bound_of("a.x = 1"), conjuncts):
        decided = [one for one in conjuncts if variables(one) <= variables(item.expression) | item.via]
        for values in ASSIGNMENTS:
            if all(holds(one, values) for one in decided):
                assert holds(item.expression, values), (conjuncts, item, values)


def test_nothing_that_follows_is_missed() -> None:
    """If conjuncts can be satisfied and force an order on two variables that none compares, it is implied, strictly if so."""
    seen = 0
    for seed in range(150):
        conjuncts = random_conjuncts(Random(seed))
        models = [values for values in ASSIGNMENTS if None not in values and all(holds(one, values) for one in conjuncts)]
        found = {expression_text(item.expression) for item in implied_comparisons(bound_of("a.x = 1"), conjuncts)}
        compared = [variables(one) for one in conjuncts]
        for one, other in product("abcd", repeat=2):
            if one == other or {one, other} in compared or not models:
                continue
            sides = Attribute(one, "x"), Attribute(other, "x")
            strict, loose = Comparison("<", *sides), Comparison("<=", *sides)
            if all(holds(strict, values) for values in models):
                assert expression_text(strict) in found, (conjuncts, found)
                seen += 1
            elif all(holds(loose, values) for values in models):
                assert expression_text(loose) in found, (conjuncts, found)
                seen += 1
    assert seen > 100
