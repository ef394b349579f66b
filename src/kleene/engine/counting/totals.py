"""From values of partitions to rows of groups, in stream order; see `kleene.engine.counting.kernels.totals`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.counting.kernels import totals as kernels
from kleene.engine.counting.kernels.counting import FLOAT_TOTAL, LARGEST, NONE, TOTAL
from kleene.engine.counting.kernels.totals import Span
from kleene.engine.counting.program import Program
from kleene.engine.counting.values import overflow
from kleene.engine.events.grouping import Groups

NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Points:
    """Values of one query's slots at some places (in ascending order): rows of `values` and `floats` are slots."""

    places: Array
    values: Array
    floats: Array


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a query: an event of each (the trigger, or the start event that expires), the instant, the values of slots."""

    events: Array
    instants: Array
    values: Array
    floats: Array
    expired: Array
    """Which rows are those of expiries."""

    def select(self, kept: Array) -> Rows:
        return Rows(self.events[kept], self.instants[kept], self.values[:, kept], self.floats[:, kept], self.expired[kept])


def by_row(places: Array, groups: Groups) -> tuple[Array, Array]:
    """The rows of places in ascending order, and where among the places each is."""
    if groups.is_one:
        return places, np.arange(places.size)
    at = np.full(groups.ts.size, -1, np.int64)
    at[groups.order.take(places)] = np.arange(places.size)
    rows = np.flatnonzero(at >= 0)
    return rows, at[rows]


def in_order(found: Points, groups: Groups, ts: Array) -> Rows:
    """The rows of triggers where every partition is a group."""
    rows, values, floats = found.places, found.values, found.floats
    if not groups.is_one:
        rows, sources = by_row(rows, groups)
        values, floats = values[:, sources], floats[:, sources]
    return Rows(rows, ts.take(rows), values, floats, np.zeros(rows.size, bool))


@dataclass(frozen=True, slots=True)
class Division:
    """The partition of each row, and the group of each partition, as codes."""

    partition: Array
    group_of: Array
    groups: int


def start_values(program: Program, query: int, cells: Array, floats: Array) -> tuple[Array, Array]:
    """The values of a query's slots from the cells of partitions (rows), nothing being in front."""
    first, last = program.values.slot_ranges[query : query + 2]
    largest = (program.kinds(query) == LARGEST)[:, None]
    values = np.where(largest, NONE, np.zeros(cells.shape[0], np.int64))
    float_values = np.zeros((last - first, cells.shape[0]))
    for place, (kind, begin, end) in enumerate(program.values.slots[first:last]):
        for _, column, cell in program.values.terms[begin:end]:
            if column >= 0:
                continue
            if kind == FLOAT_TOTAL:
                float_values[place] += floats[:, cell]
            elif kind == TOTAL:
                values[place] += cells[:, cell]
            else:
                values[place] = np.maximum(values[place], cells[:, cell])
    return values, float_values


def add_up(
    kinds: Array,
    triggers: Points,
    expiries: Points,
    before: tuple[Array, Array] | None,
    groups: Groups,
    ts: Array,
    rank: Array,
    emitting: Array,
    division: Division,
    span: Span,
) -> tuple[Rows, Array, Array]:
    """The rows of a query, and the values that slots had before the expiries among them. `emitting` tells of each row of events
    whether it is a trigger.
    """
    asked = kernels.Changes(*by_row(triggers.places, groups), triggers.values, triggers.floats)
    expired = kernels.Changes(*by_row(expiries.places, groups), expiries.values, expiries.floats)
    touched = expired.rows.size if span.on_change else 0
    room = asked.rows.size + touched
    state, slots = np.zeros(2, np.int64), kinds.size
    found = kernels.Found(np.empty(room, np.int64), np.empty(room, bool), *_room(slots, room), *_room(slots, room))
    triggered, stamped = np.full((2, division.groups), NEVER, np.int64)
    kernels.add_up(
        kernels.Stream(ts, rank, emitting, division.partition, division.group_of.take(division.partition)),
        span,
        asked,
        expired,
        _totals(kinds, division, before),
        kernels.Marks(triggered, stamped, np.empty(touched, np.int64), *_room(slots, touched)),
        found,
        state,
    )
    if state[kernels.OVERFLOWED]:
        raise overflow()
    made = kernels.Found(*(array[..., : state[kernels.ROWS]] for array in found))
    instants = ts[made.rows] + np.where(made.expired, span.window, 0)
    rows = Rows(made.rows, instants, made.values, made.floats, made.expired)
    return rows, made.earlier[:, made.expired], made.float_earlier[:, made.expired]


def _room(slots: int, count: int) -> tuple[Array, Array]:
    """Room for values of slots, integers and floats."""
    return np.empty((slots, count), np.int64), np.empty((slots, count))


def _totals(kinds: Array, division: Division, before: tuple[Array, Array] | None) -> kernels.Totals:
    """Totals of nothing, or of the values that partitions have already."""
    group_of, groups = division.group_of, division.groups
    slots, partitions = kinds.size, group_of.size
    order = np.argsort(group_of, kind="stable")
    members = np.bincount(group_of, minlength=groups)
    sizes = np.int64(1) << np.ceil(np.log2(np.maximum(members, 1))).astype(np.int64)
    roots = np.concatenate([[0], np.cumsum(2 * sizes)]).astype(np.int64)
    firsts = np.concatenate([[0], np.cumsum(members)])[:-1]
    leaves = np.empty(partitions, np.int64)
    leaves[order] = np.arange(partitions) - np.repeat(firsts, members) + np.repeat(sizes, members)
    nodes = int(roots[-1]) if (kinds != TOTAL).any() else 0
    found = kernels.Totals(
        kinds,
        np.zeros((slots, partitions), np.int64),
        leaves,
        roots,
        np.full((slots, nodes), NONE, np.int64),
        np.zeros((slots, nodes)),
        np.where((kinds == LARGEST)[:, None], NONE, np.zeros(groups, np.int64)),
        np.zeros((slots, groups)),
    )
    if before is not None and kernels.begin(group_of, *before, found):
        raise overflow()
    return found
