"""Queries that are matched one by one find what each finds alone, though their events are scanned once."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import KleeneError
from kleene.engine.shared.rows_once import RowsOnce
from support import scan_pairs


def alone(queries: dict[str, str], events: pa.Table, **options: Any) -> dict[str, Any]:
    made = {name: kleene.query(text, name=name) for name, text in queries.items()}
    return {name: item.run(events, time="ts", type="type", **options) for name, item in made.items()}


def rows_of(run: Any) -> list[str]:
    return sorted(map(str, run.matches.to_pylist()))


def queries_of(kinds: dict[str, str], rng: Random) -> dict[str, str]:
    found = {}
    for number in range(rng.randrange(4, 9)):
        text = scan_pairs.pattern(kinds, rng, 3)
        shape = rng.random()
        if shape < 0.3:
            text = text.replace(" WITHIN 5", " AGG COUNT WITHIN 5")
        found[f"q{number}"] = text
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_workload_finds_what_its_queries_find_alone(seed: int) -> None:
    compared = 0
    for number in range(12):
        rng = Random(f"{seed}:{number}")
        batch, kinds = scan_pairs.events(rng, rng.choice([0, 5, 40]))
        events = pa.Table.from_batches([batch.slice(0, 20), batch.slice(20)])
        queries = queries_of(kinds, rng)
        options: dict[str, Any] = {"plan": {"mechanism": "nfa"}} if number % 2 and "AGG" not in str(queries) else {}
        try:
            wanted = alone(queries, events, **options)
        except KleeneError:
            continue
        found = kleene.workload(queries).run(events, time="ts", type="type", **options)
        compared += 1
        for name, run in wanted.items():
            assert rows_of(found[name]) == rows_of(run), (name, queries)
            assert found[name].metrics.bad == run.metrics.bad
    assert compared > 4


TEXTS = {f"q{number}": f"PATTERN SEQ(A a, B b) WHERE a.x > {number} WITHIN 5" for number in range(4)}


def test_rows_are_found_once_and_queries_without_any_get_none() -> None:
    batch = pa.record_batch({"ts": [1, 2, 3], "type": ["A", "B", "A"], "x": [1, 0, 2]})
    texts = {**TEXTS, "none": "PATTERN SEQ(C c) WHERE c.x > 0"}
    once = RowsOnce([kleene.query(text).explain(batch.schema, time="ts", type="type").plan for text in texts.values()])
    found = [once.of(plan, batch) for plan in range(len(texts))]
    assert [rows.tolist() for rows, _ in filter(None, found)] == [[0, 1, 2], [1, 2], [1], [1], []]
    assert found[0] is not None
    assert found[0][1].tolist() == [1, 2, 1]


def test_bad_rows_and_errors_are_left_to_each_query() -> None:
    bad = pa.record_batch({"ts": [1, None], "type": ["A", "B"], "x": [1, 0]})
    large = pa.record_batch({"ts": [1, 2], "type": ["A", "B"], "x": [2**63 - 1, 0]})
    texts = [*TEXTS.values(), "PATTERN SEQ(A a) WHERE a.x + 1 > 0"]
    once = RowsOnce([kleene.query(text).explain(bad.schema, time="ts", type="type").plan for text in texts])
    assert once.of(0, bad) is None
    assert once.of(0, large) is None


def next_queries(count: int) -> dict[str, str]:
    """Queries that are matched one by one."""
    return {f"q{at}": f"PATTERN B b WHERE b.x = {at} WITHIN 5 OUTPUT NON-OVERLAP" for at in range(count)}


def test_batches_may_have_the_memory_of_their_times_in_common() -> None:
    count = 20_000
    times, numbers = pa.array([5] * count), pa.array(range(count))
    parts = [pa.record_batch({"ts": times, "type": pa.array([name] * count), "x": numbers}) for name in "AB"]
    found = kleene.workload(next_queries(5)).match(pa.Table.from_batches(parts), time="ts", type="type")
    assert [item.num_rows for item in found.values()] == [1] * 5


def test_times_may_have_no_type() -> None:
    events = pa.table({"ts": pa.nulls(4), "type": ["A", "B", "C", "D"], "x": [1, 2, 3, 4]})
    found = kleene.workload(next_queries(5)).match(events, time="ts", type="type", bad_rows="drop")
    assert [item.num_rows for item in found.values()] == [0] * 5
