"""The retail day: its truth is exact."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.generators import retail
from kleene.generators.retail import RetailOptions
from kleene.generators.retail_stories import EVENT_TYPES, MISPLACED_WINDOW, SHOPLIFTING_WINDOW, STORIES
from kleene.interfaces.commands import demo
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.testing import oracle

# The retail day against the two queries, written down naively, item by item.


def _by_item(events: pa.Table) -> dict[Any, list[dict[str, Any]]]:
    items: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    columns = events.select(["id", "type", "shelf_id"]).append_column("us", events["ts"].cast(pa.int64()))
    for row in columns.to_pylist():
        items[row["id"]].append(row)
    return items


def _shoplifting(events: pa.Table) -> list[tuple[Any, int, int]]:
    shelf, counter, exit_ = EVENT_TYPES
    return sorted(
        (item, x["us"], z["us"])
        for item, rows in _by_item(events).items()
        for x in rows
        for z in rows
        if x["type"] == shelf and z["type"] == exit_ and 0 < z["us"] - x["us"] < SHOPLIFTING_WINDOW
        if not any(y["type"] == counter and x["us"] < y["us"] < z["us"] for y in rows)
    )


def _misplaced(events: pa.Table) -> list[tuple[Any, int, int]]:
    shelf, counter, _ = EVENT_TYPES
    return sorted(
        (item, x["us"], y["us"])
        for item, rows in _by_item(events).items()
        for x in rows
        for y in rows
        if x["type"] == y["type"] == shelf and x["shelf_id"] != y["shelf_id"] and 0 < y["us"] - x["us"] < MISPLACED_WINDOW
        if not any(
            (z["type"] == counter or (z["type"] == shelf and z["shelf_id"] == x["shelf_id"]))
            and y["us"] < z["us"] < x["us"] + MISPLACED_WINDOW
            for z in rows
        )
    )


def _rows(truth: pa.Table) -> list[tuple[Any, int, int]]:
    first, second = (truth.column(index).cast(pa.int64()).to_pylist() for index in (1, 2))
    return sorted(zip(truth["id"].to_pylist(), first, second, strict=True))


@pytest.mark.parametrize(
    "options", [RetailOptions(events=3_000), RetailOptions(events=20_000, seed=7, shelves=2, string_ids=False)]
)
def test_retail_truth_is_exact(options: RetailOptions) -> None:
    day = retail.day(options)
    assert _rows(day.shoplifting) == _shoplifting(day.events)
    assert _rows(day.misplaced) == _misplaced(day.events)
    assert day.shoplifting.num_rows == 24 // 6 * 9
    assert day.misplaced.num_rows == 18 // 6 * 8


@pytest.mark.parametrize(("name", "variables"), demo.QUERIES.items())
def test_retail_truth_agrees_with_the_oracle(name: str, variables: tuple[str, str]) -> None:
    """Each story at least once, under the queries as the demo runs them."""
    day = retail.day(RetailOptions(events=120, shoplifting=6, misplaced=6, near_misses=5))
    types = {kind: frozenset(attributes) for kind, attributes in retail.ATTRIBUTES.items()}
    bound = bind(parse(demo.query_text(name)), schema_of_arrow(day.events.schema, time="ts", type="type", types=types))
    rows = day.events.to_pylist()
    us = day.events["ts"].cast(pa.int64()).to_pylist()
    found = [dict(match.bindings) for match in oracle.matches(bound, rows)]
    first, last = variables
    assert sorted((rows[m[first]]["id"], us[m[first]], us[m[last]]) for m in found) == _rows(getattr(day, name))


def test_retail_checker_sees_a_missing_reading() -> None:
    day = retail.day(RetailOptions(events=3_000))
    exits = pc.equal(day.events["type"].cast(pa.string()), "EXIT-READING")
    assert _rows(day.shoplifting) != _shoplifting(day.events.filter(pc.invert(exits)))


def test_retail_without_incidents_has_no_matches() -> None:
    day = retail.day(RetailOptions(events=3_000, shoplifting=0, misplaced=0))
    assert day.shoplifting.num_rows == day.misplaced.num_rows == 0
    assert _shoplifting(day.events) == _misplaced(day.events) == []


def test_retail_columns() -> None:
    options = RetailOptions(events=2_000)
    events = retail.table(options)
    assert events.schema == retail.schema(options)
    at_shelf = pc.equal(events["type"].cast(pa.string()), "SHELF-READING")
    assert pc.is_valid(events["shelf_id"]).equals(at_shelf)
    assert events["seq"].to_pylist() == list(range(2_000))
    assert set(retail.ATTRIBUTES) == set(EVENT_TYPES)
    assert set(retail.ATTRIBUTES["SHELF-READING"]) == set(events.schema.names)
    assert retail.ATTRIBUTES["COUNTER-READING"] == tuple(
        name for name in retail.ATTRIBUTES["SHELF-READING"] if name != "shelf_id"
    )


def test_stories_are_in_time_order() -> None:
    for story in STORIES:
        earliest: list[int] = []
        latest: list[int] = []
        for reading in story.readings:
            earliest.append(reading.low + (earliest[reading.since] if earliest else 0))
            latest.append(reading.high + (latest[reading.since] if latest else 0))
            assert reading.since < len(earliest) or reading.since == 0
        assert earliest == sorted(set(earliest)), story.name
        assert latest == sorted(set(latest)), story.name
