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

from kleene.common.arrays import Array
from kleene.engine.counting.kernels.tables import (
    Asked,
    Counts,
    Events,
    Front,
    Leading,
    Operations,
    Period,
    Questions,
    Values,
    Weights,
)
from kleene.engine.kernels import inlined, kernel

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

_0, _1 = np.uint64(0), np.uint64(1)
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
def operate(begin: Any, end: Any, table: Array, counts: Counts, weights: Weights, place: int) -> None:
    """Applies operations for the event at a place."""
    cells = counts.cells
    floats = counts.floats
    for k in range(begin, end):
        kind = table[k, _KIND]
        target = table[k, _TARGET]
        source = table[k, _SOURCE]
        if kind == ADD:
            total = cells[target] + cells[source]
            cells[target] = CAP if total < 0 else total
        elif kind == CLEAR:
            cells[target] = 0
        elif kind == ADD_WEIGHTED:
            cells[target] = plus(cells[target], times(cells[source], weights.integers[table[k, _WEIGHT], place]))
        elif kind == ADD_FLOAT:
            floats[target] += floats[source]
        elif kind == ADD_WEIGHTED_FLOAT:
            if cells[source] != 0:
                floats[target] += float(cells[source]) * weights.floats[table[k, _WEIGHT], place]
        elif kind == RAISE:
            cells[target] = max(cells[target], cells[source])
        elif kind == RAISE_TO:
            if cells[source] != 0:
                cells[target] = max(cells[target], weights.integers[table[k, _WEIGHT], place])
        elif kind == CLEAR_FLOAT:
            floats[target] = 0.0
        else:
            cells[target] = NONE


@inlined
def take_in(first: int, last: int, masks: Array, operations: Operations, counts: Counts, weights: Weights) -> None:
    """Applies the operations of the simultaneous events [first, last): level by level, those of an only test at once."""
    ranges = operations.ranges
    levels = ranges.shape[1] - 1
    mask = masks[first]
    if last - first == 1 and mask & (mask - 1) == 0:
        bit = lowest_bit(mask)
        operate(ranges[bit, _0], ranges[bit, np.uint64(levels)], operations.table, counts, weights, first)
        return
    for level in range(levels):
        for place in range(first, last):
            rest = masks[place]
            while rest:
                bit = lowest_bit(rest)
                rest &= rest - 1
                begin = ranges[bit, np.uint64(level)]
                operate(begin, ranges[bit, np.uint64(level + 1)], operations.table, counts, weights, place)


@inlined
def ask(tests: Any, place: int, asked: Asked) -> int:
    """Notes which queries an event that passes some tests asks for, each once; returns how many."""
    count = 0
    while tests:
        bit = lowest_bit(tests)
        tests &= tests - 1
        for k in range(asked.ranges[bit], asked.ranges[bit + _1]):
            query = asked.queries[k]
            if asked.seen[query] != place:
                asked.seen[query] = place
                asked.places[asked.place_bases[query] + asked.positions[query]] = place
                asked.pending[count] = query
                count += 1
    return count


@inlined
def ask_all(place: int, asked: Asked) -> int:
    """Notes all queries, for the value at a place; returns how many there are."""
    count = asked.positions.size
    for query in range(count):
        asked.places[asked.place_bases[query] + asked.positions[query]] = place
        asked.pending[query] = query
    return count


@inlined
def answer(query: int, slot: int, kind: int, total: Any, float_total: float, asked: Asked) -> None:
    """Writes the value of a query's slot."""
    position = asked.bases[slot] + asked.positions[query]
    if kind == FLOAT_TOTAL:
        asked.floats[position] = float_total
    else:
        asked.values[position] = total


@inlined
def evaluate(
    kind: int, begin: int, end: int, terms: Array, live: bool, front: Front, at: int, counts: Counts
) -> tuple[int, float]:
    """A slot's value: the sum (or the largest) of its terms (kind, column in front, cell behind); column -1 is the empty
    prefix. Without a live front only what lies behind counts.
    """
    cells = counts.cells
    total: Any = NONE if kind == LARGEST else np.int64(0)
    float_total = 0.0
    for term in range(begin, end):
        column = terms[term, 1]
        cell = terms[term, 2]
        if column >= 0 and not live:
            continue
        what = terms[term, 0]
        if what == PRODUCT:
            total = plus(total, cells[cell] if column < 0 else times(front.rows[at, column], cells[cell]))
        elif what == FLOAT_FRONT:
            if cells[cell] != 0:
                float_total += front.float_rows[at, column] * float(cells[cell])
        elif what == FLOAT_BACK:
            times_before = np.int64(1) if column < 0 else front.rows[at, column]
            if times_before != 0:
                float_total += float(times_before) * counts.floats[cell]
        elif what == LARGEST_FRONT:
            if cells[cell] != 0:
                total = max(total, front.rows[at, column])
        elif column < 0 or front.rows[at, column] != 0:
            total = max(total, cells[cell])
    return total, float_total


@inlined
def write_values(count: int, asked: Asked, values: Values, front: Front, at: int, counts: Counts) -> None:
    """Writes the values of the queries that are asked for; `at` is the oldest live row of the front, -1 if there is none."""
    for k in range(count):
        query = asked.pending[k]
        for slot in range(values.slot_ranges[query], values.slot_ranges[query + 1]):
            kind = values.slots[slot, 0]
            begin = values.slots[slot, 1]
            total, float_total = evaluate(kind, begin, values.slots[slot, 2], values.terms, at >= 0, front, at, counts)
            answer(query, slot, kind, total, float_total, asked)
        asked.positions[query] += 1


@inlined
def fill(counts: Counts, given: Counts) -> None:
    """Makes the cells those that are given."""
    for cell in range(counts.cells.size):
        counts.cells[cell] = given.cells[cell]
    for cell in range(counts.floats.size):
        counts.floats[cell] = given.floats[cell]


@inlined
def turn(
    count: int,
    begin: int,
    end: int,
    events: Events,
    starts: int,
    backward: Operations,
    counts: Counts,
    weights: Weights,
    front: Front,
) -> int:
    """Goes over the places [begin, end) backwards, from the cells as they are, and adds to the front a row of prefix counts for
    each start event, the latest first; returns how many rows there are.
    """
    place = end
    while place > begin:
        first = place - 1
        while first > begin and events.rank[first - 1] == events.rank[first]:
            first -= 1
        take_in(first, place, events.masks, backward, counts, weights)
        started: Any = np.int64(0)
        for at in range(first, place):
            started |= events.masks[at] & starts
        if started:
            keep(count, front, counts)
            front.ts[count] = events.ts[first]
            count += 1
        place = first
    return count


@inlined
def keep(row: int, front: Front, counts: Counts) -> None:
    """Writes the prefix cells as a row of the front."""
    for column in range(front.kept.size):
        front.rows[row, column] = counts.cells[front.kept[column]]
    for column in range(front.float_kept.size):
        front.float_rows[row, column] = counts.floats[front.float_kept[column]]


@inlined
def settle(
    limit: int,
    upto: int,
    oldest: int,
    back: int,
    events: Events,
    starts: int,
    backward: Operations,
    initial: Counts,
    counts: Counts,
    weights: Weights,
    front: Front,
) -> tuple[int, int]:
    """Lets go of start events up to the time `limit`; turns the back over, up to a place, when the front has none left.

    Returns the row of the oldest live start event in front (-1: none) and the place of the first one behind (-1: none).
    """
    while oldest >= 0 and front.ts[oldest] <= limit:
        oldest -= 1
    if oldest < 0 and back >= 0 and events.ts[back] <= limit:
        first = back
        while first < upto and not (events.masks[first] & starts and events.ts[first] > limit):
            first += 1
        fill(counts, initial)
        rows = turn(0, first, upto, events, starts, backward, counts, weights, front)
        fill(counts, initial)
        return rows - 1, -1
    return oldest, back


@kernel
def count_stacked(
    events: Events,
    period: Period,
    starts: int,
    forward: Operations,
    backward: Operations,
    weights: Weights,
    leading: Leading,
    initial: Counts,
    counts: Counts,
    front: Front,
    questions: Questions,
    begins: Asked,
) -> None:
    """Values at every trigger from the time `since` on and, if `expiring`, after start events expire, up to time `until`; then
    also those with which each partition `begins`: of all before that time.
    """
    window, since, until, expiring = period
    values, triggers, expiries = questions
    ts = events.ts
    masks = events.masks
    for partition in range(events.offsets.size - 1):
        first = events.offsets[partition]
        end = events.offsets[partition + 1]
        place = first + leading.places
        fill(counts, leading.counts)
        rows = 0
        if leading.lasting:
            keep(0, front, counts)
            front.ts[0] = CAP
            rows = 1
        oldest = turn(rows, first, place, events, starts, backward, counts, weights, front) - 1
        fill(counts, initial)
        back: Any = np.int64(-1)
        expiry = first
        begun = not expiring or since == NONE
        while True:
            now = ts[place] if place < end else until
            if not begun and now >= since:
                limit = since - 1 - window
                oldest, back = settle(limit, place, oldest, back, events, starts, backward, initial, counts, weights, front)
                write_values(ask_all(partition, begins), begins, values, front, oldest, counts)
                while expiry < place and ts[expiry] <= limit:
                    expiry += 1
                begun = True
            while begun and expiring and expiry < place and ts[expiry] + window <= now:
                at = expiry
                started: Any = np.int64(0)
                while expiry < place and ts[expiry] == ts[at]:
                    started |= masks[expiry] & starts
                    expiry += 1
                if started:
                    oldest, back = settle(
                        ts[at], place, oldest, back, events, starts, backward, initial, counts, weights, front
                    )
                    write_values(ask(started, at, expiries), expiries, values, front, oldest, counts)
            if place >= end:
                break
            last = place + 1
            found = masks[place]
            while last < end and events.rank[last] == events.rank[place]:
                found |= masks[last]
                last += 1
            take_in(place, last, masks, forward, counts, weights)
            if back < 0 and found & starts:
                back = place
                while not masks[back] & starts:
                    back += 1
            if found & triggers.tests and now >= since:
                oldest, back = settle(
                    now - window, last, oldest, back, events, starts, backward, initial, counts, weights, front
                )
                for at in range(place, last):
                    write_values(ask(masks[at] & triggers.tests, at, triggers), triggers, values, front, oldest, counts)
            place = last
