"""Pairs of events with a comparison between them: sums over all pairs that are alive, by the order of the values (a Fenwick
tree), in place of prefix counters.

Of the values of start events that wait, a tree adds up what lies below that of an event. Of the events that complete pairs, a
second one adds up those that a value lies below: how much more that is when a start event expires than it was when it came is
what expires with it. A forbidden event between the two closes the start events before it: they wait no longer, and keep what
they have.

The trees are over the ranks of the values in a *block*: events that come one after the other and, in time, reach over a window
or more. So trees stay as small as what is alive, and an event has a rank in its own block and one in the next, where it
may still wait. Cost: an event, three or four steps down a tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kleene.common.arrays import Array
from kleene.engine.counting.kernels.counting import TOTAL, answer, ask
from kleene.engine.counting.kernels.tables import Asked, Events, Period
from kleene.engine.kernels import inlined, kernel

UNRANKED = -1
"""The rank of an event that is not on a side of the comparison, or whose value satisfies none."""


class Sides(NamedTuple):
    """The tests of start events, of events that complete pairs, and of those that must not lie between, as masks."""

    first: int
    second: int
    between: int


class Ranks(NamedTuple):
    """By place the block, and the rank of a start event in its own block and in the next one."""

    block: Array
    """Blocks that do not go on in the next one are followed by a number that is none's."""
    own: Array
    following: Array


class Ranges(NamedTuple):
    """The ranks in its block of the start events that an event is in pairs with, by place: [begin, end); if `inverse`, all but
    [end, begin).
    """

    begin: Array
    end: Array
    inverse: bool


class Addends(NamedTuple):
    """What a pair adds to a sum: the product of a number of its first event and one of its second, by place."""

    first: Array
    second: Array


class Trees(NamedTuple):
    """Sums by rank: of start events that wait, of events that complete pairs; and what each start event has from earlier
    blocks, less what was in the tree when it came.
    """

    waiting: Array
    complete: Array
    kept: Array


@kernel
def cut_blocks(events: Events, reach: int, fewest: int, block: Array) -> int:
    """Writes the block of each place; returns how many numbers are used. A block has some events at least, and the next begins
    some time after it.
    """
    number = 0
    for partition in range(events.offsets.size - 1):
        start = events.offsets[partition]
        for place in range(start, events.offsets[partition + 1]):
            full = place - start >= fewest and events.ts[place] - events.ts[start] >= reach
            if full and events.rank[place] != events.rank[place - 1]:
                number += 1
                start = place
            block[place] = number
        number += 2
    return number


@kernel
def rank_values(
    codes: Array, order: Array, firsts: int, places: Array, sizes: Array, low: Array, high: Array, ranks: Ranks
) -> None:
    """Ranks values, given in ascending `order`, of which the first so many are those of start events. Of every other event
    `low` gets how many in its block are less, `high` how many are not greater; `sizes` how many each block has.
    """
    begin = 0
    while begin < order.size:
        end = begin + 1
        while end < order.size and codes[order[end]] == codes[order[begin]]:
            end += 1
        for k in range(begin, end):
            if order[k] >= firsts:
                place = places[order[k]]
                low[place] = sizes[ranks.block[place]]
        for k in range(begin, end):
            if order[k] < firsts:
                place = places[order[k]]
                number = ranks.block[place]
                ranks.own[place] = sizes[number]
                ranks.following[place] = sizes[number + 1]
                sizes[number] += 1
                sizes[number + 1] += 1
        for k in range(begin, end):
            if order[k] >= firsts:
                place = places[order[k]]
                high[place] = sizes[ranks.block[place]]
        begin = end


@inlined
def add(tree: Array, size: int, rank: int, value: Any) -> None:
    """Adds to what a tree has at a rank; beyond its size nothing is."""
    node = rank + 1
    while node <= size:
        tree[node] += value
        node += node & -node


@inlined
def below(tree: Array, rank: int) -> Any:
    """The sum of what a tree has below a rank."""
    total: Any = tree[0]
    node = rank
    while node > 0:
        total += tree[node]
        node &= node - 1
    return total


@inlined
def rank_in(block: int, place: int, ranks: Ranks) -> Any:
    """The rank of a start event in its own block, or in the next one."""
    return ranks.own[place] if ranks.block[place] == block else ranks.following[place]


@inlined
def close(begin: int, end: int, block: int, size: int, ranks: Ranks, addends: Addends, trees: Trees) -> None:
    """Ends the waiting of the start events of the places [begin, end)."""
    for place in range(begin, end):
        if ranks.own[place] >= 0:
            rank = rank_in(block, place, ranks)
            add(trees.waiting, size, rank, -addends.first[place])
            trees.kept[place] += below(trees.complete, rank + 1)


@inlined
def turn_to(block: int, begin: int, end: int, sizes: Array, ranks: Ranks, addends: Addends, trees: Trees) -> Any:
    """Empties the trees for a block, and takes over the start events that wait from the one before; returns its size."""
    for place in range(begin, end):
        if ranks.own[place] >= 0:
            trees.kept[place] += below(trees.complete, rank_in(block - 1, place, ranks) + 1)
    size = sizes[block]
    for node in range(size + 1):
        trees.waiting[node] = 0
        trees.complete[node] = 0
    for place in range(begin, end):
        if ranks.own[place] >= 0:
            add(trees.waiting, size, ranks.following[place], addends.first[place])
    return size


@inlined
def take_pair(place: int, size: int, waiting: Any, ranges: Ranges, value: Any, trees: Trees) -> Any:
    """Completes pairs with an event; returns what start events in them add up to. `waiting` is the sum of all that wait."""
    begin = ranges.begin[place]
    end = ranges.end[place]
    found = below(trees.waiting, end) - below(trees.waiting, begin)
    if ranges.inverse:
        found += waiting
        trees.complete[0] += value
    if begin == 0:
        trees.complete[0] += value
    else:
        add(trees.complete, size, begin, value)
    add(trees.complete, size, end, -value)
    return found


@inlined
def times(left: Any, right: Any, modulus: int) -> Any:
    """A product, or what is left of it."""
    return left % modulus * right % modulus if modulus else left * right


@inlined
def write_total(tests: Any, place: int, total: Any, modulus: int, asked: Asked) -> None:
    """Writes the sum at a place, if the query asks for it there."""
    if ask(tests, place, asked):
        answer(0, 0, TOTAL, total % modulus if modulus else total, 0.0, asked)
        asked.positions[0] += 1


@kernel
def count_pairs(
    events: Events,
    period: Period,
    sides: Sides,
    ranks: Ranks,
    ranges: Ranges,
    sizes: Array,
    addends: Addends,
    trees: Trees,
    modulus: int,
    windowed: bool,
    triggers: Asked,
    expiries: Asked,
) -> None:
    """The sum over the pairs that are alive at every trigger from the time `since` on and, if `expiring`, after start events
    expire, up to the time `until`: what is left of it after division by 2^64, or by another `modulus` below 2^31.
    """
    window, since, until, expiring = period
    ts = events.ts
    masks = events.masks
    for partition in range(events.offsets.size - 1):
        place = events.offsets[partition]
        end = events.offsets[partition + 1]
        head = place  # the oldest start event that is alive
        waits = place  # the oldest one that waits
        block = -1
        size = 0
        total = waiting = sizes[0] * 0
        while True:
            now = ts[place] if place < end else until
            due = place < end  # what has expired by now goes, step by step if somebody asks
            while windowed and (expiring or due) and head < place and ts[head] <= now - window:
                at = head
                started = masks[at] & 0
                while head < place and (ts[head] == ts[at] if expiring else ts[head] <= now - window):
                    started |= masks[head] & expiries.tests
                    if ranks.own[head] >= 0:
                        gone = trees.kept[head]
                        if head >= waits:
                            rank = rank_in(block, head, ranks)
                            add(trees.waiting, size, rank, -addends.first[head])
                            waiting -= addends.first[head]
                            gone += below(trees.complete, rank + 1)
                        total -= times(gone, addends.first[head], modulus)
                    head += 1
                waits = max(waits, head)
                if started:
                    write_total(started, at, total, modulus, expiries)
            if place >= end:
                break
            if ranks.block[place] != block:
                size = turn_to(ranks.block[place], waits, place, sizes, ranks, addends, trees)
                block = ranks.block[place]
            last = place
            forbidden = masks[place] & 0
            while last < end and events.rank[last] == events.rank[place]:
                forbidden |= masks[last] & sides.between
                if masks[last] & sides.second and ranges.end[last] >= 0:
                    value = addends.second[last]
                    total += times(take_pair(last, size, waiting, ranges, value, trees), value, modulus)
                last += 1
            if forbidden:
                close(waits, place, block, size, ranks, addends, trees)
                waits = place
                waiting = total * 0
            for at in range(place, last):
                if ranks.own[at] >= 0:
                    rank = rank_in(block, at, ranks)
                    add(trees.waiting, size, rank, addends.first[at])
                    waiting += addends.first[at]
                    trees.kept[at] = -below(trees.complete, rank + 1)
            if now >= since:
                for at in range(place, last):
                    if masks[at] & triggers.tests:
                        write_total(masks[at] & triggers.tests, at, total, modulus, triggers)
            place = last
