"""Clauses: equal sub-patterns are equal values, whatever variables are called and however conditions are written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.pattern.text import expression_text
from kleene.plan.multi.clauses import Clause, Leaf, clauses_of
from kleene.plan.optimizer import plan_matches
from kleene.plan.options import LazyOptions
from kleene.plan.patterns import LazyPlan

SCHEMA = schema_of_arrow(
    pa.schema(
        [
            ("ts", pa.int64()),
            ("type", pa.string()),
            ("k", pa.int64()),
            ("x", pa.int64()),
            ("y", pa.int64()),
        ]
    ),
    time="ts",
    type="type",
)


def plan(text: str) -> LazyPlan:
    return plan_matches(bind(parse(text), SCHEMA), LazyOptions())


def clauses(*texts: str) -> tuple[tuple[Leaf, ...], tuple[Clause, ...]]:
    return clauses_of({f"P{number}": plan(text) for number, text in enumerate(texts)})


def forms(clause: Clause) -> list[tuple[str, tuple[int, ...]]]:
    return [(expression_text(item.form).replace("`", ""), item.components) for item in clause.conditions]


def test_the_names_of_variables_do_not_matter() -> None:
    leaves, (one, other) = clauses(
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND a.y > 3 WITHIN 5",
        "PATTERN SEQ(A first, B second) WHERE second.x > first.x AND 3 < first.y WITHIN 7",
    )
    assert len(leaves) == 2
    assert (one.leaves, one.precedes, one.conditions) == (other.leaves, other.precedes, other.conditions)
    assert (one.window, other.window) == (5, 7)


def test_a_leaf_is_the_types_and_the_own_predicates() -> None:
    leaves, found = clauses("PATTERN SEQ(A a, A b, ANY(A, B) c, A d) WHERE a.x > 1 AND b.x > 2 AND d.x > 1 WITHIN 5")
    assert found[0].leaves == (0, 1, 2, 0)
    assert [sorted(leaf.types) for leaf in leaves] == [["A"], ["A"], ["A", "B"]]


@pytest.mark.parametrize(
    ("condition", "form"),
    [
        ("a.x < b.x", [("$0.x < $1.x", (0, 1))]),
        ("b.x < a.x", [("$0.x < $1.x", (1, 0))]),
        ("a.x >= b.x", [("$0.x <= $1.x", (1, 0))]),
        ("b.x = a.x", [("$0.x = $1.x", (0, 1))]),
        ("a.y = b.x", [("$0.x = $1.y", (1, 0))]),
        ("b.x != a.y", [("$0.x != $1.y", (1, 0))]),
        ("a.x + 1 > b.x", [("$0.x < $1.x + 1", (1, 0))]),
        ("NOT (a.x > b.x)", [("NOT $0.x < $1.x", (1, 0))]),
        ("a.x < b.x AND b.x > a.x", [("$0.x < $1.x", (0, 1))]),
    ],
)
def test_conditions_have_one_form(condition: str, form: list[tuple[str, tuple[int, ...]]]) -> None:
    _, (clause,) = clauses(f"PATTERN AND(A a, B b, C c) WHERE {condition} WITHIN 5")
    assert forms(clause) == form


def test_every_alternative_is_a_clause() -> None:
    _, found = clauses("PATTERN SEQ(A a, OR(B b, SEQ(C c, D d))) WITHIN 5", "PATTERN SEQ(A a, E? e) WITHIN 5")
    assert [(clause.query, clause.branch, len(clause.leaves)) for clause in found] == [
        ("P0", 0, 2),
        ("P0", 1, 3),
        ("P1", 0, 2),
        ("P1", 1, 1),
    ]


def test_what_binds_several_events_or_none_is_left_out() -> None:
    _, (clause,) = clauses(
        "PATTERN SEQ(A a, B+ b[], !(N n), C c, D d) WHERE a.x < c.x AND b[].x < c.x AND n.x = a.x AND a.y < d.y WITHIN 9"
    )
    assert clause.components == (0, 2, 3)
    assert clause.precedes == {(0, 1), (0, 2), (1, 2)}
    assert forms(clause) == [("$0.x < $1.x", (0, 1)), ("$0.y < $1.y", (0, 2))]


def test_a_branch_of_kleene_components_has_no_clause() -> None:
    leaves, found = clauses("PATTERN OR(SEQ(A+ a[], B+ b[]), C c) WITHIN 9")
    assert [clause.branch for clause in found] == [1]
    assert [sorted(leaf.types) for leaf in leaves] == [["C"]]


def test_implied_comparisons_are_no_conditions() -> None:
    _, (clause,) = clauses("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 9")
    assert len(plan("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 9").branches[0].conditions) == 3
    assert forms(clause) == [("$0.x < $1.x", (0, 1)), ("$0.x < $1.x", (1, 2))]


def test_what_the_partition_decides_is_no_condition() -> None:
    _, (keyed, equated) = clauses(
        "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9", "PATTERN SEQ(A a, B b) WHERE a.k = b.k AND a.x = b.y WITHIN 9"
    )
    assert (forms(keyed), forms(equated)) == ([], [("$0.x = $1.y", (0, 1))])


def test_windows_of_events_and_none() -> None:
    _, found = clauses("PATTERN SEQ(A a, B b) WITHIN 7 EVENTS", "PATTERN SEQ(A a, B b)")
    assert [clause.window for clause in found] == [7, None]
