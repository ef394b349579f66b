"""The embedded runtime on streams: memory bounded by the window, early results, and no trace of how the stream was cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.columns import KEPT_NUMBERS, row_numbers
from kleene.engine.matches.output import MatchWriter
from kleene.interfaces.options import options_of
from kleene.plan.options import PRESETS
from kleene.runtime.embedded import (
    JOINED_BYTES,
    SMALL,
    batches_of,
    in_stream_order,
    joined_batches,
    joined_chunks,
    match_batches,
    rows_of,
)

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
WINDOW = 50

QUERIES = {
    "keyed": f"PATTERN SEQ(A a, B b) WHERE [k] WITHIN {WINDOW}",
    "without a key": f"PATTERN SEQ(A a, B b, C c) WHERE a.k < c.k WITHIN {WINDOW // 5}",
    "negated start": f"PATTERN SEQ(!(D d), A a, B b) WHERE [k] WITHIN {WINDOW}",
    "negated end": f"PATTERN SEQ(A a, B b, !(D d)) WHERE [k] WITHIN {WINDOW}",
    "both": f"PATTERN SEQ(!(C c), A a, B b, !(D d)) WHERE [k] WITHIN {WINDOW}",
    "one": "PATTERN A a WHERE a.k > 1",
}


def stream(count: int, seed: int = 1, gap: int = 2) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.cumsum(rng.integers(0, gap + 1, count)),
            "type": pa.array(np.array(list("ABCDX"))[rng.integers(0, 5, count)]),
            "k": rng.integers(0, 4, count),
            "payload": pa.array([f"payload {number}" for number in range(count)]),
        }
    )


def matcher_for(query: str, events: pa.Table, plan: Any = None, **tuning: Any) -> Any:
    return kleene.query(query).matcher(events.schema, options_of({**ROLES, "plan": plan}), **tuning)


def ids(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> list[str]:
    return sorted(value for batch in batches for value in batch.column("match_id").to_pylist())


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("plan", PRESETS)
def test_the_working_set_stays_bounded(name: str, plan: str) -> None:
    """However long the stream: what is kept is at most two windows, plus what has come since."""
    events = stream(6_000)
    matcher = matcher_for(QUERIES[name], events, plan, run_rows=0)
    batch_rows = 40
    largest = 0
    for batch in events.to_batches(max_chunksize=batch_rows):
        for _ in matcher.feed(batch):
            pass
        largest = max(largest, len(matcher._working))
    per_window = WINDOW + batch_rows  # at one event a time unit on average
    assert largest < 6 * per_window, largest


def test_memory_does_not_grow_with_the_stream() -> None:
    def largest(count: int) -> int:
        events = stream(count)
        matcher = matcher_for(QUERIES["both"], events, run_rows=0)
        sizes = []
        for batch in events.to_batches(max_chunksize=50):
            for _ in matcher.feed(batch):
                pass
            sizes.append(len(matcher._working))
        return max(sizes)

    assert largest(20_000) < 1.5 * largest(4_000)


def test_waiting_rows_let_go_of_their_batches() -> None:
    """Rows that wait for a run do not keep whole input batches, with their irrelevant rows and unread columns, alive."""
    events = pa.table({"ts": range(10_000), "type": ["A"] + ["X"] * 9_999, "k": [1] * 10_000, "payload": ["x" * 100] * 10_000})
    matcher = matcher_for("PATTERN SEQ(A a, B b) WHERE [k] RETURN a.k AS k", events)
    assert list(matcher.feed(events.combine_chunks().to_batches()[0])) == []
    kept = matcher._working._batches
    assert [batch.num_rows for batch in kept] == [1]
    assert "payload" not in kept[0].schema.names


@pytest.mark.parametrize("name", QUERIES)
def test_results_do_not_depend_on_the_batch_size(name: str) -> None:
    events = stream(700)
    whole = ids(rows_of(match_batches(matcher_for(QUERIES[name], events), iter(events.to_batches()))))
    assert whole
    assert len(set(whole)) == len(whole)
    for rows in (1, 7, 64, 699):
        for run_rows in (0, 50, 1 << 18):
            matcher = matcher_for(QUERIES[name], events, run_rows=run_rows)
            assert ids(rows_of(match_batches(matcher, iter(events.to_batches(max_chunksize=rows))))) == whole, (rows, run_rows)
            assert matcher.metrics.matches == len(whole)
            assert matcher.metrics.events == 700


@pytest.mark.parametrize("block", [pytest.param(1, marks=pytest.mark.slow), 2, 7, 100])
def test_results_do_not_depend_on_the_block_size(block: int) -> None:
    events = stream(300)
    for query in QUERIES.values():
        whole = ids(rows_of(match_batches(matcher_for(query, events), iter(events.to_batches()))))
        for plan in PRESETS:
            matcher = matcher_for(query, events, plan, block=block)
            found = list(rows_of(match_batches(matcher, iter(events.to_batches()))))
            assert ids(found) == whole
            assert all(batch.num_rows <= block for batch in found)


def test_a_reader_and_a_table_give_the_same() -> None:
    events = stream(500)
    for query in QUERIES.values():
        parsed = kleene.query(query)
        shuffled = events.take(pa.array(random.Random(1).sample(range(500), 500)))
        wanted = ids(parsed.match(events, **ROLES).to_batches())
        assert ids(parsed.match(events.to_reader(max_chunksize=13), **ROLES).to_batches()) == wanted
        assert ids(parsed.match(shuffled, **ROLES).to_batches()) == wanted


TIES: dict[str, Any] = {**ROLES, "ties": "arrival"}

SOME_COLUMNS = {
    "sequence": QUERIES["keyed"],
    "lazy": f"PATTERN AND(A a, B b) WHERE [k] WITHIN {WINDOW}",
    "automaton": f"PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) {{ [k] }} WITHIN {WINDOW}",
    "a choice": f"PATTERN SEQ(A a, B b) WHERE [k] WITHIN {WINDOW} OUTPUT NON-OVERLAP",
    "returned": f"PATTERN SEQ(A a, B b) WHERE [k] WITHIN {WINDOW} RETURN a.payload AS first, b.ts - a.ts AS took",
    "counters": f"PATTERN SEQ(A a, B b) AGG COUNT AS n WITHIN {WINDOW}",
    "aggregates of matches": f"PATTERN SEQ(A a, B b) WHERE a.k < b.k AGG COUNT AS n WITHIN {WINDOW}",
}


@pytest.mark.parametrize("query", SOME_COLUMNS.values(), ids=SOME_COLUMNS)
def test_matches_with_some_columns(query: str) -> None:
    events, parsed = stream(400), kleene.query(query)
    whole = parsed.match(events, **TIES)
    assert whole.num_rows > 0
    some = whole.column_names[:0:-1]
    assert parsed.match(events, **TIES, columns=some).equals(whole.select(some))
    assert parsed.match(events, **TIES, columns=some[0]).equals(whole.select(some[:1]))


@pytest.mark.parametrize("query", [SOME_COLUMNS["sequence"], SOME_COLUMNS["automaton"]])
def test_columns_that_are_not_wanted_are_not_computed(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the id either, which takes more time than finding a match."""

    def refused(*_: Any) -> NoReturn:
        raise AssertionError("an id was computed")

    monkeypatch.setattr(MatchWriter, "_match_ids", refused)
    events, parsed = stream(400), kleene.query(query)
    assert parsed.match(events, **TIES, columns=["b", "match_end"]).num_rows > 0
    with pytest.raises(AssertionError, match="an id was computed"):
        parsed.match(events, **TIES)


def test_a_workload_has_all_columns() -> None:
    both = kleene.workload({"keyed": QUERIES["keyed"], "one": QUERIES["one"]})
    with pytest.raises(kleene.BindingError, match="matches of one query"):
        both.match(stream(10), **ROLES, columns="a")


def test_matches_come_early() -> None:
    """A match is out as soon as its last event is in; with a negated end, as soon as its window has passed."""
    events = pa.table({"ts": [1, 2, 3, 40, 60, 61, 62], "type": ["A", "B", "X", "X", "A", "A", "A"], "k": [1] * 7})

    def when(query: str) -> list[int]:
        matcher = matcher_for(query, events, run_rows=0)
        at = [
            number
            for number, batch in enumerate(events.to_batches(max_chunksize=1))
            for _, found in matcher.feed(batch)
            for _ in range(found.num_rows)
        ]
        return at + [-1] * sum(found.num_rows for _, found in matcher.finish())

    assert when("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 10") == [1]
    # The window passes at time 11. A run waits for as many relevant events as are kept: those of 60 and 61.
    assert when("PATTERN SEQ(A a, B b, !(C c)) WHERE [k] WITHIN 10") == [5]
    assert when("PATTERN SEQ(A a, !(C c)) WHERE [k] WITHIN 100") == [-1] * 4


def test_a_long_stream_yields_before_it_ends() -> None:
    events = stream(20_000)
    matcher = matcher_for(QUERIES["keyed"], events, run_rows=500)
    early = sum(found.num_rows for batch in events.to_batches(max_chunksize=100) for _, found in matcher.feed(batch))
    late = sum(found.num_rows for _, found in matcher.finish())
    assert early > 10 * late


def test_matching_is_lazy_in_its_input() -> None:
    """Batches are asked for one by one: an endless stream gives matches."""

    def endless() -> Iterator[pa.RecordBatch]:
        at = 0
        while True:
            yield pa.RecordBatch.from_pydict({"ts": [at, at + 1], "type": ["A", "B"], "k": [1, 1]})
            at += 100

    events = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64())]).empty_table()
    matches = rows_of(match_batches(matcher_for(QUERIES["keyed"], events, run_rows=0), endless()))
    assert [next(matches).column("match_start").to_pylist() for _ in range(3)] == [[0], [100], [200]]


def test_batches_of_cuts_long_batches() -> None:
    events = stream(100).combine_chunks()
    assert [batch.num_rows for batch in batches_of(events, 30)] == [30, 30, 30, 10]
    assert [batch.num_rows for batch in batches_of(events.to_reader(), 30)] == [30, 30, 30, 10]


def test_a_sorted_table_is_not_copied() -> None:
    events = stream(50)
    schema = kleene.query("PATTERN A a").plan_for(events.schema, options_of(ROLES)).bound.schema
    assert in_stream_order(events, schema) is events
    backwards = events.take(pa.array(range(49, -1, -1)))
    assert in_stream_order(backwards, schema).column("ts").to_pylist() == events.column("ts").to_pylist()


def test_null_is_first_and_nan_last_as_on_spark() -> None:
    """Under every version of Arrow: an option for NULL is new, and was another one before."""
    nan = float("nan")
    values = [nan, 2.0, None, -1.0, None, nan, float("inf")]
    events = pa.table({"ts": [1] * 7, "type": ["A"] * 7, "x": values, "n": [3, None, 2, 1, None, 0, 1]})
    schema = kleene.query("PATTERN A a").plan_for(events.schema, options_of({**ROLES, "order_by": ["x", "n"]})).bound.schema
    ordered = in_stream_order(events, schema)
    found = list(zip(map(str, ordered.column("x").to_pylist()), ordered.column("n").to_pylist(), strict=True))
    assert found == [("None", None), ("None", 2), ("-1.0", 1), ("2.0", None), ("inf", 1), ("nan", 0), ("nan", 3)]


def test_finish_on_nothing() -> None:
    events = stream(10)
    matcher = matcher_for(QUERIES["both"], events)
    assert list(matcher.finish()) == []


def test_ids_tell_repeated_simultaneous_events_apart_and_stay_put() -> None:
    """Two rows alike in everything are two events with two ids, and others' ids do not change because of them."""
    alone = pa.table({"ts": [1, 5], "type": ["A", "B"], "k": [1, 1]})
    twice = pa.table({"ts": [1, 1, 5], "type": ["A", "A", "B"], "k": [1, 1, 1]})
    tied = pa.table({"ts": [1, 1, 5], "type": ["A", "D", "B"], "k": [1, 2, 1]})
    query = kleene.query(QUERIES["keyed"])
    (one,) = ids(query.match(alone, **ROLES).to_batches())
    both = ids(query.match(twice, **ROLES).to_batches())
    assert len(set(both)) == 2
    assert one in both
    for plan in PRESETS:
        assert ids(query.match(tied, **ROLES, plan=plan).to_batches()) == [one]
    for query_text in QUERIES.values():
        rows = stream(200, gap=1)
        repeated = pa.concat_tables([rows, rows]).sort_by("ts")
        whole = ids(kleene.query(query_text).match(repeated, **ROLES).to_batches())
        assert len(set(whole)) == len(whole)
        cut = matcher_for(query_text, repeated, run_rows=0)
        assert ids(rows_of(match_batches(cut, iter(repeated.to_batches(max_chunksize=3))))) == whole


def test_a_query_keeps_its_plan_for_tables_of_a_kind_only() -> None:
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10")
    one = pa.table({"ts": [1, 2, 3], "type": ["A", "B", "C"], "x": [1, 2, 3]})
    other = pa.table({"ts": [1, 2, 3], "type": ["A", "B", "C"], "x": ["b", "a", "c"]})
    roles = {"time": "ts", "type": "type"}
    kept = query.plan_for(one.schema, options_of(roles))
    assert query.plan_for(one.slice(1).schema, options_of(roles)) is kept
    assert query.match(one, **roles).num_rows == 1
    assert query.match(other, **roles).num_rows == 0
    params = {"most": 1}
    bound = kleene.query("PATTERN SEQ(A a, B b) WHERE b.x > most WITHIN 10")
    assert bound.match(one, **roles, params=params).num_rows == 1
    params["most"] = 2
    assert bound.match(one, **roles, params=params).num_rows == 0
    assert query.plan_for(one.schema, options_of({**roles, "ties": "arrival"})) is not kept


def test_numbers_of_rows_are_shared_and_right() -> None:
    long = row_numbers(1_000)
    assert long.tolist() == list(range(1_000))
    assert np.shares_memory(row_numbers(10), row_numbers(20))
    kleene.query(QUERIES["keyed"]).match(stream(900), **ROLES)
    kleene.query(SOME_COLUMNS["automaton"]).match(stream(900), **TIES)
    assert row_numbers(1_000).tolist() == list(range(1_000)), "somebody has written to them"
    assert row_numbers(KEPT_NUMBERS + 1)[-1] == KEPT_NUMBERS


def test_small_batches_are_joined_and_large_ones_stay_as_they_are() -> None:
    events = pa.table({"ts": range(3 * SMALL), "type": ["A", "B", "C"] * SMALL})
    small = pa.Table.from_batches(events.to_batches(max_chunksize=100))
    assert joined_chunks(small).column("ts").num_chunks == 1
    assert joined_chunks(events) is events
    sizes = [7, 0, 100, SMALL, 5, SMALL - 1, 1, 0]
    pieces = [events.slice(sum(sizes[:place]), size).combine_chunks().to_batches() for place, size in enumerate(sizes)]
    given = [batch for piece in pieces for batch in piece]
    joined = list(joined_batches(given))
    assert [batch.num_rows for batch in joined] == [107, SMALL, SMALL + 4, 1]
    assert joined[1] is next(batch for batch in given if batch.num_rows == SMALL)
    assert pa.Table.from_batches(joined) == events.slice(0, sum(sizes))
    wide = [pa.record_batch({"x": [bytes(JOINED_BYTES // 5)]})] * 6
    assert [batch.num_rows for batch in joined_batches(wide)] == [4, 2]


def test_chunks_of_a_table_and_columns_that_nothing_reads_change_no_match() -> None:
    rows = [(number, "AB"[number % 2], number % 3, str(number)) for number in (*range(60), 3, 3)]
    names = ("ts", "type", "k", *(f"c{number}" for number in range(9)), "last")
    events = pa.table({name: [row[min(place, 3)] for row in rows] for place, name in enumerate(names)})
    chunks = pa.concat_tables([events.slice(number, 1) for number in range(events.num_rows)])
    for text in (QUERIES["keyed"], "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9 RETURN b.last AS found"):
        query = kleene.query(text)
        whole = query.match(events, time="ts", type="type").sort_by("match_id")
        assert whole.num_rows
        assert query.match(chunks, time="ts", type="type").sort_by("match_id") == whole


@pytest.mark.parametrize("stream", [False, True])
def test_dictionaries_of_chunks_need_not_fit_into_one(stream: bool) -> None:
    chunks = [
        pa.record_batch(
            {
                "ts": pa.array(range(part * 100, part * 100 + 100)),
                "type": pa.array(["A"] * 100),
                "s": pa.DictionaryArray.from_arrays(
                    pa.array(range(100), pa.int8()), pa.array([f"{part}.{entry}" for entry in range(100)])
                ),
            }
        )
        for part in range(4)
    ]
    events = pa.Table.from_batches(chunks)
    given = pa.RecordBatchReader.from_batches(events.schema, chunks) if stream else events
    found = kleene.query("PATTERN A a WHERE a.s = '1.3' WITHIN 5 RETURN a.ts AS at").match(given, time="ts", type="type")
    assert found.column("at").to_pylist() == [103]
