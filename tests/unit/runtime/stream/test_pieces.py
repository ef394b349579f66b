"""AGG without a window in a stream: what a micro-batch writes and looks at goes with what comes, whatever is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import LimitError, StateError
from kleene.common.schema import schema_of_arrow
from kleene.engine.counting.carried import Carried
from kleene.engine.counting.kernels import prefixes
from kleene.interfaces.options import options_of
from kleene.runtime.stream import pieces as stream_pieces
from kleene.runtime.stream.bucket import MATCHES, PROBLEM, Bucket, BucketPlan
from kleene.runtime.stream.pieces import Piece, Pieces
from kleene.runtime.stream.state import Header
from kleene.runtime.units import PlannedQuery, QuerySet
from support.stream_runs import MemoryStore, bucket_plan

ROLES = {"time": "ts", "type": "type"}


@dataclass
class CountedStore(MemoryStore):
    """Counts the bytes that are written."""

    written: list[int] = field(default_factory=lambda: [0])

    def put_header(self, blob: bytes) -> None:
        self.written[-1] += len(blob)
        super().put_header(blob)

    def put_segment(self, number: int, blob: bytes) -> None:
        self.written[-1] += len(blob)
        super().put_segment(number, blob)


def plan_of(texts: dict[str, str], events: pa.Schema, **further: Any) -> BucketPlan:
    queries = []
    for name, text in texts.items():
        made = kleene.query(text, name=name).plan_for(events, options_of(ROLES))
        queries.append(PlannedQuery(name, made, key=f"{name}: {text}"))
    return bucket_plan(QuerySet(tuple(queries)), events, schema_of_arrow(events, **ROLES), **further)


def happened(count: int, keys: int, seed: int = 3) -> pa.Table:
    """Events of some keys of every sort, in order of time, some at the same."""
    rng = np.random.default_rng(seed)
    key = rng.integers(0, keys, count)
    return pa.table(
        {
            "ts": np.sort(rng.integers(0, count, count)),
            "type": np.array(["A", "B", "C"])[rng.integers(0, 3, count)],
            "k": key,
            "name": pa.array([f"käse {number}" * (number % 5) for number in key.tolist()]),
            "code": pa.array([f"{number}" for number in key.tolist()]).dictionary_encode(),
            "f": np.array([0.0, -0.0, np.nan, 1.5])[key % 4],
            "day": pa.array(key % 3, pa.timestamp("s")),
            "x": rng.integers(-9, 9, count),
            "y": rng.integers(-9, 9, count) / 4,
        }
    )


def batches(events: pa.Table, size: int) -> list[tuple[pa.Table, int]]:
    """Micro-batches with the watermarks that they come with: that of the events before."""
    cuts = [*range(0, events.num_rows, size), events.num_rows]
    ts = events.column("ts").to_numpy()
    return [(events.slice(begin, end - begin), int(ts[begin])) for begin, end in pairwise(cuts)]


QUERIES = {
    "groups": "PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT, SUM(a.x) AS s, MAX(b.y) AS m",
    "texts": "PATTERN SEQ(A a, !(C c), B b) GROUP BY name AGG COUNT, AVG(b.y) AS m",
    "several keys": "PATTERN SEQ(A a, B b) GROUP BY name, day, code AGG COUNT",
    "floats": "PATTERN SEQ(A a, B b) GROUP BY f AGG COUNT",
    "added up": "PATTERN SEQ(A a, !(C c), B b) WHERE [k] AGG COUNT, MIN(a.x) AS m, SUM(b.y) AS s",
    "added up by group": "PATTERN SEQ(A a, B b) WHERE [k] GROUP BY day AGG COUNT, SUM(b.x) AS s",
    "one": "PATTERN SEQ(A a, B b) AGG COUNT EMIT ON CHANGE",
}


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_restarts_and_replays_at_every_micro_batch_change_nothing(text: str) -> None:
    """Pieces are so short that they are merged, split and given up all the time."""
    events = happened(600, 40)
    wanted = kleene.query(text, name="q").match(events, plan={"mechanism": "matches"}, **ROLES)
    plan, store, rows, most = plan_of({"q": text}, events.schema), MemoryStore(), [], 0
    with patch.multiple(stream_pieces, FEW_ROWS=0, MOST_ROWS=7):
        for batch, watermark in [*batches(events, 23), (events.slice(0, 0), 10_000)]:
            lost = store.copy()
            list(Bucket(plan, lost).process(lost, [batch], watermark))
            bucket = Bucket(plan, store)
            left = list(bucket.process(store, [batch] if batch.num_rows else [], watermark))
            rows += [item.rows for item in left if item.kind == MATCHES]
            pieces = Pieces.of(bucket.header.units[0].state).pieces
            most = max(most, len(pieces))
            assert {item.number for item in (*pieces, *bucket.header.segments)} == store.segments.keys()
    assert most > 1 or text == QUERIES["one"]
    found = pa.Table.from_batches(rows)
    shown, expected = (sorted(str(row).replace("-0.0", "0.0") for row in table.to_pylist()) for table in (found, wanted))
    assert shown == expected
    assert wanted.num_rows > 100


def micro_batches(keys: int, text: str) -> tuple[list[int], list[int], Bucket, CountedStore]:
    """After many keys have come: by micro-batch of 50 events what is written, and how many partitions a pass goes over."""
    events = happened(4 * keys + 2_500, keys)
    many, few = events.slice(0, 4 * keys), events.slice(4 * keys)
    store, plan = CountedStore(), plan_of({"q": text}, events.schema)
    bucket, partitions, kernel = Bucket(plan, store), [], prefixes.count_all

    def measured(given: Any, *further: Any) -> None:
        partitions.append(given.offsets.size - 1)
        kernel(given, *further)

    list(bucket.process(store, [many], 0))
    store.written.clear()
    with patch.object(prefixes, "count_all", measured):
        for batch, watermark in batches(few, 50):
            store.written.append(0)
            list(bucket.process(store, [batch], watermark))
    return store.written[2:], partitions[1:], bucket, store


@pytest.mark.parametrize("name", ["k", "name"])
def test_a_micro_batch_costs_what_changes_in_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_pieces, "FEW_ROWS", 100)
    monkeypatch.setattr(stream_pieces, "MOST_ROWS", 200)
    monkeypatch.setattr("kleene.runtime.stream.log.FEW_MERGED", 100)
    text = f"PATTERN SEQ(A a, B b) GROUP BY {name} AGG COUNT"
    written, partitions, bucket, store = micro_batches(300, text)
    more_written, more_partitions, bucket_of_more, store_of_more = micro_batches(6_000, text)
    assert bucket_of_more.rows - bucket_of_more.waiting > 10 * (bucket.rows - bucket.waiting)
    assert max(more_written) < 3 * max(written)
    assert sum(more_written) < 3 * sum(written)
    assert max(more_partitions) <= 4 * 50 + 1_024 > max(partitions)  # codes of numbers may have gaps
    for one, kept in ((bucket, store), (bucket_of_more, store_of_more)):
        (unit,) = one.header.units
        known = one.rows - sum(item.rows for item in one.header.segments)
        assert sum(item.rows for item in Pieces.of(unit.state).pieces) <= 3 * known + 500
        assert one.size == sum(map(len, kept.segments.values()))


def test_only_what_changed_is_told() -> None:
    carried, keys = Carried(), pa.array(["a", "b", "c"])
    cells = np.arange(6).reshape(3, 2)
    carried.keep([keys], np.arange(3), np.full(3, -1), cells, np.zeros((3, 0)))
    first = carried.changes()
    assert first is not None
    assert first.to_pydict() == {"row": [0, 1, 2], "key 000": ["a", "b", "c"], "cells": [[0, 1], [2, 3], [4, 5]]}
    assert carried.changes() is None
    assert carried.find([pa.array(["c", "x", "a"])], np.arange(3)).tolist() == [2, -1, 0]
    carried.keep([], np.zeros(1, np.int64), np.array([1]), np.array([[7, 7]]), np.zeros((1, 0)))
    second = carried.changes()
    assert second is not None
    assert second.to_pydict() == {"row": [1], "key 000": ["b"], "cells": [[7, 7]]}


def test_counters_as_they_were_once_written_are_read_and_written_as_pieces() -> None:
    """In the header, in one piece; also where no micro-batch comes to a pass."""
    events = happened(200, 10)
    text = QUERIES["groups"]
    plan, store = plan_of({"q": text}, events.schema), MemoryStore()
    bucket = Bucket(plan, store)
    list(bucket.process(store, [events], None))
    list(bucket.process(store, [], 100))
    (unit,) = bucket.header.units
    joined = Pieces.of(unit.state).joined(store)
    rows = len(joined["row"])
    old = {"partitions": pa.array([rows]), "key 000": joined["key 000"]}
    old |= {"cells": joined["cells"].flatten(), "floats": pa.array([], pa.float64())}
    header = Header.decode(store.header() or b"")
    unit = header.units[0].__class__(unit.keys, unit.born, unit.horizon, old, unit.kind)
    for number in Pieces.of(header.units[0].state).numbers:
        store.drop_segment(number)
    store.put_header(Header(**{name: getattr(header, name) for name in Header.__slots__} | {"units": (unit,)}).encode())
    list(Bucket(plan, store).process(store, [], 100))
    assert store.segments.keys() > {item.number for item in header.segments}
    found = [item.rows for item in Bucket(plan, store).process(store, [], 10_000)]
    wanted = kleene.query(text, name="q").match(events, **ROLES)
    assert sum(item.num_rows for item in found) == int((wanted.column("at").to_numpy() >= 100).sum())
    assert found[-1].column("count")[-1] == wanted.column("count")[-1]


def test_a_piece_that_is_damaged_or_exchanged_is_refused() -> None:
    events = happened(300, 40)
    plan, store = plan_of({"q": QUERIES["groups"]}, events.schema), MemoryStore()
    with patch.multiple(stream_pieces, FEW_ROWS=0, MOST_ROWS=7):
        list(Bucket(plan, store).process(store, [events], 0))
        list(Bucket(plan, store).process(store, [], 10_000))
    first, second, *_ = sorted(store.segments)
    for number, blob in ((first, store.segments[second]), (second, store.segments[second][:-9] + b"123456789")):
        other = store.copy()
        other.put_segment(number, blob)
        with pytest.raises(StateError, match="is not as it was written"):
            Bucket(plan, other)


def test_counters_count_towards_max_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query with most of them is suspended, alone; where none is, the stream stops as it was."""
    events = happened(2_000, 400)
    texts = {
        "many": "PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT",
        "few": "PATTERN SEQ(A a, B b) GROUP BY day AGG COUNT",
        "window": "PATTERN SEQ(A a, B b) GROUP BY k AGG COUNT WITHIN 5",
    }
    wanted = kleene.workload({name: text for name, text in texts.items() if name != "many"}).match(events, **ROLES)
    monkeypatch.setattr("kleene.runtime.stream.log.FEW_MERGED", 8)
    plan, store, left = plan_of(texts, events.schema, max_events=200, suspends=True), MemoryStore(), []
    for batch, watermark in [*batches(events, 50), (events.slice(0, 0), 10_000)]:
        left += list(Bucket(plan, store).process(store, [batch] if batch.num_rows else [], watermark))
    (problem,) = [item for item in left if item.kind == PROBLEM]
    assert "'many' is suspended: it has no window, and the bucket would keep" in problem.rows.column("problem")[0].as_py()
    assert "events and counters\n" in problem.rows.column("problem")[0].as_py()
    for name, rows in wanted.items():
        assert sum(item.rows.num_rows for item in left if (item.kind, item.query) == (MATCHES, name)) == rows.num_rows
    pieces = [item for unit in Header.decode(store.header() or b"").units for item in Pieces.of(unit.state).pieces]
    assert 0 < sum(item.rows for item in pieces) < 20
    assert {item.number for item in pieces} == {number for number in store.segments if number < 0}

    strict, store = plan_of(texts, events.schema, max_events=200), MemoryStore()

    def stopped() -> None:
        for batch, watermark in batches(events, 50):
            list(Bucket(strict, store).process(store, [batch], watermark))

    with pytest.raises(LimitError, match=r"(?s)would keep 2\d\d events and counters, of which .*max_events of more than 200"):
        stopped()


def test_what_holds_of_a_piece_that_is_given_up_is_written_again() -> None:
    """However rows change: old ones that never do, one again and again, new ones."""
    rng, store, known = np.random.default_rng(4), MemoryStore(), {}
    pieces = Pieces()
    with patch.multiple(stream_pieces, FEW_ROWS=3, MOST_ROWS=5):
        for step in range(300):
            rows = np.unique([0, *rng.integers(len(known) // 2, len(known) + 1, rng.integers(1, 4))])
            rows = rows[rows <= len(known)]
            known |= dict.fromkeys(rows.tolist(), step)
            changes = pa.record_batch({"row": rows, "value": np.full(rows.size, step)})
            pieces.write(store, changes, min(store.segments, default=0) - 1)
            assert sum(item.rows for item in pieces.pieces) <= 2 * len(known) + 3 + 10
            if step % 7 == 0:
                pieces = Pieces.of(pieces.state())
            joined = pieces.joined(store)
            assert dict(zip(joined["row"].to_pylist(), joined["value"].to_pylist(), strict=True)) == known
    assert len(known) > 40
    assert {item.number for item in pieces.pieces} == store.segments.keys()
    assert isinstance(pieces.pieces[0], Piece)
