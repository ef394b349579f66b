"""Taking a part out of the shared match buffer, counting the matches in it, and finding one by its number.

Nodes are laid out as in `kleene.engine.automaton.kernels.nfa`: a match is a path from an end to a node without a previous one,
a union is where it has two ways to go, and nodes name only earlier ones. So one pass backwards finds what a set of ends
reaches, and one pass forwards counts the paths below each node.

A history (a path below a node) is alive at an end if it starts inside the window there: if the time of its start is later than
the end's *horizon*. A node knows its youngest and its oldest start; where the horizon lies between them, the live histories are
counted for that horizon alone, union by union. Starts of one node are in the order of time. A union is *separated* if its
older way has only starts before those of its younger way. A horizon cuts but one union of a chain of those: jumps find it.

Cost: some nanoseconds for a node and for an end; for an end whose window cuts histories off, the unions that it cuts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels.layout import COMPONENT, EVENT, GONE, OTHER, PREVIOUS, YOUNGEST
from kleene.engine.kernels import inlined, kernel

NEVER = np.iinfo(np.int64).max
"""The limit of a node that no end reaches."""

TOO_MANY = -1
"""In place of a count that does not fit 64 bits."""

# Entries of `span`: how many nodes are reached, and the first and last of their places.
REACHED, LOW_PLACE, HIGH_PLACE = range(3)


class Histories(NamedTuple):
    """Nodes, and what is known of the histories below each: see `count_histories` and `lift`."""

    times: Array
    """The time of each event."""
    nodes: Array
    totals: Array
    oldest: Array
    forks: Array
    olders: Array
    jumps: Array


class Marks(NamedTuple):
    """What is known of unions that a horizon cuts: those with the stamp of the horizon at hand."""

    stamps: Array
    live: Array
    starts: Array
    stack: Array


@kernel
def reach(
    ends: Array, horizons: Array, entries: Array, nodes: Array, used: int, clock: Array, limits: Array, span: Array
) -> int:
    """Which nodes belong to matches of the ends: `limits[node]` becomes the least horizon of those that reach it, or NEVER.

    `entries` gets the numbers of the ends that are alive themselves; returns how many.
    """
    for node in range(used):
        limits[node] = NEVER
    live = 0
    for entry in range(ends.size):
        node = ends[entry]
        if clock[nodes[YOUNGEST, node]] > horizons[entry]:
            limits[node] = min(limits[node], horizons[entry])
            entries[live] = entry
            live += 1
    reached = 0
    low = NEVER
    high = -1
    for node in range(used - 1, -1, -1):
        limit = limits[node]
        if limit == NEVER:
            continue
        reached += 1
        event = nodes[EVENT, node]
        if event >= 0:
            low = min(low, event)
            high = max(high, event)
        way = nodes[PREVIOUS, node]
        if way >= 0 and limit < limits[way] and clock[nodes[YOUNGEST, way]] > limit:
            limits[way] = limit
        way = nodes[OTHER, node]
        if way >= 0 and limit < limits[way] and clock[nodes[YOUNGEST, way]] > limit:
            limits[way] = limit
    span[REACHED] = reached
    span[LOW_PLACE] = low
    span[HIGH_PLACE] = high
    return live


@kernel
def mark_events(nodes: Array, used: int, limits: Array, low: int, seen: Array) -> None:
    """Sets `seen[place - low]` for the events of the nodes that are reached."""
    for node in range(used):
        if limits[node] != NEVER and nodes[EVENT, node] >= 0:
            seen[nodes[EVENT, node] - low] = True


@kernel
def take_nodes(
    nodes: Array, used: int, limits: Array, low: int, numbers: Array, variables: Array, renumbered: Array, taken: Array
) -> int:
    """Copies the nodes that are reached, one after the other, with their new numbers; returns how many.

    `numbers[place - low]` is an event's number, `variables[component]` a variable's, `renumbered[node]` becomes a node's.
    A union that has one way left is that way.
    """
    count = 0
    for node in range(used):
        if limits[node] == NEVER:
            renumbered[node] = GONE
            continue
        previous = nodes[PREVIOUS, node]
        if previous >= 0:
            previous = renumbered[previous]
        other = nodes[OTHER, node]
        if other != -1:
            if other >= 0:
                other = renumbered[other]
            if previous == GONE or other == GONE:
                renumbered[node] = max(previous, other)
                continue
            taken[EVENT, count] = -1
            taken[COMPONENT, count] = -1
        else:
            taken[EVENT, count] = numbers[nodes[EVENT, node] - low]
            taken[COMPONENT, count] = variables[nodes[COMPONENT, node]]
        taken[PREVIOUS, count] = previous
        taken[OTHER, count] = other
        taken[YOUNGEST, count] = numbers[nodes[YOUNGEST, node] - low]
        renumbered[node] = count
        count += 1
    return count


@kernel
def divide(nodes: Array, event_offsets: Array, node_offsets: Array) -> bool:
    """Where the nodes of each row begin, given where its events do; returns whether the nodes are in the order of rows."""
    row = 0
    node_offsets[0] = 0
    for node in range(nodes.shape[1]):
        start = nodes[YOUNGEST, node]
        while start >= event_offsets[row + 1]:
            row += 1
            node_offsets[row] = node
        if start < event_offsets[row]:
            return False
    for further in range(row + 1, node_offsets.size):
        node_offsets[further] = nodes.shape[1]
    return True


@kernel
def shift(nodes: Array, node_offsets: Array, event_offsets: Array, sign: int) -> None:
    """Makes numbers within all rows of numbers within a row (sign 1), or the other way around (sign -1)."""
    for row in range(node_offsets.size - 1):
        first_node = sign * node_offsets[row]
        first_event = sign * event_offsets[row]
        for node in range(node_offsets[row], node_offsets[row + 1]):
            if nodes[EVENT, node] >= 0:
                nodes[EVENT, node] += first_event
            if nodes[PREVIOUS, node] >= 0:
                nodes[PREVIOUS, node] += first_node
            if nodes[OTHER, node] >= 0:
                nodes[OTHER, node] += first_node
            nodes[YOUNGEST, node] += first_event


@kernel
def count_histories(nodes: Array, totals: Array, oldest: Array, forks: Array) -> None:
    """For each node the number of its histories (or TOO_MANY), their oldest start, and the union or start that it leads to."""
    for node in range(nodes.shape[1]):
        previous = nodes[PREVIOUS, node]
        other = nodes[OTHER, node]
        if other == -1 and previous >= 0:
            totals[node] = totals[previous]
            oldest[node] = oldest[previous]
            forks[node] = forks[previous]
            continue
        total = np.int64(1) if previous == -1 else np.int64(0)
        start = nodes[YOUNGEST, node]
        if other != -1 and previous >= 0:
            total = totals[previous]
            start = min(start, oldest[previous])
        if other >= 0:
            start = min(start, oldest[other])
            further = totals[other]
            if total == TOO_MANY or further == TOO_MANY or total > NEVER - further:
                total = np.int64(TOO_MANY)
            else:
                total += further
        totals[node] = total
        oldest[node] = start
        forks[node] = node


@kernel
def lift(nodes: Array, oldest: Array, forks: Array, olders: Array, jumps: Array, depths: Array) -> None:
    """For each separated union the union (or start) of its older way, else -1; and a jump further down the chain of older ways.

    The jumps are chosen so that a chain is searched in the logarithm of its length (Myers, applicative random-access stacks).
    """
    for node in range(nodes.shape[1]):
        olders[node] = -1
        jumps[node] = node
        depths[node] = 0
        one = nodes[PREVIOUS, node]
        other = nodes[OTHER, node]
        if one < 0 or other < 0:
            continue
        if nodes[YOUNGEST, one] > nodes[YOUNGEST, other]:
            one, other = other, one
        if oldest[other] > nodes[YOUNGEST, one]:
            older = forks[one]
            jump = jumps[older]
            olders[node] = older
            depths[node] = depths[older] + 1
            if depths[older] - depths[jump] == depths[jump] - depths[jumps[jump]]:
                jumps[node] = jumps[jump]
            else:
                jumps[node] = older


@inlined
def _cut(union: int, horizon: int, of: Histories) -> int:
    """Where the horizon cuts a union: down the older ways for as long as they are alive. What is left on the way is alive."""
    node = union
    if of.totals[node] != TOO_MANY:
        while of.olders[node] >= 0 and of.times[of.nodes[YOUNGEST, of.olders[node]]] > horizon:
            node = of.jumps[node] if of.times[of.nodes[YOUNGEST, of.jumps[node]]] > horizon else of.olders[node]
    return node


@inlined
def _count_live(union: int, horizon: int, mark: int, of: Histories, marks: Marks) -> None:
    """Counts the live histories of a union and of the unions below it that the horizon cuts, marking what is known."""
    top = 0
    marks.stack[0] = union
    while top >= 0:
        node = marks.stack[top]
        total = np.int64(0)
        start = of.nodes[YOUNGEST, node]
        waits = False
        for side in range(2):
            way = of.nodes[PREVIOUS, node] if side == 0 else of.nodes[OTHER, node]
            if way < 0:
                continue
            way = of.forks[way]
            if of.times[of.nodes[YOUNGEST, way]] <= horizon:
                continue
            if of.times[of.oldest[way]] > horizon:
                count = of.totals[way]
                first = of.oldest[way]
            else:
                cut = _cut(way, horizon, of)
                if marks.stamps[cut] != mark:
                    top += 1
                    marks.stack[top] = cut
                    waits = True
                    break
                count = marks.live[cut]
                if cut != way:
                    count += of.totals[way] - of.totals[cut]
                first = marks.starts[cut]
            if total == TOO_MANY or count == TOO_MANY or total > NEVER - count:
                total = np.int64(TOO_MANY)
            else:
                total += count
            start = min(start, first)
        if not waits:
            marks.live[node] = total
            marks.starts[node] = start
            marks.stamps[node] = mark
            top -= 1


@kernel
def count_ends(ends: Array, horizons: Array, of: Histories, marks: Marks, counts: Array, since: Array) -> None:
    """For each end the number of its matches (or TOO_MANY) and the oldest of their starts.

    `times[event]` is compared with the horizon of an end. What `lift` gives, and `stamps` (0 at first), `live`, `starts` and
    `stack` with room per node, are needed only if a horizon cuts histories off.
    """
    mark = 0
    marked = np.int64(0)
    for entry in range(ends.size):
        node = of.forks[ends[entry]]
        horizon = horizons[entry]
        if of.times[of.oldest[node]] > horizon:
            counts[entry] = of.totals[node]
            since[entry] = of.oldest[node]
            continue
        if mark == 0 or horizon != marked:
            mark += 1
            marked = horizon
        cut = _cut(node, horizon, of)
        if marks.stamps[cut] != mark:
            _count_live(cut, horizon, mark, of, marks)
        counts[entry] = marks.live[cut]
        if cut != node:
            counts[entry] += of.totals[node] - of.totals[cut]
        since[entry] = marks.starts[cut]


@kernel
def locate(rows: Array, ranks: Array, end_offsets: Array, counts: Array, entries: Array, within: Array) -> None:
    """Of the match with number `ranks[i]` in row `rows[i]`: its end, and its number among the matches of that end.

    Rows ascend, and so do the numbers within a row.
    """
    row = -1
    entry = 0
    before = np.int64(0)
    for pick in range(rows.size):
        if rows[pick] != row:
            row = rows[pick]
            entry = end_offsets[row]
            before = np.int64(0)
        while ranks[pick] - before >= counts[entry]:
            before += counts[entry]
            entry += 1
        entries[pick] = entry
        within[pick] = ranks[pick] - before


@inlined
def _live_histories(way: int, horizon: int, of: Histories, marks: Marks) -> Any:
    if way < 0:
        count = np.int64(0)
    else:
        fork = of.forks[way]
        if of.times[of.nodes[YOUNGEST, fork]] <= horizon:
            count = np.int64(0)
        elif of.times[of.oldest[fork]] > horizon:
            count = of.totals[fork]
        else:
            cut = _cut(fork, horizon, of)
            count = marks.live[cut]
            if cut != fork:
                count += of.totals[fork] - of.totals[cut]
    return count


@kernel
def draw(
    entries: Array,
    within: Array,
    begin: int,
    ends: Array,
    horizons: Array,
    of: Histories,
    marks: Marks,
    chains: Array,
    lasts: Array,
) -> int:
    """Copies the matches with the given ends and numbers, from the one numbered `begin` on, as chains of their own.

    The order of an end's matches is that in which they are read: the younger way of a union first. `lasts[i]` becomes the last
    node of chain i. Returns how many there are; it stops where `chains` has no room for the next.
    """
    used = 0
    for pick in range(begin, entries.size):
        entry = entries[pick]
        rank = within[pick]
        horizon = horizons[entry]
        node = ends[entry]
        union = of.forks[node]
        if of.times[of.oldest[union]] <= horizon:
            mark = -1 - entry
            cut = _cut(union, horizon, of)
            if marks.stamps[cut] != mark:
                _count_live(cut, horizon, mark, of, marks)
        first = used
        while node >= 0 and used < chains.shape[1]:
            one = of.nodes[PREVIOUS, node]
            other = of.nodes[OTHER, node]
            if other == -1:
                chains[EVENT, used] = of.nodes[EVENT, node]
                chains[COMPONENT, used] = of.nodes[COMPONENT, node]
                chains[PREVIOUS, used] = used + 1
                chains[OTHER, used] = -1
                chains[YOUNGEST, used] = of.nodes[EVENT, node]
                used += 1
                node = one
                continue
            if one == GONE or (other != GONE and of.nodes[YOUNGEST, other] > of.nodes[YOUNGEST, one]):
                one, other = other, one
            count = _live_histories(one, horizon, of, marks)
            if rank < count:
                node = one
            else:
                rank -= count
                node = other
        if node >= 0:
            return pick - begin
        chains[PREVIOUS, used - 1] = -1
        lasts[pick - begin] = first
    return entries.size - begin
