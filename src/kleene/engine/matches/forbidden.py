"""Which event of its interval is the first that a negative component forbids, where conditions say which ones.

Conditions that compare a value of the negative event with values of the match leave a range of it (`kleene.plan.analysis.
narrowing`): events are tested by integers, and looked up by value once that takes less time. What else there is is decided on
columns of pairs, at first of one event for each match, then of twice as many each time: the first hit decides.

Cost: 0.5 ns an event that is looked at; 0.1-0.3 us a match with the index; 50-100 ns a pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.events.magnitudes import may_overflow
from kleene.engine.events.ranking import NONE, ranked
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.scale import Scale
from kleene.engine.expressions.vectorized import Evaluator
from kleene.engine.matches.kernels import negation as kernels
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Expression
from kleene.plan.analysis.narrowing import Narrowing, narrowings
from kleene.plan.operators import NegativeComponent

PAIRS = 1 << 16
"""How many (match, negative event) pairs are decided at a time."""

WORTH_RANKING = 64
"""Negative events are looked at N times each before they are ordered by value."""

SAMPLED = 64
"""By how many matches and negative events it is estimated how many of them a range leaves."""


class Forbidden:
    """The search for the negative events of one component that its conditions forbid."""

    def __init__(
        self, component: NegativeComponent, beside: Sequence[str], bound: BoundQuery, rows: Array, working: WorkingSet
    ) -> None:
        """`rows` are the negative events, in the order in which they are searched; `beside` the variables whose events are not
        meant.
        """
        self._component = component
        self._beside = beside
        self._bound = bound
        self._rows = rows
        self._working = working
        self._rest: list[Expression] = []
        """What is decided on pairs."""
        self._narrowed: list[tuple[Scale, list[Narrowing]]] = []
        self._separate()
        values = [scale.numbers for scale, _ in self._narrowed]
        self._known = np.logical_and.reduce([scale.known for scale, _ in self._narrowed] or [np.ones(rows.size, bool)])
        if not self._known.all():
            values.append(self._known.astype(np.int64))  # that it is 1 is asked of all
        self._values = np.array(values, np.int64).reshape(len(values), rows.size)
        self._ranked, self._item = NONE, 0
        self._state = np.zeros(1, np.int64)

    def _separate(self) -> None:
        """Sorts the conditions into ranges and the rest."""
        evaluator = Evaluator(self._bound, lambda _, name: self._working.gather(name, self._rows), self._rows.size)
        scales: dict[object, Scale | None] = {}
        found: dict[object, list[Narrowing]] = {}
        for predicate in self._component.predicates:
            parts = narrowings(self._bound, predicate, self._component.event.variable)
            if not parts and not may_overflow(self._bound, self._working):
                parts = narrowings(self._bound, predicate, self._component.event.variable, moving=True)
            for item in parts:
                key = item.own, item.scale
                if key not in scales:
                    scales[key] = Scale.of(item.scale, item.own, evaluator.computed)
                found.setdefault(key, []).append(item)
            exact = all(scales[item.own, item.scale] is not None and item.magnitude is None for item in parts)
            if not parts or not exact:
                self._rest.append(predicate)
        self._narrowed = [(scale, found[key]) for key, scale in scales.items() if scale is not None]

    def first(self, matches: Matches, low: Array, high: Array) -> Array:
        """The first forbidden one of the negative events from `low` to before `high`, for each match; how many there are if
        none is.
        """
        found = np.full(matches.count, self._rows.size, np.int64)
        ranges, rest = self._ranges(matches), self._rest
        if ranges is None:
            empty = np.empty((0, matches.count), np.int64)
            ranges, rest = kernels.Ranges(self._values[:0], empty, empty, 0), list(self._component.predicates)
        at, undecided, most = low.copy(), np.flatnonzero(low < high), 1
        while undecided.size:
            step = max(1, PAIRS // most)
            for begin in range(0, undecided.size, step):
                for match, entry in self._listed(undecided[begin : begin + step], at, high, ranges, most):
                    held = self._held(matches, match, self._rows.take(entry), rest)
                    np.minimum.at(found, match[held], entry[held])
            undecided = undecided[(found[undecided] == self._rows.size) & (at[undecided] < high[undecided])]
            most = min(2 * most, PAIRS)
        return found

    def _ranges(self, matches: Matches) -> kernels.Ranges | None:
        """What the conditions leave; None if that cannot be computed for some match."""
        evaluator = MatchEvaluator(self._bound, self._working.gather, MatchRows(matches))
        ends = [scale.ranges(items, matches.count, evaluator.computed) for scale, items in self._narrowed]
        known = [item for item in ends if item is not None]
        if len(known) < len(ends):
            return None
        shape = len(self._values), matches.count
        lowest, highest = np.ones(shape, np.int64), np.ones(shape, np.int64)
        for item, (low, high) in enumerate(known):
            lowest[item], highest[item] = low, high
        item = self._item if self._ranked.size else self._rarest(lowest, highest)
        return kernels.Ranges(self._values, lowest, highest, item)

    def _listed(self, asked: Array, at: Array, high: Array, ranges: kernels.Ranges, most: int) -> Iterable[tuple[Array, Array]]:
        """Pairs of a match and the next entries in its ranges."""
        pair_match, pair_entry = np.empty(asked.size * most, np.int64), np.empty(asked.size * most, np.int64)
        begin = 0
        while begin < asked.size:
            wait = WORTH_RANKING * self._rows.size if self._narrowed and not self._ranked.size else np.iinfo(np.int64).max
            index = self._ranked if len(ranges.values) else NONE
            begin, count = kernels.list_forbidden(
                asked, begin, at, high, ranges, index, most, wait, self._state, pair_match, pair_entry
            )
            if count:
                yield pair_match[:count], pair_entry[:count]
            if begin < asked.size:
                self._item = ranges.item
                self._ranked = ranked(self._values[ranges.item], self._known, float(np.mean(high - at)))

    def _rarest(self, lowest: Array, highest: Array) -> int:
        """The number of the value of which the ranges leave least, by a sample."""
        if len(self._values) < 2:
            return 0
        values = self._values[:, None, :: max(1, self._rows.size // SAMPLED)]
        every = max(1, lowest.shape[1] // SAMPLED)
        low, high = lowest[:, ::every, None], highest[:, ::every, None]
        return int(np.argmin(np.mean((low <= values) & (values <= high), axis=(1, 2))))

    def _held(self, matches: Matches, pair_match: Array, pair_row: Array, rest: Sequence[Expression]) -> Array:
        """Which pairs of a match and a negative row that is none of its own satisfy the rest of the conditions."""
        if not rest and not self._beside:
            return np.ones(pair_match.size, bool)
        # Pairs come in order of the matches; only the matches that have some are looked at, as rows.
        new = np.ones(pair_match.size, bool)
        new[1:] = pair_match[1:] != pair_match[:-1]
        asked = matches.take(pair_match[new])
        number = np.cumsum(new) - 1
        pairs = MatchRows(asked, number, {self._component.event.variable: pair_row})
        evaluator = MatchEvaluator(self._bound, self._working.gather, pairs, noticed=self._working.noticed)
        held = ~asked.binds(self._beside, number, pair_row, len(self._working))
        for predicate in rest:
            held &= evaluator.holds(predicate)
        return held
