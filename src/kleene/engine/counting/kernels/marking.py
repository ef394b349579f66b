"""Start-event marking: a set of prefix cells for each live start event (A-Seq section 3.2), for any number of queries.

Start events of one test form a *ring*: their cells lie side by side, so an operation runs over all of them at once; those that
have left the window drop out at the head. Queries with a common prefix share its cells (PreTree, section 4.1).

A path may be chopped into pieces (Chop-Connect, section 4.2). Every piece is counted by itself, from its own start events, for
all queries that have it. The start event of a later piece takes a *snapshot*: how many matches of the pieces before it there
are, for each live start event of the first piece. A snapshot holds sums from each start event on, so what is still alive of it
is one look at the oldest live one. Through several connections the snapshot of a piece's start event is the sum of those of the
piece before, times what that has counted since.

Cost: an event, about 0.3 ns for each live start event of the rings it concerns; a start event of a later piece, one look at
every live start event before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.counting.kernels.counting import (
    ADD,
    ADD_FLOAT,
    ADD_WEIGHTED,
    ADD_WEIGHTED_FLOAT,
    CAP,
    CLEAR,
    CLEAR_FLOAT,
    FLOAT_TOTAL,
    LARGEST,
    NONE,
    RAISE,
    RAISE_TO,
    answer,
    ask,
    lowest_bit,
    plus,
    times,
)
from kleene.engine.counting.kernels.tables import Asked, Counts, Events, Operations, Period, Questions, Values, Weights
from kleene.engine.kernels import inlined, kernel

ONE = 0
"""The source of operations that begin a match: they change the cells of the event's own start only."""

# Fields of a connection.
FIRST_RING, BEFORE, SOURCE_RING, SOURCE_CELL, RING = range(5)
"""The ring of the first piece; the connection before (-1: none); the ring and the cell of the piece before; the own ring."""

# Fields of a value's term.
TERM_CELL, TERM_RING, TERM_CONNECTION = range(3)


class Rings(NamedTuple):
    """The start events of each ring, marked with their times (SEM, section 3.2): `[heads, tails)` are alive. Paths with
    a prefix in common share its cells (PreTree, section 4.1).
    """

    of: Array
    """The ring of each test."""
    ranges: Array
    cells: Array
    float_ranges: Array
    floats: Array
    heads: Array
    tails: Array
    ts: Array


class Connections(NamedTuple):
    """Where the pieces of chopped paths connect (Chop-Connect, section 4.2): what each ring takes snapshots for, and the
    snapshots (SnapShot).
    """

    ranges: Array
    numbers: Array
    table: Array
    snapshots: Array
    at: Array
    """Where the snapshots of each connection begin, and the masks of their rows and columns."""
    known: Array
    """How far the snapshot of each start event reaches."""


@inlined
def run_over(
    kind: int,
    target: int,
    source: int,
    weight: int,
    float_weight: float,
    begin: int,
    end: int,
    counts: Counts,
) -> None:
    """One operation on the cells of the start events [begin, end) of a ring."""
    cells = counts.cells
    floats = counts.floats
    if kind == ADD:
        own = cells[target]
        other = cells[source]
        for s in range(np.uint64(begin), np.uint64(end)):
            total = own[s] + other[s]
            own[s] = CAP if total < 0 else total
    elif kind == CLEAR:
        for s in range(begin, end):
            cells[target, s] = 0
    elif kind == ADD_WEIGHTED:
        for s in range(begin, end):
            cells[target, s] = plus(cells[target, s], times(cells[source, s], weight))
    elif kind == ADD_FLOAT:
        for s in range(begin, end):
            floats[target, s] += floats[source, s]
    elif kind == ADD_WEIGHTED_FLOAT:
        for s in range(begin, end):
            if cells[source, s] != 0:
                floats[target, s] += float(cells[source, s]) * float_weight
    elif kind == RAISE:
        for s in range(begin, end):
            cells[target, s] = max(cells[target, s], cells[source, s])
    elif kind == RAISE_TO:
        for s in range(begin, end):
            if cells[source, s] != 0:
                cells[target, s] = max(cells[target, s], weight)
    elif kind == CLEAR_FLOAT:
        for s in range(begin, end):
            floats[target, s] = 0.0
    else:
        for s in range(begin, end):
            cells[target, s] = NONE


@inlined
def begins(kind: int, source: int) -> bool:
    """Whether an operation begins a match: its source is the cell that is always one (sources of ADD_FLOAT are float cells)."""
    return source == ONE and kind < CLEAR and kind != ADD_FLOAT


@inlined
def begin_with(kind: int, target: int, weight: int, float_weight: float, start: int, counts: Counts) -> None:
    """An operation on a start event's own cells, whose source counts one."""
    if kind == ADD:
        counts.cells[target, start] = 1
    elif kind in (ADD_WEIGHTED, RAISE_TO):
        counts.cells[target, start] = weight
    else:
        counts.floats[target, start] = float_weight


@inlined
def snapshot(number: int, start: int, connections: Connections) -> Any:
    """Where the snapshot of a start event begins."""
    at = connections.at
    return at[number, 0] + (start & at[number, 1]) * (at[number, 2] + 1)


@inlined
def connect(number: int, start: int, connections: Connections, rings: Rings, cells: Array) -> None:
    """Takes the snapshot of a start event: sums, from each live start event of the first piece on, of the matches before it."""
    first = connections.table[number, FIRST_RING]
    before = connections.table[number, BEFORE]
    ring = connections.table[number, SOURCE_RING]
    cell = connections.table[number, SOURCE_CELL]
    row = snapshot(number, start, connections)
    connections.known[number, start & connections.at[number, 1]] = rings.tails[first]
    total: Any = np.int64(0)
    for a in range(rings.tails[first] - 1, rings.heads[first] - 1, -1):
        if before < 0:
            total = plus(total, cells[cell, a])
        else:
            total = alive(before, a, cell, ring, connections, rings, cells)
        connections.snapshots[row + (a & connections.at[number, 2])] = total


@inlined
def alive(number: int, oldest: int, cell: int, ring: int, connections: Connections, rings: Rings, cells: Array) -> Any:
    """What a piece has counted, times what its start events' snapshots have from a start event of the first piece on."""
    total: Any = np.int64(0)
    for s in range(rings.heads[ring], rings.tails[ring]):
        if oldest < connections.known[number, s & connections.at[number, 1]]:
            at = snapshot(number, s, connections) + (oldest & connections.at[number, 2])
            total = plus(total, times(connections.snapshots[at], cells[cell, s]))
    return total


@inlined
def value_of(
    kind: int, begin: int, end: int, terms: Array, connections: Connections, rings: Rings, counts: Counts
) -> tuple[int, float]:
    """A slot's value over all live start events."""
    total: Any = NONE if kind == LARGEST else np.int64(0)
    float_total = 0.0
    for term in range(begin, end):
        cell = terms[term, TERM_CELL]
        ring = terms[term, TERM_RING]
        number = terms[term, TERM_CONNECTION]
        if number >= 0:
            oldest = rings.heads[connections.table[number, FIRST_RING]]
            total = plus(total, alive(number, oldest, cell, ring, connections, rings, counts.cells))
        elif kind == FLOAT_TOTAL:
            for s in range(rings.heads[ring], rings.tails[ring]):
                float_total += counts.floats[cell, s]
        elif kind == LARGEST:
            for s in range(rings.heads[ring], rings.tails[ring]):
                total = max(total, counts.cells[cell, s])
        else:
            total = plus(total, sum_of(counts.cells[cell], rings.heads[ring], rings.tails[ring]))
    return total, float_total


@inlined
def sum_of(numbers: Array, begin: int, end: int) -> Any:
    """The sum of the numbers [begin, end), at most CAP: one by one only where they are so large that it may reach that."""
    total: Any = np.int64(0)
    largest: Any = np.int64(0)
    for s in range(np.uint64(begin), np.uint64(end)):
        total += numbers[s]
        largest = max(largest, numbers[s])
    if largest <= CAP // max(end - begin, 1):
        return total
    total = np.int64(0)
    for s in range(np.uint64(begin), np.uint64(end)):
        total = plus(total, numbers[s])
    return total


@inlined
def drop(limit: int, rings: Rings) -> None:
    """Lets go of start events up to the time `limit`."""
    heads = rings.heads
    for ring in range(heads.size):
        while heads[ring] < rings.tails[ring] and rings.ts[ring, heads[ring]] <= limit:
            heads[ring] += 1


@inlined
def write_marked(count: int, asked: Asked, values: Values, connections: Connections, rings: Rings, counts: Counts) -> None:
    """Writes the values of the queries that are asked for."""
    for k in range(count):
        query = asked.pending[k]
        for slot in range(values.slot_ranges[query], values.slot_ranges[query + 1]):
            kind = values.slots[slot, 0]
            begin = values.slots[slot, 1]
            total, float_total = value_of(kind, begin, values.slots[slot, 2], values.terms, connections, rings, counts)
            answer(query, slot, kind, total, float_total, asked)
        asked.positions[query] += 1


@inlined
def begin_start(
    bit: Any, at: int, ts: int, operations: Operations, weights: Weights, rings: Rings, initial: Array, counts: Counts
) -> None:
    """Adds the event at a place to the ring of its test."""
    ring = rings.of[bit]
    start = rings.tails[ring]
    rings.tails[ring] += 1
    rings.ts[ring, start] = ts
    for k in range(rings.ranges[ring], rings.ranges[ring + 1]):
        counts.cells[rings.cells[k], start] = initial[rings.cells[k]]
    for k in range(rings.float_ranges[ring], rings.float_ranges[ring + 1]):
        counts.floats[rings.floats[k], start] = 0.0
    table = operations.table
    for k in range(operations.ranges[bit, 0], operations.ranges[bit, operations.ranges.shape[1] - 1]):
        kind = table[k, 0]
        if begins(kind, table[k, 2]):
            weight = weights.integers[table[k, 3], at] if kind in (ADD_WEIGHTED, RAISE_TO) else 0
            float_weight = weights.floats[table[k, 3], at] if kind == ADD_WEIGHTED_FLOAT else 0.0
            begin_with(kind, table[k, 1], weight, float_weight, start, counts)


@kernel
def most_alive(events: Events, tests: int, window: int) -> int:
    """The most events that pass a test and are in one window of a partition."""
    most = 0
    for partition in range(events.offsets.size - 1):
        oldest = events.offsets[partition]
        alive = 0
        for place in range(events.offsets[partition], events.offsets[partition + 1]):
            if not events.masks[place] & tests:
                continue
            alive += 1
            while events.ts[oldest] <= events.ts[place] - window:
                alive -= 1 if events.masks[oldest] & tests else 0
                oldest += 1
            most = max(most, alive)
    return most


@kernel
def count_marked(
    events: Events,
    period: Period,
    starts: int,
    operations: Operations,
    operation_rings: Array,
    weights: Weights,
    initial: Array,
    counts: Counts,
    rings: Rings,
    connections: Connections,
    questions: Questions,
    peak: Array,
) -> None:
    """Values at every trigger from the time `since` on and, if `expiring`, after start events expire, up to the time `until`.

    `starts` are the tests that begin a piece. `peak` takes the most start events alive at a time.
    """
    window, since, until, expiring = period
    values, triggers, expiries = questions
    ts = events.ts
    masks = events.masks
    ranges = operations.ranges
    table = operations.table
    levels = ranges.shape[1] - 1
    for partition in range(events.offsets.size - 1):
        place = events.offsets[partition]
        end = events.offsets[partition + 1]
        for ring in range(rings.heads.size):
            rings.heads[ring] = 0
            rings.tails[ring] = 0
        expiry = place
        while True:
            now = ts[place] if place < end else until
            while expiring and expiry < place and ts[expiry] + window <= now:
                at = expiry
                started: Any = np.int64(0)
                while expiry < place and ts[expiry] == ts[at]:
                    started |= masks[expiry] & expiries.tests
                    expiry += 1
                if started:
                    drop(ts[at], rings)
                    write_marked(ask(started, at, expiries), expiries, values, connections, rings, counts)
            if place >= end:
                break
            last = place + 1
            found = masks[place]
            while last < end and events.rank[last] == events.rank[place]:
                found |= masks[last]
                last += 1
            drop(now - window, rings)
            # Snapshots first: simultaneous events do not follow one another.
            for at in range(place, last):
                begun = masks[at] & starts
                while begun:
                    lowest = begun & -begun
                    begun &= begun - 1
                    ring = rings.of[lowest_bit(lowest)]
                    start = rings.tails[ring]  # what it will be: simultaneous start events take their places below
                    for other in range(place, at):
                        start += 1 if masks[other] & lowest else 0
                    for k in range(connections.ranges[ring], connections.ranges[ring + 1]):
                        connect(connections.numbers[k], start, connections, rings, counts.cells)
            # Level by level; those of an only test of an only event at once.
            at_once = levels if last - place == 1 and found & (found - 1) == 0 else 1
            for level in range(0, levels, at_once):
                for at in range(place, last):
                    rest = masks[at]
                    while rest:
                        bit = lowest_bit(rest)
                        rest &= rest - 1
                        for k in range(ranges[bit, level], ranges[bit, level + at_once]):
                            kind = table[k, 0]
                            if begins(kind, table[k, 2]):
                                continue
                            weight = weights.integers[table[k, 3], at] if kind in (ADD_WEIGHTED, RAISE_TO) else 0
                            float_weight = weights.floats[table[k, 3], at] if kind == ADD_WEIGHTED_FLOAT else 0.0
                            ring = operation_rings[k]
                            begin = rings.heads[ring]
                            run_over(kind, table[k, 1], table[k, 2], weight, float_weight, begin, rings.tails[ring], counts)
            for at in range(place, last):
                begun = masks[at] & starts
                while begun:
                    begin_start(lowest_bit(begun), at, now, operations, weights, rings, initial, counts)
                    begun &= begun - 1
            live: Any = np.int64(0)
            for ring in range(rings.heads.size):
                live += rings.tails[ring] - rings.heads[ring]
            peak[0] = max(peak[0], live)
            if found & triggers.tests and now >= since:
                for at in range(place, last):
                    asked = ask(masks[at] & triggers.tests, at, triggers)
                    write_marked(asked, triggers, values, connections, rings, counts)
            place = last
