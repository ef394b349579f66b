"""Slices of time: what leads to them, and NON-OVERLAP across them."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.interfaces.options import options_of
from kleene.plan.contract import Plan
from kleene.plan.distribution.slicing import obstacle, reaching
from support.slice_runs import sliced

EVENTS = pa.table({"ts": [1, 2, 3, 4, 5, 6], "type": list("AABABB"), "x": [1, 2, 1, 3, 2, 3]})


def plan_of(text: str, **options: Any) -> Plan:
    return kleene.query(text).plan_for(EVENTS.schema, options_of({"time": "ts", "type": "type", **options}))


@pytest.mark.parametrize("plan", [{"mechanism": "nfa"}, {"mechanism": "lazy"}])
@pytest.mark.parametrize("cuts", [[4], [5], [6], [3, 4, 5, 6], []])
def test_a_candidate_that_is_not_chosen_hides_no_other(cuts: list[int], plan: Any) -> None:
    """2-5 overlaps 1-3, which is reported; 4-6 overlaps 2-5, which is not, and is reported too."""
    made = plan_of(
        "PATTERN SEQ(A a, B b) WHERE b.x - a.x = 0 WITHIN 10 OUTPUT NON-OVERLAP RETURN a.ts AS a, b.ts AS b", plan=plan
    )
    found = sliced(made, EVENTS, cuts, Random(1))
    assert sorted(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)) == [(1, 3), (4, 6)]


@pytest.mark.parametrize(
    ("pattern", "reach"),
    [
        ("SEQ(A a, B b) WITHIN 7", 7),
        ("SEQ(!(D d), A a, B b) WITHIN 7", 7),
        ("SEQ(A a, B b, !(D d)) WITHIN 7", 7),
        ("SEQ(!(D c), A a, B b, !(D d)) WITHIN 7", 14),
        ("SEQ(A a, B b, !(D d)) WITHIN 7 OUTPUT NON-OVERLAP", 14),
        ("SEQ(A a, B b) WITHIN 7 AGG COUNT", 8),
        ("SEQ(A a, B b) WHERE a.x < b.x AND a.x != b.x WITHIN 7 AGG COUNT", 14),
    ],
)
def test_what_leads_to_a_slice(pattern: str, reach: int) -> None:
    plan = plan_of(f"PATTERN {pattern}")
    assert plan.reach == reach
    assert [(part.low, part.high) for part in reaching(plan.reach)([100])[1:]] == [(101 - reach, 100)]


@pytest.mark.parametrize(
    ("pattern", "options", "reason"),
    [
        ("SEQ(A a, B b)", {}, "without a window"),
        ("SEQ(A a, B b) WHERE [x] AGG COUNT", {}, "without a window"),
        ("SEQ(A a, B b) AGG COUNT", {}, None),
        ("SEQ(A a, B+ b[]) WITHIN 7", {"limits": {"runs": 9, "policy": "sample"}}, "at a limit"),
        ("SEQ(A a, B b) WITHIN 7 OUTPUT NON-OVERLAP", {"output": "compressed"}, "compressed output"),
        ("SEQ(A a, B b) WHERE strict_contiguity(a, b) { [x] } WITHIN 7 EVENTS", {}, "counted by x, which does not divide"),
        ("SEQ(A a, B b) WITHIN 7", {}, None),
    ],
)
def test_what_cannot_be_sliced(pattern: str, options: dict[str, Any], reason: str | None) -> None:
    found = obstacle(plan_of(f"PATTERN {pattern}", **options))
    assert found is None if reason is None else found is not None and reason in found
