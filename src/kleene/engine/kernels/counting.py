"""Prefix counters over grouped rows, without a match ever being built (A-Seq), for one program of any number of queries.

A *segment* is a run of consecutive positions of a pattern; a *cell* counts its matches among the events seen (or adds up or
compares an attribute over them). An event at position j adds to every segment that ends there what the segment without it
counts; a negative event clears the segments that wait for the next position. Operations are sorted by the length of the segment
they change, longest first, clearing before adding, so that one event, or several simultaneous ones, never extend what they have
just made themselves.

Three ways with the window:

- `prefixes.count_all`: there is none. The cells of the prefixes are all that is kept (section 3.1).
- `marking.count_marked`: a set of prefix cells for each live start event, let go of when it expires (section 3.2).
- `count_stacked`: two stacks. The back counts all segments since the last turn; the front holds, for each start event before
  it, the counts of prefixes from there to the turn. A match is a prefix in front and the rest behind: a sum of products over
  the places to cut. When the front has expired, the back is gone over backwards to make a new one. An event is taken in once
  and turned over once, whatever the window: the cost does not grow with the number of live start events.

Integers saturate at `CAP`, which callers report as an overflow; all of them are counts or sums of what is not negative, so
whatever reaches it would have passed it. Cost: one to two nanoseconds an operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.engine.kernels import inlined, kernel

Array = np.ndarray[Any, Any]

CAP = np.int64(np.iinfo(np.int64).max)
NONE = np.int64(np.iinfo(np.int64).min)
"""The largest of no values."""

LIMIT = 9.2e18
"""Products up to here are computed, larger ones saturate: beyond it doubles no longer tell them apart."""

# Kinds of operations.
ADD, ADD_WEIGHTED, ADD_FLOAT, ADD_WEIGHTED_FLOAT, RAISE, RAISE_TO, CLEAR, CLEAR_FLOAT, CLEAR_LARGEST = range(9)

_KIND, _TARGET, _SOURCE, _WEIGHT = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
"""Columns of operations. Tables of places are unsigned: a signed index may be negative, which would have to be looked at."""

# Kinds of slots.
TOTAL, FLOAT_TOTAL, LARGEST = range(3)

# Terms of slots: a product of integers; a float in front or behind; a largest value in front or behind.
PRODUCT, FLOAT_FRONT, FLOAT_BACK, LARGEST_FRONT, LARGEST_BACK = range(5)

_0 = np.uint64(0)
_DEBRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACES = np.zeros(64, np.uint64)
for _bit in range(64):
    _PLACES[((1 << _bit) * int(_DEBRUIJN) % (1 << 64)) >> 58] = _bit


@inlined
def lowest_bit(mask: Any) -> Any:
    """The number of the lowest bit of a mask that has one."""
    low = np.uint64(mask & -mask)
    return _PLACES[(low * _DEBRUIJN) >> np.uint64(58)]


@inlined
def plus(left: Any, right: Any) -> Any:
    """The sum of two numbers that are not negative, at most CAP."""
    if right > CAP - left:
        return CAP
    return left + right


@inlined
def times(left: Any, right: Any) -> Any:
    """The product of two numbers that are not negative, at most CAP."""
    if (left | right) >> 31 == 0 or left == 0 or right == 0:
        return left * right
    if float(left) * float(right) >= LIMIT and left > CAP // right:
        return CAP
    return left * right


@inlined
def operate(
    begin: int, end: int, operations: Array, cells: Array, floats: Array, weights: Array, float_weights: Array, place: int
) -> None:
    """Applies operations (kind, target, source, weight) for the event at a place."""
    for k in range(begin, end):
        kind = operations[k, _KIND]
        target = operations[k, _TARGET]
        source = operations[k, _SOURCE]
        if kind == ADD:
            total = cells[target] + cells[source]
            cells[target] = CAP if total < 0 else total
        elif kind == CLEAR:
            cells[target] = 0
        elif kind == ADD_WEIGHTED:
            cells[target] = plus(cells[target], times(cells[source], weights[operations[k, _WEIGHT], place]))
        elif kind == ADD_FLOAT:
            floats[target] += floats[source]
        elif kind == ADD_WEIGHTED_FLOAT:
            if cells[source] != 0:
                floats[target] += float(cells[source]) * float_weights[operations[k, _WEIGHT], place]
        elif kind == RAISE:
            cells[target] = max(cells[target], cells[source])
        elif kind == RAISE_TO:
            if cells[source] != 0:
                cells[target] = max(cells[target], weights[operations[k, _WEIGHT], place])
        elif kind == CLEAR_FLOAT:
            floats[target] = 0.0
        else:
            cells[target] = NONE


@inlined
def take_in(
    first: int,
    last: int,
    masks: Array,
    ranges: Array,
    operations: Array,
    cells: Array,
    floats: Array,
    weights: Array,
    float_weights: Array,
) -> None:
    """Applies the operations of the simultaneous events [first, last): level by level, those of an only test at once."""
    levels = ranges.shape[1] - 1
    mask = masks[first]
    if last - first == 1 and mask & (mask - 1) == 0:
        bit = lowest_bit(mask)
        operate(ranges[bit, _0], ranges[bit, np.uint64(levels)], operations, cells, floats, weights, float_weights, first)
        return
    for level in range(levels):
        for place in range(first, last):
            rest = masks[place]
            while rest:
                bit = lowest_bit(rest)
                rest &= rest - 1
                operate(
                    ranges[bit, np.uint64(level)],
                    ranges[bit, np.uint64(level + 1)],
                    operations,
                    cells,
                    floats,
                    weights,
                    float_weights,
                    place,
                )


@inlined
def evaluate(
    kind: int,
    begin: int,
    end: int,
    terms: Array,
    live: bool,
    front: Array,
    float_front: Array,
    at: int,
    cells: Array,
    floats: Array,
) -> tuple[int, float]:
    """A slot's value: the sum (or the largest) of its terms (kind, column in front, cell behind); column -1 is the empty
    prefix. Without a live front only what lies behind counts.
    """
    total: Any = NONE if kind == LARGEST else np.int64(0)
    float_total = 0.0
    for term in range(begin, end):
        column = terms[term, 1]
        cell = terms[term, 2]
        if column >= 0 and not live:
            continue
        what = terms[term, 0]
        if what == PRODUCT:
            total = plus(total, cells[cell] if column < 0 else times(front[at, column], cells[cell]))
        elif what == FLOAT_FRONT:
            if cells[cell] != 0:
                float_total += float_front[at, column] * float(cells[cell])
        elif what == FLOAT_BACK:
            times_before = np.int64(1) if column < 0 else front[at, column]
            if times_before != 0:
                float_total += float(times_before) * floats[cell]
        elif what == LARGEST_FRONT:
            if cells[cell] != 0:
                total = max(total, front[at, column])
        elif column < 0 or front[at, column] != 0:
            total = max(total, cells[cell])
    return total, float_total


@inlined
def write_slots(
    query: int,
    position: int,
    slot_ranges: Array,
    slots: Array,
    terms: Array,
    live: bool,
    front: Array,
    float_front: Array,
    at: int,
    cells: Array,
    floats: Array,
    bases: Array,
    values: Array,
    float_values: Array,
) -> None:
    for slot in range(slot_ranges[query], slot_ranges[query + 1]):
        kind = slots[slot, 0]
        total, float_total = evaluate(kind, slots[slot, 1], slots[slot, 2], terms, live, front, float_front, at, cells, floats)
        if kind == FLOAT_TOTAL:
            float_values[bases[slot] + position] = float_total
        else:
            values[bases[slot] + position] = total


@inlined
def fill(cells: Array, floats: Array, from_cells: Array, from_floats: Array) -> None:
    for cell in range(cells.size):
        cells[cell] = from_cells[cell]
    for cell in range(floats.size):
        floats[cell] = from_floats[cell]


@inlined
def reset(cells: Array, floats: Array, initial: Array) -> None:
    """The cells before any event."""
    for cell in range(cells.size):
        cells[cell] = initial[cell]
    for cell in range(floats.size):
        floats[cell] = 0.0


@inlined
def turn(
    count: int,
    begin: int,
    end: int,
    ts: Array,
    rank: Array,
    masks: Array,
    starts: int,
    ranges: Array,
    operations: Array,
    cells: Array,
    floats: Array,
    weights: Array,
    float_weights: Array,
    kept: Array,
    float_kept: Array,
    front: Array,
    float_front: Array,
    front_ts: Array,
) -> int:
    """Goes over the places [begin, end) backwards, from the cells as they are, and adds to the front a row of prefix counts for
    each start event, the latest first; returns how many rows there are.
    """
    place = end
    while place > begin:
        first = place - 1
        while first > begin and rank[first - 1] == rank[first]:
            first -= 1
        take_in(first, place, masks, ranges, operations, cells, floats, weights, float_weights)
        started: Any = np.int64(0)
        for at in range(first, place):
            started |= masks[at] & starts
        if started:
            keep(count, kept, float_kept, cells, floats, front, float_front)
            front_ts[count] = ts[first]
            count += 1
        place = first
    return count


@inlined
def keep(row: int, kept: Array, float_kept: Array, cells: Array, floats: Array, front: Array, float_front: Array) -> None:
    """Writes the prefix cells as a row of the front."""
    for column in range(kept.size):
        front[row, column] = cells[kept[column]]
    for column in range(float_kept.size):
        float_front[row, column] = floats[float_kept[column]]


@inlined
def settle(
    limit: int,
    upto: int,
    oldest: int,
    back: int,
    ts: Array,
    rank: Array,
    masks: Array,
    starts: int,
    ranges: Array,
    operations: Array,
    initial: Array,
    cells: Array,
    floats: Array,
    weights: Array,
    float_weights: Array,
    kept: Array,
    float_kept: Array,
    front: Array,
    float_front: Array,
    front_ts: Array,
) -> tuple[int, int]:
    """Lets go of start events up to the time `limit`; turns the back over, up to a place, when the front has none left.

    Returns the row of the oldest live start event in front (-1: none) and the place of the first one behind (-1: none).
    """
    while oldest >= 0 and front_ts[oldest] <= limit:
        oldest -= 1
    if oldest < 0 and back >= 0 and ts[back] <= limit:
        first = back
        while first < upto and not (masks[first] & starts and ts[first] > limit):
            first += 1
        reset(cells, floats, initial)
        rows = turn(
            0,
            first,
            upto,
            ts,
            rank,
            masks,
            starts,
            ranges,
            operations,
            cells,
            floats,
            weights,
            float_weights,
            kept,
            float_kept,
            front,
            float_front,
            front_ts,
        )
        reset(cells, floats, initial)
        return rows - 1, -1
    return oldest, back


@kernel
def count_stacked(
    offsets: Array,
    ts: Array,
    rank: Array,
    masks: Array,
    window: int,
    since: int,
    starts: int,
    triggers: int,
    ranges: Array,
    operations: Array,
    backward_ranges: Array,
    backward_operations: Array,
    weights: Array,
    float_weights: Array,
    primed: int,
    lasting: int,
    between: Array,
    float_between: Array,
    initial: Array,
    cells: Array,
    floats: Array,
    kept: Array,
    float_kept: Array,
    front: Array,
    float_front: Array,
    front_ts: Array,
    trigger_ranges: Array,
    trigger_queries: Array,
    start_ranges: Array,
    start_queries: Array,
    slot_ranges: Array,
    slots: Array,
    terms: Array,
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

    The first `primed` places only make the first front, with `between`, the cells of what lies between them and the rest; with
    `lasting` some start events in between never expire here.
    """
    for partition in range(offsets.size - 1):
        begin = offsets[partition] + primed
        end = offsets[partition + 1]
        fill(cells, floats, between, float_between)
        rows = 0
        if lasting:
            keep(0, kept, float_kept, cells, floats, front, float_front)
            front_ts[0] = CAP
            rows = 1
        rows = turn(
            rows,
            offsets[partition],
            begin,
            ts,
            rank,
            masks,
            starts,
            backward_ranges,
            backward_operations,
            cells,
            floats,
            weights,
            float_weights,
            kept,
            float_kept,
            front,
            float_front,
            front_ts,
        )
        reset(cells, floats, initial)
        oldest = rows - 1
        back: Any = np.int64(-1)
        expiring = offsets[partition]
        place = begin
        while True:
            now = ts[place] if place < end else until
            while expiries and expiring < place and ts[expiring] + window <= now:
                at = expiring
                started: Any = np.int64(0)
                while expiring < place and ts[expiring] == ts[at]:
                    started |= masks[expiring] & starts
                    expiring += 1
                if not started:
                    continue
                oldest, back = settle(
                    ts[at],
                    place,
                    oldest,
                    back,
                    ts,
                    rank,
                    masks,
                    starts,
                    backward_ranges,
                    backward_operations,
                    initial,
                    cells,
                    floats,
                    weights,
                    float_weights,
                    kept,
                    float_kept,
                    front,
                    float_front,
                    front_ts,
                )
                while started:
                    bit = lowest_bit(started)
                    started &= started - 1
                    for k in range(start_ranges[bit], start_ranges[bit + 1]):
                        query = start_queries[k]
                        if expiry_seen[query] != at:
                            expiry_seen[query] = at
                            expiry_places[expiry_bases[query] + expiry_positions[query]] = at
                            write_slots(
                                query,
                                expiry_positions[query],
                                slot_ranges,
                                slots,
                                terms,
                                oldest >= 0,
                                front,
                                float_front,
                                oldest,
                                cells,
                                floats,
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
            take_in(place, last, masks, ranges, operations, cells, floats, weights, float_weights)
            if back < 0 and found & starts:
                back = place
                while not masks[back] & starts:
                    back += 1
            if found & triggers and ts[place] >= since:
                oldest, back = settle(
                    ts[place] - window,
                    last,
                    oldest,
                    back,
                    ts,
                    rank,
                    masks,
                    starts,
                    backward_ranges,
                    backward_operations,
                    initial,
                    cells,
                    floats,
                    weights,
                    float_weights,
                    kept,
                    float_kept,
                    front,
                    float_front,
                    front_ts,
                )
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
                                write_slots(
                                    query,
                                    positions[query],
                                    slot_ranges,
                                    slots,
                                    terms,
                                    oldest >= 0,
                                    front,
                                    float_front,
                                    oldest,
                                    cells,
                                    floats,
                                    bases,
                                    values,
                                    float_values,
                                )
                                positions[query] += 1
            place = last
