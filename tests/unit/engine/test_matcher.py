"""The contract of matchers, which all of them keep, of one query or of several."""

from __future__ import annotations

import pyarrow as pa
import pytest

import kleene
from kleene.engine.matcher import Found
from kleene.interfaces.composition.shared import planned_query
from kleene.interfaces.options import options_of
from kleene.plan.multi.search import MultiOptions
from kleene.runtime.units import QuerySet, Unit

EVENTS = pa.table({"ts": [1, 2, 3, 4, 5, 6], "type": [*"ABABAB"], "x": [1, 4, 2, 5, 3, 6]})
OPTIONS = options_of({"time": "ts", "type": "type"})

TOGETHER = {
    "stacks": ["PATTERN SEQ(A a, B b) WITHIN 3"],
    "automaton": ["PATTERN SEQ(A+ a[], B b) WITHIN 3"],
    "counters": ["PATTERN SEQ(A a, B b) AGG COUNT WITHIN 3"],
    "aggregated matches": ["PATTERN SEQ(A a, B b) WHERE a.x < b.x AGG COUNT WITHIN 3"],
    "shared counters": ["PATTERN SEQ(A a, B b) AGG COUNT WITHIN 3", "PATTERN SEQ(B b, A a) AGG SUM(a.x) WITHIN 3"],
    "shared plan": ["PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 3", "PATTERN SEQ(B b, A a) WHERE a.x < b.x WITHIN 3"],
}


def unit_of(texts: list[str]) -> Unit:
    items = [kleene.query(text, name=f"q{number}") for number, text in enumerate(texts)]
    multi = MultiOptions(search="none")
    planned = tuple(planned_query(item, EVENTS.schema, OPTIONS, multi) for item in items)
    (unit,) = QuerySet(planned, multi).units()
    return unit


@pytest.mark.parametrize("texts", TOGETHER.values(), ids=list(TOGETHER))
def test_rows_come_with_the_place_of_their_query(texts: list[str]) -> None:
    unit = unit_of(texts)
    matcher = unit.matcher(EVENTS.schema)
    found: list[Found] = []
    for batch in EVENTS.to_batches(max_chunksize=2):
        found += [*matcher.feed(batch), *matcher.advance(batch.column("ts")[-1].as_py())]
    found += matcher.finish()
    for place, item in enumerate(unit.queries):
        alone = kleene.query(texts[place], name=item.name).match(EVENTS, time="ts", type="type")
        rows = pa.Table.from_batches([rows for query, rows in found if query == place], matcher.output_schemas[place])
        order = [(name, "ascending") for name in ("match_id", "at") if name in rows.schema.names]
        assert rows.sort_by(order) == alone.sort_by(order)
        assert alone.num_rows
        assert item.schema(EVENTS.schema) == rows.schema
        assert matcher.metrics_of(place).events == EVENTS.num_rows
        assert not matcher.bad_rows_of(place).batches


@pytest.mark.parametrize("texts", TOGETHER.values(), ids=list(TOGETHER))
def test_a_matcher_resumes_where_one_like_it_was(texts: list[str]) -> None:
    unit = unit_of(texts)
    whole, first, second = (unit.matcher(EVENTS.schema) for _ in range(3))
    for matcher in (whole, first):
        list(matcher.feed(EVENTS.slice(0, 4).to_batches()[0]))
        list(matcher.advance(5))
    horizon = first.horizon
    kept = [row for row in EVENTS.slice(0, 4).to_pylist() if horizon is None or row["ts"] > horizon]
    second.restore(pa.Table.from_pylist(kept, EVENTS.schema).combine_chunks().to_batches(), 5, horizon, first.snapshot())
    assert (second.horizon, second.kept, second.due(5)) == (whole.horizon, whole.kept, whole.due(5))
    rest = EVENTS.slice(4).combine_chunks().to_batches()[0]
    assert [*second.feed(rest), *second.finish()] == [*whole.feed(rest), *whole.finish()]
