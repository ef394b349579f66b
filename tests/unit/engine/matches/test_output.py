"""Rows and ids of matches: what the events say, and nothing else."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.engine.events.grouping import combined_codes, group_rows
from kleene.engine.events.placed import PlacedColumns
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matches.kernels.identity import absorb
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.output import EventHashes, MatchWriter, query_seed
from kleene.language.parser import parse
from kleene.pattern import predicates as p
from kleene.pattern.bind import bind
from kleene.pattern.bound import BoundQuery
from kleene.plan.contract import Transformation
from kleene.testing import evaluate as oracle
from kleene.testing.functions import plain
from support.match_worlds import ARROW, QUERIES, Bindings, World, cases, flat_rows, random_matches, same, world

# --- rows and ids -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    bound: BoundQuery
    columns: tuple[str, ...]
    transformation: Transformation


def written(at: World, matches: Matches, returns: Mapping[str, p.Expression] | None = None) -> pa.RecordBatch:
    plan = Plan(at.bound, tuple(ARROW.names), Transformation(tuple((returns or {}).items())))
    hashes = EventHashes(at.placed, at.groups.ts, plan.columns, tied=False)
    writer = MatchWriter(plan, ARROW)
    batch = writer.write(at.placed, hashes, matches)
    assert batch.schema == writer.schema
    batch.validate(full=True)
    return batch


def stored(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ARROW.names}


def test_rows_hold_the_events() -> None:
    for _, at, found in cases(30, 20):
        rows = written(at, at.matches(found)).to_pylist()
        variables = [event.variable for event in at.bound.components if not event.negated]
        for row, match in zip(rows, found, strict=True):
            assert list(row) == ["query", "match_id", "match_start", "match_end", *variables]
            assert (row["match_start"], row["match_end"]) == (min(flat_rows(match)), max(flat_rows(match)))
            for variable in variables:
                held = match.get(variable)
                events = [stored(at.events[at_row]) for at_row in ((held,) if isinstance(held, int) else held or ())]
                expected: Any = None if held is None else events[0] if isinstance(held, int) else events
                assert repr(row[variable]) == repr(expected)  # NaN is itself there


def test_returned_columns_keep_their_types_whichever_branch_matched() -> None:
    rng = Random(8)
    at = world(rng, QUERIES[1], declared=True)
    returns: dict[str, p.Expression] = {
        "own": p.Attribute("b", "k"),
        "all": p.Attribute("a", "k", p.Element.EACH),
        "total": p.Aggregate(p.AggregateFunction.SUM, "c", "k", p.Element.EACH),
        "took": p.Aggregate(p.AggregateFunction.AVG, "a", "d", p.Element.EACH),
        "label": p.Aggregate(p.AggregateFunction.MAX, "c", "s", p.Element.EACH),
        "when": p.Aggregate(p.AggregateFunction.MIN, "a", "t", p.Element.EACH),
        "size": p.Length("c"),
        "sum": p.Arithmetic("+", p.Length("a"), p.Attribute("d", "x")),
    }
    kinds = [pa.int16(), pa.list_(pa.int16()), pa.int64(), pa.duration("us"), pa.string(), pa.timestamp("us", "UTC")]
    for _ in range(6):
        found = random_matches(rng, at, 3)
        batch = written(at, at.matches(found), returns)
        assert batch.schema.types[4:] == [*kinds, pa.int64(), pa.int64()]
        for position, row in enumerate(batch.to_pylist()):
            for name, expression in returns.items():
                value = [plain(item) for item in row[name]] if isinstance(row[name], list) else plain(row[name])
                assert same(value, oracle.value(expression, at.frame(found[position])))


def mixed(value: int) -> int:
    for _ in range(2):
        value ^= value >> 32
        value = value * 0xD6E8FEB86659FD93 % 2**64
    return value ^ value >> 32


def expected_id(at: World, match: Bindings, hashes: np.ndarray[Any, Any]) -> int:
    """A match id from the hashes of its events, in plain integers."""
    value, factor = query_seed(at.bound.query), 0x9E3779B97F4A7C15
    for event in at.bound.components:
        if event.negated:
            continue
        held = match.get(event.variable)
        if isinstance(held, int):
            value += int(hashes[at.place_of[held]]) * factor
        elif held is not None:
            word, own = len(held), 0x9E3779B97F4A7C15
            for row in held:
                word += int(hashes[at.place_of[row]]) * own
                own = (own * 0xD6E8FEB86659FD93 | 1) % 2**64
            value += mixed(word % 2**64) * factor
        factor = (factor * 0xD6E8FEB86659FD93 | 1) % 2**64
    unsigned = mixed(value % 2**64)
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned


def test_ids_are_of_the_events_under_each_variable() -> None:
    for _, at, found in cases(40, 60):
        matches = at.matches(found)
        ids = written(at, matches).column("match_id").to_pylist()
        hashes, _ = EventHashes(at.placed, at.groups.ts, tuple(ARROW.names), tied=False).at(np.arange(len(at.placed)))
        assert ids == [expected_id(at, match, hashes) for match in found]
        assert len(set(ids)) == len({tuple(match.items()) for match in found})


def test_hashes_are_the_same_whether_they_are_kept_or_not() -> None:
    at = world(Random(5), "PATTERN SEQ(A a, B b) WITHIN 50")
    hashes, count = EventHashes(at.placed, at.groups.ts, tuple(ARROW.names), tied=False), len(at.placed)
    kept, where = EventHashes(at.placed, at.groups.ts, tuple(ARROW.names), tied=False).at(np.arange(count))
    assert kept[where].tolist() == kept.tolist()
    few = np.array([count - 1, 0])
    for places in (few, few[::-1], np.arange(count), few):
        found, where = hashes.at(places)
        assert (found.size < count) == (places.size == 2 and where is not places), "both ways are taken"
        assert found[where].tolist() == kept[places].tolist()


def twins(rank: list[int], values: list[int], keys: list[float] | None = None) -> tuple[PlacedColumns, np.ndarray[Any, Any]]:
    """Events of one partition, or of those of their keys, with the rank of each place."""
    count = len(rank)
    schema = schema_of_arrow(pa.schema([("ts", pa.int64()), ("v", pa.int64()), ("k", pa.float64())]), time="ts")
    working = WorkingSet(schema, ("ts", "v", "k"))
    events = pa.record_batch({"ts": rank, "v": values, "k": pa.array(keys or [0.0] * count)})
    working.add(events, np.arange(count), np.ones(count, np.int64))
    codes = combined_codes([events["k"]]) if keys else (None, 1)
    groups = group_rows(*codes, working.ts, working.masks)
    return PlacedColumns(working, groups), groups.ts


def plain_ordinals(placed: PlacedColumns, columns: tuple[str, ...]) -> list[int]:
    """By place how many identical simultaneous events stand before it."""
    rows = [repr([placed.column(name)[place] for name in columns]) for place in range(len(placed))]
    return [rows[:place].count(row) for place, row in enumerate(rows)]


def test_identical_simultaneous_events_are_told_apart_in_the_order_they_stand() -> None:
    rng, columns = Random(3), ("ts", "v", "k")
    for count in (1, 2, 9, 60, 300):
        for instants in (1, 3, count):
            rank = sorted(rng.randrange(instants) for _ in range(count))
            keys = [rng.choice([0.0, 1.0, math.nan]) for _ in range(count)] if rng.random() < 0.5 else None
            placed, by_place = twins(rank, [rng.randrange(4) for _ in range(count)], keys)
            apart = keys is not None
            plain_hashes, _ = EventHashes(placed, by_place, columns, tied=False).at(np.arange(count))
            expected = plain_hashes.copy()
            for place, ordinal in enumerate(plain_ordinals(placed, columns)):
                if ordinal:
                    absorb(expected[place : place + 1], np.array([ordinal], np.uint64))
            hashes = EventHashes(placed, by_place, columns, tied=True, apart=apart)
            asked = [np.array([rng.randrange(count) for _ in range(size)]) for size in (1, 2, 5)] + [np.arange(count)]
            for places in asked:
                known, where = hashes.at(places)
                assert known[where].tolist() == expected[places].tolist()
                gathered = {name: placed.gather(name, places) for name in columns}
                known, where = EventHashes(placed, by_place, columns, tied=True, apart=apart).at(places, gathered.__getitem__)
                assert known[where].tolist() == expected[places].tolist()


def test_only_events_that_tie_with_one_that_is_asked_for_are_hashed_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 10_000
    placed, rank = twins([*range(count - 3), *[count - 3] * 3], [0] * count)
    hashed: list[int] = []
    counted = EventHashes._hashed

    def spy(self: EventHashes, source: Any, size: int) -> Any:
        hashed.append(size)
        return counted(self, source, size)

    monkeypatch.setattr(EventHashes, "_hashed", spy)
    hashes = EventHashes(placed, rank, ("ts", "v"), tied=True)
    hashes.at(np.array([5, 9, 800]))
    hashes.at(np.array([7, count - 2]))
    assert hashed == [3, 4]


def test_where_one_list_ends_and_the_next_begins_changes_the_id() -> None:
    at = world(Random(4), "PATTERN SEQ(A+ a[], A+ b[]) WITHIN 50")
    found: list[Bindings] = [{"a": (0, 1), "b": (2,)}, {"a": (0,), "b": (1, 2)}, {"a": (1,), "b": (0, 2)}]
    ids = written(at, at.matches(found)).column("match_id").to_pylist()
    assert len(set(ids)) == 3


def test_dictionary_encoded_times_are_returned() -> None:
    days = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2)]
    events = pa.table({"ts": [1, 2], "type": ["A", "B"], "day": pa.array(days).dictionary_encode()})
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE a.day < b.day RETURN a.day AS first, b.day AS last")
    (found,) = query.match(events, time="ts", type="type").to_pylist()
    assert [found["first"], found["last"]] == days


@pytest.mark.parametrize("far", [0, 1 << 60], ids=["near", "out of range"])
def test_match_ids_do_not_depend_on_how_many_events_are_hashed_at_once(monkeypatch: pytest.MonkeyPatch, far: int) -> None:
    """One event, which is in no match, has a time that fits its own unit and perhaps no finer one."""
    count = 300
    table = pa.table(
        {
            "ts": range(count),
            "type": ["A", "B", "C"] * (count // 3),
            "when": pa.array([far, *range(1, count)], pa.timestamp("s")),
            "x": [-100, *range(1, count)],
        }
    )
    queries = {kind: kleene.query(f"PATTERN SEQ(A a, {kind} b) WHERE a.x + 9 > b.x WITHIN 9", name=kind) for kind in "BC"}
    completed: list[bool] = []
    complete = EventHashes._complete
    monkeypatch.setattr(EventHashes, "_complete", lambda self: completed.append(complete(self)) or completed[-1])
    found = []
    for at_once in (0, 1 << 40):  # never, and from the second time on
        monkeypatch.setattr("kleene.engine.matches.output.AT_ONCE", at_once)
        matches = kleene.workload(queries).match(table, time="ts", type="type")
        found.append({name: sorted(rows.column("match_id").to_pylist()) for name, rows in matches.items()})
    assert found[0] == found[1]
    assert all(found[0].values())
    assert set(completed) == {far == 0}


# --- by hand ------------------------------------------------------------------------------------------------------------

EVENTS = pa.table({"ts": [1, 2, 3, 3], "type": ["A", "B", "B", "B"], "x": [10, None, 30, 30], "unread": [0, 0, 0, 0]})
A1, B2, B3 = ({"ts": 1, "x": 10}, {"ts": 2, "x": None}, {"ts": 3, "x": 30})


def rows_written(text: str, matches: Matches, names: list[str] | None = None, events: pa.Table = EVENTS) -> pa.RecordBatch:
    """The rows of matches, whose plan reads `ts` and `x`; events 2 and 3 are alike and simultaneous."""
    bound = bind(parse(text, name="q"), schema_of_arrow(events.schema, time="ts", type="type"))
    working = WorkingSet(bound.schema, ["ts", "x"])
    (batch,) = events.to_batches()
    working.add(batch, np.arange(batch.num_rows), np.ones(batch.num_rows, np.int64))
    placed = PlacedColumns(working, group_rows(None, 1, working.ts, working.masks))
    transformation = Transformation(tuple((item.alias, item.expression) for item in bound.query.returns))
    writer = MatchWriter(Plan(bound, ("ts", "x"), transformation), events.schema)
    if names is not None:
        writer.narrow(names)
    return writer.write(placed, EventHashes(placed, working.rank(), ("ts", "x"), tied=True), matches)


PAIR = "PATTERN SEQ(A a, B b)"
PAIRS = Matches.of_sequences(["a", "b"], np.array([[0, 0, 0], [1, 2, 3]]))


def test_a_row_has_the_query_the_ends_of_the_match_and_the_columns_that_are_read() -> None:
    rows = rows_written(PAIR, PAIRS).to_pylist()
    ids = [row.pop("match_id") for row in rows]
    assert rows[0] == {"query": "q", "match_start": 1, "match_end": 2, "a": A1, "b": B2}
    assert rows[1] == {"query": "q", "match_start": 1, "match_end": 3, "a": A1, "b": B3} == rows[2]
    assert len(set(ids)) == 3, "events that are alike and simultaneous are told apart"


def test_elements_are_a_list_and_an_absent_variable_is_null() -> None:
    offsets, places = np.array([0, 1, 3]), np.array([1, 1, 2])
    matches = Matches(2, {"a": np.array([0, 0])}, {"b": (offsets, places)}, np.array([0, 0]), np.array([1, 2]))
    found = rows_written("PATTERN SEQ(A a, B+ b[], B? c)", matches)
    assert found.column("b").to_pylist() == [[B2], [B2, B3]]
    assert found.column("c").to_pylist() == [None, None]
    assert found.column("c").type == found.column("a").type


def test_returned_columns_are_computed() -> None:
    found = rows_written(f"{PAIR} RETURN a.x + b.x AS total, b.ts - a.ts AS took", PAIRS)
    assert found.select(["total", "took"]).to_pylist() == [
        {"total": None, "took": 1},
        {"total": 40, "took": 2},
        {"total": 40, "took": 2},
    ]


def test_columns_that_are_left_out_change_no_other() -> None:
    whole = rows_written(PAIR, PAIRS)
    assert rows_written(PAIR, PAIRS, ["match_end", "match_id"]).equals(whole.select(["match_end", "match_id"]))


def test_an_id_is_of_the_meaning_of_the_query_and_of_what_it_reads() -> None:
    ids = rows_written(PAIR, PAIRS).column("match_id")
    assert rows_written("pattern  seq(A a,B b)", PAIRS).column("match_id").equals(ids)
    assert not rows_written(f"{PAIR} WITHIN 9", PAIRS).column("match_id").equals(ids)
    others = EVENTS.set_column(3, "unread", pa.array([7, 8, 9, 9]))
    assert rows_written(PAIR, PAIRS, events=others).column("match_id").equals(ids)
    narrower = EVENTS.set_column(2, "x", EVENTS["x"].cast(pa.int16()))
    assert rows_written(PAIR, PAIRS, events=narrower).column("match_id").equals(ids)
