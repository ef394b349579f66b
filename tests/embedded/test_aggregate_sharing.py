"""Workloads of AGG queries (A-Seq section 4): Figures 9 to 11 under every way of sharing, each query with its own rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.plan.options import CHOICES

PLANS = [
    {"mechanism": "counters", "window": window, "sharing": sharing}
    for window in CHOICES["aggregate"]["window"]
    for sharing in CHOICES["aggregate"]["sharing"]
]
NAMES = [f"{plan['window']}-{plan['sharing']}" for plan in PLANS]


def stream(text: str, **types: str) -> pa.Table:
    """Events as case files label them: `a1` is of type A, or what its letter stands for, at time 1."""
    labels = text.split()
    kinds = [types.get(label[0], label[0].upper()) for label in labels]
    return pa.table({"ts": [int(label[1:]) for label in labels], "type": kinds})


Rows = list[tuple[Any, ...]]


def counts(table: pa.Table) -> Rows:
    return [tuple(row.values())[1:] for row in table.to_pylist()]


def answers(
    queries: dict[str, str], events: pa.Table, plan: dict[str, Any], **options: Any
) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of queries that run together, which must be those of each alone."""
    given = {"time": "ts", "type": "type", **options}
    found = kleene.workload(queries).match(events, **given, plan=plan)
    for name, text in queries.items():
        own = kleene.query(text, name=name).match(events, **given)
        assert found[name].equals(own), (plan, name, found[name].to_pylist(), own.to_pylist())
    return {name: counts(table) for name, table in found.items()}


# Figure 10: a1 has expired when e comes at 10; the snapshots are a1 1, a4 0 at d5 and a1 3, a4 1, a8 0 at d9.
FIGURE_10 = stream("a1 b2 c3 a4 d5 b6 c7 a8 d9 e10")
# Figure 11: f comes at 12, when a1 has expired; a3 has 1 through d6 and 2 through d9.
FIGURE_11 = stream("a1 b2 a3 b4 c5 d6 c7 a8 d9 e10 f12 g13")

KINDLE = stream(
    "i1 v2 b3 f4 c5 v6 b7 d8 e9 f10 o11 l12 m13",
    v="VKindle",
    b="BKindle",
    c="VCase",
    d="BCase",
    f="VKindleFire",
    e="VeBook",
    o="BeBook",
    l="VLight",
    m="BLight",
    i="Vipad",
)
EXAMPLE_6 = {
    "q1": "PATTERN SEQ(VKindle, BKindle, VCase, BCase) AGG COUNT WITHIN 20",
    "q2": "PATTERN SEQ(VKindle, BKindle, VKindleFire) AGG COUNT WITHIN 20",
    "q3": "PATTERN SEQ(VKindle, BKindle, VCase, BCase, VeBook, BeBook) AGG COUNT WITHIN 20",
    "q4": "PATTERN SEQ(VKindle, BKindle, VCase, BCase, VLight, BLight) AGG COUNT WITHIN 20",
    "q5": "PATTERN SEQ(Vipad, VKindleFire, VKindle, BKindle) AGG COUNT WITHIN 20",
}


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_examples_6_and_7(plan: dict[str, Any]) -> None:
    assert answers(EXAMPLE_6, KINDLE, plan) == {
        "q1": [(8, 1)],
        "q2": [(4, 1), (10, 4)],
        "q3": [(11, 1)],
        "q4": [(13, 1)],
        "q5": [(3, 0), (7, 1)],
    }


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_example_8(plan: dict[str, Any]) -> None:
    queries = {
        "whole": "PATTERN SEQ(A a, B b, C c, D d, E e) AGG COUNT WITHIN 9",
        "front": "PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 9",
        "back": "PATTERN SEQ(D d, E e) AGG COUNT WITHIN 9",
        "other": "PATTERN SEQ(B b, D d, E e) AGG COUNT WITHIN 9",
    }
    assert answers(queries, FIGURE_10, plan) == {
        "whole": [(10, 1)],
        "front": [(3, 1), (7, 4)],
        "back": [(10, 2)],
        "other": [(10, 3)],
    }


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_example_9(plan: dict[str, Any]) -> None:
    queries = {
        "whole": "PATTERN SEQ(A a, B b, C c, D d, E e, F f, G g) AGG COUNT WITHIN 11",
        "first": "PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 11",
        "second": "PATTERN SEQ(D d, E e) AGG COUNT WITHIN 11",
        "third": "PATTERN SEQ(F f, G g) AGG COUNT WITHIN 11",
        "connected": "PATTERN SEQ(C c, D d, E e, F f, G g) AGG COUNT WITHIN 11",
    }
    assert answers(queries, FIGURE_11, plan) == {
        "whole": [(13, 3)],
        "first": [(5, 3), (7, 6)],
        "second": [(10, 2)],
        "third": [(13, 1)],
        "connected": [(13, 3)],
    }


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_windows_of_their_own(plan: dict[str, Any]) -> None:
    """Example 8 with three windows: one instant more, and a1 counts too."""
    text = "PATTERN SEQ(A a, B b, C c, D d, E e) AGG COUNT WITHIN {} EMIT ON CHANGE"
    queries = {f"w{length}": text.format(length) for length in (7, 9, 10)}
    assert answers(queries, FIGURE_10, plan) == {
        "w7": [(10, 1), (11, 0)],
        "w9": [(10, 1), (13, 0)],
        "w10": [(10, 5), (11, 1), (14, 0)],
    }


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_negation_in_a_shared_part(plan: dict[str, Any]) -> None:
    """Lemma 6 within a part, between parts, and in one query only."""
    events = stream("a1 b2 n3 c4 d5 b6 c7 n8 d9 e10")
    queries = {
        "plain": "PATTERN SEQ(A a, B b, C c, D d, E e) AGG COUNT WITHIN 20",
        "inside": "PATTERN SEQ(A a, B b, !(N n), C c, D d, E e) AGG COUNT WITHIN 20",
        "between": "PATTERN SEQ(A a, B b, C c, !(N n), D d, E e) AGG COUNT WITHIN 20",
        "tail": "PATTERN SEQ(C c, D d, E e) AGG COUNT WITHIN 20",
    }
    assert answers(queries, events, plan) == {
        "plain": [(10, 4)],
        "inside": [(10, 1)],
        "between": [(10, 1)],
        "tail": [(10, 3)],
    }


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_values_of_a_shared_part(plan: dict[str, Any]) -> None:
    """Sums and extremes before, in and after what is shared, and different ones in different queries."""
    events = stream("a1 b2 a3 c4 b5 c6 d7 c8 d9").append_column("x", pa.array([10**i for i in range(9)]))
    queries = {
        "first": "PATTERN SEQ(A a, B b, C c) AGG COUNT, SUM(a.x) AS s, MAX(c.x) AS m WITHIN 6",
        "whole": "PATTERN SEQ(A a, B b, C c, D d) AGG COUNT, SUM(c.x) AS s, MIN(a.x) AS m WITHIN 6",
        "last": "PATTERN SEQ(B b, C c, D d) AGG COUNT, AVG(b.x) AS s, MIN(d.x) AS m WITHIN 6",
    }
    found = answers(queries, events, plan)
    # At 6: (a1, b2) with c4 and c6, (a1, b5, c6) and (a3, b5, c6); at 8 a1 has expired.
    assert found["first"] == [(4, 1, 1, 1_000), (6, 4, 103, 100_000), (8, 2, 200, 10_000_000)]
    # At 7 a1 has expired: (a3, b5, c6, d7); at 9 a3 has.
    assert found["whole"] == [(7, 1, 100_000, 100), (9, 0, None, None)]
    # At 7 (b2, c4), (b2, c6), (b5, c6); at 9 b2 has expired: (b5, c6, d7), then (b5, c6, d9) and (b5, c8, d9).
    assert found["last"] == [(7, 3, (10 + 10 + 10**4) / 3, 10**6), (9, 3, 10_000.0, 10**6)]


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_groups_and_keys_of_their_own(plan: dict[str, Any]) -> None:
    events = stream("a1 a2 b3 b4 c5 c6").append_column("k", pa.array([1, 2] * 3))
    queries = {
        "all": "PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 10",
        "added": "PATTERN SEQ(A a, B b, C c) WHERE [k] AGG COUNT WITHIN 10",
        "grouped": "PATTERN SEQ(A a, B b, C c) GROUP BY k AGG COUNT WITHIN 10",
        "having": "PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT WITHIN 10 HAVING k > 1",
    }
    assert answers(queries, events, plan) == {
        "all": [(5, 4), (6, 8)],
        "added": [(5, 1), (6, 2)],
        "grouped": [(1, 5, 1), (2, 6, 1)],
        "having": [(2, 4, 1)],
    }


@pytest.mark.parametrize("sharing", CHOICES["aggregate"]["sharing"])
def test_with_queries_that_are_matched(sharing: str) -> None:
    """What cannot be counted runs with the others as it does alone."""
    queries = {
        "counted": "PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 9",
        "too": "PATTERN SEQ(A a, B b) AGG COUNT WITHIN 9",
        "matched": "PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 4 EVENTS",
    }
    assert answers(queries, FIGURE_10, {"sharing": sharing}) == {
        "counted": [(3, 1), (7, 4)],
        "too": [(2, 1), (6, 3)],
        "matched": [(3, 1), (7, 1)],
    }


def test_with_queries_that_have_no_aggregate() -> None:
    queries = {
        "counted": "PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 9",
        "too": "PATTERN SEQ(A a, B b) AGG COUNT WITHIN 9",
        "plain": "PATTERN SEQ(A a, B b) WITHIN 9",
    }
    options = {"time": "ts", "type": "type"}
    found = kleene.workload(queries).match(FIGURE_10, **options)
    for name, text in queries.items():
        assert found[name].equals(kleene.query(text, name=name).match(FIGURE_10, **options)), name
    assert counts(found["counted"]) == [(3, 1), (7, 4)]
    assert found["plain"].num_rows == 3


def test_what_queries_make_is_counted_by_others() -> None:
    """Composite events of one query are what AGG queries of the same workload count."""
    queries = {
        "made": "PATTERN SEQ(A a, B b) WITHIN 9 RETURN a.ts AS began INTO Pair",
        "counted": "PATTERN SEQ(Pair p, C c) AGG COUNT, MAX(p.began) AS last WITHIN 9",
        "other": "PATTERN SEQ(A a, C c) AGG COUNT WITHIN 9",
    }
    found = kleene.workload(queries).match(FIGURE_10, time="ts", type="type")
    # (a1, b2) at 2; (a1, b6) and (a4, b6) at 6
    assert counts(found["counted"]) == [(3, 1, 1), (7, 4, 4)]
    assert counts(found["other"]) == [(3, 1), (7, 3)]
