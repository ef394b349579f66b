"""Conditions on negative components without a key: the first forbidden event decides, however it is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kleene
from kleene.common.arrays import Array
from kleene.engine.matches import forbidden
from kleene.pattern.registered import function

ROWS = 1_500
WINDOW = 120


def events() -> dict[str, Array]:
    random = np.random.default_rng(5)
    x = random.random(ROWS)
    x[random.random(ROWS) < 0.05] = np.nan
    return {
        "ts": np.arange(ROWS),
        "type": random.choice(np.array(list("ABN")), ROWS, p=[0.1, 0.1, 0.8]),
        "x": x,
        "i": random.integers(0, 100, ROWS),
    }


@function(returns="boolean")
def far(one: pa.Array, other: pa.Array) -> pa.Array:
    """A condition that only a user can decide."""
    return pc.greater(pc.abs(pc.subtract(one, other)), 0.99)


Test = Callable[[dict[str, Array], int, int, Array], Array]

CONDITIONS: dict[str, Test] = {
    "n.x > a.x": lambda of, a, _, n: of["x"][n] > of["x"][a],
    "n.x > a.x + 0.9": lambda of, a, _, n: of["x"][n] > of["x"][a] + 0.9,
    "n.x - a.x > 0.9": lambda of, a, _, n: of["x"][n] - of["x"][a] > 0.9,
    "n.i = a.i": lambda of, a, _, n: of["i"][n] == of["i"][a],
    "n.i < a.i + b.i - 150": lambda of, a, b, n: of["i"][n] < of["i"][a] + of["i"][b] - 150,
    "n.i > a.i AND n.x < b.x - 0.9": lambda of, a, b, n: (of["i"][n] > of["i"][a]) & (of["x"][n] < of["x"][b] - 0.9),
    "n.i BETWEEN a.i AND a.i + 1": lambda of, a, _, n: (of["i"][n] >= of["i"][a]) & (of["i"][n] <= of["i"][a] + 1),
    "n.i != a.i AND n.x > 0.99": lambda of, a, _, n: (of["i"][n] != of["i"][a]) & (of["x"][n] > 0.99),
    "far(n.x, a.x)": lambda of, a, _, n: np.abs(of["x"][n] - of["x"][a]) > 0.99,
    "n.i = a.i AND far(n.x, a.x)": lambda of, a, _, n: (of["i"][n] == of["i"][a]) & (abs(of["x"][n] - of["x"][a]) > 0.99),
}

PATTERNS = {
    "SEQ(A a, !(N n), B b)": lambda a, b: (a, b),
    "SEQ(!(N n), A a, B b)": lambda a, b: (b - WINDOW, a),
    "SEQ(A a, B b, !(N n))": lambda a, b: (b, a + WINDOW),
}


def expected(of: dict[str, Array], test: Test, pattern: str) -> list[tuple[int, int]]:
    """The matches, by a look at every negative event."""
    (first, last, negative), found = (np.flatnonzero(of["type"] == kind) for kind in "ABN"), []
    for a in first.tolist():
        for b in last[(last > a) & (last < a + WINDOW)].tolist():
            low, high = PATTERNS[pattern](a, b)
            inside = negative[(negative > low) & (negative < high)]
            if not test(of, a, b, inside).any():
                found.append((a, b))
    return found


@pytest.mark.parametrize("ranked", [True, False])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_matches_are_those_without_a_forbidden_event(condition: str, pattern: str, ranked: bool) -> None:
    of = events()
    text = f"PATTERN {pattern} WHERE {condition} WITHIN {WINDOW} RETURN a.ts AS first, b.ts AS last"
    query = kleene.query(text, functions={"far": far})
    table = pa.table({name: pa.array(values, from_pandas=False) for name, values in of.items()})
    with patch.object(forbidden, "WORTH_RANKING", 0 if ranked else 1 << 40):
        found = query.match(table, time="ts", type="type").to_pylist()
    assert sorted((row["first"], row["last"]) for row in found) == expected(of, CONDITIONS[condition], pattern)


def test_the_first_hit_ends_the_search_and_is_shared_by_matches_with_the_same_events() -> None:
    of, looked_at = events(), 0
    original = forbidden.Forbidden._held

    def counted(self: Any, matches: Any, pair_match: Array, *rest: Any) -> Any:
        nonlocal looked_at
        looked_at += pair_match.size
        return original(self, matches, pair_match, *rest)

    query = kleene.query(f"PATTERN SEQ(A a, !(N n), B b) WHERE n.i * a.i >= 0 WITHIN {WINDOW}")
    with patch.object(forbidden.Forbidden, "_held", counted):
        query.match(pa.table(of), time="ts", type="type")
    assert 0 < looked_at < 3 * np.count_nonzero(of["type"] == "A")
