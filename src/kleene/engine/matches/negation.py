"""The negation operator: finds matches with a forbidden event in their interval (SASE section 3.3).

The interval is open between the neighbours of the negative component: from the last element of the one before it to the first
of the one after it. Where there is no neighbour, the window bounds it.

Where conditions say which events are forbidden (`kleene.engine.matches.forbidden`), matches that begin their intervals at one
event, and have the events in common which the conditions read, are decided together: by the first forbidden event after that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.events.grouping import group_rows, integer_codes
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matches.forbidden import Forbidden
from kleene.engine.matches.kernels import negation as kernels
from kleene.engine.matches.match_values import MatchRows
from kleene.engine.matches.matches import Matches
from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.plan.operators import NegativeComponent

PARTITIONS_PER_WINDOW = 8
MOST_PARTITIONS = 1 << 20

EMPTY = np.empty(0, np.int64)


class NegativeIndex:
    """The negative events of one component in a working set, in the order in which a method finds those of a match."""

    def __init__(
        self,
        component: NegativeComponent,
        positives: Sequence[str],
        rows: Array,
        method: str,
        window: int | None,
        working: WorkingSet,
        rank: Array,
        keys: Array | None,
        order: Array,
    ) -> None:
        """`positives` are the variables of the branch, to which the component's neighbours are indices; `rows` are the
        negative events; `order` gives the row at each place.
        """
        self._component = component
        self._after = [positives[index] for index in component.after]
        self._before = [positives[index] for index in component.before]
        self._beside = [positives[index] for index in component.beside]
        self._conditional = bool(component.predicates or self._beside)
        self._forbidden: Forbidden | None = None
        self._order = order
        self._method = method = "key_index" if self._conditional else method
        self._window = window or 0
        self._working = working
        self._ts = working.ts
        self._rank = rank
        self._keys = keys if component.keyed and keys is not None else EMPTY
        own = self._keys.take(rows) if component.keyed else np.zeros(rows.size, np.int64)
        self._origin, self._width = 0, 1
        self._bounds = EMPTY
        if method == "key_index":
            grouped = group_rows(own, int(self._keys.max(initial=0)) + 1, rows, rows)
            rows, self._bounds = grouped.ts, grouped.offsets
        elif method == "time_index" and rows.size:
            ts = self._ts.take(rows)
            self._origin = int(ts[0])
            span = int(ts[-1]) - self._origin + 1
            self._width = max(1, (window or span) // PARTITIONS_PER_WINDOW, span // MOST_PARTITIONS)
            partitions = (ts - self._origin) // self._width
            order = np.lexsort((own, partitions))
            rows, own = rows.take(order), own.take(order)
            self._bounds = np.searchsorted(partitions, np.arange(int(partitions[-1]) + 2))
        self._rows, self._own = rows, own

    def dead(self, bound: BoundQuery, matches: Matches) -> Array:
        """Which of the matches have a forbidden event."""
        return np.asarray(self.earliest(bound, matches) < self._ts.size)

    def earliest(self, bound: BoundQuery, matches: Matches) -> Array:
        """The row of each match's earliest forbidden event, or the number of rows if it has none."""
        found = np.full(matches.count, self._ts.size, np.int64)
        if self._rows.size == 0 or not matches.count:
            return found
        intervals = self._intervals(matches)
        if self._conditional:
            return self._earliest_by_conditions(bound, matches.mapped(self._order), intervals)
        if self._method == "key_index":
            kernels.probe(intervals, self._bounds, self._rows, found)
        elif self._method == "time_index":
            times = np.array(self._times(matches, *self._neighbours(matches)))
            kernels.probe_times(intervals, times, self._origin, self._width, self._bounds, self._own, self._rows, found)
        else:
            kernels.scan(intervals, self._own, self._rows, found)
        return found

    def _neighbours(self, matches: Matches) -> tuple[Array | None, Array | None]:
        """The rows between which the intervals are; None where the window bounds them."""
        after = [self._order.take(matches.last_of(variable)) for variable in self._after]
        before = [self._order.take(matches.first_of(variable)) for variable in self._before]
        return np.maximum.reduce(after) if after else None, np.minimum.reduce(before) if before else None

    def _times(self, matches: Matches, after: Array | None, before: Array | None) -> tuple[Array, Array]:
        """The times at which the intervals begin and end."""
        lowest = self._ts.take(self._order.take(matches.last)) - self._window if after is None else self._ts.take(after)
        highest = self._ts.take(self._order.take(matches.first)) + self._window if before is None else self._ts.take(before)
        return lowest, highest

    def _intervals(self, matches: Matches) -> kernels.Intervals:
        """What the kernels read of the matches, by row."""
        after, before = self._neighbours(matches)
        lowest, highest = self._times(matches, after, before)
        return kernels.Intervals(
            after=lowest if after is None else self._rank.take(after),
            before=highest if before is None else self._rank.take(before),
            keys=self._keys.take(self._order.take(matches.first)) if self._keys.size else EMPTY,
            begin=self._ts if after is None else self._rank,
            end=self._ts if before is None else self._rank,
        )

    def _earliest_by_conditions(self, bound: BoundQuery, matches: Matches, intervals: kernels.Intervals) -> Array:
        """The same by the component's conditions; `matches` are given by row."""
        group, chosen = self._alike(matches, intervals)
        latest = np.full(chosen.size, np.iinfo(np.int64).min)
        np.maximum.at(latest, group, intervals.before)
        keys = intervals.keys.take(chosen) if intervals.keys.size else EMPTY
        widest = intervals._replace(after=intervals.after.take(chosen), before=latest, keys=keys)
        low, high = np.empty(chosen.size, np.int64), np.empty(chosen.size, np.int64)
        kernels.find_ranges(widest, self._bounds, self._rows, low, high)
        if self._forbidden is None:
            self._forbidden = Forbidden(self._component, self._beside, bound, self._rows, self._working)
        first = self._forbidden.first(matches.take(chosen), low, high).take(group)
        rows = np.append(self._rows, self._ts.size).take(first)
        inside = np.append(intervals.end, np.iinfo(np.int64).max).take(rows) < intervals.before
        return np.where(inside, rows, self._ts.size)

    def _alike(self, matches: Matches, intervals: kernels.Intervals) -> tuple[Array, Array]:
        """The group of each match, and a match of each group: those of one begin their intervals at one event, and have the
        events in common that the conditions read.
        """
        everyone = np.arange(matches.count)
        on = MatchRows(matches)
        parts = [intervals.after, intervals.keys] if intervals.keys.size else [intervals.after]
        parts += [matches.singles[variable] for variable in self._beside if variable in matches.singles]
        for node in (node for predicate in self._component.predicates for node in p.walk(predicate)):
            if isinstance(node, p.Attribute) and node.variable != self._component.event.variable:
                if on.reads_list(node) or node.element not in (p.Element.SINGLE, p.Element.FIRST, p.Element.LAST):
                    return everyone, everyone
                parts.append(on.places(node))
            elif isinstance(node, p.Aggregate | p.Length):
                return everyone, everyone
        if any(variable in matches.lists for variable in self._beside):
            return everyone, everyone
        codes, count = integer_codes(parts[0])
        for part in parts[1:]:
            further, size = integer_codes(part)
            if count * size >= 1 << 62:
                return everyone, everyone
            codes, count = integer_codes(codes * size + further)
        example = np.full(count, -1)
        example[codes] = everyone
        used = example >= 0
        return (np.cumsum(used) - 1).take(codes), example[used]
