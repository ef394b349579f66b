"""The canonical text of queries: layout, quoting, and no parenthesis too many."""

import pytest

from kleene.language.parser import parse
from kleene.language.printer import expression_text, pattern_text, to_text


def test_layout() -> None:
    text = (
        "pattern seq(Stock+ a[], !(Register b), ANY(A-B, `C D`) c) where skip_till_next_match(a, c) {[symbol] and a[1].v>1} "
        "output non_overlap within 60 minutes return a[1].v as first, c.x into `New Type`"
    )
    assert to_text(parse(text)) == (
        "PATTERN SEQ(Stock+ a[], !(Register b), ANY(A-B, `C D`) c)\n"
        "WHERE skip_till_next_match(a[], c) { [symbol] AND a[1].v > 1 }\n"
        "WITHIN 60 minutes\n"
        "OUTPUT NON-OVERLAP\n"
        "RETURN a[1].v AS first, c.x INTO `New Type`"
    )


def test_layout_of_aggregates() -> None:
    text = "PATTERN SEQ(A, !B, C) GROUP BY ip AGG count, sum(C.x) as total having count(*) > 3 emit on change within 1.5 s"
    assert to_text(parse(text)) == (
        "PATTERN SEQ(A, !B, C)\nGROUP BY ip\nAGG COUNT, SUM(C.x) AS total\nHAVING count > 3\nEMIT ON CHANGE\nWITHIN 1.5 seconds"
    )


@pytest.mark.parametrize(
    "text",
    [
        "p AND q OR r",
        "(p OR q) AND r",
        "NOT p AND q",
        "NOT (p AND q)",
        "NOT NOT p",
        "a.x + 1 - 2 * 3 = 4",
        "a.x - (1 - 2) = 4",
        "(a.x + 1) * -2 = -a.y",
        "-(-1) = - -(1)".replace("- -(1)", "-(1)"),
        "(a.x = 1) = TRUE",
        "a.x IN (1, 'it''s', NULL)",
        "a.x + 1 IN odd-list",
        "a.x BETWEEN 1 AND 2 AND q",
        "NOT a.x LIKE 'a%'",
        "a.x IS NULL",
        "avg(a[..i-1].x) > a[a.LEN].`odd name`",
        "a.x - a.y > 90 minutes",
        "a.x > TIMESTAMP '2024-01-01 10:00:00'",
        "[id = 'x'] AND [`where`]",
        "least(a.x, 1.5) = 1e+300",
        "count(a[]) = a.LEN",
    ],
)
def test_canonical_conditions_print_as_written(text: str) -> None:
    query = parse(f"PATTERN A a WHERE {text}")
    assert query.where is not None
    assert expression_text(query.where) == text


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "A a",
        "A+",
        "A{2,5} a[]",
        "A{2} a[]",
        "A{2,} a[]",
        "A* a[]",
        "A? a",
        "OR(AND(A, B), SEQ(C c))",
        "SEQ(!A, !(B b), C)",
    ],
)
def test_canonical_patterns_print_as_written(text: str) -> None:
    assert pattern_text(parse(f"PATTERN {text}").pattern) == text
