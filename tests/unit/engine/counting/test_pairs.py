"""Pairs of events that are compared, counted by the order of the values: what small random streams do not reach."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError
from kleene.engine.counting import pairs
from kleene.interfaces.options import options_of
from kleene.runtime.embedded import rows_of

ROLES = {"time": "ts", "type": "type"}
COUNTED, MATCHED = ({"mechanism": name} for name in ("counters", "matches"))


def stream(events: int, **columns: Any) -> pa.Table:
    rng = np.random.default_rng(7)
    values = {
        "ts": np.cumsum(rng.integers(0, 3, events)) - events,
        "type": rng.choice(list("ABCN"), events, p=[0.4, 0.4, 0.15, 0.05]),
        "x": rng.integers(-50, 50, events),
        "y": rng.choice([0.5, 1.5, np.nan, np.inf, -0.0, 0.0, 7.0], events),
        "s": rng.choice(["a", "b", "ab", "é", ""], events),
        "k": rng.integers(0, 5, events),
    }
    return pa.table(values | columns)


def same(text: str, events: pa.Table) -> pa.Table:
    """The rows by counters, which are those of matches, in one go and in batches."""
    query = kleene.query(text)
    groups = [("at", "ascending"), *((name, "ascending") for name in query.logical.group_by)]
    wanted = query.match(events, **ROLES, plan=MATCHED).sort_by(groups)
    assert query.match(events, **ROLES, plan=COUNTED).sort_by(groups).equals(wanted)
    matcher = query.matcher(events.schema, options_of({**ROLES, "plan": COUNTED}), run_rows=700)
    found = [rows for batch in events.to_batches(max_chunksize=100) for _, rows in matcher.feed(batch)]
    found += rows_of(matcher.finish())
    assert pa.Table.from_batches(found, matcher.output_schemas[0]).sort_by(groups).equals(wanted)
    return wanted


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=", "!="])
@pytest.mark.parametrize("attribute", ["x", "y", "s"])
def test_every_comparison_over_many_blocks(operator: str, attribute: str) -> None:
    text = f"PATTERN SEQ(A a, B b) WHERE a.{attribute} {operator} b.{attribute} AGG COUNT, SUM(a.x) AS s WITHIN 40"
    if attribute == "x" and operator == "=":
        text = text.replace("b.x ", "b.k ")  # else it would divide the stream
    if attribute != "x" and operator == "=":
        text = text.replace("AGG", "AND [k] AGG")
    assert same(text, stream(6_000)).num_rows > 1_000


LONGER = (
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AGG COUNT, SUM(c.x) AS s WITHIN 60",
    "PATTERN SEQ(A a, B b, C c) WHERE b.x - 0.5 < a.y GROUP BY k AGG COUNT, AVG(b.x) AS s WITHIN 90",
    "PATTERN SEQ(A a, B b, !(N n), C c) WHERE c.x <= b.x AND [k] AGG COUNT EMIT ON CHANGE WITHIN 60",
    "PATTERN SEQ(A a, A b, C c, A d) WHERE b.x < c.x AND [k] AGG COUNT, SUM(a.x) AS s WITHIN 60",
    "PATTERN SEQ(A a, !(N n), B b) WHERE a.x < b.x GROUP BY k AGG COUNT EMIT ON CHANGE WITHIN 60",
)


@pytest.mark.parametrize("text", LONGER)
def test_longer_patterns_over_many_blocks(text: str) -> None:
    assert same(text, stream(5_000)).num_rows > 500


def test_without_a_window_all_is_one_block() -> None:
    assert same("PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG COUNT, SUM(b.x) AS s", stream(2_000)).num_rows > 500


@pytest.mark.parametrize("fewest", [1, 3, 100])
def test_blocks_of_any_length(fewest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "FEWEST", fewest)
    monkeypatch.setattr(pairs, "STRETCH", 1)
    same("PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG COUNT, SUM(b.x) AS s EMIT ON CHANGE WITHIN 9", stream(2_000))


def test_no_events_and_no_values() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE a.z < b.z AGG COUNT WITHIN 9"
    nothing = stream(50, z=pa.nulls(50, pa.int64()))
    assert set(same(text, nothing).column("count").to_pylist()) == {0}
    assert kleene.query(text).match(nothing.slice(0, 0), **ROLES).num_rows == 0


# --- exact or an error ------------------------------------------------------------------------------------------------


def choices(length: int, window: int) -> str:
    """Every choice of some events in order, with a comparison that they satisfy."""
    parts = ", ".join(f"A a{i}" for i in range(length))
    return f"PATTERN SEQ({parts}) WHERE a15.x < a16.x AGG COUNT WITHIN {window}"


def test_counts_are_exact_up_to_64_bits_and_refused_beyond() -> None:
    """Of n events 33 at a time there are n over 33; a count is known to be below 2^180 before it is counted."""
    ascending = pa.table({"ts": range(67), "type": ["A"] * 67, "x": range(67)})
    found = kleene.query(choices(33, 66)).match(ascending, **ROLES).column("count").to_pylist()
    assert found[:66] == [comb(n, 33) for n in range(1, 67)]
    assert found[66] == found[65] > 2**62
    with pytest.raises(DataError, match="64 bits"):
        kleene.query(choices(33, 67)).match(ascending, **ROLES)


@pytest.mark.parametrize("window", [2, 6, 100])
@pytest.mark.parametrize("bits", [40, 58, 62])
def test_sums_are_exact_or_refused_as_those_of_matches(window: int, bits: int) -> None:
    events = stream(200, w=np.random.default_rng(1).integers(-(2**bits), 2**bits, 200))
    query = kleene.query(f"PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG COUNT, SUM(a.w) AS s, AVG(b.w) AS m WITHIN {window}")

    def answer(plan: dict[str, str]) -> Any:
        try:
            return query.match(events, **ROLES, plan=plan).to_pylist()
        except DataError as error:
            return "64 bits" in str(error)

    assert answer(COUNTED) == answer(MATCHED) is not False


def test_the_ends_of_64_bits_compare() -> None:
    ends = [-(2**63), -(2**63) + 1, -1, 0, 2**63 - 2, 2**63 - 1]
    same("PATTERN SEQ(A a, B b) WHERE a.w < b.w AGG COUNT WITHIN 30", stream(600, w=np.random.default_rng(1).choice(ends, 600)))


def test_integers_compare_with_floats_as_floats() -> None:
    """2^53 + 1 is no float."""
    events = pa.table({"ts": [1, 2, 3], "type": ["A", "B", "B"], "w": [2**53 + 1, 0, 0], "z": [0.0, 2.0**53, 2.0**53 + 2]})
    found = same("PATTERN SEQ(A a, B b) WHERE a.w <= b.z AGG COUNT WITHIN 9", events)
    assert found.column("count").to_pylist() == [1, 2]
