"""Compressed output: buffers built by hand are counted, expanded, sampled and read one by one as brute force enumerates them.

A test writes a buffer through the real writer and reads the rows through the public functions; what must come out is what
`MatchWriter` makes of the paths that a plain recursion finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kleene
import kleene.engine.automaton.compressed as module
import kleene.engine.automaton.kernels.compressed as kernels
from kleene.common.arrays import NO_WINDOW
from kleene.common.errors import DataError
from kleene.common.schema import schema_of_arrow
from kleene.engine.automaton.compressed import CompressedWriter
from kleene.engine.automaton.kernels.layout import GONE, NODE_FIELDS, OTHER, PREVIOUS, YOUNGEST
from kleene.engine.events.grouping import group_rows
from kleene.engine.events.placed import PlacedColumns
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.kernels import COMPILED
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.output import EventHashes, MatchWriter
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.plan.optimizer import plan_matches
from kleene.plan.options import NfaOptions
from kleene.plan.patterns import NfaPlan
from support.spark import frame_of

ARROW = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.float64())])
TEXT = "PATTERN OR(SEQ(A a, B+ b[], C c), SEQ(D+ d[], E e)) WITHIN 1000"
BRANCHES = (("a", "b", "c"), ("d", "e"))

Path = tuple[tuple[int, int], ...]
"""A match as (component, place) in order."""


def plan_of(text: str = TEXT) -> NfaPlan:
    return plan_matches(bind(parse(text), schema_of_arrow(ARROW, time="ts", type="type")), NfaOptions())


@dataclass
class Buffer:
    """A match buffer over events in segments, built node by node."""

    sizes: list[int]
    """Events per segment."""
    clock: np.ndarray[Any, Any]
    window: int = NO_WINDOW
    branch: int = 0
    nodes: list[list[int]] = field(default_factory=list)
    found: list[tuple[int, int]] = field(default_factory=list)

    def add(self, event: int, component: int, previous: int = -1) -> int:
        youngest = event if previous == -1 else self.nodes[previous][YOUNGEST]
        return self._append(event, component, previous, -1, youngest)

    def union(self, one: int, other: int) -> int:
        return self._append(-1, -1, one, other, max(self.nodes[one][YOUNGEST], self.nodes[other][YOUNGEST]))

    def _append(self, *node: int) -> int:
        self.nodes.append([*node, -1, -1])
        return len(self.nodes) - 1

    def prune(self, base: int) -> None:
        """Lets go of the nodes before `base`."""
        kept = [list(node) for node in self.nodes[base:]]
        for node in kept:
            for way in (PREVIOUS, OTHER):
                if node[way] >= 0:
                    node[way] = node[way] - base if node[way] >= base else GONE
        self.nodes = kept

    @property
    def segments(self) -> np.ndarray[Any, Any]:
        return np.cumsum([0, *self.sizes])

    def paths(self, node: int) -> Iterator[Path]:
        event, component, previous, other = self.nodes[node][:4]
        if event < 0:
            for way in (previous, other):
                if way != GONE:
                    yield from self.paths(way)
        elif previous == -1:
            yield ((component, event),)
        elif previous != GONE:
            for path in self.paths(previous):
                yield (*path, (component, event))

    def matches(self) -> list[Path]:
        return [
            path
            for node, place in self.found
            for path in self.paths(node)
            if self.clock[place] - self.clock[path[0][1]] < self.window
        ]

    def world(self) -> tuple[PlacedColumns, EventHashes]:
        total = sum(self.sizes)
        rows = [{"ts": place // 2, "type": "ABCDE"[place % 5], "k": place % 3, "x": place / 4} for place in range(total)]
        working = WorkingSet(plan_of().bound.schema, ARROW.names)
        working.add(pa.RecordBatch.from_pylist(rows, schema=ARROW), np.arange(total), np.ones(total, np.int64))
        events = PlacedColumns(working, group_rows(None, 1, working.ts, np.ones(total, np.int64)))
        return events, EventHashes(events, np.arange(total), plan_of().columns, tied=False)

    def write(self) -> pa.RecordBatch:
        table = np.full((NODE_FIELDS, len(self.nodes) + 3), 7, np.int32)  # with room to spare
        table[:, : len(self.nodes)] = np.array(self.nodes, np.int32).reshape(-1, NODE_FIELDS).T
        found = np.array(self.found, np.int64).reshape(-1, 2).T
        branch = SimpleNamespace(variables=BRANCHES[self.branch])
        writer = CompressedWriter(plan_of(), ARROW)
        events, hashes = self.world()
        rows = writer.write(events, hashes, self.segments, found, table, len(self.nodes), self.clock, self.window, branch)
        assert rows.schema.equals(writer.schema)
        rows.validate(full=True)
        return rows

    def enumerated(self) -> Matches | None:
        """The matches as an enumerating reader gives them."""
        names, found = BRANCHES[self.branch], self.matches()
        kleene_names = {event.variable for event in plan_of().positives if event.is_kleene}
        singles, lists = {}, {}
        for component, name in enumerate(names):
            bound = [[place for number, place in path if number == component] for path in found]
            if name in kleene_names:
                lists[name] = (
                    np.cumsum([0, *map(len, bound)]),
                    np.array([place for places in bound for place in places], np.int64),
                )
            else:
                singles[name] = np.array([places[0] for places in bound], np.int64)
        first, last = (np.array([path[side][1] for path in found], np.int64) for side in (0, -1))
        return Matches(len(found), singles, lists, first, last)

    def verbose(self) -> pa.Table:
        writer = MatchWriter(plan_of(), ARROW)
        matches = self.enumerated()
        assert matches is not None
        return pa.Table.from_batches([writer.write(*self.world(), matches)], writer.schema)


def random_buffer(rng: Random, *, segments: int = 3, most: int = 14) -> Buffer:
    """Runs that take, proceed, merge, end and die as the automaton's would."""
    branch = rng.randrange(2)
    sizes = [rng.randrange(2, most), *(rng.randrange(most) for _ in range(segments - 1))]
    clock = np.cumsum([rng.choice((0, 1, 1, 2, 5)) for _ in range(sum(sizes))], dtype=np.int64) - 20
    buffer = Buffer(sizes, clock, rng.choice((3, 6, 12, NO_WINDOW)), branch)
    begin = 0
    for size in sizes:
        clock[begin : begin + size] -= rng.choice((0, 3))  # time within a segment is its own
        live: dict[int, list[int]] = {0: [], 1: []}
        for place in range(begin, begin + size):
            _advance(rng, buffer, live, place)
            for runs in live.values():
                while len(runs) > 1 and rng.random() < 0.6:
                    one, other = rng.sample(range(len(runs)), 2)
                    runs[one] = buffer.union(runs[one], runs[other])
                    runs.pop(other)
                del runs[4:]
        begin += size
    return buffer


def _advance(rng: Random, buffer: Buffer, live: dict[int, list[int]], place: int) -> None:
    """One event for all runs: `live[c]` holds the nodes of runs whose last event is of component c."""
    last = len(BRANCHES[buffer.branch]) - 1

    def alive(node: int) -> bool:
        return bool(buffer.clock[place] - buffer.clock[buffer.nodes[node][YOUNGEST]] < buffer.window)

    kleene_component = 1 - buffer.branch
    taken = [buffer.add(place, kleene_component, run) for run in live[kleene_component] if alive(run) and rng.random() < 0.5]
    begun = [run for run in live[kleene_component] if alive(run) and rng.random() < 0.5]
    for run in begun:
        buffer.found.append((buffer.add(place, last, run), place))
    if buffer.branch == 0:
        taken += [buffer.add(place, 1, run) for run in live[0] if alive(run) and rng.random() < 0.5]
    live[kleene_component] += taken
    if rng.random() < 0.7:
        live[0].append(buffer.add(place, 0))


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row["match_id"], str(row)))


def check(buffer: Buffer) -> pa.RecordBatch:
    """Everything that can be asked of a buffer's rows, against brute force."""
    rows, wanted = buffer.write(), buffer.verbose()
    total = wanted.num_rows
    assert kleene.count(rows) == total
    expanded = kleene.expand(rows)
    if total:
        assert expanded.schema.equals(wanted.schema)
        expanded.validate(full=True)
    assert in_order(expanded) == in_order(wanted)
    assert list(kleene.matches(rows)) == expanded.to_pylist()
    assert kleene.sample(rows, total + 1).equals(expanded)
    chosen = kleene.sample(rows, total // 2, seed=3)
    assert chosen.num_rows == total // 2
    assert not Counter(map(str, chosen.to_pylist())) - Counter(map(str, wanted.to_pylist()))
    check_rows(buffer, rows)
    return rows


def check_rows(buffer: Buffer, rows: pa.RecordBatch) -> None:
    """A row has the matches of a segment, and nothing that no match needs."""
    segments, found = buffer.segments, buffer.matches()
    per_segment = Counter(int(np.searchsorted(segments, path[-1][1], side="right")) for path in found)
    assert rows.column("match_count").to_pylist() == [per_segment[segment] for segment in sorted(per_segment)]
    for segment, row in zip(sorted(per_segment), rows.to_pylist(), strict=True):
        own = [path for path in found if np.searchsorted(segments, path[-1][1], side="right") == segment]
        places = sorted({place for path in own for _, place in path})
        assert [event["x"] for event in row["events"]] == [place / 4 for place in places]
        assert (row["match_start"], row["match_end"]) == (places[0] // 2, max(path[-1][1] for path in own) // 2)
        assert len({path[-1] for path in own}) <= len(row["ends"])
        for number, node in enumerate(row["nodes"]):
            assert max(node["previous"], node["other"]) < number
            assert GONE not in (node["previous"], node["other"])
            assert (node["event"] < 0) == (node["other"] >= 0) == (node["variable"] < 0)


# --- what is in a row -------------------------------------------------------------------------------------------------


def test_a_chain() -> None:
    buffer = Buffer([4], np.arange(4))
    buffer.found.append((buffer.add(3, 2, buffer.add(2, 1, buffer.add(0, 0))), 3))
    row = check(buffer).to_pylist()[0]
    assert row["query"] == "query"
    assert row["time"] == "ts"
    assert [(item["name"], item["kleene"]) for item in row["variables"]] == [
        ("a", False), ("b", True), ("c", False), ("d", True), ("e", False),
    ]  # fmt: skip
    assert [tuple(node.values()) for node in row["nodes"]] == [(0, 0, -1, -1, 0), (1, 1, 0, -1, 0), (2, 2, 1, -1, 0)]
    assert row["ends"] == [{"node": 2, "since": 0}]


def test_variables_of_another_branch_are_null() -> None:
    buffer = Buffer([3], np.arange(3), branch=1)
    buffer.found.append((buffer.add(2, 1, buffer.add(1, 0, buffer.add(0, 0))), 2))
    [match] = kleene.expand(check(buffer)).to_pylist()
    assert [match["a"], match["b"], match["c"]] == [None, None, None]
    assert [event["x"] for event in match["d"]] == [0.0, 0.25]


def test_nested_unions_share_their_histories() -> None:
    buffer = Buffer([6], np.arange(6))
    starts = [buffer.add(place, 0) for place in range(3)]
    merged = buffer.union(buffer.union(starts[0], starts[1]), starts[2])
    inside = buffer.add(3, 1, merged)
    further = buffer.union(inside, buffer.add(4, 1, inside))
    buffer.found.append((buffer.add(5, 2, further), 5))
    row = check(buffer).to_pylist()[0]
    assert row["match_count"] == 6
    assert len(row["nodes"]) == 9


def test_one_node_may_have_several_ends_with_windows_of_their_own() -> None:
    buffer = Buffer([6], np.array([0, 1, 2, 3, 4, 5]), window=4, branch=1)
    merged = buffer.union(buffer.union(buffer.add(0, 0), buffer.add(1, 0)), buffer.add(2, 0))
    for place in (3, 4, 5):
        buffer.found.append((buffer.add(place, 1, merged), place))
    row = check(buffer).to_pylist()[0]
    assert [end["since"] for end in row["ends"]] == [0, 1, 2]
    assert row["match_count"] == 3 + 2 + 1


def test_what_has_left_the_window_is_left_out_and_its_union_with_it() -> None:
    buffer = Buffer([4], np.array([0, 10, 11, 12]), window=5, branch=1)
    merged = buffer.union(buffer.add(0, 0), buffer.add(1, 0))
    buffer.found.append((buffer.add(3, 1, merged), 3))
    row = check(buffer).to_pylist()[0]
    assert [event["x"] for event in row["events"]] == [0.25, 0.75]
    assert [node["event"] for node in row["nodes"]] == [0, 1]


def test_histories_that_the_buffer_let_go_of() -> None:
    buffer = Buffer([6], np.array([0, 1, 20, 21, 22, 23]), window=10, branch=1)
    old = buffer.add(0, 0)
    merged = buffer.union(buffer.add(1, 0, old), buffer.add(2, 0))
    again = buffer.union(buffer.add(3, 0, merged), buffer.add(3, 0))
    buffer.prune(2)
    assert buffer.nodes[0][PREVIOUS] == 0 or GONE in buffer.nodes[1]
    buffer.found.append((buffer.add(4, 1, again - 2), 4))
    assert check(buffer).column("match_count").to_pylist() == [2]


def test_an_end_without_live_histories_is_no_end() -> None:
    buffer = Buffer([3, 3], np.array([0, 1, 50, 0, 1, 2]), window=10, branch=1)
    buffer.found.append((buffer.add(2, 1, buffer.add(0, 0)), 2))
    assert check(buffer).num_rows == 0
    buffer.found.append((buffer.add(5, 1, buffer.add(4, 0)), 5))
    assert check(buffer).num_rows == 1
    assert Buffer([3], np.arange(3)).write().num_rows == 0


def test_detections_may_come_in_any_order() -> None:
    buffer = Buffer([5], np.arange(5), window=4, branch=1)
    first, second = buffer.add(0, 0), buffer.add(1, 0)
    buffer.found += [(buffer.add(place, 1, start), place) for start in (first, second) for place in (4, 2, 3)]
    row = check(buffer).to_pylist()[0]
    assert row["match_count"] == 5


@pytest.mark.parametrize("window", [1, 7, 40, 90])
def test_windows_that_cut_long_chains_of_unions(window: int) -> None:
    buffer = Buffer([120], np.arange(120) // 2, window=window, branch=1)
    runs = buffer.add(0, 0)
    for place in range(1, 120):
        if place % 3:
            start = buffer.add(place, 0)
            runs = buffer.union(runs, start) if place % 2 else buffer.union(start, runs)
        elif place % 9 == 0:
            runs = buffer.union(runs, buffer.add(place, 0, buffer.add(place - 1, 0)))
        else:
            buffer.found.append((buffer.add(place, 1, runs), place))
    check(buffer)


@pytest.mark.parametrize("seed", range(60))
def test_random_buffers(seed: int) -> None:
    rng = Random(seed)
    check(random_buffer(rng, segments=rng.choice((1, 3, 8)), most=rng.choice((6, 14))))


def test_random_buffers_are_not_trivial() -> None:
    buffers = [random_buffer(Random(seed)) for seed in range(60)]
    rows = [buffer.write() for buffer in buffers]
    assert sum(sum(row.column("match_count").to_pylist()) for row in rows) > 1000
    nodes = [node for row in rows for nodes in row.column("nodes").to_pylist() for node in nodes]
    assert sum(node["event"] < 0 for node in nodes) > 300
    cut = [end for row in rows for ends in row.column("ends").to_pylist() for end in ends if end["since"] > 0]
    assert len(cut) > 200


def test_rows_are_read_in_pieces_and_matches_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = random_buffer(Random(5), segments=12)
    whole = kleene.expand(buffer.write())
    monkeypatch.setattr(module, "PIECE", 5)
    monkeypatch.setattr(module, "BLOCK", 3)
    assert kleene.expand(check(buffer)).combine_chunks().equals(whole.combine_chunks())


@pytest.mark.skipif(not COMPILED, reason="KLEENE_KERNELS=python: there is no compiled twin to compare with")
def test_kernels_give_the_same_rows_as_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = [random_buffer(Random(seed)) for seed in range(100, 120)]
    compiled = [buffer.write() for buffer in buffers]
    samples = [kleene.sample(rows, 5) for rows in compiled]
    for name, item in list(vars(kernels).items()):
        if hasattr(item, "py_func") and item.py_func.__module__ == kernels.__name__:
            monkeypatch.setattr(kernels, name, item.py_func)
    assert [buffer.write() for buffer in buffers] == compiled
    assert [kleene.sample(rows, 5) for rows in compiled] == samples


# --- enumerated matches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_enumerated_matches_become_chains(seed: int) -> None:
    rng = Random(seed)
    buffer = random_buffer(rng, segments=4)
    matches, writer = buffer.enumerated(), CompressedWriter(plan_of(), ARROW)
    assert matches is not None
    matches = matches.take(np.array(rng.sample(range(matches.count), matches.count), np.int64))
    rows = writer.write_matches(*buffer.world(), buffer.segments, matches)
    rows.validate(full=True)
    assert rows.schema.equals(writer.schema)
    assert in_order(kleene.expand(rows)) == in_order(buffer.verbose())
    assert sum(map(len, rows.column("ends").to_pylist())) == kleene.count(rows) == matches.count
    for row in rows.to_pylist():
        times = [event["ts"] for event in row["events"]]
        assert (row["match_start"], row["match_end"]) == (times[0], times[-1])


# --- very many matches ------------------------------------------------------------------------------------------------


def doubling(buffer: Buffer, node: int, places: range) -> int:
    """Each of the events is taken or not."""
    for place in places:
        node = buffer.union(node, buffer.add(place, 0, node))
    return node


def test_2_to_the_60_matches_are_counted_sampled_and_read_lazily() -> None:
    buffer = Buffer([62], np.arange(62), branch=1)
    buffer.found.append((buffer.add(61, 1, doubling(buffer, buffer.add(0, 0), range(1, 61))), 61))
    rows = buffer.write()
    assert kleene.count(rows) == 2**60
    read = list(islice(kleene.matches(rows), 1000))
    assert len({row["match_id"] for row in read}) == 1000
    chosen = kleene.sample(rows, 100)
    assert len(set(chosen.column("match_id").to_pylist())) == 100
    sizes = [len(elements) for elements in chosen.column("d").to_pylist()]
    assert 29 < sum(sizes) / 100 < 33
    many = pa.Table.from_batches([rows] * 20)
    assert kleene.count(many) == 20 * 2**60
    assert kleene.sample(many, 50).num_rows == 50


def test_more_matches_than_can_be_counted_are_refused() -> None:
    buffer = Buffer([66], np.arange(66), branch=1)
    node = doubling(buffer, buffer.add(0, 0), range(1, 63))
    buffer.found.append((buffer.add(64, 1, node), 64))
    assert kleene.count(buffer.write()) == 2**62
    buffer.found.append((buffer.add(65, 1, node), 65))
    with pytest.raises(DataError, match=r"has 2\^63 or more matches in one partition"):
        buffer.write()
    buffer.found = [(buffer.add(65, 1, buffer.union(node, buffer.add(63, 0, node))), 65)]
    with pytest.raises(DataError, match="shorter WITHIN"):
        buffer.write()


def test_histories_that_left_the_window_do_not_count_as_too_many() -> None:
    clock = np.append(np.arange(64), [64, 70, 71])
    buffer = Buffer([67], clock, window=68, branch=1)
    many = doubling(buffer, buffer.add(0, 0), range(1, 63))
    buffer.found.append((buffer.add(63, 1, many), 63))
    young = buffer.union(many, buffer.add(64, 0))
    twice = buffer.union(young, buffer.add(65, 0, young))
    buffer.found.append((buffer.add(66, 1, twice), 66))
    rows = buffer.write()
    assert kleene.count(rows) == 2**62 + 2
    last = rows.to_pylist()[0]["ends"][-1]
    assert rows.to_pylist()[0]["events"][last["since"]]["x"] == 64 / 4


# --- samples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
def test_every_match_is_as_likely(n: int) -> None:
    buffer = Buffer([5, 7], np.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6]), window=5, branch=1)
    merged = buffer.union(buffer.add(0, 0), buffer.add(1, 0))
    buffer.found.append((buffer.add(3, 1, doubling(buffer, merged, range(2, 3))), 3))
    runs = buffer.union(buffer.union(buffer.add(5, 0), buffer.add(6, 0)), buffer.add(7, 0))
    runs = doubling(buffer, runs, range(8, 10))
    buffer.found += [(buffer.add(place, 1, runs), place) for place in (10, 11)]
    rows = check(buffer)
    total, draws = kleene.count(rows), 500
    drawn = Counter(name for seed in range(draws) for name in kleene.sample(rows, n, seed).column("match_id").to_pylist())
    expected = draws * n / total
    assert len(drawn) == total
    square = sum((count - expected) ** 2 / expected for count in drawn.values()) / (1 - n / total) * (1 - 1 / total)
    assert square < 2 * total  # the mean is total - 1, the deviation about sqrt(2 * total)


def test_a_sample_of_many_rows_is_that_of_its_seed() -> None:
    table = pa.Table.from_batches([random_buffer(Random(seed)).write() for seed in range(10)])
    one, other = kleene.sample(table, 30, seed=1), kleene.sample(table, 30, seed=2)
    assert one.equals(kleene.sample(table, 30, seed=1))
    assert not one.equals(other)
    assert kleene.sample(table, 0).schema.equals(one.schema)
    with pytest.raises(DataError, match="cannot have -1 matches"):
        kleene.sample(table, -1)


# --- where rows may go ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.Table.from_batches([random_buffer(Random(seed)).write() for seed in range(20)])


@pytest.mark.parametrize("store_schema", [True, False])
def test_parquet(table: pa.Table, tmp_path: Any, store_schema: bool) -> None:
    pq.write_table(table, tmp_path / "rows.parquet", store_schema=store_schema, row_group_size=7)
    found = pq.read_table(tmp_path / "rows.parquet")
    assert kleene.expand(found).equals(kleene.expand(table))
    assert kleene.sample(found, 20).equals(kleene.sample(table, 20))


def test_arrow_streams_and_other_libraries(table: pa.Table) -> None:
    import polars as pl

    wanted = kleene.expand(table)
    assert kleene.expand(table.to_reader(max_chunksize=3)).equals(wanted)
    assert kleene.count(table.to_reader()) == wanted.num_rows
    assert kleene.sample(table.to_reader(), 9).equals(kleene.sample(table, 9))
    through = pl.DataFrame(table)
    assert [row["match_id"] for row in kleene.matches(through)] == wanted.column("match_id").to_pylist()
    assert kleene.expand(table.slice(4, 9)).to_pylist() == [
        row for number in range(4, 13) for row in kleene.expand(table.slice(number, 1)).to_pylist()
    ]


def test_what_cannot_be_read_is_refused(table: pa.Table) -> None:
    with pytest.raises(DataError, match="not compressed matches: 'time', 'nodes' missing"):
        kleene.count(table.drop_columns(["nodes", "time"]))
    other = CompressedWriter(plan_of("PATTERN SEQ(A a, B+ b[]) WITHIN 5"), ARROW)
    buffer = Buffer([2], np.arange(2))
    matches = Matches(1, {"a": np.array([0])}, {"b": (np.array([0, 1]), np.array([1]))}, np.array([0]), np.array([1]))
    rows = other.write_matches(*buffer.world(), buffer.segments, matches)
    mixed = pa.concat_tables([table, pa.Table.from_batches([rows])])
    assert kleene.count(mixed) == kleene.count(table) + 1
    with pytest.raises(DataError, match="queries with different variables"):
        kleene.expand(mixed)


def test_without_rows(table: pa.Table) -> None:
    nothing = table.slice(0, 0)
    assert kleene.count(nothing) == 0
    assert list(kleene.matches(nothing)) == []
    assert kleene.expand(nothing).column_names == ["query", "match_id", "match_start", "match_end"]
    assert kleene.sample(nothing, 3).num_rows == 0


# --- from a query -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN SEQ(A+ a[], B b) WHERE [k] WITHIN 14",
        "PATTERN SEQ(A a, !(C c), B+ b[]) WHERE [k] WITHIN 20",
        "PATTERN OR(SEQ(A a, B+ b[]), SEQ(C c, A d)) WITHIN 5",
        "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) { [k] } WITHIN 25",
        "PATTERN SEQ(A a, B b) WHERE [k] OUTPUT NON-OVERLAP",
        "PATTERN SEQ(A+ a[], B b) WHERE [k] WITHIN 6 EVENTS",
    ],
)
@pytest.mark.parametrize("algorithm", ["basic", "merging", "backtrack"])
def test_a_query_gives_its_verbose_matches(text: str, algorithm: str) -> None:
    rng = np.random.default_rng(3)
    size = 120
    events = pa.table({"ts": np.arange(size), "type": rng.choice(list("ABC"), size), "k": rng.integers(0, 3, size)})
    query = kleene.query(text)
    options: dict[str, Any] = {"time": "ts", "type": "type", "plan": {"algorithm": algorithm}}
    wanted, rows = query.match(events, **options), query.match(events, **options, output="compressed")
    assert wanted.num_rows > 0
    expanded = kleene.expand(rows)
    assert expanded.schema.equals(wanted.schema)
    assert in_order(expanded) == in_order(wanted)
    assert kleene.count(rows) == wanted.num_rows


@pytest.mark.spark
def test_spark(spark: Any, table: pa.Table) -> None:
    frame = frame_of(spark, table).repartition(3).cache()
    wanted = kleene.expand(table)
    assert kleene.count(frame) == wanted.num_rows
    expanded = kleene.expand(frame)
    assert expanded.columns == wanted.column_names
    assert in_order(expanded.toArrow()) == in_order(wanted)
    read = list(kleene.matches(frame))
    assert sorted(row["match_id"] for row in read) == sorted(wanted.column("match_id").to_pylist())
    assert {str(row) for row in read} == {str(row) for row in wanted.to_pylist()}
    chosen = kleene.sample(frame, 40, seed=2)
    assert chosen.num_rows == 40
    assert not Counter(map(str, chosen.to_pylist())) - Counter(map(str, wanted.to_pylist()))
    again = frame_of(spark, table).repartition(2)
    assert in_order(kleene.sample(again, 40, seed=2)) == in_order(chosen)
    assert in_order(kleene.sample(frame, 10**9)) == in_order(wanted)
    assert kleene.sample(frame, 0).num_rows == 0
    nothing = frame.where("match_count < 0")
    assert kleene.count(nothing) == 0
    assert kleene.expand(nothing).columns == wanted.column_names[:4]
    assert kleene.sample(nothing, 3).num_rows == 0


@pytest.mark.spark
def test_spark_times_stay_what_they_are(spark: Any, tmp_path: Any) -> None:
    stamps = pa.array([0, 1_000_000, 2_000_000], pa.timestamp("us", "UTC"))
    for times in (stamps, stamps.cast(pa.timestamp("us"))):
        events = pa.table({"ts": times, "type": ["A", "A", "B"]})
        query = kleene.query("PATTERN SEQ(A+ a[], B b)")
        rows = query.match(events, time="ts", type="type", output="compressed")
        path = str(tmp_path / str(times.type.tz))
        frame_of(spark, rows).write.parquet(path)
        frame = spark.read.parquet(path)
        wanted = query.match(events, time="ts", type="type").to_pylist()
        assert sorted(kleene.matches(frame), key=str) == sorted(wanted, key=str)
        assert sorted(kleene.expand(frame).toArrow().to_pylist(), key=str) == sorted(wanted, key=str)
