"""`counting.count_stacked` for programs that only count, as most do: the prefixes of all patterns form a trie (the PreTree of
A-Seq section 4.1), and its counts are columns and rows of numbers that are added four at a time, without a branch.

Column n of the back counts, for each depth i, the segments from depth i to node n. An event of node n adds its parent's column
to its own; a negative event after it clears the column. Going backwards, row j counts for every node m the segments from depth
j of m's path to m: an event of node n, at depth j, adds row j to row j - 1 for all nodes of n's subtree. A row of the front is
row 0 at a start event. The value of a pattern is the sum, over the depths i of its path, of what the front has at depth i times
what the back has from there.

Cost: 10 to 15 ns an event for a pattern of up to four positions, whatever the window; a few more for each four nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kleene.engine.kernels import inlined, kernel
from kleene.engine.kernels.counter_tables import Asked, Events
from kleene.engine.kernels.counting import CAP, ask, lowest_bit, plus, times

Array = np.ndarray[Any, Any]

# Fields of an action: depth of its node, whether it adds (or clears), where its column and its parent's begin, where its row
# and the next begin, where the mask of its subtree begins.
DEPTH, ADDS, COLUMN, PARENT, ROW, BELOW, SUBTREE = (np.uint64(number) for number in range(7))
FIELDS = 7

_0, _1, _2, _3, _4 = (np.uint64(number) for number in range(5))


class Trie(NamedTuple):
    """A trie of prefixes as tables."""

    ranges: Array
    """The actions of each test."""
    actions: Array
    deepest: int
    width: Any
    """The length of a column."""
    nodes: Any
    """The length of a row, which has no place for the root."""
    subtrees: Array
    back: Array
    """The columns before any event."""
    turned: Array
    """The rows before any event."""
    leaf_ranges: Array
    """The leaves of each query."""
    paths: Array
    """The nodes from depth 1 to each leaf, then -1."""
    columns: Array
    """Where the column of each leaf begins."""


@inlined
def add_four(numbers: Array, target: Any, source: Any) -> None:
    """Adds four numbers to four others, all read before one is written; at most CAP."""
    a = numbers[target] + numbers[source]
    b = numbers[target + _1] + numbers[source + _1]
    c = numbers[target + _2] + numbers[source + _2]
    d = numbers[target + _3] + numbers[source + _3]
    numbers[target] = CAP if a < 0 else a
    numbers[target + _1] = CAP if b < 0 else b
    numbers[target + _2] = CAP if c < 0 else c
    numbers[target + _3] = CAP if d < 0 else d


@inlined
def add_masked(numbers: Array, target: Any, source: Any, subtrees: Array, mask: Any) -> None:
    """`add_four` of those numbers that a mask lets pass."""
    a = numbers[target] + (numbers[source] & subtrees[mask])
    b = numbers[target + _1] + (numbers[source + _1] & subtrees[mask + _1])
    c = numbers[target + _2] + (numbers[source + _2] & subtrees[mask + _2])
    d = numbers[target + _3] + (numbers[source + _3] & subtrees[mask + _3])
    numbers[target] = CAP if a < 0 else a
    numbers[target + _1] = CAP if b < 0 else b
    numbers[target + _2] = CAP if c < 0 else c
    numbers[target + _3] = CAP if d < 0 else d


@inlined
def forwards(action: Any, trie: Trie, back: Array) -> None:
    """An event of a node, as it comes."""
    column = trie.actions[action, COLUMN]
    piece = _0
    if trie.actions[action, ADDS]:
        parent = trie.actions[action, PARENT]
        add_four(back, column, parent)  # most columns have no more
        while piece + _4 < trie.width:
            piece += _4
            add_four(back, column + piece, parent + piece)
    else:
        while piece < trie.width:
            back[column + piece] = 0
            piece += _1


@inlined
def backwards(action: Any, trie: Trie, turned: Array) -> None:
    """An event of a node, when events are gone over backwards."""
    below = trie.actions[action, BELOW]
    mask = trie.actions[action, SUBTREE]
    piece = _0
    if trie.actions[action, ADDS]:
        row = trie.actions[action, ROW]
        add_masked(turned, row, below, trie.subtrees, mask)
        while piece + _4 < trie.nodes:
            piece += _4
            add_masked(turned, row + piece, below + piece, trie.subtrees, mask + piece)
    else:
        while piece < trie.nodes:
            turned[below + piece] &= ~trie.subtrees[mask + piece]
            piece += _1


@inlined
def refill(numbers: Array, initial: Array) -> None:
    """Makes the numbers what they begin with."""
    for number in range(numbers.size):
        numbers[number] = initial[number]


@inlined
def at_depth(depth: Any, first: Any, last: Any, backward: bool, masks: Array, trie: Trie, numbers: Array) -> None:
    """Applies the actions of one depth of the simultaneous events [first, last): clearing before adding as events come, after
    it when they are gone over backwards.
    """
    for second in range(2):
        for place in range(first, last):
            rest = masks[place]
            while rest:
                bit = lowest_bit(rest)
                rest &= rest - 1
                for action in range(trie.ranges[bit], trie.ranges[bit + _1]):
                    if trie.actions[action, DEPTH] != depth:
                        continue
                    if backward and trie.actions[action, ADDS] == np.uint64(second == 0):
                        backwards(action, trie, numbers)
                    elif not backward and trie.actions[action, ADDS] == np.uint64(second == 1):
                        forwards(action, trie, numbers)


@inlined
def turn_over(
    first: Any, last: Any, events: Events, starts: int, trie: Trie, turned: Array, front: Array, front_ts: Array
) -> Any:
    """Goes over the places [first, last) backwards and writes a row of the front for each start event, the latest first;
    returns the number of the oldest.
    """
    masks = events.masks
    nodes = trie.nodes
    refill(turned, trie.turned)
    rows = _0
    behind = last
    while behind > first:
        at = behind - 1
        while at > first and events.rank[at - 1] == events.rank[at]:
            at -= 1
        begun = masks[at] & starts
        if behind - at == 1 and masks[at] & (masks[at] - 1) == 0:
            bit = lowest_bit(masks[at])
            action = trie.ranges[bit + _1]
            while action > trie.ranges[bit]:
                action -= _1
                backwards(action, trie, turned)
        else:
            for depth in range(1, trie.deepest + 1):
                at_depth(np.uint64(depth), at, behind, True, masks, trie, turned)
            for other in range(at, behind):
                begun |= masks[other] & starts
        piece = _0
        while piece < nodes:  # overwritten by the next event unless this one starts a match
            front[rows * nodes + piece] = turned[piece]
            front[rows * nodes + piece + _1] = turned[piece + _1]
            front[rows * nodes + piece + _2] = turned[piece + _2]
            front[rows * nodes + piece + _3] = turned[piece + _3]
            piece += _4
        front_ts[rows] = events.ts[at]
        rows += np.uint64(begun != 0)
        behind = at
    return np.int64(rows) - 1


@inlined
def count_of(leaf: int, oldest: Any, trie: Trie, back: Array, front: Array) -> Any:
    """How many matches of a leaf's pattern there are; `oldest` is the oldest live row of the front, -1 if there is none."""
    column = trie.columns[leaf]
    total: Any = back[column]
    if oldest >= 0:
        row = np.uint64(oldest) * trie.nodes
        depth = 1
        while trie.paths[leaf, depth] >= 0:
            of_front = front[row + np.uint64(trie.paths[leaf, depth - 1])]
            total = plus(total, times(of_front, back[column + np.uint64(depth)]))
            depth += 1
        total = plus(total, front[row + np.uint64(trie.paths[leaf, depth - 1])])
    return total


@kernel
def count_trie(
    events: Events,
    window: int,
    since: int,
    starts: int,
    trie: Trie,
    back: Array,
    turned: Array,
    front: Array,
    front_ts: Array,
    triggers: Asked,
) -> None:
    """Counts at every query's triggers from the time `since` on."""
    ts = events.ts
    masks = events.masks
    for partition in range(events.offsets.size - 1):
        place: Any = events.offsets[partition]
        end = events.offsets[partition + 1]
        refill(back, trie.back)
        oldest: Any = -1
        first: Any = -1
        while place < end:
            mask = masks[place]
            last = place + 1
            found = mask
            while last < end and events.rank[last] == events.rank[place]:
                found |= masks[last]
                last += 1
            if last - place == 1 and mask & (mask - 1) == 0:
                bit = lowest_bit(mask)
                action = trie.ranges[bit]
                while action < trie.ranges[bit + _1]:
                    forwards(action, trie, back)
                    action += _1
            else:
                for depth in range(trie.deepest, 0, -1):
                    at_depth(np.uint64(depth), place, last, False, masks, trie, back)
            if first < 0 and found & starts:
                first = place
                while not masks[first] & starts:
                    first += 1
            if found & triggers.tests and ts[place] >= since:
                limit = ts[place] - window
                while oldest >= 0 and front_ts[oldest] <= limit:
                    oldest -= 1
                if oldest < 0 and first >= 0 and ts[first] <= limit:
                    while first < last and not (masks[first] & starts and ts[first] > limit):
                        first += 1
                    oldest = turn_over(first, last, events, starts, trie, turned, front, front_ts)
                    refill(back, trie.back)
                    first = -1
                for at in range(place, last):
                    for k in range(ask(masks[at] & triggers.tests, at, triggers)):
                        query = triggers.pending[k]
                        total: Any = np.int64(0)
                        for leaf in range(trie.leaf_ranges[query], trie.leaf_ranges[query + 1]):
                            total = plus(total, count_of(leaf, oldest, trie, back, front))
                        triggers.values[triggers.bases[query] + triggers.positions[query]] = total
                        triggers.positions[query] += 1
            place = last
