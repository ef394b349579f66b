"""Summaries of slices of time: what counters in one slice need of earlier ones whose start events all outlive it.

A summary is the cells of all segments after a slice, counted from nothing. Summaries of adjacent stretches combine: a match of
a segment in both is, for some place to cut it, one of its first part on the left and one of the rest on the right. Cost of a
combination: one product for each cell and place.

The task of a slice counts from its lead (which expires while the slice lasts and only makes the first front), the combined
summaries of the slices between, and its own events. Without a window the summaries are of everything before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.common.arrays import LONG_AGO, Array
from kleene.engine.counting.carried import UNKNOWN
from kleene.engine.counting.counter_room import Room
from kleene.engine.counting.counters import CounterMatcher, CounterPass
from kleene.engine.counting.kernels import counting, prefixes
from kleene.engine.counting.kernels import slices as kernels
from kleene.engine.counting.kernels.counting import FLOAT_TOTAL, LARGEST, TOTAL
from kleene.engine.counting.kernels.tables import Asked, Counts, Events, Front, Leading, Weights
from kleene.engine.counting.program import Cells, Program, Segment, Slot, Wanted, build_program, cells_of
from kleene.engine.counting.totals import start_values
from kleene.engine.counting.values import Attributes, WeightColumns, require_stable, wanted_of, wanted_of_any
from kleene.engine.matcher import Found, State
from kleene.engine.passes.working_matcher import RUN_ROWS, WorkingMatcher
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.counting.shared_counters import alone

WHOLE = 1 << 62
"""More rows than a task has: it makes one pass over all of them."""


# --- summaries --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Summary:
    """The cells of a stretch of events."""

    cells: Array
    floats: Array

    def to_bytes(self) -> bytes:
        return self.cells.tobytes() + self.floats.tobytes()

    @staticmethod
    def from_bytes(data: bytes, program: Program) -> Summary:
        size = program.initial.size
        return Summary(np.frombuffer(data, np.int64, size), np.frombuffer(data, np.float64, offset=8 * size))

    @staticmethod
    def of_nothing(program: Program) -> Summary:
        return Summary(program.initial, np.zeros(program.floats))


@dataclass(frozen=True, slots=True)
class Combination:
    """How the cells of two stretches become those of both: the cells to begin with, and the terms that are added."""

    initial: Array
    floats: int
    terms: Array

    def __call__(self, left: Summary, right: Summary) -> Summary:
        found = Summary(self.initial.copy(), np.zeros(self.floats))
        kernels.combine(self.terms, left.cells, left.floats, right.cells, right.floats, found.cells, found.floats)
        return found


@lru_cache(maxsize=256)
def combination(wanted: tuple[Wanted, ...], bits: int) -> Combination:
    """The combination of the summaries of some queries."""
    cells = cells_of(wanted, bits, True)
    initial = np.array(cells.initial, np.int64)
    terms = []
    for of, place, slot, cell in cells.entries():
        if not of[1]:
            initial[cell] = 0
        for cut in range(len(of[1]) + 1) if of[1] else (0,):
            terms.append(_term(cells, of, place, slot, cut, cell))
    assert len(cells.initial) == initial.size
    return Combination(initial, cells.floats, np.array(terms, np.int64).reshape(-1, 4))


def _term(cells: Cells, of: Segment, place: int | None, slot: Slot, cut: int, cell: int) -> tuple[int, int, int, int]:
    """What a segment has of its first `cut` steps on the left and the rest on the right."""
    negatives, steps = of
    left: Segment = (negatives, steps[:cut])
    right: Segment = (steps[cut - 1][1] if cut else negatives, steps[cut:])
    if place is None:
        return counting.PRODUCT, cell, cells.count(left), cells.count(right)
    if place < cut:
        return _ON_LEFT[slot.kind], cell, cells.carried(left, place, slot), cells.count(right)
    return _ON_RIGHT[slot.kind], cell, cells.count(left), cells.carried(right, place - cut, slot)


_ON_LEFT = {TOTAL: counting.PRODUCT, FLOAT_TOTAL: counting.FLOAT_FRONT, LARGEST: counting.LARGEST_FRONT}
_ON_RIGHT = {TOTAL: counting.PRODUCT, FLOAT_TOTAL: counting.FLOAT_BACK, LARGEST: counting.LARGEST_BACK}


def _prefixes(wanted: tuple[Wanted, ...], bits: int, summary: Summary) -> Summary:
    """The cells of the program without a window, which counts prefixes only."""
    known = {entry[:3]: entry[3] for entry in cells_of(wanted, bits, True).entries()}
    prefixes = cells_of(wanted, bits, False)
    found = Summary(np.array(prefixes.initial, np.int64), np.zeros(prefixes.floats))
    for of, place, slot, cell in prefixes.entries():
        floating = place is not None and slot.is_float
        source, target = (summary.floats, found.floats) if floating else (summary.cells, found.cells)
        target[cell] = source[known[of, place, slot]]
    return found


def _taken_in(program: Program, summary: Summary, events: Events, weights: Weights) -> Summary:
    """The summary of events after those of a summary."""
    counts = Counts(summary.cells.reshape(1, -1).copy(), summary.floats.reshape(1, -1).copy())
    nothing = np.empty(0, np.int64)
    nobody = Asked(0, *(nothing,) * 9, np.empty(0))
    front = Front(nothing, nothing, nothing.reshape(0, 0), np.empty((0, 0)), nothing)
    prefixes.count_all(events, LONG_AGO, program.forward, weights, counts, front, program.values, nobody)
    return Summary(counts.cells[0], counts.floats[0])


def _one_partition(ts: Array, rank: Array, masks: Array) -> Events:
    return Events(np.array([0, ts.size], np.int64), ts, rank, masks)


def summary_of(plan: CounterPlan, events: Iterable[pa.RecordBatch], *, run_rows: int = RUN_ROWS) -> bytes | None:
    """The summary of events in stream order; None if there are none. Bad rows are passed over."""
    matcher = SummaryMatcher(plan, run_rows)
    for batch in events:
        list(matcher.feed(batch))
    list(matcher.finish())
    return None if matcher.summary is None else matcher.summary.to_bytes()


class SummaryMatcher(WorkingMatcher):
    """Takes in the events of a slice; `summary` has its summary at the end."""

    output_schemas = ()

    def __init__(self, plan: CounterPlan, run_rows: int) -> None:
        self._shared = alone(plan)
        super().__init__(self._shared, "drop", run_rows, 1)
        self.summary: Summary | None = None
        """None: there was no event."""

    def _run(self, watermark: int | None) -> Iterator[Found]:
        working = self._working
        rows = len(working) if watermark is None else int(np.searchsorted(working.ts, watermark, side="left"))
        if rows:
            self._take_in(rows)
        if watermark is not None:
            working.forget(watermark - 1)
        yield from ()

    def _take_in(self, rows: int) -> None:
        shared, working = self._shared, self._working
        require_stable(shared.plans[0], working, rows)
        attributes, weights = Attributes(shared.bound, working, rows), WeightColumns()
        wanted, _ = wanted_of(shared.plans[0], shared.bits[0], attributes, weights, cautious=True)
        program = build_program((wanted,), len(shared.scanned), True)
        events = _one_partition(working.ts[:rows], working.rank()[:rows], working.masks[:rows])
        before = self.summary or Summary.of_nothing(program)
        self.summary = _taken_in(program, before, events, weights.of(attributes, rows))


# --- the rows of a slice ----------------------------------------------------------------------------------------------


class SummarizedMatcher(CounterMatcher):
    """Counts a slice, restored from its lead, after slices that are summarized.

    Memory: in a window, all these events; else as any counters.
    """

    widens = False  # what lies before the slice has been summed up

    def __init__(
        self, plan: CounterPlan, events: pa.Schema, summaries: Iterable[bytes], *, run_rows: int = RUN_ROWS, **tuning: Any
    ) -> None:
        super().__init__(alone(plan), events, run_rows=run_rows if plan.bound.window is None else WHOLE, **tuning)
        self._wanted, self._bits = (wanted_of_any(plan, events)[0],), len(plan.scanned)
        program = build_program(self._wanted, self._bits, True)
        found = [Summary.from_bytes(data, program) for data in summaries]
        self._between = reduce(combination(self._wanted, self._bits), found, Summary.of_nothing(program))

    def _resume(self, watermark: int, state: State) -> None:
        super()._resume(watermark, state)
        if self._carried is not None:
            counted = _prefixes(self._wanted, self._bits, self._between)
            cells, floats = counted.cells.reshape(1, -1), counted.floats.reshape(1, -1)
            self._carried.keep([], np.zeros(1, np.int64), np.full(1, UNKNOWN), cells, floats)

    def _pass(self, rows: int, until: int) -> CounterPass:
        if self._carried is not None:
            return super()._pass(rows, until)
        require_stable(self._shared.plans[0], self._working, rows)
        return SummarizedPass(self._between, self._shared, self._working, rows, None, self._written, until, self.allowance)


class SummarizedPass(CounterPass):
    """The pass over a lead and a slice, with what lies between."""

    def __init__(self, between: Summary, *further: Any) -> None:
        self._between = between
        super().__init__(*further)

    def _is_cautious(self) -> bool:
        return True

    def _count_window(self, window: int, room: Room, expiries: Room) -> None:
        if self._expiring:
            self._before = [self._values_before()]
        self._count_stacked(window, LONG_AGO if self._expiring else self._since, room, expiries)

    def _leading(self) -> Leading:
        return Leading(self._leaders(), 1, Counts(self._between.cells, self._between.floats))

    def _leaders(self) -> int:
        return int(np.searchsorted(self._ts, self._since, side="left"))

    def _values_before(self) -> tuple[Array, Array]:
        """The values of slots at the very beginning of the slice, before any event expires in it."""
        program, first = self._program, slice(0, self._leaders())
        weights = Weights(*(np.ascontiguousarray(item[:, first]) for item in self._weights))
        events = _one_partition(self._ts[first], self._rank[first], self._groups.masks[first])
        leading = _taken_in(program, Summary.of_nothing(program), events, weights)
        found = combination(program.wanted, len(self._shared.scanned))(leading, self._between)
        return start_values(program, 0, found.cells.reshape(1, -1), found.floats.reshape(1, -1))
