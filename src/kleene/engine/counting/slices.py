"""Counters over slices of time: one stream that nothing divides, counted by any number of tasks.

Time is cut into contiguous slices; a task writes the rows of one. What it needs of the past:

- with a window, the events that expire while the slice lasts (they lead, and only make the first front), and of the slices
  between them and its own, whose start events all outlive it, nothing but their *summary*;
- without one, the summary of everything before.

A summary is the cells of all segments after a slice, counted from nothing. Summaries of adjacent stretches combine: a match of
a segment in both is, for some place to cut it, one of its first part on the left and one of the rest on the right. So an event
goes to three tasks on average at most, however long the window is. Cost of a combination: one product for each cell and place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.errors import DataError, Problem
from kleene.engine.allowance import Allowance
from kleene.engine.counting.carried import Carried
from kleene.engine.counting.counter_room import Room
from kleene.engine.counting.counters import EVER, LONG_AGO, CounterMatcher, CounterPass
from kleene.engine.counting.kernels import counting, prefixes
from kleene.engine.counting.kernels import slices as kernels
from kleene.engine.counting.kernels.counting import FLOAT_TOTAL, LARGEST, TOTAL
from kleene.engine.counting.kernels.tables import Asked, Counts, Events, Front, Leading, Weights
from kleene.engine.counting.program import Cells, Program, Segment, Slot, Wanted, build_program, cells_of
from kleene.engine.counting.totals import start_values
from kleene.engine.counting.values import Attributes, WeightColumns, require_stable, wanted_of
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.matcher import Found
from kleene.engine.passes.working_matcher import RUN_ROWS, WorkingMatcher
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.counting.shared_counters import SharedCounters, alone

WHOLE = 1 << 62
"""More rows than a task has: it makes one pass over all of them."""


# --- where time is cut ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slice:
    """The instants [since, until), and what is needed of the slices before: of those in `leading` the events from `horizon` on,
    of those in `between` the summary.
    """

    number: int
    since: int
    until: int
    horizon: int
    leading: range
    between: range
    closed: bool = False
    """Whether no event was there when time was cut, and none may come."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What is known of the times of events: the first and the last, and where slices of about as many events begin."""

    first: int
    last: int
    cuts: tuple[int, ...]


def slices_of(plan: CounterPlan, extent: Extent) -> tuple[Slice, ...]:
    """The slices of a plan. They cover all of time, and are right for any events, but for those that come after the last where
    the last slice is closed.
    """
    window, on_change = plan.bound.window, plan.bound.query.emit_on_change
    inner = sorted({cut for cut in extent.cuts if extent.first < cut <= extent.last})
    if window is None:
        return tuple(Slice(i, *span, LONG_AGO, range(0), range(i)) for i, span in enumerate(_spans([LONG_AGO, *inner])))
    begins = [extent.first, *inner]
    end = extent.last + 1
    if on_change:
        begins += [end, *(begin + window for begin in begins if end < begin + window < EVER)]
    elif len(begins) > 1 and window > begins[-1] - begins[-2]:
        begins.append(end)
    spans = _spans([LONG_AGO, *begins])
    found = [_slice(number, spans, window, on_change) for number in range(len(spans))]
    if begins[-1] == end and not on_change:
        found[-1] = replace(found[-1], leading=range(0), closed=True)
    return tuple(found)


def _spans(begins: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(begins, [*begins[1:], EVER], strict=True))


def _slice(number: int, spans: Sequence[tuple[int, int]], window: int, on_change: bool) -> Slice:
    since, until = spans[number]
    horizon = max(since - window + (not on_change), LONG_AGO)
    first = next(i for i, (_, end) in enumerate(spans) if end > horizon)
    last = next((i for i in range(number) if spans[i][0] >= until - window), number)
    return Slice(number, since, until, horizon, range(first, last), range(last, number))


def summarized(slices: Sequence[Slice]) -> bool:
    """Whether any summary is needed."""
    return any(item.between for item in slices)


def has_summaries(plan: CounterPlan) -> bool:
    """Whether slices of a plan can be summarized: not by partition, and only what means the same in all tasks."""
    return not plan.partition and not plan.compares_texts


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


class SummaryMatcher(WorkingMatcher):
    """Takes in the events of a slice; `summary` has its summary at the end."""

    output_schemas = ()

    def __init__(self, plan: CounterPlan, *, run_rows: int = RUN_ROWS) -> None:
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


class SliceMatcher(CounterMatcher):
    """Writes the rows of a slice from its leading events, its own, and the summaries (by slice) of those in between.

    Memory: with summaries in a window, all these events; else as any counters.
    """

    def __init__(
        self,
        plan: CounterPlan,
        events: pa.Schema,
        part: Slice,
        summaries: Mapping[int, bytes],
        *,
        bad_rows: str = "error",
        run_rows: int = RUN_ROWS,
    ) -> None:
        lasting = part.between and plan.bound.window is not None
        super().__init__(alone(plan), events, bad_rows=bad_rows, run_rows=WHOLE if lasting else run_rows)
        self._part = part
        self._summaries = [summaries[number] for number in part.between if number in summaries]
        self._begun = not part.between
        self._written = part.since

    widens = False  # what lies before the slice has been summed up

    def _run(self, watermark: int | None) -> Iterator[Found]:
        if self._part.closed and len(self._working):
            message = "the DataFrame has later events than when it was read first"
            raise DataError(Problem(message, hint="match it again, or cache it before"))
        yield from super()._run(watermark)
        self._written = max(self._written, self._part.since)

    def _pass(self, rows: int, until: int) -> CounterPass:
        until = min(until, self._part.until)
        common = (self._shared, self._working, rows, self._carried, self._written, until, self.allowance)
        if self._begun:
            return CounterPass(*common)
        self._begun = True
        return SlicePass(*common, self._summaries)


class SlicePass(CounterPass):
    """The pass over a slice that starts from summaries."""

    def __init__(
        self,
        shared: SharedCounters,
        working: WorkingSet,
        rows: int,
        carried: Carried | None,
        since: int,
        until: int,
        allowance: Allowance,
        summaries: Sequence[bytes],
    ) -> None:
        require_stable(shared.plans[0], working, rows)
        self._summaries = summaries
        super().__init__(shared, working, rows, carried, since, until, allowance)

    def _is_cautious(self) -> bool:
        return True

    def _between(self) -> Summary:
        """The combined summaries."""
        wanted, bits = self._program.wanted, len(self._shared.scanned)
        program = build_program(wanted, bits, True)
        found = [Summary.from_bytes(data, program) for data in self._summaries]
        return reduce(combination(wanted, bits), found, Summary.of_nothing(program))

    def _count_all(self, room: Room) -> None:
        prefixes = _prefixes(self._program.wanted, len(self._shared.scanned), self._between())
        assert self._carried is not None
        self._carried.keep([], self._first, self._numbers, prefixes.cells.reshape(1, -1), prefixes.floats.reshape(1, -1))
        self._find_carried()
        super()._count_all(room)

    def _count_window(self, window: int, room: Room, expiries: Room) -> None:
        if self._expiring:
            self._before = [self._values_before()]
        self._count_stacked(window, LONG_AGO if self._expiring else self._since, room, expiries)

    def _leading(self) -> Leading:
        between = self._between()
        return Leading(self._leaders(), 1, Counts(between.cells, between.floats))

    def _leaders(self) -> int:
        return int(np.searchsorted(self._ts, self._since, side="left"))

    def _values_before(self) -> tuple[Array, Array]:
        """The values of slots at the very beginning of the slice, before any event expires in it."""
        program, first = self._program, slice(0, self._leaders())
        weights = Weights(*(np.ascontiguousarray(item[:, first]) for item in self._weights))
        events = _one_partition(self._ts[first], self._rank[first], self._groups.masks[first])
        leading = _taken_in(program, Summary.of_nothing(program), events, weights)
        found = combination(program.wanted, len(self._shared.scanned))(leading, self._between())
        return start_values(program, 0, found.cells.reshape(1, -1), found.floats.reshape(1, -1))
