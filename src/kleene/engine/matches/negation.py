"""The negation operator: finds matches with a forbidden event in their interval (SASE section 3.3).

The interval is open between the neighbours of the negative component: from the last element of the one before it to the first
of the one after it. Where there is no neighbour, the window bounds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.events.grouping import group_rows
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matches.kernels import negation as kernels
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.pattern.bound import BoundQuery
from kleene.plan.operators import NegativeComponent

PAIRS = 1 << 16
"""How many (match, negative event) pairs are decided at a time."""

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
        self._by_pairs = bool(component.predicates or self._beside)
        self._order = order
        self._method = method
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
        if self._rows.size == 0:
            return found
        if self._by_pairs:
            for match, row in self._forbidden(bound, matches):
                np.minimum.at(found, match, row)
            return found
        inside = np.full(matches.count, -1, np.int64)
        self._probe(self._intervals(matches), 0, inside, EMPTY, EMPTY)
        return np.where(inside < 0, found, inside)

    def _forbidden(self, bound: BoundQuery, matches: Matches) -> Iterator[tuple[Array, Array]]:
        """Pairs of a match and a negative row in its interval that it does not bind and that satisfies the predicates."""
        room = max(PAIRS, self._rows.size)
        undecided = np.full(matches.count, -1, np.int64)
        pair_match, pair_row = np.empty(room, np.int64), np.empty(room, np.int64)
        common, begin = self._intervals(matches), 0
        while begin < matches.count:
            begin, found = self._probe(common, begin, undecided, pair_match, pair_row)
            if found:
                held = self._decide(bound, matches, pair_match[:found], pair_row[:found])
                yield pair_match[:found][held], pair_row[:found][held]

    def _intervals(self, matches: Matches) -> kernels.Intervals:
        """What the kernels read of the matches, by row."""
        first, last = self._order.take(matches.first), self._order.take(matches.last)
        after = [self._order.take(matches.last_of(variable)) for variable in self._after]
        before = [self._order.take(matches.first_of(variable)) for variable in self._before]
        after_rows = np.maximum.reduce(after) if after else EMPTY
        before_rows = np.minimum.reduce(before) if before else EMPTY
        match_keys = self._keys.take(first) if self._keys.size else EMPTY
        return kernels.Intervals(first, last, after_rows, before_rows, match_keys, self._window, self._ts, self._rank)

    def _probe(
        self, intervals: kernels.Intervals, begin: int, found: Array, pair_match: Array, pair_row: Array
    ) -> tuple[int, int]:
        out = (begin, self._by_pairs, found, pair_match, pair_row)
        if self._method == "key_index":
            return kernels.probe(intervals, self._bounds, self._rows, *out)
        if self._method == "time_index":
            return kernels.probe_times(intervals, self._origin, self._width, self._bounds, self._own, self._rows, *out)
        return kernels.scan(intervals, self._own, self._rows, *out)

    def _decide(self, bound: BoundQuery, matches: Matches, pair_match: Array, pair_row: Array) -> Array:
        """Which pairs of a match and a negative row that is none of its own satisfy all of the component's predicates."""
        # Pairs come in order of the matches; only the matches that have some are looked at, as rows.
        new = np.ones(pair_match.size, bool)
        new[1:] = pair_match[1:] != pair_match[:-1]
        asked = matches.take(pair_match[new]).mapped(self._order)
        number = np.cumsum(new) - 1
        pairs = MatchRows(asked, number, {self._component.event.variable: pair_row})
        evaluator = MatchEvaluator(bound, self._working.gather, pairs, noticed=self._working.noticed)
        held = ~asked.binds(self._beside, number, pair_row, self._ts.size)
        for predicate in self._component.predicates:
            held &= evaluator.holds(predicate)
        return held
