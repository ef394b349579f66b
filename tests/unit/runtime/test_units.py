"""Which queries are matched together."""

from __future__ import annotations

import pyarrow as pa

import kleene
from kleene.interfaces.composition.shared import planned_query
from kleene.interfaces.options import options_of
from kleene.plan.multi.search import MultiOptions
from kleene.runtime.units import QuerySet

SCHEMA = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("x", pa.int64())])
TEXTS = {
    "first": "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 3",
    "second": "PATTERN SEQ(A a, C c) WHERE a.x < c.x WITHIN 5",
    "counted": "PATTERN SEQ(A a, B b) AGG COUNT WITHIN 3",
    "summed": "PATTERN SEQ(A a, C c) AGG SUM(a.x) WITHIN 3",
    "ever": "PATTERN SEQ(A a, B b) AGG COUNT",
    "always": "PATTERN SEQ(A a, C c) AGG COUNT",
    "next": "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) { a[1].x < b.x } WITHIN 3",
}
MULTI = MultiOptions()


def queries(multi: MultiOptions | None = MULTI) -> QuerySet:
    options = options_of({"time": "ts", "type": "type"})
    items = [kleene.query(text, name=name) for name, text in TEXTS.items()]
    return QuerySet(tuple(planned_query(item, SCHEMA, options, multi) for item in items), multi)


def test_patterns_share_a_plan_and_aggregates_counters() -> None:
    together = [("first", "second"), ("counted", "summed"), ("ever", "always"), ("next",)]
    assert [unit.names for unit in queries().units()] == together


def test_patterns_are_matched_alone_where_they_are_not_planned_together() -> None:
    together = [("counted", "summed"), ("ever", "always"), ("first",), ("second",), ("next",)]
    assert [unit.names for unit in queries(None).units()] == together


def test_in_a_stream_counters_without_a_window_are_alone() -> None:
    """Their state is not the events of a window: it could not be divided when one of them goes."""
    found = queries()
    units = list(found.units({item.key: None for item in found.queries}))
    assert [unit.names for unit in units] == [("first", "second"), ("counted", "summed"), ("ever",), ("always",), ("next",)]


def test_queries_that_came_in_force_at_other_watermarks_are_apart() -> None:
    found = queries()
    born = {item.key: 7 if item.name in ("second", "summed") else None for item in found.queries}
    assert {unit.names for unit in found.units(born)} == {(name,) for name in TEXTS}


def test_a_query_by_itself_is_a_unit_of_one() -> None:
    item = queries().queries[0]
    assert item.alone.queries == (item,)
    assert item.alone.plan is item.plan
    assert item.alone.keys == {item.key}
