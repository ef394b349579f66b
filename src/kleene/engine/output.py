"""The transformation operator: sequences of events become match rows (semantics, section 6).

A match row has `query`, `match_id`, `match_start`, `match_end`, then one struct per variable or the RETURN columns. The id is
a hash of the query and of the events' contents (the columns that the plan reads), so it is the same in every runtime and
batch; identical simultaneous events are told apart by their number.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.engine.kernels.identity import absorb, hash_strings, match_ids
from kleene.engine.placed import WORTH_PLACING, PlacedColumns
from kleene.engine.vectorized import Evaluator, Rows, widen
from kleene.pattern.predicates import Attribute
from kleene.pattern.text import query_text
from kleene.plan.sequence import SequencePlan

Array = np.ndarray[Any, Any]

NULL_WORD = np.uint64(0x5BD1E9955BD1E995)


class MatchWriter:
    """Writes the matches of one plan."""

    def __init__(self, plan: SequencePlan, events: pa.Schema) -> None:
        self._plan = plan
        self._events = events
        self._variables = [event.variable for event in plan.scan.components]
        self._time = plan.bound.schema.time
        self._seed = np.uint64(query_seed(plan))
        self._names = pa.array([], pa.string())
        self.schema = self._output_schema()

    def _output_schema(self) -> pa.Schema:
        time = self._events.field(self._time).type
        head = [
            pa.field("query", pa.string(), nullable=False),
            pa.field("match_id", pa.int64(), nullable=False),
            pa.field("match_start", time, nullable=False),
            pa.field("match_end", time, nullable=False),
        ]
        if self._plan.transformation.columns:
            returned = self._returned(lambda _, name: pa.array([], self._events.field(name).type), 0)
            return pa.schema([*head, *(pa.field(alias, values.type) for alias, values in returned)])
        struct = pa.struct([self._events.field(name).with_nullable(True) for name in self._plan.columns])
        return pa.schema([*head, *(pa.field(variable, struct) for variable in self._variables)])

    def write(self, events: PlacedColumns, hashes: EventHashes, sequences: Array) -> pa.RecordBatch:
        """The match rows of sequences (places per component and sequence)."""
        count = sequences.shape[1]
        places = dict(zip(self._variables, sequences, strict=True))
        gathered: dict[tuple[str, str], pa.Array] = {}

        def column(variable: str, name: str) -> pa.Array:
            if (variable, name) not in gathered:
                gathered[variable, name] = events.gather(name, places[variable])
            return gathered[variable, name]

        columns: list[pa.Array] = [
            self._query_names(count),
            self._match_ids(hashes, sequences),
            column(self._variables[0], self._time),
            column(self._variables[-1], self._time),
        ]
        if self._plan.transformation.columns:
            columns += [values for _, values in self._returned(column, count)]
        else:
            fields = list(self.schema.field(self._variables[0]).type)
            for variable in self._variables:
                children = [column(variable, name) for name in self._plan.columns]
                columns.append(pa.StructArray.from_arrays(children, fields=fields))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _returned(self, column: Rows, count: int) -> list[tuple[str, pa.Array]]:
        """The RETURN columns: an attribute as it is in the events (NULL where the type lacks it), anything else computed."""
        evaluator = Evaluator(self._plan.bound, column, count)
        found: list[tuple[str, pa.Array]] = []
        for alias, item in self._plan.transformation.columns:
            if isinstance(item, Attribute):
                values = column(item.variable, item.name)
                lacking = evaluator.lacking(item)
                if lacking is not None:
                    values = pc.if_else(lacking, pa.scalar(None, values.type), values)
            else:
                values = evaluator.values(item)
            found.append((alias, values))
        return found

    def _query_names(self, count: int) -> pa.Array:
        if len(self._names) < count:
            self._names = pa.repeat(pa.scalar(self._plan.bound.query.name), count)
        return self._names.slice(0, count)

    def _match_ids(self, hashes: EventHashes, sequences: Array) -> pa.Array:
        count = sequences.shape[1]
        ids = pa.allocate_buffer(8 * count)
        with np.errstate(over="ignore"):
            match_ids(sequences, hashes.of(sequences), self._seed, np.frombuffer(ids, np.uint64))
        return pa.Array.from_buffers(pa.int64(), count, [None, ids])


def query_seed(plan: SequencePlan) -> int:
    """A hash of the query's meaning: its name and canonical text."""
    query = plan.bound.query
    digest = hashlib.blake2b(f"{query.name}\0{query_text(query)}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class EventHashes:
    """A hash of each event's content, by place; computed for the events that matches need."""

    def __init__(self, events: PlacedColumns, rank: Array, columns: tuple[str, ...], *, tied: bool) -> None:
        self._events = events
        self._rank = rank
        self._columns = columns
        self._hashes = np.zeros(len(events), np.uint64)
        self._known = np.zeros(len(events), bool)
        self._asked = 0
        self._all = tied
        """Identical simultaneous events are told apart among all events, so where there are ties all are computed."""

    def of(self, sequences: Array) -> Array:
        """The hashes by place, filled for the events of the sequences."""
        total = len(self._events)
        if self._asked < total:
            self._asked += sequences.size
            wanted = ~self._known
            if self._all or self._asked * WORTH_PLACING > total:
                self._asked = total  # all are known from here on
            else:
                used = np.zeros(total, bool)
                used[sequences.ravel()] = True
                wanted &= used
            places = np.flatnonzero(wanted)
            self._hashes[places] = self._compute(places)
            self._known |= wanted
        return self._hashes

    def _compute(self, places: Array) -> Array:
        hashes = np.zeros(places.size, np.uint64)
        with np.errstate(over="ignore"):
            for name in self._columns:
                words = _words(self._events.gather(name, places))
                if words is not None:
                    absorb(hashes, words)
            if self._all:
                # Only repeated events carry their number: whether others tie depends on what else is in the working set.
                ordinals = _ordinals(self._rank[places], hashes)
                repeated = np.flatnonzero(ordinals)
                told_apart = hashes[repeated]
                absorb(told_apart, ordinals[repeated])
                hashes[repeated] = told_apart
        return hashes


def _ordinals(rank: Array, hashes: Array) -> Array:
    """Numbers identical simultaneous rows 0, 1, ... in the order they stand."""
    order = np.lexsort((hashes, rank))
    sorted_hashes, sorted_rank = hashes[order], rank[order]
    new = np.ones(order.size, bool)
    new[1:] = (sorted_hashes[1:] != sorted_hashes[:-1]) | (sorted_rank[1:] != sorted_rank[:-1])
    positions = np.arange(order.size)
    ordinals = np.empty(order.size, np.uint64)
    ordinals[order] = positions - np.maximum.accumulate(np.where(new, positions, 0))
    return ordinals


def _words(column: pa.Array) -> Array | None:
    """One 64-bit word per value, the same for equal values of any width; None for kinds without one (lists, structs)."""
    if pa.types.is_dictionary(column.type) and column.null_count == 0:
        distinct = _words(column.dictionary)
        return None if distinct is None else distinct.take(column.indices.to_numpy(zero_copy_only=False))
    # An unsigned word of 64 bits is as good as a signed one.
    column = column.cast(pa.int64(), safe=False) if column.type == pa.uint64() else widen(column)
    known = None
    if column.null_count:
        known = column.is_valid().to_numpy(zero_copy_only=False)
    words = _plain_words(column)
    if words is not None and known is not None:
        words = np.where(known, words, NULL_WORD)
    return words


def _plain_words(column: pa.Array) -> Array | None:
    kind = column.type
    if pa.types.is_string(kind):
        hashes = np.empty(len(column), np.uint64)
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        data = column.buffers()[2]
        hash_strings(offsets, np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), hashes)
        return hashes
    if pa.types.is_floating(kind):
        values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    if pa.types.is_interval(kind):
        return None
    if pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int64())
    if pa.types.is_integer(column.type) or pa.types.is_temporal(column.type):
        return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)).view(np.uint64)
    return None
