"""From values of partitions to rows of groups, in stream order; see `kleene.engine.kernels.totals`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kleene.engine.count_program import Program
from kleene.engine.count_values import overflow
from kleene.engine.grouping import Groups
from kleene.engine.kernels import totals
from kleene.engine.kernels.counting import FLOAT_TOTAL, LARGEST, NONE, TOTAL

Array = np.ndarray[Any, Any]

_add_up: Callable[..., None] = totals.add_up  # its arguments are given in groups, which types do not count

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


@dataclass(frozen=True, slots=True)
class Span:
    """The instants that rows are wanted of: since <= instant < until; with `on_change` those of expiries too."""

    since: int
    until: int
    window: int
    on_change: bool


def start_values(program: Program, query: int, cells: Array, floats: Array) -> tuple[Array, Array]:
    """The values of a query's slots from the cells of partitions (rows), nothing being in front."""
    first, last = program.slot_ranges[query], program.slot_ranges[query + 1]
    largest = (program.slots[first:last, 0] == LARGEST)[:, None]
    values = np.where(largest, NONE, np.zeros(cells.shape[0], np.int64))
    float_values = np.zeros((last - first, cells.shape[0]))
    for place, (kind, begin, end) in enumerate(program.slots[first:last]):
        for _, column, cell in program.terms[begin:end]:
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
    trigger_rows, trigger_sources = by_row(triggers.places, groups)
    expiry_rows, expiry_sources = by_row(expiries.places, groups)
    room = trigger_rows.size + (expiry_rows.size if span.on_change else 0)
    state = np.zeros(2, np.int64)
    slots, count = kinds.size, division.groups
    trees = _Trees(kinds, division, before)
    out = (
        np.empty(room, np.int64),
        np.empty(room, bool),
        np.empty((slots, room), np.int64),
        np.empty((slots, room)),
        np.empty((slots, room), np.int64),
        np.empty((slots, room)),
    )
    touched = expiry_rows.size if span.on_change else 0
    _add_up(
        ts,
        rank,
        emitting,
        division.partition,
        division.group_of.take(division.partition),
        span.window,
        span.since,
        span.until,
        span.on_change,
        kinds,
        trigger_rows,
        trigger_sources,
        triggers.values,
        triggers.floats,
        expiry_rows,
        expiry_sources,
        expiries.values,
        expiries.floats,
        *trees.arrays(),
        np.full(count, NEVER, np.int64),
        np.full(count, NEVER, np.int64),
        np.empty(touched, np.int64),
        np.empty((slots, touched), np.int64),
        np.empty((slots, touched)),
        *out,
        state,
    )
    if state[totals.OVERFLOWED]:
        raise overflow()
    made = int(state[totals.ROWS])
    events, expired, values, floats, earlier, float_earlier = (array[..., :made] for array in out)
    instants = ts[events] + np.where(expired, span.window, 0)
    return Rows(events, instants, values, floats, expired), earlier[:, expired], float_earlier[:, expired]


class _Trees:
    """The values of partitions, and of groups as totals and as trees over their partitions."""

    def __init__(self, kinds: Array, division: Division, before: tuple[Array, Array] | None) -> None:
        group_of, groups = division.group_of, division.groups
        slots, partitions = kinds.size, group_of.size
        self._current = np.zeros((slots, partitions), np.int64)
        order = np.argsort(group_of, kind="stable")
        members = np.bincount(group_of, minlength=groups)
        sizes = np.int64(1) << np.ceil(np.log2(np.maximum(members, 1))).astype(np.int64)
        self._roots = np.concatenate([[0], np.cumsum(2 * sizes)]).astype(np.int64)
        firsts = np.concatenate([[0], np.cumsum(members)])[:-1]
        self._leaves = np.empty(partitions, np.int64)
        self._leaves[order] = np.arange(partitions) - np.repeat(firsts, members) + np.repeat(sizes, members)
        nodes = int(self._roots[-1]) if (kinds != TOTAL).any() else 0
        self._trees = np.full((slots, nodes), NONE, np.int64)
        self._float_trees = np.zeros((slots, nodes))
        self._totals = np.where((kinds == LARGEST)[:, None], NONE, np.zeros(groups, np.int64))
        self._float_totals = np.zeros((slots, groups))
        if before is not None:
            self._begin(kinds, group_of, *before)

    def _begin(self, kinds: Array, group_of: Array, values: Array, floats: Array) -> None:
        """Starts from the values that partitions have already."""
        if totals.begin(group_of, kinds, values, floats, *self.arrays()):
            raise overflow()

    def arrays(self) -> tuple[Array, ...]:
        return (
            self._current,
            self._leaves,
            self._roots,
            self._trees,
            self._float_trees,
            self._totals,
            self._float_totals,
        )
