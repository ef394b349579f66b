"""The negation operator: removes sequences with a forbidden event in their interval (SASE section 3.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.engine.kernels import negation as kernels
from kleene.engine.vectorized import Evaluator
from kleene.engine.working_set import WorkingSet
from kleene.pattern.bound import BoundQuery
from kleene.plan.sequence import NegativeComponent

Array = np.ndarray[Any, Any]

PAIRS = 1 << 16
"""How many (match, negative event) pairs are decided at a time."""

PARTITIONS_PER_WINDOW = 8
MOST_PARTITIONS = 1 << 20

EMPTY = np.empty(0, np.int64)


class NegativeIndex:
    """The negative events of one component in a working set, cut into time partitions and ordered by key within each."""

    def __init__(
        self,
        component: NegativeComponent,
        bit: int,
        method: str,
        window: int | None,
        working: WorkingSet,
        rank: Array,
        keys: Array | None,
    ) -> None:
        self._component = component
        self._indexed = method == "time_index"
        self._window = window or 0
        self._working = working
        self._ts = working.ts
        self._rank = rank
        self._keys = keys if component.keyed and keys is not None else EMPTY
        rows = np.flatnonzero((working.masks >> bit) & 1)
        own = self._keys.take(rows) if component.keyed else np.zeros(rows.size, np.int64)
        self._origin, self._width = 0, 1
        self._bounds = EMPTY
        if self._indexed and rows.size:
            ts = self._ts.take(rows)
            self._origin = int(ts[0])
            span = int(ts[-1]) - self._origin + 1
            self._width = max(1, (window or span) // PARTITIONS_PER_WINDOW, span // MOST_PARTITIONS)
            partitions = (ts - self._origin) // self._width
            order = np.lexsort((own, partitions))
            rows, own = rows.take(order), own.take(order)
            self._bounds = np.searchsorted(partitions, np.arange(int(partitions[-1]) + 2))
        self._rows, self._own = rows, own

    def dead(self, bound: BoundQuery, variables: list[str], sequences: Array) -> Array:
        """Which of the sequences (rows per component and sequence) have a forbidden event."""
        count = sequences.shape[1]
        dead = np.zeros(count, bool)
        if self._rows.size == 0:
            return dead
        predicates = self._component.predicates
        room = max(PAIRS, self._rows.size) if predicates else 0
        pair_match, pair_row = np.empty(room, np.int64), np.empty(room, np.int64)
        begin = 0
        while begin < count:
            begin, found = self._probe(sequences, begin, bool(predicates), dead, pair_match, pair_row)
            if found:
                matches, rows = pair_match[:found], pair_row[:found]
                held = self._decide(bound, variables, sequences, matches, rows)
                dead[matches[held]] = True
        return dead

    def _probe(
        self, sequences: Array, begin: int, pairs: bool, dead: Array, pair_match: Array, pair_row: Array
    ) -> tuple[int, int]:
        component = self._component
        first, last = sequences[0], sequences[-1]
        after = EMPTY if component.after is None else sequences[component.after]
        before = EMPTY if component.before is None else sequences[component.before]
        match_keys = self._keys.take(first) if self._keys.size else EMPTY
        common = (first, last, after, before, match_keys, self._window, self._ts, self._rank)
        out = (begin, pairs, dead, pair_match, pair_row)
        if self._indexed:
            index = (self._origin, self._width, self._bounds, self._own, self._rows)
            return kernels.probe(*common, *index, *out)
        return kernels.scan(*common, self._own, self._rows, *out)

    def _decide(self, bound: BoundQuery, variables: list[str], sequences: Array, matches: Array, rows: Array) -> Array:
        """Which pairs satisfy all of the component's predicates."""

        def column(variable: str, name: str) -> Any:
            if variable == self._component.event.variable:
                return self._working.gather(name, rows)
            return self._working.gather(name, sequences[variables.index(variable)].take(matches))

        evaluator = Evaluator(bound, column, rows.size)
        held = np.ones(rows.size, bool)
        for predicate in self._component.predicates:
            held &= evaluator.holds(predicate)
        return held
