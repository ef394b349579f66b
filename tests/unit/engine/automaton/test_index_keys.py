"""Indexes over waiting runs: the matches are those without an index, and the work follows the output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.engine.automaton import automaton_pass

NEVER = 1 << 60
ROWS = 1_500
INT64 = np.iinfo(np.int64)

PAIRS = (
    "a.x < b.x - 0.97",
    "b.x + 0.97 <= a.x",
    "a.x BETWEEN b.x AND b.x + 0.01",
    "a.i = b.j",
    "a.i = b.j AND a.k = b.k",
    "a.i = b.r",
    "a.z = b.z",
    "a.m >= b.m + 1",
    "a.m < b.m",
    "a.s = b.s AND a.i < b.i",
    "a.s < b.s",
)
PATTERNS = (
    *((f"SEQ(A a, B b) WHERE skip_till_next_match(a, b) {{ {condition} }} WITHIN 1000", condition) for condition in PAIRS),
    ("SEQ(A a, B b, C c) WHERE skip_till_next_match(a, b, c) { a.i = b.j AND b.x < c.x - 0.9 } WITHIN 900", "three"),
    (
        "SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) { b[i].x > b[i-1].x + 0.5 AND c.i = b[1].j } WITHIN 900",
        "kleene",
    ),
    ("SEQ(A a, B+ b[]) WHERE skip_till_next_match(a, b[]) { b[1].i = a.j AND b[i].i = a.j } WITHIN 900", "last kleene"),
    ("SEQ(A a, B b) WHERE skip_till_next_match(a, b) { a.i = b.j }", "no window"),
    ("SEQ(A a, B+ b[]) WHERE skip_till_any_match(a, b[]) { b[1].i = a.j AND b[i].i = b[i-1].j } WITHIN 300", "any"),
    ("SEQ(A a, B b) WHERE skip_till_next_match(a, b) { a.i = b.j } WITHIN 900 OUTPUT NON-OVERLAP", "apart"),
)


def _events() -> pa.Table:
    """Events with NULL, NaN, both zeros and the extremes of 64 bits."""
    rng = np.random.default_rng(5)

    def holes(values: Any, kind: Any = None) -> pa.Array:
        return pa.array(values, kind, mask=rng.random(ROWS) < 0.05)

    floats = rng.random(ROWS)
    floats[rng.random(ROWS) < 0.02] = np.nan
    return pa.table(
        {
            "ts": np.arange(ROWS),
            "type": np.array(list("ABC"))[rng.integers(0, 3, ROWS)],
            "x": holes(floats),
            "i": holes(rng.integers(0, 150, ROWS)),
            "j": holes(rng.integers(0, 150, ROWS)),
            "k": rng.integers(0, 3, ROWS),
            "r": rng.integers(0, 150, ROWS).astype(float),
            "z": rng.choice(np.append(rng.random(300), [0.0, -0.0, np.inf, -np.inf]), ROWS),
            "m": rng.choice(np.array([INT64.min, INT64.min + 1, -1, 0, 1, INT64.max - 1]), ROWS),
            "s": [f"name {number}" for number in rng.integers(0, 300, ROWS)],
        }
    )


@pytest.mark.parametrize("pattern", [item[0] for item in PATTERNS], ids=[item[1] for item in PATTERNS])
@pytest.mark.parametrize("algorithm", ["merging", "basic"])
def test_an_index_changes_no_match(pattern: str, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events, query = _events(), kleene.query(f"PATTERN {pattern}")
    found = []
    for few in (NEVER, 64, 2):
        monkeypatch.setattr(automaton_pass, "FEW", few)
        plan = {"mechanism": "nfa", "algorithm": algorithm}
        found.append(sorted(query.match(events, time="ts", type="type", plan=plan)["match_id"].to_pylist()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("condition", ["a.id = b.id", "a.x < b.x - 0.999", "a.x - 0.999 > b.x"])
def test_runs_that_a_rare_condition_does_not_concern_are_not_looked_at(condition: str) -> None:
    rows = 4_000
    rng = np.random.default_rng(1)
    columns = {
        "ts": np.arange(rows),
        "type": ["A", "B"] * (rows // 2),
        "x": rng.random(rows),
        "id": rng.integers(0, rows, rows),
    }
    query = kleene.query(f"PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) {{ {condition} }}")
    run = query.run(pa.table(columns), time="ts", type="type")
    # Each of 2,000 events would meet 1,000 runs on average.
    assert run.metrics.visits < 20 * rows


@pytest.mark.parametrize("seed", range(3))
def test_a_limit_counts_the_runs_that_live(seed: int) -> None:
    """Four runs take an event, one of which has expired: the state has 64 places, a hole among them, and 63 live runs."""
    rows = [(500 + at, "A", 100, -1, 1) for at in range(55)] + [(560 + at, "A", 100, 7, 1) for at in range(4)]
    rows = [(0, "A", 100, -1, 1), *rows, (1100, "A", 7, -1, 0), (1101, "C", 0, 0, 0)]
    rows += [(5000 + 2000 * at, "ACAC"[at % 4], 100, -1, 1) for at in range(8)]
    events = pa.table(dict(zip(["ts", "type", "x", "y", "z"], map(list, zip(*rows, strict=True)), strict=True)))
    query = kleene.query(
        "PATTERN SEQ(A+ a[], C c) WHERE skip_till_any_match(a[], c) { a[1].z = 1 AND a[i].x = a[1].y } WITHIN 1000"
    )
    limits = {"runs": 60, "policy": "sample", "seed": seed}
    with pytest.warns(UserWarning, match="limits reached"):
        found = query.match(events, time="ts", type="type", plan={"algorithm": "basic"}, limits=limits)
    assert found.num_rows == 53
