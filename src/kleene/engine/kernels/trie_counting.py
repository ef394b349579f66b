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

from typing import Any

import numpy as np

from kleene.engine.kernels import inlined, kernel
from kleene.engine.kernels.counting import CAP, lowest_bit, plus, times

Array = np.ndarray[Any, Any]

# Fields of an action: depth of its node, whether it adds (or clears), where its column and its parent's begin, where its row
# and the next begin, where the mask of its subtree begins.
DEPTH, ADDS, COLUMN, PARENT, ROW, BELOW, SUBTREE = (np.uint64(number) for number in range(7))
FIELDS = 7

_0, _1, _2, _3, _4 = (np.uint64(number) for number in range(5))


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
def forwards(action: Any, actions: Array, back: Array, width: Any) -> None:
    """An event of a node, as it comes."""
    column = actions[action, COLUMN]
    piece = _0
    if actions[action, ADDS]:
        parent = actions[action, PARENT]
        add_four(back, column, parent)
        while piece + _4 < width:
            piece += _4
            add_four(back, column + piece, parent + piece)
    else:
        while piece < width:
            back[column + piece] = 0
            piece += _1


@inlined
def backwards(action: Any, actions: Array, turned: Array, subtrees: Array, nodes: Any) -> None:
    """An event of a node, when events are gone over backwards."""
    row = actions[action, ROW]
    mask = actions[action, SUBTREE]
    piece = _0
    if actions[action, ADDS]:
        below = actions[action, BELOW]
        add_masked(turned, row, below, subtrees, mask)
        while piece + _4 < nodes:
            piece += _4
            add_masked(turned, row + piece, below + piece, subtrees, mask + piece)
    else:
        below = actions[action, BELOW]
        while piece < nodes:
            turned[below + piece] &= ~subtrees[mask + piece]
            piece += _1


@inlined
def refill(numbers: Array, initial: Array) -> None:
    for number in range(numbers.size):
        numbers[number] = initial[number]


@inlined
def at_depth(
    depth: Any,
    first: Any,
    last: Any,
    backward: bool,
    masks: Array,
    ranges: Array,
    actions: Array,
    numbers: Array,
    subtrees: Array,
    size: Any,
) -> None:
    """Applies the actions of one depth of the simultaneous events [first, last): clearing before adding as events come, after
    it when they are gone over backwards.
    """
    for second in range(2):
        for place in range(first, last):
            rest = masks[place]
            while rest:
                bit = lowest_bit(rest)
                rest &= rest - 1
                for action in range(ranges[bit], ranges[bit + _1]):
                    if actions[action, DEPTH] != depth:
                        continue
                    if backward and actions[action, ADDS] == np.uint64(second == 0):
                        backwards(action, actions, numbers, subtrees, size)
                    elif not backward and actions[action, ADDS] == np.uint64(second == 1):
                        forwards(action, actions, numbers, size)


@kernel
def count_trie(
    offsets: Array,
    ts: Array,
    rank: Array,
    masks: Array,
    window: int,
    since: int,
    starts: int,
    triggers: int,
    ranges: Array,
    actions: Array,
    deepest: int,
    width: Any,
    nodes: Any,
    subtrees: Array,
    back_initial: Array,
    turned_initial: Array,
    back: Array,
    turned: Array,
    front: Array,
    front_ts: Array,
    trigger_ranges: Array,
    trigger_queries: Array,
    leaf_ranges: Array,
    paths: Array,
    columns: Array,
    seen: Array,
    positions: Array,
    place_bases: Array,
    places: Array,
    bases: Array,
    values: Array,
) -> None:
    """Writes the places of each query's triggers from the time `since` on, and its counts there.

    `ranges` are the actions of each test. A query's leaves are `leaf_ranges`: of each, `paths` has the nodes from depth 1 on
    (-1 after the leaf) and `columns` where the leaf's column begins. Rows have no place for the root.
    """
    for partition in range(offsets.size - 1):
        begin = offsets[partition]
        end = offsets[partition + 1]
        refill(back, back_initial)
        oldest: Any = -1
        first: Any = -1
        place: Any = begin
        while place < end:
            mask = masks[place]
            last = place + 1
            found = mask
            while last < end and rank[last] == rank[place]:
                found |= masks[last]
                last += 1
            if last - place == 1 and mask & (mask - 1) == 0:
                bit = lowest_bit(mask)
                action = ranges[bit]
                while action < ranges[bit + _1]:
                    forwards(action, actions, back, width)
                    action += _1
            else:
                for depth in range(deepest, 0, -1):
                    at_depth(np.uint64(depth), place, last, False, masks, ranges, actions, back, subtrees, width)
            if first < 0 and found & starts:
                first = place
                while not masks[first] & starts:
                    first += 1
            if not found & triggers or ts[place] < since:
                place = last
                continue
            limit = ts[place] - window
            while oldest >= 0 and front_ts[oldest] <= limit:
                oldest -= 1
            if oldest < 0 and first >= 0 and ts[first] <= limit:
                while first < last and not (masks[first] & starts and ts[first] > limit):
                    first += 1
                refill(turned, turned_initial)
                rows = _0
                behind = last
                while behind > first:
                    at = behind - 1
                    while at > first and rank[at - 1] == rank[at]:
                        at -= 1
                    begun = masks[at] & starts
                    if behind - at == 1 and masks[at] & (masks[at] - 1) == 0:
                        bit = lowest_bit(masks[at])
                        action = ranges[bit + _1]
                        while action > ranges[bit]:
                            action -= _1
                            backwards(action, actions, turned, subtrees, nodes)
                    else:
                        for depth in range(1, deepest + 1):
                            at_depth(np.uint64(depth), at, behind, True, masks, ranges, actions, turned, subtrees, nodes)
                        for other in range(at, behind):
                            begun |= masks[other] & starts
                    piece = _0
                    while piece < nodes:  # overwritten by the next event unless this one starts a match
                        front[rows * nodes + piece] = turned[piece]
                        front[rows * nodes + piece + _1] = turned[piece + _1]
                        front[rows * nodes + piece + _2] = turned[piece + _2]
                        front[rows * nodes + piece + _3] = turned[piece + _3]
                        piece += _4
                    front_ts[rows] = ts[at]
                    rows += np.uint64(begun != 0)
                    behind = at
                oldest = np.int64(rows) - 1
                refill(back, back_initial)
                first = -1
            for at in range(place, last):
                asked = masks[at] & triggers
                while asked:
                    bit = lowest_bit(asked)
                    asked &= asked - 1
                    for k in range(trigger_ranges[bit], trigger_ranges[bit + _1]):
                        query = trigger_queries[k]
                        if seen[query] == at:
                            continue
                        seen[query] = at
                        total: Any = np.int64(0)
                        for leaf in range(leaf_ranges[query], leaf_ranges[query + 1]):
                            column = columns[leaf]
                            total = plus(total, back[column])
                            if oldest >= 0:
                                row = np.uint64(oldest) * nodes
                                depth = 1
                                while paths[leaf, depth] >= 0:
                                    of_front = front[row + np.uint64(paths[leaf, depth - 1])]
                                    total = plus(total, times(of_front, back[column + np.uint64(depth)]))
                                    depth += 1
                                total = plus(total, front[row + np.uint64(paths[leaf, depth - 1])])
                        places[place_bases[query] + positions[query]] = at
                        values[bases[query] + positions[query]] = total
                        positions[query] += 1
            place = last
