"""Values of partitions as values of groups, in stream order: what partitions count is added up, and expiries take their turn.

A partition's value changes at its triggers and when its start events expire; a group's value is the sum (or the largest) of its
partitions'. Integers are kept as running totals, which is exact; floats and largest values in a tree over the partitions of a
group, which never has to subtract. Cost: constant for integers, logarithmic in the partitions of a group for the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kleene.common.arrays import Array
from kleene.engine.counting.kernels.counting import CAP, FLOAT_TOTAL, NONE, TOTAL
from kleene.engine.kernels import inlined, kernel

ROWS, OVERFLOWED = range(2)


class Changes(NamedTuple):
    """Values of partitions, in stream order: the row of each, and where its values stand (rows of `values` are slots)."""

    rows: Array
    sources: Array
    values: Array
    floats: Array


class Totals(NamedTuple):
    """The values of partitions, and of groups as totals and as trees over their partitions."""

    kinds: Array
    current: Array
    leaves: Array
    roots: Array
    trees: Array
    float_trees: Array
    totals: Array
    float_totals: Array


class Stream(NamedTuple):
    """Events by row: whether each is a trigger, its partition and its group."""

    ts: Array
    rank: Array
    emitting: Array
    partition: Array
    group: Array


class Span(NamedTuple):
    """The instants that rows are wanted of: since <= instant < until; with `on_change` those of expiries too."""

    since: int
    until: int
    window: int
    on_change: bool
    ending: bool = False
    """Whether rows of expiries leave out what events of their instant end."""


class Marks(NamedTuple):
    """By group the last instants of a trigger and of an expiry; a row for each group in which something expires now, and the
    values before.
    """

    triggered: Array
    stamped: Array
    touched: Array
    earlier: Array
    float_earlier: Array


class Found(NamedTuple):
    """The rows that are found; of those of expiries also the values before."""

    rows: Array
    expired: Array
    values: Array
    floats: Array
    earlier: Array
    float_earlier: Array


@inlined
def put(partition: int, group: int, source: int, values: Array, floats: Array, into: Totals) -> bool:
    """Makes `values[:, source]` the values of a partition; returns whether an integer left 64 bits."""
    for slot in range(into.kinds.size):
        kind = into.kinds[slot]
        if kind == TOTAL:
            new = values[slot, source]
            rest = into.totals[slot, group] - into.current[slot, partition]
            if new > CAP - 1 - rest:
                return True
            into.totals[slot, group] = rest + new
            into.current[slot, partition] = new
            continue
        root = into.roots[group]
        node = into.leaves[partition]
        if kind == FLOAT_TOTAL:
            tree = into.float_trees[slot]
            tree[root + node] = floats[slot, source]
            while node > 1:
                node >>= 1
                tree[root + node] = tree[root + 2 * node] + tree[root + 2 * node + 1]
            into.float_totals[slot, group] = tree[root + node]
        else:
            largest = into.trees[slot]
            largest[root + node] = values[slot, source]
            while node > 1:
                node >>= 1
                largest[root + node] = max(largest[root + 2 * node], largest[root + 2 * node + 1])
            into.totals[slot, group] = largest[root + node]
    return False


@kernel
def begin(group_of: Array, values: Array, floats: Array, into: Totals) -> bool:
    """Takes in the values of all partitions; returns whether an integer left 64 bits."""
    for partition in range(group_of.size):  # noqa: SIM110  `any` is not compiled
        if put(partition, group_of[partition], partition, values, floats, into):
            return True
    return False


@inlined
def emit(count: int, row: int, group: int, expired: bool, totals: Totals, found: Found) -> None:
    """Writes a row with the values of a group."""
    found.rows[count] = row
    found.expired[count] = expired
    for slot in range(totals.kinds.size):
        found.values[slot, count] = totals.totals[slot, group]
        found.floats[slot, count] = totals.float_totals[slot, group]


@inlined
def end_matches(due: Any, trigger: int, many: int, stream: Stream, triggers: Changes, totals: Totals, marks: Marks) -> bool:
    """After the expiries of an instant: lets its events end matches in groups without a trigger then, and takes the same from
    the values before the expiries; returns whether an integer left 64 bits. Largest values cannot be taken back.
    """
    for k in range(many):
        group = stream.group[marks.touched[k]]
        for slot in range(totals.kinds.size):
            marks.earlier[slot, k] -= totals.totals[slot, group]
            marks.float_earlier[slot, k] -= totals.float_totals[slot, group]
    while trigger < triggers.rows.size and stream.ts[triggers.rows[trigger]] == due:
        row = triggers.rows[trigger]
        group = stream.group[row]
        source = triggers.sources[trigger]
        wanted = not stream.emitting[row] and marks.triggered[group] != due
        if wanted and put(stream.partition[row], group, source, triggers.values, triggers.floats, totals):
            return True
        trigger += 1
    for k in range(many):
        group = stream.group[marks.touched[k]]
        for slot in range(totals.kinds.size):
            marks.earlier[slot, k] += totals.totals[slot, group]
            marks.float_earlier[slot, k] += totals.float_totals[slot, group]
    return False


@kernel
def add_up(
    stream: Stream, span: Span, triggers: Changes, expiries: Changes, totals: Totals, marks: Marks, found: Found, state: Array
) -> None:
    """Writes a row for each trigger and, on change, for each instant at which expiry changes a group that has no trigger then,
    with the values before it, which leave out what events of that instant end. Rows of triggers name their event, those of
    expiries the start event that expires. `state` tells how many rows there are, and whether an integer left 64 bits.
    """
    ts = stream.ts
    group_of = stream.group
    trigger = 0
    expiry = 0
    ahead = 0
    ended = NONE  # the last instant whose events have ended matches beside expiries
    count = 0
    while trigger < triggers.rows.size or expiry < expiries.rows.size:
        due = ts[expiries.rows[expiry]] + span.window if expiry < expiries.rows.size else CAP
        now = ts[triggers.rows[trigger]] if trigger < triggers.rows.size else CAP
        if due <= now:
            if due >= span.until:
                break
            if span.on_change:
                while ahead < triggers.rows.size and ts[triggers.rows[ahead]] <= due:
                    row = triggers.rows[ahead]
                    if stream.emitting[row]:
                        marks.triggered[group_of[row]] = ts[row]
                    ahead += 1
            many = 0
            while expiry < expiries.rows.size and ts[expiries.rows[expiry]] + span.window == due:
                row = expiries.rows[expiry]
                group = group_of[row]
                if span.on_change and marks.stamped[group] != due:
                    marks.stamped[group] = due
                    marks.touched[many] = row
                    for slot in range(totals.kinds.size):
                        marks.earlier[slot, many] = totals.totals[slot, group]
                        marks.float_earlier[slot, many] = totals.float_totals[slot, group]
                    many += 1
                source = expiries.sources[expiry]
                if put(stream.partition[row], group, source, expiries.values, expiries.floats, totals):
                    state[OVERFLOWED] = 1
                    return
                expiry += 1
            if span.ending and due >= span.since:
                if end_matches(due, trigger, many, stream, triggers, totals, marks):
                    state[OVERFLOWED] = 1
                    return
                ended = due
            for k in range(many if due >= span.since else 0):
                row = marks.touched[k]
                group = group_of[row]
                if marks.triggered[group] != due:
                    emit(count, row, group, True, totals, found)
                    for slot in range(totals.kinds.size):
                        found.earlier[slot, count] = marks.earlier[slot, k]
                        found.float_earlier[slot, count] = marks.float_earlier[slot, k]
                    count += 1
            continue
        last = trigger
        while last < triggers.rows.size and stream.rank[triggers.rows[last]] == stream.rank[triggers.rows[trigger]]:
            row = triggers.rows[last]
            source = triggers.sources[last]
            if span.ending and ended == now and not stream.emitting[row] and marks.triggered[group_of[row]] != now:
                last += 1
                continue
            if put(stream.partition[row], group_of[row], source, triggers.values, triggers.floats, totals):
                state[OVERFLOWED] = 1
                return
            last += 1
        for k in range(trigger, last if now >= span.since else trigger):
            row = triggers.rows[k]
            if stream.emitting[row]:
                emit(count, row, group_of[row], False, totals, found)
                count += 1
        trigger = last
    state[ROWS] = count
