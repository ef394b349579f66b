"""Compiled filters: constants are arguments of theirs, long IN lists are searched, and neither adds to what is compiled."""

from __future__ import annotations

import datetime as dt
import gc
import sys
import weakref
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.engine import kernels
from kleene.engine.automaton import run_program
from kleene.engine.expressions import filters
from kleene.engine.lazy import program as lazy_program
from kleene.plan.analysis.compilable import SEARCHED

T0 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

STREAM = pa.table(
    {
        "ts": range(60),
        "type": ["A", "B", "C"] * 20,
        "x": [None if at % 11 == 0 else at % 17 for at in range(60)],
        "y": [None if at % 7 == 0 else (at % 13) / 2 for at in range(60)],
        "s": [None if at % 9 == 0 else f"v{at % 6}" for at in range(60)],
        "at": [T0 + dt.timedelta(seconds=at % 5) for at in range(60)],
    }
)

COUNT = 200
"""Changes of a constant."""

PLANS: tuple[dict[str, Any], ...] = (
    {"mechanism": "sequence"},
    {"mechanism": "chain", "order": "b+a"},
    {"mechanism": "nfa"},
)


def compiled() -> int:
    """How many filters were compiled in this process."""
    return sum(module._compiled.cache_info().misses for module in (filters, lazy_program, run_program))


def matches(condition: str, plan: dict[str, Any]) -> set[tuple[int, int]]:
    if plan.get("order"):
        plan = {**plan, "order": plan["order"].split("+")}
    query = kleene.query(f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 20", name="q")
    found = query.match(STREAM, time="ts", type="type", plan=plan)
    return set(zip(found.column("match_start").to_pylist(), found.column("match_end").to_pylist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan["mechanism"])
def test_changed_constants_compile_nothing(plan: dict[str, Any]) -> None:
    def condition(number: int) -> str:
        listed = ", ".join(str(number + item) for item in range(SEARCHED + number % 50))
        return (
            f"(a.x + b.x > {number} OR a.y * {number}.5 < b.y OR a.x - b.x IN ({listed}) "
            f"OR concat(a.s, '') < b.s AND b.s != 'v{number}') AND a.x + b.y < {number + 7}"
        )

    first = condition(0)
    matches(first, plan)
    before = compiled()
    found = {len(matches(condition(number), plan)) for number in range(COUNT)}
    assert len(found) > 2, "the constants matter"
    assert compiled() == before


LISTS: dict[str, tuple[str, list[float | None]]] = {
    "integers": ("a.x + b.x", [*range(3, 40, 2)]),
    "integers with NULL": ("a.x + b.x", [*range(3, 40, 2), None]),
    "floats": ("a.y + b.y", [0.5 * item for item in range(20, 2, -1)]),
    "integers among floats": ("a.y + b.y", [1, 2, 2.5, 3, 3.5, *range(9, 25)]),
    "floats among integers": ("a.x + b.x", [1, 2, 2.5, 3.0, 3.5, 4.5, *range(5, 40, 3)]),
    "repeated": ("a.x - b.x", [-3, -3, 0, 0, 1, 1, 2, 2, 5, 5, 5, 6, 6, 7, 7, 8, 8]),
}


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("name", LISTS)
def test_a_searched_list_is_what_its_parts_are(name: str, negated: bool) -> None:
    operand, items = LISTS[name]
    assert len(items) >= SEARCHED
    texts = ["NULL" if item is None else str(item) for item in items]
    word, joint = ("NOT IN", " AND ") if negated else ("IN", " OR ")
    parts = joint.join(f"{operand} {word} ({', '.join(texts[at : at + 9])})" for at in range(0, len(texts), 9))
    expected = matches(f"({parts})", PLANS[0])
    for plan in PLANS:
        assert matches(f"{operand} {word} ({', '.join(texts)})", plan) == expected
    assert expected or (negated and None in items)


def test_a_searched_list_of_texts() -> None:
    texts = ", ".join(f"'v{item}'" for item in range(2, 30))
    for plan in PLANS:
        found = matches(f"(a.s IN ({texts}) OR a.x > b.x)", plan)
        assert found == matches("(a.s >= 'v2' OR a.x > b.x)", plan)
        assert found


def test_the_length_of_a_list_between_events_compiles_nothing() -> None:
    def listed(count: int) -> str:
        return f"a.x * 1000 + b.x IN ({', '.join(map(str, range(count)))})"

    matches(listed(SEARCHED), PLANS[0])
    before = compiled()
    assert matches(listed(20_000), PLANS[0])
    assert compiled() == before


def test_a_generated_filter_that_is_dropped_leaves_memory() -> None:
    modules = set(sys.modules)
    function = kernels.generated("def dropped(n): return n + 1")
    assert function(1) == 2
    assert set(sys.modules) == modules
    left = weakref.ref(function)
    del function
    gc.collect()
    assert left() is None
