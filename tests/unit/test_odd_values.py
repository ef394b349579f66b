"""Values at the ends of what the language can hold: units of time, remainders, infinities, encodings, text that is none.

Each has its answer by every mechanism, the one that the oracle gives, or is refused with an error of ours.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.testing import oracle

PAIR = "PATTERN SEQ(A a, B b)"
PLANS: list[Any] = [None, "basic", *({"mechanism": name} for name in ("sequence", "chain", "tree", "nfa"))]
every_plan = pytest.mark.parametrize("plan", PLANS, ids=str)
SMALLEST = -(2**63)


def match(query: str, events: Any, **options: Any) -> pa.Table:
    return kleene.query(query).match(events, time="ts", type="type", **options)


def holds(condition: str, events: pa.Table, plan: Any = None, **params: Any) -> bool:
    """Whether a condition holds for the only pair of events, by a plan and by the oracle, who must agree."""
    found = match(f"{PAIR} WHERE {condition}", events, plan=plan, params=params).num_rows == 1
    schema = schema_of_arrow(events.schema, time="ts", type="type")
    bound = bind(parse(f"{PAIR} WHERE {condition}"), schema, params=params)
    assert found == (len(oracle.matches(bound, events.to_pylist())) == 1), condition
    return found


def pair(**columns: Any) -> pa.Table:
    return pa.table({"ts": [1, 2], "type": ["A", "B"], **columns})


# --- units of time ----------------------------------------------------------------------------------------------------

IDS = [-6964513779063310698, -4791860812750835893, -1161525150595843320, 4908122386832885821]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def timed(unit: str, **columns: Any) -> pa.Table:
    times = pa.array([UNITS[unit] * second for second in (-7, 1, 2, 3)], pa.timestamp(unit))
    return pa.table({"ts": times, "type": ["A", "A", "B", "B"], "d": times.cast(pa.int64()).cast(pa.duration(unit)), **columns})


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("query", [PAIR, "PATTERN SEQ(A a, B+ b[])", f"{PAIR} RETURN a.d AS d"])
def test_the_unit_of_a_time_is_no_part_of_an_id(query: str, nulls: bool) -> None:
    ids = {}
    for unit, factor in UNITS.items():
        seconds = [1, None if nulls else 2, 3, 4]
        values = pa.array([None if second is None else second * factor for second in seconds], pa.timestamp(unit, "UTC"))
        ids[unit] = sorted(match(query, timed(unit, v=values)).column("match_id").to_pylist())
    assert ids["s"] == ids["ms"] == ids["us"] == ids["ns"]
    assert len(set(ids["ns"])) == len(ids["ns"]) > 3


def test_ids_of_microseconds_stay() -> None:
    """Ids are kept by sinks: these are those of the first version."""
    assert sorted(match(PAIR, timed("us")).column("match_id").to_pylist()) == IDS


def test_nanoseconds_tell_matches_apart() -> None:
    times = pa.array([1_000, 1_001, 1_999, 2_000, 3_000], pa.timestamp("ns"))
    found = match(PAIR, pa.table({"ts": times, "type": [*"AAAAB"]}))
    assert len(set(found.column("match_id").to_pylist())) == 4


# --- remainders -------------------------------------------------------------------------------------------------------


@every_plan
@pytest.mark.parametrize(
    ("x", "y"),
    [(SMALLEST, 7), (7, SMALLEST), (-7, SMALLEST), (SMALLEST, -1), (SMALLEST, SMALLEST), (SMALLEST, -3), (-7, 2), (7, -2)],
)
def test_remainders_have_the_sign_of_the_dividend(x: int, y: int, plan: Any) -> None:
    remainder = int(math.copysign(1, x)) * (abs(x) % abs(y))
    events = pair(x=[x, x], y=[y, y], r=[remainder] * 2)
    assert holds("a.x % b.y = a.r", events, plan)
    assert not holds("a.x % b.y != a.r", events, plan)
    (row,) = match(f"{PAIR} RETURN a.x % b.y AS r", events, plan=plan).to_pylist()
    assert row["r"] == remainder


@every_plan
def test_remainders_of_the_smallest_integer_by_floats(plan: Any) -> None:
    events = pair(x=[SMALLEST, 0], y=[0.0, 3.0])
    assert holds("a.x % b.y = -2.0", events, plan)


# --- infinities and NaN -----------------------------------------------------------------------------------------------


@every_plan
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_infinities_and_nan_are_numbers(kind: pa.DataType, plan: Any) -> None:
    events = pair(x=pa.array([1, 2], kind))
    assert holds("a.x + b.x < 1e309", events, plan)
    assert holds("a.x + b.x > -1e309", events, plan)
    for value, less in ((math.inf, True), (-math.inf, False), (math.nan, False)):
        assert holds("a.x + b.x < p", events, plan, p=value) is less
        assert holds("a.x < p", events, plan, p=value) is less
        assert holds("a.x + b.x != p", events, plan, p=value)
        assert not holds("a.x + b.x IN (p, 7)", events, plan, p=value)
