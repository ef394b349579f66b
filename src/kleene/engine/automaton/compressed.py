"""Compressed output: the shared match buffer as data (SASE+ section 4.2), written and read.

A row holds all matches of one partition that one flush of the buffer reports: their events once each, the nodes of the buffer
that they go through, and their ends. A match is a path from the node of an end along `previous` to a node without one (-1); at
a union (event -1) the other way is `other`; -2 leads nowhere. It counts if it begins at event `since` of its end or later, the
oldest start that the window left. `youngest` is the latest start among the paths below a node, so dead ways are seen before
they are gone. All numbers are places in the row's own lists: a row needs nothing but itself.

`CompressedWriter` makes rows, `CompressedReader` makes match rows of them, with the columns and ids of verbose output.

Cost of writing: linear in nodes and events, whatever the number of matches (see `kleene.engine.automaton.kernels.compressed`);
of reading: linear in the matches read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import time_type, view
from kleene.common.errors import DataError, Problem
from kleene.engine.automaton.kernels import compressed as kernels
from kleene.engine.automaton.kernels.layout import COMPONENT, EVENT, FOUND_NODE, FOUND_PLACE, PREVIOUS, YOUNGEST, Buffer
from kleene.engine.automaton.kernels.match_buffer import (
    AT_EVENT,
    CURSOR_FIELDS,
    MATCHES,
    READ,
    STACK_FULL,
    TOO_LONG,
    Block,
    Reading,
    nothing_written,
    read_matches,
)
from kleene.engine.events.placed import PlacedColumns, take_places
from kleene.engine.matches.kernels.identity import FIRST_FACTOR, add_events, finish_ids, hash_lists, next_factor
from kleene.engine.matches.kernels.lists import sum_integers
from kleene.engine.matches.matches import Matches
from kleene.engine.matches.output import EventHashes, WrittenPlan, query_seed
from kleene.plan.patterns import NfaPlan

Variables = tuple[tuple[str, bool], ...]
"""The variables of a query in order: (name, whether it is Kleene)."""

VARIABLE = pa.struct([("name", pa.string()), ("kleene", pa.bool_())])
NODE = pa.struct(
    [("event", pa.int32()), ("variable", pa.int16()), ("previous", pa.int32()), ("other", pa.int32()), ("youngest", pa.int32())]
)
END = pa.struct([("node", pa.int32()), ("since", pa.int32())])

FIELDS = 5
"""Of a node in a row: those of `NODE`, in the order of the rows EVENT .. YOUNGEST of the buffer."""

COLUMNS = (
    "query",
    "match_count",
    "match_start",
    "match_end",
    "time",
    "variables",
    "events",
    "hashes",
    "seed",
    "nodes",
    "ends",
)

BLOCK = 1 << 15
"""Matches read at a time."""

PIECE = 1 << 20
"""About how many nodes are read at a time; a row is never divided."""


class Named(Protocol):
    """What the writer needs of a branch."""

    @property
    def variables(self) -> Sequence[str]:
        """The variable of each component of its nodes."""


class CompressedWriter:
    """Writes the buffer of one plan as rows."""

    def __init__(self, plan: NfaPlan, events: pa.Schema) -> None:
        self._columns = plan.columns
        self._time = plan.bound.schema.time
        self._name = plan.bound.query.name
        self._text = plan.bound.query.text
        self._variables: Variables = tuple((event.variable, event.is_kleene) for event in plan.positives)
        self._numbers = {name: number for number, (name, _) in enumerate(self._variables)}
        self._seed = int(np.uint64(query_seed(plan.bound.query)).view(np.int64))
        self.schema = compressed_schema(plan, events)
        self._struct = self.schema.field("events").type.value_type

    def write(
        self,
        events: PlacedColumns,
        hashes: EventHashes,
        segments: Array,
        found: Array,
        nodes: Array,
        used: int,
        clock: Array,
        window: int,
        branch: Named,
    ) -> pa.RecordBatch:
        """The rows of detections (node and place each), with the part of the buffer that they reach.

        Segments, and nodes by segment, are in order; `clock` is the time of each place in the sense of the window.
        """
        found = _in_order(found)
        ends = np.ascontiguousarray(found[FOUND_NODE])
        horizons = horizons_at(clock.take(found[FOUND_PLACE]), window)
        entries, limits = np.empty(ends.size, np.int64), np.empty(used, np.int64)
        span = np.zeros(3, np.int64)
        live = kernels.reach(ends, horizons, entries, nodes, used, clock, limits, span)
        entries = entries[:live]
        if live == 0:
            return _empty(self.schema)
        low = int(span[kernels.LOW_PLACE])
        seen = np.zeros(int(span[kernels.HIGH_PLACE]) - low + 1, bool)
        kernels.mark_events(nodes, used, limits, low, seen)
        places, numbers = _numbered(seen, low)
        variables = np.array([self._numbers[name] for name in branch.variables], np.int32)
        renumbered = np.empty(used, np.int32)
        taken = np.empty((FIELDS, int(span[kernels.REACHED])), np.int32)
        count = kernels.take_nodes(nodes, used, limits, low, numbers, variables, renumbered, taken)
        taken = np.ascontiguousarray(taken[:, :count])
        detected = found[FOUND_PLACE].take(entries)
        counted = Counted(taken, renumbered.take(ends.take(entries)), horizons.take(entries), clock.take(places))
        rows = _rows(segments, detected, places)
        node_offsets = np.empty(rows.events.size, np.int64)
        ordered = kernels.divide(taken, rows.events, node_offsets)
        assert ordered, "the nodes of a buffer are in the order of its segments"
        kernels.shift(taken, node_offsets, rows.events, -1)
        lengths = np.diff(rows.ends)
        own = counted.ends - np.repeat(node_offsets[:-1], lengths)
        table = np.stack((own, counted.since - np.repeat(rows.events[:-1], lengths)))
        return self._rows(events, hashes, places, rows, taken, node_offsets, table, counted.counts, detected)

    def write_matches(self, events: PlacedColumns, hashes: EventHashes, segments: Array, matches: Matches) -> pa.RecordBatch:
        """The rows of matches that were enumerated: each is a chain of its own."""
        if matches.count == 0:
            return _empty(self.schema)
        segment = np.searchsorted(segments, matches.last, side="right")
        if (segment[1:] < segment[:-1]).any():
            matches = matches.take(np.argsort(segment, kind="stable"))
        present = [item for item in self._variables if item[0] in matches.singles or item[0] in matches.lists]
        sizes = [np.diff(matches.lists[name][0]) if kleene else np.ones(matches.count, np.int64) for name, kleene in present]
        offsets = np.zeros(matches.count + 1, np.int64)
        np.cumsum(np.sum(sizes, axis=0), out=offsets[1:])
        at = offsets[:-1].copy()
        nodes = np.full((FIELDS, int(offsets[-1])), -1, np.int32)
        for (name, kleene), size in zip(present, sizes, strict=True):
            if kleene:
                begins, its = matches.lists[name]
                filled = np.repeat(at - begins[:-1], size) + np.arange(its.size)
            else:
                filled, its = at, matches.singles[name]
            nodes[EVENT, filled] = its
            nodes[COMPONENT, filled] = self._numbers[name]
            at += size
        low, high = int(nodes[EVENT].min()), int(nodes[EVENT].max())
        seen = np.zeros(high - low + 1, bool)
        seen[nodes[EVENT] - low] = True
        places, numbers = _numbered(seen, low)
        nodes[EVENT] = numbers.take(nodes[EVENT] - low)
        nodes[PREVIOUS, 1:] = np.arange(nodes.shape[1] - 1)
        nodes[PREVIOUS, offsets[:-1]] = -1
        nodes[YOUNGEST] = np.repeat(nodes[EVENT, offsets[:-1]], np.diff(offsets))
        rows = _rows(segments, matches.last, places)
        node_offsets = offsets.take(rows.ends)
        kernels.shift(nodes, node_offsets, rows.events, -1)
        ends = np.stack((offsets[1:] - 1 - np.repeat(node_offsets[:-1], np.diff(rows.ends)), nodes[YOUNGEST, offsets[1:] - 1]))
        one = np.ones(matches.count, np.int64)
        return self._rows(events, hashes, places, rows, nodes, node_offsets, ends, one, matches.last)

    def _rows(
        self,
        events: PlacedColumns,
        hashes: EventHashes,
        places: Array,
        rows: _Rows,
        nodes: Array,
        node_offsets: Array,
        ends: Array,
        counts: Array,
        detected: Array,
    ) -> pa.RecordBatch:
        number = rows.ends.size - 1
        event_columns = {name: events.gather(name, places) for name in self._columns}
        structs = pa.StructArray.from_arrays(list(event_columns.values()), fields=list(self._struct))
        known, at = hashes.at(places, event_columns.__getitem__)
        fields = [*nodes]
        fields[COMPONENT] = fields[COMPONENT].astype(np.int16)
        variables = [{"name": name, "kleene": kleene} for name, kleene in self._variables]
        columns = [
            pa.repeat(pa.scalar(self._name), number),
            pa.array(self._totals(counts, rows.ends)),
            events.gather(self._time, places.take(rows.events[:-1])),
            events.gather(self._time, np.maximum.reduceat(detected, rows.ends[:-1])),
            pa.repeat(pa.scalar(self._time), number),
            pa.repeat(pa.scalar(variables, pa.list_(VARIABLE)), number),
            _lists(rows.events, structs),
            _lists(rows.events, pa.array(known.take(at).view(np.int64))),
            pa.repeat(pa.scalar(self._seed, pa.int64()), number),
            _lists(node_offsets, _structs(fields, NODE)),
            _lists(rows.ends, _structs(list(ends.astype(np.int32)), END)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _totals(self, counts: Array, offsets: Array) -> Array:
        totals = np.empty(offsets.size - 1, np.int64)
        too_many = bool((counts == kernels.TOO_MANY).any())
        wraps = np.empty_like(totals)
        with np.errstate(over="ignore"):
            sum_integers(counts, np.ones(counts.size, np.uint8), offsets[:-1], offsets[1:], totals, wraps)
        if too_many or wraps.any():
            message = f"query '{self._name}' has 2^63 or more matches in one partition, which cannot be counted"
            raise DataError(Problem(message, hint="narrow the pattern: a shorter WITHIN, more predicates, another strategy"))
        return totals


def compressed_schema(plan: WrittenPlan, events: pa.Schema) -> pa.Schema:
    """The columns of a plan's compressed output, for events with an Arrow schema."""
    event = pa.struct([events.field(name).with_nullable(True) for name in plan.columns])
    time = time_type(events.field(plan.bound.schema.time).type)
    types = {
        "query": pa.string(),
        "match_count": pa.int64(),
        "match_start": time,
        "match_end": time,
        "time": pa.string(),
        "variables": pa.list_(VARIABLE),
        "events": pa.list_(event),
        "hashes": pa.list_(pa.int64()),
        "seed": pa.int64(),
        "nodes": pa.list_(NODE),
        "ends": pa.list_(END),
    }
    return pa.schema([pa.field(name, types[name], nullable=False) for name in COLUMNS])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _lists(offsets: Array, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def _structs(fields: Sequence[Array], struct: pa.StructType) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(np.ascontiguousarray(field)) for field in fields], fields=list(struct))


def _in_order(found: Array) -> Array:
    """Detections by place; those of an event as they are."""
    places = found[FOUND_PLACE]
    if (places[1:] >= places[:-1]).all():
        return found
    return found[:, np.argsort(places, kind="stable")]


def _numbered(seen: Array, low: int) -> tuple[Array, Array]:
    """The places that were seen, and the number of each place (from `low` on) among them."""
    return np.flatnonzero(seen) + low, np.cumsum(seen, dtype=np.int32) - np.int32(1)


def horizons_at(now: Array, window: int) -> Array:
    """The latest time that is outside the window at each of some times: the least number there is if none is."""
    least = np.iinfo(np.int64).min
    return np.where(now < least + window, least, now - window)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where each row begins in the events and in the ends of all."""

    events: Array
    ends: Array


def _rows(segments: Array, detected: Array, places: Array) -> _Rows:
    """One row per segment in which there are detections, whose places ascend by segment."""
    segment = np.searchsorted(segments, detected, side="right") - 1
    firsts = np.flatnonzero(segment[1:] != segment[:-1]) + 1
    ends = np.concatenate(([0], firsts, [detected.size]))
    begins = np.searchsorted(places, segments.take(segment.take(ends[:-1])))
    return _Rows(np.append(begins, places.size), ends)


class Counted:
    """Nodes and ends with the number of matches of each end."""

    def __init__(self, nodes: Array, ends: Array, horizons: Array, times: Array) -> None:
        self.nodes = nodes
        self.ends = ends
        self._horizons = horizons
        size = nodes.shape[1]
        totals, oldest, forks = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int32)
        kernels.count_histories(nodes, totals, oldest, forks)
        cut = bool((times.take(oldest.take(ends)) <= horizons).any())
        room = size if cut else 0
        olders, jumps = np.empty(room, np.int32), np.empty(room, np.int32)
        if cut:
            kernels.lift(nodes, oldest, forks, olders, jumps, np.empty(room, np.int32))
        self._histories = kernels.Histories(times, nodes, totals, oldest, forks, olders, jumps)
        stamps, live = np.zeros(room, np.int64), np.empty(room, np.int64)
        self._marks = kernels.Marks(stamps, live, np.empty(room, np.int32), np.empty(room, np.int32))
        self.counts, self.since = np.empty(ends.size, np.int64), np.empty(ends.size, np.int32)
        kernels.count_ends(ends, horizons, self._histories, self._marks, self.counts, self.since)

    def draw(self, entries: Array, within: Array) -> Iterator[tuple[Array, Array]]:
        """The matches with the given ends and numbers, in blocks of chains: (nodes, the last node of each)."""
        begin, room = 0, 1 << 12
        while begin < entries.size:
            chains, lasts = np.empty((FIELDS, room), np.int32), np.empty(entries.size - begin, np.int32)
            done = kernels.draw(entries, within, begin, self.ends, self._horizons, self._histories, self._marks, chains, lasts)
            if done:
                yield chains, lasts[:done]
            else:
                room *= 2
            begin += done


class CompressedReader:
    """Makes match rows of compressed ones, all of which have the same variables."""

    def __init__(self, schema: pa.Schema, variables: Variables) -> None:
        require_columns(schema)
        self._variables = variables
        self._kleene = np.array([kleene for _, kleene in variables], np.uint8)
        event = schema.field("events").type.value_type
        self._struct = pa.struct([pa.field(field.name, field.type) for field in event])
        self.schema = verbose_schema(self._struct, schema.field("match_start").type, variables)

    def read(self, batch: pa.RecordBatch, blocks: Iterator[int] | None = None) -> Iterator[pa.RecordBatch]:
        """The matches of some rows, block by block; `blocks` says how many to read each time."""
        for piece in self._pieces(batch):
            yield from self._read(piece, piece.nodes, piece.ends, piece.since, blocks)

    def pick(self, batch: pa.RecordBatch, rows: Array, ranks: Array) -> Iterator[pa.RecordBatch]:
        """The matches with the given numbers in the given rows, both ascending."""
        begin = 0
        for piece in self._pieces(batch):
            size = piece.end_offsets.size - 1
            low, high = np.searchsorted(rows, (begin, begin + size))
            if low < high:
                times = np.arange(len(piece.events), dtype=np.int64)
                counted = Counted(piece.nodes, piece.ends, piece.since.astype(np.int64) - 1, times)
                entries, within = np.empty(high - low, np.int64), np.empty(high - low, np.int64)
                kernels.locate(rows[low:high] - begin, ranks[low:high], piece.end_offsets, counted.counts, entries, within)
                for chains, lasts in counted.draw(entries, within):
                    yield from self._read(piece, chains, lasts, np.zeros(lasts.size, np.int32))
            begin += size

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[_Piece]:
        """Rows of one query with about PIECE nodes."""
        if batch.num_rows == 0:
            return
        if variables_of(batch) != self._variables:
            raise _several_queries()
        nodes = view(pc.list_value_length(batch.column("nodes"))).cumsum(dtype=np.int64)
        seeds = view(batch.column("seed"))
        names = view(pc.dictionary_encode(batch.column("query")).indices)
        changes = np.append(np.flatnonzero((seeds[1:] != seeds[:-1]) | (names[1:] != names[:-1])) + 1, batch.num_rows)
        begin = 0
        for change in changes.tolist():
            while begin < change:
                before = int(nodes[begin - 1]) if begin else 0
                end = min(change, max(begin + 1, int(np.searchsorted(nodes, before + PIECE, side="right"))))
                yield _piece(batch.slice(begin, end - begin))
                begin = end

    def _read(
        self, piece: _Piece, nodes: Array, ends: Array, since: Array, blocks: Iterator[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        length, count = len(self._variables), len(piece.events)
        # A start is alive if its number is greater than that of the "event" of its end: one less than `since`.
        found = np.stack((ends, count + np.arange(ends.size))).astype(np.int64)
        clock = np.concatenate((np.arange(count), since.astype(np.int64) - 1))
        reading = Reading(
            stack=np.empty((2, 64), np.int64),
            path=np.empty((2, 64), np.int64),
            written=nothing_written(nodes.shape[1]),
            cursor=np.zeros(CURSOR_FIELDS, np.int64),
        )
        cursor = reading.cursor
        cursor[AT_EVENT] = -1
        room, status, most = 0, TOO_LONG, np.iinfo(np.int64).max
        none = np.empty((length, 0), np.int32)
        block = Block(np.empty(0, np.int32), none, none, none)
        while status != READ:
            wanted = BLOCK if blocks is None else next(blocks, BLOCK)
            if wanted > block.singles.shape[1] or status == TOO_LONG:
                room = max(2 * room if status == TOO_LONG else room, 4 * wanted)
                block = Block(
                    begun=np.empty(wanted, np.int32),
                    singles=np.empty((length, wanted), np.int32),
                    offsets=np.zeros((length, wanted + 1), np.int32),
                    elements=np.empty((length, room if self._kleene.any() else 0), np.int32),
                )
            block.singles.fill(-1)
            status = read_matches(Buffer(nodes, found), clock, 0, self._kleene, most, False, reading, block)
            if status == STACK_FULL:
                stack, path = reading.stack, reading.path
                reading = reading._replace(
                    stack=np.concatenate((stack, stack), axis=1), path=np.concatenate((path, path), axis=1)
                )
            if cursor[MATCHES]:
                yield self._batch(piece, int(cursor[MATCHES]), block)

    def _batch(self, piece: _Piece, count: int, block: Block) -> pa.RecordBatch:
        """A block of matches as verbose output has them; an absent variable is -1, or has no elements."""
        ids = np.full(count, np.int64(piece.seed).view(np.uint64))
        first, last = np.full(count, len(piece.events), np.int64), np.full(count, -1, np.int64)
        columns: list[pa.Array] = []
        factor = FIRST_FACTOR
        with np.errstate(over="ignore"):
            for index, (_, kleene) in enumerate(self._variables):
                if kleene:
                    its = block.offsets[index, : count + 1]
                    inside = block.elements[index, : its[-1]]
                    words = np.empty(count, np.uint64)
                    hash_lists(its, inside, piece.hashes, words)
                    ids += words * np.uint64(factor)
                    bound = np.flatnonzero(its[1:] > its[:-1])
                    begins, ends = inside.take(its[:-1].take(bound)), inside.take(its[1:].take(bound) - 1)
                    columns.append(self._list(piece, its, inside, bound.size == count))
                else:
                    its = block.singles[index, :count]
                    add_events(ids, piece.hashes, its, np.uint64(factor))
                    bound = np.flatnonzero(its >= 0)
                    begins = ends = its.take(bound)
                    columns.append(self._structs(piece, its, bound.size == count))
                first[bound] = np.minimum(first[bound], begins)
                last[bound] = np.maximum(last[bound], ends)
                factor = next_factor(factor)
            finish_ids(ids)
        head = [
            pa.repeat(pa.scalar(piece.query), count),
            pa.array(ids.view(np.int64)),
            take_places(piece.times, first),
            take_places(piece.times, last),
        ]
        return pa.RecordBatch.from_arrays([*head, *columns], schema=self.schema)

    def _structs(self, piece: _Piece, places: Array, whole: bool) -> pa.Array:
        if not whole:
            return piece.events.take(pa.array(places, mask=places < 0))
        children = [take_places(piece.events.field(index), places) for index in range(self._struct.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(self._struct))

    def _list(self, piece: _Piece, offsets: Array, places: Array, whole: bool) -> pa.Array:
        absent = None if whole else pa.array(offsets[1:] == offsets[:-1])
        return pa.ListArray.from_arrays(pa.array(offsets.copy()), self._structs(piece, places, True), mask=absent)


def require_columns(schema: pa.Schema) -> None:
    """Refuses what is not compressed output."""
    missing = [f"'{name}'" for name in COLUMNS if name not in schema.names]
    if missing:
        message = f"these are not compressed matches: {', '.join(missing)} missing among their columns"
        raise DataError(Problem(message, hint="ask for them with match(..., output='compressed')"))


def verbose_schema(event: pa.StructType, time: pa.DataType, variables: Variables) -> pa.Schema:
    """The columns of verbose output."""
    head = {"query": pa.string(), "match_id": pa.int64(), "match_start": time, "match_end": time}
    fields = [pa.field(name, kind, nullable=False) for name, kind in head.items()]
    return pa.schema([*fields, *(pa.field(name, pa.list_(event) if kleene else event) for name, kleene in variables)])


def variables_of(batch: pa.RecordBatch) -> Variables | None:
    """The variables of the rows' query; None if there are no rows."""
    if batch.num_rows == 0:
        return None
    column = batch.column("variables")
    lengths = view(pc.list_value_length(column))
    values = column.flatten()
    size = int(lengths[0])
    names = pc.dictionary_encode(values.field("name"))
    codes = view(names.indices) * 2 + view(values.field("kleene"))
    if (lengths != size).any() or (codes.reshape(-1, size) != codes[:size]).any():
        raise _several_queries()
    first = values.slice(0, size)
    return tuple(zip(first.field("name").to_pylist(), first.field("kleene").to_pylist(), strict=True))


def _several_queries() -> DataError:
    return DataError(Problem("these rows are of queries with different variables", hint="filter them by 'query' first"))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows of one query, their lists put together; numbers are places in those."""

    query: str
    seed: int
    events: pa.StructArray
    times: pa.Array
    hashes: Array
    """By event; the last is 0, for the event -1."""
    nodes: Array
    ends: Array
    since: Array
    end_offsets: Array


def _piece(batch: pa.RecordBatch) -> _Piece:
    event_offsets, events = _flat(batch.column("events"))
    _, hashes = _flat(batch.column("hashes"))
    node_offsets, values = _flat(batch.column("nodes"))
    end_offsets, ends = _flat(batch.column("ends"))
    nodes = np.empty((FIELDS, len(values)), np.int32)
    for row, field in enumerate(NODE):
        nodes[row] = view(values.field(field.name))
    kernels.shift(nodes, node_offsets, event_offsets, 1)
    lengths = np.diff(end_offsets)
    return _Piece(
        batch.column("query")[0].as_py(),
        batch.column("seed")[0].as_py(),
        events,
        events.field(batch.column("time")[0].as_py()),
        np.append(view(hashes).view(np.uint64), np.uint64(0)),
        nodes,
        (view(ends.field("node")) + np.repeat(node_offsets[:-1], lengths)).astype(np.int32),
        (view(ends.field("since")) + np.repeat(event_offsets[:-1], lengths)).astype(np.int32),
        end_offsets,
    )


def _flat(column: pa.Array) -> tuple[Array, pa.Array]:
    """The values of a list column, and where each list begins in them."""
    offsets = view(column.offsets).astype(np.int64)
    return offsets - offsets[0], column.values.slice(offsets[0], offsets[-1] - offsets[0])
