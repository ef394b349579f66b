"""The transformation operator: matches become rows (semantics, section 6).

A match row has `query`, `match_id`, `match_start`, `match_end`, then one struct per variable (a list of structs for a Kleene
variable, NULL for one of another branch) or the RETURN columns. The id is a hash of the query and of the events' contents (the
columns that the plan reads), so it is the same in every runtime and batch, and in every unit of time; identical simultaneous
events are told apart by their number.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import RepeatedText, row_numbers, time_type, view
from kleene.engine.events.placed import PlacedColumns, take_places
from kleene.engine.expressions.vectorized import widen
from kleene.engine.matches.kernels.identity import (
    FIRST_FACTOR,
    absorb,
    add_events,
    any_tied,
    finish_ids,
    hash_lists,
    hash_nanoseconds,
    hash_strings,
    list_unknown,
    next_factor,
    number_twins,
)
from kleene.engine.matches.match_values import Gather, MatchEvaluator, MatchRows, as_list
from kleene.engine.matches.matches import Matches
from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.policies import LogicalQuery
from kleene.pattern.text import query_text
from kleene.plan.contract import Transformation

NULL_WORD = np.uint64(0x5BD1E9955BD1E995)

WORTH_KEEPING = 8
"""Share of events (one in N) from which hashes are kept: below, a place for each event costs more than hashing some events
twice."""

AT_ONCE = 1 << 12
"""Number of events that take as long to hash as starting to hash."""


class WrittenPlan(Protocol):
    """What the writer needs of a plan."""

    @property
    def bound(self) -> BoundQuery: ...
    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the events that the plan reads."""

    @property
    def transformation(self) -> Transformation: ...


def match_schema(plan: WrittenPlan, events: pa.Schema) -> pa.Schema:
    """The columns of a plan's matches, for events with an Arrow schema."""
    time, components = time_type(events.field(plan.bound.schema.time).type), _positive(plan)
    head = [
        pa.field("query", pa.string(), nullable=False),
        pa.field("match_id", pa.int64(), nullable=False),
        pa.field("match_start", time, nullable=False),
        pa.field("match_end", time, nullable=False),
    ]
    if plan.transformation.columns:
        nothing = MatchRows(_no_matches(components))
        returned = MatchEvaluator(plan.bound, lambda name, _: pa.nulls(0, events.field(name).type), nothing).returned
        return pa.schema([*head, *(pa.field(alias, returned(item).type) for alias, item in plan.transformation.columns)])
    struct = _event_type(plan, events)
    return pa.schema([*head, *(pa.field(event.variable, _type_of(event, struct)) for event in components)])


def _positive(plan: WrittenPlan) -> list[Event]:
    """The positive components of all branches, in order of appearance."""
    return [event for event in plan.bound.components if not event.negated]


def _event_type(plan: WrittenPlan, events: pa.Schema) -> pa.StructType:
    return pa.struct([events.field(name).with_nullable(True) for name in plan.columns])


def _type_of(event: Event, struct: pa.StructType) -> pa.DataType:
    return pa.list_(struct) if event.is_kleene else struct


class MatchWriter:
    """Writes the matches of one plan."""

    def __init__(self, plan: WrittenPlan, events: pa.Schema) -> None:
        self._bound = plan.bound
        self._columns = plan.columns
        self._returns = plan.transformation.columns
        self._components = _positive(plan)
        self._struct = _event_type(plan, events)
        self._time = plan.bound.schema.time
        self._seed = np.uint64(query_seed(plan.bound.query))
        self._names = RepeatedText(plan.bound.query.name)
        self.schema = match_schema(plan, events)

    def narrow(self, names: Sequence[str]) -> None:
        """Leaves out all columns but these, and what has to be computed for the others."""
        self.schema = pa.schema([self.schema.field(name) for name in names], self.schema.metadata)

    def write(self, events: PlacedColumns, hashes: EventHashes, matches: Matches) -> pa.RecordBatch:
        """The rows of matches."""
        gather = _once(events.gather)
        returned = MatchEvaluator(self._bound, gather, MatchRows(matches)).returned
        columns: dict[str, Callable[[], pa.Array]] = {
            "query": lambda: self._names.times(matches.count),
            "match_id": lambda: self._match_ids(hashes, gather, matches),
            "match_start": lambda: gather(self._time, matches.first),
            "match_end": lambda: gather(self._time, matches.last),
        }
        if self._returns:
            columns |= {alias: partial(returned, item) for alias, item in self._returns}
        else:
            columns |= {event.variable: partial(self._variable, event, gather, matches) for event in self._components}
        return pa.RecordBatch.from_arrays([columns[name]() for name in self.schema.names], schema=self.schema)

    def _variable(self, event: Event, gather: Gather, matches: Matches) -> pa.Array:
        """The events of a variable: structs, lists of structs for Kleene, NULL where it is absent."""
        if event.variable in matches.singles:
            return self._structs(gather, matches.singles[event.variable])
        if event.variable in matches.lists:
            offsets, places = matches.lists[event.variable]
            return as_list(offsets, self._structs(gather, places))
        return pa.nulls(matches.count, _type_of(event, self._struct))

    def _structs(self, gather: Gather, places: Array) -> pa.Array:
        children = [gather(name, places) for name in self._columns]
        return pa.StructArray.from_arrays(children, fields=list(self._struct))

    def _match_ids(self, hashes: EventHashes, gather: Gather, matches: Matches) -> pa.Array:
        """A hash of the query and of the events under each variable; an absent variable only skips its factor."""

        def hashed(event: Event, places: Array) -> tuple[Array, Array]:
            is_written = not self._returns and event.variable in self.schema.names
            return hashes.at(places, (lambda name: gather(name, places)) if is_written else None)

        buffer = pa.allocate_buffer(8 * matches.count)
        ids = np.frombuffer(buffer, np.uint64)
        ids[:] = self._seed
        factor = FIRST_FACTOR
        with np.errstate(over="ignore"):
            for event in self._components:
                if event.variable in matches.singles:
                    add_events(ids, *hashed(event, matches.singles[event.variable]), np.uint64(factor))
                elif event.variable in matches.lists:
                    offsets, elements = matches.lists[event.variable]
                    words = np.empty(matches.count, np.uint64)
                    known, places = hashed(event, elements)
                    hash_lists(offsets, places, known, words)
                    ids += words * np.uint64(factor)
                factor = next_factor(factor)
            finish_ids(ids)
        return pa.Array.from_buffers(pa.int64(), matches.count, [None, buffer])


_seeds: deque[tuple[LogicalQuery, int]] = deque(maxlen=64)
"""Those of the last queries: the text of a query takes as long as matching some hundred events."""


def query_seed(query: LogicalQuery) -> int:
    """A hash of the query's meaning: its name and canonical text."""
    for known, seed in tuple(_seeds):
        if known is query:
            return seed
    digest = hashlib.blake2b(f"{query.name}\0{query_text(query)}".encode(), digest_size=8).digest()
    seed = int.from_bytes(digest, "big")
    _seeds.append((query, seed))
    return seed


def _once(gather: Gather) -> Gather:
    """Gathers each column at the same array of places only once."""
    found: dict[tuple[int, str], tuple[Array, pa.Array]] = {}

    def column(name: str, places: Array) -> pa.Array:
        key = (id(places), name)
        if key not in found:
            found[key] = places, gather(name, places)  # with the places, so that their id stays theirs
        return found[key][1]

    return column


def _no_matches(components: Sequence[Event]) -> Matches:
    """No matches in which no variable is absent, to see the types of what is computed from them."""
    nothing = np.empty(0, np.int64)
    singles = {event.variable: nothing for event in components if not event.is_kleene}
    lists = {event.variable: (np.zeros(1, np.int64), nothing) for event in components if event.is_kleene}
    return Matches(0, singles, lists, nothing, nothing)


class EventHashes:
    """A hash of each event's content, computed for the events that matches need.

    Identical simultaneous events are told apart by a number, so those that tie with a needed one are needed too.
    """

    def __init__(
        self, events: PlacedColumns, rank: Array, columns: tuple[str, ...], *, tied: bool, apart: bool = False
    ) -> None:
        """`apart` says whether simultaneous events may be identical that do not lie side by side."""
        self._events = events
        self._rank = rank if tied or apart else rank[:0]
        self._columns = columns
        self._apart = apart
        self._asked = 0
        self._times = 0
        """How many events were asked for, and how often the hashes that are kept."""
        self._hashes: Array | None = None
        """By place, once it is worth keeping them."""
        self._is_complete = False
        self._known = self._unknown = np.empty(0, np.int64)

    def at(self, places: Array, column: Callable[[str], pa.Array] | None = None) -> tuple[Array, Array]:
        """Hashes, and where in them those of the events at some places are; `column` gives columns gathered before."""
        self._asked += places.size
        is_few = WORTH_KEEPING * self._asked < len(self._events) or (column is not None and self._asked < len(self._events))
        if self._hashes is None and is_few and not self._is_tied(places):
            return self._hashed(column or self._columns_at(places), places.size), row_numbers(places.size)
        return self._kept(places), places

    def _is_tied(self, places: Array) -> bool:
        """Whether an event at one of some places may have to be told apart from another."""
        return self._apart or (self._rank.size > 0 and bool(any_tied(places, self._rank)))

    def _kept(self, places: Array) -> Array:
        """The hashes by place, filled for some places."""
        if self._is_complete or ((self._apart or AT_ONCE * self._times >= len(self._events)) and self._complete()):
            assert self._hashes is not None
            return self._hashes
        self._times += 1
        count = len(self._events)
        if self._hashes is None:
            self._hashes = np.empty(count, np.uint64)
            self._known, self._unknown = np.zeros(count, bool), np.empty(count, np.int64)
        new = self._unknown[: list_unknown(places, self._rank, self._known, self._unknown)]
        hashes = self._hashed(self._columns_at(new), new.size)
        if self._rank.size:
            _tell_apart(self._rank.take(new), hashes)
        self._hashes[new] = hashes
        return self._hashes

    def _complete(self) -> bool:
        """Hashes all events; returns whether that was possible: a time that no match has may be out of its range."""
        try:
            hashes = self._hashed(self._events.by_row, len(self._events))
        except pa.ArrowInvalid:
            if self._apart:
                raise
            self._times = 0  # it is tried again after as many calls
            return False
        self._hashes, self._is_complete = self._events.by_place(hashes), True
        if self._apart:
            order = np.argsort(self._rank, kind="stable")
            ordered = self._hashes.take(order)
            _tell_apart(self._rank.take(order), ordered)
            self._hashes[order] = ordered
        elif self._rank.size:
            _tell_apart(self._rank, self._hashes)
        return True

    def _columns_at(self, places: Array) -> Callable[[str], pa.Array]:
        return lambda name: take_places(*self._events.source(name, places))

    def _hashed(self, column: Callable[[str], pa.Array], count: int) -> Array:
        """Hashes of `count` events, given their columns."""
        hashes = np.zeros(count, np.uint64)
        with np.errstate(over="ignore"):
            for name in self._columns:
                if (words := _words(column(name))) is not None:
                    absorb(hashes, words)
        return hashes


def _tell_apart(rank: Array, hashes: Array) -> None:
    """Gives each of identical simultaneous events but the first a hash with its number, in place: only repeated events carry
    one, as whether others tie depends on what else is in the working set.
    """
    ordinals = np.zeros(hashes.size, np.uint64)
    number_twins(rank, hashes, np.empty(4 * hashes.size, np.int64), ordinals)
    repeated = np.flatnonzero(ordinals)
    told_apart = hashes[repeated]
    with np.errstate(over="ignore"):
        absorb(told_apart, ordinals[repeated])
    hashes[repeated] = told_apart


def _is_words(column: pa.Array) -> bool:
    """Whether values are their own words, up to their width."""
    kind = column.type
    words = pa.types.is_signed_integer(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us")
    return bool(words and column.null_count == 0)


def _integers(column: pa.Array) -> Array:
    """The values that are their own words, as they are in memory."""
    return view(column).view(f"i{column.type.bit_width // 8}")


def _words(column: pa.Array) -> Array | None:
    """One 64-bit word per value, the same for equal values of any width or unit; None for lists and structs."""
    if pa.types.is_dictionary(column.type) and column.null_count == 0:
        distinct = _words(column.dictionary)
        return None if distinct is None else distinct.take(column.indices.to_numpy(zero_copy_only=False))
    if _is_words(column):
        return _integers(column).astype(np.int64, copy=False).view(np.uint64)
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
    if (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)) and kind.unit == "ns":
        words = np.empty(len(column), np.uint64)
        hash_nanoseconds(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), words)
        return words
    if pa.types.is_integer(column.type) or pa.types.is_temporal(column.type):
        return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)).view(np.uint64)
    return None
