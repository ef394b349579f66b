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

from typing import Any

import numpy as np

from kleene.engine.kernels import inlined, kernel
from kleene.engine.kernels.counting import (
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
    lowest_bit,
    plus,
    times,
)

Array = np.ndarray[Any, Any]

ONE = 0
"""The source of operations that begin a match: they change the cells of the event's own start only."""

# Fields of a connection.
FIRST_RING, BEFORE, SOURCE_RING, SOURCE_CELL, RING = range(5)
"""The ring of the first piece; the connection before (-1: none); the ring and the cell of the piece before; the own ring."""

# Fields of a value's term.
TERM_CELL, TERM_RING, TERM_CONNECTION = range(3)


@inlined
def run_over(
    kind: int,
    target: int,
    source: int,
    weight: int,
    float_weight: float,
    begin: int,
    end: int,
    cells: Array,
    floats: Array,
) -> None:
    """One operation on the cells of the start events [begin, end) of a ring."""
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
def begin_with(kind: int, target: int, weight: int, float_weight: float, start: int, cells: Array, floats: Array) -> None:
    """An operation on a start event's own cells, whose source counts one."""
    if kind == ADD:
        cells[target, start] = 1
    elif kind in (ADD_WEIGHTED, RAISE_TO):
        cells[target, start] = weight
    else:
        floats[target, start] = float_weight


@inlined
def connect(
    number: int,
    start: int,
    connections: Array,
    heads: Array,
    tails: Array,
    cells: Array,
    snapshots: Array,
    snapshot_at: Array,
    known: Array,
) -> None:
    """Takes the snapshot of a start event: sums, from each live start event of the first piece on, of the matches before it."""
    first = connections[number, FIRST_RING]
    before = connections[number, BEFORE]
    ring = connections[number, SOURCE_RING]
    cell = connections[number, SOURCE_CELL]
    row = snapshot_at[number, 0] + (start & snapshot_at[number, 1]) * (snapshot_at[number, 2] + 1)
    known[number, start & snapshot_at[number, 1]] = tails[first]
    total: Any = np.int64(0)
    for a in range(tails[first] - 1, heads[first] - 1, -1):
        if before < 0:
            total = plus(total, cells[cell, a])
        else:
            total = np.int64(0)
            for d in range(heads[ring], tails[ring]):
                if a < known[before, d & snapshot_at[before, 1]]:
                    at = snapshot_at[before, 0] + (d & snapshot_at[before, 1]) * (snapshot_at[before, 2] + 1)
                    total = plus(total, times(snapshots[at + (a & snapshot_at[before, 2])], cells[cell, d]))
        snapshots[row + (a & snapshot_at[number, 2])] = total


@inlined
def value_of(
    kind: int,
    begin: int,
    end: int,
    terms: Array,
    connections: Array,
    heads: Array,
    tails: Array,
    cells: Array,
    floats: Array,
    snapshots: Array,
    snapshot_at: Array,
    known: Array,
) -> tuple[int, float]:
    """A slot's value over all live start events."""
    total: Any = NONE if kind == LARGEST else np.int64(0)
    float_total = 0.0
    for term in range(begin, end):
        cell = terms[term, TERM_CELL]
        ring = terms[term, TERM_RING]
        number = terms[term, TERM_CONNECTION]
        if number >= 0:
            oldest = heads[connections[number, FIRST_RING]]
            for s in range(heads[ring], tails[ring]):
                if oldest < known[number, s & snapshot_at[number, 1]] and cells[cell, s] != 0:
                    at = snapshot_at[number, 0] + (s & snapshot_at[number, 1]) * (snapshot_at[number, 2] + 1)
                    total = plus(total, times(snapshots[at + (oldest & snapshot_at[number, 2])], cells[cell, s]))
        elif kind == FLOAT_TOTAL:
            for s in range(heads[ring], tails[ring]):
                float_total += floats[cell, s]
        elif kind == LARGEST:
            for s in range(heads[ring], tails[ring]):
                total = max(total, cells[cell, s])
        else:
            total = plus(total, sum_of(cells[cell], heads[ring], tails[ring]))
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
def drop(limit: int, heads: Array, tails: Array, ring_ts: Array) -> None:
    """Lets go of start events up to the time `limit`."""
    for ring in range(heads.size):
        while heads[ring] < tails[ring] and ring_ts[ring, heads[ring]] <= limit:
            heads[ring] += 1


@inlined
def write_values(
    query: int,
    position: int,
    slot_ranges: Array,
    slots: Array,
    terms: Array,
    connections: Array,
    heads: Array,
    tails: Array,
    cells: Array,
    floats: Array,
    snapshots: Array,
    snapshot_at: Array,
    known: Array,
    bases: Array,
    values: Array,
    float_values: Array,
) -> None:
    for slot in range(slot_ranges[query], slot_ranges[query + 1]):
        total, float_total = value_of(
            slots[slot, 0],
            slots[slot, 1],
            slots[slot, 2],
            terms,
            connections,
            heads,
            tails,
            cells,
            floats,
            snapshots,
            snapshot_at,
            known,
        )
        if slots[slot, 0] == FLOAT_TOTAL:
            float_values[bases[slot] + position] = float_total
        else:
            values[bases[slot] + position] = total


@kernel
def count_marked(
    offsets: Array,
    ts: Array,
    rank: Array,
    masks: Array,
    window: int,
    since: int,
    starts: int,
    triggers: int,
    ring_of: Array,
    ring_ranges: Array,
    ring_cells: Array,
    ring_float_ranges: Array,
    ring_floats: Array,
    initial: Array,
    ranges: Array,
    operations: Array,
    operation_rings: Array,
    weights: Array,
    float_weights: Array,
    connection_ranges: Array,
    connection_list: Array,
    connections: Array,
    heads: Array,
    tails: Array,
    ring_ts: Array,
    cells: Array,
    floats: Array,
    snapshots: Array,
    snapshot_at: Array,
    known: Array,
    trigger_ranges: Array,
    trigger_queries: Array,
    start_ranges: Array,
    start_queries: Array,
    slot_ranges: Array,
    slots: Array,
    terms: Array,
    peak: Array,
    seen: Array,
    positions: Array,
    place_bases: Array,
    places: Array,
    bases: Array,
    values: Array,
    float_values: Array,
    expiries: bool,
    until: int,
    expiry_seen: Array,
    expiry_positions: Array,
    expiry_bases: Array,
    expiry_places: Array,
    expiry_slot_bases: Array,
    expiry_values: Array,
    expiry_floats: Array,
) -> None:
    """Values at every trigger from the time `since` on and, with `expiries`, after start events expire, up to the time `until`.

    `starts` are the tests that begin a piece, `ring_of` their rings. `peak` takes the most start events alive at a time.
    """
    levels = ranges.shape[1] - 1
    for partition in range(offsets.size - 1):
        end = offsets[partition + 1]
        for ring in range(heads.size):
            heads[ring] = 0
            tails[ring] = 0
        expiring = offsets[partition]
        place = offsets[partition]
        while True:
            now = ts[place] if place < end else until
            while expiries and expiring < place and ts[expiring] + window <= now:
                at = expiring
                started: Any = np.int64(0)
                while expiring < place and ts[expiring] == ts[at]:
                    started |= masks[expiring] & starts
                    expiring += 1
                if started:
                    drop(ts[at], heads, tails, ring_ts)
                while started:
                    bit = lowest_bit(started)
                    started &= started - 1
                    for k in range(start_ranges[bit], start_ranges[bit + 1]):
                        query = start_queries[k]
                        if expiry_seen[query] != at:
                            expiry_seen[query] = at
                            expiry_places[expiry_bases[query] + expiry_positions[query]] = at
                            write_values(
                                query,
                                expiry_positions[query],
                                slot_ranges,
                                slots,
                                terms,
                                connections,
                                heads,
                                tails,
                                cells,
                                floats,
                                snapshots,
                                snapshot_at,
                                known,
                                expiry_slot_bases,
                                expiry_values,
                                expiry_floats,
                            )
                            expiry_positions[query] += 1
            if place >= end:
                break
            last = place + 1
            found = masks[place]
            while last < end and rank[last] == rank[place]:
                found |= masks[last]
                last += 1
            drop(now - window, heads, tails, ring_ts)
            # Snapshots first: simultaneous events do not follow one another.
            for at in range(place, last):
                begun = masks[at] & starts
                while begun:
                    lowest = begun & -begun
                    begun &= begun - 1
                    ring = ring_of[lowest_bit(lowest)]
                    start = tails[ring]  # what it will be: simultaneous start events take their places below
                    for other in range(place, at):
                        start += 1 if masks[other] & lowest else 0
                    for k in range(connection_ranges[ring], connection_ranges[ring + 1]):
                        connect(
                            connection_list[k],
                            start,
                            connections,
                            heads,
                            tails,
                            cells,
                            snapshots,
                            snapshot_at,
                            known,
                        )
            # Level by level; those of an only test of an only event at once.
            at_once = levels if last - place == 1 and found & (found - 1) == 0 else 1
            for level in range(0, levels, at_once):
                for at in range(place, last):
                    rest = masks[at]
                    while rest:
                        bit = lowest_bit(rest)
                        rest &= rest - 1
                        for k in range(ranges[bit, level], ranges[bit, level + at_once]):
                            if begins(operations[k, 0], operations[k, 2]):
                                continue
                            ring = operation_rings[k]
                            carried = operations[k, 0]
                            whole = carried in (ADD_WEIGHTED, RAISE_TO)
                            run_over(
                                carried,
                                operations[k, 1],
                                operations[k, 2],
                                weights[operations[k, 3], at] if whole else 0,
                                float_weights[operations[k, 3], at] if carried == ADD_WEIGHTED_FLOAT else 0.0,
                                heads[ring],
                                tails[ring],
                                cells,
                                floats,
                            )
            for at in range(place, last):
                begun = masks[at] & starts
                while begun:
                    bit = lowest_bit(begun)
                    begun &= begun - 1
                    ring = ring_of[bit]
                    start = tails[ring]
                    tails[ring] += 1
                    ring_ts[ring, start] = ts[at]
                    for k in range(ring_ranges[ring], ring_ranges[ring + 1]):
                        cells[ring_cells[k], start] = initial[ring_cells[k]]
                    for k in range(ring_float_ranges[ring], ring_float_ranges[ring + 1]):
                        floats[ring_floats[k], start] = 0.0
                    for k in range(ranges[bit, 0], ranges[bit, levels]):
                        if begins(operations[k, 0], operations[k, 2]):
                            carried = operations[k, 0]
                            whole = carried in (ADD_WEIGHTED, RAISE_TO)
                            begin_with(
                                carried,
                                operations[k, 1],
                                weights[operations[k, 3], at] if whole else 0,
                                float_weights[operations[k, 3], at] if carried == ADD_WEIGHTED_FLOAT else 0.0,
                                start,
                                cells,
                                floats,
                            )
            alive: Any = np.int64(0)
            for ring in range(heads.size):
                alive += tails[ring] - heads[ring]
            peak[0] = max(peak[0], alive)
            if found & triggers and now >= since:
                for at in range(place, last):
                    asked = masks[at] & triggers
                    while asked:
                        bit = lowest_bit(asked)
                        asked &= asked - 1
                        for k in range(trigger_ranges[bit], trigger_ranges[bit + 1]):
                            query = trigger_queries[k]
                            if seen[query] != at:
                                seen[query] = at
                                places[place_bases[query] + positions[query]] = at
                                write_values(
                                    query,
                                    positions[query],
                                    slot_ranges,
                                    slots,
                                    terms,
                                    connections,
                                    heads,
                                    tails,
                                    cells,
                                    floats,
                                    snapshots,
                                    snapshot_at,
                                    known,
                                    bases,
                                    values,
                                    float_values,
                                )
                                positions[query] += 1
            place = last
